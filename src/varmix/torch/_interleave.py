"""Interleave: streams mixed by proportions that adapt, with weights that keep the objective as it was."""

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
from varmix.torch._epoch import OneThreadAtATime
from varmix.torch._settings import FrozenSettings
from varmix.torch._stream_source import Item, StreamReader
from varmix.torch._tensor_draw import TensorDraw
from varmix.torch._tensors import as_arrays, as_doubles, as_tensors, device_of, unwrap_state, wrap_state

OnExhausted = Literal["stop", "restart", "drop"]


class Interleave(FrozenSettings, Iterator[tuple[Any, TensorDraw]]):
    """Batches of several streams, whose proportions adapt to feedback; an iterator of `(batch, draw)`.

    The weights of a batch, `draw.weights`, are target over present share: the objective is always that of the target's
    proportions, whatever is drawn.  `update` takes the receipt back with a norm for every sample.  Until feedback has
    shown that other proportions pay, samples come in those of the target, with weights of one.

    It belongs into the process that trains: inside a worker it would never hear of feedback.  Each source may have
    workers of its own, as a `DataLoader(..., batch_size=None, num_workers=2)`.

    A source that ends in the middle of a batch leaves a receipt that cannot be served.  It is thrown away, and all that
    was read for it is put back.  What then happens is for `on_exhausted` to say:

    * "stop": the stream ends, with the last full batch.
    * "restart": there is no such batch, since a source is iterated anew as soon as it ends.  One that has `set_epoch`
      is told the number of every pass.
    * "drop": the source is dropped, the target is taken over those that are left, and the batch is drawn again.  The
      stream ends when the last source cannot fill a batch.

    Where sources end, their last items, fewer than a batch asks of them, are left out; all others are given once, in
    the order of their source.  The stream is one: a second loop goes on where the first was left, and one that has
    ended stays so.

    With `round_robin` allocation, the default, nothing is random: every batch holds of each source what is due to it,
    within a sample or two that the next batches make up for.  For draws that are unbiased one by one give `stratified`.

    Parameters
    ----------
    sources
        Name and iterable of samples, of every source.
    batch_size
        Samples in a batch.
    target
        Wanted share of every source, positive; they are normalised.  Default: equal shares.
    on_exhausted
        What to do when a source has no more samples: "stop", "restart" or "drop".
    learner
        How the proportions adapt.  Default: `varmix.learners.Cautious()`, which keeps to the target until other
        proportions pay; `varmix.learners.BarrierNewton()` leaves it from the first batch on.
    gamma
        Smallest share of the target in the proportions: no weight exceeds 1 / gamma.  Default: 0.1, or the learner's
        own.
    allocate
        How the slots of a batch are given to sources.
    rng
        Seed, generator or None.
    collate_fn
        From a list of samples to a batch.  Default: `torch.utils.data.default_collate`.
    history
        Whether to keep how shares and gain move, for `varmix.plot`.  Default: False.

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
        self._feeds = [
            StreamReader(name, source, restart=on_exhausted == "restart") for name, source in sources.items()
        ]
        if learner is None:
            learner, gamma = Cautious(BarrierNewton() if gamma is None else BarrierNewton(gamma=gamma)), None
        self._sampler = Sampler(
            self._sources, gamma=gamma, learner=learner, allocate=allocate, rng=rng, history=history
        )
        self._collate = default_collate if collate_fn is None else collate_fn
        self._turn = OneThreadAtATime()
        self._settle_down()

    @property
    def names(self) -> tuple[str, ...]:
        """The sources, in the order of their numbers in `draw.indices`."""
        return self._sources.names

    @property
    def sampler(self) -> Sampler:
        """What draws the sources."""
        return self._sampler

    @property
    def meter(self) -> GainMeter:
        """The sampler's meter: `meter.summary()` for loggers, `meter.verdict()` in words."""
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
        """The present share of every source in the draws; that of one that was dropped is zero."""
        return self._sampler.shares  # type: ignore[return-value]

    @property
    def taken(self) -> dict[str, int]:
        """How many samples every source has given so far, over all its passes."""
        return {feed.name: feed.place.taken for feed in self._feeds}

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> tuple[Any, TensorDraw]:
        with self._turn:
            while not all(feed.ended for feed in self._feeds):
                draw = self._sampler.draw(self._batch_size)
                batch = self._fetch(draw.indices)
                if batch is not None:
                    return batch[0], TensorDraw(draw, device_of(batch[0]))
        raise StopIteration

    def _fetch(self, sources: IntArray) -> tuple[Any] | None:
        """Give the batch of these sources, in a tuple, or None where one of them has ended; then nothing is taken."""
        items: list[tuple[StreamReader, Item]] = []
        try:
            for j in sources.tolist():
                item = self._feeds[j].take()
                if item is None:
                    break
                items.append((self._feeds[j], item))
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
            self._feeds[source].close()  # first: what is interrupted here ends once more with the next batch
            self._sources.drop(source)
            return
        for feed in self._feeds:
            feed.close()

    def update(self, draw: TensorDraw, norms: Any, *, gradient: Any = None) -> None:  # noqa: ANN401
        """Learn from the norms of a batch's samples (losses or gradient norms, never squared), of any device and type.

        The mean gradient of the batch, flat, is for the meter's noise check: of two consecutive batches now and then.
        Feedback that is refused leaves everything as it was.
        """
        if not isinstance(draw, TensorDraw):
            raise TypeError(
                f"update takes the receipt that came with a batch, then its norms; got {type(draw).__name__}."
            )
        mean = None if gradient is None else as_doubles(gradient, "gradient")
        self._sampler.update(draw.receipt, as_doubles(norms, "norms"), gradient=mean)

    def state_dict(self) -> State:
        """Give all that is needed to go on with the same batches, as tensors and plain values.

        Of a source without `state_dict` and `load_state_dict` that is the number of samples taken: they are read again
        and passed over, so it must give the same ones.
        """
        state = {
            "batch_size": self._batch_size,
            "on_exhausted": self._on_exhausted,
            "sampler": as_tensors(self._sampler.state_dict()),
            "sources": {feed.name: feed.state_dict() for feed in self._feeds},
        }
        return wrap_state("interleave", state)

    def load_state_dict(self, state: State) -> None:
        """Resume where `state` was saved.

        Build the object with the same arguments and with sources that nothing was read from.  What it cannot undo, if
        a later source is refused, is that others were read from, or were given a state of their own.

        Raises
        ------
        CheckpointError
            If the state is damaged, of other streams or of another format.  Everything is then as before.
        """
        with wrap_load_errors("an Interleave"):
            saved = self._checked(state)
            before = self._sampler.state_dict()
            self._sampler.load_state_dict(as_arrays(saved["sampler"]))
            try:
                self._check_ended([feed.check(saved["sources"][feed.name]).ended for feed in self._feeds])
                feeds = [feed.loaded(saved["sources"][feed.name]) for feed in self._feeds]
            except BaseException:
                self._sampler.load_state_dict(before)
                raise
        self._feeds = feeds

    def _checked(self, state: State) -> State:
        saved = unwrap_state("interleave", state, "an Interleave")
        require_format(saved, {"batch_size", "on_exhausted", "sampler", "sources"}, "an Interleave")
        require_entries(saved["sources"], set(self.names), "the sources of this Interleave")
        found = {"batch_size": read_count(saved, "batch_size"), "on_exhausted": read_text(saved, "on_exhausted")}
        for name, value in {"batch_size": self._batch_size, "on_exhausted": self._on_exhausted}.items():
            if found[name] != value:
                raise CheckpointError(
                    f"The saved Interleave had {name} = {make_printable(repr(found[name]))}, this one has "
                    f"{value!r}. Build "
                    f"it as it was when it was saved."
                )
        taken = sum(feed.check(saved["sources"][feed.name]).place.taken for feed in self._feeds)
        drawn = self._batch_size * Ledger.loaded(as_arrays(saved["sampler"])).serial
        if taken > drawn:  # before they are read again, which might take for ever
            raise CheckpointError(f"The saved sources have given {taken} samples, but only {drawn} were ever drawn.")
        return saved

    def _check_ended(self, ended: list[bool]) -> None:
        """Refuse a state that draws nothing from a source which has not ended."""
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
    for feed, item in reversed(items):
        feed.give_back(item)
