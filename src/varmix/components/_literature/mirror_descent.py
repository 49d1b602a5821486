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

MIN_WEIGHT, MAX_TOTAL_WEIGHT = 1e-290, 1e290  # so that ratios of weights neither overflow nor vanish
LARGEST_GAIN = 1e280  # so that sums of gains stay finite
MIN_FLOOR = 1e-100  # so that ratios over the floor stay finite
DEFAULT_EPOCHS = 10  # default horizon


@final
class MirrorDescent(Family):
    """Probabilities by mirror descent above a floor: the updates of Namkoong, Sinha, Yadlowsky and Duchi (2017).

        w_i = q_i exp( step * sum over the draws of i in the batch of  l^2 / (q_i^2 d) )
        q   = argmin of KL(q | w) over { q >= floor, mean q = 1 }

    The exponent is minus the gradient of the second moment mean[ l^2 / q ], estimated from the drawn points. Weights
    are at most 1 / floor, so the law needs no uniform component.

    Deviations from the paper:

    * In the paper's notation p = q / n and p_min = floor / n. The paper draws one point per round. Here every row of a
      batch is a round, and there is one exact projection per batch.
    * The gradient is taken at the present q with the density `d` at draw time, so feedback may come late. For a single
      point without delay q = d, and the update is the paper's.
    * The default step balances the regret bound of mirror descent, `floor^2 sqrt(2 n log n / rounds) / L`, with the
      largest squared norm so far as the bound L. It works at any scale of the norms.

    Parameters
    ----------
    n : int
        Number of points.
    floor : float, default 0.2
        Smallest ratio n p_i, from 1e-100 to below 1.
    rounds : int, optional
        Horizon of the default step, in draws. Default: ten epochs, 10 n draws.
    step : float, optional
        Factor of the gradient; replaces rounds. Default: None, the step described above.

    Raises
    ------
    TypeError
        If both `rounds` and `step` are passed.
    ValueError
        If the floor is too small.

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
            raise TypeError("Pass rounds or step, not both: rounds only sets the default step.")
        self.space, self.k = Points(n), 1
        n = self.space.n
        self.floor = as_fraction(floor, "floor", one=False)
        if self.floor < MIN_FLOOR:
            raise ValueError(
                f"floor must be at least {MIN_FLOOR:g}, got {floor!r}: weights can be as large as 1 / floor."
            )
        horizon = as_count(DEFAULT_EPOCHS * n if rounds is None else rounds, "rounds")
        self._relative = step is None  # step in units of one over the largest squared norm
        rate = self.floor**2 * math.sqrt(2 * n * math.log(max(n, 2)) / horizon)
        self._rate = rate if step is None else as_positive(step, "step")
        self._largest = 0.0  # largest norm so far
        self._build(np.ones(n))

    def _build(self, weights: FloatArray) -> None:
        """Build the trees from weights, which are zero for points at the floor."""
        self._values, self._floors, self._least = (np.zeros(2 * self.space.n) for _ in range(3))
        kernels.build_floored(weights, self._values, self._floors, self._least)

    @property
    def c(self) -> float:  # type: ignore[override]
        """Largest ratio at present; takes time in proportion to n."""
        return float(self.ratios(np.arange(self.space.n)).max())

    def draw(self, lanes: IntArray, uniforms: Uniforms) -> tuple[IntArray, FloatArray]:
        """Draw points at the floor uniformly and others by their weights; return points and ratios."""
        atoms = np.empty(len(lanes), dtype=np.int64)
        kernels.draw_floored(uniforms.take(len(lanes)), self._values, self._floors, self.floor, atoms)
        return atoms, self._rows(atoms)

    def ratios(self, atoms: IntArray) -> FloatArray:
        """Return the present ratios of these points."""
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
        """Return the ratios up to a common factor (zero at the floor), and the settings."""
        own = {"weights": self._values[self.space.n :].copy(), "largest": self._largest}
        return super().state_dict() | own | {"floor": self.floor, "rate": self._rate, "relative": self._relative}

    def load_state_dict(self, state: State) -> None:
        """Check the saved ratios, and build the trees from them."""
        require_entries(state, set(self.state_dict()), "MirrorDescent")
        self.check_identity(state)
        for name, value in {"floor": self.floor, "rate": self._rate, "relative": self._relative}.items():
            if not same(state[name], value):
                raise CheckpointError(
                    f"The saved MirrorDescent has {name} = {describe_value(state[name])}, but this one has {value!r}. "
                    f"Build it with the settings that were saved."
                )
        weights = read_array(state, "weights", np.float64, (self.space.n,), least=0.0, most=MAX_TOTAL_WEIGHT)
        largest = read_number(state, "largest", most=LARGEST_NORM)
        above = weights[weights > 0]
        total = self.space.n - self.floor * (len(weights) - len(above))
        legal = len(above) > 0 and MIN_WEIGHT <= above.min() and above.sum() <= MAX_TOTAL_WEIGHT
        if not legal or total * above.min() < self.floor * (1 - 1e-9) * above.sum():
            raise CheckpointError("The saved ratios are too large, too small or below the floor: the state is damaged.")
        self._build(weights)
        self._largest = largest
