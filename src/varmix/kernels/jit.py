"""The two ways in which varmix compiles: a kernel, and a part of kernels."""

from collections.abc import Callable
from typing import Literal, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., object])


def kernel(function: F) -> F:
    """Compile on the first call and keep the machine code on disk, so that later processes only load it.

    Division by zero gives infinity, as in NumPy.  No fast-math: results must not depend on the compiler's mood.
    """
    return _compiled(function)


def part(function: F) -> F:
    """Compile into every kernel that calls it: for the small things that are done for each item of a loop.

    A call that is given all arrays of a matrix counts references to them, which for short rows takes longer than the
    row.  Only rows are worth it: draws, sum trees and replay buffers were no faster when compiled like this.
    """
    return _compiled(function, inline="always")


def _compiled(function: F, inline: Literal["never", "always"] = "never") -> F:
    try:
        return cast(F, numba.njit(cache=True, error_model="numpy", inline=inline)(function))
    except RuntimeError:  # no folder can be written to: every process compiles for itself
        return cast(F, numba.njit(error_model="numpy", inline=inline)(function))
