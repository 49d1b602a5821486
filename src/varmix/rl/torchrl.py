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

__all__ = ["MixtureReplayBuffer", "MixtureSampler"]

RECEIPT_KEY, WEIGHT_KEY = "receipt", "priority_weight"
STATE_FILE_NAME = "mixture_sampler.varmix"


class _TorchRLAdapter(PrioritizedSampler):  # type: ignore[misc]
    """All private parts of TorchRL that varmix touches.

    They may change in any minor version of TorchRL, so the extra `torchrl` allows only one minor version.

    * TorchRL's buffers report priorities only to instances of `PrioritizedSampler`, so this class inherits from it.
    * `PrioritizedSampler.__init__` builds compiled trees, so it is not called.  Subclasses must override every member
      that reads its attributes (`_alpha`, `_beta`, `_sum_tree`, ...), except for `_max_capacity`, which `max_size`
      reads.
    * `ReplayBuffer.empty` calls `_empty`, which `MixtureSampler` overrides.
    * `MixtureSampler.__getstate__` extends `PrioritizedSampler.__getstate__`, which drops the buffer's generator and
      raises an error when a sampler would be sent to another process.
    """

    def __init__(self, max_capacity: int) -> None:
        self._max_capacity = max_capacity


class MixtureSampler(_TorchRLAdapter):
    """TorchRL sampler whose priorities are a mixture of settings, learned from the feedback.

    It replaces TorchRL's `PrioritizedSampler`.  A sampled batch has two more entries.  `priority_weight` holds the
    importance weights 1 / density in float32; they are not divided by their maximum, and their mean is one on average.
    `receipt` holds one number per row, which identifies the draw of the row.

    Pass feedback with the receipts, through `MixtureReplayBuffer.update_tensordict_priority` or `update`. The mixture
    learns from it, and it refreshes the priorities. It may come late, in any order, in parts or not at all:

    * If it comes in parts, each part refreshes priorities, and the mixture learns when the last part has come.
    * If it comes a second time, it only refreshes priorities.
    * After 4,096 further batches (or 262,144 rows of them), or after the buffer was emptied, it raises `ValueError`.
    * It never changes the priorities of items that have overwritten the drawn ones.

    `update_priority(index, priority)`, without a receipt, refreshes the priorities of the items that are at these
    indices now, and the mixture learns nothing.  Storages must have one dimension and a round-robin writer.  TorchRL's
    `generator` has no effect: pass `rng`.

    Parameters
    ----------
    max_capacity : int
        Capacity of the storage, its `max_size`.
    settings : sequence of (float, float), optional
        Pairs (epsilon, alpha), one per component. Default: the nine settings of the paper.
    learner : Learner, optional
        Learner that adapts the mixture. Default: `varmix.learners.BarrierNewton(eps=0.3)`.
    reweight : Reweight, default varmix.reweight.exact
        How densities become weights.
    rng : int or numpy.random.Generator, optional
        Seed, or a generator to take a seed from. Default: a new seed.

    Examples
    --------
    >>> MixtureSampler(1000, settings=[(0.01, 0.6), (0.01, 0.9)])
    MixtureSampler(0 of 1000 items, mixture=[0.25 0.25 0.5 ])
    """

    reduction = "max"  # TorchRL's name for the way it merges several priorities of an item

    def __init__(
        self,
        max_capacity: int,
        settings: Sequence[tuple[float, float]] = PAPER_SETTINGS,
        *,
        learner: Learner[Any] | None = None,
        reweight: Reweight = exact,
        rng: int | np.random.Generator | None = None,
    ) -> None:
        replay = Replay(max_capacity, settings)
        super().__init__(replay.capacity)
        self._slots = SlotSampler(
            vrm(replay, learner=DEFAULT_LEARNER if learner is None else learner, reweight=reweight, rng=rng), replay
        )
        self._lock = threading.RLock()  # buffers that share a storage do not share TorchRL's lock
        self._default = 1.0
        self._warned = False

    @property
    def sampler(self) -> Sampler:
        """Sampler that draws and learns; `sampler.mixture` is the learned mixture."""
        return self._slots.sampler

    @property
    def replay(self) -> Replay:
        """Family of prioritised replays, which holds the priorities of the items."""
        return self._slots.replay

    @property
    def default_priority(self) -> float:
        """Priority that the newest item got when it was written: the largest one reported by then, or 1 before any."""
        return self._default

    @property
    def device(self) -> torch.device:
        """Device of the priorities: always the CPU, even if the storage is on another device."""
        return torch.device("cpu")

    @property
    def alpha(self) -> NoReturn:
        """Not available: every component has its own exponent, see `replay.settings`."""
        raise AttributeError(
            "A mixture has no single alpha: MixtureSampler.replay.settings lists the exponents of all components."
        )

    @property
    def beta(self) -> NoReturn:
        """Not available: `reweight` determines the weights, which are exact by default."""
        raise AttributeError("A mixture has no beta: pass MixtureSampler(..., reweight=varmix.reweight.Power(beta)).")

    def sample(self, storage: Any, batch_size: int) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:  # noqa: ANN401
        """Draw a batch.

        Parameters
        ----------
        storage : torchrl.data.Storage
            Storage of the buffer.
        batch_size : int
            Number of items.

        Returns
        -------
        indices : torch.Tensor
            Indices of the items in the storage.
        info : dict
            Weights under "priority_weight" and receipts under "receipt".

        Raises
        ------
        RuntimeError
            If the storage is empty, or items were written to it without this sampler.
        """
        with self._lock:
            if len(storage) == 0:
                raise RuntimeError("Cannot sample from an empty storage: extend the buffer first.")
            self._adopt_items(storage, len(storage))
            if len(storage) != len(self.replay):
                raise RuntimeError(
                    f"The storage holds {len(storage)} items, but the sampler knows {len(self.replay)}: some were "
                    f"not written through a buffer. Build a new MixtureSampler for this storage."
                )
            slots, weights, tickets = self._slots.draw(batch_size)
        info = {WEIGHT_KEY: torch.from_numpy(weights.astype(np.float32)), RECEIPT_KEY: torch.from_numpy(tickets)}
        return torch.from_numpy(slots), info

    def update(self, receipt: torch.Tensor, priority: torch.Tensor) -> None:
        """Learn from the TD errors of sampled rows.

        Parameters
        ----------
        receipt : torch.Tensor, int64
            Receipts of the rows, as in the sampled batch.
        priority : torch.Tensor
            TD errors of the rows, of any sign. If a row has several, in further dimensions, the largest counts.

        Raises
        ------
        ValueError
            If the shapes do not fit, a TD error is not finite, or a receipt is unknown or too old. Nothing has changed
            then.
        """
        tickets = as_numpy(receipt)
        errors = np.abs(as_doubles(priority))
        if tickets.dtype != np.int64 or errors.shape[: tickets.ndim] != tickets.shape:
            raise ValueError(
                f"update takes the receipts of a batch and one priority for each: got receipts {tickets.shape} of "
                f"{tickets.dtype} and priorities {errors.shape}."
            )
        if tickets.size == 0:
            return
        rows = errors.reshape(tickets.size, -1).max(axis=1, initial=0.0)
        with self._lock:
            self._slots.update(tickets.reshape(-1), rows)

    def update_priority(self, index: Any, priority: Any, *, storage: Any = None) -> None:  # noqa: ANN401
        """Refresh the priorities of the items that are at these indices now.  The mixture learns nothing.

        Parameters
        ----------
        index : int or torch.Tensor
            Indices in the storage. Negative ones are left out.
        priority : float or torch.Tensor
            TD errors, one for each index or one for all.
        storage : torchrl.data.Storage, optional
            Storage of the buffer. Default: None.
        """
        slots = as_slots(index)
        errors = as_priorities(priority, len(slots))
        slots, errors = slots[slots >= 0], errors[slots >= 0]
        with self._lock:
            if storage is not None:
                self._adopt_items(storage, len(storage))
            if not self._warned and len(slots) and self._slots.awaits(slots):
                self._warned = True
                _warn_of_lost_receipt()
            self._slots.refresh(slots, errors)

    def mark_update(self, index: Any, *, storage: Any = None) -> None:  # noqa: ANN401
        """Insert the items that the writer has put at these indices.

        Parameters
        ----------
        index : int or torch.Tensor
            Indices in the storage. Negative ones are left out.
        storage : torchrl.data.Storage, optional
            Storage of the buffer. Default: None.
        """
        slots = as_slots(index)
        slots = slots[slots >= 0]  # -1 marks items that the writer did not keep
        with self._lock:
            if storage is not None:
                self._adopt_items(storage, len(storage) - len(slots))
            self._insert(slots)

    def add(self, index: Any) -> None:  # noqa: ANN401
        """Do nothing: the writer has already called `mark_update`, even if buffers share the storage.

        Parameters
        ----------
        index : int or torch.Tensor
            Indices in the storage.
        """

    def extend(self, index: Any) -> None:  # noqa: ANN401
        """Do nothing: the writer has already called `mark_update`, even if buffers share the storage.

        Parameters
        ----------
        index : int or torch.Tensor
            Indices in the storage.
        """

    def _adopt_items(self, storage: Any, before: int) -> None:  # noqa: ANN401
        """Check that the storage fits, and insert the items that it held before this sampler was attached."""
        check_storage(storage, self.replay.capacity)
        if before > 0 and self.replay.space.first == 0 and len(self.replay) == 0:
            self._insert(np.arange(before))

    def _insert(self, slots: IntArray) -> None:
        self._slots.write(slots)
        if len(slots):
            self._default = float(self.replay.delta(self._slots.find_items(slots[-1:]))[0])

    def _empty(self) -> None:
        """Drop all items and receipts; the mixture keeps what it has learned."""
        with self._lock:
            self._slots.clear()

    def state_dict(self) -> State:
        """Return the state needed to resume exactly.

        Returns
        -------
        dict
            The sampler, the priorities and the receipts in flight, as a nested dict of tensors, numbers and strings.
        """
        with self._lock:
            return as_tensors(self._slots.state_dict())

    def load_state_dict(self, state_dict: State) -> None:
        """Resume where the state was saved.

        Parameters
        ----------
        state_dict : dict
            State that `state_dict` returned.

        Raises
        ------
        CheckpointError
            If the state is damaged, or belongs to another sampler or format. The sampler is then unchanged.
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
        """Write a checkpoint.

        Parameters
        ----------
        path : str or Path
            Folder for the checkpoint.
        """
        Path(path).mkdir(exist_ok=True, parents=True)
        with self._lock:
            save(Path(path) / STATE_FILE_NAME, self._slots)

    def loads(self, path: str | Path) -> None:
        """Resume from a checkpoint. It raises the same errors as `load_state_dict`.

        Parameters
        ----------
        path : str or Path
            Folder of the checkpoint.
        """
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
        return f"MixtureSampler({len(self.replay)} of {self.replay.capacity} items, mixture={mixture})"


class MixtureReplayBuffer(TensorDictReplayBuffer):  # type: ignore[misc]
    """TorchRL's `TensorDictReplayBuffer`, except that it passes feedback on with its receipts.

    Parameters
    ----------
    **arguments
        Arguments of `TensorDictReplayBuffer`. Pass `sampler=MixtureSampler(...)`.

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
        """Report the priorities of a sampled tensordict.  Without receipts they only refresh the sampler's priorities.

        Parameters
        ----------
        data : TensorDictBase
            A sampled batch, or a part of it, with TD errors under `priority_key`.

        Raises
        ------
        KeyError
            If there are no TD errors under `priority_key`.
        """
        # Data without dimensions is one item that is being added. If it has a receipt, it is from an earlier draw.
        receipt = data.get(RECEIPT_KEY, None) if data.ndim else None
        if receipt is None or not isinstance(self.sampler, MixtureSampler):
            super().update_tensordict_priority(data)
            return
        priority = data.get(self.priority_key, None)
        if priority is None:
            raise KeyError(
                f"The tensordict has no entry {self.priority_key!r}: write the TD errors there, or build the buffer "
                f"with another priority_key."
            )
        valid = data.get("validity_mask", None)  # False where TorchRL has padded a window
        if valid is not None:
            receipt, priority = receipt[valid], priority[valid]
        self.sampler.update(receipt, priority)


def _warn_of_lost_receipt() -> None:
    warnings.warn(
        "Priorities of a sampled batch came without its receipt: they are refreshed, but the mixture learns nothing "
        "from them. Use varmix.rl.torchrl.MixtureReplayBuffer and update_tensordict_priority, or sampler.update.",
        stacklevel=4,
    )


def as_slots(index: Any) -> IntArray:  # noqa: ANN401
    """Return an index, or a tensor of indices, as an array of slots with one dimension."""
    slots = np.atleast_1d(as_numpy(index))
    if slots.ndim != 1:
        raise ValueError(f"MixtureSampler needs a storage of one dimension, got indices of shape {slots.shape}.")
    if slots.size and slots.dtype.kind not in "iu":
        raise TypeError(f"Indices must be whole numbers, got {slots.dtype}. For a mask, pass mask.nonzero()[:, 0].")
    return np.asarray(slots, dtype=np.int64)


def as_priorities(values: Any, m: int) -> FloatArray:  # noqa: ANN401
    """Return one priority per slot, from one number for all of them or one for each."""
    priority = as_doubles(values)
    if priority.size not in (1, m):
        raise ValueError(f"priority must be one number per index: expected shape ({m},), got {priority.shape}.")
    return np.broadcast_to(priority.reshape(-1), (m,))


def check_storage(storage: Any, capacity: int) -> None:  # noqa: ANN401
    """Raise `ValueError` unless a storage has one dimension and `capacity` slots."""
    if storage.ndim != 1:
        raise ValueError(
            f"MixtureSampler needs a storage of one dimension, got ndim={storage.ndim}. Flatten the data before extend."
        )
    if storage.max_size != capacity:
        raise ValueError(
            f"MixtureSampler was built for {capacity} items and the storage has room for {storage.max_size}. "
            f"Build both with the same number."
        )
