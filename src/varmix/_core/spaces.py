"""Spaces: what the atoms are, and the law that estimates must be unbiased for."""

import math
from functools import cached_property
from zlib import crc32

import numpy as np
from numpy.typing import ArrayLike

from varmix._core.validation import FloatArray, IntArray, as_count, as_vector


class Points:
    """`n` data points (or coordinates, or sources), with a target law: uniform, or the one given.

    The target is what importance weights correct to: `weights = target / mixture`.  Give the wanted proportions
    of data sources, or `sample_weight`; they are normalised here.  Atoms of target zero are never drawn.

    Examples
    --------
    >>> Points(4)
    Points(4)
    >>> Points(4, target=[1, 1, 2, 0]).target
    array([0.25, 0.25, 0.5 , 0.  ])
    """

    first = 0

    def __init__(self, n: int, target: ArrayLike | None = None) -> None:
        self.n = as_count(n, "n")
        self.target: FloatArray | None = None
        if target is not None:
            values = as_vector(target, "target", self.n)
            if values.min() < 0 or values.max() <= 0:
                raise ValueError(
                    f"target needs non-negative entries, not all zero; got minimum {values.min():.3g} "
                    f"and maximum {values.max():.3g}."
                )
            values = values / values.max()  # first, so that the sum cannot overflow
            self.target = values / values.sum()
            self.target.setflags(write=False)

    @cached_property
    def checksum(self) -> int:
        """A number that tells targets apart; zero for the uniform law."""
        return 0 if self.target is None else crc32(self.target)  # type: ignore[arg-type]

    @property
    def atoms(self) -> IntArray:
        """All atoms, in order."""
        return np.arange(self.first, self.first + self.n)

    @property
    def log_count(self) -> float:
        """The logarithm of the number of atoms."""
        return math.log(self.n)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Points) or other.n != self.n:
            return False
        if self.target is None or other.target is None:
            return self.target is other.target
        return np.array_equal(self.target, other.target)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Points({self.n}{'' if self.target is None else ', target=...'})"


class Window(Points):
    """The `n` newest of points that are numbered as they come, from `first` on: what a replay buffer holds at present.

    A number is never given twice, so what is said of a point that has left never touches its successor.  The buffer
    may be empty, and grows: only a family that follows it can draw from it.

    Examples
    --------
    >>> Window(3, first=10).atoms
    array([10, 11, 12])
    """

    def __init__(self, n: int, first: int) -> None:
        self.n = as_count(n, "n", least=0)
        self.first = as_count(first, "first", least=0)
        self.target = None

    @property
    def log_count(self) -> float:
        """The logarithm of the number of atoms."""
        return math.log(self.n) if self.n else -math.inf

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Window) and (self.n, self.first) == (other.n, other.first)

    __hash__ = None

    def __repr__(self) -> str:
        return f"Window({self.n}, first={self.first})"


def refuse_window(space: object, owner: str) -> None:
    """Refuse a space that moves, where a family is made for one that stays as it is."""
    if isinstance(space, Window):
        raise TypeError(
            f"{owner} cannot follow a buffer that grows, got {space!r}. varmix.vrm(varmix.Replay(capacity)) has the "
            f"uniform law as its last component; other families cannot be mixed with it."
        )


class Subsets:
    """All subsets of `size` out of `n` points, with the uniform law: minibatches drawn as a whole.

    A subset is listed in ascending order, so that it is one row of numbers and not size! of them.  There are too many
    subsets to list them all, so `draw_all` is refused; ratios never need their number.

    Examples
    --------
    >>> round(Subsets(5, 2).log_count, 4) == round(math.log(10), 4)
    True
    """

    def __init__(self, n: int, size: int) -> None:
        self.n = as_count(n, "n")
        self.size = as_count(size, "size")
        if self.size > self.n:
            raise ValueError(f"A subset cannot be larger than the set: size = {size}, n = {n}.")

    @property
    def log_count(self) -> float:
        """The logarithm of the number of subsets, log C(n, size)."""
        return math.lgamma(self.n + 1) - math.lgamma(self.size + 1) - math.lgamma(self.n - self.size + 1)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Subsets) and (self.n, self.size) == (other.n, other.size)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Subsets({self.n}, {self.size})"


Space = Points | Subsets
