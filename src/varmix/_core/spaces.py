"""Spaces: the atoms that can be drawn, and the target distribution that estimates are unbiased for."""

import math
from functools import cached_property
from zlib import crc32

import numpy as np
from numpy.typing import ArrayLike

from varmix._core.validation import FloatArray, IntArray, as_count, as_vector


class Points:
    """Space of `n` points (or coordinates, or data sources) with a target distribution.

    Estimates are unbiased for the target: importance weights are `target / mixture`. The target is uniform by default.
    Pass sample weights, or the desired proportions of data sources; they are normalised. Points with target zero are
    never drawn.

    Parameters
    ----------
    n : int
        Number of points.
    target : array-like of shape (n,), optional
        Non-negative numbers, not all zero. Default: uniform.

    Attributes
    ----------
    n : int
        Number of points.
    target : array of shape (n,) or None
        Normalised target, read-only. None means uniform.

    Raises
    ------
    ValueError
        If the target has another length, a negative entry, or only zeros.

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
                    f"target needs non-negative entries that are not all zero, got minimum {values.min():.3g} "
                    f"and maximum {values.max():.3g}."
                )
            values = values / values.max()  # so that the sum cannot overflow
            self.target = values / values.sum()
            self.target.setflags(write=False)

    @cached_property
    def checksum(self) -> int:
        """Number that distinguishes targets; 0 for the uniform target."""
        return 0 if self.target is None else crc32(self.target)  # type: ignore[arg-type]

    @property
    def atoms(self) -> IntArray:
        """All points, in ascending order."""
        return np.arange(self.first, self.first + self.n)

    @property
    def log_count(self) -> float:
        """Logarithm of the number of points."""
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
    """Points numbered `first` to `first + n - 1` in insertion order: the content of a replay buffer.

    A number is never reused, so late feedback about an overwritten point cannot reach the point that replaced it. A
    window may be empty, and it moves, so only a family made for it (`Replay`) can draw from it.

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
        """Logarithm of the number of points; minus infinity for an empty window."""
        return math.log(self.n) if self.n else -math.inf

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Window) and (self.n, self.first) == (other.n, other.first)

    __hash__ = None

    def __repr__(self) -> str:
        return f"Window({self.n}, first={self.first})"


def refuse_window(space: object, owner: str) -> None:
    """Raise TypeError if `space` is a `Window`, because `owner` needs a space that does not change."""
    if isinstance(space, Window):
        raise TypeError(
            f"{owner} cannot follow a buffer that grows, got {space!r}. Use varmix.vrm(varmix.Replay(capacity)) alone: "
            f"vrm adds the uniform component, and other families cannot be mixed with a Replay."
        )


class Subsets:
    """Space of all subsets of `size` out of `n` points, with the uniform distribution.

    Use it to draw minibatches as a whole. A subset is a row of `size` distinct points in ascending order. There are too
    many subsets to list them all, so `Sampler.draw_all` raises TypeError over this space.

    Parameters
    ----------
    n : int
        Number of points.
    size : int
        Number of points in a subset, at most `n`.

    Attributes
    ----------
    n : int
        Number of points.
    size : int
        Number of points in a subset.

    Raises
    ------
    ValueError
        If `size` is larger than `n`.

    Examples
    --------
    >>> Subsets(5, size=2)
    Subsets(5, 2)
    >>> round(Subsets(5, size=2).log_count, 4) == round(math.log(10), 4)
    True
    """

    def __init__(self, n: int, size: int) -> None:
        self.n = as_count(n, "n")
        self.size = as_count(size, "size")
        if self.size > self.n:
            raise ValueError(f"A subset cannot be larger than the set: size = {size}, n = {n}.")

    @property
    def log_count(self) -> float:
        """Logarithm of the number of subsets, log C(n, size)."""
        return math.lgamma(self.n + 1) - math.lgamma(self.size + 1) - math.lgamma(self.n - self.size + 1)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Subsets) and (self.n, self.size) == (other.n, other.size)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Subsets({self.n}, {self.size})"


Space = Points | Subsets
