"""Ranks: points by the rank of their last known loss."""

import math
from typing import final

import numpy as np

from varmix._core.draw import Draw
from varmix._core.evidence import LARGEST_NORM
from varmix._core.rng import Uniforms
from varmix._core.spaces import Points
from varmix._core.state import (
    CheckpointError,
    describe_value,
    read_array,
    read_count,
    read_flag,
    read_number,
    require_entries,
    restore_array,
)
from varmix._core.validation import AnyArray, FloatArray, IntArray, State, as_atoms, as_count, as_number, same
from varmix.components._base import Family


@final
class Ranks(Family):
    """Points by the rank of their last known loss: online batch selection of Loshchilov and Hutter (2015).

        p of rank i proportional to exp( -log(pressure) i / n ),     i = 0, ..., n - 1

    The largest loss has rank 0 and is drawn pressure^(1 - 1/n) times as often as the smallest: almost `pressure`
    times, as in the paper. The law over ranks is geometric, so a draw takes one logarithm.

    Points without a known loss rank before all others, in the order of their numbers. Before the first sort all
    points are equally likely. As in the paper, points are not sorted after every draw but once per `period` rows of
    feedback; with the default this costs log n per row.

    Parameters
    ----------
    n : int
        Number of points.
    pressure : float, default 100.0
        The paper's s_e, at least 1. It may be set between draws; in the paper it falls during training.
    period : int, optional
        Rows of feedback between two sorts. Default: n.

    Examples
    --------
    >>> family = Ranks(4, pressure=16.0)
    >>> family.ratios(np.arange(4))[:, 0].tolist()
    [1.0, 1.0, 1.0, 1.0]
    >>> from varmix import Sampler
    >>> from varmix.learners import Fixed
    >>> sampler = Sampler(family, learner=Fixed())
    >>> sampler.update(sampler.draw_all(), [0.0, 3.0, 2.0, 1.0])
    >>> (family.ratios(np.arange(4))[:, 0] * 15 / 4).round(9).tolist()
    [1.0, 8.0, 4.0, 2.0]
    """

    space: Points

    def __init__(self, n: int, *, pressure: float = 100.0, period: int | None = None) -> None:
        self.space, self.k = Points(n), 1
        n = self.space.n
        self.period = n if period is None else as_count(period, "period")
        self.pressure = pressure
        self._losses: FloatArray = np.full(n, -1.0)  # -1: not known yet
        self._order: IntArray = np.arange(n)
        self._rank: AnyArray = np.arange(n)
        self._since, self._sorted = 0, False

    @property
    def pressure(self) -> float:
        """Probability of the largest loss over that of the smallest, for large n. It can be set."""
        return self._pressure

    @pressure.setter
    def pressure(self, pressure: float) -> None:
        number = as_number(pressure, "pressure")
        if not 1 <= number < math.inf:
            raise ValueError(f"pressure must be a finite number of at least 1, got {pressure!r}.")
        self._pressure = number
        # p(i) = fall^i (1 - fall) / (1 - fall^n) with fall = e^-decay. expm1 keeps the digits of both differences.
        self._decay = math.log(number) / self.space.n
        whole = -math.expm1(-math.log(number))
        self._first = 1.0 if number == 1.0 else self.space.n * -math.expm1(-self._decay) / whole

    @property
    def c(self) -> float:  # type: ignore[override]
        """Largest ratio, which belongs to rank 0."""
        return self._first if self._sorted else 1.0

    def draw(self, lanes: IntArray, uniforms: Uniforms) -> tuple[IntArray, FloatArray]:
        """Draw ranks by inverting the geometric law; return their points and ratios."""
        n, u = self.space.n, uniforms.take(len(lanes))
        if self._sorted and self._decay > 0:
            ranks = np.log1p(u * math.expm1(-math.log(self._pressure))) / -self._decay
        else:
            ranks = u * n
        atoms = self._order[np.clip(ranks.astype(np.int64), 0, n - 1)]
        return atoms, self._rows(atoms)

    def ratios(self, atoms: IntArray) -> FloatArray:
        """Return the present ratios of these points."""
        return self._rows(as_atoms(atoms, self.space.n))

    def _rows(self, atoms: IntArray) -> FloatArray:
        if not self._sorted:
            return np.ones((len(atoms), 1))
        return np.asarray(self._first * np.exp(-self._decay * self._rank[atoms]))[:, None]

    def observe(self, draw: Draw, norms: FloatArray) -> None:
        """Store the losses and sort once per period. If a point was drawn twice, its last loss counts."""
        self._losses[draw.indices] = norms
        self._since += len(norms)
        if self._since >= self.period:
            keys = np.where(self._losses < 0, -np.inf, -self._losses)
            self._place(np.argsort(keys, kind="stable"))
            self._since, self._sorted = 0, True

    def _place(self, order: IntArray) -> None:
        """Store an order of points and the rank of every point in it."""
        self._order = order
        self._rank = np.empty_like(order)
        self._rank[order] = np.arange(len(order))

    def state_dict(self) -> State:
        """Return the last known losses, the present order, and the settings."""
        own = {"losses": self._losses.copy(), "order": self._order.copy(), "sorted": self._sorted}
        return super().state_dict() | own | {"since": self._since, "period": self.period, "pressure": self._pressure}

    def load_state_dict(self, state: State) -> None:
        """Check and restore losses, order and pressure."""
        require_entries(state, set(self.state_dict()), "Ranks")
        self.check_identity(state)
        if not same(state["period"], self.period):
            raise CheckpointError(
                f"The saved Ranks sort every {describe_value(state['period'])} rows, these every {self.period}. "
                f"Build them with the period that was saved."
            )
        losses = read_array(state, "losses", np.float64, (self.space.n,), least=-1.0, most=LARGEST_NORM)
        order, known = restore_array(state["order"], self._order, "order"), read_flag(state, "sorted")
        if not np.array_equal(np.sort(order), np.arange(self.space.n)) or (losses[losses < 0.0] != -1.0).any():
            raise CheckpointError(
                "The saved order does not list every point once, or a loss is negative: the state is damaged."
            )
        if not known and not np.array_equal(order, np.arange(self.space.n)):
            raise CheckpointError("The saved order differs from the initial one before any sort: the state is damaged.")
        since, pressure = read_count(state, "since", most=self.period - 1), read_number(state, "pressure", least=1.0)
        self.pressure = pressure
        self._losses, self._since, self._sorted = losses, since, known
        self._place(order)
