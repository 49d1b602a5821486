"""Precision: sums of squares overflow, and lose small terms, in half precision."""

import torch


def single(values: torch.Tensor) -> torch.Tensor:
    """Give values without their graph, in single precision unless they are in double.

    Examples
    --------
    >>> single(torch.ones(2, dtype=torch.bfloat16)).dtype, single(torch.ones(2, dtype=torch.float64)).dtype
    (torch.float32, torch.float64)
    """
    return values.detach().to(torch.promote_types(values.dtype, torch.float32))
