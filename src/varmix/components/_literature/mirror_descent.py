"""MirrorDescent: probabilities that follow the gradient of the second moment, above a floor."""

import math
from typing import final

import numpy as np

from varmix._core.draw import Draw
from varmix._core.evidence import LARGEST_NORM
from varmix._core.rng import Uniforms
from varmix._core.spaces import Points
from varmix._core.state import CheckpointError, describe_value, read_array, read_number, require_entries
from varmix._core.validation import FloatArray, IntArray, State, as_atoms, as_count, as_fraction, as_positive, same
from varmix.components._base import Family
from varmix.components._literature import kernels

MIN_WEIGHT, MAX_TOTAL_WEIGHT = (
    1e-290,
    1e290,
)  # of weights and their sum, so that ratios of them neither overflow nor vanish
LARGEST_GAIN = 1e280  # so that their sums stay finite
MIN_FLOOR = 1e-100  # so that ratios above the floor stay finite beside it
DEFAULT_PASSES = 10  # the horizon, where none is given


@final
class MirrorDescent(Family):
    """Probabilities by mirror descent above a floor: the updates of Namkoong, Sinha, Yadlowsky and Duchi (2017).

        w_i = q_i exp( step * sum over the draws of i in the batch of  l^2 / (q_i^2 d) )
        q   = argmin of KL(q | w) over { q >= floor, mean q = 1 }

    The exponent is minus the gradient of the second moment mean[ l^2 / q ], estimated from the points that were drawn.
    Because of the floor no mixing with uniform is needed: weights are at most 1 / floor.

    In the paper p = q / n, the floor is p_min = floor / n, and every round draws one point.  Here every row of a batch
    is a round, and the batch is projected once.  The gradient is taken at the present q, with the density `d` of draw
    time, so that feedback may come late; for one point at once, q = d and the update is the paper's.  The projection
    is the exact one.  Unless a step is given, it is the one that balances the regret bound of mirror descent for the
    horizon, `floor^2 sqrt(2 n log n / rounds) / L`, with the largest squared norm seen so far for the bound L: the
    scale of the norms does not matter.

    Parameters
    ----------
    n
        Number of points.
    floor
        The least ratio, n p_min, from 1e-100 on.
    rounds
        The horizon, in draws; ten passes unless told.
    step
        The factor before the gradient; replaces rounds.

    Examples
    --------
    >>> from varmix import Sampler
    >>> from varmix.learners import Fixed
    >>> sampler = Sampler(MirrorDescent(4, floor=0.5, step=1.0), learner=Fixed(), rng=0)
    >>> draw = sampler.draw(1)
    >>> sampler.update(draw, [1.0])
    >>> sorted(sampler.draw_all().ratios[:, 0].round(3).tolist())
    [0.7, 0.7, 0.7, 1.901]
    >>> sampler.update(sampler.draw(1), [9.0])
    >>> sorted(sampler.draw_all().ratios[:, 0].round(3).tolist())
    [0.5, 0.5, 0.5, 2.5]
    """

    space: Points

    def __init__(self, n: int, *, floor: float = 0.2, rounds: int | None = None, step: float | None = None) -> None:
        if step is not None and rounds is not None:
            raise TypeError("The step replaces the horizon it would follow from: give rounds or step, not both.")
        self.space, self.k = Points(n), 1
        n = self.space.n
        self.floor = as_fraction(floor, "floor", one=False)
        if self.floor < MIN_FLOOR:
            raise ValueError(f"floor must be at least {MIN_FLOOR:g}, got {floor!r}: weights are up to 1 / floor.")
        horizon = as_count(DEFAULT_PASSES * n if rounds is None else rounds, "rounds")
        self._relative = step is None  # to the largest squared norm
        rate = self.floor**2 * math.sqrt(2 * n * math.log(max(n, 2)) / horizon)
        self._rate = rate if step is None else as_positive(step, "step")
        self._largest = 0.0  # norm
        self._build(np.ones(n))

    def _build(self, weights: FloatArray) -> None:
        self._values, self._floors, self._least = (np.zeros(2 * self.space.n) for _ in range(3))
        kernels.build_floored(weights, self._values, self._floors, self._least)

    @property
    def c(self) -> float:  # type: ignore[override]
        """The largest ratio at present; looking for it takes time in proportion to n."""
        return float(self.ratios(np.arange(self.space.n)).max())

    def draw(self, lanes: IntArray, uniforms: Uniforms) -> tuple[IntArray, FloatArray]:
        """Draw a point at the floor, or by descent one of the others."""
        atoms = np.empty(len(lanes), dtype=np.int64)
        kernels.draw_floored(uniforms.take(len(lanes)), self._values, self._floors, self.floor, atoms)
        return atoms, self._rows(atoms)

    def ratios(self, atoms: IntArray) -> FloatArray:
        """Give the present ratios of these atoms."""
        return self._rows(as_atoms(atoms, self.space.n))

    def _rows(self, atoms: IntArray) -> FloatArray:
        rows = np.empty((len(atoms), 1))
        kernels.floored_rows(self._values, self._floors, self.floor, atoms, rows[:, 0])
        return rows

    def observe(self, draw: Draw, norms: FloatArray) -> None:
        """Take one step with the gradients of all rows, and project."""
        self._largest = max(self._largest, float(norms.max()))
        if self._largest == 0.0:
            return
        losses = norms / self._largest if self._relative else norms
        now = self._rows(draw.indices)[:, 0]
        with np.errstate(over="ignore"):
            gains = self._rate * losses**2 / now / now / draw.density
        gains = np.minimum(gains, LARGEST_GAIN)
        atoms, places = np.unique(draw.indices, return_inverse=True)
        exponents = np.zeros(len(atoms))
        np.add.at(exponents, places, gains)
        kernels.raise_ratios(self._values, self._floors, self._least, self.floor, atoms, exponents)

    def state_dict(self) -> State:
        """Give the ratios up to their common factor (zero at the floor), the settings, and the scale of the norms."""
        own = {"weights": self._values[self.space.n :].copy(), "largest": self._largest}
        return super().state_dict() | own | {"floor": self.floor, "rate": self._rate, "relative": self._relative}

    def load_state_dict(self, state: State) -> None:
        """Take the ratios over, and build the trees."""
        require_entries(state, set(self.state_dict()), "MirrorDescent")
        self.check_shape(state)
        for name, value in {"floor": self.floor, "rate": self._rate, "relative": self._relative}.items():
            if not same(state[name], value):
                raise CheckpointError(
                    f"The saved MirrorDescent has {name} = {describe_value(state[name])}, this one {value!r}: "
                    f"rebuild it."
                )
        weights = read_array(state, "weights", np.float64, (self.space.n,), least=0.0, most=MAX_TOTAL_WEIGHT)
        largest = read_number(state, "largest", most=LARGEST_NORM)
        above = weights[weights > 0]
        total = self.space.n - self.floor * (len(weights) - len(above))
        legal = len(above) > 0 and MIN_WEIGHT <= above.min() and above.sum() <= MAX_TOTAL_WEIGHT
        if not legal or total * above.min() < self.floor * (1 - 1e-9) * above.sum():
            raise CheckpointError("The saved ratios are too large, too small or below the floor: they are damaged.")
        self._build(weights)
        self._largest = largest
