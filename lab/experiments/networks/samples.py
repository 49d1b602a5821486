"""Samples: points with their targets, those to learn from and those held out."""

from typing import NamedTuple

from lab.arrays import AnyArray, FloatArray, IntArray


class Sample(NamedTuple):
    """Points with their targets: classes (whole numbers), or numbers to be predicted.

    Costs are the factors of single points in the loss, one on average; None is one.
    """

    X: AnyArray
    y: AnyArray
    costs: FloatArray | None = None


class Split(NamedTuple):
    """Points to learn from, and held-out ones.

    Groups are what is known beforehand of those to learn from: classes, sources, or how common a word is.
    """

    X: AnyArray
    y: AnyArray
    groups: IntArray
    held: Sample
    costs: FloatArray | None = None

    @property
    def classes(self) -> int:
        """The number of classes; 0 if numbers are to be predicted."""
        return int(self.y.max()) + 1 if self.y.dtype.kind == "i" else 0
