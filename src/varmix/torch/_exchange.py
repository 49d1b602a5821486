"""What processes exchange about a round: sums if the learner needs no more, else rows.

* sums: value and gradient of the cost at the learned mixture, k + 7 numbers, in one all-reduce.  For shards also the
  largest weight of every process.
* rows: every norm, in one all-gather.  For shards also the ratios and densities, which other processes do not know.
"""

from typing import NamedTuple, Protocol, final
from zlib import crc32

import numpy as np

from varmix._core.draw import Draw
from varmix._core.evidence import Evidence
from varmix._core.validation import FloatArray
from varmix._sampler import Sampler
from varmix.meter import Moments
from varmix.torch._layout import ProcessLayout
from varmix.torch._process_group import ProcessGroup


class Round(NamedTuple):
    """One update: the receipt of the whole draw and of this process's slots, their norms, and the mean gradient."""

    receipt: Draw
    part: Draw
    norms: FloatArray
    gradient: FloatArray | None


class Exchange(Protocol):
    """An exchange of rounds: it packs them into rows of numbers, spreads these, and teaches them to a sampler."""

    def width(self, m: int, k: int) -> int:
        """Return how many numbers describe a round with m slots in this process."""
        ...

    def pack(self, round_: Round, mixture: FloatArray) -> FloatArray:
        """Return these numbers."""
        ...

    def spread(self, processes: ProcessGroup, packed: FloatArray) -> FloatArray:
        """Exchange the numbers (p,) of this process in one collective, and return (members, p)."""
        ...

    def learn(self, sampler: Sampler, round_: Round, numbers: FloatArray) -> None:
        """Teach the sampler and its meter the numbers (members, numbers) of a round."""
        ...


@final
class Sums:
    """An exchange of value, gradient and moments: the mean over processes, as one member."""

    def __init__(self, layout: ProcessLayout) -> None:
        self._layout, self._own = layout, layout.name == "sharded"
        self._parts = layout.world if self._own else 1  # receipts to a batch

    def width(self, m: int, k: int) -> int:
        """Count value, gradient and four moments; for shards also the largest weight of every process."""
        return k + 5 + (self._layout.world if self._own else 0)

    def pack(self, round_: Round, mixture: FloatArray) -> FloatArray:
        """Return value and gradient at the mixture that the learner steps from, and the moments."""
        scale = self._layout.scale
        evidence = Evidence.from_draw(round_.part, scale * round_.norms)
        seen = Moments.of(evidence)
        moments = seen.uniform, seen.mixture, scale * seen.weight, scale**2 * seen.square
        return np.array([evidence.value(mixture), *evidence.gradient(mixture), *moments, *self._largest(seen)])

    def _largest(self, seen: Moments) -> FloatArray:
        """Return zeros with the largest weight at this process's place, so that the sum over processes has them all."""
        if not self._own or self._layout.processes is None:
            return np.empty(0)
        row = np.zeros(self._layout.world)
        row[self._layout.processes.rank] = self._layout.scale * seen.largest
        return row

    def spread(self, processes: ProcessGroup, packed: FloatArray) -> FloatArray:
        """Return the mean over processes: all have equally many slots, so it is the mean over slots."""
        return processes.add_up(packed)[None] / processes.world

    def learn(self, sampler: Sampler, round_: Round, numbers: FloatArray) -> None:
        """Learn from one row of evidence that has this value and gradient."""
        value, gradient, sums, largest = np.split(numbers[0], np.cumsum([1, sampler.components.k, 4]))
        uniform, mixture, weight, square = sums.tolist()
        evidence = Evidence.from_sums(float(value[0]), gradient, at_uniform=uniform)
        # `largest` is a mean over processes, and only one of them had a number at each place.
        most = self._layout.world * largest.max() if self._own else 1.0 / round_.receipt.density.min()
        moments = Moments(self._parts * len(round_.receipt), uniform, mixture, weight, square, float(most))
        norms = round_.norms if self._own else None
        sampler.learn(round_.receipt, evidence, norms, moments=moments, gradient=round_.gradient)


@final
class SharedRows:
    """An exchange of the norms of all slots: every process holds the receipt of the whole batch."""

    def width(self, m: int, k: int) -> int:
        """Count one norm per slot."""
        return m

    def pack(self, round_: Round, mixture: FloatArray) -> FloatArray:
        """Return the norms of this process's slots."""
        return round_.norms

    def spread(self, processes: ProcessGroup, packed: FloatArray) -> FloatArray:
        """Gather the numbers of all processes."""
        return processes.gather(packed)

    def learn(self, sampler: Sampler, round_: Round, numbers: FloatArray) -> None:
        """Learn as one process would, from the norms in the order of the slots."""
        norms = np.ascontiguousarray(numbers.T).ravel()  # slot s belongs to process s modulo their number
        evidence = Evidence.from_draw(round_.receipt, norms)
        sampler.learn(round_.receipt, evidence, evidence.norms, gradient=round_.gradient)


@final
class OwnRows:
    """An exchange of coefficients, densities and ratios of all slots: every process has its own points."""

    def __init__(self, layout: ProcessLayout) -> None:
        self._scale, self._scales = layout.scale, np.array(layout.scales)

    def width(self, m: int, k: int) -> int:
        """Count a coefficient, a density and k ratios per slot."""
        return m * (k + 2)

    def pack(self, round_: Round, mixture: FloatArray) -> FloatArray:
        """Return what other processes cannot know."""
        evidence = Evidence.from_draw(round_.part, self._scale * round_.norms)
        return np.column_stack([evidence.coefficients, evidence.density, evidence.ratios]).ravel()

    def spread(self, processes: ProcessGroup, packed: FloatArray) -> FloatArray:
        """Gather the numbers of all processes."""
        return processes.gather(packed)

    def learn(self, sampler: Sampler, round_: Round, numbers: FloatArray) -> None:
        """Learn from the rows of all processes; components see the norms of their own process."""
        rows = numbers.reshape(-1, 2 + round_.part.ratios.shape[1])
        evidence = Evidence(rows[:, 2:], rows[:, 0], rows[:, 1])
        weights = np.repeat(self._scales, len(rows) // len(self._scales)) / rows[:, 1]
        moments = Moments.of(evidence)._replace(
            weight=float(weights.mean()), square=float((weights**2).mean()), largest=float(weights.max())
        )
        sampler.learn(round_.receipt, evidence, round_.norms, moments=moments, gradient=round_.gradient)


def stamp_draw(draw: Draw) -> float:
    """Return a checksum that shows whether processes made the same draw."""
    return float(crc32(draw.density, crc32(draw.indices)))  # type: ignore[arg-type]


def choose_exchange(sampler: Sampler, layout: ProcessLayout) -> Exchange:
    """Return what the learner and the family need: sums, or rows if either looks at single rows."""
    if layout.name == "sharded":  # every process has its own components, which see its own norms
        return OwnRows(layout) if sampler.learner.needs_rows else Sums(layout)
    needs_rows = sampler.learner.needs_rows or sampler.components.observes
    return SharedRows() if needs_rows else Sums(layout)
