"""MixtureSGDClassifier and MixtureSGDRegressor: linear models by SGD with batches from a mixture.

`fit` checks parameters and data, then calls `_fit_function` once per linear function: one for a regression or two
classes, one per class otherwise. `_fit_function` finds the first step size, makes the sampler, and runs the epochs.
After every epoch `FallbackMonitor` decides whether to change to plain shuffling. The helpers follow the estimators in
the order in which a fit calls them.
"""

import warnings
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from numbers import Real
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets, unique_labels
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from varmix._core.validation import AnyArray, FloatArray, as_count, rollback_on_error, unknown_choice
from varmix._presets import importance, uniform, vrm
from varmix._sampler import Sampler, as_family
from varmix.estimators._auto_groups import GROUP_KINDS, auto_labels
from varmix.literature import vrb
from varmix.meter import GainMeter, Interval
from varmix.solvers import Linear, sgd
from varmix.solvers.schedules import Constant, InverseTime, LinearDecay, Schedule

LEARNING_RATES = ("auto", "linear", "optimal", "invscaling", "constant")
SAMPLING_NAMES = ("mixture", "shuffle", "uniform", "importance", "vrb")
# Default number of epochs: enough for 2,000 steps, but at least 20 and at most 500. If a batch is most of the data,
# there is little noise to average, and an epoch of one or two steps spends most of its time outside the steps.
MIN_EPOCHS, MIN_STEPS, MAX_EPOCHS = 20, 2000, 500
MAX_CURVATURE_ROWS = 1000  # rows that the curvature is computed from
# The fallback first looks at the gain after a tenth of the epochs and 4,096 draws. After three tenths of the epochs
# the estimate decides, even if its interval still contains the limit.
EARLIEST_DECISION_SHARE, LATEST_DECISION_SHARE, MIN_DRAWS_TO_DECIDE = 0.1, 0.3, 4096


class FitResult(NamedTuple):
    """One fitted linear function, and how it was fitted."""

    theta: FloatArray
    epochs: int
    steps: int
    eta: float
    losses: list[float]
    mixture: FloatArray
    gain: Interval
    sampling: str
    reason: str | None


class MixtureSGD(BaseEstimator):  # type: ignore[misc]
    """Common base of the classifier and the regressor. Methods are in the order in which a fit calls them."""

    losses: dict[str, str]  # loss of scikit-learn: loss of varmix.solvers.Linear

    def _check_parameters(self, partial: bool) -> None:
        """Raise if a parameter is invalid, before any work is done."""
        for name, value, known in (
            ("loss", self.loss, self.losses),
            ("learning_rate", self.learning_rate, LEARNING_RATES),
        ):
            if not isinstance(value, str) or value not in known:
                raise ValueError(unknown_choice(name, str(value), known))
        if partial and self.learning_rate == "linear":
            raise ValueError(
                'learning_rate="linear" decays to zero at the last step, which partial_fit cannot know. Use "auto" '
                '(here "optimal"), "optimal", "invscaling" or "constant", or call fit.'
            )
        check_number(self.alpha, "alpha", zero=True)
        check_number(self.power_t, "power_t", zero=True)
        as_count(self.batch_size, "batch_size")
        as_count(self.n_iter_no_change, "n_iter_no_change")
        if self.max_iter is not None:
            as_count(self.max_iter, "max_iter")
        if self.eta0 is not None:
            check_number(self.eta0, "eta0")
        if self.tol is not None:
            check_number(self.tol, "tol")
        check_sampling(self.sampling, self.components, self.resplit)

    def _check_rows(self, X: Any, reset: bool, **options: Any) -> Any:  # noqa: ANN401
        """Return X, and y if it is among the options, as a C-contiguous array or a CSR matrix."""
        return validate_data(
            self, X, accept_sparse="csr", dtype=[np.float64, np.float32], order="C", reset=reset, **options
        )

    def _check_weights(self, sample_weight: Any, X: Any) -> FloatArray | None:  # noqa: ANN401
        """Return sample weights as an array; None stays None."""
        if sample_weight is None:
            return None
        if not np.asarray(sample_weight).any():  # older versions of scikit-learn do not check this
            raise ValueError("Sample weights must contain at least one non-zero number.")
        return np.asarray(_check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True))

    def _draw_seeds(self, count: int) -> list[int]:
        """Return one seed per linear function; an instance of RandomState is advanced, as in scikit-learn."""
        return check_random_state(self.random_state).randint(2**31 - 1, size=count).tolist()  # type: ignore[no-any-return]

    def _present_theta(self, row: int) -> FloatArray | None:
        """Return the present coefficients and intercept of one function, or None before the first fit."""
        if not hasattr(self, "coef_"):
            return None
        intercept = np.atleast_1d(self.intercept_)[[row]] if self.fit_intercept else np.empty(0)
        return np.concatenate([np.atleast_2d(self.coef_)[row], intercept]).astype(np.float64)

    def _fit_function(
        self,
        X: Any,  # noqa: ANN401
        y: FloatArray,
        weights: FloatArray | None,
        seed: int,
        start: FloatArray | None,
        done: float | None = None,
        eta: float | None = None,
    ) -> FitResult:
        """Fit one linear function from `start`.

        `done` is None in `fit`. In `partial_fit`, which is one epoch, it is the number of steps of earlier calls, and
        `eta` the first step size of the first call.
        """
        problem = Linear(X, y, loss=self.losses[self.loss], l2=self.alpha, intercept=self.fit_intercept, costs=weights)
        batch = min(int(self.batch_size), problem.n)
        epochs = 1 if done is not None else self.max_iter or choose_epochs(problem.n, batch)
        eta = self.eta0 or eta or first_step(X, problem, batch)
        name = self.learning_rate
        if name == "auto":
            name = "linear" if done is None else "optimal"
        sampler = build_sampler(self.sampling, self.components, self.resplit, X, problem, seed)
        monitor = FallbackMonitor(self.sampling, sampler, epochs, bool(self.fallback), seed, self.verbose)
        result = sgd(
            problem,
            sampler,
            start=start,
            step=make_schedule(name, eta, self.power_t, self.alpha, done or 0.0),
            epochs=epochs,
            batch=batch,
            tol=None if done is not None else self.tol,
            patience=self.n_iter_no_change,
            evaluations_per_epoch=0,
            after_epoch=monitor,
        )
        if result.stopped == "diverged":
            raise ValueError(
                f"SGD diverged in epoch {result.epochs}: the step size {eta:.3g} is too large for these data. "
                f"Standardise the features (and the target of a regression), or pass a smaller eta0 (None chooses one)."
            )
        if result.stopped == "epochs" and self.tol is not None and done is None:
            warnings.warn(
                f"The loss still fell by more than tol={self.tol} after max_iter={epochs} epochs. Increase max_iter or "
                f"tol.",
                ConvergenceWarning,
                stacklevel=4,
            )
        return FitResult(
            theta=result.theta,
            epochs=result.epochs,
            steps=-(-result.epochs * problem.n // batch),
            eta=eta,
            losses=monitor.losses,
            mixture=sampler.mixture,
            gain=monitor.gain(result.meter),
            sampling=monitor.sampling,
            reason=monitor.reason,
        )

    def _store_fits(self, fits: list[FitResult], dtype: Any, done: float = 0.0) -> None:  # noqa: ANN401
        """Set the fitted attributes: lists if there are several linear functions."""
        d = self.n_features_in_
        self.coef_ = np.array([fit.theta[:d] for fit in fits], dtype=dtype)
        self.intercept_ = np.array([fit.theta[d] if self.fit_intercept else 0.0 for fit in fits], dtype=dtype)
        self.n_iter_ = max(fit.epochs for fit in fits)
        self.t_ = done + max(fit.steps for fit in fits) + 1.0
        self.mixture_ = unwrap_single([fit.mixture for fit in fits])
        self.gain_ = unwrap_single([fit.gain for fit in fits])
        self.sampling_ = unwrap_single([fit.sampling for fit in fits])
        self.eta0_ = unwrap_single([fit.eta for fit in fits])
        self.fallback_ = unwrap_single([fit.reason for fit in fits])
        self.loss_curve_ = unwrap_single([fit.losses for fit in fits])

    def _compute_margins(self, X: Any) -> FloatArray:  # noqa: ANN401
        """Return the values of the linear functions, (n_samples, n_functions)."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        coefficients, intercept = np.atleast_2d(self.coef_), np.atleast_1d(self.intercept_)
        return np.asarray(safe_sparse_dot(X, coefficients.T, dense_output=True) + intercept)

    def __sklearn_tags__(self) -> Any:  # noqa: ANN401
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _has_probabilities(model: "MixtureSGDClassifier") -> bool:
    """Return True, or raise AttributeError if the loss has no probabilities, as `available_if` expects."""
    if model.loss != "log_loss":
        raise AttributeError(f'Probabilities need loss="log_loss", and this classifier has loss={model.loss!r}.')
    return True


class MixtureSGDClassifier(ClassifierMixin, MixtureSGD):  # type: ignore[misc]
    """Linear support vector machine or logistic regression by SGD, with batches from the reshuffled mixture.

    It minimises `mean(sample_weight * loss) + alpha/2 |coef|^2`, one class against the rest if there are more than
    two. The parameters are those of scikit-learn's `SGDClassifier`, with the exceptions below. The penalty is always
    L2, and there are fewer losses and learning rates.

    * Missing parameters: `penalty`, `l1_ratio`, `shuffle`, `epsilon`, `n_jobs`, `early_stopping`,
      `validation_fraction`, `class_weight`, `average`.
    * Missing arguments of fit: `coef_init`, `intercept_init`.
    * Missing methods: `densify`, `sparsify`.
    * Other defaults: `max_iter`, `tol`, `learning_rate`, `eta0`.
    * New parameters: `batch_size`, `sampling`, `components`, `resplit`, `fallback`.

    Parameters
    ----------
    loss : {"hinge", "log_loss"}, default "hinge"
        "hinge" is a linear support vector machine, "log_loss" logistic regression.
    alpha : float, default 1e-4
        Factor of the L2 penalty. With `learning_rate="optimal"` it also sets how fast the step size decays.
    fit_intercept : bool, default True
        Whether to fit an intercept. It is not penalised.
    max_iter : int, optional
        Number of epochs. Default: enough for 2,000 steps, but at least 20 and at most 500.
    tol : float, optional
        Stop when the mean loss of an epoch's draws has not fallen by at least `tol` below the best epoch for
        `n_iter_no_change` epochs in a row. Default: None, all epochs, because the linear decay needs them.
    n_iter_no_change : int, default 5
        Number of epochs without improvement before `tol` stops the fit.
    verbose : int, default 0
        Whether to print a line for every epoch.
    random_state : int, RandomState or None, default None
        Seed. An instance of `RandomState` is advanced by every fit.
    learning_rate : {"auto", "linear", "optimal", "invscaling", "constant"}, default "auto"
        Step size of batch t = 1, ..., T. `SGDClassifier` counts points, has no "auto" and "linear", and ignores `eta0`
        for "optimal".

        - "linear": `eta0 * (1 - (t - 1) / T)`.
        - "optimal": `eta0 / (1 + alpha * eta0 * t)`.
        - "invscaling": `eta0 / t**power_t`.
        - "constant": `eta0`.
        - "auto": "linear" in `fit`, "optimal" in `partial_fit`.
    eta0 : float, optional
        First step size. Default: None, found from the data; `eta0_` holds it.
    power_t : float, default 0.5
        Exponent of "invscaling".
    warm_start : bool, default False
        Whether `fit` starts from the present coefficients.
    batch_size : int, default 32
        Number of points in a batch. `SGDClassifier` takes a step for every point.
    sampling : {"mixture", "shuffle", "uniform", "importance", "vrb"}, default "mixture"
        How batches are sampled.

        - "mixture": the reshuffled mixture over `components`.
        - "shuffle": plain shuffling.
        - "uniform": uniform draws with replacement.
        - "importance": draws with replacement, in proportion to Lipschitz constants.
        - "vrb": `varmix.literature.vrb`, with replacement.
    components : str, array-like of shape (n_samples,) or family, default "auto"
        Components of the mixture: a kind of groups of `varmix.auto` ("auto", "labels", "clusters" or "norms"), an array
        of labels, or a family over the points.
    resplit : {"norms"} or None, default None
        "norms" splits every group by the latest norms of its points, after every epoch.
    fallback : bool, default True
        Whether to change to plain shuffling if the gain is below 1.25 (3.5 for a family with replacement). The fit
        decides between a tenth and three tenths of its epochs.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        The classes.
    coef_ : array of shape (1, n_features) or (n_classes, n_features)
        Coefficients. One row for two classes, one row per class otherwise.
    intercept_ : array of shape (1,) or (n_classes,)
        Intercepts.
    n_iter_ : int
        Number of epochs of the last call.
    t_ : float
        Number of steps so far, plus one. `SGDClassifier` counts points.
    eta0_ : float
        First step size.
    sampling_ : str
        Sampling at the end of the fit: `sampling`, or "shuffle" after the fallback.
    fallback_ : str or None
        Why the fit changed to plain shuffling, or None if it did not.
    mixture_ : array of shape (n_components,)
        Learned mixture. The uniform component is last.
    gain_ : varmix.meter.Interval
        Gain over uniform sampling, with its 95 % interval.
    loss_curve_ : list of float
        Mean weighted loss of the draws of every epoch. With more than two classes, `loss_curve_` and the five
        attributes above are lists with one entry per class.
    n_features_in_ : int
        Number of features of X.
    feature_names_in_ : array of shape (n_features,)
        Names of the features, if X has string names.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(2000, weights=[0.95], random_state=0)
    >>> model = MixtureSGDClassifier(loss="log_loss", random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.95
    True
    >>> model.sampling_
    'mixture'
    """

    losses = {"hinge": "hinge", "log_loss": "logistic"}  # noqa: RUF012
    classes_: AnyArray

    def __init__(
        self,
        loss: str = "hinge",
        *,
        alpha: float = 1e-4,
        fit_intercept: bool = True,
        max_iter: int | None = None,
        tol: float | None = None,
        n_iter_no_change: int = 5,
        verbose: int = 0,
        random_state: Any = None,  # noqa: ANN401
        learning_rate: str = "auto",
        eta0: float | None = None,
        power_t: float = 0.5,
        warm_start: bool = False,
        batch_size: int = 32,
        sampling: str = "mixture",
        components: Any = "auto",  # noqa: ANN401
        resplit: str | None = None,
        fallback: bool = True,
    ) -> None:
        self.loss = loss
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.n_iter_no_change = n_iter_no_change
        self.verbose = verbose
        self.random_state = random_state
        self.learning_rate = learning_rate
        self.eta0 = eta0
        self.power_t = power_t
        self.warm_start = warm_start
        self.batch_size = batch_size
        self.sampling = sampling
        self.components = components
        self.resplit = resplit
        self.fallback = fallback

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:  # noqa: ANN401
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The points. Standardise the features, as for any SGD.
        y : array-like of shape (n_samples,)
            Their classes.
        sample_weight : array-like of shape (n_samples,), optional
            Factors of the losses. Default: one for every point.

        Returns
        -------
        MixtureSGDClassifier
            The fitted estimator.

        Raises
        ------
        ValueError
            If a parameter or the data are invalid, `y` has one class only, or the fit diverges. The estimator does not
            change then.
        """
        self._check_parameters(partial=False)
        with rollback_on_error(self):
            X, targets = self._check_rows(X, reset=True, y=y)
            check_classification_targets(targets)
            weights = self._check_weights(sample_weight, X)
            classes = unique_labels(targets)
            if len(classes) < 2:
                raise ValueError(
                    f"A classifier needs at least two classes, and y has one class only: {classes.tolist()[0]!r}."
                )
            warm = self.warm_start and hasattr(self, "classes_") and np.array_equal(self.classes_, classes)
            warm = warm and self.coef_.shape[1] == X.shape[1]
            self.classes_ = classes
            self._fit_classes(X, targets, weights, warm, None)
        return self

    def partial_fit(
        self,
        X: Any,  # noqa: ANN401
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Train for one epoch on these points, continuing from the last call.

        Coefficients and the number of steps carry over. Groups and mixture do not: every call determines its own.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The points.
        y : array-like of shape (n_samples,)
            Their classes.
        classes : array-like of shape (n_classes,), optional
            All classes that any call will see. Required in the first call. Default: the classes of the first call.
        sample_weight : array-like of shape (n_samples,), optional
            Factors of the losses. Default: one for every point.

        Returns
        -------
        MixtureSGDClassifier
            The estimator.

        Raises
        ------
        ValueError
            If a parameter or the data are invalid, `classes` is missing in the first call or differs in a later one, or
            the fit diverges. The estimator does not change then.
        """
        self._check_parameters(partial=True)
        first = not hasattr(self, "classes_")
        if first and classes is None:
            raise ValueError("classes must be passed on the first call to partial_fit: all classes of all calls.")
        with rollback_on_error(self):
            X, targets = self._check_rows(X, reset=first, y=y)
            check_classification_targets(targets)
            if classes is not None:
                named = unique_labels(np.asarray(classes))
                if not first and not np.array_equal(self.classes_, named):
                    raise ValueError(f"classes must not change between calls: got {named}, before {self.classes_}.")
                if len(named) < 2:
                    raise ValueError(
                        f"A classifier needs at least two classes, and classes has one only: {named.tolist()[0]!r}."
                    )
            known = named if first else self.classes_
            if not np.isin(targets, known).all():
                raise ValueError(f"y has classes that are not among {known}. Pass all classes in the first call.")
            weights = self._check_weights(sample_weight, X)
            self.classes_ = known
            self._fit_classes(X, targets, weights, not first, 0.0 if first else self.t_ - 1.0)
        return self

    def _fit_classes(
        self,
        X: Any,  # noqa: ANN401
        y: AnyArray,
        weights: FloatArray | None,
        warm: bool,
        done: float | None,
    ) -> None:
        """Fit the second class against the first, or every class against the rest."""
        positive = self.classes_[1:] if len(self.classes_) == 2 else self.classes_
        etas = np.atleast_1d(self.eta0_) if done else np.full(len(positive), None)
        fits = []
        for row, (c, seed) in enumerate(zip(positive, self._draw_seeds(len(positive)), strict=True)):
            start = self._present_theta(row) if warm else None
            fits.append(self._fit_function(X, np.where(y == c, 1.0, -1.0), weights, seed, start, done, etas[row]))
        self._store_fits(fits, X.dtype, done or 0.0)

    def decision_function(self, X: Any) -> FloatArray:  # noqa: ANN401
        """Return the margins.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The points.

        Returns
        -------
        array of shape (n_samples,) or (n_samples, n_classes)
            Margins of the second class, or of every class if there are more than two.
        """
        margins = self._compute_margins(X)
        return margins.ravel() if margins.shape[1] == 1 else margins

    def predict(self, X: Any) -> AnyArray:  # noqa: ANN401
        """Return the class with the largest margin.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The points.

        Returns
        -------
        array of shape (n_samples,)
            Predicted classes.
        """
        margins = self.decision_function(X)
        chosen = (margins > 0).astype(np.int64) if margins.ndim == 1 else margins.argmax(axis=1)
        return np.asarray(self.classes_[chosen])

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> FloatArray:  # noqa: ANN401
        """Return the probabilities of the classes; this needs `loss="log_loss"`.

        With more than two classes these are the probabilities of each class against the rest, scaled to sum to one.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The points.

        Returns
        -------
        array of shape (n_samples, n_classes)
            Probabilities.
        """
        margins = self._compute_margins(X)
        with np.errstate(over="ignore"):
            likely = 1.0 / (1.0 + np.exp(-margins))
        if margins.shape[1] == 1:
            return np.hstack([1.0 - likely, likely])
        total = likely.sum(axis=1, keepdims=True)
        return np.asarray(np.where(total > 0, likely / np.where(total > 0, total, 1.0), 1.0 / likely.shape[1]))

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> FloatArray:  # noqa: ANN401
        """Return the logarithms of the probabilities; this needs `loss="log_loss"`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The points.

        Returns
        -------
        array of shape (n_samples, n_classes)
            Logarithms of the probabilities.
        """
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))


class MixtureSGDRegressor(RegressorMixin, MixtureSGD):  # type: ignore[misc]
    """Linear least squares by SGD, with batches from the reshuffled mixture.

    It minimises `mean(sample_weight * (y - x.coef - intercept)^2) / 2 + alpha/2 |coef|^2`, as `SGDRegressor` does. The
    parameters are those of scikit-learn's `SGDRegressor`, with the exceptions below. The penalty is always L2, and
    there are fewer losses and learning rates.

    * Missing parameters: `penalty`, `l1_ratio`, `shuffle`, `epsilon`, `early_stopping`, `validation_fraction`,
      `average`.
    * Missing arguments of fit: `coef_init`, `intercept_init`.
    * Missing methods: `densify`, `sparsify`.
    * Other defaults: `max_iter`, `tol`, `learning_rate`, `eta0`.
    * New parameters: `batch_size`, `sampling`, `components`, `resplit`, `fallback`.

    Parameters
    ----------
    loss : {"squared_error"}, default "squared_error"
        Half of the squared error.
    alpha : float, default 1e-4
        Factor of the L2 penalty. With `learning_rate="optimal"` it also sets how fast the step size decays.
    fit_intercept : bool, default True
        Whether to fit an intercept. It is not penalised.
    max_iter : int, optional
        Number of epochs. Default: enough for 2,000 steps, but at least 20 and at most 500.
    tol : float, optional
        Stop when the mean loss of an epoch's draws has not fallen by at least `tol` below the best epoch for
        `n_iter_no_change` epochs in a row. Default: None, all epochs, because the linear decay needs them.
    n_iter_no_change : int, default 5
        Number of epochs without improvement before `tol` stops the fit.
    verbose : int, default 0
        Whether to print a line for every epoch.
    random_state : int, RandomState or None, default None
        Seed. An instance of `RandomState` is advanced by every fit.
    learning_rate : {"auto", "linear", "optimal", "invscaling", "constant"}, default "auto"
        Step size of batch t = 1, ..., T. `SGDRegressor` counts points, has no "auto" and "linear", and ignores `eta0`
        for "optimal".

        - "linear": `eta0 * (1 - (t - 1) / T)`.
        - "optimal": `eta0 / (1 + alpha * eta0 * t)`.
        - "invscaling": `eta0 / t**power_t`.
        - "constant": `eta0`.
        - "auto": "linear" in `fit`, "optimal" in `partial_fit`.
    eta0 : float, optional
        First step size. Default: None, found from the data; `eta0_` holds it.
    power_t : float, default 0.25
        Exponent of "invscaling".
    warm_start : bool, default False
        Whether `fit` starts from the present coefficients.
    batch_size : int, default 32
        Number of points in a batch. `SGDRegressor` takes a step for every point.
    sampling : {"mixture", "shuffle", "uniform", "importance", "vrb"}, default "mixture"
        How batches are sampled.

        - "mixture": the reshuffled mixture over `components`.
        - "shuffle": plain shuffling.
        - "uniform": uniform draws with replacement.
        - "importance": draws with replacement, in proportion to Lipschitz constants.
        - "vrb": `varmix.literature.vrb`, with replacement.
    components : str, array-like of shape (n_samples,) or family, default "auto"
        Components of the mixture: a kind of groups of `varmix.auto` ("auto", "clusters" or "norms"), an array of
        labels, or a family over the points. "auto" groups by the distance of the target from its median, and by the
        length of the row.
    resplit : {"norms"} or None, default None
        "norms" splits every group by the latest norms of its points, after every epoch.
    fallback : bool, default True
        Whether to change to plain shuffling if the gain is below 1.25 (3.5 for a family with replacement). The fit
        decides between a tenth and three tenths of its epochs.

    Attributes
    ----------
    coef_ : array of shape (n_features,)
        Coefficients.
    intercept_ : array of shape (1,)
        Intercept.
    n_iter_ : int
        Number of epochs of the last call.
    t_ : float
        Number of steps so far, plus one. `SGDRegressor` counts points.
    eta0_ : float
        First step size.
    sampling_ : str
        Sampling at the end of the fit: `sampling`, or "shuffle" after the fallback.
    fallback_ : str or None
        Why the fit changed to plain shuffling, or None if it did not.
    mixture_ : array of shape (n_components,)
        Learned mixture. The uniform component is last.
    gain_ : varmix.meter.Interval
        Gain over uniform sampling, with its 95 % interval.
    loss_curve_ : list of float
        Mean weighted loss of the draws of every epoch.
    n_features_in_ : int
        Number of features of X.
    feature_names_in_ : array of shape (n_features,)
        Names of the features, if X has string names.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 3))
    >>> y = X @ [1.0, -2.0, 0.5] + 3.0 + 0.1 * rng.standard_cauchy(2000).clip(-50, 50)
    >>> model = MixtureSGDRegressor(random_state=0).fit(X, y)
    >>> bool(np.allclose(model.coef_, [1.0, -2.0, 0.5], atol=0.1))
    True
    """

    losses = {"squared_error": "squared"}  # noqa: RUF012

    def __init__(
        self,
        loss: str = "squared_error",
        *,
        alpha: float = 1e-4,
        fit_intercept: bool = True,
        max_iter: int | None = None,
        tol: float | None = None,
        n_iter_no_change: int = 5,
        verbose: int = 0,
        random_state: Any = None,  # noqa: ANN401
        learning_rate: str = "auto",
        eta0: float | None = None,
        power_t: float = 0.25,
        warm_start: bool = False,
        batch_size: int = 32,
        sampling: str = "mixture",
        components: Any = "auto",  # noqa: ANN401
        resplit: str | None = None,
        fallback: bool = True,
    ) -> None:
        self.loss = loss
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.n_iter_no_change = n_iter_no_change
        self.verbose = verbose
        self.random_state = random_state
        self.learning_rate = learning_rate
        self.eta0 = eta0
        self.power_t = power_t
        self.warm_start = warm_start
        self.batch_size = batch_size
        self.sampling = sampling
        self.components = components
        self.resplit = resplit
        self.fallback = fallback

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:  # noqa: ANN401
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The points. Standardise the features, as for any SGD.
        y : array-like of shape (n_samples,)
            Their targets.
        sample_weight : array-like of shape (n_samples,), optional
            Factors of the losses. Default: one for every point.

        Returns
        -------
        MixtureSGDRegressor
            The fitted estimator.
        """
        self._check_parameters(partial=False)
        with rollback_on_error(self):
            X, targets = self._check_rows(X, reset=True, y=y, y_numeric=True)
            weights = self._check_weights(sample_weight, X)
            warm = self.warm_start and hasattr(self, "coef_") and self.coef_.shape == (X.shape[1],)
            self._fit_targets(X, targets, weights, warm, None)
        return self

    def partial_fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:  # noqa: ANN401
        """Train for one epoch on these points, continuing from the last call.

        Coefficients and the number of steps carry over. Groups and mixture do not: every call determines its own.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The points.
        y : array-like of shape (n_samples,)
            Their targets.
        sample_weight : array-like of shape (n_samples,), optional
            Factors of the losses. Default: one for every point.

        Returns
        -------
        MixtureSGDRegressor
            The estimator.
        """
        self._check_parameters(partial=True)
        first = not hasattr(self, "coef_")
        with rollback_on_error(self):
            X, targets = self._check_rows(X, reset=first, y=y, y_numeric=True)
            weights = self._check_weights(sample_weight, X)
            self._fit_targets(X, targets, weights, not first, 0.0 if first else self.t_ - 1.0)
        return self

    def _fit_targets(
        self,
        X: Any,  # noqa: ANN401
        y: FloatArray,
        weights: FloatArray | None,
        warm: bool,
        done: float | None,
    ) -> None:
        """Fit the one linear function."""
        start, eta = self._present_theta(0) if warm else None, self.eta0_ if done else None
        y, seed = np.asarray(y, dtype=np.float64), self._draw_seeds(1)[0]
        self._store_fits([self._fit_function(X, y, weights, seed, start, done, eta)], X.dtype, done or 0.0)
        self.coef_ = self.coef_[0]

    def predict(self, X: Any) -> FloatArray:  # noqa: ANN401
        """Return the values of the linear function.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The points.

        Returns
        -------
        array of shape (n_samples,)
            Predicted targets.
        """
        return self._compute_margins(X).ravel()


def check_number(value: object, name: str, zero: bool = False) -> None:
    """Raise if a parameter is not a finite positive number; `zero` allows zero too."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, got {value!r}.")
    number = float(value)
    if not (np.isfinite(number) and (number > 0 or (zero and number == 0))):
        raise ValueError(f"{name} must be a finite number {'of at least' if zero else 'above'} zero, got {value!r}.")


def check_sampling(sampling: object, components: Any, resplit: object) -> None:  # noqa: ANN401
    """Raise if the parameters of the sampling are invalid."""
    if not isinstance(sampling, str) or sampling not in SAMPLING_NAMES:
        raise ValueError(unknown_choice("sampling", str(sampling), SAMPLING_NAMES))
    if isinstance(components, str) and components not in GROUP_KINDS:
        raise ValueError(unknown_choice("kind of components", components, GROUP_KINDS))
    is_family = not isinstance(components, str) and as_family(components) is components
    if resplit is not None and not (isinstance(resplit, str) and resplit == "norms"):
        raise ValueError(f'resplit must be None or "norms", got {resplit!r}.')
    if resplit is not None and is_family:
        raise ValueError(
            "resplit applies to groups that fit builds, and components is a family already. Pass it to the family "
            "instead: Groups(..., resplit=...)."
        )


def choose_epochs(n: int, batch: int) -> int:
    """Return the default number of epochs."""
    return min(max(MIN_EPOCHS, -(-MIN_STEPS * batch // n)), MAX_EPOCHS)


def first_step(X: Any, problem: Linear, batch: int) -> float:  # noqa: ANN401 - an array or a CSR matrix
    """Return a first step size that is about as large as the data allow.

    Steps over batches are stable below 1 / bound, where bound is

        curvature of the loss * (largest eigenvalue of mean(x x') + mean |x|^4 / mean |x|^2 / batch) + alpha.

    The second term accounts for single long rows in a batch. The eigenvalue is computed from up to 1,000 evenly spaced
    rows. The hinge has no curvature; 1 is used instead, and a step then moves margins by about one. Losses of
    classifiers level off, so their step size is 2 / bound: with linear decay, the best multiple of 1 / bound on eight
    data sets was between one and eight, with small differences.

    Examples
    --------
    >>> X = np.eye(4)
    >>> round(first_step(X, Linear(X, np.ones(4), loss="squared"), batch=4), 6)
    2.0
    """
    sizes = problem.lengths**2 * (problem.costs if len(problem.costs) else 1.0)
    mean = float(sizes.mean())
    if not 0.0 < mean < np.inf:
        return 1.0
    single = mean * float(((sizes / mean) ** 2).mean()) / batch
    bound = (problem.curvature or 1.0) * (find_largest_eigenvalue(X, problem) + single) + problem.l2
    return (1.0 if problem.loss == "squared" else 2.0) / bound


def find_largest_eigenvalue(X: Any, problem: Linear) -> float:  # noqa: ANN401
    """Return the largest eigenvalue of the weighted mean of x x', by ten power iterations on some rows."""
    stride = -(-problem.n // MAX_CURVATURE_ROWS)
    rows = X[::stride]
    sample = Linear(rows, np.zeros(rows.shape[0]), loss="squared", intercept=problem.intercept)
    weights = problem.costs[::stride] if len(problem.costs) else 1.0
    direction, value = sample.combine(np.ones(sample.n)) + 1e-3, 0.0
    for _ in range(10):
        length = float(np.linalg.norm(direction))
        if length == 0.0:
            break
        direction = sample.combine(weights * sample.margins(direction / length))
        value = float(np.linalg.norm(direction))
    return value


def build_sampler(
    sampling: str,
    components: Any,  # noqa: ANN401 - a name, labels or a family
    resplit: Any,  # noqa: ANN401 - None or "norms"
    X: Any,  # noqa: ANN401
    problem: Linear,
    seed: int,
) -> Sampler:
    """Return the sampler for the parameters of the estimator."""
    if sampling == "shuffle":
        return uniform(problem.n, replacement=False, rng=seed)
    if sampling == "uniform":
        return uniform(problem.n, rng=seed)
    if sampling == "vrb":
        return vrb(problem.n, rng=seed)
    if sampling == "importance":
        scores = problem.lipschitz
        return importance(scores if scores.max() > 0 else np.ones(problem.n), rng=seed)
    source = components
    if isinstance(components, str):
        task = "regression" if problem.loss == "squared" else "classification"
        source = auto_labels(X, problem.y, kind=components, task=task, rng=seed)
    family = as_family(source, resplit=resplit)
    if family.space.n != problem.n:
        raise ValueError(f"components are over {family.space.n} points, but X has {problem.n} rows.")
    if family is source:  # draws change a family, but a fit must not change a parameter
        family = deepcopy(family)
    return vrm(family, rng=seed)


class FallbackMonitor:
    """Keep the losses of the epochs, and change to plain shuffling if the mixture does not pay.

    Plain shuffling is the better choice below a gain of 1.25. For a family with replacement, which lacks the advantage
    of shuffling, the limit is 3.5. The gain is compared with the limit after every epoch, starting after a tenth of the
    epochs and 4,096 draws, until its interval lies on one side. After three tenths of the epochs the estimate decides:
    the gain in the first tenth to third of a fit predicts the gain of the whole fit.

    An instance is the `after_epoch` of `varmix.solvers.sgd`: it returns a sampler to change to, or None.
    """

    def __init__(self, sampling: str, sampler: Sampler, epochs: int, fallback: bool, seed: int, verbose: int) -> None:
        self.sampling, self.epochs, self.verbose = sampling, epochs, verbose
        self.losses: list[float] = []
        self.reason: str | None = None
        self._undecided, self._seed = fallback and sampling == "mixture", seed
        self._gain: Interval | None = None
        self._n = sampler.components.space.n
        self._least = sampler.meter.limits[0 if sampler.reshuffled else 1]

    def __call__(self, epoch: int, loss: float, meter: GainMeter) -> Sampler | None:
        """Add the loss of an epoch, and return the sampler to change to, or None."""
        self.losses.append(loss)
        if self.verbose:
            print(f"epoch {epoch}/{self.epochs}: loss {loss:.6g}, gain {self.gain(meter).value:.3g} ({self.sampling})")
        if (
            not self._undecided
            or epoch < EARLIEST_DECISION_SHARE * self.epochs
            or meter.draws < MIN_DRAWS_TO_DECIDE
            or epoch == self.epochs
        ):
            return None
        gain, least = meter.gain, self._least
        if gain.low < least <= gain.high and epoch < LATEST_DECISION_SHARE * self.epochs:
            return None
        self._undecided = False
        if gain.value >= least:
            return None
        self._gain, self.sampling = gain, "shuffle"
        self.reason = (
            f"After {epoch} of {self.epochs} epochs the gain over uniform sampling was {gain}, below {least}. Plain "
            f"shuffling is better at such gains and was used for the remaining epochs."
        )
        return uniform(self._n, replacement=False, rng=self._seed)

    def gain(self, meter: GainMeter) -> Interval:
        """Return the gain of the first sampler, whether or not it was replaced."""
        return meter.gain if self._gain is None else self._gain


def make_schedule(name: str, eta: float, power: float, alpha: float, done: float = 0.0) -> Schedule:
    """Return the step sizes of a learning rate after `done` steps.

    Examples
    --------
    >>> make_schedule("linear", 2.0, 0.5, 1e-4)(np.array([1.0, 2.0, 3.0, 4.0]), 4).tolist()
    [2.0, 1.5, 1.0, 0.5]
    >>> make_schedule("invscaling", 2.0, 0.5, 1e-4, done=3.0)(np.array([1.0]), 4).tolist()
    [1.0]
    """
    schedules: dict[str, Schedule] = {
        "linear": LinearDecay(eta),
        "optimal": InverseTime(eta, alpha),
        "invscaling": InverseScaling(eta, power),
        "constant": Constant(eta),
    }
    return ContinuedSchedule(schedules[name], done)


@dataclass(frozen=True)
class InverseScaling:
    """Step sizes eta / t^power."""

    eta: float
    power: float

    def __call__(self, t: FloatArray, total: int) -> FloatArray:
        """Return the step sizes of steps t."""
        return np.asarray(self.eta / t**self.power)


@dataclass(frozen=True)
class ContinuedSchedule:
    """A schedule that starts after `done` steps."""

    schedule: Schedule
    done: float

    def __call__(self, t: FloatArray, total: int) -> FloatArray:
        """Return the step sizes of steps done + t."""
        return self.schedule(t + self.done, total)


def unwrap_single(values: Sequence[Any]) -> Any:  # noqa: ANN401
    """Return the only value, or all values if there are several."""
    return values[0] if len(values) == 1 else values
