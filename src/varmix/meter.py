"""GainMeter: whether it is paying off."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from varmix.arrays import as_count, as_number
from varmix.draw import Draw
from varmix.evidence import Evidence

CONFIDENT = 1.959963984540054  # standard deviations on either side of a 95 % interval
KEEP, DOUBT = 1.5, 1.25  # gains from and below which reshuffling was never beaten, and never lost to


class Interval(NamedTuple):
    """An estimate and its 95 % confidence interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3g} [{self.low:.3g}, {self.high:.3g}]"


class GainMeter:
    """Compares the second moment of the estimate with that of uniform sampling, from the same draws.

    With r = 1 / density, whatever the reweighting, the mean of r l^2 over draws estimates the second moment that
    uniform sampling would have had, and the mean of r^2 l^2 the one that the mixture has.  Their ratio is the
    **gain** G.  It is an upper estimate of the speed-up: for convex problems with reshuffled groups the excess loss
    fell by about 0.8 G, but where the noise is not what limits progress a large gain changes nothing.  For that, give
    the norm of each batch's weighted mean gradient: the meter then shows the noise, `tr Cov / (b |gradient|^2)`.

    Batches are the unit of the confidence interval (delta method for a ratio of means).  Give it draws: a census has no
    sampling to measure.

    Parameters
    ----------
    window
        Forget over about so many batches; None measures the whole run.

    Examples
    --------
    >>> import varmix
    >>> sampler, meter = varmix.vrm(varmix.Groups([0] * 90 + [1] * 10), rng=0), GainMeter()
    >>> for _ in range(500):
    ...     draw = sampler.draw(16)
    ...     norms = np.where(draw.indices < 90, 0.1, 3.0)
    ...     meter.update(draw, norms)
    ...     sampler.update(draw, norms)
    >>> meter.gain.low > 3
    True
    """

    def __init__(self, window: int | None = None) -> None:
        self._decay = 1.0 if window is None else 1.0 - 1.0 / as_count(window, "window", least=2)
        self.batches = 0
        self.draws = 0
        self.largest_weight = 0.0
        self._weight = np.zeros(2)  # of the batches, and squared
        self._unit = 0.0  # of second moments: the largest seen, so that their squares neither overflow nor vanish
        self._moments = np.zeros(5)  # of a = mean(r l^2), b = mean(r^2 l^2): a, b, aa, ab, bb
        self._spread = np.zeros(2)  # r, r^2
        self._gradient = np.zeros(3)  # batches, |mean gradient|^2 corrected for noise, batch size

    def update(self, draw: Draw, norms: ArrayLike, *, gradient_norm: float | None = None) -> None:
        """Take in a batch; `gradient_norm` is the norm of its weighted mean gradient, if known."""
        evidence = Evidence.from_draw(draw, norms)  # checks the norms
        r, m = 1.0 / draw.density, len(draw)
        uniform = float(evidence.coefficients.mean())
        mixture = float((evidence.coefficients * r).mean())
        squared = None if gradient_norm is None else _square(gradient_norm)
        self._rescale(max(uniform, mixture, squared or 0.0))
        unit = self._unit or 1.0
        a, b = uniform / unit, mixture / unit
        self.batches += 1
        self.draws += m
        self.largest_weight = max(self.largest_weight, float(r.max()))
        self._weight *= self._decay, self._decay**2
        self._weight += 1.0
        for sums in (self._moments, self._spread, self._gradient):
            sums *= self._decay
        self._moments += a, b, a * a, a * b, b * b
        self._spread += r.mean(), (r * r).mean()
        if squared is not None and m > 1:
            # E|mean gradient|^2 = |gradient|^2 (1 - 1/m) + second moment / m
            self._gradient += 1.0, (squared / unit - b / m) * m / (m - 1), m

    def _rescale(self, size: float) -> None:
        if size > self._unit:
            factor = self._unit / size
            self._moments *= [factor, factor, factor**2, factor**2, factor**2]
            self._gradient[1] *= factor
            self._unit = size

    @property
    def gain(self) -> Interval:
        """Second moment of uniform sampling over that of the mixture: above one is better than uniform."""
        if self._moments[1] == 0.0:
            return Interval(1.0, 0.0, math.inf)
        a, b, aa, ab, bb = (self._moments / self._weight[0]).tolist()
        ratio = a / b
        count = float(self._weight[0] ** 2 / self._weight[1])  # batches that count, with forgetting
        if count <= 1.5:
            return Interval(ratio, 0.0, math.inf)
        variance = max(aa - 2 * ratio * ab + ratio**2 * bb, 0.0) / (count - 1)
        half = min(CONFIDENT * math.sqrt(variance) / a, 700.0)  # of log G, so that the interval stays positive
        return Interval(ratio, ratio * math.exp(-half), ratio * math.exp(half))

    @property
    def effective_sample_size(self) -> float:
        """(mean r)^2 / mean r^2: the share of the draws that uniform draws of the same worth would need."""
        mean, square = self._spread
        return 1.0 if square == 0.0 else float(mean**2 / (square * self._weight[0]))

    @property
    def noise(self) -> float | None:
        """Tr Cov / (b |gradient|^2) of a batch's mean gradient; None without gradient norms, inf if all is noise."""
        weight, squared, size = self._gradient
        if weight == 0.0:
            return None
        if squared <= 0.0:
            return math.inf
        squared, size = squared / weight, size / weight
        return float(max(self._moments[1] / self._weight[0] - squared, 0.0) / (size * squared))

    @property
    def variance_gain(self) -> float | None:
        """Variance of uniform sampling over that of the mixture, when gradient norms were given."""
        weight, squared, _ = self._gradient
        if weight == 0.0:
            return None
        uniform, mixture = self._moments[:2] / self._weight[0] - max(squared / weight, 0.0)
        return float(uniform / mixture) if mixture > 0.0 else math.inf

    def verdict(self) -> str:
        """Say in plain words what was measured, against what, and whether to keep adaptive sampling on."""
        gain = self.gain
        if gain.low == 0.0:
            return "Nothing to say yet: give the meter at least two batches with a loss in them."
        said = (
            f"Over {self.batches:,} batches ({self.draws:,} draws) the second moment of the estimate was "
            f"{1 / gain.value:.3g} [{1 / gain.high:.3g}, {1 / gain.low:.3g}] of what uniform sampling with replacement "
            f"would have had (95 % interval): {gain.value:.3g} times less, an upper estimate of the speed-up."
        )
        return f"{said} {self._advice(gain)}"

    def _advice(self, gain: Interval) -> str:
        if gain.high < 1.0:
            return "It costs more than it gives: switch it off."
        if gain.low <= 1.0:
            return "That is not distinguishable from no gain: plain shuffling is the better choice unless this changes."
        if gain.value < DOUBT:
            return "That is too little to beat plain shuffling: switch it off."
        noise = self.noise
        if noise is not None and noise < 0.1:
            return (
                f"But sampling noise is only {noise:.2g} of the squared gradient, so less of it will hardly show: "
                f"compare with plain shuffling before you keep it on."
            )
        if gain.value < KEEP:
            return "That may or may not beat plain shuffling: compare both before you keep it on."
        return "Keep it on."

    def summary(self) -> dict[str, float | str]:
        """Give everything as a flat dictionary, for loggers."""
        gain = self.gain
        numbers: dict[str, float | str] = {
            "batches": self.batches,
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

    def __repr__(self) -> str:
        return f"GainMeter(gain={self.gain}, batches={self.batches})"


def _square(gradient_norm: float) -> float:
    length = as_number(gradient_norm, "gradient_norm")
    if not 0.0 <= length <= 1e125:
        raise ValueError(f"gradient_norm must be finite, not negative and at most about 1e125, got {gradient_norm!r}.")
    return length * length
