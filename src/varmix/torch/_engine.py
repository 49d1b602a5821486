"""The engine of `AdaptiveLoader` and `MixtureBatchSampler`: it draws batches and keeps their receipts.

`EpochProgress` tracks how far the present epoch has come. It has a `ReceiptQueue` for the receipts of batches that were
drawn but have not reached the user yet. `BatchEngine` joins an `EpochProgress` and a sampler.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from functools import partial
from threading import RLock
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from zlib import crc32

import numpy as np
import torch
from numpy.typing import ArrayLike

from varmix._core.draw import Draw, Ledger
from varmix._core.spaces import Points, Window
from varmix._core.state import (
    CheckpointError,
    describe_value,
    read_count,
    read_text,
    require_entries,
    require_format,
    wrap_load_errors,
)
from varmix._core.validation import State, as_count
from varmix._sampler import Sampler, as_sampler
from varmix.components import Family
from varmix.components._receipts import ReceiptReader, save_receipt
from varmix.torch._layout import LayoutName, ProcessLayout, fail_together, make_layout
from varmix.torch._tagging import Slots
from varmix.torch._tensors import (
    TensorDraw,
    as_arrays,
    as_doubles,
    as_tensors,
    is_single_integer,
    unwrap_state,
    wrap_state,
)

if TYPE_CHECKING:
    from varmix.torch._feedback import FeedbackSync
    from varmix.torch._process_group import ProcessGroup

LoaderSource: TypeAlias = Family | Sampler | ArrayLike | torch.Tensor
"""Labels of the points, a family, or a sampler."""

MAX_WAITING_RECEIPTS = 4096  # limit of receipts in flight, and of receipts that wait for feedback by number
SERIAL_BITS = 31  # low bits of a draw_id that hold the serial; the high bits identify the sampler
MAX_SERIAL = (1 << SERIAL_BITS) - 1


class EpochPlan(NamedTuple):
    """The batches of an epoch: `full` batches of `size` slots, and one of `last` slots unless that is 0."""

    size: int
    full: int
    last: int

    @property
    def batches(self) -> int:
        """Number of batches in an epoch."""
        return self.full + bool(self.last)


def plan_epoch(layout: ProcessLayout, batch_size: int, steps: int | None, *, drop_last: bool) -> EpochPlan:
    """Return the plan of an epoch: `steps` full batches, or enough batches for all points.

    Examples
    --------
    >>> plan_epoch(ProcessLayout("alone", points=100), 8, None, drop_last=False)
    EpochPlan(size=8, full=12, last=4)
    """
    if steps is not None:
        return EpochPlan(batch_size, steps, 0)
    full, rest = divmod(layout.points, batch_size)
    # All processes need equally many slots: only then is the mean of their means the mean over the batch.
    rest -= rest % layout.world
    # Shards may have different sizes, so their points do not end together, and a smaller last batch would complete
    # nothing. It is only made if there is no other batch.
    last = 0 if drop_last or (layout.name == "sharded" and full) else rest
    if not full and not last:
        advice = "a smaller batch_size or drop_last=False" if rest else "fewer processes"
        raise ValueError(
            f"There are {layout.points} points, fewer than one batch of {batch_size}"
            f"{'' if rest else f' and fewer than the {layout.world} processes'}. Use {advice}, or pass steps, the "
            f"number of batches in an epoch."
        )
    return EpochPlan(batch_size, full, last)


class EpochState(Enum):
    """The states of an epoch: see `EpochProgress`."""

    IDLE = "idle"
    RUNNING = "running"
    INTERRUPTED = "interrupted"
    FINISHED = "finished"


class EpochProgress:
    """The state of the present epoch, its number, and the receipts of its batches.

        IDLE         -- begin: the first epoch --> RUNNING
        INTERRUPTED  -- begin: the same epoch ---> RUNNING
        FINISHED     -- begin: a new epoch ------> RUNNING
        RUNNING      -- begin: a new epoch ------> RUNNING
        RUNNING      -- finish ------------------> FINISHED
        any          -- restore -----------------> IDLE, INTERRUPTED or FINISHED, as saved

    * IDLE: no epoch has begun.
    * RUNNING: a loop takes the batches of the epoch. If the loop is left by `break`, the epoch stays here until the
      next loop begins a new one. A RUNNING epoch is saved as INTERRUPTED.
    * INTERRUPTED: a state was loaded that was saved in the middle of an epoch. The next loop finishes it: first with
      the batches that were in flight, then with new draws. With `tracks_arrival` there may be no batches left, if the
      state was saved inside the loop at the last batch. Then the next loop returns no batch and finishes the epoch.
    * FINISHED: with `tracks_arrival` the loop over the epoch is over. Otherwise the last batch is issued; batches may
      still be in flight, and as long as they are, the epoch is saved as INTERRUPTED.

    Parameters
    ----------
    plan : EpochPlan
        Sizes and number of the batches.
    tracks_arrival : bool
        Whether the owner takes the receipt of every batch that has come to the user, and calls `finish` at the end of
        the loop. Otherwise `issue` finishes the epoch with its last batch, and only feedback shows what has come.
    """

    def __init__(self, plan: EpochPlan, *, tracks_arrival: bool) -> None:
        self.plan, self.tracks_arrival = plan, tracks_arrival
        self.state = EpochState.IDLE
        self.receipts = ReceiptQueue()
        #: Number of the present epoch, or of the first if none has begun.
        self.epoch = 0
        #: Number of the loop that began last.  Only this loop may take batches.
        self.loop = 0
        self._next_epoch = 0
        self._drawn = 0  # batches of the epoch that were drawn

    @property
    def position(self) -> int:
        """Batches of the present epoch that have come to the user."""
        return self._drawn - len(self.receipts)

    @property
    def batches_left(self) -> int:
        """Batches that the next loop returns if the state is saved now and loaded."""
        return len(self.receipts) + self._undrawn if self._is_unfinished else self.plan.batches

    @property
    def _undrawn(self) -> int:
        # Not negative: a state saved on fewer processes may have drawn a last batch that is too small to be divided
        # among the processes here, so this plan has one batch less.
        return max(self.plan.batches - self._drawn, 0)

    @property
    def _is_all_issued(self) -> bool:
        return not self.receipts.to_reissue and not self._undrawn

    @property
    def _is_unfinished(self) -> bool:
        """Whether the next loop continues this epoch if the state is saved now and loaded."""
        return self.state in (EpochState.RUNNING, EpochState.INTERRUPTED) or len(self.receipts) > 0

    def set_epoch(self, epoch: int) -> None:
        """Set the number of the next epoch; if the present one is IDLE or INTERRUPTED, it gets this number."""
        self._next_epoch = as_count(epoch, "epoch", least=0)
        if self.state in (EpochState.IDLE, EpochState.INTERRUPTED):
            self.epoch = self._next_epoch

    def begin(self, end_epoch: Callable[[], None]) -> int:
        """Begin a loop and return its number. The loop continues an interrupted epoch, or else begins a new one.

        `end_epoch` tells the components that the epoch before is over. It is called only now, because feedback for that
        epoch may have come until now.
        """
        if self.state is not EpochState.INTERRUPTED:
            if self.state is not EpochState.IDLE:
                end_epoch()
            self.receipts.abandon(keep=not self.tracks_arrival)
            self._drawn, self.epoch = 0, self._next_epoch
        self.state = EpochState.RUNNING
        self._next_epoch = self.epoch + 1
        self.loop += 1
        return self.loop

    def issue(self, loop: int, draw: Callable[[int], Draw]) -> Draw | None:
        """Return the receipt of the next batch of a loop, or None at the end of the epoch.

        Batches that were in flight when the state was saved come first. `draw` makes the receipt of a new batch from
        its number of slots. Without `tracks_arrival` the last batch finishes the epoch, because a framework may stop
        after it and never ask for another.
        """
        receipt = None
        if not self._is_all_issued:  # otherwise no batch is left, and even an older loop may end
            self.check_loop(loop)
            receipt = self._issue_next(draw)
        if self._is_all_issued and not self.tracks_arrival and loop == self.loop:
            self.finish()
        return receipt

    def _issue_next(self, draw: Callable[[int], Draw]) -> Draw:
        receipt = self.receipts.reissue()
        if receipt is None:
            receipt = draw(self.plan.size if self._drawn < self.plan.full else self.plan.last)
            self._drawn += 1
            self.receipts.push(receipt)
        return receipt

    def check_loop(self, loop: int) -> None:
        """Raise `RuntimeError` if another loop has begun since, or a state was loaded."""
        if loop != self.loop:
            raise RuntimeError(
                "A newer loop over this loader has begun, or a state was loaded, so this loop cannot continue: only "
                "one loop at a time can match batches with receipts. Build one loader for each loop that runs at the "
                "same time."
            )

    def finish(self) -> None:
        """End the epoch."""
        self.state = EpochState.FINISHED

    def state_dict(self) -> State:
        """Return the state and the receipts in flight; a RUNNING epoch, or one with receipts, becomes INTERRUPTED."""
        state = EpochState.INTERRUPTED if self._is_unfinished else self.state
        numbers = {"epoch": self.epoch, "next": self._next_epoch, "drawn": self._drawn}
        plan = {"size": self.plan.size, "full": self.plan.full}
        return {"state": state.value, **numbers, **plan, "in_flight": self.receipts.state_dict()}

    def restore(self, state: object, reader: ReceiptReader, slots: int, sharing: int = 1) -> "EpochProgress":
        """Return the progress that was saved. Its loop number is new, so that older loops cannot take its batches.

        Parameters
        ----------
        state : object
            What `state_dict` returned.
        reader : ReceiptReader
            Reads the receipts in flight.
        slots : int
            Slots of a full batch that this process draws.
        sharing : int, default 1
            Number of processes that share the slots of a draw.

        Raises
        ------
        CheckpointError
            If the state is damaged, or belongs to a loader with other batches.
        """
        require_entries(state, set(self.state_dict()), "the epoch of a loader")
        assert isinstance(state, Mapping)
        self._check_plan(state)
        other = EpochProgress(self.plan, tracks_arrival=self.tracks_arrival)
        other.state = _read_epoch_state(state)
        other.epoch, other._next_epoch = read_count(state, "epoch"), read_count(state, "next")
        other._drawn = read_count(state, "drawn", most=self.plan.full + 1)
        if other.state is EpochState.IDLE and other._drawn:
            raise CheckpointError("The saved state is damaged: it has drawn batches of an epoch that has not begun.")
        count = _count_receipts(state["in_flight"], other._drawn if other.state is EpochState.INTERRUPTED else 0)
        places = range(other._drawn - count, other._drawn)
        sizes = [(slots if place < self.plan.full else 1, slots) for place in places]
        other.receipts = ReceiptQueue.restore(state["in_flight"], reader, sizes, sharing)
        other.loop = self.loop + 1
        return other

    def _check_plan(self, state: Mapping[str, Any]) -> None:
        # Not the last batch: it depends on the number of processes, which may have changed.
        for name, words, value in (
            ("size", "batch_size", self.plan.size),
            ("full", "full batches in an epoch:", self.plan.full),
        ):
            if read_count(state, name) != value:
                raise CheckpointError(
                    f"The saved loader had {words} {state[name]}, this one has {value}. Build it with the arguments "
                    f"that it had when it was saved."
                )


def _read_epoch_state(state: Mapping[str, Any]) -> EpochState:
    saved = read_text(state, "state", longest=16)
    allowed = {each.value: each for each in EpochState if each is not EpochState.RUNNING}
    if saved not in allowed:
        raise CheckpointError(f"Saved state must be one of {sorted(allowed)}, got {describe_value(saved)}.")
    return allowed[saved]


def _count_receipts(state: object, drawn: int) -> int:
    """Return the number of saved receipts; raise for more than were drawn, or more than are ever kept."""
    most = min(drawn, MAX_WAITING_RECEIPTS)
    if not isinstance(state, Mapping) or len(state) > most:
        found = len(state) if isinstance(state, Mapping) else describe_value(state)
        raise CheckpointError(
            f"Saved in_flight must be a dictionary of at most {most} receipts, the most that this epoch can have in "
            f"flight; got {found}."
        )
    return len(state)


class ReceiptQueue:
    """The receipts of batches in flight: drawn, but not with the user yet. Their number is the length of the queue.

    Workers fetch batches before the user asks for them, and return them in the order of the draws. The class holds
    three sets of receipts:

    * issued: a loop has issued these batches, and they have not reached the user yet.
    * to reissue: these batches were in flight when the loaded state was saved. A loop issues them again.
    * waiting: these batches have reached the user and have no feedback yet. They are not in flight. This set is used
      only where feedback finds receipts by number.
    """

    def __init__(self) -> None:
        self._issued: deque[Draw] = deque()
        #: Receipts from a loaded state whose batches are still to be issued again.
        self.to_reissue: deque[Draw] = deque()
        self._waiting: dict[int, Draw] = {}  # by draw_id, the oldest first

    def __len__(self) -> int:
        return len(self._issued) + len(self.to_reissue)

    @property
    def issued(self) -> int:
        """Number of batches in flight that the present loop has issued."""
        return len(self._issued)

    def push(self, draw: Draw) -> None:
        """Add the receipt of a new batch; beyond `MAX_WAITING_RECEIPTS` the oldest batch is taken as delivered."""
        self._issued.append(draw)
        if len(self._issued) > MAX_WAITING_RECEIPTS:
            self._keep_for_feedback(self._issued.popleft())

    def reissue(self) -> Draw | None:
        """Return the next receipt of the loaded state and mark it as issued; None if there is none."""
        if not self.to_reissue:
            return None
        receipt = self.to_reissue.popleft()
        self._issued.append(receipt)
        return receipt

    def pop(self) -> Draw:
        """Return the receipt of the next batch that comes to the user."""
        return self._issued.popleft()

    def find(self, draw_id: int) -> Draw:
        """Return the receipt with this number; the queue stays as it is."""
        found = self._waiting.get(draw_id)
        if found is None:
            # Serials first: hashing the id of the sampler for every receipt in flight would be slow.
            near = (draw for draw in self._in_flight() if not (draw.serial ^ draw_id) & MAX_SERIAL)
            found = next((draw for draw in near if make_draw_id(draw) == draw_id), None)
        if found is None:
            raise ValueError(
                f"Unknown draw_id {draw_id}: its feedback was already reported, it is more than "
                f"{MAX_WAITING_RECEIPTS:,} batches old, or it belongs to another sampler or to a run before a state "
                f"was loaded. Call update once for every batch, with the draw_id of that batch."
            )
        return found

    def count_as_come(self, newest: Draw) -> None:
        """Take this receipt and all older ones out of flight; they wait for feedback."""
        for queue in (self._issued, self.to_reissue):
            while queue and queue[0].serial <= newest.serial:
                self._keep_for_feedback(queue.popleft())

    def _in_flight(self) -> Iterator[Draw]:
        yield from self._issued
        yield from self.to_reissue

    def _keep_for_feedback(self, draw: Draw) -> None:
        self._waiting[make_draw_id(draw)] = draw
        if len(self._waiting) > MAX_WAITING_RECEIPTS:
            del self._waiting[next(iter(self._waiting))]

    def discard(self, draw: Draw) -> None:
        """Remove a waiting receipt, because its feedback has been used."""
        if self._waiting:
            self._waiting.pop(make_draw_id(draw), None)

    def abandon(self, *, keep: bool) -> None:
        """Remove all batches in flight; with `keep` their receipts wait for feedback, because they may have come."""
        if keep:
            for draw in self._in_flight():
                self._keep_for_feedback(draw)
        self._issued.clear()
        self.to_reissue.clear()

    def state_dict(self) -> State:
        """Return the receipts in flight by place."""
        return {str(place): save_receipt(draw) for place, draw in enumerate(self._in_flight())}

    @classmethod
    def restore(
        cls, state: object, reader: ReceiptReader, sizes: list[tuple[int, int]], sharing: int = 1
    ) -> "ReceiptQueue":
        """Return the queue that was saved, after checking it; `sizes` bounds the slots of every receipt.

        A batch is cut to a multiple of `sharing` slots, as the last batch is when it is drawn. It is left out if
        nothing remains.
        """
        require_entries(state, {str(place) for place in range(len(sizes))}, "the receipts in flight")
        assert isinstance(state, Mapping)
        queue, serial = cls(), -1
        for place, (least, most) in enumerate(sizes):
            draw = reader.read(state[str(place)], least, most)
            if draw.serial <= serial:
                raise CheckpointError(f"Saved receipts must be in the order of the draws; {draw.serial} is not.")
            serial, rest = draw.serial, len(draw) % sharing
            if rest < len(draw):
                queue.to_reissue.append(draw.select(slice(len(draw) - rest)) if rest else draw)
        return queue


def make_draw_id(draw: Draw) -> int:
    """Return the number that a batch carries for its receipt: a hash of the sampler's id, then the serial.

    With the hash, a sampler does not accept the numbers of another one.
    """
    return crc32(draw.sampler_id.encode()) << SERIAL_BITS | (draw.serial & MAX_SERIAL)


class OneThreadAtATime:
    """A re-entrant lock that raises an error instead of waiting.

    It guards the draws and the receipts of a loader while a batch is taken. A loop holds it while its `DataLoader` asks
    for indices, which takes it again in the same thread.

    Examples
    --------
    >>> one_thread = OneThreadAtATime()
    >>> with one_thread, one_thread:
    ...     pass
    """

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = RLock()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise RuntimeError(
                "Another thread is inside this loader, and only one thread at a time can match batches with receipts. "
                "Iterate in one thread and pass batches on through a queue, or build one loader per thread."
            )

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[type["OneThreadAtATime"], tuple[()]]:
        return OneThreadAtATime, ()  # a pickled copy gets a lock of its own


class BatchEngine:
    """A sampler with the progress of its epoch: it draws batches, keeps their receipts, and takes feedback.

    `AdaptiveLoader` and `MixtureBatchSampler` document the parameters that are not listed here.

    Parameters
    ----------
    source : LoaderSource
        Labels of the points, a family, or a sampler.
    batch_size : int
        Points in a batch, of all processes together.
    tracks_arrival : bool
        Whether the owner calls `progress.receipts.pop` for every batch that has come, and `progress.finish` at the end
        of a loop. Then receipts are matched with batches by their order. Otherwise every list of indices carries the
        number of its receipt, and feedback finds the receipt by this number.
    layout : {"auto", "replicated", "sharded", "alone"}
        The layout that the user asked for.
    processes : ProcessGroup or None
        The processes of this layout, as `find_processes` returns them.
    **parts : Any
        What `Sampler` takes: `learner`, `gamma`, `allocate`, `rng` and `history`.

    Attributes
    ----------
    progress : EpochProgress
        Progress of the present epoch. Loading a state replaces it.
    one_thread : OneThreadAtATime
        Lock of the draws and receipts.
    """

    def __init__(
        self,
        source: LoaderSource,
        batch_size: int,
        *,
        tracks_arrival: bool,
        steps: int | None,
        drop_last: bool,
        layout: LayoutName,
        processes: "ProcessGroup | None",
        sync_every: int,
        **parts: Any,  # noqa: ANN401
    ) -> None:
        self.tracks_arrival, self.one_thread = tracks_arrival, OneThreadAtATime()
        self._processes = processes
        with fail_together(processes):
            self.batch_size, self.drop_last = as_count(batch_size, "batch_size"), bool(drop_last)
            steps = None if steps is None else as_count(steps, "steps")
            if processes is not None and self.batch_size % processes.world:
                raise ValueError(
                    f"batch_size is that of all processes together: {self.batch_size} is not divisible by "
                    f"{processes.world}, the number of processes. Use "
                    f"{-(-self.batch_size // processes.world) * processes.world}."
                )
        if processes is not None:
            parts["rng"] = self._share_seed(source, layout, parts["rng"])
        with fail_together(processes):
            self.sampler = make_sampler(source, **parts)
        self.layout = make_layout(layout, processes, self.sampler.components.space.n)
        with fail_together(processes):
            self._feedback = self._make_feedback(as_count(sync_every, "sync_every"))
            plan = plan_epoch(self.layout, self.batch_size, steps, drop_last=self.drop_last)
            self.progress = EpochProgress(plan, tracks_arrival=tracks_arrival)
        self._require_agreement(sync_every)

    def _share_seed(self, source: LoaderSource, layout: LayoutName, rng: Any) -> Any:  # noqa: ANN401
        """Return the rng of this process.

        All processes use the seed of the first; with shards each derives a stream of its own from it.
        """
        from varmix.torch._process_group import seed_of

        processes = self._processes
        assert processes is not None
        with fail_together(processes):
            seed = seed_of(rng)
        seed = processes.share(seed)  # called on all processes, whatever their components
        if isinstance(source, Sampler):  # it has its own
            return rng
        return np.random.default_rng([seed, processes.rank]) if layout == "sharded" else seed

    def _make_feedback(self, sync_every: int) -> "FeedbackSync | None":
        """Return what exchanges feedback between processes; None for one process, which learns at once."""
        if self._processes is None:
            return None
        from varmix.torch._feedback import FeedbackSync

        slots = self.batch_size // self.layout.world
        return FeedbackSync(self.sampler, self._processes, self.layout, slots, sync_every, self._discard)

    def _require_agreement(self, sync_every: int) -> None:
        if self._processes is None:
            return
        from varmix.torch._process_group import require_agreement

        settings = {"batch_size": self.batch_size, "steps": self.progress.plan.batches, "sync_every": sync_every}
        same_draws = self.layout.name == "replicated"
        require_agreement(self._processes, self.sampler, same_draws=same_draws, **settings)

    @property
    def exchanged(self) -> str:
        """What processes send each other in a round: nothing, sums or rows."""
        return "nothing" if self._feedback is None else self._feedback.exchanged

    def index_lists(self) -> Iterator[list[int]]:
        """Yield the list of indices of every batch of an epoch.

        The epoch begins with the first list that is asked for. Until then a state may be loaded. Beginning at the first
        request matters for another reason too: a `DataLoader` with workers makes two iterators and uses one; the other
        must not begin an epoch.
        """
        with self.one_thread:
            loop = self.progress.begin(self.sampler.end_epoch)
        while True:
            with self.one_thread:
                receipt = self.progress.issue(loop, self._draw)
            if receipt is None:
                return
            part = self._select_part(receipt)
            indices: list[int] = part.indices.tolist()
            if self.tracks_arrival:
                yield indices
            else:
                yield Slots(indices, make_draw_id(receipt), self.layout.scale * part.weights)

    # The next three methods treat one process first, so that its batches do not go through the layout.

    def _draw(self, size: int) -> Draw:
        return self.sampler.draw(size if self._processes is None else self.layout.drawn(size))

    def _select_part(self, receipt: Draw) -> Draw:
        """Return the receipt of this process's slots."""
        return receipt if self._processes is None else self.layout.part(receipt)

    def make_tensor_draw(self, receipt: Draw, device: torch.device) -> TensorDraw:
        """Return a receipt as users get it, with the weights of this process's slots on a device."""
        if self._processes is None:
            return TensorDraw(receipt, device)
        return TensorDraw(self.layout.part(receipt), device, receipt=receipt, scale=self.layout.scale)

    def update(self, draw: TensorDraw | torch.Tensor | int, norms: Any, gradient: Any = None) -> None:  # noqa: ANN401
        """Learn from the norms of a batch. One process learns at once; several learn at the next exchange."""
        if self._feedback is not None:
            self._feedback.update(partial(self._claim_receipts, draw), norms, gradient)
            return
        receipt = self._find_receipt(draw)
        mean = None if gradient is None else as_doubles(gradient, "gradient")
        self.sampler.update(receipt, as_doubles(norms, "norms"), gradient=mean)
        self._count_as_come(draw, receipt)  # only now: if anything above raises, nothing has changed
        self._discard(receipt)

    def _claim_receipts(self, draw: Any) -> tuple[Draw, Draw]:  # noqa: ANN401
        """Return the receipts of a whole draw and of this process's slots, and count the batch as come.

        It counts before its norms are checked. A process cannot know whether others reject theirs, and the position
        must be the same on all of them.
        """
        receipt = self._find_receipt(draw)
        self._count_as_come(draw, receipt)
        return receipt, draw.part if isinstance(draw, TensorDraw) else self._select_part(receipt)

    def _count_as_come(self, draw: Any, receipt: Draw) -> None:  # noqa: ANN401
        """Take the receipts up to this one out of flight, if feedback by number shows that their batches have come."""
        if not isinstance(draw, TensorDraw):
            self.progress.receipts.count_as_come(receipt)

    def _find_receipt(self, draw: Any) -> Draw:  # noqa: ANN401
        """Return the receipt of a whole draw."""
        if isinstance(draw, TensorDraw):
            return draw.receipt
        is_draw_id = isinstance(draw, (int, np.integer)) or (isinstance(draw, torch.Tensor) and is_single_integer(draw))
        if self.tracks_arrival or not is_draw_id:
            raise TypeError(
                f"update takes the draw that came with a batch{'' if self.tracks_arrival else ', or its draw_id,'} "
                f"and then its norms; got {type(draw).__name__} first."
            )
        return self.progress.receipts.find(int(draw))

    def _discard(self, receipt: Draw) -> None:
        self.progress.receipts.discard(receipt)

    def sync(self) -> None:
        """Exchange the feedback that waits, on all processes."""
        if self._feedback is not None:
            self._feedback.sync()

    def state_dict(self) -> State:
        """Return the state of the sampler and of the epoch, as tensors and plain values."""
        if self._feedback is not None and self._feedback.waiting:
            raise RuntimeError(
                f"{self._feedback.waiting} rounds of feedback wait for the next exchange. Call sync() on all processes "
                f"first."
            )
        state = {"sampler": self.sampler.state_dict(), "epoch": self.progress.state_dict()}
        return wrap_state("loader", as_tensors(state))

    def load_state_dict(self, state_dict: State) -> None:
        """Resume where the state was saved, or raise `CheckpointError` and stay unchanged."""
        with wrap_load_errors("a loader"):
            state = as_arrays(unwrap_state("loader", state_dict, "a loader"))
            require_format(state, {"sampler", "epoch"}, "a loader")
            reader = ReceiptReader(self.sampler.components, Ledger.loaded(state["sampler"]))
            slots = self.layout.drawn(self.batch_size)
            progress = self.progress.restore(state["epoch"], reader, slots, self.layout.sharing)
            self.sampler.load_state_dict(state["sampler"])  # all or nothing
        if self._feedback is not None:
            self._feedback.clear()
        self.progress = progress


def make_sampler(source: LoaderSource, **parts: Any) -> Sampler:  # noqa: ANN401
    """Return the sampler of a loader, as `varmix.Sampler` builds it; it must draw the points of a dataset.

    Examples
    --------
    >>> sampler = make_sampler(["cat", "dog", "dog"], rng=0)
    >>> sampler.components.replacement, sampler.allocate, type(sampler.learner).__name__
    (False, Shuffled(period=3), 'Cautious')
    """
    if isinstance(source, torch.utils.data.Sampler):  # frameworks rebuild batch samplers for several processes
        raise TypeError(
            "components must be labels of the points, a family or a varmix.Sampler, got a PyTorch sampler. Lightning "
            "probably rebuilt this batch sampler for several processes: pass Trainer(use_distributed_sampler=False)."
        )
    sampler = as_sampler(source, **parts)
    space = sampler.components.space
    if not isinstance(space, Points) or isinstance(space, Window):  # numbers of a window are not dataset indices
        raise TypeError(f"A loader draws the points of a dataset, but {sampler.components!r} draws {space}.")
    return sampler
