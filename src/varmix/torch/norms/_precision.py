"""The precision that norms are computed in."""

import torch


def as_single_or_double(values: torch.Tensor) -> torch.Tensor:
    """Return values without their graph: doubles stay doubles, other types become single precision.

    Examples
    --------
    >>> as_single_or_double(torch.ones(2, dtype=torch.bfloat16)).dtype
    torch.float32
    >>> as_single_or_double(torch.ones(2, dtype=torch.float64)).dtype
    torch.float64
    """
    return values.detach().to(torch.promote_types(values.dtype, torch.float32))
