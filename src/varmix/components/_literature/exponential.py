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

MAX_EXPONENT = 300.0  # a billion weights of e^300 do not overflow
LARGEST_GAIN = 1e280  # so that sums of gains stay finite
DEFAULT_EPOCHS = 10  # default horizon


@final
class Exponential(WeightedPoints):
    """Points by exponential weights of their gains: the law of MABS, Salehi, Celis and Thiran (2017).

        p(i) proportional to w_i,     log w_i = sum over the draws of i of  step * l^2 / d^3

    The gain of a drawn point, l^2 / p^2, is minus the derivative of the second moment with respect to its probability.
    Dividing once more by p makes the estimate unbiased, as in EXP3. MABS mixes the law with a share eta of the uniform
    distribution: `varmix.literature.bandit` does so.

    Deviations from the paper:

    * Every row of a batch is a play. All three `d` are densities at draw time.
    * The paper's delta is `step / n^3`, in units of 1 / l^2. Its theorem sets delta by the horizon and the mean of l^4,
      which is not known. The default step replaces that mean by the largest squared norm so far,
      `eta^2 sqrt(n log n / rounds) / max l^2`: gains are then bounded, as EXP3 needs, at any scale of the norms.
    * Only logarithms of weights are stored, so none overflows. A weight below 1e-300 of the largest counts as zero; the
      uniform component still draws its point.

    Under a target gains are divided by n target_i, and the law is target times w.

    Parameters
    ----------
    space : int or Points
        Number of points, or points with a target.
    eta : float, default 0.4
        Share of the uniform component that the default step assumes. The paper's theorem uses 0.4.
    rounds : int, optional
        Horizon of the default step, in draws. Default: ten epochs, 10 n draws.
    step : float, optional
        Factor of l^2 / d^3; replaces eta and rounds. Default: None, the step described above.

    Raises
    ------
    TypeError
        If both `rounds` and `step` are passed.

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
            raise TypeError("Pass rounds or step, not both: rounds only sets the default step.")
        eta = as_fraction(eta, "eta")
        horizon = as_count(DEFAULT_EPOCHS * n if rounds is None else rounds, "rounds")
        self._relative = step is None  # step in units of one over the largest squared norm
        self._rate = (
            eta**2 * math.sqrt(n * math.log(max(n, 2)) / horizon) if step is None else as_positive(step, "step")
        )
        self._logs = np.zeros(n)
        self._offset = 0.0
        self._largest = 0.0  # largest norm so far
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
        with np.errstate(over="ignore"):  # three divisions, because the third power of a density may be zero
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
        """Return the logarithms of the weights, their offset, and the settings of the step."""
        own = {"logs": self._logs.copy(), "offset": self._offset, "largest": self._largest}
        return super().state_dict() | own | {"rate": self._rate, "relative": self._relative}

    def load_state_dict(self, state: State) -> None:
        """Check the saved weights, and build the tree from them."""
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
                "The saved weights are negative, far from their offset or without feedback: the state is damaged."
            )
        self._take_over(_logs=logs, _offset=offset, _largest=largest)
