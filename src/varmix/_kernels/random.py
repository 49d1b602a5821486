"""Random numbers for kernels that do not know in advance how many they need.

The state is an array with one entry, a counter. Every number is the scrambled counter (splitmix64).
"""

import numpy as np

from varmix._core.validation import AnyArray, FloatArray
from varmix._kernels.jit import kernel


@kernel
def mix_bits(x: np.uint64) -> np.uint64:
    """Return 64 scrambled bits (the finaliser of splitmix64)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@kernel
def uniform(state: AnyArray) -> float:
    """Return the next number in [0, 1) and advance the state."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    return float(mix_bits(state[0]) >> np.uint64(11)) * 2.0**-53


@kernel
def seed_state(uniforms: FloatArray) -> AnyArray:
    """Return a state made of 32 bits of each of two uniforms; scrambling separates similar seeds."""
    state = np.empty(1, dtype=np.uint64)
    high = np.uint64(uniforms[0] * 2.0**32)
    low = np.uint64(uniforms[1] * 2.0**32)
    state[0] = mix_bits((high << np.uint64(32)) | low)
    return state
