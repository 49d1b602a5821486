"""The loop that every solver shares: draw, step, feedback, evaluation, stopping."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from time import perf_counter
from types import TracebackType
from typing import Any, Literal, Protocol, Required, TypeAlias, TypedDict

import numpy as np
from numpy.typing import ArrayLike

from varmix._core.spaces import Points
from varmix._core.validation import FloatArray, IntArray, as_count, as_positive, as_vector, find_first
from varmix._sampler import Sampler, Source, as_sampler
from varmix.meter import GainMeter
from varmix.solvers._problems import Problem
from varmix.solvers.schedules import Schedule, as_schedule

Stopped: TypeAlias = Literal["epochs", "tolerance", "diverged"]


@dataclass
class Trace:
    """One entry per evaluation of the objective, in columns.

    Time counts the solver and the sampler, not the evaluations.

    Attributes
    ----------
    evaluations
        Gradients of single points computed so far, full passes included (coordinate descent: partial derivatives).
    seconds
        Time spent so far.
    losses
        The objective, from all points.
    accuracies
        Share of points on the right side, where the problem knows.
    gains
        Second moment of uniform sampling over that of the sampler, since the evaluation before (one at the first).
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
    """A finished run.

    Attributes
    ----------
    theta
        Where it ended.
    trace
        What was measured at the evaluations of the objective.
    sampler
        The sampler that drew last.
    stopped
        Why it ended: all "epochs" done, "tolerance" reached, or "diverged".
    epochs
        Epochs that were begun.
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


class Progress(AbstractContextManager["Progress"]):
    """A bar over `total` epochs; without `show` it does nothing.  It is drawn by rich, which is needed only then."""

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

    def __enter__(self) -> "Progress":
        if self._bar is not None:
            self._bar.start()
        return self

    def advance(self, text: str) -> None:
        """One more epoch is done."""
        if self._bar is not None:
            self._bar.update(self._task, advance=1, description=text)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()


# Draws made with one mixture in a compiled loop: a small part of those so far, as there is most to learn at first, up
# to a number beside which the calls around the loop cost little.
ROUND_SHARE, MAX_DRAWS_PER_ROUND = 1 / 256, 512
MAX_MAGNITUDE = 1e100  # a norm, or an entry of theta, beyond which nothing can be saved


Callback: TypeAlias = Callable[[FloatArray, Trace], None]
"""Called after every evaluation of the objective."""


class Method(Protocol):
    """What is particular to a solver.

    A method may also say of itself: `atoms` and `what`, how many atoms an epoch has and their name (the problem's
    points unless told), and `spent(points)`, what it computed for these draws (a gradient each unless told).
    """

    theta: FloatArray
    compiled: bool

    def begin_epoch(self, epoch: int) -> int:
        """Do what is due before epoch 1, 2, ...; give how many gradients of points that took."""
        ...

    def run(self, points: IntArray, weights: FloatArray, steps: FloatArray) -> tuple[FloatArray, float]:
        """Take one step per entry of `steps`, over consecutive batches.

        Give the norms that the sampler is to learn from, and the weighted sum of the losses (infinity or not a number
        ends the run).
        """
        ...


AfterEpoch: TypeAlias = Callable[[int, float, GainMeter], Sampler | None]


class Options(TypedDict, total=False):
    """What every solver takes; see `optimise`."""

    step: Required[float | Schedule]
    epochs: int
    batch: int
    tol: float | None
    patience: int
    evaluations_per_epoch: int
    batches_per_update: int | None
    progress: bool
    callback: Callback | None
    after_epoch: AfterEpoch | None
    rng: int | np.random.Generator | None


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
    """Run a method; the parameters are those of every solver.

    Parameters
    ----------
    problem
        What to minimise.
    sampler
        Where the points come from: labels, one per point, a family over `Points(problem.n)`, or a sampler.
    epochs
        Passes; each has as many draws as there are points.
    batch
        Points in a batch.
    step
        A number, a schedule of `varmix.solvers.schedules`, or any function of (t, total).
    tol
        Stop when the mean loss of an epoch, as drawn, was not lower by `tol` than the best for `patience` epochs.
    patience
        See `tol`.
    evaluations_per_epoch
        How often an epoch evaluates the objective over all points, for the trace. Default: 1; 0 for never.
    batches_per_update
        Batches drawn with one mixture before their feedback is reported.  Default: None, which starts at 1 and grows as
        a compiled loop goes on; plain functions stay at 1.
    progress
        Whether to show a bar.
    callback
        Called after every evaluation, with theta and the trace; theta is moved on afterwards, so copy it to keep it.
    after_epoch
        Called after every epoch with its number, its mean loss as drawn (not a number where a batch was larger than
        the epoch and nothing was drawn), and the gain meter; if it returns a sampler, that one draws from then on.
    rng
        Seed of the sampler that is built from labels or a family.  Default: None, a new seed.
    """
    sampler = as_sampler(sampler, rng=rng)
    check_space(sampler, getattr(method, "atoms", problem.n), getattr(method, "what", "points"))
    run = Run(problem, sampler, method)
    run.epochs, run.batch, run.schedule = as_count(epochs, "epochs"), as_count(batch, "batch"), as_schedule(step)
    run.evaluations_per_epoch = as_count(evaluations_per_epoch, "evaluations_per_epoch", least=0)
    run.callback, run.after_epoch = callback, after_epoch
    run.batches_per_update = None if batches_per_update is None else as_count(batches_per_update, "batches_per_update")
    return run.go(None if tol is None else as_positive(tol, "tol"), as_count(patience, "patience"), progress)


def check_space(sampler: Sampler, n: int, what: str) -> None:
    """Refuse what is no sampler, or one that draws something else, or from another number of it."""
    if not isinstance(sampler, Sampler):
        raise TypeError(
            f"A solver takes a problem, then a sampler such as varmix.Sampler(labels); got {sampler!r} for the sampler."
        )
    space = sampler.components.space
    if not isinstance(space, Points) or space.n != n:
        raise ValueError(f"The problem has {n} {what}, but the sampler draws from {space}. Build it over Points({n}).")
    if space.target is not None:
        raise ValueError(
            "Solvers minimise the plain mean, and this sampler is unbiased for another target. Give the wanted "
            "proportions to the problem instead, as costs of the points."
        )


def starting_point(start: ArrayLike | None, problem: Problem) -> FloatArray:
    """Give a copy of the starting point, or zeros."""
    if not (hasattr(problem, "dim") and hasattr(problem, "gradients")):
        raise TypeError(
            f"A solver takes a problem first, such as varmix.solvers.Linear(X, y); got a {type(problem).__name__}."
        )
    return np.zeros(problem.dim) if start is None else as_vector(start, "start", problem.dim).copy()


class Run:
    """A run, as far as it has come."""

    epochs: int
    batch: int
    schedule: Schedule
    evaluations_per_epoch: int
    batches_per_update: int | None
    callback: Callback | None
    after_epoch: AfterEpoch | None

    def __init__(self, problem: Problem, sampler: Sampler, method: Method) -> None:
        self.problem, self.sampler, self.method = problem, sampler, method
        self.atoms: int = getattr(method, "atoms", problem.n)
        self.spent: Callable[[IntArray], int] = getattr(method, "spent", len)
        self.done = 0  # batches
        self.evaluations = 0
        self.seconds = 0.0
        self.trace = Trace()

    def go(self, tol: float | None, patience: int, progress: bool) -> Result:
        """Run all epochs, or until the tolerance is reached."""
        best, waited = np.inf, 0
        self.sampler.meter.gain_since_last_call()  # what was reported before this run is not part of its trace
        # Where numbers overflow the run has diverged, and the result says so.
        with Progress(self.epochs, progress) as bar, np.errstate(over="ignore", invalid="ignore"):
            if self.evaluations_per_epoch:
                self._evaluate()
            for epoch in range(1, self.epochs + 1):
                loss = self._epoch(epoch)
                bar.advance("no draws" if np.isnan(loss) else f"loss {loss:.4g}")
                if np.isinf(loss):
                    return self._result("diverged", epoch)
                self.sampler = self._next_sampler(epoch, loss)
                if tol is not None and not np.isnan(loss):
                    waited = waited + 1 if loss > best - tol else 0
                    best = min(best, loss)
                    if waited >= patience:
                        return self._result("tolerance", epoch)
        return self._result("epochs", self.epochs)

    def _next_sampler(self, epoch: int, loss: float) -> Sampler:
        other = None if self.after_epoch is None else self.after_epoch(epoch, loss, self.sampler.meter)
        if other is None:
            return self.sampler
        if not isinstance(other, Sampler):
            raise TypeError(f"after_epoch must return a varmix.Sampler or None, got {other!r}.")
        check_space(other, self.atoms, getattr(self.method, "what", "points"))
        if other is not self.sampler:
            other.meter.gain_since_last_call()
        return other

    def _epoch(self, epoch: int) -> float:
        """Run an epoch; give the mean loss as drawn, infinity if it diverged.

        Batches larger than an epoch leave some epochs without a draw: their loss is not a number.
        """
        begun = perf_counter()
        self.evaluations += self.method.begin_epoch(epoch)
        self.seconds += perf_counter() - begun
        begin, end = self.done, -(-epoch * self.atoms // self.batch)
        total = 0.0
        for stop in self._stops(begin, end):
            while self.done < stop:
                begun = perf_counter()
                total += self._round(min(self._count(), stop - self.done))
                self.seconds += perf_counter() - begun
                if not np.isfinite(total):
                    return np.inf
            if self.evaluations_per_epoch:
                self._evaluate()
        begun = perf_counter()
        self.sampler.end_epoch()
        self.seconds += perf_counter() - begun
        return total / ((end - begin) * self.batch) if end > begin else np.nan

    def _stops(self, first: int, last: int) -> list[int]:
        """Return the batches after which to evaluate; only the last one if nothing is evaluated in between."""
        if self.evaluations_per_epoch < 2:
            return [last]
        stops: list[int] = np.linspace(first, last, self.evaluations_per_epoch + 1)[1:].round().astype(int).tolist()
        return stops

    def _count(self) -> int:
        """Give how many batches to draw with the present mixture."""
        if self.batches_per_update is not None:
            return self.batches_per_update
        return (
            max(int(min(ROUND_SHARE * self.done, MAX_DRAWS_PER_ROUND / self.batch)), 1) if self.method.compiled else 1
        )

    def _round(self, count: int) -> float:
        """Draw some batches, step over them, give their feedback; give the sum of their losses."""
        steps = self._steps(count)  # a schedule may be refused: nothing is drawn then
        draw = self.sampler.draw(self.batch, count)
        norms, loss = self.method.run(draw.indices, draw.weights, steps)
        self.done += count
        self.evaluations += self.spent(draw.indices)
        # Both, also when they are not numbers: gradients of the hinge stay short however far theta has gone.
        if not (norms.max() < MAX_MAGNITUDE and np.abs(self.method.theta).max() < MAX_MAGNITUDE):
            return np.inf
        self.sampler.update(draw, norms)
        return loss

    def _steps(self, count: int) -> FloatArray:
        """Give the lengths of the next steps."""
        t = np.arange(self.done + 1.0, self.done + count + 1.0)
        steps = np.asarray(self.schedule(t, self._total), dtype=np.float64)
        if steps.shape != t.shape:
            raise ValueError(
                f"The schedule gave an array of shape {steps.shape} for the {count} steps it was asked for. Give one "
                f"length for every entry of t, for example eta / t."
            )
        if not (steps.min() >= 0.0 and steps.max() < np.inf):
            wrong = find_first(~((steps >= 0.0) & (steps < np.inf)))
            raise ValueError(
                f"The schedule gave {steps[wrong]:.3g} for step {t[wrong]:.0f} of {self._total}: steps must be finite "
                f"and not negative."
            )
        return steps

    @property
    def _total(self) -> int:
        return -(-self.epochs * self.atoms // self.batch)

    def _evaluate(self) -> None:
        trace, theta = self.trace, self.method.theta
        accuracy = getattr(self.problem, "accuracy", None)
        trace.evaluations.append(self.evaluations)
        trace.seconds.append(self.seconds)
        trace.losses.append(self.problem.objective(theta))
        trace.accuracies.append(None if accuracy is None else accuracy(theta))
        trace.gains.append(self.sampler.meter.gain_since_last_call())
        if self.callback is not None:
            self.callback(theta, trace)

    def _result(self, stopped: Stopped, epoch: int) -> Result:
        return Result(self.method.theta, self.trace, self.sampler, stopped, epoch)
