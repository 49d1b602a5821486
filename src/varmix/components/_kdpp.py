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
from varmix.components import _kdpp_kernels as determinants
from varmix.components import _kdpp_kernels as kdpp
from varmix.components import _kdpp_kernels as points_of
from varmix.components._base import Family, Sample
from varmix.components._guide_table import Table
from varmix.components._kdpp_laws import RidgedLaws, Spectrum, are_close, compute_marks, same_marks

MAX_LOG_RATIO = (
    690.0  # logarithm of the largest ratio that is told from larger ones: infinity would spoil what it meets
)
MAX_LOST_PROBABILITY = 1e-6  # what a law may lose by eigenvalues that cannot be told from rounding
MAX_PROPOSALS_PER_VECTOR = (
    32  # proposals per chosen eigenvector before the next point is found by a scan: one in 1e14 comes to that
)


@final
class KDpp(Family):
    """Sets of `size` points, one component per ridge: p_j(S) in proportion to det(X_S X_S' + ridge_j I).

    Such sets are diverse: points with similar features seldom come together, points with long ones come often.  A small
    ridge asks for more diversity, a large one is nearly uniform.  Rows of X may be the data or any features of them
    (random Fourier features make the kernel X X' nearly an RBF kernel).  Draws are exact, take as many operations for
    any number of points, and all ridges share their tables: about 18 bytes a point and feature.  The points of a set
    are listed in ascending order.

    `c` is a bound on the largest ratio, which itself cannot be found in reasonable time: the least of those that
    follow from the longest rows (Hadamard), the largest eigenvalues (interlacing) and the number of sets.  Ratios
    beyond 1e299 are not told from one another.

    Ratios have about 16 digits less those of the condition of X (the largest over the least singular value, or over
    the root of the ridge if that is more), and less those by which a row is shorter than the longest.  Features that
    double precision cannot hold beside the longest ones are refused where they would matter.

    Parameters
    ----------
    X
        (n, d) features.
    size
        Number of points in a set.
    ridges
        (k,) one number of at least zero per component.  With a ridge of zero, sets cannot outgrow the rank of X.

    Examples
    --------
    Three points, two of them alike: without a ridge these never come together, with one they come less often.

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
        """Give the k-DPPs of `L + ridge I` for a symmetric positive semi-definite matrix (n, n).

        It takes one eigendecomposition, and a draw takes time in proportion to the rank.

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
        self.space: Subsets = Subsets(spectrum.n, size)
        self.ridges = _as_ridges(ridges, self.space.size, spectrum)
        self.k = len(self.ridges)
        laws = RidgedLaws(spectrum, self.space.size, self.ridges)
        _check_lost(laws.lost, self.ridges, spectrum)
        table = Table(np.square(spectrum.vectors), None)
        count = self.space.log_count * (1.0 + 1e-12) + 1e-9  # upwards, for lgamma is rounded
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
        """Whether the last component is the uniform law of sets."""
        return self.k > len(self.ridges)

    @property
    def knows_inclusion(self) -> bool:
        """True: inclusion probabilities have a closed form."""
        return True

    @property
    def names(self) -> list[str]:
        """The ridge of every component."""
        ridges = [f"ridge {ridge:g}" for ridge in self.ridges]
        return [*ridges, "uniform"] if self.has_uniform else ridges

    def with_uniform(self) -> Family:
        """Give the same family with uniform sets as one more component, the last; the tables are shared."""
        family = copy(self)
        family.k = len(self.ridges) + 1
        return family

    def draw(self, lanes: IntArray, uniforms: Uniforms) -> tuple[IntArray, FloatArray]:
        """Draw a set from the component of each lane, and give its ratios under all of them."""
        m = len(lanes)
        atoms, rows = np.empty((m, self.space.size), np.int64), np.empty((m, self.k))
        kdpp.draw_sets(lanes, uniforms.take(2), *self._draws, self._tries, atoms)
        determinants.set_ratios(atoms, *self._rows, rows)
        return atoms, rows

    def sample(
        self,
        mixture: FloatArray,
        m: int,
        batches: int,
        allocate: Allocation,
        state: FloatArray,
        uniforms: Uniforms,
    ) -> Sample:
        """Make the draws of a sampler; a stratified batch takes one compiled call."""
        if batches != 1 or not allocate.is_stratified:
            return super().sample(mixture, m, batches, allocate, state, uniforms)
        atoms, rows = np.empty((m, self.space.size), np.int64), np.empty((m, self.k))
        density, weights = np.empty(m), np.empty(m)
        numbers = uniforms.take(m + 2)
        _, roots, laws = self._rows
        kdpp.draw_stratified(mixture, numbers, *self._draws, self._tries, roots, laws, atoms, rows, density, weights)
        return atoms, rows, density, weights, None, state

    def ratios(self, atoms: IntArray) -> FloatArray:
        """Give the ratios of sets (m, size), in any order of their points: one Gram matrix a set serves all ridges.

        Sets without volume are never drawn without a ridge, and have ratio zero.
        """
        sets = as_subsets(atoms, self.space.n, self.space.size)
        rows = np.empty((len(sets), self.k))
        determinants.set_ratios(sets, *self._rows, rows)
        return rows

    def inclusion(self, points: IntArray) -> FloatArray:
        """Give the probability that a set holds a point, in closed form, for every component: (m, k).

        Under a mixture w it is `inclusion(points) @ w`.
        """
        points = as_atoms(points, self.space.n)
        rows = np.empty((len(points), self.k))
        points_of.write_inclusion(points, self._rows[0], self._base, self._slope, rows)
        return rows

    def point_density(self, sets: IntArray, w: FloatArray) -> FloatArray:
        """Give n pi / size under the mixture, for the points of sets that were drawn."""
        density = np.empty(sets.shape)
        points_of.point_density(sets, self._rows[0], self._base, self._slope, w, density)
        return density

    def state_dict(self) -> State:
        """Give what the sets are; nothing changes."""
        return super().state_dict() | {
            "ridges": self.ridges.copy(),
            "eigenvalues": self._values.copy(),
            "exponent": self._exponent,
            "marks": self._marks.copy(),
        }

    def load_state_dict(self, state: State) -> None:
        """Check that these are the k-DPPs that were saved."""
        require_entries(state, set(self.state_dict()), "KDpp")
        self.check_shape(state)
        if not same(state["ridges"], self.ridges):
            raise CheckpointError(
                f"The saved k-DPPs have other ridges: {make_printable(state['ridges'])}. Rebuild those that were saved."
            )
        shift = 2 * (read_count(state, "exponent", least=-(2**20), most=2**20) - self._exponent)
        # Not the exponents: rounding may take the largest entry past a power of two.
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
    ridges = as_vector(values, "ridges").copy()
    if len(ridges) == 0 or ridges.min() < 0.0:
        raise ValueError(
            f"ridges must be at least one number, none of them negative; got {len(ridges)} of them, the least "
            f"{ridges.min(initial=0.0):.6g}."
        )
    if size > spectrum.rank and ridges.min() == 0.0:
        hint = "Divide the longest rows or columns, g" if spectrum.hides() else "G"
        raise ValueError(
            f"Without a ridge no set is larger than the rank of the kernel, as far as rounding lets it be told: size = "
            f"{size}, rank = {spectrum.rank}, and ridges[{find_first(ridges == 0.0)}] is 0. {hint}ive a ridge above "
            f"zero, "
            f"or draw smaller sets."
        )
    ridges.setflags(write=False)
    return ridges


def _check_lost(lost: FloatArray, ridges: FloatArray, spectrum: Spectrum) -> None:
    """Refuse features of which a part is lost beside others, where the law would be another with it."""
    if lost.max() > MAX_LOST_PROBABILITY and spectrum.hides():
        j = int(lost.argmax())
        raise ValueError(
            f"Some rows or columns are so much longer than others that these are lost in rounding beside them, and "
            f"ridges[{j}] = {ridges[j]:.6g} is too small to make up for it: up to {lost[j]:.2g} of its law would be "
            f"wrong. Divide the longest rows or columns, leave the shortest out, or give a larger ridge."
        )
