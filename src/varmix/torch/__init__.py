"""PyTorch: loaders whose batches are drawn by a mixture, and per-example norms for their feedback."""

try:
    import torch  # noqa: F401
except ModuleNotFoundError:
    from varmix._core.validation import missing_extra as _missing_extra

    raise _missing_extra("varmix.torch", "PyTorch", "torch") from None

from varmix.torch import norms
from varmix.torch._batch_sampler import MixtureBatchSampler
from varmix.torch._interleave import Interleave
from varmix.torch._loader import AdaptiveLoader
from varmix.torch._tensors import TensorDraw

__all__ = ["AdaptiveLoader", "Interleave", "MixtureBatchSampler", "TensorDraw", "norms"]
