"""Allocation, the base class of `varmix.allocate`: which lane serves which slot of a batch."""

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from varmix._core.rng import Uniforms
from varmix._core.validation import FloatArray, IntArray


class Allocation(ABC):
    """Base class of allocations, which assign a lane to every slot of a batch.

    A family draws each slot of a batch from a lane, usually a component. Subclass `Allocation` and define `assign`. If
    the allocation keeps something between batches, also define `init` and `check_state`. The sampler keeps and saves
    that state, one array.

    Attributes
    ----------
    keeps_epochs : bool
        Whether every lane gets its share of the slots over an epoch. Sampling groups without replacement then works
        like shuffling. Default: False.
    is_stratified : bool
        Whether `assign` returns the same lanes as `varmix.allocate.stratified`. Families may then assign lanes and draw
        in one compiled call. Default: False.

    Examples
    --------
    >>> class InTurn(Allocation):
    ...     def assign(self, state, shares, m, uniforms):
    ...         return np.arange(m) % len(shares), state
    >>> InTurn().assign(np.empty(0), np.array([0.5, 0.5]), 3, Uniforms(0))[0].tolist()
    [0, 1, 0]
    """

    keeps_epochs: ClassVar[bool] = False
    is_stratified: ClassVar[bool] = False

    def init(self, lanes: int) -> FloatArray:
        """Return the state before the first batch.

        Parameters
        ----------
        lanes : int
            Number of lanes.

        Returns
        -------
        array
            The state. Default: an empty array, for an allocation that keeps nothing.
        """
        return np.empty(0)

    @abstractmethod
    def assign(self, state: FloatArray, shares: FloatArray, m: int, uniforms: Uniforms) -> tuple[IntArray, FloatArray]:
        """Assign a lane to each slot of a batch.

        Parameters
        ----------
        state : array
            The present state. It must not be changed.
        shares : array of shape (lanes,)
            Share of the draws that each lane serves. They sum to one.
        m : int
            Number of slots.
        uniforms : Uniforms
            Random numbers.

        Returns
        -------
        lanes : integer array of shape (m,)
            The lane of each slot.
        state : array
            The next state.
        """

    def assign_batches(
        self, state: FloatArray, shares: FloatArray, m: int, batches: int, uniforms: Uniforms
    ) -> tuple[IntArray, FloatArray]:
        """Assign lanes to one or several batches. This is what samplers call. Default: one call of `assign` per batch.

        Parameters
        ----------
        state : array
            The present state. It must not be changed.
        shares : array of shape (lanes,)
            Share of the draws that each lane serves.
        m : int
            Number of slots in a batch.
        batches : int
            Number of batches.
        uniforms : Uniforms
            Random numbers.

        Returns
        -------
        lanes : integer array of shape (m * batches,)
            The lane of each slot, batch after batch.
        state : array
            The next state.
        """
        if batches == 1:
            return self.assign(state, shares, m, uniforms)
        lanes = []
        for _ in range(batches):
            batch, state = self.assign(state, shares, m, uniforms)
            lanes.append(batch)
        return np.concatenate(lanes), state

    def check_state(self, state: FloatArray) -> None:  # noqa: B027
        """Raise `CheckpointError` if this allocation cannot have saved a state. Default: accept any state.

        Parameters
        ----------
        state : array
            The saved state, of the right shape and type.
        """
