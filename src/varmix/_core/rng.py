"""Uniforms: where all randomness of a sampler comes from.

Filling numbers in blocks costs a tenth of asking a `Generator` for a few at a time, and a compiled kernel takes an
array of uniforms in a tenth of a microsecond where it takes a `Generator` in nine.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from varmix._core.state import CheckpointError, describe_value, read_count, require_entries
from varmix._core.validation import FloatArray, State

UNIFORMS_PER_BLOCK = 4096


def as_generator(rng: int | np.random.Generator | None) -> np.random.Generator:
    """Give a generator of our own for `rng`.

    A `Generator` is asked for a seed (which moves it on), so that two samplers built from one are independent and
    none of them moves the caller's afterwards.
    """
    if isinstance(rng, np.random.Generator):
        return np.random.default_rng(rng.integers(2**63, size=4).tolist())
    if rng is None:
        return np.random.default_rng()
    if isinstance(rng, bool) or not isinstance(rng, (int, np.integer)):
        raise TypeError(f"rng must be an int, a numpy.random.Generator or None, got {rng!r}.")
    if rng < 0:
        raise ValueError(f"rng must be a seed of at least 0, got {rng}.")
    return np.random.default_rng(int(rng))


class Uniforms:
    """A stream of numbers in [0, 1) that can be saved and taken up again.

    Examples
    --------
    >>> stream = Uniforms(rng=0)
    >>> saved = stream.state_dict()
    >>> a = stream.take(3)
    >>> stream.load_state_dict(saved)
    >>> bool((stream.take(3) == a).all())
    True
    """

    def __init__(self, rng: int | np.random.Generator | None = None) -> None:
        self._generator = as_generator(rng)
        self._before: dict[str, Any] = dict(self._generator.bit_generator.state)
        self._block: FloatArray = np.empty(0)
        self._position = 0
        self._next: dict[str, Any] | None = None  # the generator before the first block filled since the last mark

    def take(self, count: int) -> FloatArray:
        """Give the next `count` uniforms; what is left of a block that is too short is passed over."""
        start = self._position
        stop = start + count
        if stop > len(self._block):
            self._fill(max(UNIFORMS_PER_BLOCK, count))
            start, stop = 0, count
        self._position = stop
        return self._block[start:stop]

    def mark(self) -> tuple[FloatArray, int, dict[str, Any]]:
        """Give the present place, for `rewind`."""
        self._next = None
        return self._block, self._position, self._before

    def rewind(self, mark: tuple[FloatArray, int, dict[str, Any]]) -> None:
        """Go back to the last mark, so that the same numbers come again."""
        if self._next is not None:
            self._generator.bit_generator.state = self._next
        self._block, self._position, self._before = mark

    def seed(self) -> int:
        """Give 64 random bits, for kernels that keep a random state of their own."""
        high, low = self.take(2)
        return (int(high * 2**32) << 32) | int(low * 2**32)

    def _fill(self, length: int) -> None:
        self._before = dict(self._generator.bit_generator.state)
        if self._next is None:
            self._next = self._before
        self._block = self._generator.random(length)

    def state_dict(self) -> State:
        """Return the generator as it is at the present place, and how many numbers of the block are left."""
        here: Any = np.random.PCG64()
        here.state = self._before
        here.advance(self._position)
        return {"generator": dict(here.state), "left": len(self._block) - self._position}

    def load_state_dict(self, state: State) -> None:
        """Resume where `state` was saved."""
        require_entries(state, {"generator", "left"}, "Uniforms")
        generator = np.random.default_rng(0)
        generator.bit_generator.state = _read_generator(state["generator"])
        left = read_count(
            state, "left", most=UNIFORMS_PER_BLOCK
        )  # a longer block is used up by the draw that asked for it
        self._generator = generator
        self._before = dict(generator.bit_generator.state)
        self._block = generator.random(left)
        self._position = 0


def _read_generator(saved: object) -> dict[str, Any]:
    """Return a saved random state that NumPy's generator can have had: its increment is odd, or numbers repeat soon."""
    require_entries(saved, {"bit_generator", "state", "has_uint32", "uinteger"}, "a random generator")
    assert isinstance(saved, Mapping)
    if saved["bit_generator"] != "PCG64":
        raise CheckpointError(f"The saved random state is of {describe_value(saved['bit_generator'])}, not of PCG64.")
    require_entries(saved["state"], {"state", "inc"}, "a random generator")
    position, increment = (read_count(saved["state"], name, most=2**128 - 1) for name in ("state", "inc"))
    if increment % 2 == 0:
        raise CheckpointError("The saved random state has an even increment: it is damaged.")
    return {
        "bit_generator": "PCG64",
        "state": {"state": position, "inc": increment},
        "has_uint32": read_count(saved, "has_uint32", most=1),
        "uinteger": read_count(saved, "uinteger", most=2**32 - 1),
    }
