"""Draw: the receipt of a draw."""

from typing import NoReturn

from varmix.arrays import FloatArray, IntArray


class _Fields:
    """The fields of a receipt while it is being written."""

    __slots__ = ("density", "indices", "ratios", "sampler_id", "serial", "weights")

    def __init__(
        self,
        indices: IntArray,
        weights: FloatArray,
        ratios: FloatArray,
        density: FloatArray,
        serial: int,
        sampler_id: str,
    ) -> None:
        self.indices = indices
        self.weights = weights
        self.ratios = ratios
        self.density = density
        self.serial = serial
        self.sampler_id = sampler_id


class Draw(_Fields):
    """What was drawn, and all that feedback needs to know about it later.

    Everything is as it was when drawn.  So feedback may come late, in any order, or never, and a probability is never
    taken for another draw's.  All that feedback uses is read-only; the weights are the caller's, to scale in place or
    to share with a tensor.

    Attributes
    ----------
    indices
        The atoms: (m,) points, or (m, size) subsets with their points in ascending order.
    weights
        Importance weights (m,): multiply the loss or gradient of slot r by `weights[r]` and take the mean.  With
        Horvitz-Thompson reweighting (m, size), one for every point of every set.
    ratios
        Density ratios q_j(a) = p_j(a) / u(a) of every component, (m, k).
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

    def __len__(self) -> int:
        return len(self.indices)

    def __repr__(self) -> str:
        return f"Draw(serial={self.serial}, m={len(self)}, k={self.ratios.shape[1]})"

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return seal, (self.indices, self.weights, self.ratios, self.density, self.serial, self.sampler_id)


def seal(
    indices: IntArray,
    weights: FloatArray,
    ratios: FloatArray,
    density: FloatArray,
    serial: int,
    sampler_id: str,
) -> Draw:
    """Make a receipt; the arrays that feedback uses become read-only.

    Writing the fields first and closing the object afterwards takes half the time of a frozen dataclass, which
    matters once per draw.
    """
    indices.setflags(write=False)
    ratios.setflags(write=False)
    density.setflags(write=False)
    fields = _Fields(indices, weights, ratios, density, serial, sampler_id)
    fields.__class__ = Draw
    return fields  # type: ignore[return-value]
