"""Interleave: streams mixed in proportions that adapt, with weights that keep the objective unchanged."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal, Self, get_args

import numpy as np
from torch.utils.data import default_collate

from varmix._core.draw import Ledger
from varmix._core.state import (
    CheckpointError,
    make_printable,
    read_count,
    read_text,
    require_entries,
    require_format,
    wrap_load_errors,
)
from varmix._core.validation import FloatArray, IntArray, State, as_count
from varmix._sampler import Sampler
from varmix.allocate import Allocation, round_robin
from varmix.components import Sources
from varmix.history import History
from varmix.learners import BarrierNewton, Cautious, Learner
from varmix.meter import GainMeter, Interval
from varmix.torch._engine import OneThreadAtATime
from varmix.torch._settings import FrozenSettings
from varmix.torch._stream_source import Item, StreamReader
from varmix.torch._tensors import (
    TensorDraw,
    as_arrays,
    as_doubles,
    as_tensors,
    device_of,
    unwrap_state,
    wrap_state,
)

OnExhausted = Literal["stop", "restart", "drop"]


class Interleave(FrozenSettings, Iterator[tuple[Any, TensorDraw]]):
    """An iterator over batches of several streams, mixed in proportions that adapt to feedback.

    It yields `(batch, draw)`. The weights `draw.weights` are the target share over the present share of each sample's
    source, so the objective is always that of the target proportions. Pass the receipt back to `update`, with a norm
    for every sample. Until feedback has shown that other proportions pay, samples come in the target proportions, with
    weights of one.

    Use it in the process that trains: inside a worker it would get no feedback. Each source may have its own workers,
    as a `DataLoader(..., batch_size=None, num_workers=2)`.

    If a source ends in the middle of a batch, the batch is dropped and its samples go back to their sources. What
    happens then depends on `on_exhausted`:

    * "stop": the stream ends with the last full batch.
    * "restart": a source is iterated again as soon as it ends, so no batch is dropped. If it has `set_epoch`, that is
      called with the number of every epoch.
    * "drop": the source is dropped, the target shares of the others are scaled to sum to one, and the batch is drawn
      again. The stream ends when the last source cannot fill a batch.

    Where sources end, their last items are left out if they are fewer than a batch needs. All other items come once, in
    the order of their source. There is one stream: a second loop continues where the first was left, and an ended
    stream stays ended.

    With `round_robin` allocation, the default, nothing is random: every batch has the exact share of each source,
    rounded to samples, and later batches make up for the rounding. Pass `stratified` for draws that are unbiased one by
    one.

    Parameters
    ----------
    sources : mapping of str to iterable
        The sources: an iterable of samples for every name.
    batch_size : int
        Samples in a batch.
    target : mapping of str to float, optional
        Wanted share of every source, positive. They are scaled to sum to one. Default: equal shares.
    on_exhausted : {"stop", "restart", "drop"}, default "stop"
        What to do when a source has no more samples.
    learner : Learner, optional
        Learner that adapts the proportions. Default: `varmix.learners.Cautious()`, which keeps the target proportions
        until others pay. `varmix.learners.BarrierNewton()` leaves them from the first batch.
    gamma : float, optional
        Smallest share of the target in the proportions: no weight exceeds `1 / gamma`. Default: 0.1, or the learner's
        own.
    allocate : Allocation, default round_robin
        How the slots of a batch are distributed over sources.
    rng : int or numpy.random.Generator, optional
        Seed, or generator to take one from. Default: a new seed.
    collate_fn : callable, optional
        From a list of samples to a batch. Default: `torch.utils.data.default_collate`.
    history : bool, default False
        Whether to record how shares and gain move, for `varmix.plot`.

    Examples
    --------
    >>> sources = {"calm": [0.1] * 500, "loud": [3.0] * 500}
    >>> interleave = Interleave(sources, 8, target={"calm": 0.8, "loud": 0.2}, on_exhausted="restart")
    >>> for step, (batch, draw) in zip(range(200), interleave):
    ...     loss = (draw.weights * batch).mean()
    ...     interleave.update(draw, batch)
    >>> interleave.shares["loud"] > 0.6
    True
    """

    def __init__(
        self,
        sources: Mapping[str, Iterable[Any]],
        batch_size: int,
        *,
        target: Mapping[str, float] | None = None,
        on_exhausted: OnExhausted = "stop",
        learner: Learner[Any] | None = None,
        gamma: float | None = None,
        allocate: Allocation = round_robin,
        rng: int | np.random.Generator | None = None,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        history: bool = False,
    ) -> None:
        _check_arguments(sources, target, on_exhausted)
        self._batch_size = as_count(batch_size, "batch_size")
        self._on_exhausted = on_exhausted
        self._sources = Sources(sources, target)
        self._readers = [
            StreamReader(name, source, restart=on_exhausted == "restart") for name, source in sources.items()
        ]
        if learner is None:
            learner, gamma = Cautious(BarrierNewton() if gamma is None else BarrierNewton(gamma=gamma)), None
        self._sampler = Sampler(
            self._sources, gamma=gamma, learner=learner, allocate=allocate, rng=rng, history=history
        )
        self._collate = default_collate if collate_fn is None else collate_fn
        self._one_thread = OneThreadAtATime()
        self._freeze()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the sources, in the order of their numbers in `draw.indices`."""
        return self._sources.names

    @property
    def sampler(self) -> Sampler:
        """The sampler that draws the sources."""
        return self._sampler

    @property
    def meter(self) -> GainMeter:
        """The meter of the sampler: `meter.summary()` for loggers, `meter.verdict()` in words."""
        return self._sampler.meter

    @property
    def gain(self) -> Interval:
        """How many times smaller the second moment was than under the target, with a 95 % interval."""
        return self._sampler.gain

    @property
    def history(self) -> History | None:
        """How shares and gain moved; None unless it was built with `history=True`."""
        return self._sampler.history

    @property
    def mixture(self) -> FloatArray:
        """The weights of the components: every source, then the target."""
        return self._sampler.mixture

    @property
    def shares(self) -> dict[str, float]:
        """Present share of the draws of every source; zero for a dropped source."""
        return self._sampler.shares  # type: ignore[return-value]

    @property
    def taken(self) -> dict[str, int]:
        """Number of samples taken from every source so far, over all epochs."""
        return {reader.name: reader.place.taken for reader in self._readers}

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> tuple[Any, TensorDraw]:
        with self._one_thread:
            while not all(reader.ended for reader in self._readers):
                draw = self._sampler.draw(self._batch_size)
                batch = self._fetch(draw.indices)
                if batch is not None:
                    return batch[0], TensorDraw(draw, device_of(batch[0]))
        raise StopIteration

    def _fetch(self, sources: IntArray) -> tuple[Any] | None:
        """Return the batch of these sources, in a tuple; None, with every item put back, if one of them has ended."""
        items: list[tuple[StreamReader, Item]] = []
        try:
            for j in sources.tolist():
                item = self._readers[j].take()
                if item is None:
                    break
                items.append((self._readers[j], item))
            else:
                return (self._collate([item.sample for _, item in items]),)
        except BaseException:
            _put_back(items)
            raise
        _put_back(items)
        self._end(j)
        return None

    def _end(self, source: int) -> None:
        if self._on_exhausted == "drop" and self._sources.alive.sum() > 1:
            self._readers[source].close()  # first: if this is interrupted, the next batch ends the source again
            self._sources.drop(source)
            return
        for reader in self._readers:
            reader.close()

    def update(self, draw: TensorDraw, norms: Any, *, gradient: Any = None) -> None:  # noqa: ANN401
        """Learn from the losses or gradient norms of a batch.

        If it raises, nothing has changed.

        Parameters
        ----------
        draw : TensorDraw
            The receipt that came with the batch.
        norms : torch.Tensor or array-like of shape (m,)
            One non-negative number per sample, not squared and without the weights, of any device and real type.
        gradient : torch.Tensor or array-like, optional
            Gradient of the weighted mean loss, for the meter's noise check. Report it for two consecutive batches now
            and then. Default: None.

        Raises
        ------
        TypeError
            If `draw` is not the receipt of a batch.
        """
        if not isinstance(draw, TensorDraw):
            raise TypeError(
                f"update takes the receipt that came with a batch, then its norms; got {type(draw).__name__}."
            )
        mean = None if gradient is None else as_doubles(gradient, "gradient")
        self._sampler.update(draw.receipt, as_doubles(norms, "norms"), gradient=mean)

    def state_dict(self) -> State:
        """Return the state needed to resume with the same batches, as tensors and plain values.

        For a source without `state_dict` and `load_state_dict` it holds the number of samples taken. Loading reads and
        skips so many, so the source must return the same samples again.

        Returns
        -------
        dict
            The state, for `torch.save` and `load_state_dict`.
        """
        state = {
            "batch_size": self._batch_size,
            "on_exhausted": self._on_exhausted,
            "sampler": as_tensors(self._sampler.state_dict()),
            "sources": {reader.name: reader.state_dict() for reader in self._readers},
        }
        return wrap_state("interleave", state)

    def load_state_dict(self, state: State) -> None:
        """Resume where the state was saved.

        Build the object with the same arguments first, and with sources that nothing was read from. If it raises
        `varmix.CheckpointError`, because the state is damaged, belongs to other streams or has another format, nothing
        has changed here. But sources that were checked before the failing one may have been read from, or have loaded
        their own state.

        Parameters
        ----------
        state : dict
            What `state_dict` returned.
        """
        with wrap_load_errors("an Interleave"):
            saved = self._check_state(state)
            before = self._sampler.state_dict()
            self._sampler.load_state_dict(as_arrays(saved["sampler"]))
            try:
                self._check_ended([reader.check(saved["sources"][reader.name]).ended for reader in self._readers])
                readers = [reader.loaded(saved["sources"][reader.name]) for reader in self._readers]
            except BaseException:
                self._sampler.load_state_dict(before)
                raise
        self._readers = readers

    def _check_state(self, state: State) -> State:
        saved = unwrap_state("interleave", state, "an Interleave")
        require_format(saved, {"batch_size", "on_exhausted", "sampler", "sources"}, "an Interleave")
        require_entries(saved["sources"], set(self.names), "the sources of this Interleave")
        found = {"batch_size": read_count(saved, "batch_size"), "on_exhausted": read_text(saved, "on_exhausted")}
        for name, value in {"batch_size": self._batch_size, "on_exhausted": self._on_exhausted}.items():
            if found[name] != value:
                raise CheckpointError(
                    f"The saved Interleave had {name} = {make_printable(repr(found[name]))}, this one has {value!r}. "
                    f"Build it with the arguments that it had when it was saved."
                )
        taken = sum(reader.check(saved["sources"][reader.name]).place.taken for reader in self._readers)
        drawn = self._batch_size * Ledger.loaded(as_arrays(saved["sampler"])).serial
        if taken > drawn:  # a damaged number could make reading them again take forever
            raise CheckpointError(f"The saved sources have returned {taken} samples, but only {drawn} were drawn.")
        return saved

    def _check_ended(self, ended: list[bool]) -> None:
        """Raise `CheckpointError` if a source was dropped before it ended."""
        for name, over, alive in zip(self.names, ended, self._sources.alive, strict=True):
            if not alive and not (over and self._on_exhausted == "drop"):
                raise CheckpointError(f"The saved source {name!r} was dropped before its end: the state is damaged.")

    def __repr__(self) -> str:
        shares = ", ".join(f"{name}={share:.3g}" for name, share in self.shares.items())
        return f"Interleave({shares})"


def _check_arguments(sources: object, target: object, on_exhausted: object) -> None:
    if not isinstance(sources, Mapping) or not sources:
        raise TypeError(
            f"sources must be a mapping from names to iterables, at least one, got {type(sources).__name__}."
        )
    if not all(isinstance(name, str) for name in sources):
        raise TypeError(f"The names of sources must be strings, got {', '.join(map(repr, sources))}.")
    if target is not None and not isinstance(target, Mapping):
        raise TypeError(f"target must be a mapping from the names of the sources to their shares, got {target!r}.")
    if on_exhausted not in get_args(OnExhausted):
        allowed = ", ".join(map(repr, get_args(OnExhausted)))
        raise ValueError(f"on_exhausted must be one of {allowed}, got {on_exhausted!r}.")


def _put_back(items: list[tuple[StreamReader, Item]]) -> None:
    for reader, item in reversed(items):
        reader.put_back(item)
