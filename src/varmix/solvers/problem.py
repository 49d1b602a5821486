"""Problem: a mean of losses over points, with an L2 penalty that is not sampled."""

from typing import Protocol

from varmix.arrays import FloatArray, IntArray


class Problem(Protocol):
    """Minimise F(theta) = mean_i loss_i(theta) + l2/2 |theta|^2.

    Solvers ask for single points; `Linear` is the fast case, `Custom` makes one of any two functions.
    """

    @property
    def n(self) -> int:
        """Number of points."""
        ...

    @property
    def dim(self) -> int:
        """Length of theta."""
        ...

    def losses(self, theta: FloatArray, points: IntArray) -> FloatArray:
        """Give the losses (m,) of these points."""
        ...

    def gradients(self, theta: FloatArray, points: IntArray) -> FloatArray:
        """Give the gradients (m, dim) of these points' losses."""
        ...

    def norms(self, theta: FloatArray, points: IntArray) -> FloatArray:
        """Give the lengths (m,) of these gradients: what samplers learn from."""
        ...

    def penalty(self, theta: FloatArray) -> FloatArray:
        """Give the gradient (dim,) of the penalty."""
        ...

    def objective(self, theta: FloatArray) -> float:
        """Give F(theta), from all points."""
        ...
