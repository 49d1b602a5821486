"""Process groups: collectives, the seed that processes share, and the settings that they must agree on."""

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from varmix._core.rng import as_generator
from varmix._core.validation import FloatArray
from varmix._sampler import Sampler


class ProcessGroup:
    """The members of a process group.

    Every method is a collective: all members must call it, in the same order.  If a member dies, the backend of the
    process group raises an error in the others.

    Parameters
    ----------
    group : torch.distributed.ProcessGroup, optional
        The group.  Default: all processes.

    Attributes
    ----------
    rank, world : int
        Number of this process, and number of processes.
    """

    def __init__(self, group: Any = None) -> None:  # noqa: ANN401
        self.group = group
        self.rank: int = dist.get_rank(group)
        self.world: int = dist.get_world_size(group)
        # NCCL moves only what is on a GPU; gloo and mixed backends take the memory of the CPU.
        on_gpu = dist.get_backend(group) == "nccl"
        self._device = torch.device("cuda", torch.cuda.current_device()) if on_gpu else torch.device("cpu")

    def add_up(self, values: FloatArray) -> FloatArray:
        """Return the sums over all processes, equal to the bit on each of them: one all-reduce."""
        tensor = torch.from_numpy(values.copy()).to(self._device)
        dist.all_reduce(tensor, group=self.group)
        return np.asarray(tensor.cpu().numpy())

    def gather(self, values: FloatArray) -> FloatArray:
        """Return the values of all processes by rank, (world, ...): one all-gather."""
        tensor = torch.from_numpy(np.ascontiguousarray(values)).to(self._device)
        parts = [torch.empty_like(tensor) for _ in range(self.world)]
        dist.all_gather(parts, tensor, group=self.group)
        return np.stack([part.cpu().numpy() for part in parts])

    def share(self, number: int) -> int:
        """Return the integer of the first process, of any size: two all-gathers."""
        own = _split_words(number)
        count = int(self.gather(np.array([float(len(own))]))[0, 0])
        words = np.zeros(count)
        words[: len(own)] = own[:count]
        return _join_words([int(word) for word in self.gather(words)[0]])

    def agree(self, settings: Mapping[str, object]) -> None:
        """Raise `ValueError` if a setting differs between processes."""
        marks = self.gather(np.array([_hash_value(value) for value in settings.values()]))
        for name, column in zip(settings, marks.T, strict=True):
            others = np.flatnonzero(column != column[0])
            if len(others):
                raise ValueError(
                    f"Processes 0 and {others[0]} were built with different {name}. Pass the same on every process. "
                    f"If every process has its own data, use layout='sharded'."
                )


def seed_of(rng: int | np.random.Generator | None) -> int:
    """Return a seed with which a sampler draws as it does with this `rng`; a generator advances as it does there.

    Examples
    --------
    >>> seed = seed_of(np.random.default_rng(5))
    >>> as_generator(seed).random() == as_generator(np.random.default_rng(5)).random()
    True
    """
    if rng is None:
        return int(np.random.default_rng().integers(2**63))
    if isinstance(rng, np.random.Generator):
        return _join_words([word for number in rng.integers(2**63, size=4).tolist() for word in _split_words(number)])
    as_generator(rng)  # raises if rng is none of these
    return int(rng)


def _split_words(number: int) -> list[int]:
    """Return an integer in words of 32 bits, the lowest first, as NumPy reads seeds."""
    return [number >> shift & 0xFFFFFFFF for shift in range(0, max(number.bit_length(), 1), 32)]


def _join_words(words: list[int]) -> int:
    return sum(word << 32 * place for place, word in enumerate(words))


def _hash_value(value: object) -> float:
    """Return a hash of 53 bits, which a double holds exactly."""
    return float(int.from_bytes(hashlib.sha256(repr(value).encode()).digest()[:8], "little") >> 11)


def require_agreement(processes: ProcessGroup, sampler: Sampler, *, same_draws: bool, **settings: object) -> None:
    """Raise `ValueError` on all processes if their samplers or settings differ.

    Components must have the same names everywhere, so that a component means the same on all processes.  With
    `same_draws`, families and random numbers must be equal too.
    """
    state, family = sampler.state_dict(), sampler.components
    settings |= {"learner": _print_state(state["settings"]["learner"]), "components": (family.k, list(family.names))}
    if same_draws:
        settings |= {"components": _print_state(state["components"]), "rng": repr(state["uniforms"])}
        settings |= {"allocate": _print_state(state["settings"]["allocate"])}
    processes.agree(settings)


def _print_state(state: object) -> str:
    """Return a state as text that differs for different states: arrays are printed in full."""
    if isinstance(state, dict):
        return repr({key: _print_state(value) for key, value in state.items()})
    return repr(state.tobytes() if isinstance(state, np.ndarray) else state)
