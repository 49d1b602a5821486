"""MixtureBatchSampler: adaptive batches for a DataLoader of your own."""

import sys
from collections.abc import Callable, Iterator, Sized
from types import FrameType
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset, IterableDataset
from torch.utils.data import Sampler as TorchSampler

from varmix._core.validation import FloatArray, State
from varmix._sampler import Sampler
from varmix.allocate import Allocation
from varmix.history import History
from varmix.learners import Learner
from varmix.meter import GainMeter, Interval
from varmix.torch._engine import BatchEngine, LoaderSource
from varmix.torch._layout import LayoutName, ProcessLayout, find_processes
from varmix.torch._settings import FrozenSettings
from varmix.torch._tagging import Collate, Tagged


class MixtureBatchSampler(FrozenSettings, TorchSampler[list[int]]):  # type: ignore[misc]
    """A batch sampler for a `DataLoader` of your own: it draws lists of indices by a mixture and takes feedback.

    Use it where a framework iterates over the loader (Lightning, the Trainer of transformers). In a loop of your own
    `AdaptiveLoader` is simpler.

    Wrap the dataset with `tagged` and the collate function with `collate`. Batches then have `weight`, one importance
    weight per example, and `draw_id`, the number that `update` takes back.

    Without `steps` and `drop_last` an epoch has every point once, as plain shuffling, until a mixture pays; then every
    point once on average. The random numbers continue from epoch to epoch, so every epoch has a new order; `set_epoch`
    is not needed.

    Parameters
    ----------
    components : array-like of shape (n,), Family or Sampler
        Labels of the points, which means `varmix.Groups(labels, replacement=False)`; or a family; or a sampler.
    batch_size : int
        Points in a batch, of all processes together.
    learner : Learner, optional
        Learner that adapts the mixture. Default: `varmix.learners.Cautious()` for groups without replacement, which
        plays the uniform component until the mixture pays; otherwise `varmix.learners.BarrierNewton()`, which plays
        the mixture from the first batch.
    gamma : float, optional
        Smallest share of the uniform component: no weight exceeds `1 / gamma`; with `layout="sharded"`, times
        `layout.scale`. Default: 0.1, or the learner's own.
    allocate : Allocation, optional
        How the slots of a batch are distributed over components. Default: `varmix.allocate.stratified`. For groups
        without replacement: with `Cautious`, `Shuffled(n)`, which deals slots to groups by chance as shuffling does;
        with another learner, `round_robin`, which gives every batch the exact share of each group.
    rng : int or numpy.random.Generator, optional
        Seed, or generator to take one from. Default: a new seed. Of processes that share draws, all use the seed of
        rank 0, so they draw the batches that a single process with this seed would.
    steps : int, optional
        Batches in an epoch, all full. Default: enough for n points; the last may be smaller. On several processes the
        last batch is cut to a multiple of their number; with shards it is left out unless it is the only one.
    drop_last : bool, default False
        Leave a smaller last batch out. Its points come first in the next epoch.
    layout : {"auto", "replicated", "sharded", "alone"}, default "auto"
        "replicated": all processes of the group see all points, and each takes its slots of the same batches.
        "sharded": every process has its own points and components, and the objective is the mean over all of them.
        "alone": this process ignores others. "auto": "replicated" if there is a process group, else "alone".
    group : torch.distributed.ProcessGroup, optional
        The process group. Default: all processes.
    sync_every : int, default 1
        Rounds of feedback between two exchanges.
    history : bool, default False
        Whether to record how shares and gain move, for `varmix.plot`.

    Attributes
    ----------
    sampler : Sampler
        The sampler that draws.
    batch_size : int
        Points in a batch, of all processes together.
    drop_last : bool
        Whether a smaller last batch is left out.
    layout : ProcessLayout
        How batches are spread over processes: `layout.name`, `layout.world` and `layout.scale`.

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
        components: LoaderSource,
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
        engine = BatchEngine(
            components,
            batch_size,
            tracks_arrival=False,
            learner=learner,
            gamma=gamma,
            allocate=allocate,
            rng=rng,
            steps=steps,
            drop_last=drop_last,
            layout=layout,
            processes=find_processes(layout, group),
            sync_every=sync_every,
            history=history,
        )
        self._use_engine(engine)

    def _use_engine(self, engine: BatchEngine) -> None:
        self._engine = engine
        self.batch_size, self.drop_last = engine.batch_size, engine.drop_last
        self.sampler: Sampler = engine.sampler
        self.layout: ProcessLayout = engine.layout
        self._freeze()

    @classmethod
    def _of_engine(cls, engine: BatchEngine) -> "MixtureBatchSampler":
        """Return the batch sampler of an engine that an `AdaptiveLoader` owns."""
        batches = cls.__new__(cls)
        batches._use_engine(engine)
        return batches

    def __len__(self) -> int:
        return self._engine.progress.plan.batches

    def __iter__(self) -> Iterator[list[int]]:
        self._check_reader(sys._getframe().f_back)
        return self._engine.index_lists()

    def _check_reader(self, frame: FrameType | None) -> None:
        """Raise if the object that iterates distributes batches over processes, as accelerate does.

        `frame` is the frame of the method that iterates. The `BatchSamplerShard` of accelerate would split batches that
        are split already. It waits for batches of the full size, of which one process has only a part, and returns
        none.
        """
        reader: Any = None if frame is None else frame.f_locals.get("self")
        if getattr(reader, "batch_sampler", None) is self and getattr(reader, "num_processes", 1) != 1:
            raise RuntimeError(
                f"{type(reader).__name__} would share out batches among {reader.num_processes} processes, but those of "
                f"a MixtureBatchSampler are spread over processes already. Leave its DataLoader out of "
                f"accelerator.prepare, and move batches to accelerator.device yourself."
            )

    @property
    def epoch(self) -> int:
        """Number of the present epoch, or of the first if none has begun."""
        return self._engine.progress.epoch

    def set_epoch(self, epoch: int) -> None:
        """Set the number of the next epoch; the order of draws does not depend on it.

        Parameters
        ----------
        epoch : int
            The number. An epoch that has not begun, or was loaded unfinished, gets it; otherwise the next one does.
        """
        self._engine.progress.set_epoch(epoch)

    @property
    def position(self) -> int:
        """Batches of the present epoch that are known to have come: up to the last one with feedback.

        The `DataLoader` may have fetched more. A batch counts once `update` has learned from it or from a later one. On
        several processes it counts once `update` was called, also if a process rejected its norms.
        """
        return self._engine.progress.position

    @property
    def batches_left(self) -> int:
        """Batches that the next loop returns if the state is saved now and loaded.

        In the middle of an epoch these are the batches after `position`, otherwise those of a whole epoch.
        """
        return self._engine.progress.batches_left

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
        """The mixture of the next draw."""
        return self.sampler.mixture

    @property
    def learned_mixture(self) -> FloatArray:
        """The learned mixture, also while the learner plays the uniform component."""
        return self.sampler.learned_mixture

    @property
    def exchanged(self) -> str:
        """What processes send each other in a round of feedback: "nothing", "sums" or "rows"."""
        return self._engine.exchanged

    def tagged(self, dataset: Dataset[Any]) -> Tagged:
        """Wrap a dataset, so that weights and receipts reach the batches.

        Parameters
        ----------
        dataset : torch.utils.data.Dataset
            A dataset with `__getitem__` and `__len__`, of as many items as there are points.

        Returns
        -------
        torch.utils.data.Dataset
            The wrapped dataset, for `DataLoader(dataset, batch_sampler=..., collate_fn=...)`.
        """
        check_dataset(dataset, self.sampler.components.space.n)
        return Tagged(dataset)

    def collate(self, collate_fn: Callable[[list[Any]], Any] | None = None) -> Collate:
        """Wrap a collate function, so that batches get `weight` and `draw_id`.

        Parameters
        ----------
        collate_fn : callable, optional
            From a list of samples to a batch. Default: `torch.utils.data.default_collate`.

        Returns
        -------
        callable
            The collate function for the `DataLoader`.
        """
        return Collate(collate_fn)

    def update(
        self,
        draw: torch.Tensor | int,
        norms: Any,  # noqa: ANN401
        *,
        gradient: Any = None,  # noqa: ANN401
    ) -> None:
        """Learn from the losses or gradient norms of a batch.

        If it raises on a single process, nothing has changed, `position` included.

        On several processes all must call it for the same batches. If one of them rejects its norms, no process learns
        from the batch: that process raises its error, and the others raise one at the exchange. All may call `update`
        for it again. The batch counts in `position` at once, so that this is equal on all processes.

        Parameters
        ----------
        draw : torch.Tensor or int
            The `draw_id` of the batch.
        norms : torch.Tensor or array-like of shape (m,)
            One non-negative number per example, not squared and without the weights, of any device and real type.
        gradient : torch.Tensor or array-like, optional
            Gradient of the weighted mean loss, for the meter's noise check. Report it for two consecutive batches now
            and then. Default: None.
        """
        self._engine.update(draw, norms, gradient)

    def sync(self) -> None:
        """Exchange the feedback that waits, with `sync_every` above one; call it on all processes."""
        self._engine.sync()

    def state_dict(self) -> State:
        """Return the state needed to resume with the same batches, as tensors and plain values.

        It includes the receipts of the batches that the loader has fetched ahead. Apart from the ids of samplers it is
        the same on all processes that share draws, so one process may save it and all may load it.

        Returns
        -------
        dict
            The state, for `torch.save` and `load_state_dict`.
        """
        return self._engine.state_dict()

    def load_state_dict(self, state_dict: State) -> None:
        """Resume where the state was saved.

        Build the batch sampler with the same arguments first. If it raises `varmix.CheckpointError`, because the state
        is damaged, belongs to another loader or has another format, nothing has changed.

        Parameters
        ----------
        state_dict : dict
            What `state_dict` returned.
        """
        self._engine.load_state_dict(state_dict)

    def __repr__(self) -> str:
        return f"MixtureBatchSampler({self.sampler.components!r}, batch_size={self.batch_size}, {self.layout.name})"


def check_dataset(dataset: Dataset[Any], n: int) -> None:
    """Raise if a dataset has no indices, or another number of items than n."""
    if isinstance(dataset, IterableDataset):
        raise TypeError(
            "A stream has no indices to draw. Use varmix.torch.Interleave for several streams, or a dataset with "
            "__getitem__ and __len__."
        )
    if not isinstance(dataset, Sized):
        raise TypeError(f"{type(dataset).__name__} has no length: a loader draws the indices 0 to len(dataset) - 1.")
    if len(dataset) != n:
        raise ValueError(
            f"The dataset has {len(dataset):,} items and the components are over {n:,} points. Pass one label per "
            f"item, and build a new loader when the dataset has changed."
        )
