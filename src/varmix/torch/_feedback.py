"""Feedback of many processes: they exchange it and learn from it together."""

import logging
from collections.abc import Callable
from typing import Any

import numpy as np

from varmix._core.draw import Draw
from varmix._core.evidence import Evidence
from varmix._core.validation import FloatArray, as_count
from varmix._sampler import Sampler
from varmix.torch._exchange import Round, Sums, choose_exchange, stamp_draw
from varmix.torch._layout import ProcessLayout
from varmix.torch._process_group import ProcessGroup
from varmix.torch._tensors import as_doubles

# Every packed round begins with a head of two numbers: a flag (1 = rejected here) and a checksum of the draw.
REJECTED_INDEX, STAMP_INDEX, HEAD_WIDTH = 0, 1, 2


class FeedbackSync:
    """The exchange of feedback between processes, every `sync_every` rounds, so that all learn the same from it.

    One collective exchanges what each process has seen, and then all hold the same mixture, to the bit.  Between two
    exchanges the mixture stays, and rounds wait.

    If one process rejects a round, because a loss is not finite for example, no process learns from it.  That process
    raises its own error, and the others raise one at the exchange, so none waits for another forever.

    Parameters
    ----------
    sampler : Sampler
        The sampler of this process.
    processes : ProcessGroup
        The processes.
    layout : ProcessLayout
        How batches are spread over them.
    slots : int
        Slots of a full batch that belong to this process.
    sync_every : int
        Rounds between two exchanges.
    on_learned : callable
        Is called with every receipt that was learned from.
    """

    def __init__(
        self,
        sampler: Sampler,
        processes: ProcessGroup,
        layout: ProcessLayout,
        slots: int,
        sync_every: int,
        on_learned: Callable[[Draw], None],
    ) -> None:
        self._sampler, self._processes, self._layout, self._on_learned = sampler, processes, layout, on_learned
        self._every = as_count(sync_every, "sync_every")
        self._exchange = choose_exchange(sampler, layout)
        # The same for all rounds, also for one that was rejected before its size was known.
        self._width = HEAD_WIDTH + self._exchange.width(slots, sampler.components.k)
        self._rounds: list[Round | None] = []
        self._packed: list[FloatArray] = []
        if processes.rank == 0:
            logging.getLogger("varmix").info("%d processes exchange %s", processes.world, self.exchanged)

    @property
    def exchanged(self) -> str:
        """What a round sends: sums or rows."""
        return "sums" if isinstance(self._exchange, Sums) else "rows"

    @property
    def waiting(self) -> int:
        """Number of rounds that wait for the next exchange."""
        return len(self._rounds)

    def update(self, find: Callable[[], tuple[Draw, Draw]], norms: Any, gradient: Any = None) -> None:  # noqa: ANN401
        """Take the norms of this process's slots of a draw, and the mean gradient of the whole draw, if known.

        `find` returns the receipts of the whole draw and of this process's slots.  If it raises, the round is rejected
        like any other, and the other processes learn about it.
        """
        error: Exception | None = None
        try:
            self._add_round(*find(), as_doubles(norms, "norms"), gradient)
        except Exception as raised:
            error = raised
            self._rounds.append(None)
            packed = np.zeros(self._width)
            packed[REJECTED_INDEX] = 1.0
            self._packed.append(packed)
        rejected = self._exchange_all() if self.waiting >= self._every else 0
        if error is not None:
            raise error
        _raise_rejected(rejected)

    def _add_round(self, receipt: Draw, part: Draw, norms: FloatArray, gradient: Any) -> None:  # noqa: ANN401
        self._sampler.check(receipt)
        if any(each is not None and each.receipt.serial == receipt.serial for each in self._rounds):
            raise ValueError(
                f"Receipt {receipt.serial} already waits for the next exchange. Call update once for every draw."
            )
        # Only to raise if norms are not valid: not every exchange builds the evidence below, and shards scale it.
        Evidence.from_draw(part, norms)
        mean = None if gradient is None else self._sampler.meter.check_gradient(as_doubles(gradient, "gradient"))
        # A copy: norms may share the memory of the user's tensor, and rounds wait.
        round_ = Round(receipt, part, norms.copy(), mean)
        numbers, packed = self._exchange.pack(round_, self._sampler.learned_mixture), np.zeros(self._width)
        packed[STAMP_INDEX] = 0.0 if self._layout.name == "sharded" else stamp_draw(receipt)
        packed[HEAD_WIDTH : HEAD_WIDTH + len(numbers)] = numbers
        self._rounds.append(round_)
        self._packed.append(packed)

    def sync(self) -> None:
        """Exchange the waiting rounds now; all processes must call it."""
        _raise_rejected(self._exchange_all())

    def clear(self) -> None:
        """Drop the waiting rounds: a state was loaded, and they belong to the run before it."""
        self._rounds, self._packed = [], []

    def _exchange_all(self) -> int:
        """Exchange the waiting rounds in one collective and learn from them.

        Return the number of rounds that this process accepted and another rejected.
        """
        if not self._rounds:
            return 0
        rounds, packed = self._rounds, self._packed
        self._rounds, self._packed = [], []
        everything = self._exchange.spread(self._processes, np.concatenate(packed))
        everything = everything.reshape(len(everything), len(rounds), self._width)
        rejected = 0
        for i, round_ in enumerate(rounds):
            numbers = everything[:, i]
            if round_ is None:
                continue
            if numbers[:, REJECTED_INDEX].any():
                rejected += 1
                continue
            if (numbers[:, STAMP_INDEX] != packed[i][STAMP_INDEX]).any():
                raise RuntimeError(
                    "The processes have made different draws, so their feedback cannot be added up. All need the same "
                    "data, rng, num_workers and prefetch_factor, and must call update for the same batches."
                )
            end = HEAD_WIDTH + self._exchange.width(len(round_.part), self._sampler.components.k)
            self._exchange.learn(self._sampler, round_, numbers[:, HEAD_WIDTH:end])
            self._on_learned(round_.receipt)
        return rejected


def _raise_rejected(rejected: int) -> None:
    """Raise `ValueError` if other processes rejected rounds that this one accepted."""
    if rejected:
        raise ValueError(
            "Another process rejected the norms of a round, so no process has learned from it. See the error that it "
            "raised. On all processes, skip a batch that diverged on any of them."
        )
