"""Cautious: uniform sampling until the learned mixture has proven useful."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from varmix._core.evidence import Evidence
from varmix._core.state import CheckpointError
from varmix._core.validation import FloatArray, as_count, as_positive
from varmix.learners._barrier_newton import BarrierNewton
from varmix.learners._base import Learner, LearnerState, check_mixture, set_frozen
from varmix.learners._kernels import mix_with_uniform

# On convex problems plain shuffling was better at gains below the first number, and never significantly better above
# the second (docs/decisions/0012).
OFF_BELOW, ON_ABOVE = 1.25, 1.5
LATEST_ROUND_SHARE = 0.1  # share of the latest round in the scale
MAX_COST_RATIO = 1e9  # limit for mixtures that cannot draw an atom of the batch: their cost is infinite


class CautiousState(NamedTuple):
    """The played mixture, the state of the wrapped learner, and moving sums of costs and rounds.

    `uniform` and `cost` are the summed costs of uniform draws and of the learned mixture, in units of `scale`, the
    recent cost of uniform draws.
    """

    mixture: FloatArray
    learned: LearnerState
    uniform: float
    cost: float
    rounds: float
    scale: float


@dataclass(frozen=True)
class Cautious(Learner[CautiousState]):
    """Sample uniformly until the learned mixture has proven useful.

    It wraps another learner. In every round it estimates the cost of uniform draws and of the learned mixture from the
    evidence, before the learner sees that evidence. The gain G is the first cost over the second, summed over about the
    last `window` rounds. With a = (G - off_below) / (on_above - off_below), clipped to [0, 1], it plays

        (1 - a) e_k + a w,

    where e_k is the uniform component alone and w the learned mixture.

    If there is little to gain, sampling stays uniform. Groups without replacement whose slots are assigned by
    `varmix.allocate.Shuffled` are then sampled by plain shuffling. `Cautious` and `Shuffled` are the defaults for
    labels.

    Costs are divided by the recent cost of uniform draws before they are summed, so that a round adds at most 10 to the
    sum for uniform draws. Otherwise, if losses fall a hundredfold early in training, the first rounds would outweigh
    all later ones.

    Parameters
    ----------
    learner : Learner, optional
        Learner to wrap. It steps in every round, whether its mixture is played or not. Default: `BarrierNewton()`.
    off_below : float, default 1.25
        Up to this gain only the uniform component is played.
    on_above : float, default 1.5
        From this gain on only the learned mixture is played.
    window : int, default 50
        Number of rounds that the gain is measured over. Missing rounds at the start count as rounds without a gain.

    Raises
    ------
    TypeError
        If `learner` is not a learner, or is a `Cautious` itself.
    ValueError
        If the gains are not 1 <= off_below < on_above.

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
        inner: object = self.learner
        if not isinstance(inner, Learner) or isinstance(inner, Cautious):
            raise TypeError(
                f"learner must be a learner other than Cautious, such as varmix.learners.BarrierNewton(), got "
                f"{self.learner!r}."
            )
        set_frozen(
            self, off_below=as_positive(self.off_below, "off_below"), on_above=as_positive(self.on_above, "on_above")
        )
        set_frozen(self, window=as_count(self.window, "window", least=2))
        if not 1.0 <= self.off_below < self.on_above:
            raise ValueError(
                f"off_below must be at least 1 (no gain) and below on_above, got off_below = {self.off_below} and "
                f"on_above = {self.on_above}."
            )

    @property
    def needs_rows(self) -> bool:
        """Whether the wrapped learner reads single rows of the evidence."""
        return self.learner.needs_rows

    @property
    def gamma(self) -> float:  # type: ignore[override]
        """Smallest share of the uniform component, taken from the wrapped learner."""
        return self.learner.gamma

    @property
    def limits(self) -> tuple[float, float]:
        """The gains `off_below` and `on_above`."""
        return self.off_below, self.on_above

    def init(self, k: int) -> CautiousState:
        """Start at the uniform component alone."""
        return CautiousState(np.eye(1, k, k - 1)[0], self.learner.init(k), 0.0, 0.0, 0.0, 0.0)

    def check_state(self, state: CautiousState) -> None:
        """Raise `CheckpointError` if the sums, the learner and the played mixture are inconsistent."""
        check_mixture(state.learned.mixture, self.gamma)
        self.learner.check_state(state.learned)
        sums = state.uniform, state.cost, state.rounds, state.scale
        has_feedback = state.rounds >= 1.0 and min(state.uniform, state.scale) > 0.0 and state.cost >= 0.0
        if not (has_feedback or sums == (0.0, 0.0, 0.0, 0.0)) or state.rounds > self.window * (1.0 + 1e-9):
            raise CheckpointError(f"The saved sums of a Cautious, {sums}, are impossible: the state is damaged.")
        if state.uniform > 10.0 * state.rounds * (1.0 + 1e-9) or state.cost > MAX_COST_RATIO * state.uniform * (
            1.0 + 1e-9
        ):
            raise CheckpointError(f"The saved costs of a Cautious, {sums[:2]}, are too large: the state is damaged.")
        if np.abs(self._mix(state, state.learned.mixture) - state.mixture).max() > 1e-9:
            raise CheckpointError("The saved mixture does not follow from the saved gain: the state is damaged.")

    def step(self, state: CautiousState, evidence: Evidence) -> CautiousState:
        """Compare the learned mixture with uniform draws, let the learner step, and choose the mixture to play."""
        uniform, learned = evidence.at_uniform, evidence.value(state.learned.mixture)
        after = state
        if uniform > 0.0:  # a round without any loss says nothing about the gain
            after = self._add_round(state, uniform, min(learned, MAX_COST_RATIO * uniform))
        stepped = self.learner.step(state.learned, evidence)
        return after._replace(mixture=self._mix(after, stepped.mixture), learned=stepped)

    def _mix(self, state: CautiousState, learned: FloatArray) -> FloatArray:
        """Return the mixture to play: part uniform component, part learned mixture, by the gain."""
        mixture = np.empty(len(learned))
        mix_with_uniform(learned, self.part(self.gain(state)), self.gamma, mixture)
        return mixture

    def _add_round(self, state: CautiousState, uniform: float, learned: float) -> CautiousState:
        """Add what uniform draws and the learned mixture cost in a round to the sums."""
        decay = 1.0 - 1.0 / self.window
        scale = uniform
        if state.rounds:
            scale = (1.0 - LATEST_ROUND_SHARE) * state.scale + LATEST_ROUND_SHARE * uniform
        return state._replace(
            uniform=decay * state.uniform + uniform / scale,
            cost=decay * state.cost + learned / scale,
            rounds=decay * state.rounds + 1.0,
            scale=scale,
        )

    def played(self, state: CautiousState) -> FloatArray:
        """Return the mixture to draw with next: between the uniform component and the learned mixture."""
        return state.mixture

    def learned(self, state: CautiousState) -> FloatArray:
        """Return the mixture of the wrapped learner."""
        return state.learned.mixture

    def gain(self, state: CautiousState) -> float:
        """Return the gain of the learned mixture over uniform draws, whether it is played or not."""
        if state.rounds == 0.0:
            return 1.0
        # Rounds that the window still lacks count as if both cost the same.
        missing = (self.window / state.rounds - 1.0) * state.uniform
        return (state.uniform + missing) / (state.cost + missing)

    def part(self, gain: float) -> float:
        """Return the share of the learned mixture in the played mixture at a gain.

        Parameters
        ----------
        gain : float
            Gain of the learned mixture over uniform draws.

        Returns
        -------
        float
            From 0, only the uniform component, to 1, only the learned mixture.

        Examples
        --------
        >>> [Cautious().part(gain) for gain in (1.0, 1.375, 2.0)]
        [0.0, 0.5, 1.0]
        """
        return min(max(0.0, (gain - self.off_below) / (self.on_above - self.off_below)), 1.0)
