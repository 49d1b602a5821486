"""Cautious: plain sampling until what another learner has learned pays."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from varmix._core.evidence import Evidence
from varmix._core.state import CheckpointError
from varmix._core.validation import FloatArray, as_count, as_positive
from varmix._kernels.simplex import clip_to_simplex
from varmix.learners._barrier_newton import BarrierNewton
from varmix.learners._base import HasMixture, Learner, check_mixture, set_frozen

OFF_BELOW, ON_ABOVE = 1.25, 1.5  # gains below which plain shuffling is the better choice, and from which it never was
LATEST_ROUND_SHARE = 0.1  # the part of a round in the scale
MAX_COST_RATIO = 1e9  # times the cost of uniform draws: that of a mixture that leaves out what was drawn is infinite


class CautiousState(NamedTuple):
    """The mixture that is played, what was learned, and moving sums: costs of uniform draws and of that, and rounds.

    Costs are in units of `scale`, what uniform draws have cost lately.
    """

    mixture: FloatArray
    learned: HasMixture
    uniform: float
    cost: float
    rounds: float
    scale: float


@dataclass(frozen=True)
class Cautious:
    """Play the uniform component until the mixture that was learned gains enough over it.

    Evidence says what any mixture would have cost, whichever made the draws: the uniform component `f~(e_k) = mean[c]`,
    and the learner's mixture w.  The gain G is the ratio of both over the last rounds, each before the learner has seen
    it.  With a = (G - off_below) / (on_above - off_below), from 0 to 1, the mixture to draw with is

        (1 - a) e_k + a w.

    Losses may fall a hundredfold in the first few rounds of training, which would outweigh all others for long.  So
    rounds are added up in units of what uniform draws have cost lately, in which no round counts for more than ten.

    Where there is little to gain hardly anything is put at risk: a reshuffled mixture whose groups are dealt by chance
    (`varmix.allocate.Shuffled`) is plain shuffling then, in law.  It is what loaders do unless told.

    Parameters
    ----------
    learner
        What learns; it steps in every round, played or not.
    off_below, on_above
        Gains up to which only the uniform component is played, and from which on the learner's mixture is.
    window
        The gain is that of about so many rounds; of these, rounds that are still to come count as without gain.

    Examples
    --------
    >>> learner = Cautious()
    >>> state = learner.init(k=3)
    >>> state.mixture.tolist(), learner.gain(state)
    ([0.0, 0.0, 1.0], 1.0)
    >>> rare = Evidence(ratios=[[20.0, 0.0, 1.0], [0.0, 1.05, 1.0]], coefficients=[4.0, 0.01])
    >>> for _ in range(50):
    ...     state = learner.step(state, rare)
    >>> learner.gain(state) > 1.5, bool(state.mixture[0] > 0.5)
    (True, True)
    """

    learner: Learner[Any] = field(default_factory=BarrierNewton)
    off_below: float = OFF_BELOW
    on_above: float = ON_ABOVE
    window: int = 50

    def __post_init__(self) -> None:
        if isinstance(self.learner, (type, Cautious)) or not hasattr(self.learner, "step"):
            raise TypeError(f"learner must be one such as varmix.learners.BarrierNewton(), got {self.learner!r}.")
        set_frozen(
            self, off_below=as_positive(self.off_below, "off_below"), on_above=as_positive(self.on_above, "on_above")
        )
        set_frozen(self, window=as_count(self.window, "window", least=2))
        if not 1.0 <= self.off_below < self.on_above:
            raise ValueError(
                f"off_below must be at least 1, no gain at all, and below on_above; got {self.off_below} and "
                f"{self.on_above}."
            )

    @property
    def needs_rows(self) -> bool:
        """Whether the learner looks at single rows; the gain does not."""
        return bool(getattr(self.learner, "needs_rows", True))

    @property
    def gamma(self) -> float:
        """Smallest share of the uniform component, which there must be."""
        return float(getattr(self.learner, "gamma", 0.0))

    def init(self, k: int) -> CautiousState:
        """Start at the uniform component."""
        return CautiousState(np.eye(1, k, k - 1)[0], self.learner.init(k), 0.0, 0.0, 0.0, 0.0)

    def check_state(self, state: CautiousState) -> None:
        """Raise `CheckpointError` if sums, learner and the mixture that is played do not fit together."""
        check_mixture(state.learned.mixture, self.gamma)
        check = getattr(self.learner, "check_state", None)
        if check is not None:
            check(state.learned)
        sums = state.uniform, state.cost, state.rounds, state.scale
        heard = state.rounds >= 1.0 and min(state.uniform, state.scale) > 0.0 and state.cost >= 0.0
        if not (heard or sums == (0.0, 0.0, 0.0, 0.0)) or state.rounds > self.window * (1.0 + 1e-9):
            raise CheckpointError(f"The saved sums of a cautious learner, {sums}, cannot be: they are damaged.")
        if state.uniform > 10.0 * state.rounds * (1.0 + 1e-9) or state.cost > MAX_COST_RATIO * state.uniform * (
            1.0 + 1e-9
        ):
            raise CheckpointError(f"The saved costs of a cautious learner, {sums[:2]}, are too large: damaged.")
        if np.abs(self._played(state, state.learned.mixture) - state.mixture).max() > 1e-9:
            raise CheckpointError("The saved mixture is not the one that this learner would play: it is damaged.")

    def step(self, state: CautiousState, evidence: Evidence) -> CautiousState:
        """Compare the learned mixture with uniform draws, let the learner step, and play what it has earned."""
        learned, a, b = state.learned, evidence.at_uniform, evidence.value(state.learned.mixture)
        heard = (
            self._heard(state, a, min(b, MAX_COST_RATIO * a)) if a > 0.0 else state
        )  # no loss says nothing of the gain
        after = self.learner.step(learned, evidence)
        return heard._replace(mixture=self._played(heard, after.mixture), learned=after)

    def _played(self, state: CautiousState, learned: FloatArray) -> FloatArray:
        """Return the uniform component with as much of the learner's mixture as its gain has earned."""
        part = self.part(self.gain(state))
        mixture = part * learned
        mixture[-1] += 1.0 - part
        clip_to_simplex(mixture, self.gamma)
        return mixture

    def _heard(self, state: CautiousState, a: float, b: float) -> CautiousState:
        """Add what uniform draws and the learner's mixture cost in a round to the sums."""
        decay = 1.0 - 1.0 / self.window
        scale = (1.0 - LATEST_ROUND_SHARE) * state.scale + LATEST_ROUND_SHARE * a if state.rounds else a
        uniform, cost = decay * state.uniform + a / scale, decay * state.cost + b / scale
        return CautiousState(state.mixture, state.learned, uniform, cost, decay * state.rounds + 1.0, scale)

    def gain(self, state: CautiousState) -> float:
        """Give what the learner's mixture gains over uniform draws, played or not."""
        if state.rounds == 0.0:
            return 1.0
        missing = (self.window / state.rounds - 1.0) * state.uniform  # rounds to come, in which both cost the same
        return (state.uniform + missing) / (state.cost + missing)

    def part(self, gain: float) -> float:
        """Give how much of the learner's mixture is played at a gain.

        Examples
        --------
        >>> [Cautious().part(gain) for gain in (1.0, 1.375, 2.0)]
        [0.0, 0.5, 1.0]
        """
        return min(max(0.0, (gain - self.off_below) / (self.on_above - self.off_below)), 1.0)
