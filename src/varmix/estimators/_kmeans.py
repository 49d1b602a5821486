"""MixtureKMeans: minibatch k-means that draws points far from their centers more often.

From `MixtureKMeans.fit` on, the file follows one fit in order: check parameters and data, choose initial centers,
choose the sampler of the batches, take steps until `StoppingRule` ends them. `Descent` takes the steps. The other
public methods come before `fit`. `_seeding.py` has k-means++, and `choose_sampler` for the default `components`.
"""

import math
import sys
import warnings
from copy import deepcopy
from functools import cache
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils import check_array, check_random_state
from sklearn.utils.sparsefuncs import mean_variance_axis
from sklearn.utils.validation import (
    _check_sample_weight,
    _is_arraylike_not_scalar,
    check_is_fitted,
    validate_data,
)
from threadpoolctl import ThreadpoolController

from varmix._core.validation import (
    AnyArray,
    FloatArray,
    IntArray,
    as_count,
    as_number,
    rollback_on_error,
    unknown_choice,
)
from varmix._presets import uniform, vrm
from varmix._sampler import Sampler, as_family
from varmix.allocate import Allocation
from varmix.components import Distances, Family
from varmix.components._labels import choose_dtype
from varmix.components._tables import rows_per_block
from varmix.estimators import _kmeans_kernels as kernels
from varmix.estimators._seeding import (
    Seeding,
    SwitchAfter,
    Unseeded,
    as_centers,
    as_sample_weights,
    assign_points,
    check_finite,
    check_gamma,
    choose_sampler,
    choose_shift,
    plus_plus,
    read_rows,
)
from varmix.learners import Learner
from varmix.literature import vrb
from varmix.meter import GainMeter
from varmix.solvers._linear import Csr, unchecked_rows
from varmix.solvers._loop import check_space

SUPPORTED_DTYPES = (np.float64, np.float32)
INIT_METHODS = ("k-means++", "random")
MIXTURE_NAMES, OTHER_NAMES = ("seeding", "distances"), ("uniform", "shuffle", "vrb")
DEFAULT_INITS = 3  # number of restarts for "random" and callables; the best one is kept
RANDOM_CENTERS = 10  # random points whose distances are the components "distances", as in section 6.4
POINTS_BETWEEN_CHECKS = 10  # points per cluster between two checks for clusters with few points


def limit_blas_threads() -> Any:  # noqa: ANN401
    """Limit BLAS to one thread inside a `with` block: products of ~100 rows are too small to gain from threads."""
    return _get_controller().limit(limits=1, user_api="blas")


@cache
def _get_controller() -> ThreadpoolController:
    return ThreadpoolController()  # searches all loaded libraries, which is slow, so it happens once


def make_generator(random_state: np.random.RandomState) -> np.random.Generator:
    """Return a new generator, seeded with four words from the random state, which this advances."""
    return np.random.default_rng(random_state.randint(2**31 - 1, size=4))


class MixtureKMeans(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Minibatch k-means with batches from a mixture: points far from their centers are drawn more often.

    Importance weights correct for the unequal probabilities. The parameters are those of scikit-learn's
    `MiniBatchKMeans`, with these exceptions:

    * Missing parameters: `compute_labels`.
    * Other defaults: `reassignment_ratio`.
    * New parameters: `max_steps`, `components`, `allocate`, `gamma`, `learner`.

    Parameters
    ----------
    n_clusters : int, default 8
        Number of clusters.
    init : {"k-means++", "random"}, array-like of shape (n_clusters, n_features) or callable, default "k-means++"
        Method that chooses the initial centers, or the centers. A callable takes X, n_clusters and random_state, and
        returns centers.
    n_init : int or "auto", default "auto"
        Number of inits. The one with the lowest inertia is taken. "auto" is 3 for "random" and for callables, and 1
        otherwise.
    init_size : int, optional
        Number of points that an init looks at. Pass at least n_samples to use all points. Default: 3 * batch_size. A
        size below n_clusters is replaced by 3 * n_clusters, with a warning if you passed it.
    batch_size : int, default 1024
        Number of points in a batch.
    max_iter : int, default 100
        Largest number of epochs.
    max_steps : int, optional
        Largest number of batches. Default: only `max_iter` counts.
    components : str, array-like of shape (n_samples,) or family, default "seeding"
        What the batches are drawn from.

        - "seeding": cells of points with the same nearest initial center and about the same distance to it. If these
          promise little gain, plain shuffling comes first: for n_samples / 500 steps if "k-means++" looked at all
          points, otherwise for one epoch. `gamma`, `learner` or `allocate` turn this off.
        - "distances": a mixture of ten distributions, each in proportion to the distances to a random point, as in the
          paper. X must be dense.
        - "uniform", "shuffle", "vrb": no mixture, but uniform draws with replacement, plain shuffling, or
          `varmix.literature.vrb`.
        - An array of labels: groups of the points with the same label.
        - A family of components over the points. `fit` uses a copy of it.
    allocate : Allocation, optional
        How the slots of a batch are distributed over the components. Default: that of `varmix.vrm`; for "seeding"
        `varmix.allocate.stratified`.
    gamma : float, optional
        Smallest share of the uniform component. Default: 0.1, or that of the learner.
    learner : Learner, optional
        Learner that adapts the mixture. Default: that of `varmix.vrm`; for "seeding" `varmix.learners.Neyman`.
    tol : float, default 0.0
        Stop when a step moves the centers by a squared distance, summed over centers, of at most `tol` times the mean
        variance of the features. 0 turns this rule off.
    max_no_improvement : int, optional
        Stop when the moving average of the inertia of the batches has had no new minimum for this many batches. The
        rule is checked after every group of steps that run in one compiled call, up to max(batch_size, 1024) draws.
        `MiniBatchKMeans` checks it after every batch. None turns it off. Default: 10.
    reassignment_ratio : float, default 0.0
        Move centers whose count is below this fraction of the largest count to points of the batch; a number above 1
        counts as 1. The default of
        `MiniBatchKMeans` is 0.01. Here it is 0, which moves none, because small clusters of far points lower the
        inertia most: with 0.01 the inertia of data with outliers was up to 3.5 times as high.
    random_state : int, RandomState or None, default None
        Seed. An instance of `RandomState` is advanced by every fit.
    verbose : int, default 0
        Whether to print the progress.

    Attributes
    ----------
    cluster_centers_ : array of shape (n_clusters, n_features)
        The centers.
    labels_ : array of shape (n_samples,)
        Index of the nearest center of every point.
    inertia_ : float
        Weighted sum of the squared distances to the nearest center.
    n_iter_ : int
        Number of epochs, including the one that was not finished.
    n_steps_ : int
        Number of batches.
    mixture_ : array of shape (n_components,)
        Mixture at the end of `fit`. The uniform component is last, and the only one during plain shuffling.
    gain_ : varmix.meter.Interval
        Second moment under uniform sampling divided by the one of the batches of `fit`, with its 95 % interval.
    counts_ : array of shape (n_clusters,)
        Sum of the weights of the points that each center was moved by. A reassigned center starts from the lowest count
        of the centers that stayed.
    n_features_in_ : int
        Number of features of X.
    feature_names_in_ : array of shape (n_features,)
        Names of the features, if X has string names.

    See Also
    --------
    varmix.estimators.clustering : The parts of k-means, for loops of your own.

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

    # What a fitted model does.

    def predict(self, X: Any) -> AnyArray:  # noqa: ANN401
        """Return the index of the nearest center of every row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The points.

        Returns
        -------
        array of shape (n_samples,)
            Indices of the nearest centers.
        """
        check_is_fitted(self)
        with limit_blas_threads():
            return assign_points(self._check_rows(X, reset=False), self.cluster_centers_)[0]

    def transform(self, X: Any) -> AnyArray:  # noqa: ANN401
        """Return the distances of every row to all centers.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The points.

        Returns
        -------
        array of shape (n_samples, n_clusters)
            The distances.
        """
        check_is_fitted(self)
        return np.asarray(euclidean_distances(self._check_rows(X, reset=False), self.cluster_centers_))

    def score(self, X: Any, y: object = None, sample_weight: ArrayLike | None = None) -> float:  # noqa: ANN401
        """Return minus the weighted sum of the squared distances to the nearest center.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The points.
        y : None, default None
            Ignored.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the points. Default: one for every point.

        Returns
        -------
        float
            Minus the inertia of the points.
        """
        check_is_fitted(self)
        X = self._check_rows(X, reset=False)
        with limit_blas_threads():
            return -assign_points(X, self.cluster_centers_, self._check_weights(sample_weight, X))[1]

    def __sklearn_tags__(self) -> Any:  # noqa: ANN401
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    # A single step.

    def partial_fit(self, X: Any, y: object = None, sample_weight: ArrayLike | None = None) -> Self:  # noqa: ANN401
        """Take one step with all rows of X as the batch.

        The first call chooses initial centers among these rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The points of the batch.
        y : None, default None
            Ignored.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the points. Default: one for every point.

        Returns
        -------
        MixtureKMeans
            The estimator.
        """
        self._check_parameters()
        first = not hasattr(self, "cluster_centers_")
        with rollback_on_error(self), limit_blas_threads():
            X, weights = self._check_data(X, sample_weight, first)
            if first:
                self._random_state = check_random_state(self.random_state)
                self.n_steps_, self._points_since_check, self.counts_ = 0, 0, np.zeros(self.n_clusters)
                self.cluster_centers_, _ = self._init_centers(X, weights, self._random_state)
            descent = Descent(X, self.cluster_centers_, batch=X.shape[0], sample_weight=weights)
            descent.counts += self.counts_
            descent.take_steps(np.arange(X.shape[0]), np.ones(X.shape[0]))
            self._reassign_centers(descent, make_generator(self._random_state))
            self.n_steps_ += 1
            self._store_centers(descent, X, weights)
        return self

    # fit, and then its steps in the order in which it takes them.

    def fit(self, X: Any, y: object = None, sample_weight: ArrayLike | None = None) -> Self:  # noqa: ANN401
        """Find the clusters of the rows of X.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The points. C-contiguous arrays and CSR matrices in single or double precision are not copied.
        y : None, default None
            Ignored.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the points. They multiply the importance weights and the norms that the mixture learns from.
            Default: one for every point.

        Returns
        -------
        MixtureKMeans
            The fitted estimator.
        """
        components = self._check_parameters()
        with rollback_on_error(self), limit_blas_threads():
            X, weights = self._check_data(X, sample_weight, first=True)
            n, batch = X.shape[0], min(self.batch_size, X.shape[0])
            self._random_state = check_random_state(self.random_state)
            centers, seeding = self._init_centers(X, weights, self._random_state)
            rng = make_generator(self._random_state)
            remember = seeding is None and isinstance(components, str) and components == "seeding"
            descent = Descent(X, centers, batch=batch, sample_weight=weights, remember=remember)
            sampler = self._make_sampler(components, X, descent, seeding, weights, rng)
            steps = min(self.max_iter * n // batch, self.max_steps or sys.maxsize)
            tolerance = self.tol * mean_variance(X) if self.tol else 0.0
            alpha = 2.0 * batch / (n + 1)  # as in MiniBatchKMeans
            self._points_since_check = 0
            self._run_descent(descent, sampler, steps, StoppingRule(alpha, tolerance, self.max_no_improvement), rng)
            self.n_steps_ = descent.steps
            self.n_iter_ = -(-descent.steps * batch // n)
            self.mixture_, self.gain_ = sampler.mixture, descent.meter.gain
            self._store_centers(descent, X, weights)
        return self

    # 1. Check parameters and data.

    def _check_parameters(self) -> str | Family:
        """Raise if a parameter is invalid, before any work is done. Return `components`: a name, or a family."""
        as_count(self.n_clusters, "n_clusters")
        as_count(self.batch_size, "batch_size")
        as_count(self.max_iter, "max_iter")
        if self.max_steps is not None:
            as_count(self.max_steps, "max_steps")
        if self.init_size is not None:
            as_count(self.init_size, "init_size")
        if self.max_no_improvement is not None:
            as_count(self.max_no_improvement, "max_no_improvement", least=0)
        for name, value in (("tol", self.tol), ("reassignment_ratio", self.reassignment_ratio)):
            if not 0.0 <= as_number(value, name) < np.inf:
                raise ValueError(f"{name} must be a finite number of at least 0, got {value!r}.")
        if isinstance(self.init, str):
            if self.init not in INIT_METHODS:
                raise ValueError(unknown_choice("init", self.init, INIT_METHODS))
        elif not (callable(self.init) or _is_arraylike_not_scalar(self.init)):
            raise TypeError(f'init must be "k-means++", "random", an array or a function, got {self.init!r}.')
        if not isinstance(self.n_init, str):
            as_count(self.n_init, "n_init")
        elif self.n_init != "auto":
            raise ValueError(f'n_init must be "auto" or a whole number, got {self.n_init!r}.')
        return self._check_components()

    def _check_components(self) -> str | Family:
        """Return the name or the family. Raise if it is invalid, or does not go with the parameters of a mixture."""
        given, known = self.components, MIXTURE_NAMES + OTHER_NAMES
        components = given if isinstance(given, str) else as_family(given)
        if isinstance(components, str) and components not in known:
            raise ValueError(unknown_choice("components", components, known))
        check_gamma(self.gamma, self.learner)
        options = self._mixture_options()
        if isinstance(components, str) and components in OTHER_NAMES and options:
            raise ValueError(
                f"components={components!r} has no mixture, so {' and '.join(options)} must be None. Leave these out, "
                f'or use components="seeding".'
            )
        return components

    def _mixture_options(self) -> dict[str, Any]:
        """Return the parameters of a mixture that are not None."""
        options = {"gamma": self.gamma, "learner": self.learner, "allocate": self.allocate}
        return {name: value for name, value in options.items() if value is not None}

    def _check_data(
        self,
        X: Any,  # noqa: ANN401
        sample_weight: ArrayLike | None,
        first: bool,
    ) -> tuple[Any, FloatArray | None]:
        """Return checked points and weights. The first points set the precision, and must suffice for all clusters."""
        X = self._check_rows(X, first, SUPPORTED_DTYPES if first else self.cluster_centers_.dtype)
        weights = self._check_weights(sample_weight, X)
        if first and X.shape[0] < self.n_clusters:
            raise ValueError(f"n_samples={X.shape[0]} should be >= n_clusters={self.n_clusters}.")
        return X, weights

    def _check_rows(self, X: Any, reset: bool, precision: Any = SUPPORTED_DTYPES) -> Any:  # noqa: ANN401
        """Return X as a C-contiguous array or a CSR matrix."""
        return validate_data(self, X, accept_sparse="csr", dtype=precision, order="C", reset=reset)

    def _check_weights(self, sample_weight: ArrayLike | None, X: Any) -> FloatArray | None:  # noqa: ANN401
        """Return sample weights as an array; None stays None."""
        if sample_weight is None:
            return None
        weights = np.asarray(_check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True))
        if not weights.any():  # older versions of scikit-learn do not check this
            raise ValueError("Sample weights must contain at least one non-zero number.")
        return weights

    # 2. Choose initial centers.

    def _init_centers(
        self,
        X: Any,  # noqa: ANN401
        weights: FloatArray | None,
        random_state: np.random.RandomState,
    ) -> tuple[AnyArray, Seeding | None]:
        """Return the best centers of several inits, and their seeding if k-means++ has looked at all points."""
        size, inits = self._count_init_points(X.shape[0]), self._count_inits()
        if not (isinstance(self.init, str) or callable(self.init)):
            return self._check_centers(check_array(self.init, dtype=X.dtype, copy=True, order="C"), X), None
        if inits == 1:
            return self._init_once(X, weights, size, random_state)
        validation_points = random_state.choice(X.shape[0] if weights is None else np.flatnonzero(weights), size)
        least = math.inf
        for number in range(inits):
            found = self._init_once(X, weights, size, random_state)
            _, inertia = assign_points(
                X[validation_points], found[0], None if weights is None else weights[validation_points]
            )
            if self.verbose:
                print(f"Inertia for init {number + 1}/{inits}: {inertia:.6g}")
            if number == 0 or inertia < least:
                best, least = found, inertia
        return best

    def _count_init_points(self, n: int) -> int:
        """Return the number of points that an init looks at."""
        size = 3 * min(self.batch_size, n) if self.init_size is None else self.init_size
        if size < self.n_clusters:
            size = 3 * self.n_clusters
            if self.init_size is not None:
                warnings.warn(
                    f"init_size={self.init_size} should be at least n_clusters={self.n_clusters}. Setting it to "
                    f"min(3*n_clusters, n_samples).",
                    RuntimeWarning,
                    stacklevel=4,
                )
        return min(size, n)

    def _count_inits(self) -> int:
        """Return the number of inits of which the best is taken."""
        given = not (isinstance(self.init, str) or callable(self.init))
        if isinstance(self.n_init, str):
            return 1 if given or self.init == "k-means++" else DEFAULT_INITS
        if given and self.n_init != 1:
            warnings.warn(
                f"Explicit initial center position passed: performing only one init instead of n_init={self.n_init}.",
                RuntimeWarning,
                stacklevel=4,
            )
        return 1 if given else self.n_init

    def _check_centers(self, centers: AnyArray, X: Any) -> AnyArray:  # noqa: ANN401
        """Return initial centers, or raise if their shape does not fit."""
        for have, need, what in (
            (centers.shape[0], self.n_clusters, "clusters"),
            (centers.shape[1], X.shape[1], "features of the data"),
        ):
            if have != need:
                raise ValueError(
                    f"The shape of the initial centers {centers.shape} does not match the number of {what} {need}."
                )
        return centers

    def _init_once(
        self,
        X: Any,  # noqa: ANN401
        weights: FloatArray | None,
        size: int,
        random_state: np.random.RandomState,
    ) -> tuple[AnyArray, Seeding | None]:
        """Return the centers of one init over `size` points, and their seeding if k-means++ has looked at all."""
        points = None if size >= X.shape[0] else self._sample_points(weights, X.shape[0], size, random_state)
        if points is None:
            rows, parts = X, weights
        else:
            rows, parts = X[points], None if weights is None else weights[points]
        if callable(self.init):
            centers = self.init(rows, self.n_clusters, random_state=random_state)
            return self._check_centers(check_array(centers, dtype=X.dtype, order="C"), X), None
        seed = int(random_state.randint(2**31 - 1))
        if self.init == "random":
            return self._choose_random(rows, self.n_clusters, parts, seed), None
        trials = 2 + int(math.log(self.n_clusters))
        seeding = plus_plus(rows, self.n_clusters, seed, sample_weight=parts, trials=trials)
        return seeding.centers, seeding if points is None else None

    @staticmethod
    def _sample_points(
        weights: FloatArray | None, n: int, size: int, random_state: np.random.RandomState
    ) -> IntArray | None:
        """Return a sorted sample of the points with positive weights; None if there are no more than `size` of them."""
        generator = make_generator(random_state)
        if weights is None:
            return np.sort(generator.choice(n, size, replace=False))
        positive = np.flatnonzero(weights)
        return np.sort(generator.choice(positive, size, replace=False)) if len(positive) > size else None

    @staticmethod
    def _choose_random(
        rows: Any,  # noqa: ANN401
        clusters: int,
        weights: FloatArray | None,
        seed: int,
    ) -> AnyArray:
        """Return random rows as centers, in proportion to their weights; rows of weight zero come last."""
        generator, n = np.random.default_rng(seed), rows.shape[0]
        if weights is None:
            chosen = generator.choice(n, clusters, replace=False)
        else:
            # The indices of the smallest Exp(w_i) times form a weighted sample without replacement.
            with np.errstate(divide="ignore"):
                chosen = np.argsort(generator.exponential(size=n) / weights, kind="stable")[:clusters]
        centers = rows[np.sort(chosen)]
        return np.ascontiguousarray(centers.toarray() if issparse(centers) else centers)

    # 3. Choose the sampler of the batches.

    def _make_sampler(
        self,
        components: str | Family,
        X: Any,  # noqa: ANN401
        descent: "Descent",
        seeding: Seeding | None,
        weights: FloatArray | None,
        rng: np.random.Generator,
    ) -> Sampler | SwitchAfter:
        """Return the sampler of the batches that `components` asks for."""
        n, options = int(X.shape[0]), self._mixture_options()
        if not isinstance(components, str):
            # Draws move the cursors of a family, and fits do not change parameters.
            family = deepcopy(components) if components is self.components else components
            sampler = vrm(family, rng=rng, **options)
            check_space(sampler, n, "points")
            return sampler
        if components == "seeding":
            source = seeding or Unseeded(X, descent.centers, -(-n // descent.batch), descent.remembered)
            return choose_sampler(source, weights, rng, options)
        if components == "distances":
            if issparse(X):
                raise TypeError('components="distances" needs a dense X. Use components="seeding", which takes both.')
            points = np.sort(rng.choice(n, min(RANDOM_CENTERS, n), replace=False))
            return vrm(Distances(X, X[points]), rng=rng, **options)
        if components == "vrb":
            return vrb(n, rng=rng)
        return uniform(n, replacement=components == "uniform", rng=rng)

    # 4. Take steps, and store the result.

    def _run_descent(
        self,
        descent: "Descent",
        sampler: Sampler | SwitchAfter,
        steps: int,
        stopping: "StoppingRule",
        rng: np.random.Generator,
    ) -> None:
        """Take this many steps, or fewer if the stopping rule ends them."""
        while descent.steps < steps:
            # tol is checked per step, so take one at a time.
            before = descent.centers if stopping.tolerance > 0.0 else None
            descent.run_round(sampler, steps - descent.steps if before is None else 1)
            moved = np.inf if before is None else float(((descent.centers - before) ** 2).sum())
            self._reassign_centers(descent, rng)
            if self.verbose:
                print(f"Minibatch step {descent.steps}/{steps}: mean batch inertia: {descent.loss:.6g}")
            if stopping.see(descent.losses, moved):
                if self.verbose:
                    print(f"Converged at step {descent.steps}/{steps}.")
                return

    def _reassign_centers(self, descent: "Descent", rng: np.random.Generator) -> None:
        """Move centers with low counts: every 10 * n_clusters points, or at once if a count is zero."""
        self._points_since_check += len(descent.losses) * descent.batch
        if self.reassignment_ratio == 0.0:
            return
        if self._points_since_check < POINTS_BETWEEN_CHECKS * len(descent.counts) and descent.counts.min() > 0.0:
            return
        self._points_since_check = 0
        number = descent.reassign(self.reassignment_ratio, rng)
        if self.verbose and number:
            print(f"Reassigning {number} cluster centers.")

    def _store_centers(self, descent: "Descent", X: Any, weights: FloatArray | None) -> None:  # noqa: ANN401
        """Set the attributes that `fit` and `partial_fit` have in common."""
        self.cluster_centers_ = descent.centers
        self._n_features_out = len(self.cluster_centers_)
        self.counts_ = descent.counts
        self.labels_, self.inertia_ = assign_points(X, self.cluster_centers_, weights)


def mean_variance(X: Any) -> float:  # noqa: ANN401
    """Return the mean of the variances of all features, computed in blocks."""
    if issparse(X):
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


class StoppingRule:
    """Stop when the moving average of the inertia of batches no longer falls, or when the centers hardly move.

    Parameters
    ----------
    alpha : float
        Weight of the last batch in the moving average.
    tolerance : float, default 0.0
        Stop when the squared distance that the centers moved, summed over centers, is at most this; 0 never stops.
    patience : int, optional
        Stop after this many batches without a new minimum of the average; None never stops. Default: 10.

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
        """Add the inertia of some batches, and return whether to stop."""
        for loss in losses:
            if not self._begun:  # the first batch measures the initial centers, not progress
                self._begun = True
                continue
            self.average = loss if self.average is None else (1 - self.alpha) * self.average + self.alpha * loss
            self._waited = 0 if self.average < self._least else self._waited + 1
            self._least = min(self._least, self.average)
        if self.tolerance > 0.0 and moved <= self.tolerance and self.average is not None:
            return True
        return self.patience is not None and self.average is not None and self._waited >= self.patience


# A round draws several batches with one mixture. Rounds are short at first, because the mixture learns most early on:
# four batches, later one eighth of the number of steps so far. A round has at most 1,024 draws, or one batch if a batch
# is larger. With that many draws, the calls around the compiled steps cost little.
FIRST_BATCHES, ROUND_DIVISOR, MAX_DRAWS_PER_ROUND = 4, 8, 1024


class Descent:
    """Minibatch k-means (Sculley, 2010) with importance weights.

    A step assigns the points of a batch to their nearest centers. With w the importance weight of a point times its
    sample weight, `counts[c] += sum w` and `centers[c] += sum w (x - centers[c]) / counts[c]`, so every center is the
    weighted mean of all points it was moved by, until it is reassigned. The sampler learns from the sample weight times
    the distance to the nearest center. This is the norm of the gradient of the k-means objective, up to a constant.

    Several batches are drawn together. Their steps run in one compiled call, and the feedback follows.

    Parameters
    ----------
    X : array-like or CSR matrix of shape (n_samples, n_features)
        The points. A contiguous array of floats is not copied.
    centers : array-like of shape (n_clusters, n_features)
        Initial centers.
    batch : int
        Number of points in a batch.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the points. Default: one for every point.
    remember : bool, default False
        Whether to keep, for every point, the nearest center and the distance that the last step to draw it found.

    Attributes
    ----------
    centers : array of shape (n_clusters, n_features)
        A copy of the centers, in the precision of X.
    counts : array of shape (n_clusters,)
        Sum of the weights of the points that each center was moved by. A reassigned center starts from the lowest count
        of the centers that stayed.
    batch : int
        Number of points in a batch.
    meter : varmix.meter.GainMeter
        Gain of the sampling over uniform sampling.
    steps : int
        Number of steps so far.
    losses : array of shape (n_batches,)
        Weighted mean squared distance of each batch of the last round to the centers before its step.
    loss : float
        Mean of `losses`; nan before the first step.

    Examples
    --------
    >>> import varmix
    >>> X = np.random.default_rng(0).normal(size=(1000, 2)) + 9.0 * (np.arange(1000) % 2)[:, None]
    >>> descent = Descent(X, X[:2], batch=50)
    >>> descent.run(varmix.uniform(1000, rng=0), steps=100)
    >>> (descent.centers + 1.0).round().tolist(), descent.steps
    ([[1.0, 1.0], [10.0, 10.0]], 100)
    """

    def __init__(
        self,
        X: ArrayLike | Csr,
        centers: ArrayLike,
        *,
        batch: int,
        sample_weight: ArrayLike | None = None,
        remember: bool = False,
    ) -> None:
        self._rows, (self._n, d) = unchecked_rows(X)
        checked = as_centers(centers, self._rows, d)
        self._shift = choose_shift(self._rows, checked)
        self._centers: AnyArray = checked - self._shift if len(self._shift) else checked.copy()
        self._sample_weights = as_sample_weights(sample_weight, self._n)
        self.batch = as_count(batch, "batch")
        self.counts = np.zeros(len(checked))
        self.meter = GainMeter()
        self.steps = 0
        self.losses = np.empty(0)
        self.loss = float("nan")
        self._last = np.empty(0, dtype=np.int64)
        known = self._n if remember else 0
        self._nearest = np.zeros(known, dtype=choose_dtype(len(checked)))
        self._distances = np.zeros(known, dtype=np.float32)

    @property
    def centers(self) -> AnyArray:
        """Copy of the present centers."""
        return self._centers + self._shift if len(self._shift) else self._centers.copy()

    def remembered(self) -> Seeding:
        """Return the nearest center and the distance that the last step to draw each point found for it.

        The centers are the present ones. Each distance was measured to the center as it was before the step that drew
        the point. After an epoch of plain shuffling all points are known. Points that were never drawn have center 0 at
        distance 0. With `remember=False` the arrays are empty.

        Returns
        -------
        Seeding
            The present centers, and the nearest centers and distances at the time of the draws.
        """
        return Seeding(self.centers, self._nearest, self._distances)

    def run(self, sampler: Sampler | SwitchAfter, steps: int) -> None:
        """Take steps over batches that a sampler draws.

        Parameters
        ----------
        sampler : Sampler or SwitchAfter
            Sampler over `Points(n_samples)`.
        steps : int
            Number of steps.
        """
        end = self.steps + as_count(steps, "steps", least=0)
        check_space(sampler.first if isinstance(sampler, SwitchAfter) else sampler, self._n, "points")
        while self.steps < end:
            self.run_round(sampler, end - self.steps)

    def run_round(self, sampler: Sampler | SwitchAfter, max_steps: int) -> None:
        """Draw some batches together, take their steps, and report the norms to the sampler.

        Parameters
        ----------
        sampler : Sampler or SwitchAfter
            Sampler over `Points(n_samples)`; this is not checked.
        max_steps : int
            Largest number of steps, one per batch.
        """
        steps = max(self.steps // ROUND_DIVISOR, FIRST_BATCHES)
        steps = max(min(steps, MAX_DRAWS_PER_ROUND // self.batch, max_steps), 1)
        if isinstance(sampler, SwitchAfter):
            sampler = sampler.sampler_for(self.steps)
        draw = sampler.draw(self.batch, steps)
        norms = self.take_steps(draw.indices, draw.weights, steps)
        self.meter.update(draw, norms)  # in addition to the meter of the sampler, because the sampler may change
        sampler.update(draw, norms)

    def take_steps(self, points: IntArray, weights: FloatArray, steps: int = 1) -> FloatArray:
        """Take steps over consecutive batches of points.

        Points and weights are not checked. If a point is not finite, this raises and the centers do not change.

        Parameters
        ----------
        points : array of shape (n_draws,)
            Indices of the points of all batches, one batch after the other.
        weights : array of shape (n_draws,)
            Importance weights of the points.
        steps : int, default 1
            Number of steps, one per batch.

        Returns
        -------
        array of shape (n_draws,)
            Norms of the points: sample weight times the distance to the nearest center.
        """
        norms, losses = np.empty(len(points)), np.empty(steps)
        centers, counts = self._centers.copy(), self.counts.copy()
        changed = centers, counts, norms, losses, self._nearest, self._distances
        kernels.move_centers(self._rows, self._shift, self._sample_weights, points, weights, *changed)
        check_finite(float(losses.sum()))
        self._centers, self.counts = centers, counts
        self.steps += steps
        self.losses, self.loss = losses, float(losses.mean())
        self._last = points[-(len(points) // steps) :]
        return norms

    def reassign(self, ratio: float, rng: np.random.Generator) -> int:
        """Move centers with low counts to points of the last batch, as `MiniBatchKMeans` does.

        If the low centers are more than half the number of points in the batch, only that many are moved, those with
        the lowest counts first. A moved center gets the lowest count of the centers that stay, so that it is not moved
        again at once.

        Parameters
        ----------
        ratio : float
            Fraction of the largest count below which a count is low. A number above 1 counts as 1, so that the largest
            is never low.
        rng : numpy.random.Generator
            Generator that chooses the points.

        Returns
        -------
        int
            Number of centers that were moved.
        """
        low = self.counts < min(ratio, 1.0) * self.counts.max()
        most = len(self._last) // 2
        if low.sum() > most:
            low[np.argsort(self.counts, kind="stable")[most:]] = False
        number = int(low.sum())
        if number:
            chosen = rng.choice(self._last, number, replace=False)
            rows = read_rows(self._rows, chosen, self._centers.shape[1])
            self._centers[low] = rows - self._shift if len(self._shift) else rows
            self.counts[low] = self.counts[~low].min()
        return number
