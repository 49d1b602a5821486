"""AdaptiveLoader: a DataLoader whose batches are drawn by a mixture."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset

from varmix._core.validation import FloatArray, State
from varmix._sampler import Sampler
from varmix.allocate import Allocation
from varmix.history import History
from varmix.learners import Learner
from varmix.meter import GainMeter, Interval
from varmix.torch._batch_sampler import MixtureBatchSampler
from varmix.torch._process_group import LayoutName, fail_together, processes_of
from varmix.torch._settings import FrozenSettings
from varmix.torch._source import Source, check_dataset
from varmix.torch._tensor_draw import TensorDraw
from varmix.torch._tensors import CPU, device_of


class _LoaderIterator(Iterator[tuple[Any, TensorDraw]]):
    """Pairs the batches of a loader with the receipts of its batch sampler, in their order.

    A batch that cannot be fetched raises the dataset's error, and is lost with its receipt; the next call goes on with
    the next batch, as in PyTorch's own loops.  One that is late (`timeout`) comes with the next call.
    """

    def __init__(self, loader: DataLoader[Any], batches: MixtureBatchSampler) -> None:
        with batches.turn:
            self._fetched, self._batches, self._ahead = iter(loader), batches, loader.num_workers > 0
            # With workers the pass has begun already, for they fetch ahead; else it begins with its first batch.
            self._number = batches.live if self._ahead else None

    def __next__(self) -> tuple[Any, TensorDraw]:
        with self._batches.turn:
            if self._number is not None:  # before a batch is taken: with persistent workers it is the newer loop's
                self._batches.check(self._number)
            try:
                batch = next(self._fetched)
            except StopIteration:
                self._batches.end()
                raise
            except BaseException:
                self._batches.lose(self._taken())
                raise
            finally:
                self._number = self._batches.live if self._number is None else self._number
            return batch, self._batches.arrived(self._taken(), device_of(batch))

    def _taken(self) -> int:
        """Give how many batches the loader has taken out of its queue, or fetched itself: come, or lost by an error.

        Which of them an error leaves to come, PyTorch alone knows: one that waits too long for a worker loses none.
        """
        return int(self._fetched._rcvd_idx) if self._ahead else self._batches.given


class TensorRows(TensorDataset):  # type: ignore[misc]
    """A `TensorDataset` whose batches are rows of its tensors: what item by item and `default_collate` come to.

    PyTorch's own way takes a slice of every tensor for every item and stacks them, ten times the work.

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
        """Those that the dataset has now."""
        return tuple(self.dataset.tensors)

    def __getitems__(self, indices: list[int]) -> list[torch.Tensor]:
        """Give the batch of these items."""
        places = torch.tensor(indices, device=CPU)
        return [tensor[places] for tensor in self.tensors]


def as_it_is(batch: Any) -> Any:  # noqa: ANN401
    """Give a batch that needs no collating."""
    return batch


def choose_quickest(
    dataset: Dataset[Any], collate_fn: Callable[[list[Any]], Any] | None
) -> tuple[Dataset[Any], Callable[[list[Any]], Any] | None]:
    """Give the dataset and the collate function with which batches, the same ones, come the quickest."""
    if type(dataset) is TensorDataset and collate_fn is None:
        return TensorRows(dataset), as_it_is
    return dataset, collate_fn


class AdaptiveLoader(FrozenSettings, also=DataLoader):
    """Loads batches that a mixture draws, each with its receipt, and adapts the mixture to feedback.

        for (x, y), draw in loader:
            losses = criterion(model(x), y)                  # reduction="none"
            (draw.weights * losses).mean().backward()
            loader.update(draw, losses)

    Batches come from a real `torch.utils.data.DataLoader`, with its workers, prefetching and pinned memory (those of a
    `TensorDataset` are taken from its tensors at once, which is quicker than item by item).  Workers
    fetch `lag = num_workers * prefetch_factor` batches ahead, so feedback reaches the draws that much later.  Every
    batch has its own receipt, with the probabilities that it was drawn with, so the weights are right all the same.

    A pass over the loader draws as many points as there are.  Given labels, each comes exactly once, as with
    `shuffle=True`, until feedback has shown that a mixture of the groups pays; then once on average, some groups more
    often and others less.  (A target other than uniform asks for other numbers from the beginning.)

    Parameters
    ----------
    dataset
        A dataset with `__getitem__` and `__len__`.
    components
        Labels of the items, which means `varmix.Groups(labels, replacement=False)`; or a family; or a sampler.
    batch_size
        Items in a batch, of all processes together.
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
        Seed, generator or None.
    steps
        Batches in a pass, all full.  Default: as many as draw `len(dataset)` items, the last one smaller.
    drop_last
        Leave a last smaller batch out.
    layout, group, sync_every
        Training on many processes: see `MixtureBatchSampler`.
    history
        Whether to keep how shares and gain move, for `varmix.plot`.  Default: False.
    num_workers, prefetch_factor, collate_fn, pin_memory, persistent_workers, worker_init_fn, generator
        As in `torch.utils.data.DataLoader`, and so are `timeout`, `multiprocessing_context` and `pin_memory_device`.
    in_order
        Must be True: receipts and batches are paired by their order.

    Attributes
    ----------
    dataset
        What is loaded from.
    batches
        The `MixtureBatchSampler` behind it.
    loader
        The `DataLoader` inside it.

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
        num_workers: int = 0,
        prefetch_factor: int | None = None,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        in_order: bool = True,
        **loading: Any,  # noqa: ANN401
    ) -> None:
        processes = processes_of(layout, group)
        with fail_together(processes):
            if not in_order:
                raise ValueError(
                    "in_order=False would give batches in the order in which workers are done with them, and their "
                    "receipts could not be told apart. Leave it True."
                )
            taken = {"shuffle", "sampler", "batch_sampler"} & loading.keys()
            if taken:
                raise TypeError(f"{', '.join(sorted(taken))}: what is drawn is up to the loader. Leave it out.")
        self.batches = MixtureBatchSampler(
            components,
            batch_size,
            learner=learner,
            gamma=gamma,
            allocate=allocate,
            rng=rng,
            steps=steps,
            drop_last=drop_last,
            layout=layout,
            group=group,
            sync_every=sync_every,
            history=history,
        )
        self.batches.follow()
        with fail_together(processes):
            check_dataset(dataset, self.sampler.components.space.n)
            self.dataset = dataset
            fetched, collate_fn = choose_quickest(dataset, collate_fn)
            self.loader: DataLoader[Any] = DataLoader(
                fetched,
                batch_sampler=self.batches,
                num_workers=num_workers,
                prefetch_factor=prefetch_factor,
                collate_fn=collate_fn,
                **loading,
            )
        self._settle_down()

    @property
    def sampler(self) -> Sampler:
        """The sampler that draws."""
        return self.batches.sampler

    @property
    def meter(self) -> GainMeter:
        """Whether it is paying off: `meter.summary()` for loggers, `meter.verdict()` in words."""
        return self.batches.meter

    @property
    def gain(self) -> Interval:
        """How many times smaller the second moment was than under uniform sampling, with a 95 % interval."""
        return self.batches.gain

    @property
    def history(self) -> History | None:
        """How shares and gain moved; None unless it was built with `history=True`."""
        return self.batches.history

    @property
    def mixture(self) -> FloatArray:
        """The mixture that the next draw is made with."""
        return self.batches.mixture

    @property
    def learned_mixture(self) -> FloatArray:
        """The mixture that was learned, also while the learner plays plain shuffling."""
        return self.batches.learned_mixture

    @property
    def batch_size(self) -> int:
        """Items in a batch, of all processes together."""
        return self.batches.batch_size

    @property
    def lag(self) -> int:
        """Batches that workers are ahead of the user, and feedback so behind the draws."""
        return int(self.loader.num_workers * (self.loader.prefetch_factor or 0))

    @property
    def epoch(self) -> int:
        """Number of the present pass, or of the next if none has begun."""
        return self.batches.epoch

    def set_epoch(self, epoch: int) -> None:
        """Say which number the next pass has; the order of draws goes on by itself."""
        self.batches.set_epoch(epoch)

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[tuple[Any, TensorDraw]]:
        check_dataset(self.dataset, self.sampler.components.space.n)
        return _LoaderIterator(self.loader, self.batches)

    def update(self, draw: TensorDraw, norms: Any, *, gradient: Any = None) -> None:  # noqa: ANN401
        """Learn from the norms of a batch: see `MixtureBatchSampler.update`."""
        self.batches.update(draw, norms, gradient=gradient)

    def sync(self) -> None:
        """Exchange the feedback that waits, on all processes: see `MixtureBatchSampler.sync`."""
        self.batches.sync()

    def state_dict(self) -> State:
        """Give all that is needed to go on with the same batches and mixture, in the middle of a pass too.

        Tensors and plain values only, so that `torch.load(..., weights_only=True)` takes it.
        """
        return self.batches.state_dict()

    def load_state_dict(self, state_dict: State) -> None:
        """Go on where the state was saved, or refuse it and stay as before; build it with the same arguments first.

        The next loop over the loader gives the rest of the pass that was under way.
        """
        self.batches.load_state_dict(state_dict)

    def __repr__(self) -> str:
        return f"AdaptiveLoader({self.sampler.components!r}, batch_size={self.batch_size}, lag={self.lag})"
