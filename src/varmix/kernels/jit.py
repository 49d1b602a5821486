"""The one way in which varmix compiles."""

from collections.abc import Callable
from typing import TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., object])


def kernel(function: F) -> F:
    """Compile on the first call and keep the machine code on disk, so that later processes only load it.

    Division by zero gives infinity, as in NumPy.  No fast-math: results must not depend on the compiler's mood.
    """
    return cast(F, numba.njit(cache=True, error_model="numpy")(function))
