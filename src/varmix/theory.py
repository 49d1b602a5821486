"""The settings of the paper's theorems, in units of f / n^2 (so that n appears nowhere).

They are what the proofs need, not what works best: the theory's gamma is above one until T is about 4,000 (Theorem 1,
k = 7) or 280,000 (Theorem 2, k = 100, c = 50), and is clipped here; the steps it prescribes are tiny.  `BarrierNewton`,
the default, needs none of them, and is not the algorithm of the theorems: no bound is proven for it.  `L` bounds the
squared losses (Assumption 1): pass the largest squared norm you ever see, or feed norms divided by a bound on them.
`components.c` is c.  In print the theorems are numbered 4 and 5.
"""

import math
from dataclasses import dataclass

from varmix._core.validation import as_count, as_fraction, as_positive
from varmix.learners import OGD, ONS
from varmix.learners._ogd import SIMPLEX_DIAMETER

MAX_GAMMA = 0.5  # a gamma above this leaves nothing to learn


@dataclass(frozen=True)
class Settings:
    """gamma (clipped to `largest_gamma`), the exp-concavity alpha, the gradient bound G, and what follows."""

    gamma: float
    alpha: float
    gradient_bound: float

    @property
    def beta(self) -> float:
        """Hazan et al. 2006: half of the smaller of 1 / (4 G D) and alpha."""
        return 0.5 * min(1.0 / (4.0 * self.gradient_bound * SIMPLEX_DIAMETER), self.alpha)

    @property
    def eps(self) -> float:
        """Hazan et al. 2006: 1 / (beta D)^2."""
        return 1.0 / (self.beta * SIMPLEX_DIAMETER) ** 2

    def ons(self) -> ONS:
        """Give the learner with these settings."""
        return ONS(gamma=self.gamma, beta=self.beta, eps=self.eps)


def full_information(rounds: int, k: int, L: float = 1.0, largest_gamma: float = MAX_GAMMA) -> Settings:
    """Theorem 1: gamma = 3 k^(1/2) (log T / T)^(1/3), alpha = 2 gamma / L, G = L sqrt(k) / gamma^2.

    Examples
    --------
    >>> full_information(rounds=1_000_000, k=7).gamma.__round__(4)
    0.1905
    """
    T, k, L = _check_arguments(rounds, k, L)
    gamma = min(3.0 * math.sqrt(k) * (math.log(T) / T) ** (1 / 3), as_fraction(largest_gamma, "largest_gamma"))
    return Settings(gamma, 2.0 * gamma / L, L * math.sqrt(k) / gamma**2)


def partial_information(rounds: int, k: int, c: float, L: float = 1.0, largest_gamma: float = MAX_GAMMA) -> Settings:
    """Theorem 2: gamma = k^(3/8) (c / T)^(1/5), alpha = 2 gamma^2 / L, G = L c sqrt(k) / gamma^3.

    Examples
    --------
    >>> partial_information(rounds=1_000_000, k=7, c=10.0).gamma.__round__(4)
    0.2074
    """
    T, k, L = _check_arguments(rounds, k, L)
    gamma = min(k ** (3 / 8) * (as_positive(c, "c") / T) ** (1 / 5), as_fraction(largest_gamma, "largest_gamma"))
    return Settings(gamma, 2.0 * gamma**2 / L, L * c * math.sqrt(k) / gamma**3)


def gradient_descent(rounds: int, k: int, L: float = 1.0, largest_gamma: float = MAX_GAMMA) -> OGD:
    """The appendix: balance G D sqrt(T) with gamma L T; gamma = sqrt(2) (k / T)^(1/6), step D / (G sqrt(T)).

    Examples
    --------
    >>> gradient_descent(rounds=1_000_000, k=7).gamma.__round__(4)
    0.1956
    """
    T, k, L = _check_arguments(rounds, k, L)
    gamma = min(math.sqrt(2.0) * (k / T) ** (1 / 6), as_fraction(largest_gamma, "largest_gamma"))
    gradient_bound = L * math.sqrt(k) / gamma**2
    return OGD(gamma=gamma, step_size=SIMPLEX_DIAMETER / (gradient_bound * math.sqrt(T)))


def theorem_1_bound(rounds: int, k: int, L: float = 1.0) -> float:
    """The regret bound of Theorem 1: 5 L k^(1/2) T^(2/3) log(T)^(1/3).

    Examples
    --------
    >>> round(theorem_1_bound(rounds=1000, k=4))
    1904
    """
    T, k, L = _check_arguments(rounds, k, L)
    return float(5.0 * L * math.sqrt(k) * T ** (2 / 3) * math.log(T) ** (1 / 3))


def _check_arguments(rounds: int, k: int, L: float) -> tuple[int, int, float]:
    return as_count(rounds, "rounds", least=2), as_count(k, "k"), as_positive(L, "L")
