"""The loop that every solver shares: draw, step, report feedback, evaluate the objective, stop."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from time import perf_counter
from types import TracebackType
from typing import Any, Literal, Required, TypeAlias, TypedDict

import numpy as np
from numpy.typing import ArrayLike

from varmix._core.spaces import Points
from varmix._core.validation import FloatArray, IntArray, as_count, as_positive, as_vector, find_first
from varmix._sampler import Sampler, Source, as_sampler
from varmix.meter import GainMeter
from varmix.solvers._problems import Problem, check_problem
from varmix.solvers.schedules import Schedule, as_schedule

Stopped: TypeAlias = Literal["epochs", "tolerance", "diverged"]


@dataclass
class Trace:
    """Measurements of a run: one entry per evaluation of the objective, in columns.

    Seconds count the solver and the sampler, not the evaluations.

    Parameters
    ----------
    evaluations : list of int, optional
        Gradients of single points computed so far. Full gradients count as n. Coordinate descent counts partial
        derivatives. Default: empty, like the other columns.
    seconds : list of float, optional
        Time spent so far. Default: empty.
    losses : list of float, optional
        The objective over all points. Default: empty.
    accuracies : list of float or None, optional
        Share of points that theta classifies correctly, or None if the problem does not compute it. Default: empty.
    gains : list of float, optional
        Second moment of uniform sampling divided by that of the sampler, since the previous evaluation. The first entry
        is 1. Default: empty.

    Examples
    --------
    >>> import varmix
    >>> from varmix.solvers import Linear, sgd
    >>> problem = Linear([[1.0], [2.0]], [1.0, 2.0], loss="squared")
    >>> trace = sgd(problem, varmix.uniform(2, rng=0), step=0.1, epochs=3, batch=1).trace
    >>> len(trace), trace.evaluations
    (4, [0, 2, 4, 6])
    """

    evaluations: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    accuracies: list[float | None] = field(default_factory=list)
    gains: list[float] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.evaluations)


@dataclass(frozen=True)
class Result:
    """Result of a run. Every solver returns one.

    Parameters
    ----------
    theta : ndarray of shape (dim,)
        The last iterate.
    trace : Trace
        Measurements at the evaluations of the objective.
    sampler : Sampler
        The sampler that drew last, in its learned state.
    stopped : {"epochs", "tolerance", "diverged"}
        Why the run ended: all epochs done, tolerance reached, or diverged.
    epochs : int
        Number of epochs that were begun.

    Examples
    --------
    >>> import varmix
    >>> from varmix.solvers import Linear, sgd
    >>> problem = Linear([[1.0], [2.0]], [1.0, 2.0], loss="squared")
    >>> result = sgd(problem, varmix.uniform(2, rng=0), step=0.1, epochs=100, batch=1)
    >>> result.theta.round(3).tolist(), result.stopped, result.epochs
    ([1.0], 'epochs', 100)
    """

    theta: FloatArray
    trace: Trace
    sampler: Sampler
    stopped: Stopped
    epochs: int

    @property
    def meter(self) -> GainMeter:
        """The meter of the sampler that drew last."""
        return self.sampler.meter


class ProgressBar(AbstractContextManager["ProgressBar"]):
    """Progress bar over `total` epochs, drawn by rich. Without `show` it does nothing and does not need rich."""

    def __init__(self, total: int, show: bool) -> None:
        self._bar: Any = None
        if show:
            try:
                from rich.console import Console
                from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
            except ImportError:
                raise ModuleNotFoundError(
                    "A progress bar needs rich: run pip install rich, or leave progress=False."
                ) from None
            columns = (BarColumn(), TextColumn("epoch {task.completed:.0f}/{task.total:.0f} {task.description}"))
            self._bar = Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True))
            self._task = self._bar.add_task("", total=total)

    def __enter__(self) -> "ProgressBar":
        if self._bar is not None:
            self._bar.start()
        return self

    def advance(self, text: str) -> None:
        """Count one more epoch and show a text behind the bar."""
        if self._bar is not None:
            self._bar.update(self._task, advance=1, description=text)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()


# Compiled loops make several draws with one mixture. Their number is a small share of the draws so far, because a
# sampler learns most at the beginning. At the maximum, the calls around the loop cost little compared with the loop.
ROUND_SHARE, MAX_DRAWS_PER_ROUND = 1 / 256, 512
MAX_MAGNITUDE = 1e100  # largest norm, or entry of theta, of a run that has not diverged
EPOCHS_PER_REFRESH = 16  # epochs between two new computations of running sums; rounding errors stay far below 1e-12


Callback: TypeAlias = Callable[[FloatArray, Trace], None]
"""Function of theta and the trace, called after every evaluation of the objective."""


class Method(ABC):
    """Base class of solvers: it holds the state of a run and takes the steps. `optimise` does the rest.

    Subclass it to write a solver of your own, and pass an instance to `optimise`. Define `run`; `begin_epoch` and
    `count_evaluations` have defaults. `run` must multiply the gradient of each drawn point by its importance weight,
    which makes the step unbiased.

    Parameters
    ----------
    problem : Problem
        Problem to minimise.
    theta : ndarray of shape (dim,)
        Starting point. `run` changes it in place or replaces it.

    Attributes
    ----------
    problem : Problem
        Problem to minimise.
    theta : ndarray of shape (dim,)
        The current iterate.
    atoms : int
        Number of points or coordinates that the sampler draws from. An epoch has as many draws. Default: `problem.n`.
    atoms_name : str, default "points"
        Name of the atoms in error messages.
    compiled : bool, default False
        Whether `run` is so fast that each call should get several batches. See `batches_per_update` of
        `optimise`.

    Examples
    --------
    >>> import varmix
    >>> from varmix.solvers import Linear, optimise
    >>> class SignDescent(Method):
    ...     def run(self, points, weights, steps):
    ...         batch, norms, total = len(points) // len(steps), [], 0.0
    ...         for t, step in enumerate(steps):
    ...             part = slice(t * batch, (t + 1) * batch)
    ...             total += weights[part] @ self.problem.losses(self.theta, points[part])
    ...             gradients = self.problem.gradients(self.theta, points[part])
    ...             norms.append(np.linalg.norm(gradients, axis=1))
    ...             self.theta = self.theta - step * np.sign(weights[part] @ gradients)
    ...         return np.concatenate(norms), float(total)
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> problem = Linear(X, X @ [1.0, -2.0], loss="squared")
    >>> result = optimise(problem, varmix.uniform(200, rng=0), SignDescent(problem, np.zeros(2)), step=0.01, epochs=50)
    >>> bool(np.abs(result.theta - [1.0, -2.0]).max() < 0.1)
    True
    """

    compiled: bool = False
    atoms_name: str = "points"

    def __init__(self, problem: Problem, theta: FloatArray) -> None:
        self.problem, self.theta = problem, theta
        self.atoms = problem.n

    def begin_epoch(self, epoch: int) -> int:
        """Prepare an epoch. Default: do nothing.

        Parameters
        ----------
        epoch : int
            Number of the epoch: 1, 2, ...

        Returns
        -------
        int
            Number of evaluations that this took.
        """
        return 0

    def count_evaluations(self, points: IntArray) -> int:
        """Return how many evaluations `run` made for these draws. Default: one per draw.

        Parameters
        ----------
        points : ndarray of shape (m,)
            The draws that `run` was called with.

        Returns
        -------
        int
            Number of evaluations, for the trace.
        """
        return len(points)

    @abstractmethod
    def run(self, points: IntArray, weights: FloatArray, steps: FloatArray) -> tuple[FloatArray, float]:
        """Take one step per batch, over consecutive batches of equal size.

        Parameters
        ----------
        points : ndarray of shape (m,)
            The draws of all batches, one batch after the other.
        weights : ndarray of shape (m,)
            Their importance weights.
        steps : ndarray of shape (number of batches,)
            Length of each step.

        Returns
        -------
        norms : ndarray of shape (m,)
            The norms that the sampler learns from, one per draw.
        loss : float
            Weighted sum of the losses. Infinity or NaN ends the run.
        """


AfterEpoch: TypeAlias = Callable[[int, float, GainMeter], Sampler | None]


class LoopOptions(TypedDict, total=False):
    """Options that every solver passes on to `optimise`."""

    epochs: int
    tol: float | None
    patience: int
    evaluations_per_epoch: int
    batches_per_update: int | None
    progress: bool
    callback: Callback | None
    after_epoch: AfterEpoch | None
    rng: int | np.random.Generator | None


class Options(LoopOptions, total=False):
    """Options of the solvers over points, which pass on the step and the batch too."""

    step: Required[float | Schedule]
    batch: int


def optimise(
    problem: Problem,
    sampler: Sampler | Source,
    method: Method,
    *,
    epochs: int = 10,
    batch: int = 32,
    step: float | Schedule,
    tol: float | None = None,
    patience: int = 5,
    evaluations_per_epoch: int = 1,
    batches_per_update: int | None = None,
    progress: bool = False,
    callback: Callback | None = None,
    after_epoch: AfterEpoch | None = None,
    rng: int | np.random.Generator | None = None,
) -> Result:
    """Run a method until all epochs are done, the tolerance is reached, or it diverges.

    `sgd`, `adagrad`, `svrg`, `saga` and `coordinate_descent` call it and take the same options. Call it yourself with
    a `Method` of your own. A run that diverges does not raise: `Result.stopped` says so.

    Parameters
    ----------
    problem : Problem
        Problem to minimise.
    sampler : Sampler, Family or array-like of shape (n,)
        Source of the points: a sampler or a family over `Points(problem.n)`, or one label per point.
    method : Method
        The solver's state and steps. It holds the starting point.
    epochs : int, default 10
        Number of epochs. An epoch has as many draws as there are points.
    batch : int, default 32
        Number of points in a batch.
    step : float or Schedule
        Length of the steps: a number, a schedule of `varmix.solvers.schedules`, or a function of (t, total).
    tol : float, optional
        Stop when the mean loss of the draws has not fallen by `tol` below the best epoch for `patience` epochs in a
        row. Default: None, run all epochs.
    patience : int, default 5
        Number of epochs to wait for a lower loss; see `tol`.
    evaluations_per_epoch : int, default 1
        How often an epoch evaluates the objective over all points for the trace. 0 means never.
    batches_per_update : int, optional
        Number of batches drawn with one mixture before their feedback is reported. Default: None, which grows from 1 in
        compiled loops and stays at 1 in NumPy.
    progress : bool, default False
        Whether to show a progress bar on standard error. It needs rich.
    callback : callable, optional
        Called with theta and the trace after every evaluation of the objective. Copy theta to keep it: the next steps
        change it. Default: None.
    after_epoch : callable, optional
        Called after every epoch with its number, the mean loss of its draws, and the gain meter. If it returns a
        sampler, that sampler makes all later draws. The mean loss is NaN if the epoch had no draws because a batch is
        larger than an epoch. Default: None.
    rng : int or numpy.random.Generator, optional
        Seed of the sampler that is built from labels or a family. Default: None, a new seed.

    Returns
    -------
    Result
        The last iterate, the trace and the sampler.

    Raises
    ------
    TypeError
        If the problem, the sampler, the method or an option is of the wrong type.
    ValueError
        If an option is out of range, or the sampler draws from another space or has a target.

    Examples
    --------
    >>> import varmix
    >>> from varmix.solvers import Linear, sgd
    >>> problem = Linear([[1.0], [2.0], [3.0]], [1.0, 2.0, 3.0], loss="squared")
    >>> result = sgd(problem, [0, 0, 1], step=0.05, batch=1, epochs=200, tol=1e-6, rng=0)
    >>> result.stopped, result.theta.round(2).tolist()
    ('tolerance', [1.0])
    """
    check_problem(problem)
    if not isinstance(method, Method):
        raise TypeError(
            f"The third argument of optimise must be an instance of a varmix.solvers.Method subclass, got {method!r}."
        )
    sampler = as_sampler(sampler, rng=rng)
    check_space(sampler, method.atoms, method.atoms_name)
    settings = LoopSettings(
        epochs=as_count(epochs, "epochs"),
        batch=as_count(batch, "batch"),
        schedule=as_schedule(step),
        evaluations_per_epoch=as_count(evaluations_per_epoch, "evaluations_per_epoch", least=0),
        batches_per_update=None if batches_per_update is None else as_count(batches_per_update, "batches_per_update"),
        tol=None if tol is None else as_positive(tol, "tol"),
        patience=as_count(patience, "patience"),
        progress=progress,
        callback=callback,
        after_epoch=after_epoch,
    )
    return Run(problem, sampler, method, settings).run_epochs()


def check_space(sampler: Sampler, n: int, atoms_name: str) -> None:
    """Raise an error unless the argument is a sampler over n points without a target."""
    if not isinstance(sampler, Sampler):
        raise TypeError(
            f"A solver takes a problem, then a sampler such as varmix.Sampler(labels); got {sampler!r} for the sampler."
        )
    space = sampler.components.space
    if not isinstance(space, Points) or space.n != n:
        raise ValueError(
            f"The problem has {n} {atoms_name}, but the sampler draws from {space}. Build it over Points({n})."
        )
    if space.target is not None:
        raise ValueError(
            "Solvers minimise the plain mean, and this sampler is unbiased for another target. Build the sampler "
            "without a target, and pass the proportions to the problem as sample weights, such as costs= of Linear."
        )


def make_start(start: ArrayLike | None, problem: Problem) -> FloatArray:
    """Return a copy of the starting point. Default: zeros."""
    check_problem(problem)
    return np.zeros(problem.dim) if start is None else as_vector(start, "start", problem.dim).copy()


@dataclass(frozen=True)
class LoopSettings:
    """Options of `optimise`, checked."""

    epochs: int
    batch: int
    schedule: Schedule
    tol: float | None
    patience: int
    evaluations_per_epoch: int
    batches_per_update: int | None
    progress: bool
    callback: Callback | None
    after_epoch: AfterEpoch | None


class Run:
    """One run of a method: its settings, its counters and its trace."""

    def __init__(self, problem: Problem, sampler: Sampler, method: Method, settings: LoopSettings) -> None:
        self.problem, self.sampler, self.method, self.settings = problem, sampler, method, settings
        self.total_steps = -(-settings.epochs * method.atoms // settings.batch)
        self.batches = 0
        self.evaluations = 0
        self.seconds = 0.0
        self.trace = Trace()

    def run_epochs(self) -> Result:
        """Run all epochs, or until the tolerance is reached or the run diverges."""
        settings = self.settings
        best, waited = np.inf, 0
        self.sampler.meter.gain_since_last_call()  # the trace leaves out feedback from before this run
        # Overflow means that the run has diverged. The result reports it, so NumPy need not warn.
        with ProgressBar(settings.epochs, settings.progress) as bar, np.errstate(over="ignore", invalid="ignore"):
            if settings.evaluations_per_epoch:
                self._evaluate()
            for epoch in range(1, settings.epochs + 1):
                loss = self._run_epoch(epoch)
                bar.advance("no draws" if np.isnan(loss) else f"loss {loss:.4g}")
                if np.isinf(loss):
                    return self._make_result("diverged", epoch)
                self.sampler = self._choose_sampler(epoch, loss)
                if settings.tol is not None and not np.isnan(loss):
                    waited = waited + 1 if loss > best - settings.tol else 0
                    best = min(best, loss)
                    if waited >= settings.patience:
                        return self._make_result("tolerance", epoch)
        return self._make_result("epochs", settings.epochs)

    def _choose_sampler(self, epoch: int, loss: float) -> Sampler:
        """Return the sampler of the next epoch: the one that `after_epoch` returns, or the present one."""
        after_epoch = self.settings.after_epoch
        other = None if after_epoch is None else after_epoch(epoch, loss, self.sampler.meter)
        if other is None:
            return self.sampler
        if not isinstance(other, Sampler):
            raise TypeError(f"after_epoch must return a varmix.Sampler or None, got {other!r}.")
        check_space(other, self.method.atoms, self.method.atoms_name)
        if other is not self.sampler:
            other.meter.gain_since_last_call()
        return other

    def _run_epoch(self, epoch: int) -> float:
        """Run an epoch, and return the mean loss of its draws: infinity if it diverged, NaN if it had no draws.

        If a batch is larger than an epoch, some epochs have no draws.
        """
        begun = perf_counter()
        self.evaluations += self.method.begin_epoch(epoch)
        self.seconds += perf_counter() - begun
        batch = self.settings.batch
        first, last = self.batches, -(-epoch * self.method.atoms // batch)
        total = 0.0
        for stop in self._schedule_evaluations(first, last):
            while self.batches < stop:
                begun = perf_counter()
                total += self._run_round(min(self._choose_round_size(), stop - self.batches))
                self.seconds += perf_counter() - begun
                if not np.isfinite(total):
                    return np.inf
            if self.settings.evaluations_per_epoch:
                self._evaluate()
        begun = perf_counter()
        self.sampler.end_epoch()
        self.seconds += perf_counter() - begun
        return total / ((last - first) * batch) if last > first else np.nan

    def _schedule_evaluations(self, first: int, last: int) -> list[int]:
        """Return the numbers of batches after which to evaluate the objective; the last one ends the epoch."""
        count = self.settings.evaluations_per_epoch
        if count < 2:
            return [last]
        stops: list[int] = np.linspace(first, last, count + 1)[1:].round().astype(int).tolist()
        return stops

    def _choose_round_size(self) -> int:
        """Return the number of batches to draw with the present mixture."""
        if self.settings.batches_per_update is not None:
            return self.settings.batches_per_update
        if not self.method.compiled:
            return 1
        return max(int(min(ROUND_SHARE * self.batches, MAX_DRAWS_PER_ROUND / self.settings.batch)), 1)

    def _run_round(self, count: int) -> float:
        """Draw some batches, step over them and report their feedback. Return the sum of their losses."""
        steps = self._compute_steps(count)  # first: if the schedule raises, no draw waits for feedback
        draw = self.sampler.draw(self.settings.batch, count)
        norms, loss = self.method.run(draw.indices, draw.weights, steps)
        self.batches += count
        self.evaluations += self.method.count_evaluations(draw.indices)
        # Check both, also for NaN: gradients of the hinge loss stay short even if theta is huge.
        if not (norms.max() < MAX_MAGNITUDE and np.abs(self.method.theta).max() < MAX_MAGNITUDE):
            return np.inf
        self.sampler.update(draw, norms)
        return loss

    def _compute_steps(self, count: int) -> FloatArray:
        """Return the lengths of the next steps; raise `ValueError` if the schedule returns something else."""
        t = np.arange(self.batches + 1.0, self.batches + count + 1.0)
        steps = np.asarray(self.settings.schedule(t, self.total_steps), dtype=np.float64)
        if steps.shape != t.shape:
            raise ValueError(
                f"The schedule returned an array of shape {steps.shape} for {count} steps. It must return one length "
                f"for every entry of t, for example eta / t."
            )
        if not (steps.min() >= 0.0 and steps.max() < np.inf):
            wrong = find_first(~((steps >= 0.0) & (steps < np.inf)))
            raise ValueError(
                f"The schedule returned {steps[wrong]:.3g} for step {t[wrong]:.0f} of {self.total_steps}: steps must "
                f"be finite and not negative."
            )
        return steps

    def _evaluate(self) -> None:
        """Add an entry to the trace and call the callback."""
        trace, theta = self.trace, self.method.theta
        trace.evaluations.append(self.evaluations)
        trace.seconds.append(self.seconds)
        trace.losses.append(self.problem.objective(theta))
        trace.accuracies.append(self.problem.accuracy(theta))
        trace.gains.append(self.sampler.meter.gain_since_last_call())
        if self.settings.callback is not None:
            self.settings.callback(theta, trace)

    def _make_result(self, stopped: Stopped, epoch: int) -> Result:
        return Result(self.method.theta, self.trace, self.sampler, stopped, epoch)
