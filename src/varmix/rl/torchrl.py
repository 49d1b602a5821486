"""MixtureSampler: adaptive prioritised replay inside TorchRL's replay buffers."""

import threading
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from varmix._core.checkpoint import load, save
from varmix._core.state import CheckpointError, make_printable, wrap_load_errors
from varmix._core.validation import FloatArray, IntArray, State, missing_extra
from varmix._presets import vrm
from varmix._sampler import Sampler
from varmix.components._replay import PAPER_SETTINGS, Replay
from varmix.learners import Learner
from varmix.reweight import Reweight, exact
from varmix.rl._replay_buffer import DEFAULT_LEARNER
from varmix.rl._tickets import SlotSampler

try:
    import torch
    from torchrl.data import TensorDictReplayBuffer
    from torchrl.data.replay_buffers.samplers import PrioritizedSampler

    from varmix.torch._tensors import as_arrays, as_doubles, as_numpy, as_tensors
except ModuleNotFoundError:
    raise missing_extra("varmix.rl.torchrl", "torchrl", "torchrl") from None

RECEIPT_KEY, WEIGHT_KEY = "receipt", "priority_weight"
STATE_FILE_NAME = "mixture_sampler.varmix"


class MixtureSampler(PrioritizedSampler):  # type: ignore[misc]
    """A TorchRL sampler whose priorities are a mixture of settings, learned from the feedback.

    A sampled batch has `priority_weight`, the importance weights 1 / density (float32, not divided by their maximum:
    their mean is one on average), and `receipt`, a number for every row that says which draw it is of.  Feedback with
    receipts, through `MixtureReplayBuffer.update_tensordict_priority` or `update`, teaches the mixture and refreshes
    the priorities.  It may come late, in any order, in parts or not at all:

    * in parts, it refreshes priorities at once and teaches when the last row is there;
    * a second time, it refreshes priorities only;
    * after 4,096 further batches (or 262,144 rows of them), or once the buffer was emptied, it is refused;
    * of items that were overwritten since, it never touches their successors.

    `update_priority(index, priority)`, where no receipt is, refreshes the priorities of what is at these indices now
    and teaches nothing.  Storages of one dimension and round robin writers only.  TorchRL's `generator` has no effect:
    give `rng`.

    Parameters
    ----------
    max_capacity
        The `max_size` of the storage.
    settings
        Pairs of epsilon and alpha, one component each; the paper's nine unless told.
    learner
        How the mixture adapts: `varmix.learners.BarrierNewton(eps=0.3)` unless told.
    reweight
        How densities become weights.
    rng
        Seed, generator to take a seed from, or None.

    Examples
    --------
    >>> MixtureSampler(1000, settings=[(0.01, 0.6), (0.01, 0.9)])
    MixtureSampler(0 of 1000 items, mixture=[0.25 0.25 0.5 ])
    """

    reduction = "max"  # of several priorities of one item; TorchRL asks for the name

    def __init__(
        self,
        max_capacity: int,
        settings: Sequence[tuple[float, float]] = PAPER_SETTINGS,
        *,
        learner: Learner[Any] | None = None,
        reweight: Reweight = exact,
        rng: int | np.random.Generator | None = None,
    ) -> None:
        # Not super().__init__(), which needs TorchRL's compiled trees; all that would use them is overridden here.
        replay = Replay(max_capacity, settings)
        self._slots = SlotSampler(
            vrm(replay, learner=DEFAULT_LEARNER if learner is None else learner, reweight=reweight, rng=rng), replay
        )
        self._max_capacity = replay.capacity
        self._lock = threading.RLock()  # buffers that share a storage do not share TorchRL's own
        self._default = 1.0
        self._warned = False

    @property
    def sampler(self) -> Sampler:
        """The sampler that draws; its `mixture` is what was learned."""
        return self._slots.sampler

    @property
    def replay(self) -> Replay:
        """The items by their priorities."""
        return self._slots.replay

    @property
    def default_priority(self) -> float:
        """The priority that the newest item got when it came: the largest told by then, 1 before any."""
        return self._default

    @property
    def device(self) -> torch.device:
        """Priorities are kept in the memory of the CPU, wherever the storage is."""
        return torch.device("cpu")

    @property
    def alpha(self) -> NoReturn:
        """There is one exponent for every component: see `replay.settings`."""
        raise AttributeError(
            "A mixture has no single alpha; MixtureSampler.replay.settings has those of all components."
        )

    @property
    def beta(self) -> NoReturn:
        """Weights are exact unless `sampler.reweight` says otherwise."""
        raise AttributeError("A mixture has no beta: give MixtureSampler reweight=varmix.reweight.Power(beta).")

    def sample(self, storage: Any, batch_size: int) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:  # noqa: ANN401
        """Give the indices of a batch, with its weights and its receipt."""
        with self._lock:
            if len(storage) == 0:
                raise RuntimeError("Cannot sample from an empty storage: extend the buffer first.")
            self._meet(storage, len(storage))
            if len(storage) != len(self.replay):
                raise RuntimeError(
                    f"The storage holds {len(storage)} items and the sampler knows of {len(self.replay)}: items must "
                    f"be written through a buffer. Build a new MixtureSampler for this storage."
                )
            slots, weights, tickets = self._slots.draw(batch_size)
        info = {WEIGHT_KEY: torch.from_numpy(weights.astype(np.float32)), RECEIPT_KEY: torch.from_numpy(tickets)}
        return torch.from_numpy(slots), info

    def update(self, receipt: torch.Tensor, priority: torch.Tensor) -> None:
        """Take the TD errors (of any sign) of sampled rows back, by their receipts.

        A row may have several TD errors, in further dimensions: the largest counts.
        """
        tickets = as_numpy(receipt)
        errors = np.abs(as_doubles(priority))
        if tickets.dtype != np.int64 or errors.shape[: tickets.ndim] != tickets.shape:
            raise ValueError(
                f"update takes the receipts of a batch and a priority for each: got receipts {tickets.shape} of "
                f"{tickets.dtype} and priorities {errors.shape}."
            )
        if tickets.size == 0:
            return
        rows = errors.reshape(tickets.size, -1).max(axis=1, initial=0.0)
        with self._lock:
            self._slots.update(tickets.reshape(-1), rows)

    def update_priority(self, index: Any, priority: Any, *, storage: Any = None) -> None:  # noqa: ANN401
        """Refresh the priorities of what is at these indices now, without a receipt; nothing is learned."""
        slots = as_slots(index)
        errors = as_priorities(priority, len(slots))
        slots, errors = slots[slots >= 0], errors[slots >= 0]
        with self._lock:
            if storage is not None:
                self._meet(storage, len(storage))
            if not self._warned and len(slots) and self._slots.awaits(slots):
                self._warned = True
                _warn_of_lost_receipt()
            self._slots.refresh(slots, errors)

    def mark_update(self, index: Any, *, storage: Any = None) -> None:  # noqa: ANN401
        """Hear from the writer that new items are at these indices."""
        slots = as_slots(index)
        slots = slots[slots >= 0]  # a writer says -1 of what it did not keep
        with self._lock:
            if storage is not None:
                self._meet(storage, len(storage) - len(slots))
            self._insert(slots)

    def add(self, index: Any) -> None:  # noqa: ANN401
        """Do nothing: the writer has called `mark_update`, also for storages that buffers share."""

    def extend(self, index: Any) -> None:  # noqa: ANN401
        """Do nothing: the writer has called `mark_update`, also for storages that buffers share."""

    def _meet(self, storage: Any, before: int) -> None:  # noqa: ANN401
        """Check that the storage fits; take over the items that it had before this sampler came."""
        check_storage(storage, self._max_capacity)
        if before > 0 and self.replay.space.first == 0 and len(self.replay) == 0:
            self._insert(np.arange(before))

    def _insert(self, slots: IntArray) -> None:
        self._slots.write(slots)
        if len(slots):
            self._default = float(self.replay.delta(self._slots.items(slots[-1:]))[0])

    def _empty(self) -> None:
        """Forget all items and receipts; what the mixture has learned stays."""
        with self._lock:
            self._slots.clear()

    def state_dict(self) -> State:
        """Give all that is needed to go on with the same draws, receipts in flight included, as tensors and numbers."""
        with self._lock:
            return as_tensors(self._slots.state_dict())

    def load_state_dict(self, state_dict: State) -> None:
        """Resume where the state was saved.

        Raises
        ------
        CheckpointError
            If the state is damaged, of another sampler or of another format.  The sampler is then unchanged.
        """
        with self._lock, wrap_load_errors("a MixtureSampler"):
            try:
                state = as_arrays(state_dict)
            except RuntimeError as error:  # a tensor that NumPy cannot hold
                raise CheckpointError(
                    f"The saved state of a MixtureSampler is damaged: {make_printable(error)}"
                ) from error
            self._slots.load_state_dict(state)

    def dumps(self, path: str | Path) -> None:
        """Write a checkpoint into the folder `path`, where TorchRL keeps a sampler's files."""
        Path(path).mkdir(exist_ok=True, parents=True)
        with self._lock:
            save(Path(path) / STATE_FILE_NAME, self._slots)

    def loads(self, path: str | Path) -> None:
        """Resume from the checkpoint in the folder `path`; raises as `load_state_dict` does."""
        with self._lock:
            load(Path(path) / STATE_FILE_NAME, self._slots)

    def __getstate__(self) -> State:
        state: State = super().__getstate__()
        del state["_lock"]
        return state

    def __setstate__(self, state: State) -> None:
        self.__dict__.update(state)
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        mixture = np.array2string(self.sampler.mixture, precision=3, max_line_width=200)
        return f"MixtureSampler({len(self.replay)} of {self._max_capacity} items, mixture={mixture})"


class MixtureReplayBuffer(TensorDictReplayBuffer):  # type: ignore[misc]
    """TorchRL's `TensorDictReplayBuffer`, with feedback that takes its receipt along.  Same arguments.

    Examples
    --------
    >>> from tensordict import TensorDict
    >>> from torchrl.data import LazyTensorStorage
    >>> rb = MixtureReplayBuffer(storage=LazyTensorStorage(100), sampler=MixtureSampler(100, rng=0), batch_size=32)
    >>> indices = rb.extend(TensorDict({"observation": torch.arange(50.0)}, [50]))
    >>> batch = rb.sample()
    >>> batch["td_error"] = batch["observation"] - 25.0
    >>> rb.update_tensordict_priority(batch)
    """

    def __init__(self, **arguments: Any) -> None:  # noqa: ANN401
        super().__init__(**arguments)
        if self.initialized and isinstance(self.sampler, MixtureSampler):
            check_storage(self.storage, self.sampler.max_size)

    def update_tensordict_priority(self, data: Any) -> None:  # noqa: ANN401
        """Give the priorities of a sampled tensordict back, with its receipt; without one only refresh them."""
        receipt = (
            data.get(RECEIPT_KEY, None) if data.ndim else None
        )  # an item that is added has the receipt of its past
        if receipt is None or not isinstance(self.sampler, MixtureSampler):
            super().update_tensordict_priority(data)
            return
        priority = data.get(self.priority_key, None)
        if priority is None:
            raise KeyError(
                f"The tensordict has no entry {self.priority_key!r}: write the TD errors there, or build the buffer "
                f"with another priority_key."
            )
        valid = data.get("validity_mask", None)  # of windows that were padded
        if valid is not None:
            receipt, priority = receipt[valid], priority[valid]
        self.sampler.update(receipt, priority)


def _warn_of_lost_receipt() -> None:
    warnings.warn(
        "Priorities of a sampled batch came without its receipt: they are refreshed, and the mixture learns nothing "
        "from them. Use varmix.rl.torchrl.MixtureReplayBuffer and update_tensordict_priority, or sampler.update.",
        stacklevel=4,
    )


def as_slots(index: Any) -> IntArray:  # noqa: ANN401
    """Give an index, or a tensor of them, as slots in one dimension."""
    slots = np.atleast_1d(as_numpy(index))
    if slots.ndim != 1:
        raise ValueError(f"MixtureSampler needs a storage of one dimension, got indices of shape {slots.shape}.")
    if slots.size and slots.dtype.kind not in "iu":
        raise TypeError(f"Indices must be whole numbers, got {slots.dtype}. Of a mask, take mask.nonzero().")
    return np.asarray(slots, dtype=np.int64)


def as_priorities(values: Any, m: int) -> FloatArray:  # noqa: ANN401
    """Give one priority for all of `m` slots, or one for each of them, as a vector."""
    priority = as_doubles(values)
    if priority.size not in (1, m):
        raise ValueError(f"priority must be one number per index: expected shape ({m},), got {priority.shape}.")
    return np.broadcast_to(priority.reshape(-1), (m,))


def check_storage(storage: Any, capacity: int) -> None:  # noqa: ANN401
    """Refuse a storage whose rows are not the `capacity` slots of a ring."""
    if storage.ndim != 1:
        raise ValueError(
            f"MixtureSampler needs a storage of one dimension, got ndim={storage.ndim}. Flatten the data before extend."
        )
    if storage.max_size != capacity:
        raise ValueError(
            f"MixtureSampler was built for {capacity} items and the storage has room for {storage.max_size}. Give both "
            f"the same number."
        )
