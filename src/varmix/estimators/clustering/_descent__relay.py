"""Relay: one sampler that costs nothing, and a better one when its set-up has been paid for."""

from collections.abc import Callable

from varmix._core.validation import FloatArray
from varmix._sampler import Sampler


class Relay:
    """A sampler for the first steps, and another from then on, which is made when its time has come.

    Setting a sampler up is a look at all points, and a short run has not the time for that.

    Parameters
    ----------
    first
        What draws the first batches.
    then
        Makes what draws the others.
    after
        Steps of the first.

    Examples
    --------
    >>> import varmix
    >>> relay = Relay(varmix.uniform(10, rng=0), lambda: varmix.uniform(10, replacement=False, rng=0), after=3)
    >>> relay.at(2) is relay.first, relay.at(3) is relay.first, relay.at(9) is relay.at(3)
    (True, False, True)
    """

    def __init__(self, first: Sampler, then: Callable[[], Sampler], after: int) -> None:
        self.first, self.then, self.after = first, then, after
        self._made: Sampler | None = None

    def at(self, steps: int) -> Sampler:
        """Give the sampler of the batch after so many steps."""
        if self._made is None and steps >= self.after:
            self._made = self.then()
        return self.first if self._made is None else self._made

    @property
    def mixture(self) -> FloatArray:
        """The mixture of the sampler that draws at present."""
        return (self.first if self._made is None else self._made).mixture
