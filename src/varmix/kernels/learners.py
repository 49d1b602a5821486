"""One round of the learners that have a compiled step."""

import math

import numpy as np

from varmix.arrays import FloatArray
from varmix.kernels.cost import value_and_gradient
from varmix.kernels.jit import kernel
from varmix.kernels.simplex import bounded_step, settle

# In one round no weight above FLOOR / k loses more than this share: one huge loss would set others to zero, from where
# the barrier lets them return only slowly.
LARGEST_DROP = 0.5
FLOOR = 1e-3


@kernel
def barrier_newton(
    ratios: FloatArray,
    coefficients: FloatArray,
    old: FloatArray,
    old_curvature: FloatArray,
    old_cost: float,
    old_rounds: float,
    gamma: float,
    beta: float,
    eps: float,
    decay: float,
    mixture: FloatArray,
    curvature: FloatArray,
) -> tuple[float, float]:
    """Write the next mixture and tempered curvature; give the next sums of costs and of rounds.

    `decay` multiplies the sums before each round: 1 when nothing is forgotten.
    """
    k = old.shape[0]
    work = np.empty((k + 3, k))  # one allocation: they cost as much as the arithmetic when k is small
    metric, gradient, root, lower = work[:k], work[k], work[k + 1], work[k + 2]
    cost = value_and_gradient(ratios, coefficients, old, gradient)
    total = decay * old_cost + cost
    rounds = decay * old_rounds + 1.0
    mixture[:] = old
    for i in range(k):
        root[i] = math.sqrt(old[i])
    for i in range(k):
        part = 2.0 * root[i] * (gradient[i] / cost) if cost > 0.0 else 0.0
        for j in range(k):
            curvature[i, j] = decay * old_curvature[i, j] + part * (root[j] * gradient[j])
    if cost > 0.0 and k > 1:
        # In units of the mean cost, so that the step sees the same numbers whatever the scale of the losses.
        unit = rounds / total
        for i in range(k):
            gradient[i] *= unit
            root[i] = 1.0 / math.sqrt(max(old[i], FLOOR / k))
            lower[i] = (1.0 - LARGEST_DROP) * old[i] if old[i] > FLOOR / k else 0.0
        lower[k - 1] = max(lower[k - 1], gamma)
        for i in range(k):
            part = beta * unit * root[i]
            for j in range(k):
                metric[i, j] = part * curvature[i, j] * root[j]
        _add_barrier(root, eps, metric)
        bounded_step(old, gradient, metric, lower, mixture)
        settle(mixture, gamma)
    return total, rounds


@kernel
def _add_barrier(root: FloatArray, eps: float, metric: FloatArray) -> None:
    """Add eps W^-1 B W^-1, given W^(-1/2): B is the identity, less what k - 1 barriers moved together add to one."""
    k = root.shape[0]
    together = eps * (k - 2) / (k - 1) ** 2
    for i in range(k):
        metric[i, i] += eps * root[i] ** 4
    for i in range(k - 1):
        part = together * root[i] * root[i]
        for j in range(k - 1):
            metric[i, j] -= part * (root[j] * root[j])


@kernel
def leader(
    ratios: FloatArray,
    coefficients: FloatArray,
    old: FloatArray,
    gamma: float,
    steps: int,
    mixture: FloatArray,
) -> None:
    """Write `steps` square-root multiplicative steps w_j <- w_j sqrt(sum_s c_s q_j(s) / (w.q_s)^2) from `old`."""
    k = old.shape[0]
    slope = np.empty(k)
    mixture[:] = old
    for _ in range(steps):
        value_and_gradient(ratios, coefficients, mixture, slope)
        total = 0.0
        for j in range(k):
            mixture[j] *= math.sqrt(max(-slope[j], 0.0))
            total += mixture[j]
        if not (total > 0.0 and math.isfinite(total)):  # nothing but zero losses in the window
            mixture[:] = old
            return
        again = 0.0
        for j in range(k):
            mixture[j] = max(mixture[j] / total, 1e-6 / k)
            again += mixture[j]
        for j in range(k):
            mixture[j] *= (1.0 - gamma) / again
        mixture[k - 1] += gamma
    settle(mixture, gamma)


@kernel
def neyman(
    ratios: FloatArray,
    norms: FloatArray,
    masses: FloatArray,
    old: FloatArray,
    gamma: float,
    decay: float,
    squares: FloatArray,
    counts: FloatArray,
    mixture: FloatArray,
) -> None:
    """Average the squared norms of each group, row by row, into `squares` and `counts`; write the mixture they ask for.

    A row belongs to the group with its largest ratio.  `decay` multiplies the sums of a group before each of its rows.
    """
    groups = masses.shape[0]
    for r in range(ratios.shape[0]):
        group = 0
        largest = ratios[r, 0]
        for j in range(1, groups):
            if ratios[r, j] > largest:
                largest = ratios[r, j]
                group = j
        squares[group] = decay * squares[group] + norms[r] * norms[r]
        counts[group] = decay * counts[group] + 1.0
    heard = 0.0
    covered = 0.0
    for j in range(groups):
        if counts[j] > 0.0:
            heard += masses[j] * (squares[j] / counts[j])
            covered += masses[j]
    total = 0.0
    for j in range(groups):
        mean = squares[j] / counts[j] if counts[j] > 0.0 else heard / covered
        mixture[j] = masses[j] * math.sqrt(mean)
        total += mixture[j]
    if not total > 0.0:  # no loss yet, or none in groups with a mass
        mixture[:] = old
        return
    for j in range(groups):
        mixture[j] = (1.0 - gamma) * (mixture[j] / total)
    mixture[groups] = gamma
