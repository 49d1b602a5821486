"""The data sets of section 6.4, split into training and test points."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from lab import datasets
from lab.arrays import FloatArray
from lab.datasets.components import whiten_components

TRAINING_SHARE = 0.8


@dataclass(frozen=True)
class Points:
    """Shape of a set as it is clustered, and the paper's constant c if it prints one."""

    shape: tuple[int, int]
    paper_c: float | None = None


KDD, CHEST, MNIST, GENERATED = "kdd_bio", "chest_accel", "mnist", "generated"
# In the paper's order. Its second set, CSN, is not public: chest_accel, another set of the same size, replaces it.
REAL_SETS = {KDD: Points((145_751, 74), 48.18), CHEST: Points((80_000, 17)), MNIST: Points((70_000, 10), 3.09)}
# Generated points are used if there is no data set. They show only that everything runs.
SETS = {**REAL_SETS, GENERATED: Points((20_000, 8))}


def at_hand() -> list[str]:
    """Return the sets that need not be fetched; if there are none, the generated one."""
    return [name for name in REAL_SETS if datasets.available(name)] or [GENERATED]


def find_smallest() -> str:
    """Return the set at hand that is read and clustered fastest; pixels must be turned into components first."""
    return min(at_hand(), key=lambda name: (name == MNIST, np.prod(SETS[name].shape)))


@lru_cache(maxsize=1)
def load_points(name: str) -> FloatArray:
    """Return the points as they are clustered: raw features, or ten whitened principal components for mnist."""
    if name == GENERATED:
        return _generate_points(*SETS[name].shape)
    X = datasets.load(name, fetch=False).X
    return whiten_components(X, SETS[name].shape[1]) if name == MNIST else np.ascontiguousarray(X, dtype=np.float64)


def _generate_points(n: int, d: int) -> FloatArray:
    """Generate blobs of very different sizes and widths."""
    rng = np.random.default_rng(0)
    blobs = 150
    middles, widths = 10 * rng.normal(size=(blobs, d)), rng.lognormal(sigma=1.0, size=blobs)
    blob = rng.choice(blobs, size=n, p=rng.dirichlet(np.full(blobs, 0.5)))
    return np.asarray(middles[blob] + widths[blob, None] * rng.normal(size=(n, d)))


def split_points(X: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Return training points and test points, in random order."""
    order = rng.permutation(len(X))
    count = round(TRAINING_SHARE * len(X))
    return X[order[:count]], X[order[count:]]
