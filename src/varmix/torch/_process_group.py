"""Many processes: who shares batches with whom, collectives, and what all of them must agree on."""

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
import torch.distributed as dist

from varmix._core.draw import Draw
from varmix._core.rng import as_generator
from varmix._core.validation import FloatArray
from varmix._sampler import Sampler
from varmix.components import Groups


class ProcessGroup:
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
        own = _split_words(number)
        count = int(self.gather(np.array([float(len(own))]))[0, 0])
        words = np.zeros(count)
        words[: len(own)] = own[:count]
        return _join_words([int(word) for word in self.gather(words)[0]])

    def agree(self, settings: Mapping[str, object]) -> None:
        """Refuse settings that are not the same on all processes."""
        marks = self.gather(np.array([_hash_value(value) for value in settings.values()]))
        for name, column in zip(settings, marks.T, strict=True):
            others = np.flatnonzero(column != column[0])
            if len(others):
                raise ValueError(
                    f"Processes 0 and {others[0]} were built with different {name}. Every process needs the same one "
                    f"(data of its own for each process is layout='sharded')."
                )


@contextmanager
def fail_together(processes: ProcessGroup | None) -> Iterator[None]:
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
        return _join_words([word for number in rng.integers(2**63, size=4).tolist() for word in _split_words(number)])
    as_generator(rng)  # which checks it
    return int(rng)


def _split_words(number: int) -> list[int]:
    """Return a whole number in pieces of 32 bits, the lowest first, as NumPy's seeds are read."""
    return [number >> shift & 0xFFFFFFFF for shift in range(0, max(number.bit_length(), 1), 32)]


def _join_words(words: list[int]) -> int:
    return sum(word << 32 * place for place, word in enumerate(words))


def _hash_value(value: object) -> float:
    """Give 53 bits that tell values apart, as a number that a double holds."""
    return float(int.from_bytes(hashlib.sha256(repr(value).encode()).digest()[:8], "little") >> 11)


LayoutName: TypeAlias = Literal["auto", "alone", "replicated", "sharded"]
LAYOUT_NAMES = ("auto", "alone", "replicated", "sharded")


@dataclass(frozen=True)
class ProcessLayout:
    """How a batch is spread over processes, whose gradients are averaged (as DistributedDataParallel does it).

    * alone: there is one process, or each is for itself;
    * replicated: every process sees all points and makes the same draws of whole batches.  The one of rank r takes
      the slots r, r + world, ...: the average over processes of means over their slots is the mean over the batch, so
      the weights are right as they are;
    * sharded: every process has points of its own, and draws its part of a batch from them.  The objective is the mean
      over the points of all: of `n_r` out of `N` points, weights are multiplied by `world * n_r / N`.

    Attributes
    ----------
    name
        Which of the three.
    points
        Number of points of all processes.
    processes
        The processes, unless alone.
    scales
        What weights, and so norms, are multiplied by in every process.
    """

    name: Literal["alone", "replicated", "sharded"]
    points: int
    processes: ProcessGroup | None = None
    scales: tuple[float, ...] = (1.0,)

    @property
    def world(self) -> int:
        """Number of processes."""
        return 1 if self.processes is None else self.processes.world

    @property
    def scale(self) -> float:
        """What this process's weights are multiplied by."""
        return self.scales[0] if self.processes is None else self.scales[self.processes.rank]

    @property
    def sharing(self) -> int:
        """Number of processes that share out the slots of one draw."""
        return 1 if self.name == "sharded" else self.world

    def drawn(self, size: int) -> int:
        """Give how many slots of a batch of this size are drawn in this process."""
        return size // self.world if self.name == "sharded" else size

    def part(self, draw: Draw) -> Draw:
        """Give the receipt of the slots that are this process's."""
        if self.processes is None or self.name == "sharded":
            return draw
        return draw.select(slice(self.processes.rank, None, self.processes.world))


def processes_of(name: LayoutName, group: Any = None) -> ProcessGroup | None:  # noqa: ANN401
    """Give the processes that share a mixture; None if this one is alone."""
    ready = dist.is_available() and dist.is_initialized()
    if name not in LAYOUT_NAMES:
        with fail_together(ProcessGroup(group) if ready else None):
            raise ValueError(f"layout must be one of {', '.join(map(repr, LAYOUT_NAMES))}, got {name!r}.")
    if name == "alone" or (name == "auto" and not ready):
        return None
    if not ready:
        raise RuntimeError(
            f"layout={name!r} needs a process group. Call torch.distributed.init_process_group first, or start the "
            f"script by torchrun and call it there."
        )
    processes = ProcessGroup(group)
    return None if processes.world == 1 else processes


def layout_of(name: LayoutName, processes: ProcessGroup | None, n: int) -> ProcessLayout:
    """Give the layout of this process's n points."""
    if processes is None:
        return ProcessLayout("alone", n)
    if name != "sharded":
        return ProcessLayout("replicated", n, processes, (1.0,) * processes.world)
    sizes = processes.gather(np.array([float(n)]))[:, 0]
    scales = tuple((processes.world * sizes / sizes.sum()).tolist())
    return ProcessLayout("sharded", int(sizes.sum()), processes, scales)


def require_agreement(sampler: Sampler, layout: ProcessLayout, **settings: object) -> None:
    """Refuse, on all processes, samplers or settings that differ between them."""
    if layout.processes is None:
        return
    state, family = sampler.state_dict(), sampler.components
    labels = family.labels.tolist() if isinstance(family, Groups) else None  # components must mean the same
    settings |= {"learner": _print_state(state["settings"]["learner"]), "components": (family.k, labels)}
    if layout.name == "replicated":
        settings |= {"components": _print_state(state["components"]), "rng": repr(state["uniforms"])}
        settings |= {"allocate": _print_state(state["settings"]["allocate"])}
    layout.processes.agree(settings)


def _print_state(state: object) -> str:
    """Give all of a state, long arrays included, as text that tells states apart."""
    if isinstance(state, dict):
        return repr({key: _print_state(value) for key, value in state.items()})
    return repr(state.tobytes() if isinstance(state, np.ndarray) else state)
