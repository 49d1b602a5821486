"""The private parts of PyTorch that varmix reads, all in this module.

Each function reads one private attribute, and its docstring says why no public one will do.  If a version of PyTorch
has no such attribute, the function raises `RuntimeError` and says so.  `tests/pytorch/test_torch_internals.py` runs on
every supported version, and checks that no other module of `varmix.torch` and `varmix.rl` reads private attributes.
"""

from collections.abc import Iterator
from typing import Any

import torch


def count_batches_taken(iterator: Iterator[Any]) -> int:
    """Return how many batches an iterator of a `DataLoader` with workers has taken out of its queue.

    Such a batch was returned, or was lost because the dataset raised an error.  A batch that did not come in time
    (`timeout`) stays in the queue.  From outside both are an exception, and only this count distinguishes them.
    """
    return int(_read_private(iterator, "_rcvd_idx"))


def identify_backward() -> int:
    """Return a number that all hooks of one backward pass share, and no hook of another.

    There is no public way to learn whether two gradients belong to the same call of `backward`.
    """
    return int(_read_private(torch._C, "_current_graph_task_id")())


def find_base(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return the tensor that `tensor` is a view of, or None.

    The gradient of a view that changes in place flows through its base. No public attribute or function of PyTorch
    returns the base of a view.
    """
    base: torch.Tensor | None = _read_private(tensor, "_base")
    return base


def count_changes(tensor: torch.Tensor) -> int:
    """Return how often a tensor was changed in place: PyTorch counts this, and has no public way to read it.

    Tensors of inference mode have no such count, and give 0.
    """
    return 0 if tensor.is_inference() else int(_read_private(tensor, "_version"))


def is_batch_norm(module: torch.nn.Module) -> bool:
    """Return whether a module is a batch normalisation of any dimension: their common base class is private."""
    return isinstance(module, _read_private(torch.nn.modules.batchnorm, "_BatchNorm"))


def is_instance_norm(module: torch.nn.Module) -> bool:
    """Return whether a module is an instance normalisation of any dimension: their common base class is private."""
    return isinstance(module, _read_private(torch.nn.modules.instancenorm, "_InstanceNorm"))


def _read_private(owner: object, name: str) -> Any:  # noqa: ANN401
    try:
        return getattr(owner, name)
    except AttributeError as error:
        where = getattr(owner, "__name__", type(owner).__name__)
        raise RuntimeError(
            f"{where} of PyTorch {torch.__version__} has no attribute {name}, which varmix reads. Install a version of "
            f"PyTorch that varmix was tested with (docs/torch.md lists them), or a newer varmix."
        ) from error
