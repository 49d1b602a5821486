"""Projections onto the restricted simplex {w >= 0, sum w = 1, w_k >= gamma}, and steps inside it."""

import numpy as np
from numpy.typing import ArrayLike

from varmix._core.validation import FloatArray, as_count, as_floats, as_fraction, as_vector
from varmix._kernels import simplex as kernels


class RestrictedSimplex:
    """Mixtures with a share of at least `gamma` for the last component, the uniform one.

    This bounds every importance weight by `1 / gamma`. The best mixture of the set costs at most `1 / (1 - gamma)`
    times as much as the best of all mixtures.

    Parameters
    ----------
    gamma : float
        Smallest share of the last component, in (0, 1].

    Examples
    --------
    >>> simplex = RestrictedSimplex(gamma=0.1)
    >>> simplex.project([1.0, 0.5, -1.0]).round(12).tolist()
    [0.7, 0.2, 0.1]
    """

    def __init__(self, gamma: float) -> None:
        self.gamma = as_fraction(gamma, "gamma")

    def project(self, v: ArrayLike) -> FloatArray:
        """Return the nearest mixture in Euclidean distance (Algorithm 3 of the paper).

        Parameters
        ----------
        v : array-like of shape (k,)
            Any finite vector.

        Returns
        -------
        ndarray of shape (k,)
            The nearest mixture.

        Raises
        ------
        ValueError
            If `v` is empty or not finite.
        """
        vector = as_vector(v, "v")
        if len(vector) == 0:
            raise ValueError("v must have at least one entry, got none.")
        nearest = _project_simplex(vector, 1.0)
        if nearest[-1] < self.gamma:
            if len(nearest) > 1:
                nearest[:-1] = _project_simplex(nearest[:-1], 1.0 - self.gamma)
            nearest[-1] = self.gamma
        kernels.clip_to_simplex(nearest, self.gamma)
        return nearest

    def step(self, w: ArrayLike, g: ArrayLike, H: ArrayLike) -> FloatArray:
        """Return the mixture x that minimises `<g, x> + 1/2 (x - w)' H (x - w)`.

        The result is exact for up to 170 components. With more, the work is limited to about two seconds, or ten
        factorisations of `H`. A step that needs more ends with projected gradient steps. Its result is then feasible,
        no worse than `w`, and usually accurate to many digits.

        Parameters
        ----------
        w : array-like of shape (k,)
            A mixture of this set.
        g : array-like of shape (k,)
            The gradient at `w`.
        H : array-like of shape (k, k)
            Symmetric positive semi-definite matrix.

        Returns
        -------
        ndarray of shape (k,)
            The minimiser.
        """
        mixture, slope, metric = self._check_problem(w, g, H)
        best = np.empty(len(mixture))
        if kernels.metric_step(mixture, slope, metric, self.gamma, best) <= kernels.CUT_SHORT:
            kernels.descend_projected(
                mixture, slope, metric, self.gamma * (np.arange(len(best)) == len(best) - 1), best
            )
            kernels.clip_to_simplex(best, self.gamma)
        return best

    def pgd(self, w: ArrayLike, g: ArrayLike, H: ArrayLike, steps: int) -> FloatArray:
        """Return an approximate solution of the problem of `step`, by projected gradient steps.

        Each step has the safe length 1 / ||H||_inf.

        Parameters
        ----------
        w : array-like of shape (k,)
            A mixture of this set.
        g : array-like of shape (k,)
            The gradient at `w`.
        H : array-like of shape (k, k)
            Symmetric positive semi-definite matrix.
        steps : int
            Number of steps.

        Returns
        -------
        ndarray of shape (k,)
            The last iterate.
        """
        mixture, slope, metric = self._check_problem(w, g, H)
        better = np.empty(len(mixture))
        kernels.projected_descent(mixture, slope, metric, self.gamma, as_count(steps, "steps"), better)
        return better

    def _check_problem(self, w: ArrayLike, g: ArrayLike, H: ArrayLike) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the arguments of a step as arrays; raise `ValueError` if they do not fit."""
        mixture = as_vector(w, "w")
        if len(mixture) == 0:
            raise ValueError("w must have at least one entry, got none.")
        slope = as_vector(g, "g", len(mixture))
        metric = np.ascontiguousarray(as_floats(H, "H"))
        if metric.shape != (len(mixture), len(mixture)):
            raise ValueError(f"H must have shape ({len(mixture)}, {len(mixture)}), got {metric.shape}.")
        if not np.isfinite(metric).all() or np.abs(metric - metric.T).max() > 1e-9 * np.abs(metric).max():
            raise ValueError("H must be finite and symmetric.")
        if mixture.min() < 0 or abs(mixture.sum() - 1) > 1e-9 or mixture[-1] < self.gamma - 1e-12:
            raise ValueError(
                f"w must lie in the restricted simplex (non-negative, sum 1, last entry at least {self.gamma}), "
                f"got {mixture}. Project it first."
            )
        return mixture, slope, metric

    def __repr__(self) -> str:
        return f"RestrictedSimplex(gamma={self.gamma})"


def _project_simplex(v: FloatArray, z: float) -> FloatArray:
    """Return the nearest point to `v` of {x >= 0, sum x = z}.

    The result equals that of the kernel `project_simplex` bit for bit. Every learner starts with a projection, and
    compiling the kernel for that alone would take half a second.
    """
    top = v.max()
    with np.errstate(over="ignore"):
        u = np.sort(v - top)[::-1]
        u = u[u > -z]  # sums over all entries may overflow
        shifts = (np.cumsum(u) - z) / np.arange(1, len(u) + 1)
        above = np.flatnonzero(u - shifts > 0.0)
        nearest: FloatArray = np.maximum((v - top) - (shifts[above[-1]] if len(above) else -z), 0.0)
    return nearest
