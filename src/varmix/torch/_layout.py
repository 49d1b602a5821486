"""How a batch is spread over processes: one process alone, or many that share a mixture.

`_process_group` and `_feedback` are imported only if there is a process group.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import torch.distributed as dist

from varmix._core.draw import Draw

if TYPE_CHECKING:
    from varmix.torch._process_group import ProcessGroup

LayoutName: TypeAlias = Literal["auto", "alone", "replicated", "sharded"]
LAYOUT_NAMES = ("auto", "alone", "replicated", "sharded")


@dataclass(frozen=True)
class ProcessLayout:
    """The way a batch is spread over processes whose gradients are averaged, as by `DistributedDataParallel`.

    * alone: there is one process, or every process trains for itself.
    * replicated: every process sees all points and makes the same draws of whole batches.  The process of rank r takes
      the slots r, r + world, ... All processes have equally many slots, so the mean of their means is the mean over the
      batch, and the weights stay as they are.
    * sharded: every process has its own points and draws its part of a batch from them.  The objective is the mean
      over the points of all processes: with `n_r` of `N` points here, weights are multiplied by `world * n_r / N`.

    Attributes
    ----------
    name : str
        `"alone"`, `"replicated"` or `"sharded"`.
    points : int
        Number of points of all processes.
    processes : ProcessGroup or None
        The processes; None if alone.
    scales : tuple of float
        Factor of the weights and, in the evidence, of the norms: one number for every process.
    """

    name: Literal["alone", "replicated", "sharded"]
    points: int
    processes: "ProcessGroup | None" = None
    scales: tuple[float, ...] = (1.0,)

    @property
    def world(self) -> int:
        """Number of processes."""
        return 1 if self.processes is None else self.processes.world

    @property
    def scale(self) -> float:
        """Factor of this process's weights."""
        return self.scales[0] if self.processes is None else self.scales[self.processes.rank]

    @property
    def sharing(self) -> int:
        """Number of processes that share the slots of one draw."""
        return 1 if self.name == "sharded" else self.world

    def drawn(self, size: int) -> int:
        """Return how many slots of a batch of this size this process draws."""
        return size // self.world if self.name == "sharded" else size

    def part(self, draw: Draw) -> Draw:
        """Return the receipt of this process's slots."""
        if self.processes is None or self.name == "sharded":
            return draw
        return draw.select(slice(self.processes.rank, None, self.processes.world))


def find_processes(name: LayoutName, group: Any = None) -> "ProcessGroup | None":  # noqa: ANN401
    """Return the processes that share a mixture; None if this process is alone."""
    ready = dist.is_available() and dist.is_initialized()
    if name not in LAYOUT_NAMES:
        with fail_together(_open_group(group) if ready else None):  # tell the other processes
            raise ValueError(f"layout must be one of {', '.join(map(repr, LAYOUT_NAMES))}, got {name!r}.")
    if name == "alone" or (name == "auto" and not ready):
        return None
    if not ready:
        raise RuntimeError(
            f"layout={name!r} needs a process group: start the script with torchrun, and call "
            f"torch.distributed.init_process_group in it first."
        )
    processes = _open_group(group)
    return None if processes.world == 1 else processes


def _open_group(group: Any) -> "ProcessGroup":  # noqa: ANN401
    from varmix.torch._process_group import ProcessGroup

    return ProcessGroup(group)


def make_layout(name: LayoutName, processes: "ProcessGroup | None", n: int) -> ProcessLayout:
    """Return the layout of this process's n points."""
    if processes is None:
        return ProcessLayout("alone", n)
    if name != "sharded":
        return ProcessLayout("replicated", n, processes, (1.0,) * processes.world)
    sizes = processes.gather(np.array([float(n)]))[:, 0]
    scales = tuple((processes.world * sizes / sizes.sum()).tolist())
    return ProcessLayout("sharded", int(sizes.sum()), processes, scales)


@contextmanager
def fail_together(processes: "ProcessGroup | None") -> Iterator[None]:
    """Make all processes raise if one of them raises inside the block.

    Without this, the processes that raise nothing would wait for the failed one at the next collective.  Nothing inside
    the block may wait for other processes.  With `processes=None` it does nothing.
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
