"""MixtureKMeans: minibatch k-means that samples where it matters."""

import sys
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from varmix.allocate import Allocation
from varmix._core.validation import AnyArray
from varmix._core.validation import FloatArray
from varmix.estimators.clustering._descent import Descent
from varmix.estimators._kmeans__fitting import Reassigning
from varmix.estimators._kmeans__fitting import run_until
from varmix.estimators._kmeans__parameters import checked
from varmix.estimators.clustering._seeding__passes import assigned
from varmix.estimators._kmeans__stopping import Stopping
from varmix.estimators._kmeans__stopping import mean_variance
from varmix.estimators._kmeans__threads import one_thread
from varmix._core.validation__keeping import kept
from varmix.learners import Learner

PRECISIONS = (np.float64, np.float32)


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
            Cells of points with the same nearest seed and about the same distance to it
            (`varmix.estimators.clustering._samplers__cells`), set up when that pays: where init has looked at a part of the points
            and they promise little, the first pass is plain reshuffling.
        "distances"
            In proportion to the distances to ten random points, as in the paper; X must be dense.
        "uniform", "shuffle", "vrb"
            No mixture: uniform with replacement, random reshuffling, `varmix.vrb`.
        A family
            Any over as many points as X has rows; a copy of it is used.
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
        initial, choice = checked(self)
        with kept(self), one_thread():
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
            stopping = Stopping(2.0 * batch / (n + 1), tolerance, self.max_no_improvement)
            reassigning = Reassigning(self.reassignment_ratio, rng, verbose=self.verbose)
            run_until(descent, sampler, steps, stopping, reassigning, self.verbose)
            self.n_steps_ = descent.steps
            self.n_iter_ = -(-descent.steps * batch // n)
            self.mixture_, self.gain_ = sampler.mixture, descent.meter.gain
            self._random_state, self._since = random_state, reassigning.since
            self._keep(descent, X, costs)
        return self

    def partial_fit(self, X: Any, y: object = None, sample_weight: ArrayLike | None = None) -> Self:  # noqa: ANN401
        """Take one step with all rows of X as the batch; y is ignored.  The first call begins with centres from X."""
        initial, _ = checked(self)
        first = not hasattr(self, "cluster_centers_")
        with kept(self), one_thread():
            X = self._rows(X, first, PRECISIONS if first else self.cluster_centers_.dtype)
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
            reassigning = Reassigning(self.reassignment_ratio, rng, self._since, self.verbose)
            reassigning.look(descent)
            self.n_steps_, self._since = self.n_steps_ + 1, reassigning.since
            self._keep(descent, X, costs)
        return self

    def _keep(self, descent: Descent, X: Any, costs: FloatArray | None) -> None:  # noqa: ANN401
        self.cluster_centers_ = descent.centers
        self._n_features_out = len(self.cluster_centers_)
        self._counts = descent.counts
        self.labels_, self.inertia_ = assigned(X, self.cluster_centers_, costs)

    @property
    def counts(self) -> FloatArray:
        """The sums of weights that the centres were given."""
        check_is_fitted(self)
        return self._counts.copy()

    def predict(self, X: Any) -> AnyArray:  # noqa: ANN401
        """Give the nearest centre of every row."""
        check_is_fitted(self)
        with one_thread():
            return assigned(self._rows(X, reset=False), self.cluster_centers_)[0]

    def transform(self, X: Any) -> AnyArray:  # noqa: ANN401
        """Give the distances of every row to all centres, (n, n_clusters)."""
        check_is_fitted(self)
        return np.asarray(euclidean_distances(self._rows(X, reset=False), self.cluster_centers_))

    def score(self, X: Any, y: object = None, sample_weight: ArrayLike | None = None) -> float:  # noqa: ANN401
        """Give minus the weighted sum of the squared distances to the nearest centre; y is ignored."""
        check_is_fitted(self)
        X = self._rows(X, reset=False)
        with one_thread():
            return -assigned(X, self.cluster_centers_, self._costs(sample_weight, X))[1]

    def _rows(self, X: Any, reset: bool, precision: Any = PRECISIONS) -> Any:  # noqa: ANN401
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
