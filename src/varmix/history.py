"""History of a sampler: its shares and its gain over time."""

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from varmix._core.state import CheckpointError, read_array, read_count, require_entries, wrap_load_errors
from varmix._core.validation import FloatArray, IntArray, State
from varmix.meter import Interval

MAX_ENTRIES, MIN_ENTRIES = 512, 16  # both even, so that entries stay evenly spaced after every second one is dropped
MAX_SHARES = 1 << 20  # numbers kept for all components together, 8 MB
GAIN, LOW, HIGH, LEARNED = range(4)  # columns of the gains
MAX_SUM_ERROR = 1e-6  # allowed in the sum of saved shares


class History:
    """Number of draws, shares of the components and gain, recorded over a run.

    A sampler that was built with `history=True` fills one. It keeps at most 512 entries. With more than 2,048
    components it keeps fewer, but at least 16. When it is full, it drops every second entry, and from then on records
    half as many updates. Memory is therefore bounded, and the entries of a long run are evenly spaced in updates. Only
    the number of updates decides which of them are recorded.

    It keeps all components; `varmix.plot.shares` plots the largest. Components keep the names from when the sampler was
    built. With `resplit="norms"`, "cat, norms 3/3" always names the points labelled cat that have the largest norms at
    the time.

    Parameters
    ----------
    names : sequence of hashable
        Names of the components.
    point_shares : array-like of shape (k,), optional
        Part of the points, or of the target, in each component. Default: None, for components that overlap.
    limits : tuple of two floats, optional
        Gain of the learned mixture below which it is off, and gain above which it is fully on. Default: None, for a
        learner that does not switch.

    Examples
    --------
    >>> import varmix
    >>> sampler = varmix.Sampler(["common"] * 90 + ["rare"] * 10, rng=0, history=True)
    >>> for _ in range(2000):
    ...     batch = sampler.draw(8)
    ...     sampler.update(batch, np.where(batch.indices < 90, 0.1, 3.0))
    >>> history = sampler.history
    >>> len(history), history.draws[:3].tolist(), history.draws[-1].item()
    (501, [0, 32, 64], 16000)
    >>> bool(history.shares["rare"][0] < 0.11 < 0.6 < history.shares["rare"][-1])
    True
    """

    def __init__(
        self,
        names: Sequence[Hashable],
        point_shares: ArrayLike | None = None,
        limits: tuple[float, float] | None = None,
    ) -> None:
        self._names = tuple(names)
        self._point_shares = None if point_shares is None else np.array(point_shares, dtype=np.float64)
        self._limits = limits
        self._updates, self._stride, self._length = 0, 1, 0
        most = min(MAX_ENTRIES, max(MIN_ENTRIES, MAX_SHARES // len(self._names) // 2 * 2))
        self._draws = np.zeros(most, dtype=np.int64)
        self._shares = np.zeros((most, len(self._names)))
        self._gains = np.zeros((most, 4))

    @property
    def names(self) -> tuple[Hashable, ...]:
        """Names of the components, such as the labels of groups."""
        return self._names

    @property
    def point_shares(self) -> dict[Hashable, float] | None:
        """Part of the points, or of the target, in each component, by name. None if components overlap."""
        if self._point_shares is None:
            return None
        return dict(zip(self._names, self._point_shares.tolist(), strict=True))

    @property
    def limits(self) -> tuple[float, float] | None:
        """Gains between which the learned mixture is switched on. None for a learner that does not switch."""
        return self._limits

    @property
    def updates(self) -> int:
        """Number of updates so far, recorded or not."""
        return self._updates

    @property
    def stride(self) -> int:
        """Number of updates between two entries. It doubles whenever the history is full."""
        return self._stride

    @property
    def draws(self) -> IntArray:
        """Number of draws with feedback so far, one per entry. The first entry is 0, before all feedback."""
        return self._draws[: self._length].copy()

    @property
    def shares(self) -> dict[Hashable, FloatArray]:
        """Share of the next draws that each component gets, by name: an array with one number per entry."""
        columns = self._shares[: self._length].T.copy()
        return dict(zip(self._names, columns, strict=True))

    @property
    def gain(self) -> FloatArray:
        """Gain of all draws so far, the value of `sampler.gain`, one per entry."""
        return self._gains[: self._length, GAIN].copy()

    @property
    def gain_low(self) -> FloatArray:
        """Lower end of the gain's 95 % interval, one per entry. 0 if the gain was unknown."""
        return self._gains[: self._length, LOW].copy()

    @property
    def gain_high(self) -> FloatArray:
        """Upper end of the gain's 95 % interval, one per entry. Infinite if the gain was unknown."""
        return self._gains[: self._length, HIGH].copy()

    @property
    def learned_gain(self) -> FloatArray:
        """Gain of the learned mixture, played or not: the value of `sampler.learned_gain`, one per entry."""
        return self._gains[: self._length, LEARNED].copy()

    def count_update(self) -> bool:
        """Count an update, and return whether to record it. The sampler calls it.

        Returns
        -------
        bool
            Whether the sampler should call `record` now.
        """
        self._updates += 1
        return self._updates % self._stride == 0

    def record(self, draws: int, shares: FloatArray, gain: Interval, learned_gain: float) -> None:
        """Add an entry. If the history is full, drop every second entry first. The sampler calls it.

        Parameters
        ----------
        draws : int
            Number of draws with feedback so far.
        shares : ndarray of shape (k,)
            Share of each component.
        gain : Interval
            Gain of all draws so far.
        learned_gain : float
            Gain of the learned mixture.
        """
        if self._length == len(self._draws):
            self._length //= 2
            for column in (self._draws, self._shares, self._gains):
                column[: self._length] = column[::2].copy()
            self._stride *= 2
        self._draws[self._length] = draws
        self._shares[self._length] = shares
        self._gains[self._length] = *gain, learned_gain
        self._length += 1

    def state_dict(self) -> State:
        """Return the state needed to resume exactly, as a dict of arrays and numbers.

        Returns
        -------
        dict
            The entries. Infinite upper ends are saved as 0, because states hold finite numbers only.
        """
        gains = self._gains[: self._length].copy()
        gains[np.isinf(gains[:, HIGH]), HIGH] = 0.0
        return {
            "updates": self._updates,
            "draws": self.draws,
            "shares": self._shares[: self._length].copy(),
            "gains": gains,
        }

    def load_state_dict(self, state: State) -> None:
        """Load the state of a history over the same components.

        Parameters
        ----------
        state : dict
            Return value of `state_dict`.

        Raises
        ------
        CheckpointError
            If the state is damaged or belongs to other components. The history is then unchanged.
        """
        require_entries(state, {"updates", "draws", "shares", "gains"}, "a History")
        with wrap_load_errors("a History"):
            updates = read_count(state, "updates")
            stride = _find_stride(updates, len(self._draws))
            length = updates // stride + 1
            draws = read_array(state, "draws", np.int64, (length,), least=0)
            shares = read_array(state, "shares", np.float64, (length, len(self._names)), least=0.0, most=1.0 + 1e-9)
            gains = read_array(state, "gains", np.float64, (length, 4), least=0.0)
            if draws[0] != 0 or (np.diff(draws) < 0).any():
                raise CheckpointError(
                    "The saved draws of a History must begin at 0 and never decrease: the state is damaged."
                )
            if (np.abs(shares.sum(axis=1) - 1.0) > MAX_SUM_ERROR).any():
                raise CheckpointError(
                    "The saved shares of a History must sum to one in every entry: the state is damaged."
                )
            gains[gains[:, HIGH] == 0.0, HIGH] = np.inf
            if not ((gains[:, LOW] <= gains[:, GAIN]) & (gains[:, GAIN] <= gains[:, HIGH])).all():
                raise CheckpointError("The saved gains of a History must lie in their intervals: the state is damaged.")
        self._updates, self._stride, self._length = updates, stride, length
        self._draws[:length], self._shares[:length], self._gains[:length] = draws, shares, gains

    def __len__(self) -> int:
        return self._length

    def __repr__(self) -> str:
        return f"History({len(self)} entries over {self._updates} updates, {len(self._names)} components)"


def _find_stride(updates: int, most: int) -> int:
    """Return the number of updates between two entries of a history that has room for `most` entries.

    Examples
    --------
    >>> [_find_stride(updates, 4) for updates in (0, 3, 4, 7, 8)]
    [1, 1, 2, 2, 4]
    """
    stride = 1
    while updates // stride >= most:
        stride *= 2
    return stride
