"""Settings of the paper's theorems for `ONS` and `OGD`, in units of f / n^2, so that n appears nowhere.

The proofs need these settings, but they do not work best in practice. The prescribed gamma exceeds one until T is about
4,000 (Theorem 1, k = 7) or 280,000 (Theorem 2, k = 100, c = 50); it is clipped here. The prescribed steps are tiny. The
default learner, `BarrierNewton`, needs no such settings. It is not the algorithm of the theorems, and no bound is
proven for it.

`L` bounds the squared losses (Assumption 1): pass the largest squared norm that can occur, or report norms divided by a
bound on them. `c` is the largest density ratio: pass `components.c`. The printed paper numbers these theorems 4 and 5.
"""

import math
from dataclasses import dataclass

from varmix._core.validation import as_count, as_fraction, as_positive
from varmix.learners import OGD, ONS
from varmix.learners._ogd import SIMPLEX_DIAMETER

MAX_GAMMA = 0.5  # a larger uniform share leaves little to learn


@dataclass(frozen=True)
class Settings:
    """Constants of a theorem, and the settings of `ONS` that follow from them.

    Parameters
    ----------
    gamma : float
        Smallest share of the uniform component, clipped to `largest_gamma`.
    alpha : float
        Exp-concavity of the cost.
    gradient_bound : float
        Bound G on the length of the gradients.

    Examples
    --------
    >>> settings = full_information(rounds=1_000_000, k=7)
    >>> settings.ons() == ONS(gamma=settings.gamma, beta=settings.beta, eps=settings.eps)
    True
    """

    gamma: float
    alpha: float
    gradient_bound: float

    @property
    def beta(self) -> float:
        """Inverse step of `ONS`: half of the smaller of 1 / (4 G D) and alpha (Hazan et al., 2006)."""
        return 0.5 * min(1.0 / (4.0 * self.gradient_bound * SIMPLEX_DIAMETER), self.alpha)

    @property
    def eps(self) -> float:
        """Factor of the identity that the Hessian of `ONS` starts with: 1 / (beta D)^2 (Hazan et al., 2006)."""
        return 1.0 / (self.beta * SIMPLEX_DIAMETER) ** 2

    def ons(self) -> ONS:
        """Return the learner with these settings.

        Returns
        -------
        ONS
            The algorithm of the theorems.
        """
        return ONS(gamma=self.gamma, beta=self.beta, eps=self.eps)


def full_information(rounds: int, k: int, L: float = 1.0, largest_gamma: float = MAX_GAMMA) -> Settings:
    """Return the settings of Theorem 1, where the losses of all points are known in every round.

    gamma = 3 k^(1/2) (log T / T)^(1/3), alpha = 2 gamma / L and G = L sqrt(k) / gamma^2.

    Parameters
    ----------
    rounds : int
        Number of rounds T, at least 2.
    k : int
        Number of components.
    L : float, default 1.0
        Bound on the squared losses.
    largest_gamma : float, default 0.5
        Upper limit of gamma.

    Returns
    -------
    Settings
        The constants of the theorem.

    Examples
    --------
    >>> full_information(rounds=1_000_000, k=7).gamma.__round__(4)
    0.1905
    """
    T, k, L = _check_arguments(rounds, k, L)
    gamma = min(3.0 * math.sqrt(k) * (math.log(T) / T) ** (1 / 3), as_fraction(largest_gamma, "largest_gamma"))
    return Settings(gamma, 2.0 * gamma / L, L * math.sqrt(k) / gamma**2)


def partial_information(rounds: int, k: int, c: float, L: float = 1.0, largest_gamma: float = MAX_GAMMA) -> Settings:
    """Return the settings of Theorem 2, where only the losses of drawn points are known.

    gamma = k^(3/8) (c / T)^(1/5), alpha = 2 gamma^2 / L and G = L c sqrt(k) / gamma^3.

    Parameters
    ----------
    rounds : int
        Number of rounds T, at least 2.
    k : int
        Number of components.
    c : float
        Largest density ratio of the components, `components.c`.
    L : float, default 1.0
        Bound on the squared losses.
    largest_gamma : float, default 0.5
        Upper limit of gamma.

    Returns
    -------
    Settings
        The constants of the theorem.

    Examples
    --------
    >>> partial_information(rounds=1_000_000, k=7, c=10.0).gamma.__round__(4)
    0.2074
    """
    T, k, L = _check_arguments(rounds, k, L)
    gamma = min(k ** (3 / 8) * (as_positive(c, "c") / T) ** (1 / 5), as_fraction(largest_gamma, "largest_gamma"))
    return Settings(gamma, 2.0 * gamma**2 / L, L * c * math.sqrt(k) / gamma**3)


def gradient_descent(rounds: int, k: int, L: float = 1.0, largest_gamma: float = MAX_GAMMA) -> OGD:
    """Return `OGD` with the settings of the appendix.

    gamma = sqrt(2) (k / T)^(1/6) balances the two terms of the bound, G D sqrt(T) and gamma L T. The step is
    D / (G sqrt(T)).

    Parameters
    ----------
    rounds : int
        Number of rounds T, at least 2.
    k : int
        Number of components.
    L : float, default 1.0
        Bound on the squared losses.
    largest_gamma : float, default 0.5
        Upper limit of gamma.

    Returns
    -------
    OGD
        The learner with a fixed step.

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
    """Return the regret bound of Theorem 1: 5 L k^(1/2) T^(2/3) log(T)^(1/3).

    Parameters
    ----------
    rounds : int
        Number of rounds T, at least 2.
    k : int
        Number of components.
    L : float, default 1.0
        Bound on the squared losses.

    Returns
    -------
    float
        The bound, in units of f / n^2.

    Examples
    --------
    >>> round(theorem_1_bound(rounds=1000, k=4))
    1904
    """
    T, k, L = _check_arguments(rounds, k, L)
    return float(5.0 * L * math.sqrt(k) * T ** (2 / 3) * math.log(T) ** (1 / 3))


def _check_arguments(rounds: int, k: int, L: float) -> tuple[int, int, float]:
    """Return the arguments after checking them."""
    return as_count(rounds, "rounds", least=2), as_count(k, "k"), as_positive(L, "L")
