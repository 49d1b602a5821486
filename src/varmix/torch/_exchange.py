"""What processes exchange about a round: sums where the learner asks for no more, else rows.

sums   value and gradient of the cost at the mixture learned: k + 7 numbers (and, of points that others do not have,
       the largest weight of every process), one all-reduce
rows   every norm (and, of points that others do not have, ratios and densities): one all-gather
"""

from typing import NamedTuple, Protocol, final
from zlib import crc32

import numpy as np

from varmix._core.draw import Draw
from varmix._core.evidence import Evidence
from varmix._core.validation import FloatArray
from varmix._sampler import Sampler
from varmix.meter import Moments
from varmix.torch._process_group import ProcessGroup, ProcessLayout


class Round(NamedTuple):
    """A receipt, the whole of it and this process's part, with the norms of the part and what the meter needs."""

    receipt: Draw
    part: Draw
    norms: FloatArray
    gradient: FloatArray | None


class Exchange(Protocol):
    """How rounds become rows of numbers, and these become learning."""

    def width(self, m: int, k: int) -> int:
        """Give how many numbers there are to a round with m slots in this process."""
        ...

    def pack(self, round_: Round, mixture: FloatArray) -> FloatArray:
        """Give these numbers."""
        ...

    def spread(self, processes: ProcessGroup, packed: FloatArray) -> FloatArray:
        """Give the numbers (p,) of all processes, (members, p), in one collective."""
        ...

    def learn(self, sampler: Sampler, round_: Round, numbers: FloatArray) -> None:
        """Let the sampler and its meter learn from the numbers (members, numbers) of a round."""
        ...


@final
class Sums:
    """The mean over processes of value, gradient and moments; there is one member, their mean."""

    def __init__(self, layout: ProcessLayout) -> None:
        self._layout, self._own = layout, layout.name == "sharded"
        self._parts = layout.world if self._own else 1  # receipts to a batch

    def width(self, m: int, k: int) -> int:
        """Value, gradient, four moments, and a largest weight of every process where none knows those of others."""
        return k + 5 + (self._layout.world if self._own else 0)

    def pack(self, round_: Round, mixture: FloatArray) -> FloatArray:
        """Take value and gradient at the mixture that the learner steps from."""
        scale = self._layout.scale
        evidence = Evidence.from_draw(round_.part, scale * round_.norms)
        seen = Moments.of(evidence)
        moments = seen.uniform, seen.mixture, scale * seen.weight, scale**2 * seen.square
        return np.array([evidence.value(mixture), *evidence.gradient(mixture), *moments, *self._largest(seen)])

    def _largest(self, seen: Moments) -> FloatArray:
        """Give a row of zeros, with the largest weight in this process's place: sums of such rows have them all."""
        if not self._own or self._layout.processes is None:
            return np.empty(0)
        row = np.zeros(self._layout.world)
        row[self._layout.processes.rank] = self._layout.scale * seen.largest
        return row

    def spread(self, processes: ProcessGroup, packed: FloatArray) -> FloatArray:
        """Add up; all processes have as many slots, so the mean over slots is the mean over processes."""
        return processes.add_up(packed)[None] / processes.world

    def learn(self, sampler: Sampler, round_: Round, numbers: FloatArray) -> None:
        """Learn from a row that has the same value and gradient."""
        value, gradient, sums, largest = np.split(numbers[0], np.cumsum([1, sampler.components.k, 4]))
        uniform, mixture, weight, square = sums.tolist()
        evidence = Evidence.from_sums(float(value[0]), gradient, at_uniform=uniform)
        # What was spread is a mean over processes, and each of these had one place.
        most = self._layout.world * largest.max() if self._own else 1.0 / round_.receipt.density.min()
        moments = Moments(self._parts * len(round_.receipt), uniform, mixture, weight, square, float(most))
        norms = round_.norms if self._own else None
        sampler.learn(round_.receipt, evidence, norms, moments=moments, gradient=round_.gradient)


@final
class SharedRows:
    """The norms of all slots, where all processes hold the receipt of the whole batch."""

    def width(self, m: int, k: int) -> int:
        """One norm a slot."""
        return m

    def pack(self, round_: Round, mixture: FloatArray) -> FloatArray:
        """Give the norms of this process's slots."""
        return round_.norms

    def spread(self, processes: ProcessGroup, packed: FloatArray) -> FloatArray:
        """Gather."""
        return processes.gather(packed)

    def learn(self, sampler: Sampler, round_: Round, numbers: FloatArray) -> None:
        """Put the norms into the order of the slots, and learn as one process would."""
        norms = np.ascontiguousarray(numbers.T).ravel()  # slot s is of process s modulo their number
        evidence = Evidence.from_draw(round_.receipt, norms)
        sampler.learn(round_.receipt, evidence, evidence.norms, gradient=round_.gradient)


@final
class OwnRows:
    """Coefficients, densities and ratios of all slots, where every process has points of its own."""

    def __init__(self, layout: ProcessLayout) -> None:
        self._scale, self._scales = layout.scale, np.array(layout.scales)

    def width(self, m: int, k: int) -> int:
        """A coefficient, a density and k ratios a slot."""
        return m * (k + 2)

    def pack(self, round_: Round, mixture: FloatArray) -> FloatArray:
        """Give what others cannot know."""
        evidence = Evidence.from_draw(round_.part, self._scale * round_.norms)
        return np.column_stack([evidence.coefficients, evidence.density, evidence.ratios]).ravel()

    def spread(self, processes: ProcessGroup, packed: FloatArray) -> FloatArray:
        """Gather."""
        return processes.gather(packed)

    def learn(self, sampler: Sampler, round_: Round, numbers: FloatArray) -> None:
        """Learn from the rows of all; components see their own process's norms."""
        rows = numbers.reshape(-1, 2 + round_.part.ratios.shape[1])
        evidence = Evidence(rows[:, 2:], rows[:, 0], rows[:, 1])
        weights = np.repeat(self._scales, len(rows) // len(self._scales)) / rows[:, 1]
        moments = Moments.of(evidence)._replace(
            weight=float(weights.mean()), square=float((weights**2).mean()), largest=float(weights.max())
        )
        sampler.learn(round_.receipt, evidence, round_.norms, moments=moments, gradient=round_.gradient)


def stamp_draw(draw: Draw) -> float:
    """Give a number that tells whether processes have made the same draw."""
    return float(crc32(draw.density, crc32(draw.indices)))  # type: ignore[arg-type]


def exchange_of(sampler: Sampler, layout: ProcessLayout) -> Exchange:
    """Give what a learner and a family need: one that does not say may need rows."""
    learner_needs = getattr(sampler.learner, "needs_rows", True)
    if layout.name == "sharded":  # components are the process's own, and see its own norms
        return OwnRows(layout) if learner_needs else Sums(layout)
    family_needs = getattr(sampler.components, "observes", True)
    return SharedRows() if learner_needs or family_needs else Sums(layout)
