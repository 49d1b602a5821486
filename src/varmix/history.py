"""History: how the shares and the gain of a sampler moved."""

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from varmix._core.state import CheckpointError, read_array, read_count, require_entries, wrap_load_errors
from varmix._core.validation import FloatArray, IntArray, State
from varmix.meter import Interval

MAX_ENTRIES, MIN_ENTRIES = 512, 16  # both even, so that what is due next is still due after thinning
MAX_SHARES = 1 << 20  # numbers kept of all components together, 8 MB
GAIN, LOW, HIGH, LEARNED = range(4)  # columns of the gains
MAX_SUM_ERROR = 1e-6  # of shares that were saved


class History:
    """The course of a run: draws, shares and gain after the first update, the second, and so on.

    A sampler that was built with `history=True` fills one.  It keeps at most 512 entries, fewer with more than 2,048
    components, and at least 16.  When it is full, every second entry is dropped and from then on half as many updates
    are recorded.  So memory is bounded, and a long run still shows its whole course, evenly spaced in updates.  What is
    recorded depends on the number of updates alone.

    All components are kept, however many there are; `varmix.plot.shares` draws the largest.  Their names are those that
    they had when the sampler was built.  Sub-groups (`resplit="norms"`) keep theirs: "cat, norms 3/3" are always the
    points labelled cat with the largest norms, whichever these are at the time.

    Parameters
    ----------
    names
        The names of the components.
    point_shares
        The part of the points, or of the target, that each component holds; None where components overlap.
        Default: None.
    limits
        The gains of the learned mixture up to which it is off, and from which on it is fully on.  Default: None, for a
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
        """The names of the components: labels of groups, for example."""
        return self._names

    @property
    def point_shares(self) -> dict[Hashable, float] | None:
        """The part of the points, or of the target, that each component holds; None where components overlap."""
        if self._point_shares is None:
            return None
        return dict(zip(self._names, self._point_shares.tolist(), strict=True))

    @property
    def limits(self) -> tuple[float, float] | None:
        """Gains of the learned mixture between which it is switched on; None for a learner that does not switch."""
        return self._limits

    @property
    def updates(self) -> int:
        """Number of updates so far, recorded or not."""
        return self._updates

    @property
    def stride(self) -> int:
        """Updates from one entry to the next; it doubles whenever the history is full."""
        return self._stride

    @property
    def draws(self) -> IntArray:
        """Number of draws with feedback so far, one per entry; the first entry is from before all feedback."""
        return self._draws[: self._length].copy()

    @property
    def shares(self) -> dict[Hashable, FloatArray]:
        """The share of the draws that each component serves next, by its name, one per entry."""
        columns = self._shares[: self._length].T.copy()
        return dict(zip(self._names, columns, strict=True))

    @property
    def gain(self) -> FloatArray:
        """The gain of all draws so far, as `sampler.gain` was, one per entry."""
        return self._gains[: self._length, GAIN].copy()

    @property
    def gain_low(self) -> FloatArray:
        """The lower end of the gain's 95 % interval, one per entry; 0 where nothing was known."""
        return self._gains[: self._length, LOW].copy()

    @property
    def gain_high(self) -> FloatArray:
        """The upper end of the gain's 95 % interval, one per entry; infinite where nothing was known."""
        return self._gains[: self._length, HIGH].copy()

    @property
    def learned_gain(self) -> FloatArray:
        """What the learned mixture gained, played or not, as `sampler.learned_gain` was, one per entry."""
        return self._gains[: self._length, LEARNED].copy()

    def count_update(self) -> bool:
        """Count an update, and return whether it is to be recorded; a sampler calls this."""
        self._updates += 1
        return self._updates % self._stride == 0

    def record(self, draws: int, shares: FloatArray, gain: Interval, learned_gain: float) -> None:
        """Add an entry, and first drop every second one if there is no room; a sampler calls this.

        Parameters
        ----------
        draws
            Number of draws with feedback so far.
        shares
            (k,) the share of every component.
        gain
            The gain of all draws so far.
        learned_gain
            What the learned mixture gains.
        """
        if self._length == len(self._draws):
            self._length //= 2
            for kept in (self._draws, self._shares, self._gains):
                kept[: self._length] = kept[::2].copy()
            self._stride *= 2
        self._draws[self._length] = draws
        self._shares[self._length] = shares
        self._gains[self._length] = *gain, learned_gain
        self._length += 1

    def state_dict(self) -> State:
        """Return the entries as arrays; what is infinite in them is saved as zero."""
        gains = self._gains[: self._length].copy()
        gains[np.isinf(gains[:, HIGH]), HIGH] = 0.0
        return {
            "updates": self._updates,
            "draws": self.draws,
            "shares": self._shares[: self._length].copy(),
            "gains": gains,
        }

    def load_state_dict(self, state: State) -> None:
        """Resume where a history over the same components was saved.

        Raises
        ------
        CheckpointError
            If the state is damaged or of other components.  The history is then unchanged.
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
                raise CheckpointError("Saved draws of a History must begin at 0 and never fall: damaged.")
            if (np.abs(shares.sum(axis=1) - 1.0) > MAX_SUM_ERROR).any():
                raise CheckpointError("Saved shares of a History must sum to one in every entry: damaged.")
            gains[gains[:, HIGH] == 0.0, HIGH] = np.inf
            if not ((gains[:, LOW] <= gains[:, GAIN]) & (gains[:, GAIN] <= gains[:, HIGH])).all():
                raise CheckpointError("Saved gains of a History must lie in their intervals: damaged.")
        self._updates, self._stride, self._length = updates, stride, length
        self._draws[:length], self._shares[:length], self._gains[:length] = draws, shares, gains

    def __len__(self) -> int:
        return self._length

    def __repr__(self) -> str:
        return f"History({len(self)} entries over {self._updates} updates, {len(self._names)} components)"


def _find_stride(updates: int, most: int) -> int:
    """Return the updates between two entries, after so many updates, of a history with room for `most`.

    Examples
    --------
    >>> [_find_stride(updates, 4) for updates in (0, 3, 4, 7, 8)]
    [1, 1, 2, 2, 4]
    """
    stride = 1
    while updates // stride >= most:
        stride *= 2
    return stride
