"""Reweighting: from the density of a draw to the weights that the user gets.

`exact` keeps estimates unbiased, and so does `horvitz_thompson`, which weights the points of a set one by one.  The
others trade bias for smaller weights.  Whatever is chosen changes the estimate only: learners and the gain meter always
work with the true density.
"""

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from varmix._core.validation import FloatArray, as_fraction, as_positive


class Reweight(Protocol):
    """Turns densities into weights of the same shape."""

    @property
    def unbiased(self) -> bool:
        """Whether weighted means estimate the mean under the target without bias."""
        ...

    def __call__(self, density: FloatArray) -> FloatArray:
        """Give the weights of draws with these densities."""
        ...


class _Inverse:
    """What makes an estimate unbiased: the inverse of how often something comes, beside the target."""

    unbiased: ClassVar[bool] = True

    def __call__(self, density: FloatArray) -> FloatArray:
        """Give 1 / d."""
        return 1.0 / density


@dataclass(frozen=True)
class Exact(_Inverse):
    """The importance weight r = 1 / d."""


@dataclass(frozen=True)
class HorvitzThompson(_Inverse):
    """A weight for every point of a set, size / (n pi_i): the inverse of how often the point comes, in any set.

    The mean over sets and points of weight times gradient is unbiased, and varies less than with one weight a set,
    because pi_i, the probability that the mixture's set holds point i, varies less than the probability of the set.  It
    needs a family that knows it, such as `KDpp`.  Where others get the density of the set, this gets that of
    the points, n pi_i / size, and gives weights (m, size).
    """


@dataclass(frozen=True)
class SoftTruncation:
    """Towards one by `t`: (1 - t) r + t, biased.  Section 6.2 of the paper uses t = 0.2."""

    t: float = 0.2
    unbiased: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "t", as_fraction(self.t, "t", zero=True))

    def __call__(self, density: FloatArray) -> FloatArray:
        """Give (1 - t) / d + t."""
        return (1.0 - self.t) / density + self.t


@dataclass(frozen=True)
class Power:
    """A power of the weight: r^exponent, biased below 1.  Prioritised replay calls the exponent beta."""

    exponent: float
    unbiased: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "exponent", as_fraction(self.exponent, "exponent", zero=True))

    def __call__(self, density: FloatArray) -> FloatArray:
        """Give d^-exponent."""
        return np.asarray(density**-self.exponent)


@dataclass(frozen=True)
class Unweighted:
    """No weights: ones, whatever the density.  Biased towards what is drawn more often, and meant to be."""

    unbiased: ClassVar[bool] = False

    def __call__(self, density: FloatArray) -> FloatArray:
        """Give ones."""
        return np.ones_like(density)


@dataclass(frozen=True)
class Clip:
    """No weight above `limit`: min(r, limit), biased where it clips."""

    limit: float
    unbiased: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "limit", as_positive(self.limit, "limit"))

    def __call__(self, density: FloatArray) -> FloatArray:
        """Give min(1 / d, limit)."""
        return np.minimum(1.0 / density, self.limit)


exact = Exact()
horvitz_thompson = HorvitzThompson()
unweighted = Unweighted()
