"""Initial: the centres that a fit begins with."""

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import check_array
from sklearn.utils.validation import _is_arraylike_not_scalar

from varmix.arrays import AnyArray, FloatArray, IntArray
from varmix.estimators.clustering.passes import assigned
from varmix.estimators.clustering.seeding import Seeding, plus_plus
from varmix.refusal import unknown

METHODS = ("k-means++", "random")
SEVERAL = 3  # inits of which the best is taken, where one is little work or little good


@dataclass(frozen=True)
class Initial:
    """From points to centres, as the parameters of the same names in `MiniBatchKMeans` say.

    `size` is None for its rule: three batches, or three points a cluster where that would be fewer than clusters.
    """

    clusters: int
    method: Any
    number: int | str
    size: int | None
    batch: int
    verbose: int = 0

    def check(self) -> None:
        """Refuse what is no way to begin."""
        if isinstance(self.method, str):
            if self.method not in METHODS:
                raise ValueError(str(unknown("init", self.method, METHODS)))
        elif not (callable(self.method) or _is_arraylike_not_scalar(self.method)):
            raise TypeError(f'init must be "k-means++", "random", an array or a function, got {self.method!r}.')
        if isinstance(self.number, str) and self.number != "auto":
            raise ValueError(f'n_init must be "auto" or a whole number, got {self.number!r}.')

    def centers(self, X: Any, costs: FloatArray | None, random_state: np.random.RandomState) -> AnyArray | Seeding:  # noqa: ANN401
        """Give the best centres of several inits; with their seeding, where all points were looked at."""
        given = None if isinstance(self.method, str) or callable(self.method) else self._given(X)
        size, tries = self._size(len_of(X)), self._tries()
        if tries == 1:
            return self._once(X, costs, given, size, random_state)
        valid = random_state.randint(0, len_of(X), size)
        best, least = None, math.inf
        for number in range(tries):
            found = self._once(X, costs, given, size, random_state)
            middles = found.centers if isinstance(found, Seeding) else found
            _, inertia = assigned(X[valid], middles, _some(costs, valid))
            if self.verbose:
                print(f"Inertia for init {number + 1}/{tries}: {inertia:.6g}")
            if best is None or inertia < least:
                best, least = found, inertia
        assert best is not None
        return best

    def _once(
        self,
        X: Any,  # noqa: ANN401
        costs: FloatArray | None,
        given: AnyArray | None,
        size: int,
        random_state: np.random.RandomState,
    ) -> AnyArray | Seeding:
        if given is not None:
            return given
        n = len_of(X)
        points = None if size >= n else _sample(costs, n, max(size, self.clusters), random_state)
        some, parts = (X, costs) if points is None else (X[points], _some(costs, points))
        if callable(self.method):
            return self._checked(
                check_array(self.method(some, self.clusters, random_state=random_state), dtype=X.dtype, order="C"), X
            )
        if self.method == "random":
            law = None if parts is None else parts / parts.sum()
            return _dense(some[random_state.choice(len_of(some), self.clusters, replace=False, p=law)])
        trials = 2 + int(math.log(self.clusters))
        seeding = plus_plus(
            some, self.clusters, int(random_state.randint(2**31 - 1)), sample_weight=parts, trials=trials
        )
        return seeding if points is None else seeding.centers

    def _given(self, X: Any) -> AnyArray:  # noqa: ANN401
        return self._checked(check_array(self.method, dtype=X.dtype, copy=True, order="C"), X)

    def _checked(self, centers: AnyArray, X: Any) -> AnyArray:  # noqa: ANN401
        for have, need, what in (
            (centers.shape[0], self.clusters, "clusters"),
            (centers.shape[1], X.shape[1], "features of the data"),
        ):
            if have != need:
                raise ValueError(
                    f"The shape of the initial centers {centers.shape} does not match the number of {what} {need}."
                )
        return centers

    def _size(self, n: int) -> int:
        size = self.size
        if size is None:
            size = 3 * min(self.batch, n)
            size = 3 * self.clusters if size < self.clusters else size
        elif size < self.clusters:
            warnings.warn(
                f"init_size={size} should be larger than n_clusters={self.clusters}. Setting it to "
                f"min(3*n_clusters, n_samples)",
                RuntimeWarning,
                stacklevel=5,
            )
            size = 3 * self.clusters
        return min(size, n)

    def _tries(self) -> int:
        array = not (isinstance(self.method, str) or callable(self.method))
        if isinstance(self.number, str):
            return 1 if array or self.method == "k-means++" else SEVERAL
        if array and self.number != 1:
            warnings.warn(
                f"Explicit initial center position passed: performing only one init instead of n_init={self.number}.",
                RuntimeWarning,
                stacklevel=5,
            )
        return 1 if array else self.number


def len_of(X: Any) -> int:  # noqa: ANN401
    """Give the number of rows, of sparse ones too."""
    return int(X.shape[0])


def _sample(costs: FloatArray | None, n: int, size: int, random_state: np.random.RandomState) -> IntArray | None:
    """Give some of the points that weigh anything, in their order; None where these are too few to choose."""
    generator = np.random.default_rng(random_state.randint(2**31 - 1, size=4))
    if costs is None:
        return np.sort(generator.choice(n, size, replace=False))
    legal = np.flatnonzero(costs)
    return np.sort(generator.choice(legal, size, replace=False)) if len(legal) > size else None


def _some(costs: FloatArray | None, points: IntArray) -> FloatArray | None:
    return None if costs is None else costs[points]


def _dense(rows: Any) -> AnyArray:  # noqa: ANN401
    return np.ascontiguousarray(rows.toarray() if hasattr(rows, "toarray") else rows)
