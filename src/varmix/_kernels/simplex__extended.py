"""Sums in doubled precision, for the few places where a double's digits cancel (Dekker 1971, Knuth)."""

from varmix._core.validation import FloatArray
from varmix._core.validation import IntArray
from varmix._kernels.jit import kernel

SPLITTER = 134217729.0  # 2^27 + 1


@kernel
def two_sum(a: float, b: float) -> tuple[float, float]:
    """Give a + b as a double and the exact rest."""
    total = a + b
    other = total - a
    return total, (a - (total - other)) + (b - other)


@kernel
def two_product(a: float, b: float) -> tuple[float, float]:
    """Give a * b as a double and the exact rest (while neither overflows when split)."""
    product = a * b
    t = SPLITTER * a
    a_high = t - (t - a)
    a_low = a - a_high
    t = SPLITTER * b
    b_high = t - (t - b)
    b_low = b - b_high
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


@kernel
def shifted_gradient(
    w: FloatArray,
    g: FloatArray,
    M: FloatArray,
    x: FloatArray,
    index: IntArray,
    size: int,
    anchor: int,
    out: FloatArray,
) -> None:
    """Write the entries `index` of g + M (x - w), minus its entry `anchor`.

    On the simplex only differences of gradient entries matter.  At a minimum they cancel, so both the entries
    and the differences are summed in doubled precision.
    """
    base, base_rest = _entry(w, g, M, x, anchor)
    for i in range(size):
        high, low = _entry(w, g, M, x, index[i])
        total, rest = two_sum(high, -base)
        out[i] = total + (rest + (low - base_rest))


@kernel
def _entry(w: FloatArray, g: FloatArray, M: FloatArray, x: FloatArray, i: int) -> tuple[float, float]:
    high = g[i]
    low = 0.0
    for j in range(w.shape[0]):
        move, move_rest = two_sum(x[j], -w[j])
        product, rest = two_product(M[i, j], move)
        high, carry = two_sum(high, product)
        low += carry + rest + M[i, j] * move_rest
    return high, low
