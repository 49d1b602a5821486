"""Evidence: what feedback says about the cost of any mixture."""

import numpy as np
from numpy.typing import ArrayLike

from varmix._core.draw import Draw
from varmix._core.validation import FloatArray, IntArray, as_floats, as_vector
from varmix._kernels import cost

FLOAT64_DTYPE = np.dtype(np.float64)
LARGEST_NORM = 1e120


class Evidence:
    """An unbiased estimate of the cost `f(w) = mean_u[ l^2 / (w.q) ]`, as a function of `w`.

    From a draw made when the density was `d_s`:

        f~(w)       =  mean[ c / (w.q) ]            with c = l^2 / d_s
        gradient(w) = -mean[ c q / (w.q)^2 ]
        hessian(w)  =  mean[ 2 c q q' / (w.q)^3 ]

    A batch is one round: everything is a mean over its rows, never a sum.

    Examples
    --------
    >>> evidence = Evidence(ratios=[[2.0, 1.0], [0.0, 1.0]], coefficients=[1.0, 3.0])
    >>> float(evidence.value([0.0, 1.0]))
    2.0
    >>> evidence.gradient([0.0, 1.0])
    array([-1., -2.])
    """

    __slots__ = ("_at_uniform", "_ratios", "_receipt", "coefficients", "density", "groups", "norms")

    def __init__(self, ratios: ArrayLike, coefficients: ArrayLike, density: ArrayLike | None = None) -> None:
        self._ratios: FloatArray | None = np.ascontiguousarray(as_floats(ratios, "ratios"))
        self._receipt: Draw | None = None
        self._at_uniform: float | None = None
        #: The group of each row, where components are disjoint groups and a draw said so.
        self.groups: IntArray | None = None
        self.coefficients: FloatArray = np.ascontiguousarray(as_floats(coefficients, "coefficients"))
        m = len(self.ratios) if self.ratios.ndim == 2 else 0
        if m == 0 or self.ratios.shape[1] == 0 or self.coefficients.shape != (m,):
            raise ValueError(
                f"Evidence needs ratios (m, k) and coefficients (m,) with m >= 1, got "
                f"{self.ratios.shape} and {self.coefficients.shape}."
            )
        #: The density each row was drawn with, and the norm it came back with.
        self.density: FloatArray = np.ones(m) if density is None else as_vector(density, "density", m)
        for name in ("ratios", "coefficients"):
            values = getattr(self, name)
            if not (np.isfinite(values).all() and values.min() >= 0.0):
                raise ValueError(f"{name} must be finite and not negative.")
        if self.density.min() <= 0.0:
            raise ValueError(f"density must be above zero, got {self.density.min()}.")
        self.norms: FloatArray = np.sqrt(self.coefficients) * np.sqrt(self.density)

    @classmethod
    def from_draw(cls, draw: Draw, norms: ArrayLike) -> "Evidence":
        """Check `norms`, one non-negative number per drawn atom, and join them with the receipt."""
        density = draw.density
        values = norms if type(norms) is np.ndarray and norms.dtype is FLOAT64_DTYPE else as_floats(norms, "norms")
        if values.shape != density.shape:
            raise ValueError(
                f"norms must be one non-negative number per drawn atom: expected shape {density.shape}, "
                f"got {values.shape}. Pass per-example norms, not gradients or their mean."
            )
        coefficients = np.empty(len(density))
        row = cost.write_coefficients(values, density, coefficients)
        if row >= 0:
            raise ValueError(_explain_refusal(values, density, row))
        evidence = cls.__new__(cls)  # the receipt's arrays need no second check
        evidence._ratios, evidence._receipt, evidence.groups = None, draw, draw.groups
        evidence._at_uniform = None
        evidence.coefficients = coefficients
        evidence.density = density
        evidence.norms = values
        return evidence

    @classmethod
    def from_sums(cls, value: float, gradient: FloatArray, at_uniform: float | None = None) -> "Evidence":
        """Give evidence of one row with this value and this gradient at the mixture where both were taken.

        The cost is homogeneous: `w.g = -f` at any w.  So the row q = -g / f has w.q = 1, and with the coefficient f
        its value is f and its gradient -f q = g.  That is all that a learner without `needs_rows` asks for, and means
        over rows that are spread over many processes can be added up.  Elsewhere it is a bound from below, by Jensen's
        inequality; what the uniform component costs can be told beside it.

        Examples
        --------
        >>> evidence = Evidence(ratios=[[2.0, 1.0], [0.0, 1.0]], coefficients=[1.0, 3.0])
        >>> w = [0.4, 0.6]
        >>> one = Evidence.from_sums(evidence.value(w), evidence.gradient(w))
        >>> len(one.ratios), bool(np.allclose(one.gradient(w), evidence.gradient(w)))
        (1, True)
        """
        one = cls(-gradient[None] / value, [value]) if value else cls(np.ones((1, len(gradient))), [0.0])
        one._at_uniform = at_uniform
        return one

    @property
    def ratios(self) -> FloatArray:
        """The rows q of the atoms, (m, k)."""
        if self._ratios is None:
            assert self._receipt is not None
            self._ratios = self._receipt.ratios
        return self._ratios

    @property
    def at_uniform(self) -> float:
        """Cost of all mass on the uniform component, whose ratios are one: the mean coefficient."""
        return float(self.coefficients.mean()) if self._at_uniform is None else self._at_uniform

    def value(self, w: ArrayLike) -> float:
        """Give f~(w)."""
        mixture = self._checked(w)
        return cost.value_and_gradient(self.ratios, self.coefficients, mixture, np.empty(len(mixture)))

    def gradient(self, w: ArrayLike) -> FloatArray:
        """Give the gradient of f~ at w (factor 1, not 2: the draw-time density is a constant)."""
        mixture = self._checked(w)
        gradient = np.empty(len(mixture))
        cost.value_and_gradient(self.ratios, self.coefficients, mixture, gradient)
        return gradient

    def hessian(self, w: ArrayLike) -> FloatArray:
        """Give the Hessian of f~ at w."""
        mixture = self._checked(w)
        hessian = np.empty((len(mixture), len(mixture)))
        cost.write_hessian(self.ratios, self.coefficients, mixture, hessian)
        return hessian

    def _checked(self, w: ArrayLike) -> FloatArray:
        return as_vector(w, "w", self.ratios.shape[1])


def _explain_refusal(norms: FloatArray, density: FloatArray, r: int) -> str:
    """Say what is wrong with row r: its norm, or the density that it was drawn with."""
    allowed, norm = "norms must be finite and not negative", norms[r]
    if np.isnan(norm):
        return f"{allowed}; norms[{r}] is nan. Skip the update of a batch that diverged."
    if np.isinf(norm):
        return f"{allowed}; norms[{r}] is infinite. Skip the update of a batch that diverged."
    if norm < 0:
        return f"{allowed}; norms[{r}] is {norm:.6g}. Pass losses or gradient norms, not signed quantities."
    if 0 < density[r] < np.inf and norm > LARGEST_NORM:
        return f"{allowed}, and at most about 1e120; the largest is {norms.max():.3g}. Scale the losses down."
    return (
        f"The density that an atom was drawn with must be finite and above zero; that of row {r} is {density[r]:.3g}, "
        f"and its norm, {norm:.3g}, is not to blame. The components' ratios do not fit what they draw: add the uniform "
        f"law by varmix.components.with_uniform, or run varmix.testing.COMPONENT_CHECKS over a family of your own."
    )
