"""MixtureBatchSampler: adaptive batches for a DataLoader of the user's own."""

import sys
from collections.abc import Callable, Iterator
from functools import partial
from types import FrameType
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset
from torch.utils.data import Sampler as TorchSampler

from varmix._core.draw import Draw, Ledger
from varmix._core.state import require_format, wrap_load_errors
from varmix._core.validation import FloatArray, State, as_count
from varmix._sampler import Sampler
from varmix.allocate import Allocation
from varmix.history import History
from varmix.learners import Learner
from varmix.meter import GainMeter, Interval
from varmix.torch._epoch import EpochProgress, OneThreadAtATime, ReceiptReader, number_receipt
from varmix.torch._feedback import FeedbackSync
from varmix.torch._process_group import LayoutName, fail_together, layout_of, processes_of, require_agreement, seed_of
from varmix.torch._settings import FrozenSettings
from varmix.torch._source import Source, check_dataset, sampler_of_points
from varmix.torch._tagging import Collate, Slots, Tagged
from varmix.torch._tensor_draw import TensorDraw
from varmix.torch._tensors import CPU, as_arrays, as_tensors, is_whole, unwrap_state, wrap_state


class MixtureBatchSampler(FrozenSettings, TorchSampler[list[int]]):  # type: ignore[misc]
    """Gives lists of indices drawn by a mixture, keeps their receipts, and takes feedback by their numbers.

    For loaders that somebody else iterates over (Lightning, the Trainer of transformers); in a loop of your own
    `AdaptiveLoader` is simpler.  Wrap the dataset by `tagged`, and the collate function by `collate`: batches then have
    `weight`, one importance weight per example, and `draw_id`, which `update` takes back.

    A pass gives every point once, as plain shuffling does, until a mixture pays, and then once on average; the draws go
    on from pass to pass, so `set_epoch` is not needed for another order.  In several processes see `layout`.

    Parameters
    ----------
    components
        Labels of the points, which means `varmix.Groups(labels, replacement=False)`; or a family; or a sampler.
    batch_size
        Points in a batch, of all processes together.
    learner
        Learner that adapts the mixture.  Default: `varmix.learners.Cautious()` for groups without replacement, which is
        plain shuffling until the mixture pays; otherwise `varmix.learners.BarrierNewton()`, which is on from the first
        batch.
    gamma
        Smallest share of the uniform component: no weight exceeds `1 / gamma` (times the scale of a shard).  Default:
        0.1, or the learner's own.
    allocate
        How the slots of a batch are distributed over components.  Default: `varmix.allocate.stratified`; for groups
        without replacement `Shuffled(n)`, which deals them by chance as shuffling does, or `round_robin` with a learner
        that is not `Cautious`, which gives every batch what is due to it.
    rng
        Seed, generator or None.  Processes that share a mixture all take that of the first, and draw what one process
        draws with it.
    steps
        Batches in a pass, all full.  Default: as many as it takes to draw n points, the last one smaller.
    drop_last
        Leave a last smaller batch out: its points come first in the next pass.
    layout
        "replicated": all processes of the group see all points, and each takes its slots of the same batches;
        "sharded": each has points and components of its own, and the objective is the mean over all of them; "alone":
        other processes do not matter; "auto": replicated where a process group is there.
    group
        The process group, if not all processes.
    sync_every
        Steps between two exchanges of feedback.
    history
        Whether to keep how shares and gain move, for `varmix.plot`.  Default: False.

    Attributes
    ----------
    sampler
        The sampler that draws.

    Examples
    --------
    >>> from torch.utils.data import DataLoader, TensorDataset
    >>> labels = torch.arange(100) % 3
    >>> batches = MixtureBatchSampler(labels, batch_size=10, rng=0)
    >>> dataset = batches.tagged(TensorDataset(torch.randn(100, 2), labels))
    >>> loader = DataLoader(dataset, batch_sampler=batches, collate_fn=batches.collate())
    >>> for x, y, weight, draw_id in loader:
    ...     losses = torch.rand(len(x))
    ...     batches.update(draw_id, losses)
    >>> len(loader), batches.meter.draws
    (10, 100)
    """

    def __init__(
        self,
        components: Source,
        batch_size: int,
        *,
        learner: Learner[Any] | None = None,
        gamma: float | None = None,
        allocate: Allocation | None = None,
        rng: int | np.random.Generator | None = None,
        steps: int | None = None,
        drop_last: bool = False,
        layout: LayoutName = "auto",
        group: Any = None,  # noqa: ANN401
        sync_every: int = 1,
        history: bool = False,
    ) -> None:
        processes = processes_of(layout, group)
        with fail_together(processes):
            self.batch_size, self.drop_last = as_count(batch_size, "batch_size"), bool(drop_last)
            steps = None if steps is None else as_count(steps, "steps")
            if processes is not None and self.batch_size % processes.world:
                raise ValueError(
                    f"batch_size is that of all processes together: {self.batch_size} is no multiple of the "
                    f"{processes.world} processes. Use {-(-self.batch_size // processes.world) * processes.world}."
                )
            seed = 0 if processes is None else seed_of(rng)
        if processes is not None:
            seed = processes.share(seed)  # on all of them, whatever their components
            if not isinstance(components, Sampler):
                rng = np.random.default_rng([seed, processes.rank]) if layout == "sharded" else seed
        with fail_together(processes):
            self.sampler = sampler_of_points(
                components, learner=learner, gamma=gamma, allocate=allocate, rng=rng, history=history
            )
        self.layout = layout_of(layout, processes, self.sampler.components.space.n)
        with fail_together(processes):
            slots = self.batch_size // self.layout.world
            self._feedback = FeedbackSync(self.sampler, self.layout, slots, sync_every, self._settle)
            self._progress = EpochProgress(self.batch_size, *self._plan(steps))
            self.turn = OneThreadAtATime()
        require_agreement(self.sampler, self.layout, batch_size=self.batch_size, steps=len(self), sync_every=sync_every)
        self._settle_down()

    def _plan(self, steps: int | None) -> tuple[int, int]:
        """Give the number of full batches in a pass, and the size of a last one."""
        full, rest = divmod(self.layout.points, self.batch_size)
        if steps is not None:
            return steps, 0
        rest -= rest % self.layout.world
        if self.drop_last or (self.layout.name == "sharded" and full):
            rest = 0
        if not full and not rest:
            raise ValueError(
                f"There are {self.layout.points} points, fewer than one batch of {self.batch_size}. Use smaller "
                f"batches, drop_last=False, or say how many steps a pass has."
            )
        return full, rest

    def __len__(self) -> int:
        return len(self._progress)

    @property
    def epoch(self) -> int:
        """Number of the present pass, or of the next if none has begun."""
        return self._progress.epoch

    def set_epoch(self, epoch: int) -> None:
        """Say which number the next pass has; the order of draws goes on by itself."""
        self._progress.set_epoch(epoch)

    @property
    def meter(self) -> GainMeter:
        """The meter of the sampler: `meter.summary()` for loggers, `meter.verdict()` in words."""
        return self.sampler.meter

    @property
    def gain(self) -> Interval:
        """How many times smaller the second moment was than under uniform sampling, with a 95 % interval."""
        return self.sampler.gain

    @property
    def history(self) -> History | None:
        """How shares and gain moved; None unless it was built with `history=True`."""
        return self.sampler.history

    @property
    def mixture(self) -> FloatArray:
        """The mixture that the next draw is made with."""
        return self.sampler.mixture

    @property
    def learned_mixture(self) -> FloatArray:
        """The mixture that was learned, also while the learner plays plain shuffling."""
        return self.sampler.learned_mixture

    @property
    def exchanged(self) -> str:
        """What processes send each other for a round: nothing, sums or rows."""
        return self._feedback.exchanged

    def __iter__(self) -> Iterator[list[int]]:
        # A generator, which asks for the passes when it is first used: a state may be loaded before that.
        self._check_reader(sys._getframe().f_back)
        run = self._progress.run(self._draw, self.sampler.end_epoch)
        while True:
            with self.turn:
                receipt = next(run, None)
            if receipt is None:
                return
            yield self._slots(receipt)

    def _check_reader(self, frame: FrameType | None) -> None:
        """Refuse to be read by what shares out the batches of one process, as accelerate's `BatchSamplerShard` does.

        It waits for batches that are full on one process, and passes none on.
        """
        reader: Any = None if frame is None else frame.f_locals.get("self")
        if getattr(reader, "batch_sampler", None) is self and getattr(reader, "num_processes", 1) != 1:
            raise RuntimeError(
                f"{type(reader).__name__} would share out batches among {reader.num_processes} processes, and those of "
                f"a MixtureBatchSampler are spread over processes already. Leave its DataLoader out of "
                f"accelerator.prepare, and move batches to accelerator.device yourself."
            )

    def _draw(self, size: int) -> Draw:
        return self.sampler.draw(self.layout.drawn(size))

    def _slots(self, receipt: Draw) -> list[int]:
        part = self.layout.part(receipt)
        indices: list[int] = part.indices.tolist()
        if self._progress.followed:  # receipts are taken in order, so nothing needs to travel with the indices
            return indices
        return Slots(indices, number_receipt(receipt), self.layout.scale * part.weights)

    def tagged(self, dataset: Dataset[Any]) -> Tagged:
        """Wrap a dataset, so that weights and receipts reach the batches."""
        check_dataset(dataset, self.sampler.components.space.n)
        return Tagged(dataset)

    def collate(self, collate_fn: Callable[[list[Any]], Any] | None = None) -> Collate:
        """Wrap a collate function (PyTorch's by default), so that batches get `weight` and `draw_id`."""
        return Collate(collate_fn)

    def follow(self) -> None:
        """Wait for `end` to know that a loop is over: who calls `arrived` for every batch knows it."""
        self._progress.followed = True

    @property
    def live(self) -> int:
        """Number of the loop that receipts are kept for: the one that began last."""
        return self._progress.live

    def check(self, number: int) -> None:
        """Refuse to go on with a loop that is not live any more: its batches would get the receipts of another."""
        self._progress.check(number)

    def end(self) -> None:
        """Say that the loop over the batches is over."""
        self._progress.end()

    @property
    def given(self) -> int:
        """How many batches the present loop was given."""
        return self._progress.given

    def lose(self, count: int) -> None:
        """Say that so many batches of the loop have come or never will: the receipts of the latter are dropped."""
        self._progress.come(count)

    def arrived(self, count: int, device: torch.device | str = CPU) -> TensorDraw:
        """Give the receipt of the batch that has just come out of the loader, as number `count` of the loop."""
        draw = self._progress.come(count)
        if draw is None:
            raise RuntimeError("A batch has come twice, or without a receipt: iterate over the loader itself, once.")
        return TensorDraw(self.layout.part(draw), device, receipt=draw, scale=self.layout.scale)

    def update(
        self,
        draw: TensorDraw | torch.Tensor | int,
        norms: Any,  # noqa: ANN401
        *,
        gradient: Any = None,  # noqa: ANN401
    ) -> None:
        """Learn from the norms of a batch: losses or gradient norms, one per example, never squared.

        Parameters
        ----------
        draw
            The receipt, or the `draw_id` of the batch.
        norms
            (m,), a tensor of any device and type (it is detached) or an array.
        gradient
            The mean gradient of the batch, flat, for the meter's noise check: of two consecutive batches now and then.
        """
        self._feedback.update(partial(self._receipt, draw), norms, gradient)

    def _settle(self, receipt: Draw) -> None:
        self._progress.receipts.discard(receipt)

    def _receipt(self, draw: Any) -> tuple[Draw, Draw]:  # noqa: ANN401
        """Give the receipt of a whole draw, and that of this process's part."""
        if isinstance(draw, TensorDraw):
            return draw.receipt, draw.part
        whole = isinstance(draw, (int, np.integer)) or (isinstance(draw, torch.Tensor) and is_whole(draw))
        if self._progress.followed or not whole:
            raise TypeError(
                f"update takes the draw that came with a batch{'' if self._progress.followed else ', or its draw_id,'} "
                f"and then its norms; got {type(draw).__name__} first."
            )
        receipt = self._progress.receipts.find(int(draw))
        return receipt, self.layout.part(receipt)

    def sync(self) -> None:
        """Exchange the feedback that waits (`sync_every` above one), before a checkpoint, say; on all processes."""
        self._feedback.sync()

    def state_dict(self) -> State:
        """Give all that is needed to go on with the same batches, as tensors and plain values.

        That includes what loaders have asked for ahead.  The state is the same on all processes that share draws, apart
        from their names: one may save it and all load it.
        """
        if self._feedback.waiting:
            raise RuntimeError(
                f"{self._feedback.waiting} rounds of feedback are still to be exchanged: call sync() on all processes "
                f"first."
            )
        state = {
            "sampler": self.sampler.state_dict(),
            "passes": self._progress.state_dict(),
        }
        return wrap_state("loader", as_tensors(state))

    def load_state_dict(self, state_dict: State) -> None:
        """Resume where the state was saved; build it with the same arguments first.

        Raises
        ------
        CheckpointError
            If the state is damaged, of another loader or of another format.  Everything is then as before.
        """
        with wrap_load_errors("a loader"):
            state = as_arrays(unwrap_state("loader", state_dict, "a loader"))
            require_format(state, {"sampler", "passes"}, "a loader")
            reader = ReceiptReader(self.sampler.components, Ledger.loaded(state["sampler"]))
            slots = self.layout.drawn(self.batch_size)
            passes = self._progress.loaded(state["passes"], reader, slots, self.layout.sharing)
            self.sampler.load_state_dict(state["sampler"])  # all or nothing
        self._progress.give_up()
        self._feedback.forget()
        self._progress = passes

    def __repr__(self) -> str:
        return f"MixtureBatchSampler({self.sampler.components!r}, batch_size={self.batch_size}, {self.layout.name})"
