"""Processes: what the members of a process group tell one another, as arrays of doubles."""

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from varmix._core.validation import FloatArray
from varmix._core.rng import as_generator


class Processes:
    """The members of a process group.

    Every method is a collective: all members must call it, in the same order.  If one of them dies, the others get the
    error of the process group's backend.

    Parameters
    ----------
    group
        A process group, or None for all processes.
    """

    def __init__(self, group: Any = None) -> None:  # noqa: ANN401
        self.group = group
        self.rank: int = dist.get_rank(group)
        self.world: int = dist.get_world_size(group)
        # NCCL moves only what is on a GPU; gloo and mixed backends take the memory of the CPU.
        on_gpu = dist.get_backend(group) == "nccl"
        self._device = torch.device("cuda", torch.cuda.current_device()) if on_gpu else torch.device("cpu")

    def add_up(self, values: FloatArray) -> FloatArray:
        """Give the sums over all processes, the same bits on each of them: one all-reduce."""
        tensor = torch.from_numpy(values.copy()).to(self._device)
        dist.all_reduce(tensor, group=self.group)
        return np.asarray(tensor.cpu().numpy())

    def gather(self, values: FloatArray) -> FloatArray:
        """Give the values of all processes by rank, (world, ...): one all-gather."""
        tensor = torch.from_numpy(np.ascontiguousarray(values)).to(self._device)
        parts = [torch.empty_like(tensor) for _ in range(self.world)]
        dist.all_gather(parts, tensor, group=self.group)
        return np.stack([part.cpu().numpy() for part in parts])

    def share(self, number: int) -> int:
        """Return the whole number of the first process, of any size: two all-gathers."""
        own = _words(number)
        count = int(self.gather(np.array([float(len(own))]))[0, 0])
        words = np.zeros(count)
        words[: len(own)] = own[:count]
        return _joined([int(word) for word in self.gather(words)[0]])

    def agree(self, settings: Mapping[str, object]) -> None:
        """Refuse settings that are not the same on all processes."""
        marks = self.gather(np.array([_mark(value) for value in settings.values()]))
        for name, column in zip(settings, marks.T, strict=True):
            others = np.flatnonzero(column != column[0])
            if len(others):
                raise ValueError(
                    f"Processes 0 and {others[0]} were built with different {name}. Every process needs the same one "
                    f"(data of its own for each process is layout='sharded')."
                )


@contextmanager
def together(processes: Processes | None) -> Iterator[None]:
    """Let all processes pass, or none: what one of them raises inside, the others hear of at the end.

    Nothing inside may wait for other processes.  Without it, those that have nothing to refuse would wait in vain for
    one that has, at the next collective.
    """
    try:
        yield
    except Exception:
        if processes is not None:
            processes.gather(np.ones(1))
        raise
    refused = np.empty(0) if processes is None else np.flatnonzero(processes.gather(np.zeros(1)))
    if len(refused):
        raise RuntimeError(
            f"Process {refused[0]} could not build its loader, so no process has one. See the error that it raised."
        )


def seed_of(rng: int | np.random.Generator | None) -> int:
    """Return a seed that gives the numbers which a sampler with this `rng` gets; a generator moves on as it does there.

    Examples
    --------
    >>> seed = seed_of(np.random.default_rng(5))
    >>> as_generator(seed).random() == as_generator(np.random.default_rng(5)).random()
    True
    """
    if rng is None:
        return int(np.random.default_rng().integers(2**63))
    if isinstance(rng, np.random.Generator):
        return _joined([word for number in rng.integers(2**63, size=4).tolist() for word in _words(number)])
    as_generator(rng)  # which checks it
    return int(rng)


def _words(number: int) -> list[int]:
    """Return a whole number in pieces of 32 bits, the lowest first, as NumPy's seeds are read."""
    return [number >> shift & 0xFFFFFFFF for shift in range(0, max(number.bit_length(), 1), 32)]


def _joined(words: list[int]) -> int:
    return sum(word << 32 * place for place, word in enumerate(words))


def _mark(value: object) -> float:
    """Give 53 bits that tell values apart, as a number that a double holds."""
    return float(int.from_bytes(hashlib.sha256(repr(value).encode()).digest()[:8], "little") >> 11)
