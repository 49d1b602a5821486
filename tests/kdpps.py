"""Oracles for k-DPPs: every set listed, every determinant taken, nothing shared with the library but the definition."""

from itertools import combinations

import numpy as np


def listed(n, size):
    return np.array(list(combinations(range(n), size)))


def ratios_by_enumeration(L, size, ridge):
    """Give the ratio of every set of `listed`: its determinant over the mean of all of them."""
    determinants = np.array([np.linalg.det(L[np.ix_(s, s)] + ridge * np.eye(size)) for s in listed(len(L), size)])
    determinants = np.maximum(determinants, 0.0)
    return determinants / determinants.mean()


def inclusion_by_enumeration(L, size, ridge):
    sets, ratios = listed(len(L), size), ratios_by_enumeration(L, size, ridge)
    return np.array([ratios[(sets == i).any(axis=1)].sum() for i in range(len(L))]) / len(sets)


def features(n, d, seed=0):
    """Give rows of lengths between a third and three, so that sets differ much in their probabilities."""
    rng = np.random.default_rng([n, d, seed])
    return rng.normal(size=(n, d)) * np.geomspace(0.4, 2.0, n)[:, None]
