"""TensorDraw: a receipt beside a batch of tensors."""

import torch

from varmix.draw import Draw


class TensorDraw:
    """The receipt of a batch, with what training needs of it as tensors.

    Attributes
    ----------
    indices
        The points of this process's slots, (m,), on the CPU.
    weights
        Their importance weights (m,), on the device of the batch and of the default type: multiply the loss of slot r
        by `weights[r]` and take the mean.
    part
        The receipt of these slots, with the probabilities that they were drawn with.
    receipt
        The receipt of the whole draw: of the slots of all processes, where several share it.
    """

    __slots__ = ("indices", "part", "receipt", "weights")

    def __init__(
        self,
        part: Draw,
        device: torch.device | str = "cpu",
        *,
        receipt: Draw | None = None,
        scale: float = 1.0,
    ) -> None:
        self.part = part
        self.receipt = part if receipt is None else receipt
        self.indices = torch.from_numpy(part.indices.copy())
        weights = part.weights if scale == 1.0 else scale * part.weights
        self.weights = torch.from_numpy(weights).to(device, torch.get_default_dtype())

    @property
    def serial(self) -> int:
        """Number of this draw in its sampler."""
        return self.part.serial

    def to(self, device: torch.device | str) -> "TensorDraw":
        """Move the weights to a device, and give the receipt."""
        self.weights = self.weights.to(device)
        return self

    def __len__(self) -> int:
        return len(self.part)

    def __repr__(self) -> str:
        return f"TensorDraw(serial={self.serial}, m={len(self)})"
