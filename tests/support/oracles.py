"""Random problems and independent solvers that several test files share."""

import itertools

import clarabel
import numpy as np
from hypothesis import strategies as st
from scipy import sparse

from varmix.components import Subsets
from varmix.testing import all_atoms


def nameless(state):
    """Give a state without the names of samplers: a loaded one draws the same under another."""
    if not isinstance(state, dict):
        return state
    return {key: nameless(part) for key, part in state.items() if key not in ("sampler_id", "past")}


def random_mixture(rng, k, gamma, *, on_bounds=False):
    """Give a point of the restricted simplex: inside it, or with about half of its coordinates on their bounds."""
    rest = rng.dirichlet(np.ones(k))
    if on_bounds:
        rest[rng.random(k) < 0.5] = 0.0
        if rest.sum() == 0.0:
            rest[rng.integers(k)] = 1.0
    w = (1.0 - gamma) * rest / rest.sum()
    w[-1] += gamma
    return w


def random_metric(rng, k, condition):
    """Give a symmetric matrix with random eigenvectors, and eigenvalues from 1 to 1 / condition at even ratios."""
    vectors = np.linalg.qr(rng.normal(size=(k, k)))[0]
    H = (vectors * np.geomspace(1.0, 1.0 / condition, k)) @ vectors.T
    return (H + H.T) / 2


def random_ratios(rng, n, components):
    """Give ratios (n, components + 1) of random laws under the uniform target, with the uniform law last."""
    table = rng.gamma(0.5, size=(n, components)) + 0.01
    return np.column_stack([table / table.mean(axis=0), np.ones(n)])


def cost(ratios, norms, w):
    """Give the cost f(w) = mean[ l^2 / (w.q) ] under the uniform target."""
    return float(np.mean(norms**2 / (ratios @ w)))


def quadratic_program(w, g, H, gamma, lower=0.0):
    """Give argmin <g, x> + 1/2 (x - w)' H (x - w) over the restricted simplex (and x >= lower), by another solver.

    `w` need not be feasible.  The solver's gap of 1e-13 still leaves errors of its root, so its answer is polished on
    the bounds it found active.
    """
    k = len(w)
    bounds = np.maximum(np.append(np.zeros(k - 1), gamma), lower)
    scale = max(np.abs(g).max(), np.abs(H).max())
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    for name in ("tol_gap_abs", "tol_gap_rel", "tol_feas", "tol_ktratio"):
        setattr(settings, name, 1e-13)
    solution = clarabel.DefaultSolver(
        sparse.csc_matrix(np.triu(H / scale)),
        g / scale,
        sparse.csc_matrix(np.vstack([np.ones((1, k)), -np.eye(k)])),
        np.concatenate([[1.0 - w.sum()], w - bounds]),
        [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(k)],
        settings,
    ).solve()
    assert solution.status == clarabel.SolverStatus.Solved, solution.status
    x = w + np.array(solution.x)
    return _polish(x, w, g / scale, H / scale, bounds, active=np.array(solution.z[1:]) > np.array(solution.s[1:]))


def _polish(x, w, g, H, bounds, active):
    """Solve the optimality conditions on the active bounds, with residuals in long double."""
    free = np.flatnonzero(~active)
    kkt = np.block([[H[np.ix_(free, free)], np.ones((len(free), 1))], [np.ones((1, len(free))), np.zeros((1, 1))]])
    y, level = np.where(active, bounds, x).astype(np.longdouble), np.longdouble(0.0)
    for _ in range(5):
        gradient = g + H.astype(np.longdouble) @ (y - w)
        residual = np.append(-gradient[free] - level, 1.0 - y.sum()).astype(np.float64)
        move = np.linalg.lstsq(kkt, residual, rcond=None)[0]
        y[free] += move[:-1]
        level += move[-1]
    return y.astype(np.float64) if (y >= bounds - 1e-12).all() else x


def norms_at(t, indices):
    """Give norms that differ from point to point and drift from round to round."""
    return (0.1 + np.sin(indices + 0.01 * t) ** 2) * (1 + 5.0 * (indices % 7 == 0))


class Constant:
    """Stands in for `Uniforms`: every number it gives is the same."""

    def __init__(self, u):
        self.u = u

    def take(self, count):
        return np.full(count, self.u)


def lane_probabilities(allocation, shares, m):
    """Give the probability (m, lanes) that a slot is served by a lane, exactly.

    The real allocation is integrated over its uniform, piece by piece: it is constant between the points where some
    slot passes from one lane to the next.
    """
    edges = np.cumsum(shares)
    probabilities = np.zeros((m, len(shares)))
    for low, high in pieces([edges, *(m * edges - r for r in range(m))]):
        lanes, _ = allocation.assign(allocation.init(len(shares)), shares, m, Constant((low + high) / 2))
        probabilities[np.arange(m), lanes] += high - low
    return probabilities


def atom_probabilities(family, lanes):
    """Give the probability (lanes, n) that a lane draws an atom, exactly, by integrating the family's real draws."""
    target = target_of(family)
    ratios = family.ratios(np.arange(len(target)))
    largest = ratios[target > 0].max(axis=0)
    inside = target[:, None] * (ratios == largest)  # of a group, whatever the smoothing
    laws = np.column_stack([target[:, None] * ratios, inside / inside.sum(axis=0), target])
    probabilities = np.zeros((lanes, len(target)))
    for low, high in pieces(np.cumsum(laws, axis=0).T):
        atoms, _ = family.draw(np.arange(lanes), Constant((low + high) / 2))
        probabilities[np.arange(lanes), atoms] += high - low
    return probabilities


def target_of(family):
    """Give the target of a family over points or few subsets, uniform or not."""
    space = family.space
    if isinstance(space, Subsets):
        return np.full(len(all_atoms(space)), 1 / len(all_atoms(space)))
    return np.full(space.n, 1 / space.n) if space.target is None else space.target


def pieces(cuts):
    """Give the pieces of [0, 1] between the cuts, without those that only rounding makes."""
    points = np.unique(np.clip(np.concatenate([[0.0, 1.0], *cuts]), 0.0, 1.0))
    return [(low, high) for low, high in itertools.pairwise(points) if high - low > 1e-14]


@st.composite
def problems(draw, gammas=(0.01, 0.1, 0.5)):
    """Give ratios (n, k) with the uniform law last, norms of at most one, a gamma and a mixture that respects it."""
    n, components = draw(st.integers(2, 6)), draw(st.integers(1, 4))
    counts = st.lists(st.integers(0, 4), min_size=n, max_size=n).filter(any)
    table = np.array([draw(counts) for _ in range(components)], dtype=np.float64).T
    ratios = np.column_stack([table / table.mean(axis=0), np.ones(n)])
    norms = np.array(draw(st.lists(st.integers(0, 10), min_size=n, max_size=n))) / 10
    gamma = draw(st.sampled_from(gammas))
    return ratios, norms, gamma, draw(mixtures(components + 1, gamma))


@st.composite
def mixtures(draw, k, gamma):
    """Give a point of the restricted simplex, often on its border."""
    parts = np.array(draw(st.lists(st.integers(0, 5), min_size=k, max_size=k).filter(any)), dtype=np.float64)
    w = (1 - gamma) * parts / parts.sum()
    w[-1] += gamma
    return w
