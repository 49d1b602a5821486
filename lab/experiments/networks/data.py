"""The data of the tasks: points to learn from, and held-out ones."""

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from lab import datasets
from varmix._core.validation import AnyArray
from varmix._core.validation import FloatArray
from varmix._core.validation import IntArray
from lab.experiments.networks import data__digits as digits
from lab.experiments.networks.samples import Sample
from lab.experiments.networks.samples import Split
from lab.experiments.networks.words import words

HELD_OUT = 0.2  # of data that come in one piece
# Three laboratories: two careful ones, and one whose measurements of a tenth of the points are off by three deviations.
NOISE, SHARES = (0.1, 0.3, 3.0), (0.45, 0.45, 0.1)


@lru_cache(maxsize=1)
def split(name: str) -> Split:
    """Give the data of a task."""
    return SPLITS[name]()


def _rare(name: str) -> Split:
    """One class of a hundred points against the other."""
    data = datasets.load(name, fetch=False)
    y = np.asarray(data.y).astype(np.int64)
    return _cut(_standard(data.X), y, y)


def _regression(name: str) -> Split:
    data = datasets.load(name, fetch=False)
    y = _standard(np.asarray(data.y)[:, None])[:, 0]
    return _cut(_standard(data.X), y, np.zeros(len(y), dtype=np.int64))


def _kegg() -> Split:
    """Targets with heavy tails; groups by how far they are from the median, in three bins of a half, a quarter, ..."""
    whole = _regression("kegg_undirected")
    far = np.abs(whole.y - np.median(whole.y))
    return whole._replace(groups=np.searchsorted(np.quantile(far, [0.5, 0.75]), far).astype(np.int64))


def _sources() -> Split:
    """House values as three laboratories report them; the held-out ones are without that noise."""
    whole, rng = _regression("california_housing"), np.random.default_rng(7)
    source = rng.choice(len(NOISE), p=SHARES, size=len(whole.y))
    noisy = whole.y + rng.normal(size=len(whole.y)) * np.asarray(NOISE)[source]
    return whole._replace(y=noisy.astype(np.float32), groups=source)


def _words() -> Split:
    """Words after six others; groups by how common the word to be told is, in steps of four.

    Every tenth stretch of the text is held out.
    """
    X, y = words()
    held = np.arange(len(y)) * 50 // len(y) % 10 == 9
    counts = np.bincount(y[~held], minlength=int(y.max()) + 1)[y[~held]]
    return Split(X[~held], y[~held], (np.log2(counts) // 2).astype(np.int64), Sample(X[held], y[held]))


def _cut(X: FloatArray, y: AnyArray, groups: IntArray) -> Split:
    order = np.random.default_rng(12345).permutation(len(y))
    held, rest = np.split(order, [int(HELD_OUT * len(y))])
    return Split(X[rest], y[rest], groups[rest], Sample(X[held], y[held]))


def _standard(X: AnyArray) -> FloatArray:
    X = np.asarray(X, dtype=np.float64)
    deviation = X.std(axis=0)
    scaled = (X - X.mean(axis=0))[:, deviation > 0] / deviation[deviation > 0]
    return np.asarray(scaled, dtype=np.float32)


SPLITS: dict[str, Callable[[], Split]] = {
    "mnist": digits.images,
    "mnist, imbalanced": digits.imbalanced,
    "mnist, first 8,000": lambda: digits.images(8_000),
    "mnist, imbalanced, of the first 16,000": lambda: digits.imbalanced(16_000),
    "covtype": lambda: _rare("covtype_2v4"),
    "kdd_bio": lambda: _rare("kdd_bio"),
    "long tail": digits.long_tail,
    "sources": _sources,
    "kegg": _kegg,
    "words": _words,
}
