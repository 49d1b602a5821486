"""Compiled steps of learners: BarrierNewton, Leader, Neyman and Cautious."""

import math

import numpy as np

from varmix._core.validation import FloatArray, IntArray
from varmix._kernels.cost import value_and_gradient
from varmix._kernels.jit import kernel
from varmix._kernels.simplex import MAX_PIVOT_WORK, MIN_FACTORISATIONS, bounded_step, clip_to_simplex, copy_vector

# In one round no weight above WEIGHT_FLOOR / k loses more than this fraction. Without the limit, one huge loss would
# set other weights to zero, and the barrier lets them grow back only slowly.
MAX_WEIGHT_DROP = 0.5
WEIGHT_FLOOR = 1e-3


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
    """Write the next mixture and the next tempered curvature; return the next sums of costs and of rounds.

    `decay` multiplies the sums before each round; 1 forgets nothing. If the cost or the curvature is not finite, the
    returned sum of costs is not finite either.
    """
    k = old.shape[0]
    work = np.empty((k + 3, k))  # one allocation, because each costs as much as the arithmetic for small k
    metric, gradient, root, lower = work[:k], work[k], work[k + 1], work[k + 2]
    cost = value_and_gradient(ratios, coefficients, old, gradient)
    total = decay * old_cost + cost
    rounds = decay * old_rounds + 1.0
    copy_vector(old, mixture)
    for i in range(k):
        root[i] = math.sqrt(old[i])
    for i in range(k):
        part = 2.0 * root[i] * (gradient[i] / cost) if cost > 0.0 else 0.0
        for j in range(k):
            curvature[i, j] = decay * old_curvature[i, j] + part * (root[j] * gradient[j])
        if not math.isfinite(curvature[i, i]):  # the largest entries are on the diagonal
            total = math.inf
    if cost > 0.0 and k > 1:
        # In units of the mean cost, so that the scale of the losses has no effect.
        unit = rounds / total
        for i in range(k):
            gradient[i] *= unit
            root[i] = 1.0 / math.sqrt(max(old[i], WEIGHT_FLOOR / k))
            lower[i] = (1.0 - MAX_WEIGHT_DROP) * old[i] if old[i] > WEIGHT_FLOOR / k else 0.0
        lower[k - 1] = max(lower[k - 1], gamma)
        together = eps * (k - 2) / (k - 1) ** 2  # makes k - 1 barriers that move together count as one
        for i in range(k):
            part = beta * unit * root[i]
            for j in range(k):
                metric[i, j] = part * curvature[i, j] * root[j]
            square = root[i] * root[i]
            metric[i, i] += eps * (square * square)
            if i < k - 1:
                part = together * root[i] * root[i]
                for j in range(k - 1):
                    metric[i, j] -= part * (root[j] * root[j])
        bounded_step(old, gradient, metric, lower, max(MAX_PIVOT_WORK, MIN_FACTORISATIONS * float(k) ** 3), mixture)
        clip_to_simplex(mixture, gamma)
    return total, rounds


@kernel
def leader(
    ratios: FloatArray,
    coefficients: FloatArray,
    old: FloatArray,
    gamma: float,
    steps: int,
    mixture: FloatArray,
) -> None:
    """Write `steps` multiplicative steps w_j <- w_j sqrt(sum_s c_s q_j(s) / (w.q_s)^2), starting from `old`."""
    k = old.shape[0]
    slope = np.empty(k)
    copy_vector(old, mixture)
    for _ in range(steps):
        value_and_gradient(ratios, coefficients, mixture, slope)
        total = 0.0
        for j in range(k):
            mixture[j] *= math.sqrt(max(-slope[j], 0.0))
            total += mixture[j]
        if not (total > 0.0 and math.isfinite(total)):  # all losses in the window are zero
            copy_vector(old, mixture)
            return
        again = 0.0
        for j in range(k):
            mixture[j] = max(mixture[j] / total, 1e-6 / k)
            again += mixture[j]
        for j in range(k):
            mixture[j] *= (1.0 - gamma) / again
        mixture[k - 1] += gamma
    clip_to_simplex(mixture, gamma)


@kernel
def group_of_rows(ratios: FloatArray, groups: IntArray) -> None:
    """Write the group of each row: the component with the largest ratio, leaving out the last, the uniform one."""
    for r in range(ratios.shape[0]):
        groups[r] = 0
        for j in range(1, ratios.shape[1] - 1):
            if ratios[r, j] > ratios[r, groups[r]]:
                groups[r] = j


@kernel
def average_groups(groups: IntArray, norms: FloatArray, decay: float, squares: FloatArray, counts: FloatArray) -> None:
    """Add the squared norm of each row to the sums of its group, which are multiplied by `decay` first."""
    for r in range(groups.shape[0]):
        g = groups[r]
        squares[g] = decay * squares[g] + norms[r] * norms[r]
        counts[g] = decay * counts[g] + 1.0


@kernel
def neyman(
    squares: FloatArray,
    counts: FloatArray,
    masses: FloatArray,
    parents: IntArray,
    old: FloatArray,
    gamma: float,
    mixture: FloatArray,
) -> None:
    """Write the mixture that follows from the sums of squared norms and the counts of draws.

    Without parents (an empty array) the share of a group is its mass times the root of its mean square. With parents,
    half of the share uses the mean of the parent instead. A group without draws gets the mean of its parent, or of all
    groups.
    """
    groups = masses.shape[0]
    nested = parents.shape[0] > 0
    families = 1
    for j in range(parents.shape[0]):
        families = max(families, parents[j] + 1)
    sums, covered = np.empty(families), np.empty(families)
    sums[:] = 0.0
    covered[:] = 0.0
    for j in range(groups):
        if counts[j] > 0.0:
            parent = parents[j] if nested else 0
            sums[parent] += masses[j] * (squares[j] / counts[j])
            covered[parent] += masses[j]
    overall, known = 0.0, 0.0
    for f in range(families):
        overall += sums[f]
        known += covered[f]
    overall /= known
    own = 0.0
    inherited = 0.0
    above = np.empty(groups if nested else 0)
    for j in range(groups):
        parent = parents[j] if nested else 0
        mean = sums[parent] / covered[parent] if covered[parent] > 0.0 else overall
        if nested:
            above[j] = masses[j] * math.sqrt(mean)
            inherited += above[j]
        mixture[j] = masses[j] * math.sqrt(squares[j] / counts[j] if counts[j] > 0.0 else mean)
        own += mixture[j]
    if not own > 0.0:  # all losses so far are zero, or in groups of mass zero
        copy_vector(old, mixture)
        return
    for j in range(groups):
        share = mixture[j] / own
        if nested:
            share = 0.5 * share + 0.5 * (above[j] / inherited)
        mixture[j] = (1.0 - gamma) * share
    mixture[groups] = gamma


@kernel
def mix_with_uniform(learned: FloatArray, part: float, gamma: float, mixture: FloatArray) -> None:
    """Write `part` times the learned mixture plus 1 - `part` of the uniform component, the last."""
    last = learned.shape[0] - 1
    for j in range(last + 1):
        mixture[j] = part * learned[j]
    mixture[last] += 1.0 - part
    clip_to_simplex(mixture, gamma)
