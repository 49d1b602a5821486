"""Labels that are small numbers: which of them occur, and others in their place."""

from varmix.arrays import AnyArray
from varmix.kernels.jit import kernel


@kernel
def mark(values: AnyArray, occurs: AnyArray) -> None:
    """Mark the values that occur."""
    for i in range(values.shape[0]):
        occurs[values[i]] = True


@kernel
def look_up(values: AnyArray, table: AnyArray, out: AnyArray) -> None:
    """Write the entry of a table that every value points to."""
    for i in range(values.shape[0]):
        out[i] = table[values[i]]
