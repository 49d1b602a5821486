"""Evidence: an estimate of the cost of any mixture, from one batch of feedback."""

import math

import numpy as np
from numpy.typing import ArrayLike

from varmix._core.draw import Draw
from varmix._core.validation import FloatArray, IntArray, as_floats, as_vector
from varmix._kernels import cost

FLOAT64_DTYPE = np.dtype(np.float64)
LARGEST_NORM = 1e120


class Evidence:
    """Unbiased estimate of the cost `f(w) = mean_u[ l^2 / (w.q) ]` of any mixture `w`.

    A learner gets one `Evidence` per round: a batch with its feedback. Methods return the value, the gradient and the
    Hessian of the estimate at any mixture. With `l` for the norms, `q` for the rows of ratios, and `d_s` for the
    density at draw time:

        f~(w)       =  mean[ c / (w.q) ]            with c = l^2 / d_s
        gradient(w) = -mean[ c q / (w.q)^2 ]
        hessian(w)  =  mean[ 2 c q q' / (w.q)^3 ]

    A batch is one round, so these are means over its rows, not sums.

    Parameters
    ----------
    ratios : array-like of shape (m, k)
        Density ratios of the drawn atoms under every component.
    coefficients : array-like of shape (m,)
        The coefficients `c`, non-negative.
    density : array-like of shape (m,), optional
        Density that each row was drawn with. Default: ones.

    Attributes
    ----------
    coefficients : array of shape (m,)
        The coefficients `c`.
    density : array of shape (m,)
        Density that each row was drawn with.
    norms : array of shape (m,)
        Norm or loss that was reported for each row.
    groups : array of shape (m,) or None
        Group of each row if the components are disjoint groups, otherwise None.

    Raises
    ------
    ValueError
        If shapes do not fit, or numbers are negative or not finite.

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
        self.groups: IntArray | None = None
        self.coefficients: FloatArray = np.ascontiguousarray(as_floats(coefficients, "coefficients"))
        m = len(self.ratios) if self.ratios.ndim == 2 else 0
        if m == 0 or self.ratios.shape[1] == 0 or self.coefficients.shape != (m,):
            raise ValueError(
                f"Evidence needs ratios (m, k) and coefficients (m,) with m >= 1, got "
                f"{self.ratios.shape} and {self.coefficients.shape}."
            )
        self.density: FloatArray = np.ones(m) if density is None else as_vector(density, "density", m)
        for name in ("ratios", "coefficients"):
            values = getattr(self, name)
            if not (np.isfinite(values).all() and values.min() >= 0.0):
                raise ValueError(f"{name} must be finite and non-negative.")
        if self.density.min() <= 0.0:
            raise ValueError(f"density must be above zero, got {self.density.min()}.")
        self.norms: FloatArray = np.sqrt(self.coefficients) * np.sqrt(self.density)

    @classmethod
    def from_draw(cls, draw: Draw, norms: ArrayLike) -> "Evidence":
        """Return the evidence of a draw and its feedback.

        Parameters
        ----------
        draw : Draw
            Receipt of the draw.
        norms : array-like of shape (m,)
            Loss or gradient norm of each drawn atom, non-negative, not squared.

        Returns
        -------
        Evidence
            Evidence with one row per atom.

        Raises
        ------
        ValueError
            If a norm is negative, not finite or too large, or the density of an atom is zero or not finite.
        """
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
        evidence = cls.__new__(cls)  # the arrays of a receipt need no second check
        evidence._ratios, evidence._receipt, evidence.groups = None, draw, draw.groups
        evidence._at_uniform = None
        evidence.coefficients = coefficients
        evidence.density = density
        evidence.norms = values
        return evidence

    @classmethod
    def from_sums(cls, value: float, gradient: FloatArray, at_uniform: float | None = None) -> "Evidence":
        """Return one-row evidence that has this value and gradient at the mixture w where both were computed.

        Processes that share a round use it: they sum their values and gradients instead of sending rows. A learner
        without `needs_rows` reads nothing else. At other mixtures the value is a lower bound, by Jensen's inequality.

        Parameters
        ----------
        value : float
            Value of the cost at a mixture w.
        gradient : array of shape (k,)
            Gradient of the cost at w.
        at_uniform : float, optional
            Cost of the uniform component alone. Default: the value at w.

        Returns
        -------
        Evidence
            Evidence with the single row `q = -gradient / value` and the coefficient `value`. The cost is homogeneous,
            so `w.gradient = -value` and the row has `w.q = 1`.

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
        """Density ratios of the drawn atoms under every component, shape (m, k)."""
        if self._ratios is None:
            assert self._receipt is not None
            self._ratios = self._receipt.ratios
        return self._ratios

    @property
    def at_uniform(self) -> float:
        """Cost of the uniform component alone: the mean of the coefficients, because its ratios are one."""
        return float(self.coefficients.mean()) if self._at_uniform is None else self._at_uniform

    def value(self, w: ArrayLike) -> float:
        """Return the estimated cost f~(w).

        Parameters
        ----------
        w : array-like of shape (k,)
            Mixture.

        Returns
        -------
        float
            The estimate.
        """
        mixture = self._checked(w)
        return cost.value_and_gradient(self.ratios, self.coefficients, mixture, np.empty(len(mixture)))

    def gradient(self, w: ArrayLike) -> FloatArray:
        """Return the gradient of f~ at `w`.

        Its factor is 1, not 2, because the density at draw time is a constant.

        Parameters
        ----------
        w : array-like of shape (k,)
            Mixture.

        Returns
        -------
        array of shape (k,)
            The gradient.
        """
        mixture = self._checked(w)
        gradient = np.empty(len(mixture))
        cost.value_and_gradient(self.ratios, self.coefficients, mixture, gradient)
        return gradient

    def hessian(self, w: ArrayLike) -> FloatArray:
        """Return the Hessian of f~ at `w`.

        Parameters
        ----------
        w : array-like of shape (k,)
            Mixture.

        Returns
        -------
        array of shape (k, k)
            The Hessian.
        """
        mixture = self._checked(w)
        hessian = np.empty((len(mixture), len(mixture)))
        cost.write_hessian(self.ratios, self.coefficients, mixture, hessian)
        return hessian

    def _checked(self, w: ArrayLike) -> FloatArray:
        """Return `w` as a vector of k finite numbers."""
        k = self.ratios.shape[1]
        if type(w) is np.ndarray and w.dtype is FLOAT64_DTYPE and w.shape == (k,) and math.isfinite(w.sum()):
            return w  # the usual case, a mixture: no need for the slower check
        return as_vector(w, "w", k)


def _explain_refusal(norms: FloatArray, density: FloatArray, r: int) -> str:
    """Return the error message for row `r`, whose norm or density is not allowed."""
    allowed, norm = "norms must be finite and non-negative", norms[r]
    if np.isnan(norm):
        return f"{allowed}; norms[{r}] is nan. Skip the update of a batch that diverged."
    if np.isinf(norm):
        return f"{allowed}; norms[{r}] is infinite. Skip the update of a batch that diverged."
    if norm < 0:
        return f"{allowed}; norms[{r}] is {norm:.6g}. Pass losses or gradient norms, not signed quantities."
    if 0 < density[r] < np.inf and norm > LARGEST_NORM:
        return f"{allowed}, and at most about 1e120; the largest is {norms.max():.3g}. Scale the losses down."
    return (
        f"The density of a drawn atom must be finite and above zero, but row {r} has density {density[r]:.3g} (and "
        f"norm {norm:.3g}). The ratios of the components contradict their draws: add a uniform component with "
        f"varmix.components.with_uniform, or check your own family with varmix.testing.COMPONENT_CHECKS."
    )
