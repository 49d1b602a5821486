"""Rounds: feedback becomes learning, in one process or in many."""

import logging
from collections.abc import Callable
from typing import Any

import numpy as np

from varmix._core.draw import Draw
from varmix._core.evidence import Evidence
from varmix._core.validation import FloatArray, as_count
from varmix._sampler import Sampler
from varmix.torch._exchange import Round, Sums, exchange_of, stamp_draw
from varmix.torch._process_group import ProcessLayout
from varmix.torch._tensors import as_doubles

REFUSED_INDEX, STAMP_INDEX, HEAD_WIDTH = (
    0,
    1,
    2,
)  # what stands before the numbers of a round: who refused it, and which draw it is of


class FeedbackSync:
    """Takes feedback, and lets all processes learn from it every `sync_every` rounds, together or not at all.

    Alone, feedback is learned from at once.  With others, what each process has seen is exchanged in one collective,
    after which all hold the same mixture, to the bit.  Between two exchanges mixtures stay, and rounds wait.

    A round that one process refuses, for a loss that is not finite, say, counts on no process.  The one that refused it
    raises its error, and the others one that says so, when they exchange: none waits for another in vain.

    Parameters
    ----------
    sampler
        The sampler of this process.
    layout
        How batches are spread.
    slots
        The most slots that this process has of a batch.
    sync_every
        Rounds between two exchanges.
    learned
        Is called with every receipt that was learned from.
    """

    def __init__(
        self,
        sampler: Sampler,
        layout: ProcessLayout,
        slots: int,
        sync_every: int = 1,
        learned: Callable[[Draw], None] = lambda receipt: None,
    ) -> None:
        self._sampler, self._layout, self._learned = sampler, layout, learned
        self._every = as_count(sync_every, "sync_every")
        self._exchange = exchange_of(sampler, layout)
        # The same for all rounds, also for one that was refused before anything was known of it.
        self._width = HEAD_WIDTH + self._exchange.width(slots, sampler.components.k)
        self._rounds: list[Round | None] = []
        self._packed: list[FloatArray] = []
        if layout.processes is not None and layout.processes.rank == 0:
            logging.getLogger("varmix").info("%d processes exchange %s", layout.world, self.exchanged)

    @property
    def exchanged(self) -> str:
        """What a round sends: nothing, sums or rows."""
        if self._layout.processes is None:
            return "nothing"
        return "sums" if isinstance(self._exchange, Sums) else "rows"

    @property
    def waiting(self) -> int:
        """Number of rounds that are still to be exchanged."""
        return len(self._rounds)

    def update(self, find: Callable[[], tuple[Draw, Draw]], norms: Any, gradient: Any = None) -> None:  # noqa: ANN401
        """Take the norms of this process's part of a draw, and its mean gradient over all processes, if known.

        `find` gives the receipts of the whole and of the part.  It may fail: that is a refusal like any other, which
        the other processes must hear of.
        """
        if self._layout.processes is None:
            self._learn_alone(find()[0], as_doubles(norms, "norms"), gradient)
            return
        refusal: Exception | None = None
        try:
            self._keep(*find(), as_doubles(norms, "norms"), gradient)
        except Exception as error:
            refusal = error
            self._rounds.append(None)
            self._packed.append(np.eye(1, self._width)[0])
        refused = self._exchange_all() if self.waiting >= self._every else 0
        if refusal is not None:
            raise refusal
        _raise_refused(refused)

    def _learn_alone(self, receipt: Draw, norms: FloatArray, gradient: Any) -> None:  # noqa: ANN401
        self._sampler.check(receipt)
        evidence = Evidence.from_draw(receipt, norms)
        mean = self._mean(gradient)
        self._sampler.learn(receipt, evidence, evidence.norms, gradient=mean)
        self._learned(receipt)

    def _mean(self, gradient: Any) -> FloatArray | None:  # noqa: ANN401
        return None if gradient is None else self._sampler.meter.check_gradient(as_doubles(gradient, "gradient"))

    def _keep(self, receipt: Draw, part: Draw, norms: FloatArray, gradient: Any) -> None:  # noqa: ANN401
        self._sampler.check(receipt)
        if any(kept is not None and kept.receipt.serial == receipt.serial for kept in self._rounds):
            raise ValueError(f"Receipt {receipt.serial} waits to be exchanged already: call update once per draw.")
        Evidence.from_draw(part, norms)
        # A copy: norms may be the memory of the user's tensor, and rounds wait.
        round_ = Round(receipt, part, norms.copy(), self._mean(gradient))
        numbers, packed = self._exchange.pack(round_, self._sampler.learned_mixture), np.zeros(self._width)
        packed[STAMP_INDEX] = 0.0 if self._layout.name == "sharded" else stamp_draw(receipt)
        packed[HEAD_WIDTH : HEAD_WIDTH + len(numbers)] = numbers
        self._rounds.append(round_)
        self._packed.append(packed)

    def sync(self) -> None:
        """Exchange the rounds that wait, now; all processes must call it."""
        _raise_refused(self._exchange_all())

    def forget(self) -> None:
        """Give up the rounds that wait: a state was loaded, and they are of the run before it."""
        self._rounds, self._packed = [], []

    def _exchange_all(self) -> int:
        """Exchange what waits in one collective, and learn; give how many rounds only others have refused."""
        processes = self._layout.processes
        if not self._rounds or processes is None:
            return 0
        rounds, packed = self._rounds, self._packed
        self._rounds, self._packed = [], []
        everything = self._exchange.spread(processes, np.concatenate(packed))
        everything = everything.reshape(len(everything), len(rounds), self._width)
        refused = 0
        for i, round_ in enumerate(rounds):
            numbers = everything[:, i]
            if round_ is None:
                continue
            if numbers[:, REFUSED_INDEX].any():
                refused += 1
                continue
            if (numbers[:, STAMP_INDEX] != packed[i][STAMP_INDEX]).any():
                raise RuntimeError(
                    "The processes have made different draws, so their feedback cannot be added up. All need the same "
                    "data, rng, num_workers and prefetch_factor, and must call update for the same batches."
                )
            end = HEAD_WIDTH + self._exchange.width(len(round_.part), self._sampler.components.k)
            self._exchange.learn(self._sampler, round_, numbers[:, HEAD_WIDTH:end])
            self._learned(round_.receipt)
        return refused


def _raise_refused(refused: int) -> None:
    """Raise where other processes have refused rounds that this one has not."""
    if refused:
        raise ValueError(
            "Another process refused the norms of a round, so no process has learned from it. See its error, and skip "
            "batches that diverged on all processes."
        )
