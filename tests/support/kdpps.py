"""Oracles for k-DPPs: every set listed, every determinant taken, nothing shared with the library but the definition."""

from fractions import Fraction
from itertools import combinations

import numpy as np


def listed(n, size):
    return np.array(list(combinations(range(n), size)))


def ratios_by_enumeration(L, size, ridge):
    """Give the ratio of every set of `listed`: its determinant over the mean of all of them."""
    determinants = np.array([np.linalg.det(L[np.ix_(s, s)] + ridge * np.eye(size)) for s in listed(len(L), size)])
    determinants = np.maximum(determinants, 0.0)
    return determinants / determinants.mean()


def ratios_by_fractions(X, size, ridge):
    """Give the ratio of every set of `listed`, rounded once: all determinants are fractions."""
    rows = [[Fraction(float(value)) for value in row] for row in X]
    gram = [[sum(a * b for a, b in zip(one, other, strict=True)) for other in rows] for one in rows]
    for i in range(len(rows)):
        gram[i][i] += Fraction(float(ridge))
    determinants = [_determinant([[gram[i][j] for j in s] for i in s]) for s in listed(len(rows), size).tolist()]
    mean = sum(determinants) / len(determinants)
    return np.array([float(value / mean) for value in determinants])


def _determinant(matrix):
    """Give the determinant of a positive semi-definite matrix of fractions: if a pivot is zero, so is all of it."""
    total = Fraction(1)
    for i, row in enumerate(matrix):
        total *= row[i]
        if total == 0:
            return total
        for other in matrix[i + 1 :]:
            part = other[i] / row[i]
            other[:] = [a - part * b for a, b in zip(other, row, strict=True)]
    return total


def inclusion_by_enumeration(L, size, ridge):
    sets, ratios = listed(len(L), size), ratios_by_enumeration(L, size, ridge)
    return np.array([ratios[(sets == i).any(axis=1)].sum() for i in range(len(L))]) / len(sets)


def features(n, d, seed=0):
    """Give rows of lengths between a third and three, so that sets differ much in their probabilities."""
    rng = np.random.default_rng([n, d, seed])
    return rng.normal(size=(n, d)) * np.geomspace(0.4, 2.0, n)[:, None]
