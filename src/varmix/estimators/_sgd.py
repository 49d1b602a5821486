"""What the SGD estimators share: one fit from validation to coefficients, and the search for a step size."""

import warnings
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from varmix._core.validation import FloatArray, unknown_choice
from varmix.estimators import _sgd_sampling as sampling
from varmix.meter import Interval
from varmix.solvers import Linear, sgd
from varmix.solvers.schedules import Constant, InverseTime, LinearDecay, Schedule

LEARNING_RATES = ("auto", "linear", "optimal", "invscaling", "constant")
MAX_CURVATURE_ROWS = 1000  # rows that the curvature is found from


@dataclass(frozen=True)
class InverseScaling:
    """eta / t^power."""

    eta: float
    power: float

    def __call__(self, t: FloatArray, total: int) -> FloatArray:
        """Give eta / t^power."""
        return np.asarray(self.eta / t**self.power)


@dataclass(frozen=True)
class ContinuedSchedule:
    """A schedule after `done` steps of it."""

    schedule: Schedule
    done: float

    def __call__(self, t: FloatArray, total: int) -> FloatArray:
        """Give the steps number done + t."""
        return self.schedule(t + self.done, total)


def make_schedule(name: str, eta: float, power: float, alpha: float, done: float = 0.0) -> Schedule:
    """Give the schedule of a name after `done` steps of it.

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


def first_step(X: Any, problem: Linear, batch: int) -> float:  # noqa: ANN401 - an array or a CSR matrix
    """Give a step that is about as long as it can be, from the data.

    Steps over batches are stable while they are shorter than one over

        curvature of the loss * (largest eigenvalue of mean(x x') + mean |x|^4 / mean |x|^2 / batch),

    where the second term is what single long rows do to a batch.  The eigenvalue comes from up to 1,000 rows, evenly
    spaced.  The hinge, which has no curvature, is taken to have one of 1: a step then moves margins by about one.
    Losses of classifiers level off, so theirs are twice as long: with linear decay the best of all multiples of it on
    eight data sets was between one and eight, and none of these mattered much.

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
    bound = (problem.curvature or 1.0) * (_largest_eigenvalue(X, problem) + single) + problem.l2
    return (1.0 if problem.loss == "squared" else 2.0) / bound


def _largest_eigenvalue(X: Any, problem: Linear) -> float:  # noqa: ANN401
    stride = -(-problem.n // MAX_CURVATURE_ROWS)
    rows = X[::stride]
    some = Linear(rows, np.zeros(rows.shape[0]), loss="squared", intercept=problem.intercept)
    costs = problem.costs[::stride] if len(problem.costs) else 1.0
    direction, value = some.combine(np.ones(some.n)) + 1e-3, 0.0
    for _ in range(10):
        length = float(np.linalg.norm(direction))
        if length == 0.0:
            break
        direction = some.combine(costs * some.margins(direction / length))
        value = float(np.linalg.norm(direction))
    return value


# Epochs unless told: these, or as many as give so many steps, but no more than that.  Where a batch is most of the
# data there is little noise to average, and epochs of one or two steps cost mostly what is around the steps.
MIN_EPOCHS, MIN_STEPS, MAX_EPOCHS = 20, 2000, 500


class FitResult(NamedTuple):
    """One linear function: what SGD gave, and what is told about how."""

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
    """A linear model by SGD whose batches a mixture draws; see the two estimators."""

    losses: dict[str, str]  # names of scikit-learn to ours

    def __sklearn_tags__(self) -> Any:  # noqa: ANN401
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _check_parameters(self, partial: bool) -> None:
        for name, known in (("loss", self.losses), ("learning_rate", LEARNING_RATES)):
            value = getattr(self, name)
            if not isinstance(value, str) or value not in known:
                raise ValueError(unknown_choice(name, str(value), known))
        if partial and self.learning_rate == "linear":
            raise ValueError(
                'learning_rate="linear" ends at zero, and partial_fit cannot know when that is. Use "auto" (here '
                '"optimal"), "optimal", "invscaling" or "constant", or fit.'
            )
        _check_number(self.alpha, "alpha", zero=True)
        _check_number(self.power_t, "power_t", zero=True)
        _check_whole(self.batch_size, "batch_size")
        _check_whole(self.n_iter_no_change, "n_iter_no_change")
        if self.max_iter is not None:
            _check_whole(self.max_iter, "max_iter")
        if self.eta0 is not None:
            _check_number(self.eta0, "eta0")
        if self.tol is not None:
            _check_number(self.tol, "tol")
        sampling.check_sampling(self.sampling, self.components, self.resplit)

    def _check_rows(self, X: Any, reset: bool, **options: Any) -> Any:  # noqa: ANN401
        return validate_data(
            self, X, accept_sparse="csr", dtype=[np.float64, np.float32], order="C", reset=reset, **options
        )

    def _check_costs(self, sample_weight: Any, X: Any) -> FloatArray | None:  # noqa: ANN401
        if sample_weight is None:
            return None
        if not np.asarray(sample_weight).any():  # older scikit-learn lets it pass
            raise ValueError("Sample weights must contain at least one non-zero number: all points weigh nothing.")
        return np.asarray(_check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True))

    def _seeds(self, count: int) -> list[int]:
        # scikit-learn's way: an instance of RandomState goes on, so that two fits with it differ.
        return check_random_state(self.random_state).randint(2**31 - 1, size=count).tolist()  # type: ignore[no-any-return]

    def _run(
        self,
        X: Any,  # noqa: ANN401
        y: FloatArray,
        costs: FloatArray | None,
        seed: int,
        start: FloatArray | None,
        done: float | None = None,
        eta: float | None = None,
    ) -> FitResult:
        """Minimise over these points; `done` steps are behind us when this is one epoch of many calls."""
        problem = Linear(X, y, loss=self.losses[self.loss], l2=self.alpha, intercept=self.fit_intercept, costs=costs)
        batch = min(int(self.batch_size), problem.n)
        epochs = 1 if done is not None else self.max_iter or _choose_epochs(problem.n, batch)
        eta = self.eta0 or eta or first_step(X, problem, batch)
        name = self.learning_rate
        if name == "auto":
            name = "linear" if done is None else "optimal"
        sampler = sampling.build_sampler(self.sampling, self.components, self.resplit, X, problem, seed)
        watch = sampling.FallbackMonitor(self.sampling, sampler, epochs, bool(self.fallback), seed, self.verbose)
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
            after_epoch=watch,
        )
        if result.stopped == "diverged":
            raise ValueError(
                f"SGD diverged in epoch {result.epochs}: steps of {eta:.3g} are too long for these data. Standardise "
                f"the features (and the target of a regression), or give a smaller eta0 (None chooses one)."
            )
        if result.stopped == "epochs" and self.tol is not None and done is None:
            warnings.warn(
                f"The loss still fell by more than tol={self.tol} when max_iter={epochs} epochs were done.",
                ConvergenceWarning,
                stacklevel=4,
            )
        steps = -(-result.epochs * problem.n // batch)
        return FitResult(
            result.theta,
            result.epochs,
            steps,
            eta,
            watch.losses,
            watch.mixture,
            watch.gain(result.meter),
            watch.sampling,
            watch.reason,
        )

    def _start(self, row: int) -> FloatArray | None:
        """Give the coefficients that there are, for warm starts and for partial fits."""
        if not hasattr(self, "coef_"):
            return None
        intercept = np.atleast_1d(self.intercept_)[[row]] if self.fit_intercept else np.empty(0)
        return np.concatenate([np.atleast_2d(self.coef_)[row], intercept]).astype(np.float64)

    def _keep(self, fits: list[FitResult], dtype: Any, done: float = 0.0) -> None:  # noqa: ANN401
        """Set the attributes; of one function as they are, of several as lists."""
        d = self.n_features_in_
        self.coef_ = np.array([fit.theta[:d] for fit in fits], dtype=dtype)
        self.intercept_ = np.array([fit.theta[d] if self.fit_intercept else 0.0 for fit in fits], dtype=dtype)
        self.n_iter_ = max(fit.epochs for fit in fits)
        self.t_ = done + max(fit.steps for fit in fits) + 1.0
        for name in ("mixture", "gain", "sampling", "eta"):
            values = [getattr(fit, name) for fit in fits]
            setattr(self, {"eta": "eta0"}.get(name, name) + "_", values[0] if len(fits) == 1 else values)
        reasons, curves = [fit.reason for fit in fits], [fit.losses for fit in fits]
        self.fallback_ = reasons[0] if len(fits) == 1 else reasons
        self.loss_curve_ = curves[0] if len(fits) == 1 else curves

    def _margins(self, X: Any) -> FloatArray:  # noqa: ANN401
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        coefficients, intercept = np.atleast_2d(self.coef_), np.atleast_1d(self.intercept_)
        return np.asarray(safe_sparse_dot(X, coefficients.T, dense_output=True) + intercept)


def _choose_epochs(n: int, batch: int) -> int:
    """Give the number of epochs unless told."""
    return min(max(MIN_EPOCHS, -(-MIN_STEPS * batch // n)), MAX_EPOCHS)


def _check_number(value: object, name: str, zero: bool = False) -> None:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, got {value!r}.")
    number = float(value)
    if not (np.isfinite(number) and (number > 0 or (zero and number == 0))):
        raise ValueError(f"{name} must be a finite number {'of at least' if zero else 'above'} zero, got {value!r}.")


def _check_whole(value: object, name: str) -> None:
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be a whole number, got {value!r}.")
    if int(value) < 1:
        raise ValueError(f"{name} must be at least 1, got {value!r}.")
