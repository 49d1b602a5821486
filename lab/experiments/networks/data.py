"""The data sets of the networks experiment, split into training and held-out points."""

import re
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from lab import datasets
from lab.arrays import AnyArray, FloatArray, IntArray

TRAINING_IMAGES = 60_000  # images of MNIST; the last 10,000 are held out
KEPT_SHARE = 0.05  # of the classes 0 to 4, where MNIST is imbalanced
TAIL_SHARE = 0.01  # of the rarest class of the long tail, relative to the most common one
HELD_OUT_SHARE = 0.2  # of data that come in one piece
# Three laboratories: two careful ones, and one whose measurements of a tenth of the points are off by three deviations.
SOURCE_NOISE, SOURCE_SHARES = (0.1, 0.3, 3.0), (0.45, 0.45, 0.1)
VOCABULARY_SIZE, CONTEXT_WORDS = 1000, 6  # known words, and words to predict the next one from
TEXT_WORDS = 60_000  # length of the text


class Sample(NamedTuple):
    """Points with their targets: classes as integers, or real numbers.

    Attributes
    ----------
    X, y
        Features and targets.
    costs
        Factors of single points in the loss, one on average. Default: None, all one.
    """

    X: AnyArray
    y: AnyArray
    costs: FloatArray | None = None


class Split(NamedTuple):
    """Training points and held-out points.

    Attributes
    ----------
    X, y
        Features and targets of the training points.
    groups
        Group of every training point, known in advance: its class, its source, or how common its word is.
    held
        Held-out points.
    costs
        Factors of the training points in the loss, one on average. Default: None, all one.
    """

    X: AnyArray
    y: AnyArray
    groups: IntArray
    held: Sample
    costs: FloatArray | None = None

    @property
    def classes(self) -> int:
        """Number of classes; 0 for regression."""
        return int(self.y.max()) + 1 if self.y.dtype.kind == "i" else 0


def load_images(count: int = TRAINING_IMAGES) -> Split:
    """Load MNIST, or its first images, standardised as a whole."""
    data = datasets.load("mnist", fetch=False)
    X = ((np.asarray(data.X, dtype=np.float32) / 255) - np.float32(0.1307)) / np.float32(0.3081)
    y = np.asarray(data.y).astype(np.int64)
    return Split(X[:count], y[:count], y[:count], Sample(X[TRAINING_IMAGES:], y[TRAINING_IMAGES:]))


def _keep_shares(whole: Split, shares: FloatArray) -> Split:
    """Keep a share of the points of every class."""
    rng = np.random.default_rng(1)
    members = [rng.permutation(np.flatnonzero(whole.y == label)) for label in range(len(shares))]
    rows = np.sort(np.concatenate([m[: max(round(s * len(m)), 1)] for m, s in zip(members, shares, strict=True)]))
    return whole._replace(X=whole.X[rows], y=whole.y[rows], groups=whole.y[rows])


def load_imbalanced(count: int = TRAINING_IMAGES) -> Split:
    """Load MNIST with few images of the classes 0 to 4; held-out images get the training proportions as weights."""
    kept = _keep_shares(load_images(count), np.where(np.arange(10) < 5, KEPT_SHARE, 1.0))
    mine, theirs = (np.bincount(y, minlength=10) / len(y) for y in (kept.y, kept.held.y))
    return kept._replace(held=kept.held._replace(costs=(mine / theirs)[kept.held.y]))


def long_tail() -> Split:
    """Load MNIST with every class 0.6 times as common as the one before; all classes weigh the same in the loss."""
    kept = _keep_shares(load_images(), TAIL_SHARE ** (np.arange(10) / 9))
    return kept._replace(costs=_weigh_evenly(kept.y), held=kept.held._replace(costs=_weigh_evenly(kept.held.y)))


def _weigh_evenly(y: IntArray) -> FloatArray:
    counts = np.bincount(y)
    return np.asarray(len(y) / len(counts) / counts[y])


@lru_cache(maxsize=1)
def load_split(name: str) -> Split:
    """Return the data of a task."""
    return SPLITS[name]()


def _load_rare(name: str) -> Split:
    """Load two classes, of which one has about one point in 100."""
    data = datasets.load(name, fetch=False)
    y = np.asarray(data.y).astype(np.int64)
    return _split_points(_standardise_columns(data.X), y, y)


def _load_regression(name: str) -> Split:
    data = datasets.load(name, fetch=False)
    y = _standardise_columns(np.asarray(data.y)[:, None])[:, 0]
    return _split_points(_standardise_columns(data.X), y, np.zeros(len(y), dtype=np.int64))


def _load_kegg() -> Split:
    """Load targets with heavy tails; groups are three bins by distance from the median: half, quarter, quarter."""
    whole = _load_regression("kegg_undirected")
    far = np.abs(whole.y - np.median(whole.y))
    return whole._replace(groups=np.searchsorted(np.quantile(far, [0.5, 0.75]), far).astype(np.int64))


def _load_sources() -> Split:
    """Load house values with the noise of three laboratories; held-out values have no such noise."""
    whole, rng = _load_regression("california_housing"), np.random.default_rng(7)
    source = rng.choice(len(SOURCE_NOISE), p=SOURCE_SHARES, size=len(whole.y))
    noisy = whole.y + rng.normal(size=len(whole.y)) * np.asarray(SOURCE_NOISE)[source]
    return whole._replace(y=noisy.astype(np.float32), groups=source)


def _load_words() -> Split:
    """Load the word after six others; groups are by the frequency of the target, in steps of a factor of four.

    Every tenth part of the text is held out.
    """
    X, y = load_words()
    held = np.arange(len(y)) * 50 // len(y) % 10 == 9
    counts = np.bincount(y[~held], minlength=int(y.max()) + 1)[y[~held]]
    return Split(X[~held], y[~held], (np.log2(counts) // 2).astype(np.int64), Sample(X[held], y[held]))


def load_words() -> tuple[IntArray, IntArray]:
    """Return all sequences of six words and the word after each, as integers; 0 is any rare word.

    The text is the help that comes with Python, which differs a little between versions.

    Examples
    --------
    >>> X, y = load_words()
    >>> X.shape == (len(y), CONTEXT_WORDS), int(y.max()) < VOCABULARY_SIZE
    (True, True)
    >>> bool((X[CONTEXT_WORDS] == y[:CONTEXT_WORDS]).all())
    True
    """
    from pydoc_data.topics import topics

    found = re.findall(r"\w+|[^\w\s]", " ".join(topics[name] for name in sorted(topics)).lower())[:TEXT_WORDS]
    common = [word for word, _ in Counter(found).most_common(VOCABULARY_SIZE - 1)]
    numbers = {word: number for number, word in enumerate(common, 1)}
    text = np.array([numbers.get(word, 0) for word in found])
    return np.lib.stride_tricks.sliding_window_view(text, CONTEXT_WORDS)[:-1].copy(), text[CONTEXT_WORDS:]


def _split_points(X: FloatArray, y: AnyArray, groups: IntArray) -> Split:
    order = np.random.default_rng(12345).permutation(len(y))
    held, rest = np.split(order, [int(HELD_OUT_SHARE * len(y))])
    return Split(X[rest], y[rest], groups[rest], Sample(X[held], y[held]))


def _standardise_columns(X: AnyArray) -> FloatArray:
    X = np.asarray(X, dtype=np.float64)
    deviation = X.std(axis=0)
    scaled = (X - X.mean(axis=0))[:, deviation > 0] / deviation[deviation > 0]
    return np.asarray(scaled, dtype=np.float32)


SPLITS: dict[str, Callable[[], Split]] = {
    "mnist": load_images,
    "mnist, imbalanced": load_imbalanced,
    "mnist, first 8,000": lambda: load_images(8_000),
    "mnist, imbalanced, of the first 16,000": lambda: load_imbalanced(16_000),
    "covtype": lambda: _load_rare("covtype_2v4"),
    "kdd_bio": lambda: _load_rare("kdd_bio"),
    "long tail": long_tail,
    "sources": _load_sources,
    "kegg": _load_kegg,
    "words": _load_words,
}
