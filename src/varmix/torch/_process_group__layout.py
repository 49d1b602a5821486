"""Layout: which slots of a batch are drawn and trained on by which process, and by which weights."""

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import torch.distributed as dist

from varmix._core.draw import Draw
from varmix.torch._process_group import Processes
from varmix.torch._process_group import together

LayoutName: TypeAlias = Literal["auto", "alone", "replicated", "sharded"]
NAMES = ("auto", "alone", "replicated", "sharded")


@dataclass(frozen=True)
class Layout:
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
    processes: Processes | None = None
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
        return draw.part(slice(self.processes.rank, None, self.processes.world))


def processes_of(name: LayoutName, group: Any = None) -> Processes | None:  # noqa: ANN401
    """Give the processes that share a mixture; None if this one is alone."""
    ready = dist.is_available() and dist.is_initialized()
    if name not in NAMES:
        with together(Processes(group) if ready else None):
            raise ValueError(f"layout must be one of {', '.join(map(repr, NAMES))}, got {name!r}.")
    if name == "alone" or (name == "auto" and not ready):
        return None
    if not ready:
        raise RuntimeError(
            f"layout={name!r} needs a process group. Call torch.distributed.init_process_group first, or start the "
            f"script by torchrun and call it there."
        )
    processes = Processes(group)
    return None if processes.world == 1 else processes


def layout_of(name: LayoutName, processes: Processes | None, n: int) -> Layout:
    """Give the layout of this process's n points."""
    if processes is None:
        return Layout("alone", n)
    if name != "sharded":
        return Layout("replicated", n, processes, (1.0,) * processes.world)
    sizes = processes.gather(np.array([float(n)]))[:, 0]
    scales = tuple((processes.world * sizes / sizes.sum()).tolist())
    return Layout("sharded", int(sizes.sum()), processes, scales)
