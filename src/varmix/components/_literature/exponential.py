"""Exponential: exponential weights over points, the law of bandit sampling."""

import math
from typing import final

import numpy as np

from varmix._core.draw import Draw
from varmix._core.evidence import LARGEST_NORM
from varmix._core.spaces import Points
from varmix._core.state import CheckpointError, read_number, restore_array
from varmix._core.validation import FloatArray, IntArray, State, as_count, as_fraction, as_positive, same
from varmix.components._literature import kernels
from varmix.components._literature.weighted_points import WeightedPoints

MAX_EXPONENT = 300.0  # e^MOST is far from overflow, and so is the sum of a billion of them
LARGEST_GAIN = 1e280  # so that sums of logarithms stay finite
DEFAULT_PASSES = 10  # the horizon, where none is given


@final
class Exponential(WeightedPoints):
    """Points by exponential weights of their gains: the law of MABS, Salehi, Celis and Thiran (2017).

        p(i) proportional to w_i,     log w_i = sum over the draws of i of  step * l^2 / d^3

    The gain of a drawn point is what the second moment would lose with its probability, l^2 / p^2, and the third
    division by p makes it an estimate without bias, as in EXP3.  Every row of a batch is a play of its own, and all
    three `d` are those of draw time.  Mix it with the uniform law (`varmix.literature.bandit`): MABS is p with a
    share eta of uniform.

    The paper's delta is step / n^3, in the units of 1 / l^2.  Its theorem sets delta by the horizon and the mean of
    l^4, which nobody knows; unless a step is given, it is the theorem's with the *largest* squared norm seen so far
    in the place of that mean, `eta^2 sqrt(n log n / rounds) / max l^2`: gains are then bounded as EXP3 wants them,
    and the scale of the norms does not matter.  Only logarithms of weights are kept, so none overflows; one that is
    1e-300 of the largest is zero beside the share of uniform.

    Under a target gains are divided by n target_i, and the law is target times w.

    Parameters
    ----------
    space
        A number of points, or `Points` with a target.
    eta
        The share of uniform that the step is made for; the paper's theorem has 0.4.
    rounds
        The horizon, in draws; ten passes unless told.
    step
        The factor before l^2 / d^3; replaces eta and rounds.

    Examples
    --------
    >>> from varmix import Sampler
    >>> from varmix.components import with_uniform
    >>> from varmix.learners import Fixed
    >>> sampler = Sampler(with_uniform(Exponential(4, step=0.5)), learner=Fixed([0.6, 0.4]), rng=0)
    >>> draw = sampler.draw(1)
    >>> sampler.update(draw, [2.0])
    >>> sampler.components.ratios(draw.indices)[0, 0].round(6) == round(4 / (1 + 3 * math.exp(-0.5 * 4.0)), 6)
    np.True_
    """

    def __init__(
        self, space: Points | int, *, eta: float = 0.4, rounds: int | None = None, step: float | None = None
    ) -> None:
        super().__init__(space)
        n = self.space.n
        if step is not None and rounds is not None:
            raise TypeError("The step replaces the horizon it would follow from: give rounds or step, not both.")
        eta = as_fraction(eta, "eta")
        horizon = as_count(DEFAULT_PASSES * n if rounds is None else rounds, "rounds")
        self._relative = step is None  # to the largest squared norm
        self._rate = (
            eta**2 * math.sqrt(n * math.log(max(n, 2)) / horizon) if step is None else as_positive(step, "step")
        )
        self._logs = np.zeros(n)
        self._offset = 0.0
        self._largest = 0.0  # norm
        self._rebuild()

    def _scores(self, atoms: IntArray) -> FloatArray:
        scores = np.empty(len(atoms))
        kernels.exponential_scores(self._logs, self._offset, self._masses, atoms, scores)
        return scores

    def observe(self, draw: Draw, norms: FloatArray) -> None:
        """Add the gains of the drawn points to the logarithms of their weights."""
        atoms = draw.indices
        self._largest = max(self._largest, float(norms.max()))
        if self._largest == 0.0:
            return
        losses = norms / self._largest if self._relative else norms
        with np.errstate(over="ignore"):  # one after the other: the third power of a density may be zero
            gains = self._rate * losses**2 / draw.density / draw.density / draw.density
            gains = gains / self._masses[atoms] if len(self._masses) else gains
        gains = np.minimum(gains, LARGEST_GAIN)
        np.add.at(self._logs, atoms, gains)
        if self._logs[atoms].max() - self._offset > MAX_EXPONENT:
            self._offset = float(self._logs.max())
            self._rebuild()
        else:
            self._refresh(atoms)

    def state_dict(self) -> State:
        """Give the logarithms of the weights, what they are beside, and the scale of the gains."""
        own = {"logs": self._logs.copy(), "offset": self._offset, "largest": self._largest}
        return super().state_dict() | own | {"rate": self._rate, "relative": self._relative}

    def load_state_dict(self, state: State) -> None:
        """Take the weights over, and build the tree."""
        self._check_state(state)
        if not same(state["rate"], self._rate) or not same(state["relative"], self._relative):
            raise CheckpointError(
                "The saved Exponential has another step: build this one with the step that was saved."
            )
        logs = restore_array(state["logs"], self._logs, "logs")
        offset, largest = read_number(state, "offset"), read_number(state, "largest", most=LARGEST_NORM)
        if (
            not -MAX_EXPONENT <= logs.max() - offset <= MAX_EXPONENT
            or logs.min() < 0.0
            or (largest == 0.0 and logs.any())
        ):
            raise CheckpointError(
                "The saved weights are negative, lie far from their offset, or were never told: the state is damaged."
            )
        self._take_over(_logs=logs, _offset=offset, _largest=largest)
