"""PyTorch: loaders whose batches are drawn by a mixture, per-example norms for their feedback, many processes."""

try:
    import torch  # noqa: F401
except ModuleNotFoundError:
    from varmix.commands import install as _install

    raise ModuleNotFoundError(
        f"varmix.torch needs torch, which is missing. Install varmix with its extra torch: {_install('torch')}"
    ) from None

from varmix.torch import norms
from varmix.torch.batches import MixtureBatchSampler
from varmix.torch.interleave import Interleave
from varmix.torch.loader import AdaptiveLoader
from varmix.torch.receipts import TensorDraw

__all__ = ["AdaptiveLoader", "Interleave", "MixtureBatchSampler", "TensorDraw", "norms"]
