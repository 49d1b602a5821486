"""MixtureKMeans: minibatch k-means that draws points far from their centers more often."""

import sys
from functools import cache
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
from threadpoolctl import ThreadpoolController

from varmix._core.validation import AnyArray, FloatArray, as_count, as_number, rollback_on_error
from varmix._sampler import Sampler
from varmix.allocate import Allocation
from varmix.components._tables import rows_per_block
from varmix.estimators.clustering._descent import Descent, SwitchAfter
from varmix.estimators.clustering._init_centers import CenterInit
from varmix.estimators.clustering._samplers import SamplerSpec
from varmix.estimators.clustering._seeding import assign_points
from varmix.learners import Learner


class StoppingRule:
    """Watches a moving average of the inertia of batches, and how far the centres go.

    Parameters
    ----------
    alpha
        How much the last batch counts in the average.
    tolerance
        Stop when the centres have moved by no more than this, squared and added up; 0 never stops.
    patience
        Stop after so many batches without a lower average; None never stops.

    Examples
    --------
    >>> stopping = StoppingRule(alpha=1.0, tolerance=0.0, patience=2)
    >>> [stopping.see([loss]) for loss in (9.0, 5.0, 4.0, 4.5, 4.2)]
    [False, False, False, False, True]
    """

    def __init__(self, alpha: float, tolerance: float = 0.0, patience: int | None = 10) -> None:
        self.alpha, self.tolerance, self.patience = min(alpha, 1.0), tolerance, patience
        self.average: float | None = None
        self._least, self._waited, self._begun = np.inf, 0, False

    def see(self, losses: Any, moved: float = np.inf) -> bool:  # noqa: ANN401
        """Take in the inertia of some batches, and how far they moved the centres; say whether to stop."""
        for loss in losses:
            if not self._begun:  # the first batch says how good the start was, and nothing about progress
                self._begun = True
                continue
            self.average = loss if self.average is None else (1 - self.alpha) * self.average + self.alpha * loss
            self._waited = 0 if self.average < self._least else self._waited + 1
            self._least = min(self._least, self.average)
        if self.tolerance > 0.0 and moved <= self.tolerance and self.average is not None:
            return True
        return self.patience is not None and self.average is not None and self._waited >= self.patience


def mean_variance(X: Any) -> float:  # noqa: ANN401
    """Give the mean of the variances of all features, in blocks: what tolerances are relative to."""
    if hasattr(X, "toarray"):
        from sklearn.utils.sparsefuncs import mean_variance_axis

        return float(mean_variance_axis(X, axis=0)[1].mean())
    n, d = X.shape
    first: AnyArray = np.asarray(X[0], dtype=np.float64)
    sums: FloatArray = np.zeros(d)
    squares: FloatArray = np.zeros(d)
    rows = rows_per_block(d)
    for start in range(0, n, rows):
        block = X[start : start + rows] - first
        sums += block.sum(axis=0)
        squares += (block**2).sum(axis=0)
    return float((squares / n - (sums / n) ** 2).mean())


POINTS_BETWEEN_LOOKS = 10  # points a cluster between two looks


class CenterReassignment:
    """Moves centres that have too few points, once so many points were seen, or at once where one has none at all.

    Parameters
    ----------
    ratio
        Part of the largest count below which a count is too low; 0 moves none.
    rng
        Where the points come from that centres are put on.
    since
        Points seen since the last look.
    """

    def __init__(self, ratio: float, rng: np.random.Generator, since: int = 0, verbose: int = 0) -> None:
        self.ratio, self.since, self.verbose = ratio, since, verbose
        self._rng = rng

    def look(self, descent: Descent) -> None:
        """Look at the counts after the steps of a receipt, if it is time."""
        self.since += len(descent.losses) * descent.batch
        if self.ratio == 0.0 or (
            self.since < POINTS_BETWEEN_LOOKS * len(descent.counts) and descent.counts.min() > 0.0
        ):
            return
        self.since = 0
        number = descent.reassign(self.ratio, self._rng)
        if self.verbose and number:
            print(f"Reassigning {number} cluster centers.")


def run_until(
    descent: Descent,
    sampler: Sampler | SwitchAfter,
    steps: int,
    stopping: StoppingRule,
    reassigning: CenterReassignment,
    verbose: int = 0,
) -> None:
    """Take so many steps, fewer where it stops before."""
    while descent.steps < steps:
        before = descent.centers if stopping.tolerance > 0.0 else None  # a tolerance is about single steps
        descent.round(sampler, steps - descent.steps if before is None else 1)
        moved = np.inf if before is None else float(((descent.centers - before) ** 2).sum())
        reassigning.look(descent)
        if verbose:
            print(f"Minibatch step {descent.steps}/{steps}: mean batch inertia: {descent.inertia:.6g}")
        if stopping.see(descent.losses, moved):
            if verbose:
                print(f"Converged at step {descent.steps}/{steps}.")
            return


def check_parameters(model: Any) -> tuple[CenterInit, SamplerSpec]:  # noqa: ANN401
    """Refuse parameters that mean nothing; give how to begin, and what draws the batches."""
    for name in ("n_clusters", "batch_size", "max_iter"):
        as_count(getattr(model, name), name)
    for name, least in (("max_steps", 1), ("init_size", 1), ("max_no_improvement", 0)):
        if getattr(model, name) is not None:
            as_count(getattr(model, name), name, least=least)
    for name in ("tol", "reassignment_ratio"):
        if not 0.0 <= as_number(getattr(model, name), name) < np.inf:
            raise ValueError(f"{name} must be a finite number of at least 0, got {getattr(model, name)!r}.")
    if not isinstance(model.n_init, str):
        as_count(model.n_init, "n_init")
    initial = CenterInit(model.n_clusters, model.init, model.n_init, model.init_size, model.batch_size, model.verbose)
    choice = SamplerSpec(model.components, model.gamma, model.learner, model.allocate)
    initial.check()
    choice.check()
    return initial, choice


def one_thread() -> Any:  # noqa: ANN401
    """Keep BLAS to one thread inside: products of a hundred rows would mostly wait for the others."""
    return _get_controller().limit(limits=1, user_api="blas")


@cache
def _get_controller() -> ThreadpoolController:
    return ThreadpoolController()  # looks through all libraries that are loaded, so once


SUPPORTED_DTYPES = (np.float64, np.float32)


class MixtureKMeans(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Minibatch k-means whose batches a mixture draws: far points more often, with weights that make up for it.

    Names are those of `MiniBatchKMeans`:

    * Missing parameters: `compute_labels`.
    * Other defaults: `reassignment_ratio`.
    * New parameters: `max_steps`, `components`, `allocate`, `gamma`, `learner`.

    Parameters
    ----------
    n_clusters
        Number of clusters.
    init
        "k-means++", "random", an array of centres, or a function of (X, n_clusters, random_state) that gives one.
    n_init
        Inits of which the best is taken; "auto" is 3 for "random" and functions, else 1.
    init_size
        Points that the init looks at: three batches unless told, or three a cluster where that would be fewer than
        clusters.  The number of points, or more, seeds over all of them.
    batch_size
        Points in a batch.
    max_iter
        Passes over the data at most.
    max_steps
        Batches at most, if not None.
    components
        Where batches come from.

        "seeding"
            Cells of points with the same nearest seed and about the same distance to it, set up when that pays: where
            init has looked at a part of the points and they promise little, the first epoch is plain reshuffling.
        "distances"
            In proportion to the distances to ten random points, as in the paper; X must be dense.
        "uniform", "shuffle", "vrb"
            No mixture: uniform with replacement, random reshuffling, `varmix.literature.vrb`.
        Labels or a family
            One label per row of X, or a family over as many points; a copy of it is used.
    allocate, gamma, learner
        As of `varmix.vrm`; for "seeding" as of `cells`.
    tol
        Stop when the centres have moved by no more than this in a step, squared, added up and relative to the mean
        variance of the features; 0 never stops by that.
    max_no_improvement
        Stop after so many batches without a lower moving average of their inertia; None never stops by that.
    reassignment_ratio
        Centres that were given less than this part of what the largest was given are put on points of the batch.
        `MiniBatchKMeans` has 0.01; 0 never does it, because small clusters of far points are what lowers the inertia
        most (with 0.01 it stayed 3.5 times as high where there are outliers).
    random_state
        Seed, `RandomState` or None.
    verbose
        Whether to print how it goes.

    Attributes
    ----------
    cluster_centers_
        (n_clusters, n_features).
    labels_
        (n,) the cluster of every point.
    inertia_
        Weighted sum of the squared distances to the nearest centre.
    n_iter_, n_steps_
        Passes over the data, begun ones included, and batches.
    mixture_
        What the mixture of `fit` was at the end; the uniform law is last, and all there is while it reshuffles.
    gain_
        Second moment under uniform sampling over that of the batches of `fit`, with its 95 % interval.
    counts
        (n_clusters,) the sums of weights that the centres were given.

    Examples
    --------
    >>> X = np.random.default_rng(0).standard_t(2, size=(5000, 3))
    >>> model = MixtureKMeans(20, batch_size=100, max_steps=200, random_state=0).fit(X)
    >>> model.cluster_centers_.shape, bool(model.gain_.low > 1.2)
    ((20, 3), True)
    >>> bool((model.predict(X) == model.labels_).all())
    True
    """

    cluster_centers_: AnyArray

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        init: Any = "k-means++",  # noqa: ANN401
        n_init: int | str = "auto",
        init_size: int | None = None,
        batch_size: int = 1024,
        max_iter: int = 100,
        max_steps: int | None = None,
        components: Any = "seeding",  # noqa: ANN401
        allocate: Allocation | None = None,
        gamma: float | None = None,
        learner: Learner[Any] | None = None,
        tol: float = 0.0,
        max_no_improvement: int | None = 10,
        reassignment_ratio: float = 0.0,
        random_state: Any = None,  # noqa: ANN401
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.init = init
        self.n_init = n_init
        self.init_size = init_size
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.max_steps = max_steps
        self.components = components
        self.allocate = allocate
        self.gamma = gamma
        self.learner = learner
        self.tol = tol
        self.max_no_improvement = max_no_improvement
        self.reassignment_ratio = reassignment_ratio
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: object = None, sample_weight: ArrayLike | None = None) -> Self:  # noqa: ANN401
        """Find the clusters of the rows of X; y is ignored."""
        initial, choice = check_parameters(self)
        with rollback_on_error(self), one_thread():
            X = self._rows(X, reset=True)
            costs = self._costs(sample_weight, X)
            n, batch = X.shape[0], min(self.batch_size, X.shape[0])
            self._check_enough(n)
            random_state = check_random_state(self.random_state)
            centers, seeding = initial.begin(X, costs, random_state)
            rng = np.random.default_rng(random_state.randint(2**31 - 1, size=4))
            remember = choice.from_seeding and seeding is None
            descent = Descent(X, centers, batch=batch, sample_weight=costs, remember=remember)
            sampler = choice.sampler(X, descent, seeding, costs, rng)
            steps = min(self.max_iter * n // batch, self.max_steps or sys.maxsize)
            tolerance = self.tol * mean_variance(X) if self.tol else 0.0
            stopping = StoppingRule(2.0 * batch / (n + 1), tolerance, self.max_no_improvement)
            reassigning = CenterReassignment(self.reassignment_ratio, rng, verbose=self.verbose)
            run_until(descent, sampler, steps, stopping, reassigning, self.verbose)
            self.n_steps_ = descent.steps
            self.n_iter_ = -(-descent.steps * batch // n)
            self.mixture_, self.gain_ = sampler.mixture, descent.meter.gain
            self._random_state, self._since = random_state, reassigning.since
            self._keep(descent, X, costs)
        return self

    def partial_fit(self, X: Any, y: object = None, sample_weight: ArrayLike | None = None) -> Self:  # noqa: ANN401
        """Take one step with all rows of X as the batch; y is ignored.  The first call begins with centres from X."""
        initial, _ = check_parameters(self)
        first = not hasattr(self, "cluster_centers_")
        with rollback_on_error(self), one_thread():
            X = self._rows(X, first, SUPPORTED_DTYPES if first else self.cluster_centers_.dtype)
            costs = self._costs(sample_weight, X)
            if first:
                self._check_enough(X.shape[0])
                self._random_state = check_random_state(self.random_state)
                self.n_steps_, self._since, self._counts = 0, 0, np.zeros(self.n_clusters)
                self.cluster_centers_, _ = initial.begin(X, costs, self._random_state)
            descent = Descent(X, self.cluster_centers_, batch=X.shape[0], sample_weight=costs)
            descent.counts += self._counts
            descent.step(np.arange(X.shape[0]), np.ones(X.shape[0]))
            rng = np.random.default_rng(self._random_state.randint(2**31 - 1, size=4))
            reassigning = CenterReassignment(self.reassignment_ratio, rng, self._since, self.verbose)
            reassigning.look(descent)
            self.n_steps_, self._since = self.n_steps_ + 1, reassigning.since
            self._keep(descent, X, costs)
        return self

    def _keep(self, descent: Descent, X: Any, costs: FloatArray | None) -> None:  # noqa: ANN401
        self.cluster_centers_ = descent.centers
        self._n_features_out = len(self.cluster_centers_)
        self._counts = descent.counts
        self.labels_, self.inertia_ = assign_points(X, self.cluster_centers_, costs)

    @property
    def counts(self) -> FloatArray:
        """The sums of weights that the centres were given."""
        check_is_fitted(self)
        return self._counts.copy()

    def predict(self, X: Any) -> AnyArray:  # noqa: ANN401
        """Give the nearest centre of every row."""
        check_is_fitted(self)
        with one_thread():
            return assign_points(self._rows(X, reset=False), self.cluster_centers_)[0]

    def transform(self, X: Any) -> AnyArray:  # noqa: ANN401
        """Give the distances of every row to all centres, (n, n_clusters)."""
        check_is_fitted(self)
        return np.asarray(euclidean_distances(self._rows(X, reset=False), self.cluster_centers_))

    def score(self, X: Any, y: object = None, sample_weight: ArrayLike | None = None) -> float:  # noqa: ANN401
        """Give minus the weighted sum of the squared distances to the nearest centre; y is ignored."""
        check_is_fitted(self)
        X = self._rows(X, reset=False)
        with one_thread():
            return -assign_points(X, self.cluster_centers_, self._costs(sample_weight, X))[1]

    def _rows(self, X: Any, reset: bool, precision: Any = SUPPORTED_DTYPES) -> Any:  # noqa: ANN401
        return validate_data(self, X, accept_sparse="csr", dtype=precision, order="C", reset=reset)

    def _costs(self, sample_weight: ArrayLike | None, X: Any) -> FloatArray | None:  # noqa: ANN401
        if sample_weight is None:
            return None
        costs = np.asarray(_check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True))
        if not costs.any():  # older scikit-learn lets it pass
            raise ValueError("Sample weights must contain at least one non-zero number: all points weigh nothing.")
        return costs

    def _check_enough(self, n: int) -> None:
        if n < self.n_clusters:
            raise ValueError(f"n_samples={n} should be >= n_clusters={self.n_clusters}.")

    def __sklearn_tags__(self) -> Any:  # noqa: ANN401
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
