"""The digits of MNIST: as they are, with few of some classes, and with a long tail of rare ones."""

import numpy as np

from lab import datasets
from varmix._core.validation import FloatArray
from varmix._core.validation import IntArray
from lab.experiments.networks.samples import Sample
from lab.experiments.networks.samples import Split

TRAINING = 60_000  # images of MNIST; the last 10,000 are held out
KEPT = 0.05  # of the classes 0 to 4, where MNIST is imbalanced
TAIL = 0.01  # the rarest class of the long tail beside the commonest


def images(count: int = TRAINING) -> Split:
    """MNIST, or its first images, standardised as a whole."""
    data = datasets.load("mnist", fetch=False)
    X = ((np.asarray(data.X, dtype=np.float32) / 255) - np.float32(0.1307)) / np.float32(0.3081)
    y = np.asarray(data.y).astype(np.int64)
    return Split(X[:count], y[:count], y[:count], Sample(X[TRAINING:], y[TRAINING:]))


def _kept(whole: Split, shares: FloatArray) -> Split:
    """Keep a share of the points of every class."""
    rng = np.random.default_rng(1)
    members = [rng.permutation(np.flatnonzero(whole.y == label)) for label in range(len(shares))]
    rows = np.sort(np.concatenate([m[: max(round(s * len(m)), 1)] for m, s in zip(members, shares, strict=True)]))
    return whole._replace(X=whole.X[rows], y=whole.y[rows], groups=whole.y[rows])


def imbalanced(count: int = TRAINING) -> Split:
    """Few images of the classes 0 to 4; held-out images weigh as their classes do among those to learn from."""
    kept = _kept(images(count), np.where(np.arange(10) < 5, KEPT, 1.0))
    mine, theirs = (np.bincount(y, minlength=10) / len(y) for y in (kept.y, kept.held.y))
    return kept._replace(held=kept.held._replace(costs=(mine / theirs)[kept.held.y]))


def long_tail() -> Split:
    """Every class 0.6 as common as the one before; in the loss all classes weigh the same, held out too."""
    kept = _kept(images(), TAIL ** (np.arange(10) / 9))
    return kept._replace(costs=_even(kept.y), held=kept.held._replace(costs=_even(kept.held.y)))


def _even(y: IntArray) -> FloatArray:
    counts = np.bincount(y)
    return np.asarray(len(y) / len(counts) / counts[y])
