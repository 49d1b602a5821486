"""Small problems, every method by name, and samplers that have learned something, for tests of solvers."""

from copy import deepcopy

import numpy as np
from scipy.sparse import csr_matrix

import varmix
from varmix.solvers import Custom, Linear
from varmix.solvers._coordinate import BlockLayout, CompiledCoordinates
from varmix.solvers._sgd import Adagrad, CompiledAdagrad, CompiledSgd, Sgd
from varmix.solvers._variance_reduced import CompiledSaga, CompiledSvrg, Saga, Svrg

OVER_POINTS = {
    "sgd": (Sgd, CompiledSgd),
    "adagrad": (Adagrad, CompiledAdagrad),
    "svrg": (Svrg, CompiledSvrg),
    "saga": (Saga, CompiledSaga),
}
KINDS = {
    "dense": np.asarray,
    "float32": lambda X: np.asarray(X, dtype=np.float32),
    "csr": csr_matrix,
}


def linear(n=30, d=6, loss="logistic", kind="dense", *, intercept=False, l2=0.0, costs=False, seed=0):
    """Return a linear problem with zeros in X and rows of different lengths."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.6) * np.geomspace(0.2, 3, n)[:, None]
    X = np.float64(np.float32(X))  # so that float32 holds the same numbers
    y = rng.normal(size=n) if loss == "squared" else np.where(rng.random(n) < 0.4, 1.0, -1.0)
    given = 2 * rng.random(n) if costs else None
    return Linear(KINDS[kind](X), y, loss=loss, l2=l2, intercept=intercept, costs=given)


def custom(problem):
    """Return the same problem as functions, if it has no intercept."""
    return Custom(problem.n, problem.dim, problem.losses, problem.gradients, l2=problem.l2)


def coordinates(kind, problem, theta, blocks=None, batch=1, lipschitz=False):
    """Return a method over coordinates, plain or compiled."""
    method = kind(problem, theta, BlockLayout(problem.dim, blocks), batch)
    if lipschitz:
        known = CompiledCoordinates(problem, theta, BlockLayout(problem.dim, blocks), batch)
        known.use_lipschitz(None)
        method.use_lipschitz(known.compute_constants())
    return method


def samplers(n, lengths, seed=0):
    """Return samplers over n atoms by name; those that learn have learned from `lengths`."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    table = rng.gamma(0.7, size=(n, 3))
    made = {
        "uniform": varmix.uniform(n, rng=seed),
        "static": varmix.importance(lengths + 0.1, rng=seed),
        "vrm, groups": varmix.vrm(varmix.Groups(np.arange(n) % 3), rng=seed),
        "vrm, smoothed groups": varmix.vrm(varmix.Groups(np.arange(n) > n // 2, smoothing=0.2), rng=seed),
        "vrm, dense": varmix.vrm(varmix.Dense(table / table.sum(axis=0)), rng=seed),
        "vrm, distances": varmix.vrm(varmix.Distances(X, X[:2]), rng=seed),
        "partially biased": varmix.importance(lengths, smoothing=0.5, rng=seed),
        "stratified": varmix.literature.stratified_sampling(np.arange(n) % 3, [1.0, 0.2, 3.0], rng=seed),
        "vrb": varmix.literature.vrb(n, rng=seed),
        "bandit": varmix.literature.bandit(n, rounds=20, rng=seed),
        "mirror descent": varmix.literature.mirror_descent(n, rounds=20, rng=seed),
    }
    for sampler in made.values():
        for _ in range(20):
            draw = sampler.draw(4)
            sampler.update(draw, lengths[draw.indices])
    return made


def law(sampler):
    """Return the probability and the weight of every atom."""
    n = sampler.components.space.n
    density = sampler.components.ratios(np.arange(n)) @ sampler.mixture
    return density / n, 1 / density


def step_of(method, atoms, weights, length=0.01):
    """Return the direction of one step over a batch, from a copy of the method."""
    copied = deepcopy(method)
    atoms = np.array(atoms, dtype=np.int64)
    atoms.setflags(write=False)  # as those of a receipt are: kernels need not be compiled twice
    before = copied.theta.copy()
    copied.run(atoms, np.array(weights, dtype=np.float64), np.array([length]))
    return (before - copied.theta) / length, copied
