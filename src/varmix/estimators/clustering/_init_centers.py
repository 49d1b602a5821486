"""Initial: the centres that a fit begins with."""

import math
import warnings
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from sklearn.utils import check_array
from sklearn.utils.validation import _is_arraylike_not_scalar

from varmix._core.validation import AnyArray, FloatArray, IntArray, unknown_choice
from varmix.estimators.clustering._seeding import Seeding, assign_points, plus_plus

INIT_METHODS = ("k-means++", "random")
DEFAULT_INITS = 3  # inits of which the best is taken, where one is little work or little good


@dataclass(frozen=True)
class CenterInit:
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
            if self.method not in INIT_METHODS:
                raise ValueError(unknown_choice("init", self.method, INIT_METHODS))
        elif not (callable(self.method) or _is_arraylike_not_scalar(self.method)):
            raise TypeError(f'init must be "k-means++", "random", an array or a function, got {self.method!r}.')
        if isinstance(self.number, str) and self.number != "auto":
            raise ValueError(f'n_init must be "auto" or a whole number, got {self.number!r}.')

    def begin(
        self,
        X: Any,  # noqa: ANN401
        costs: FloatArray | None,
        random_state: np.random.RandomState,
    ) -> tuple[AnyArray, Seeding | None]:
        """Give the best centres of several inits, and their seeding where all points were looked at."""
        given = None if isinstance(self.method, str) or callable(self.method) else self._given(X)
        size, tries = self._size(len_of(X)), self._tries()
        if given is not None:
            return given, None
        if tries == 1:
            return self._once(X, costs, size, random_state)
        legal = len_of(X) if costs is None else np.flatnonzero(costs)
        valid = random_state.choice(legal, size)
        best: tuple[AnyArray, Seeding | None] | None = None
        least = math.inf
        for number in range(tries):
            found = self._once(X, costs, size, random_state)
            _, inertia = assign_points(X[valid], found[0], None if costs is None else costs[valid])
            if self.verbose:
                print(f"Inertia for init {number + 1}/{tries}: {inertia:.6g}")
            if best is None or inertia < least:
                best, least = found, inertia
        return cast(tuple[AnyArray, Seeding | None], best)

    def _once(
        self,
        X: Any,  # noqa: ANN401
        costs: FloatArray | None,
        size: int,
        random_state: np.random.RandomState,
    ) -> tuple[AnyArray, Seeding | None]:
        n = len_of(X)
        points = None if size >= n else _sample_points(costs, n, size, random_state)
        some, parts = (X, costs) if points is None else (X[points], None if costs is None else costs[points])
        if callable(self.method):
            centers = self.method(some, self.clusters, random_state=random_state)
            return self._fitting(check_array(centers, dtype=X.dtype, order="C"), X), None
        seed = int(random_state.randint(2**31 - 1))
        if self.method == "random":
            return _choose_random(some, self.clusters, parts, seed), None
        trials = 2 + int(math.log(self.clusters))
        seeding = plus_plus(some, self.clusters, seed, sample_weight=parts, trials=trials)
        return seeding.centers, seeding if points is None else None

    def _given(self, X: Any) -> AnyArray:  # noqa: ANN401
        return self._fitting(check_array(self.method, dtype=X.dtype, copy=True, order="C"), X)

    def _fitting(self, centers: AnyArray, X: Any) -> AnyArray:  # noqa: ANN401
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
            return 1 if array or self.method == "k-means++" else DEFAULT_INITS
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


def _sample_points(costs: FloatArray | None, n: int, size: int, random_state: np.random.RandomState) -> IntArray | None:
    """Give some of the points that weigh anything, in their order; None where these are too few to choose from."""
    generator = np.random.default_rng(random_state.randint(2**31 - 1, size=4))
    if costs is None:
        return np.sort(generator.choice(n, size, replace=False))
    legal = np.flatnonzero(costs)
    return np.sort(generator.choice(legal, size, replace=False)) if len(legal) > size else None


def _choose_random(rows: Any, clusters: int, costs: FloatArray | None, seed: int) -> AnyArray:  # noqa: ANN401
    """Give rows at random, by their weights; those that weigh nothing last."""
    generator, n = np.random.default_rng(seed), len_of(rows)
    if costs is None:
        chosen = generator.choice(n, clusters, replace=False)
    else:
        with np.errstate(divide="ignore"):  # the least of so many exponential times come first
            chosen = np.argsort(generator.exponential(size=n) / costs, kind="stable")[:clusters]
    some = rows[np.sort(chosen)]
    return np.ascontiguousarray(some.toarray() if hasattr(some, "toarray") else some)
