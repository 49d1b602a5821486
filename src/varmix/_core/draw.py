"""Draw: the receipt of a draw."""

from collections.abc import Callable
from typing import NoReturn, TypeAlias

from varmix._core.validation import FloatArray
from varmix._core.validation import IntArray

Rows: TypeAlias = Callable[[IntArray], FloatArray]
"""From groups (m,) to their rows of ratios (m, k)."""


class _Fields:
    """The fields of a receipt while it is being written."""

    __slots__ = ("_ratios", "density", "groups", "indices", "sampler_id", "serial", "weights")

    def __init__(
        self,
        indices: IntArray,
        weights: FloatArray,
        ratios: FloatArray | Rows,
        density: FloatArray,
        serial: int,
        sampler_id: str,
        groups: IntArray | None,
    ) -> None:
        self.indices = indices
        self.weights = weights
        self._ratios = ratios
        self.density = density
        self.serial = serial
        self.sampler_id = sampler_id
        self.groups = groups


class Draw(_Fields):
    """What was drawn, and all that feedback needs to know about it later.

    Everything is as it was when drawn.  So feedback may come late, in any order, or never, and a probability is never
    taken for another draw's.  All arrays are read-only: write `scaled = draw.weights * x`, not `draw.weights *= x`, and
    `torch.tensor(draw.weights)`, which copies.

    Attributes
    ----------
    indices
        The atoms: (m,) points, or (m, size) subsets with their points in ascending order.
    weights
        Importance weights (m,): multiply the loss or gradient of slot r by `weights[r]` and take the mean.  With
        Horvitz-Thompson reweighting (m, size), one for every point of every set.
    ratios
        Density ratios q_j(a) = p_j(a) / u(a) of every component, (m, k).  Where the groups say all about them they are
        written when first asked for: of hundreds of groups they are most of the work of a draw.
    groups
        The group that each atom was drawn from, (m,), where components are disjoint groups; else None.
    density
        Density ratio d = w.q of the mixture that drew, (m,).
    serial
        Number of this draw in its sampler.
    sampler_id
        Which sampler drew.
    """

    __slots__ = ()

    def __init__(self, *fields: object) -> None:
        raise TypeError("Receipts are made by samplers: call Sampler.draw.")

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"A receipt cannot be changed: {name} is as it was when drawn.")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"A receipt cannot be changed: {name} is as it was when drawn.")

    @property
    def ratios(self) -> FloatArray:
        """Density ratios of every component, (m, k)."""
        ratios = self._ratios
        if callable(ratios):
            ratios = ratios(self.groups)  # type: ignore[arg-type]
            ratios.setflags(write=False)
            object.__setattr__(self, "_ratios", ratios)
        return ratios

    def part(self, slots: slice) -> "Draw":
        """Give the receipt of some of the slots, for whoever has only these; it has the number of the whole."""
        ratios = self._ratios if callable(self._ratios) else self._ratios[slots].copy()
        groups = None if self.groups is None else self.groups[slots].copy()
        indices, weights, density = self.indices[slots].copy(), self.weights[slots].copy(), self.density[slots].copy()
        return seal(indices, weights, ratios, density, self.serial, self.sampler_id, groups)

    def __len__(self) -> int:
        return len(self.indices)

    def __repr__(self) -> str:
        return f"Draw(serial={self.serial}, m={len(self)}, k={self.ratios.shape[1]})"

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        fields = self.indices, self.weights, self.ratios, self.density, self.serial, self.sampler_id, self.groups
        return seal, fields


def seal(
    indices: IntArray,
    weights: FloatArray,
    ratios: FloatArray | Rows,
    density: FloatArray,
    serial: int,
    sampler_id: str,
    groups: IntArray | None = None,
) -> Draw:
    """Make a receipt; its arrays become read-only.

    With `groups`, ratios may be a function of them.  It must give the same rows at any later time.

    Writing the fields first and closing the object afterwards takes half the time of a frozen dataclass, which
    matters once per draw.
    """
    indices.setflags(write=False)
    weights.setflags(write=False)
    density.setflags(write=False)
    if groups is not None:
        groups.setflags(write=False)
    if not callable(ratios):
        ratios.setflags(write=False)
    fields = _Fields(indices, weights, ratios, density, serial, sampler_id, groups)
    fields.__class__ = Draw
    return fields  # type: ignore[return-value]
