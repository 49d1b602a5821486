"""AdaptiveLoader: a DataLoader whose batches are drawn by a mixture.

The path of a batch, and of its feedback back to the sampler:

    for batch, draw in loader:           _LoaderIterator
        DataLoader                         |  asks its `batch_sampler` for indices, with workers `lag` batches ahead
          MixtureBatchSampler              |  the `batch_sampler`; it has the engine of the loader
            BatchEngine.index_lists        |  keeps the receipt in a ReceiptQueue
              Sampler.draw -> Draw         |  indices, weights and densities
        -> batch                           |  fetched by the DataLoader
        -> TensorDraw                      |  ReceiptQueue.pop: the oldest receipt belongs to this batch
    loader.update(draw, norms)           BatchEngine.update
        one process: Sampler.update
        several: FeedbackSync.update       |  exchanges the feedback, then Sampler.learn
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset

from varmix._core.draw import Draw
from varmix._core.validation import FloatArray, State
from varmix._sampler import Sampler
from varmix.allocate import Allocation
from varmix.history import History
from varmix.learners import Learner
from varmix.meter import GainMeter, Interval
from varmix.torch._batch_sampler import MixtureBatchSampler, check_dataset
from varmix.torch._engine import BatchEngine, LoaderSource
from varmix.torch._layout import LayoutName, fail_together, find_processes
from varmix.torch._settings import FrozenSettings
from varmix.torch._tensors import CPU, TensorDraw, device_of
from varmix.torch._torch_internals import count_batches_taken


class _LoaderIterator(Iterator[tuple[Any, TensorDraw]]):
    """The batches of a loader, paired with their receipts by order.

    If a batch cannot be fetched, the error of the dataset is raised, the batch and its receipt are lost, and the next
    call continues with the next batch, as in a loop over a `DataLoader`. After a timeout the next call returns the late
    batch.
    """

    def __init__(self, loader: DataLoader[Any], engine: BatchEngine) -> None:
        with engine.one_thread:
            self._batches, self._engine, self._has_workers = iter(loader), engine, loader.num_workers > 0
            self._taken = 0
            # A loop gets its number when its first indices are drawn. With workers, `iter` above has already drawn
            # them. Without workers, the first `__next__` draws them, and sets the number then.
            self._loop = engine.progress.loop if self._has_workers else None

    def __next__(self) -> tuple[Any, TensorDraw]:
        engine = self._engine
        # The DataLoader takes this lock again in the same thread, when it asks for indices.
        with engine.one_thread:
            if self._loop is not None:
                # Before a batch is taken: with persistent workers an old iterator would take batches of the newer loop,
                # because both share the same DataLoader iterator.
                engine.progress.check_loop(self._loop)
            try:
                batch = next(self._batches)
            except StopIteration:
                engine.progress.finish()
                raise
            except BaseException:
                self._take_receipts()
                raise
            finally:
                if self._loop is None:  # also if the batch could not be fetched: its indices were drawn
                    self._loop = engine.progress.loop
            receipt = self._take_receipts()
            if receipt is None:
                raise RuntimeError(
                    "The DataLoader returned a batch that this loop did not draw. Iterate over the AdaptiveLoader "
                    "itself, in one loop at a time."
                )
            return batch, engine.make_tensor_draw(receipt, device_of(batch))

    def _take_receipts(self) -> Draw | None:
        """Take the receipts of all batches that the `DataLoader` has returned or lost; return the newest."""
        receipts = self._engine.progress.receipts
        count = receipts.issued
        if self._has_workers:  # `issued` also counts batches that workers have fetched ahead
            taken = count_batches_taken(self._batches)
            count, self._taken = taken - self._taken, taken
        receipt = None
        for _ in range(count):
            receipt = receipts.pop()
        return receipt


class TensorRows(Dataset[Any]):  # type: ignore[misc]
    """A dataset around a `TensorDataset` that returns a batch as rows of its tensors.

    The batch is equal to that of `default_collate`. PyTorch takes a slice of every tensor for every item and stacks
    them, which is ten times as slow.

    Examples
    --------
    >>> TensorRows(TensorDataset(torch.arange(10), torch.zeros(10, 2))).__getitems__([3, 5])
    [tensor([3, 5]), tensor([[0., 0.],
            [0., 0.]])]
    """

    def __init__(self, dataset: TensorDataset) -> None:
        self.dataset = dataset

    @property
    def tensors(self) -> tuple[torch.Tensor, ...]:
        """The tensors of the dataset, which may have been replaced since."""
        return tuple(self.dataset.tensors)

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, ...]:
        return tuple(self.dataset[index])

    def __getitems__(self, indices: list[int]) -> list[torch.Tensor]:
        """Return the batch of these items."""
        places = torch.tensor(indices, device=CPU)
        return [tensor[places] for tensor in self.tensors]


def return_batch(batch: Any) -> Any:  # noqa: ANN401
    """Return a batch as it is: the collate function of `TensorRows`."""
    return batch


def speed_up_tensors(
    dataset: Dataset[Any], collate_fn: Callable[[list[Any]], Any] | None
) -> tuple[Dataset[Any], Callable[[list[Any]], Any] | None]:
    """Wrap a plain `TensorDataset` without a collate function in `TensorRows`; return others as they are."""
    if type(dataset) is TensorDataset and collate_fn is None:
        return TensorRows(dataset), return_batch
    return dataset, collate_fn


class AdaptiveLoader(FrozenSettings, other_settings=DataLoader):
    """A replacement for `DataLoader(shuffle=True)`: a mixture that adapts to feedback draws its batches.

    Pass labels, train on batches that come with a receipt, and report losses with one `update` call:

        for (x, y), draw in loader:
            losses = criterion(model(x), y)                  # reduction="none"
            (draw.weights * losses).mean().backward()
            loader.update(draw, losses)

    A `torch.utils.data.DataLoader` inside fetches the batches, with its workers, prefetching and pinned memory. Batches
    of a `TensorDataset` without a `collate_fn` are indexed from its tensors in one operation, which is faster than item
    by item.

    Workers fetch `lag = num_workers * prefetch_factor` batches ahead, so a draw misses the feedback of the `lag`
    batches before it. Every batch has its own receipt with the densities that it was drawn with, so the weights are
    exact.

    Unless you set `steps` or `drop_last`, an epoch draws as many points as there are. With labels, each point then
    comes exactly once, as with `shuffle=True`, until feedback has shown that a mixture of the groups pays. From then on
    the points of some groups come more often than once and those of others less; the average over all points stays one.
    With another target, points come in proportion to it from the start.

    Parameters
    ----------
    dataset : torch.utils.data.Dataset
        A dataset with `__getitem__` and `__len__`.
    components : array-like of shape (n,), Family or Sampler
        Labels of the items, which means `varmix.Groups(labels, replacement=False)`; or a family; or a sampler.
    batch_size : int
        Items in a batch, of all processes together.
    learner : Learner, optional
        Learner that adapts the mixture. Default: `varmix.learners.Cautious()` for groups without replacement, which
        plays the uniform component until the mixture pays; otherwise `varmix.learners.BarrierNewton()`, which plays
        the mixture from the first batch.
    gamma : float, optional
        Smallest share of the uniform component: no weight exceeds `1 / gamma`; with `layout="sharded"`, times
        `batches.layout.scale`. Default: 0.1, or the learner's own.
    allocate : Allocation, optional
        How the slots of a batch are distributed over components. Default: `varmix.allocate.stratified`. For groups
        without replacement: with `Cautious`, `Shuffled(n)`, which deals slots to groups by chance as shuffling does;
        with another learner, `round_robin`, which gives every batch the exact share of each group.
    rng : int or numpy.random.Generator, optional
        Seed, or generator to take one from. Default: a new seed.
    steps : int, optional
        Batches in an epoch, all full. Default: enough for `len(dataset)` items; the last may be smaller. On several
        processes the last batch is cut to a multiple of their number; with shards it is left out unless it is the only
        one.
    drop_last : bool, default False
        Leave a smaller last batch out.
    layout : {"auto", "replicated", "sharded", "alone"}, default "auto"
        How batches are spread over processes: see `MixtureBatchSampler`.
    group : torch.distributed.ProcessGroup, optional
        The process group. Default: all processes.
    sync_every : int, default 1
        Rounds of feedback between two exchanges of processes.
    history : bool, default False
        Whether to record how shares and gain move, for `varmix.plot`.
    num_workers : int, default 0
        As in `torch.utils.data.DataLoader`.
    prefetch_factor : int, optional
        As in `torch.utils.data.DataLoader`. Default: 2 with workers.
    collate_fn : callable, optional
        As in `torch.utils.data.DataLoader`. Default: `torch.utils.data.default_collate`.
    in_order : bool, default True
        Must be True: receipts and batches are matched by their order.
    **loading : Any
        Passed to `torch.utils.data.DataLoader`: `pin_memory`, `persistent_workers`, `worker_init_fn`, `generator`,
        `timeout`, `multiprocessing_context` and `pin_memory_device`.

    Attributes
    ----------
    dataset : torch.utils.data.Dataset
        The dataset.
    batches : MixtureBatchSampler
        The batch sampler of this loader. On many processes, `batches.layout` says how batches are spread, and
        `batches.exchanged` says what processes send.
    loader : torch.utils.data.DataLoader
        The loader inside.

    Examples
    --------
    >>> import torch
    >>> from torch.utils.data import TensorDataset
    >>> labels = torch.arange(1000) % 10
    >>> data = TensorDataset(torch.randn(1000, 5), labels)
    >>> loader = AdaptiveLoader(data, labels, batch_size=50, rng=0)
    >>> for epoch in range(3):
    ...     for (x, y), draw in loader:
    ...         losses = torch.where(y == 3, 10.0, 1.0)
    ...         loader.update(draw, losses)
    >>> int(loader.mixture[:-1].argmax())
    3
    """

    def __init__(
        self,
        dataset: Dataset[Any],
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
        num_workers: int = 0,
        prefetch_factor: int | None = None,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        in_order: bool = True,
        **loading: Any,  # noqa: ANN401
    ) -> None:
        processes = find_processes(layout, group)
        with fail_together(processes):
            _check_loading(in_order, loading)
        self._engine = BatchEngine(
            components,
            batch_size,
            tracks_arrival=True,
            learner=learner,
            gamma=gamma,
            allocate=allocate,
            rng=rng,
            steps=steps,
            drop_last=drop_last,
            layout=layout,
            processes=processes,
            sync_every=sync_every,
            history=history,
        )
        with fail_together(processes):
            check_dataset(dataset, self.sampler.components.space.n)
            self.dataset = dataset
            self.batches = MixtureBatchSampler._of_engine(self._engine)
            fetched, collate_fn = speed_up_tensors(dataset, collate_fn)
            self.loader: DataLoader[Any] = DataLoader(
                fetched,
                batch_sampler=self.batches,
                num_workers=num_workers,
                prefetch_factor=prefetch_factor,
                collate_fn=collate_fn,
                **loading,
            )
        self._freeze()

    @property
    def sampler(self) -> Sampler:
        """The sampler that draws."""
        return self._engine.sampler

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
    def batch_size(self) -> int:
        """Items in a batch, of all processes together."""
        return self._engine.batch_size

    @property
    def lag(self) -> int:
        """Number of batches that workers fetch ahead: a draw misses the feedback of this many batches."""
        return int(self.loader.num_workers * (self.loader.prefetch_factor or 0))

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
        """Batches of the present epoch that have come to you, those that failed to load included.

        Batches that workers have fetched ahead do not count. A loaded state restores the position.
        """
        return self._engine.progress.position

    @property
    def batches_left(self) -> int:
        """Batches that the next loop returns if the state is saved now and loaded.

        In the middle of an epoch these are the batches after `position`, otherwise those of a whole epoch. If you leave
        a loop by `break`, the epoch counts as unfinished until the next loop begins a new one. Inside the loop, at the
        last batch, it is zero.
        """
        return self._engine.progress.batches_left

    def __len__(self) -> int:
        return self._engine.progress.plan.batches

    def __iter__(self) -> Iterator[tuple[Any, TensorDraw]]:
        check_dataset(self.dataset, self.sampler.components.space.n)
        return _LoaderIterator(self.loader, self._engine)

    def update(self, draw: TensorDraw, norms: Any, *, gradient: Any = None) -> None:  # noqa: ANN401
        """Learn from the losses or gradient norms of a batch.

        If it raises on a single process, nothing has changed.

        On several processes all must call it for the same batches. If one of them rejects its norms, no process learns
        from the batch: that process raises its error, and the others raise one at the exchange. Then all of them may
        call `update` again for this batch.

        Parameters
        ----------
        draw : TensorDraw
            The receipt that came with the batch.
        norms : torch.Tensor or array-like of shape (m,)
            One non-negative number per example, not squared and without the weights, on any device and of any real
            type.
        gradient : torch.Tensor or array-like, optional
            Gradient of the weighted mean loss, for the meter's noise check. Report it for two consecutive batches now
            and then. Default: None.
        """
        self._engine.update(draw, norms, gradient)

    def sync(self) -> None:
        """Exchange the feedback that waits, with `sync_every` above one; call it on all processes."""
        self._engine.sync()

    def state_dict(self) -> State:
        """Return the state needed to resume with the same batches and mixture, also in the middle of an epoch.

        It holds tensors and plain values only, so `torch.load(..., weights_only=True)` accepts it.

        Returns
        -------
        dict
            The state, for `torch.save` and `load_state_dict`.
        """
        return self._engine.state_dict()

    def load_state_dict(self, state_dict: State) -> None:
        """Resume where the state was saved; the next loop returns the rest of the epoch.

        The rest is empty if the state was saved inside the loop at the last batch. Then the next loop returns no batch,
        and the one after it begins a new epoch.

        Build the loader with the same arguments first. If this method raises `varmix.CheckpointError`, because the
        state is damaged, belongs to another loader or has another format, nothing has changed.

        Parameters
        ----------
        state_dict : dict
            What `state_dict` returned.
        """
        self._engine.load_state_dict(state_dict)

    def __repr__(self) -> str:
        return f"AdaptiveLoader({self.sampler.components!r}, batch_size={self.batch_size}, lag={self.lag})"


def _check_loading(in_order: bool, loading: dict[str, Any]) -> None:
    """Raise for arguments of `DataLoader` that would choose or reorder batches."""
    if not in_order:
        raise ValueError(
            "in_order=False returns batches in the order in which workers finish them, so that they cannot be matched "
            "with their receipts. Leave it True."
        )
    taken = {"shuffle", "sampler", "batch_sampler"} & loading.keys()
    if taken:
        raise TypeError(f"AdaptiveLoader draws the batches itself, so it does not take {', '.join(sorted(taken))}.")
