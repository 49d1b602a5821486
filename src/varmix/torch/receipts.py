"""TensorDraw: a receipt beside a batch of tensors."""

import numpy as np
import torch

from varmix.draw import Draw
from varmix.torch.tensors import CPU


class TensorDraw:
    """The receipt of a batch, with what training needs of it as tensors.

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

    def __init__(
        self,
        part: Draw,
        device: torch.device | str = CPU,
        *,
        receipt: Draw | None = None,
        scale: float = 1.0,
    ) -> None:
        self.part = part
        self.receipt = part if receipt is None else receipt
        values = part.weights if scale == 1.0 else scale * part.weights
        dtype = torch.get_default_dtype()
        if dtype is torch.float32:  # NumPy takes less time for it
            values = values.astype(np.float32)
        weights = torch.from_numpy(values)
        self.weights = weights if weights.dtype is dtype and device == CPU else weights.to(device, dtype)

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
        """Move the weights to a device, and give the receipt."""
        self.weights = self.weights.to(device)
        return self

    def __len__(self) -> int:
        return len(self.part)

    def __repr__(self) -> str:
        return f"TensorDraw(serial={self.serial}, m={len(self)})"
