"""GainMeter, which measures whether adaptive sampling pays off."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from varmix._core.draw import Draw
from varmix._core.evidence import Evidence
from varmix._core.state import CheckpointError, read_array, read_count, read_number, require_entries, wrap_load_errors
from varmix._core.validation import FloatArray, State, as_count, as_floats
from varmix._kernels import cost
from varmix.learners._cautious import OFF_BELOW, ON_ABOVE

NORMAL_QUANTILE = 1.959963984540054  # standard deviations on either side of a 95 % interval
# Plain shuffling is the better choice at gains below the first number, and was never significantly better from the
# second on. Measured on convex problems, for reshuffled groups (round robin) and for draws with replacement, which need
# more because shuffling itself reduces the variance.
RESHUFFLED, REPLACED = (OFF_BELOW, ON_ABOVE), (OFF_BELOW, 3.5)
QUIET = 0.1  # noise below which reducing it hardly changes the loss
NOISE_CAVEAT = (
    "Less noise lowers the loss only if noise limits progress and the step is as long as the noise allows, so you may "
    "need a longer step. This says nothing about held-out loss."
)
MAX_ROUNDING_ERROR = 1e-6  # of the sums of a very long run, relative to their size
LARGEST_WEIGHT = 1e120  # of a saved meter, so that squares of sums stay finite
MIN_EXACT_SQUARE = 1e-290  # squares below it lose digits


class Interval(NamedTuple):
    """An estimate and its 95 % confidence interval.

    Parameters
    ----------
    value : float
        The estimate.
    low : float
        Lower end of the interval.
    high : float
        Upper end of the interval.

    Examples
    --------
    >>> str(Interval(2.0, 1.5, 2.5)), str(Interval(2.0, 0.0, math.inf))  # the second is not known
    ('2 [1.5, 2.5]', '2 [?]')
    """

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        bounds = "?" if self.low <= 0.0 and self.high == math.inf else f"{self.low:.3g}, {self.high:.3g}"
        return f"{self.value:.3g} [{bounds}]"


class Moments(NamedTuple):
    """Summary of a receipt for the meter: its number of draws, and means over them.

    With r = 1 / density and l the norms:

    Parameters
    ----------
    draws : int
        Number of draws.
    uniform : float
        Mean of r l^2.
    mixture : float
        Mean of r^2 l^2.
    weight : float
        Mean of r.
    square : float
        Mean of r^2.
    largest : float
        Largest r.

    Examples
    --------
    >>> Moments.of(Evidence(ratios=[[1.0], [1.0]], coefficients=[4.0, 0.0]))
    Moments(draws=2, uniform=2.0, mixture=2.0, weight=1.0, square=1.0, largest=1.0)
    """

    draws: int
    uniform: float
    mixture: float
    weight: float
    square: float
    largest: float

    @classmethod
    def of(cls, evidence: Evidence) -> "Moments":
        """Return the moments of the evidence of a draw.

        Parameters
        ----------
        evidence : Evidence
            The evidence.

        Returns
        -------
        Moments
            Its moments.
        """
        means = np.empty(4)
        largest = cost.write_moments(evidence.coefficients, evidence.density, means)
        uniform, mixture, weight, square = means.tolist()
        return cls(len(evidence.density), uniform, mixture, weight, square, largest)


class GainMeter:
    """Compare the second moment of the estimate with that of uniform sampling, from the same draws.

    A sampler feeds its own meter, `sampler.meter`. Build one yourself to measure part of a run.

    With r = 1 / density, the mean of r l^2 over draws estimates the second moment of uniform sampling. The mean of
    r^2 l^2 estimates the second moment of the mixture with exact weights, even if the sampler reweights otherwise. The
    ratio of the two is the **gain** G, per draw. A gain lowers the loss only if noise limits progress and the step is
    as long as the noise allows, so you may need a longer step. It says nothing about held-out loss.

    To see whether noise limits progress, also pass the weighted mean gradient of each batch. The meter then estimates
    the **noise** of that mean, `tr Cov(mean) / |gradient|^2`. Successive means have only the gradient in common, so
    their inner product estimates its squared norm under any allocation.

    The confidence interval treats receipts as independent (delta method for a ratio of sums). A receipt counts in
    proportion to its number of draws, so the gain refers to all draws even if receipts differ in size.

    The gain of a whole run includes the time when nothing had been learned yet. `gain_since_last_call` shows the
    present gain, which predicts better how a run will end.

    Parameters
    ----------
    window : int, optional
        Number of receipts after which old ones are mostly forgotten; `covered` is the number that counts at present.
        Default: None, which forgets nothing.
    reshuffled : bool, default False
        Whether the draws come from groups without replacement. The verdict requires a larger gain for draws with
        replacement.
    switches : bool, default False
        Whether the learner samples uniformly by itself while the mixture does not pay, as `Cautious` does. The verdict
        then never advises to switch it off.

    Examples
    --------
    >>> import varmix
    >>> sampler = varmix.vrm(varmix.Groups([0] * 90 + [1] * 10), rng=0)
    >>> for _ in range(500):
    ...     draw = sampler.draw(16)
    ...     sampler.update(draw, np.where(draw.indices < 90, 0.1, 3.0))
    >>> sampler.meter.gain.low > 3
    True
    """

    def __init__(self, window: int | None = None, *, reshuffled: bool = False, switches: bool = False) -> None:
        self._window = None if window is None else as_count(window, "window", least=2)
        self._off_below, self._on_above = RESHUFFLED if reshuffled else REPLACED
        self._switches = bool(switches)
        self._numbers = np.zeros(cost.METER_SIZE)
        self._numbers[cost.DECAY] = 1.0 if self._window is None else 1.0 - 1.0 / self._window
        self._previous: FloatArray | None = None

    # These views are made at each access, because copies of a meter need their own views. For a receipt with m
    # draws, a = mean(r l^2) and b = mean(r^2 l^2), in units of the largest second moment seen.

    @property
    def _sums(self) -> FloatArray:
        """Sums of m, m r, m r^2, m a and m b."""
        return self._numbers[cost.SUMS : cost.SQUARES]

    @property
    def _squares(self) -> FloatArray:
        """Sums of m^2, m^2 aa, m^2 ab and m^2 bb, from which the interval follows."""
        return self._numbers[cost.SQUARES : cost.RECENT]

    @property
    def _recent(self) -> FloatArray:
        """Sums of m a and m b since `gain_since_last_call` was called."""
        return self._numbers[cost.RECENT : cost.PAIRS]

    @property
    def _pairs(self) -> FloatArray:
        """Sums over pairs of successive mean gradients: of 1, inner products, squares, a / m and 1 / m."""
        return self._numbers[cost.PAIRS :]

    @property
    def limits(self) -> tuple[float, float]:
        """Two gains: below the first the verdict advises plain shuffling, from the second on to keep the mixture."""
        return self._off_below, self._on_above

    @property
    def batches(self) -> int:
        """Number of receipts."""
        return int(self._numbers[cost.BATCHES])

    @property
    def draws(self) -> int:
        """Number of draws of all receipts."""
        return int(self._numbers[cost.DRAWS])

    @property
    def largest_weight(self) -> float:
        """The largest importance weight of any draw."""
        return float(self._numbers[cost.LARGEST])

    @property
    def _unit(self) -> float:
        return float(self._numbers[cost.UNIT])

    def update(self, draw: Draw, norms: ArrayLike, *, gradient: ArrayLike | None = None) -> None:
        """Add a receipt to a meter of your own. A sampler feeds its own meter by itself.

        Parameters
        ----------
        draw : Draw
            Receipt from `Sampler.draw`. A receipt of `draw_all` was not sampled, so it has nothing to measure.
        norms : array-like of shape (m,)
            Losses or gradient norms, as for `Sampler.update`.
        gradient : array-like, optional
            Gradient of the weighted mean loss of the batch, for `noise`. Default: None.
        """
        self.add(Evidence.from_draw(draw, norms), self.check_gradient(gradient))

    def add(self, evidence: Evidence, gradient: FloatArray | None = None) -> None:
        """Add the evidence of a receipt. This cannot fail.

        Parameters
        ----------
        evidence : Evidence
            The evidence.
        gradient : array, optional
            The mean gradient, as `check_gradient` returns it. Default: None.
        """
        cost.measure_receipt(evidence.coefficients, evidence.density, self._numbers)
        if gradient is not None or self._previous is not None:
            self._add_gradient(gradient, float(evidence.coefficients.mean()), len(evidence.density))

    def add_moments(self, seen: Moments, gradient: FloatArray | None = None) -> None:
        """Add the moments of a receipt that several processes have summed up. This cannot fail.

        Parameters
        ----------
        seen : Moments
            The moments.
        gradient : array, optional
            The mean gradient, as `check_gradient` returns it. Default: None.
        """
        m, uniform, mixture, weight, square, largest = seen
        cost.add_moments(float(m), uniform, mixture, weight, square, largest, self._numbers)
        if gradient is not None or self._previous is not None:
            self._add_gradient(gradient, seen.uniform, seen.draws)

    def _add_gradient(self, gradient: FloatArray | None, uniform: float, m: int) -> None:
        before = self._previous
        if gradient is not None and before is not None and gradient.shape == before.shape and self._unit:
            last, this = before / math.sqrt(self._unit), gradient / math.sqrt(self._unit)
            squares = float(last @ last + this @ this) / 2
            self._pairs[:] += 1.0, float(last @ this), squares, uniform / self._unit / m, 1 / m
        self._previous = gradient

    def check_gradient(self, gradient: ArrayLike | None) -> FloatArray | None:
        """Return a mean gradient as a vector, after checking it.

        Parameters
        ----------
        gradient : array-like or None
            The weighted mean gradient of a batch.

        Returns
        -------
        array or None
            A flat copy; None for None.

        Raises
        ------
        ValueError
            If its size has changed, or an entry is not finite.
        """
        if gradient is None:
            return None
        mean = as_floats(gradient, "gradient").ravel().copy()
        if self._previous is not None and self._previous.shape != mean.shape:
            raise ValueError(
                f"gradient had {len(self._previous)} entries in the last batch and has {len(mean)} now. Pass the "
                f"gradient of the same parameters every time."
            )
        if not np.abs(mean).max(initial=0.0) <= 1e120:  # also when it is not a number
            raise ValueError("gradient must be finite, with entries below about 1e120. Skip batches that diverged.")
        return mean

    @property
    def gain(self) -> Interval:
        """Second moment of uniform sampling over that of the mixture. Above one, the mixture is better than uniform."""
        draws, _, _, a, b = self._sums.tolist()
        squares, aa, ab, bb = self._squares.tolist()
        if min(a, b, aa, bb) == 0.0:  # no loss yet, or a window has forgotten all losses
            return Interval(1.0, 0.0, math.inf)
        ratio, effective = a / b, draws**2 / squares  # number of equal receipts with the same information
        if effective <= 1.5:
            return Interval(ratio, 0.0, math.inf)
        variance = max(aa - 2 * ratio * ab + ratio**2 * bb, 0.0) * effective / (effective - 1)
        half = min(NORMAL_QUANTILE * math.sqrt(variance) / a, 700.0)  # of log G, so that the interval stays positive
        return Interval(ratio, ratio * math.exp(-half), ratio * math.exp(half))

    @property
    def covered(self) -> float:
        """Number of receipts that gain and noise cover: all of them, or about `window` of them.

        Examples
        --------
        >>> meter = GainMeter(window=20)
        >>> for _ in range(1000):
        ...     meter.add_moments(Moments(8, 1.0, 1.0, 1.0, 1.0, 1.0))
        >>> meter.batches, round(meter.covered)
        (1000, 20)
        """
        return self._covered(self.batches)

    def _covered(self, batches: int) -> float:
        return (
            float(batches)
            if self._window is None
            else -self._window * math.expm1(batches * math.log1p(-1 / self._window))
        )

    def gain_since_last_call(self) -> float:
        """Return the gain of the receipts since the last call. It ignores the window.

        Returns
        -------
        float
            The gain; 1.0 if there were no receipts.

        Examples
        --------
        >>> import varmix
        >>> sampler, meter = varmix.uniform(4, rng=0), GainMeter()
        >>> meter.update(draw := sampler.draw(8), draw.indices)
        >>> meter.gain_since_last_call(), meter.gain_since_last_call()
        (1.0, 1.0)
        """
        a, b = self._recent.tolist()
        self._recent[:] = 0.0
        return a / b if b else 1.0

    @property
    def effective_sample_size(self) -> float:
        """Effective sample size per draw, (mean r)^2 / mean r^2 with r = 1 / density: one for uniform draws."""
        draws, mean, square = self._sums[:3]
        return 1.0 if square == 0.0 else float(mean**2 / (square * draws))

    @property
    def noise(self) -> float | None:
        """Variance of the mean gradient over its squared norm. None without gradients, infinite for pure noise."""
        number, inner, square, _, _ = self._pairs.tolist()
        if number < 2:
            return None
        return max(square - inner, 0.0) / inner if inner > 0.0 else math.inf

    @property
    def variance_gain(self) -> float | None:
        """Variance of independent uniform draws divided by that of the batch mean. None without gradients."""
        number, inner, square, uniform, size = self._pairs.tolist()
        if number < 2:
            return None
        variance = square - inner
        return (uniform - max(inner, 0.0) / number * size) / variance if variance > 0.0 else math.inf

    def verdict(self) -> str:
        """Return the gain in words, with advice whether to keep adaptive sampling on.

        Returns
        -------
        str
            Two to four sentences.
        """
        gain = self.gain
        if gain.low == 0.0:
            return "No verdict yet: it takes at least two batches with a loss above zero."
        return (
            f"Over {self._span()} the second moment per draw was {1 / gain.value:.3g} (95 % interval "
            f"{1 / gain.high:.3g} to {1 / gain.low:.3g}) of what uniform sampling with replacement would have had. "
            f"{self._advice(gain)}"
        )

    def _span(self) -> str:
        if self._window is None:
            return f"{self.draws:,} draws ({self.batches:,} receipts)"
        return f"about the last {self.covered:,.0f} receipts (some {self._sums[0]:,.0f} of {self.draws:,} draws)"

    def _advice(self, gain: Interval) -> str:
        if self._switches and gain.value < self._off_below:
            gained = "That is not distinguishable from no gain" if gain.low <= 1.0 else "That is a small gain"
            return (
                f"{gained}, and the learner plays the mixture only as far as it pays, so nothing has to be switched "
                f"off."
            )
        if gain.high < 1.0:
            return "The mixture makes the variance larger: switch it off."
        if gain.low <= 1.0:
            return "That is not distinguishable from no gain: use plain shuffling."
        if gain.value < self._off_below:
            return "That is too little to beat plain shuffling: switch it off."
        if self.noise is not None and self.noise < QUIET:
            return (
                f"But sampling noise is only {self.noise:.2g} of the squared gradient, so reducing it hardly changes "
                f"the loss: compare with plain shuffling before you keep it on."
            )
        if gain.value < self._on_above:
            return f"That may or may not beat plain shuffling: compare both before you keep it on. {NOISE_CAVEAT}"
        return f"That is enough to keep it on. {NOISE_CAVEAT}"

    def summary(self) -> dict[str, float | str]:
        """Return everything as a flat dictionary, for loggers.

        Returns
        -------
        dict
            Numbers by name, and the verdict.
        """
        gain = self.gain
        numbers: dict[str, float | str] = {
            "batches": self.batches,
            "covered": self.covered,
            "draws": self.draws,
            "gain": gain.value,
            "gain_low": gain.low,
            "gain_high": gain.high,
            "effective_sample_size": self.effective_sample_size,
            "largest_weight": self.largest_weight,
        }
        if self.noise is not None and self.variance_gain is not None:
            numbers |= {"noise": self.noise, "variance_gain": self.variance_gain}
        return numbers | {"verdict": self.verdict()}

    def state_dict(self) -> State:
        """Return the measurements as arrays and numbers.

        The last mean gradient is not included, because it is as large as the model. The noise therefore leaves out the
        pair of batches before and after a checkpoint.

        Returns
        -------
        dict
            The state.
        """
        return {
            "batches": self.batches,
            "draws": self.draws,
            "largest_weight": self.largest_weight,
            "unit": self._unit,
            "decay": float(self._numbers[cost.DECAY]),
            "sums": self._sums.copy(),
            "recent": self._recent.copy(),
            "squares": self._squares.copy(),
            "pairs": self._pairs.copy(),
        }

    def load_state_dict(self, state: State) -> None:
        """Resume where a meter with the same window was saved.

        Parameters
        ----------
        state : dict
            Return value of `state_dict`.

        Raises
        ------
        CheckpointError
            If the state is damaged, or belongs to a meter with another window. The meter is then unchanged.
        """
        require_entries(state, set(self.state_dict()), "a GainMeter")
        with wrap_load_errors("a GainMeter"):
            if read_number(state, "decay", most=1.0) != self._numbers[cost.DECAY]:
                raise CheckpointError(
                    "The saved meter has another window: build the meter as it was when it was saved."
                )
            batches, draws = read_count(state, "batches"), read_count(state, "draws")
            largest, unit = read_number(state, "largest_weight", most=LARGEST_WEIGHT), read_number(state, "unit")
            sums = read_array(state, "sums", np.float64, (5,), least=0.0)
            squares = read_array(state, "squares", np.float64, (4,), least=0.0)
            recent = read_array(state, "recent", np.float64, (2,), least=0.0)
            pairs = read_array(state, "pairs", np.float64, (5,))
            _check_counts(batches, draws, largest, unit, (sums, squares, recent, pairs))
            if batches:
                self._check_sums(batches, draws, largest, sums, squares, recent)
                _check_pairs(batches, pairs)
        self._numbers[: cost.DECAY] = batches, draws, largest, unit
        self._sums[:], self._recent[:], self._squares[:], self._pairs[:] = sums, recent, squares, pairs
        self._previous = None

    def _check_sums(
        self, batches: int, draws: int, largest: float, sums: FloatArray, squares: FloatArray, recent: FloatArray
    ) -> None:
        """Raise `CheckpointError` for sums that no receipts can have. Second moments are at most one unit."""
        m, r, rr, a, b = sums.tolist()
        mm, aa, ab, bb = squares.tolist()
        _require_sound(
            _is_at_most(m, draws) and _is_at_most(self._covered(batches), m), "draws that the receipts do not hold"
        )
        if self._window is None:
            _require_sound(_is_at_most(draws, m), "draws that the receipts do not hold")
        _require_sound(
            m / LARGEST_WEIGHT <= r and _is_at_most(r, m * largest), "weights that are too small or too large"
        )
        _require_sound(
            _is_at_most(r * r, m * rr) and _is_at_most(rr, largest * r), "weights that contradict each other"
        )
        _require_sound(_is_at_most(a, m) and _is_at_most(b, m), "second moments that are too large")
        _require_sound(
            # `largest` does not bound b / a: shards of different sizes scale the weights, but not the densities.
            _is_at_most(b, LARGEST_WEIGHT * a) and _is_at_most(a, b * LARGEST_WEIGHT),
            "second moments that contradict each other",
        )
        rows = ((m, m, mm), (a, a, aa), (a, b, ab), (b, b, bb))
        _require_sound(
            all(_is_at_most(square, x * y) for x, y, square in rows), "squares that are too large for their sums"
        )
        own = ((m, mm), (a, aa), (b, bb))
        _require_sound(
            all(_is_at_most(x * x, batches * square) for x, square in own), "squares that are too small for their sums"
        )
        _require_sound(_is_at_most(ab * ab, aa * bb), "squares that contradict each other")
        most = (a, b) if self._window is None else (draws, draws)
        _require_sound(
            _is_at_most(recent[0], most[0]) and _is_at_most(recent[1], most[1]),
            "recent sums that are longer than the run",
        )
        _require_sound(
            _is_at_most(recent[1], LARGEST_WEIGHT * recent[0]) and _is_at_most(recent[0], recent[1] * LARGEST_WEIGHT),
            "recent sums that contradict each other",
        )

    def __repr__(self) -> str:
        window = "" if self._window is None else f", window={self._window}, covered={self.covered:.3g}"
        return f"GainMeter(gain={self.gain}, batches={self.batches}{window})"


def _check_counts(batches: int, draws: int, largest: float, unit: float, arrays: tuple[FloatArray, ...]) -> None:
    """Raise `CheckpointError` for sums without receipts, or second moments without a unit."""
    sums, squares, recent, pairs = arrays
    if batches:
        _require_sound(draws >= batches and largest > 0.0, "receipts without draws")
    else:
        _require_sound(
            draws == largest == unit == 0 and not any(array.any() for array in arrays), "sums without receipts"
        )
    if unit == 0.0:
        _require_sound(not any((*sums[3:], *squares[1:], *recent, *pairs)), "second moments without a unit")


def _check_pairs(batches: int, pairs: FloatArray) -> None:
    number, inner, squares, uniform, size = pairs.tolist()
    fits = min(number, squares, uniform, size) >= 0.0 and _is_at_most(number, batches - 1) and _is_at_most(size, number)
    _require_sound(
        fits and _is_at_most(uniform, size) and _is_at_most(abs(inner), squares),
        "mean gradients that contradict each other",
    )


def _is_at_most(x: float, y: float) -> bool:
    """Return whether x <= y, up to rounding errors and numbers too small to have exact squares."""
    return x <= y * (1.0 + MAX_ROUNDING_ERROR) + MIN_EXACT_SQUARE


def _require_sound(holds: bool, fault: str) -> None:
    if not holds:
        raise CheckpointError(f"The saved state of a GainMeter is damaged: it has {fault}.")
