"""PyTorch: loaders whose batches are drawn by a mixture, per-example norms for their feedback, many processes."""

try:
    import torch  # noqa: F401
except ModuleNotFoundError:
    from lab.commands import install as _install

    raise ModuleNotFoundError(
        f"varmix.torch needs torch, which is missing. Install varmix with its extra torch: {_install('torch')}"
    ) from None

from varmix.torch import norms
from varmix.torch._batch_sampler import MixtureBatchSampler
from varmix.torch._interleave import Interleave
from varmix.torch._loader import AdaptiveLoader
from varmix.torch._tensor_draw import TensorDraw

__all__ = ["AdaptiveLoader", "Interleave", "MixtureBatchSampler", "TensorDraw", "norms"]
