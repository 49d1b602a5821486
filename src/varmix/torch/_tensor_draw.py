"""TensorDraw: a receipt beside a batch of tensors."""

from typing import NoReturn

import torch

from varmix._core.draw import Draw
from varmix.torch._tensors import CPU, as_weights


class TensorDraw:
    """The receipt of a batch, with what training needs of it as tensors; it cannot be changed.

    The tensor of weights is a copy, and yours to work on: feedback takes what was drawn from the receipt.

    Attributes
    ----------
    weights
        Their importance weights (m,), on the device of the batch and of the default type: multiply the loss of slot r
        by `weights[r]` and take the mean.
    part
        The receipt of these slots, with the probabilities that they were drawn with.
    receipt
        The receipt of the whole draw: of the slots of all processes, where several share it.
    """

    __slots__ = ("part", "receipt", "weights")

    part: Draw
    receipt: Draw
    weights: torch.Tensor

    def __init__(
        self,
        part: Draw,
        device: torch.device | str = CPU,
        *,
        receipt: Draw | None = None,
        scale: float = 1.0,
    ) -> None:
        _fill_draw(self, part, part if receipt is None else receipt, as_weights(part.weights, device, scale))

    def __setattr__(self, name: str, value: object) -> None:
        if name == "weights" and value is self.weights:
            return  # what `draw.weights *= 2` ends with, after the tensor has changed
        raise AttributeError(f"A receipt cannot be changed: {name} is as it was when drawn. Keep yours in a variable.")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"A receipt cannot be changed: {name} is as it was when drawn.")

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return _join_draw, (self.part, self.receipt, self.weights)

    @property
    def indices(self) -> torch.Tensor:
        """The points of this process's slots, (m,), on the CPU."""
        return torch.from_numpy(self.part.indices.copy())

    @property
    def serial(self) -> int:
        """Number of this draw in its sampler."""
        return self.part.serial

    def mean(self, losses: torch.Tensor) -> torch.Tensor:
        """Give the weighted mean of the losses of the batch, one per example: `(weights * losses).mean()`.

        It estimates the mean over all points.  Losses of another shape are refused: (m, 1) beside (m,) would become
        (m, m), and its mean would know nothing of the weights.

        Examples
        --------
        >>> import varmix
        >>> draw = TensorDraw(varmix.vrm(varmix.Groups([0, 0, 1]), rng=0).draw(4))
        >>> bool(draw.mean(torch.ones(4)) == draw.weights.mean())
        True
        """
        if losses.shape != self.weights.shape:
            raise ValueError(
                f"losses must be one per example, {tuple(self.weights.shape)}, got {tuple(losses.shape)}. Pass "
                f"reduction='none' to the loss; of (m, 1) take squeeze(1), of several positions their mean."
            )
        return (self.weights * losses).mean()

    def to(self, device: torch.device | str) -> "TensorDraw":
        """Return the receipt with its weights on another device; this one stays as it is."""
        return _join_draw(self.part, self.receipt, self.weights.to(device, copy=True))

    def __len__(self) -> int:
        return len(self.part)

    def __repr__(self) -> str:
        return f"TensorDraw(serial={self.serial}, m={len(self)})"


def _join_draw(part: Draw, receipt: Draw, weights: torch.Tensor) -> TensorDraw:
    draw = TensorDraw.__new__(TensorDraw)
    _fill_draw(draw, part, receipt, weights)
    return draw


def _fill_draw(draw: TensorDraw, part: Draw, receipt: Draw, weights: torch.Tensor) -> None:
    object.__setattr__(draw, "part", part)
    object.__setattr__(draw, "receipt", receipt)
    object.__setattr__(draw, "weights", weights)
