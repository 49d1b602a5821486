"""KDpp: minibatches as diverse sets, drawn from exact k-DPPs."""

import math
from copy import copy
from typing import final

import numpy as np
from numpy.typing import ArrayLike

from varmix._core.allocation import Allocation
from varmix._core.rng import Uniforms
from varmix._core.spaces import Subsets
from varmix._core.state import CheckpointError, make_printable, read_count, require_entries
from varmix._core.validation import FloatArray, IntArray, State, as_atoms, as_subsets, as_vector, find_first, same
from varmix.components import _kdpp_kernels as kernels
from varmix.components._base import Family, Sample
from varmix.components._guide_table import Table
from varmix.components._kdpp_laws import RidgedLaws, Spectrum, are_close, compute_marks, same_marks

MAX_LOG_RATIO = 690.0  # larger ratios are cut to e^690 = 1e299, so that none is infinite
MAX_LOST_PROBABILITY = 1e-6  # largest probability that a law may lose with dropped eigenvalues
# After this many proposals per chosen eigenvector, a scan of all points finds the next point. One point in 1e14 needs
# it.
MAX_PROPOSALS_PER_VECTOR = 32


@final
class KDpp(Family):
    """Diverse minibatches: one k-DPP (determinantal point process over sets of fixed size) per ridge.

    Component j draws a set S of `size` points with probability in proportion to `det(X_S X_S' + ridge_j I)`. Points
    with similar features are seldom drawn together; points with long feature vectors are drawn often. A small ridge
    makes sets more diverse, a large one nearly uniform. A set lists its points in ascending order.

    Rows of X may be the data or any features of them: with random Fourier features the kernel X X' is close to an RBF
    kernel. If you have the kernel matrix itself, use `from_kernel`.

    Draws are exact, and their time does not depend on the number of points. All ridges share their tables, which take
    about 18 bytes per point and feature.

    Parameters
    ----------
    X : array-like of shape (n, d)
        Features, one row per point.
    size : int
        Number of points in a set.
    ridges : array-like of shape (k,)
        Non-negative numbers, one per component. With a ridge of zero, `size` must not exceed the rank of X.

    Attributes
    ----------
    ridges : array of shape (k,)
        The ridges, read-only.
    c : float
        Upper bound of the ratios. The largest ratio cannot be computed in reasonable time, so this is the smallest
        of three bounds: from the longest rows (Hadamard), the largest eigenvalues (interlacing) and the number of sets.

    Raises
    ------
    ValueError
        If an argument is out of range, a set would be larger than the rank allows, or some features are so much longer
        than others that rounding errors would make the probabilities wrong.

    Notes
    -----
    Ratios lose as many of 16 digits as the condition number of X has (the largest singular value over the smallest, or
    over the root of the ridge if that is larger). Sets lose one more digit for each factor of ten by which their rows
    are shorter than the longest. Ratios are cut at about 1e299. See docs/decisions/0005.

    Examples
    --------
    Two of the three points are equal. Without a ridge they are never drawn together, with a ridge less often than
    others.

    >>> family = KDpp([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], size=2, ridges=[0.0, 1.0])
    >>> family.ratios(np.array([[0, 1], [0, 2]])).round(3)
    array([[0.   , 0.818],
           [1.5  , 1.091]])
    >>> family.inclusion(np.array([0, 1, 2])).round(3)
    array([[0.5  , 0.636],
           [0.5  , 0.636],
           [1.   , 0.727]])
    """

    def __init__(self, X: ArrayLike, size: int, ridges: ArrayLike) -> None:
        self._set_up(Spectrum.from_features(X), size, ridges)

    @classmethod
    def from_kernel(cls, L: ArrayLike, size: int, ridges: ArrayLike = (0.0,)) -> "KDpp":
        """Return the k-DPPs of `L + ridge I` for a kernel matrix `L`.

        It takes one eigendecomposition of `L`. The time of a draw is proportional to the rank of `L`.

        Parameters
        ----------
        L : array-like of shape (n, n)
            Symmetric positive semi-definite matrix.
        size : int
            Number of points in a set.
        ridges : array-like of shape (k,), default (0.0,)
            Non-negative numbers, one per component.

        Returns
        -------
        KDpp
            Family with one component per ridge.

        Raises
        ------
        ValueError
            If `L` is not square, symmetric and positive semi-definite, or for the same reasons as `KDpp`.

        Examples
        --------
        >>> family = KDpp.from_kernel([[2.0, 1.0], [1.0, 2.0]], size=1)
        >>> family.inclusion(np.array([0, 1])).round(12).tolist()
        [[0.5], [0.5]]
        """
        family = cls.__new__(cls)
        family._set_up(Spectrum.from_kernel(L), size, ridges)
        return family

    def _set_up(self, spectrum: Spectrum, size: int, ridges: ArrayLike) -> None:
        """Compute all tables from a spectrum."""
        self.space: Subsets = Subsets(spectrum.n, size)
        self.ridges = _as_ridges(ridges, self.space.size, spectrum)
        self.k = len(self.ridges)
        laws = RidgedLaws(spectrum, self.space.size, self.ridges)
        _check_lost(laws.lost, self.ridges, spectrum)
        table = Table(np.square(spectrum.vectors), None)
        count = self.space.log_count * (1.0 + 1e-12) + 1e-9  # rounded up, because lgamma is rounded
        limits = np.clip(laws.bounds, 0.0, min(count, MAX_LOG_RATIO))
        self.c = math.exp(float(limits.max()))
        self._values, self._exponent, self._marks = spectrum.values, spectrum.exponent, compute_marks(spectrum)
        self._draws = table.cumulative, table.guide, spectrum.vectors, laws.ranks, laws.keep
        self._rows = spectrum.vectors, np.sqrt(spectrum.values), np.column_stack([laws.ratios, limits])
        self._base: FloatArray = np.append(laws.base, self.space.size / self.space.n)
        self._slope: FloatArray = np.vstack([laws.slope, np.zeros(spectrum.rank)])
        self._tries = MAX_PROPOSALS_PER_VECTOR

    @property
    def has_uniform(self) -> bool:
        """Whether the last component draws uniform sets."""
        return self.k > len(self.ridges)

    @property
    def knows_inclusion(self) -> bool:
        """True: inclusion probabilities have a closed form."""
        return True

    @property
    def names(self) -> list[str]:
        """Names of the components: their ridges, and 'uniform'."""
        ridges = [f"ridge {ridge:g}" for ridge in self.ridges]
        return [*ridges, "uniform"] if self.has_uniform else ridges

    def with_uniform(self) -> Family:
        """Return this family with uniform sets as one more component, the last. Tables are shared."""
        family = copy(self)
        family.k = len(self.ridges) + 1
        return family

    def draw(self, lanes: IntArray, uniforms: Uniforms) -> tuple[IntArray, FloatArray]:
        """Draw a set from the component of each lane; return sets and ratios."""
        m = len(lanes)
        atoms, rows = np.empty((m, self.space.size), np.int64), np.empty((m, self.k))
        kernels.draw_sets(lanes, uniforms.take(2), *self._draws, self._tries, atoms)
        kernels.set_ratios(atoms, *self._rows, rows)
        return atoms, rows

    def sample(
        self,
        mixture: FloatArray,
        m: int,
        batches: int,
        allocation: Allocation,
        allocation_state: FloatArray,
        uniforms: Uniforms,
    ) -> Sample:
        """Make the draws of a sampler; a stratified batch takes one compiled call."""
        if batches != 1 or not allocation.is_stratified:
            return super().sample(mixture, m, batches, allocation, allocation_state, uniforms)
        atoms, rows = np.empty((m, self.space.size), np.int64), np.empty((m, self.k))
        density, weights = np.empty(m), np.empty(m)
        numbers = uniforms.take(m + 2)
        _, roots, laws = self._rows
        kernels.draw_stratified(mixture, numbers, *self._draws, self._tries, roots, laws, atoms, rows, density, weights)
        return atoms, rows, density, weights, None, allocation_state

    def ratios(self, atoms: IntArray) -> FloatArray:
        """Return the ratios of sets under every component.

        The points of a set may be in any order. Each set needs one Gram matrix for all ridges. Without a ridge, a set
        with linearly dependent features has ratio zero and is never drawn.
        """
        sets = as_subsets(atoms, self.space.n, self.space.size)
        rows = np.empty((len(sets), self.k))
        kernels.set_ratios(sets, *self._rows, rows)
        return rows

    def inclusion(self, points: IntArray) -> FloatArray:
        """Return the probability that a set includes each point, in closed form, for every component.

        Under a mixture w it is `inclusion(points) @ w`.
        """
        points = as_atoms(points, self.space.n)
        rows = np.empty((len(points), self.k))
        kernels.write_inclusion(points, self._rows[0], self._base, self._slope, rows)
        return rows

    def point_density(self, sets: IntArray, w: FloatArray) -> FloatArray:
        """Return n / size times the inclusion probability under a mixture, for the points of drawn sets."""
        density = np.empty(sets.shape)
        kernels.point_density(sets, self._rows[0], self._base, self._slope, w, density)
        return density

    def state_dict(self) -> State:
        """Return the numbers that identify the k-DPPs; drawing does not change them."""
        return super().state_dict() | {
            "ridges": self.ridges.copy(),
            "eigenvalues": self._values.copy(),
            "exponent": self._exponent,
            "marks": self._marks.copy(),
        }

    def load_state_dict(self, state: State) -> None:
        """Check that the state belongs to the same k-DPPs; nothing is changed."""
        require_entries(state, set(self.state_dict()), "KDpp")
        self.check_identity(state)
        if not same(state["ridges"], self.ridges):
            raise CheckpointError(
                f"The saved k-DPPs have other ridges: {make_printable(state['ridges'])}. "
                f"Rebuild KDpp with these ridges."
            )
        shift = 2 * (read_count(state, "exponent", least=-(2**20), most=2**20) - self._exponent)
        # Exponents may differ by one, because rounding may move the largest entry past a power of two.
        if not are_close(state["eigenvalues"], self._values, shift):
            raise CheckpointError("The saved k-DPPs have other eigenvalues: rebuild them from the same features.")
        if not same_marks(state["marks"], self._marks, self._values):
            raise CheckpointError(
                "The saved k-DPPs have the same eigenvalues, but other points: rebuild them from the same features, "
                "with the rows in the same order."
            )

    def __repr__(self) -> str:
        return f"KDpp(n={self.space.n}, size={self.space.size}, k={self.k})"


def _as_ridges(values: ArrayLike, size: int, spectrum: Spectrum) -> FloatArray:
    """Return the ridges as a read-only vector after checking them."""
    ridges = as_vector(values, "ridges").copy()
    if len(ridges) == 0 or ridges.min() < 0.0:
        raise ValueError(
            f"ridges must be one or more non-negative numbers, got {len(ridges)} numbers, the smallest "
            f"{ridges.min(initial=0.0):.6g}."
        )
    if size > spectrum.rank and ridges.min() == 0.0:
        hint = "Scale down the longest rows or columns, u" if spectrum.hides() else "U"
        raise ValueError(
            f"Without a ridge a set cannot be larger than the rank of the kernel, computed up to rounding: "
            f"size = {size}, rank = {spectrum.rank}, and ridges[{find_first(ridges == 0.0)}] is 0. {hint}se a ridge "
            f"above zero, or draw smaller sets."
        )
    ridges.setflags(write=False)
    return ridges


def _check_lost(lost: FloatArray, ridges: FloatArray, spectrum: Spectrum) -> None:
    """Raise ValueError if features lost in rounding would change a law noticeably."""
    if lost.max() > MAX_LOST_PROBABILITY and spectrum.hides():
        j = int(lost.argmax())
        raise ValueError(
            f"Some rows or columns are so much longer than others that the others are lost in rounding, and "
            f"ridges[{j}] = {ridges[j]:.6g} is too small to make up for it: its probabilities would be wrong by up to "
            f"{lost[j]:.2g}. Scale down the longest rows or columns, drop the shortest, or use a larger ridge."
        )
