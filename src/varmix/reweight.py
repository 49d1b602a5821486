"""Reweighting: how the density of a draw becomes the weight that the user gets.

`exact` keeps estimates unbiased, and so does `horvitz_thompson`, which weights every point of a set separately. The
others accept bias for smaller weights. The choice affects the user's estimate only: learners and the gain meter always
work with the true density.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from varmix._core.validation import FloatArray, as_fraction, as_positive

__all__ = [
    "Clip",
    "Exact",
    "HorvitzThompson",
    "Power",
    "Reweight",
    "SoftTruncation",
    "Unweighted",
    "exact",
    "horvitz_thompson",
    "unweighted",
]


class Reweight(ABC):
    """Base class of reweightings, which turn densities into weights of the same shape.

    Subclass it, define `__call__`, and set `unbiased` if it applies.

    Attributes
    ----------
    unbiased : bool
        Whether weighted means estimate the mean under the target without bias. Default: False.
    by_point : bool
        Whether every point of a set gets a weight of its own. The densities are then those of the points, (m, size),
        and the family must know with what probability a set includes a point, as `KDpp` does. Default: False.
    is_exact : bool
        Whether the weight is 1 / density. The sampler has computed that already, so it does not call the object.
        Default: False.

    Examples
    --------
    >>> class SquareRoot(Reweight):
    ...     def __call__(self, density):
    ...         return density**-0.5
    >>> SquareRoot()(np.array([0.25, 1.0])).tolist(), SquareRoot().unbiased
    ([2.0, 1.0], False)
    """

    unbiased: ClassVar[bool] = False
    by_point: ClassVar[bool] = False
    is_exact: ClassVar[bool] = False

    @abstractmethod
    def __call__(self, density: FloatArray) -> FloatArray:
        """Return the weights of draws with these densities."""


@dataclass(frozen=True)
class Exact(Reweight):
    """The importance weight 1 / d. Unbiased; `varmix.reweight.exact` is the ready instance.

    Examples
    --------
    >>> exact(np.array([0.5, 2.0])).tolist()
    [2.0, 0.5]
    """

    unbiased: ClassVar[bool] = True
    is_exact: ClassVar[bool] = True

    def __call__(self, density: FloatArray) -> FloatArray:
        """Return 1 / d."""
        return 1.0 / density


@dataclass(frozen=True)
class HorvitzThompson(Reweight):
    """A weight for every point of a set: size / (n pi_i), where pi_i is the probability that a set includes point i.

    The mean over sets and points of weight times gradient is unbiased. It varies less than with one weight per set,
    because pi_i varies less than the probability of the set. The family must know pi_i, as `KDpp` does.
    `varmix.reweight.horvitz_thompson` is the ready instance.

    Examples
    --------
    >>> import varmix
    >>> X = np.random.default_rng(0).normal(size=(20, 3))
    >>> sampler = varmix.vrm(varmix.KDpp(X, size=4, ridges=[0.1, 1.0]), reweight=horvitz_thompson, rng=0)
    >>> sampler.draw(2).weights.shape
    (2, 4)
    """

    unbiased: ClassVar[bool] = True
    by_point: ClassVar[bool] = True

    def __call__(self, density: FloatArray) -> FloatArray:
        """Return 1 / d, where d is the density n pi_i / size of each point."""
        return 1.0 / density


@dataclass(frozen=True)
class SoftTruncation(Reweight):
    """A weight between the exact one and one: (1 - t) / d + t. Biased. Section 6.2 of the paper uses t = 0.2.

    Parameters
    ----------
    t : float, default 0.2
        How far weights move towards one, from 0 to 1.

    Examples
    --------
    >>> SoftTruncation(t=0.5)(np.array([0.5, 2.0])).tolist()
    [1.5, 0.75]
    """

    t: float = 0.2

    def __post_init__(self) -> None:
        object.__setattr__(self, "t", as_fraction(self.t, "t", zero=True))

    def __call__(self, density: FloatArray) -> FloatArray:
        """Return (1 - t) / d + t."""
        return (1.0 - self.t) / density + self.t


@dataclass(frozen=True)
class Power(Reweight):
    """A power of the exact weight: (1 / d)^exponent. Biased below 1. Prioritised replay calls the exponent beta.

    Parameters
    ----------
    exponent : float
        From 0 (no weights) to 1 (exact weights).

    Examples
    --------
    >>> Power(0.5)(np.array([0.25, 4.0])).tolist()
    [2.0, 0.5]
    """

    exponent: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "exponent", as_fraction(self.exponent, "exponent", zero=True))

    def __call__(self, density: FloatArray) -> FloatArray:
        """Return d^-exponent."""
        return np.asarray(density**-self.exponent)


@dataclass(frozen=True)
class Unweighted(Reweight):
    """Weights of one: no correction at all. Biased towards what is drawn more often.

    `varmix.reweight.unweighted` is the ready instance.

    Examples
    --------
    >>> unweighted(np.array([0.5, 2.0])).tolist()
    [1.0, 1.0]
    """

    def __call__(self, density: FloatArray) -> FloatArray:
        """Return ones."""
        return np.ones_like(density)


@dataclass(frozen=True)
class Clip(Reweight):
    """The exact weight, but never above a limit: min(1 / d, limit). Biased where it clips.

    Parameters
    ----------
    limit : float
        Largest weight.

    Examples
    --------
    >>> Clip(limit=1.5)(np.array([0.5, 2.0])).tolist()
    [1.5, 0.5]
    """

    limit: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "limit", as_positive(self.limit, "limit"))

    def __call__(self, density: FloatArray) -> FloatArray:
        """Return min(1 / d, limit)."""
        return np.minimum(1.0 / density, self.limit)


exact = Exact()
horvitz_thompson = HorvitzThompson()
unweighted = Unweighted()
