"""Processes: what the members of a process group tell one another, as arrays of doubles."""

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from varmix.arrays import FloatArray
from varmix.uniforms import as_generator


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

    def seed(self, rng: int | np.random.Generator | None) -> int:
        """Give a seed that all processes share: the one of the first."""
        own = float(as_generator(rng).integers(2**53))  # a double holds it
        return int(self.gather(np.array([own]))[0, 0])

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


def _mark(value: object) -> float:
    """Give 53 bits that tell values apart, as a number that a double holds."""
    return float(int.from_bytes(hashlib.sha256(repr(value).encode()).digest()[:8], "little") >> 11)
