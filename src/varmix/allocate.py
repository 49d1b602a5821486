"""Allocation: which lane serves which slot of a batch.

Shares are lane probabilities pi.  `independent`, `stratified`, `systematic` and `shared` serve every lane m * pi slots
in expectation, so estimates stay unbiased.  `carried` has no randomness: its counts stay close to the sum of the
shares over time, which is what reshuffled groups need.

Under `stratified` and `systematic` the slots of a batch are ordered by lane and only the batch as a whole follows the
mixture: take means over whole batches.
"""

from typing import Protocol

import numpy as np

from varmix.arrays import FloatArray, IntArray
from varmix.kernels import allocate as kernels
from varmix.uniforms import Uniforms


class Allocation(Protocol):
    """How slots are given to lanes.  The state is one array, kept and saved by the sampler."""

    def init(self, lanes: int) -> FloatArray:
        """Give the state before the first batch (an empty array where nothing is kept)."""
        ...

    def assign(self, state: FloatArray, shares: FloatArray, m: int, uniforms: Uniforms) -> tuple[IntArray, FloatArray]:
        """Give the lane of each of `m` slots, and the next state; `state` itself stays as it is."""
        ...


class _Stateless:
    def init(self, lanes: int) -> FloatArray:
        """Nothing is kept between batches."""
        return np.empty(0)

    def __repr__(self) -> str:
        return type(self).__name__.lower()


class Independent(_Stateless):
    """Every slot draws its lane on its own, as in the paper."""

    def assign(self, state: FloatArray, shares: FloatArray, m: int, uniforms: Uniforms) -> tuple[IntArray, FloatArray]:
        """Draw the lanes of `m` slots independently."""
        lanes = np.empty(m, np.int64)
        kernels.independent(shares, uniforms.take(m), lanes)
        return lanes, state


class Stratified(_Stateless):
    """Slot r at (r + U_r) / m of the cumulative shares.  Its variance is never above independent draws."""

    def assign(self, state: FloatArray, shares: FloatArray, m: int, uniforms: Uniforms) -> tuple[IntArray, FloatArray]:
        """Draw one lane from each of `m` equal parts of the cumulative shares."""
        lanes = np.empty(m, np.int64)
        kernels.spread(shares, uniforms.take(m), lanes)
        return lanes, state


class Systematic(_Stateless):
    """Slot r at (r + U) / m with one U.  Usually below stratified, but it can be worse than independent draws."""

    def assign(self, state: FloatArray, shares: FloatArray, m: int, uniforms: Uniforms) -> tuple[IntArray, FloatArray]:
        """Draw `m` equally spaced lanes with one uniform."""
        lanes = np.empty(m, np.int64)
        kernels.spread(shares, uniforms.take(1), lanes)
        return lanes, state


class Shared(_Stateless):
    """One lane for the whole batch, as in the authors' published code: far more variance, for comparison only."""

    def assign(self, state: FloatArray, shares: FloatArray, m: int, uniforms: Uniforms) -> tuple[IntArray, FloatArray]:
        """Draw one lane and give it all `m` slots."""
        return np.full(m, kernels.invert(shares, uniforms.take(1)[0]), dtype=np.int64), state


class Carried:
    """Deficit round robin across batches.  With fixed shares no lane is ever served a whole slot more than its due."""

    def init(self, lanes: int) -> FloatArray:
        """Give every lane a credit of zero."""
        return np.zeros(lanes)

    def assign(self, state: FloatArray, shares: FloatArray, m: int, uniforms: Uniforms) -> tuple[IntArray, FloatArray]:
        """Serve the largest credit, slot by slot."""
        lanes = np.empty(m, np.int64)
        credit = state.copy()
        kernels.carried(shares, credit, lanes)
        return lanes, credit

    def __repr__(self) -> str:
        return "carried"


independent = Independent()
stratified = Stratified()
systematic = Systematic()
shared = Shared()
carried = Carried()
