"""The arms of the convex experiment: one code path with different samplers."""

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from lab.arrays import FloatArray, IntArray
from lab.experiments.convex.tasks import load_problem, make_sparse
from varmix import Sampler, allocate, importance, literature, uniform, vrm
from varmix.components import Family, Groups, Points, Uniforms
from varmix.estimators import auto
from varmix.learners import Fixed, Neyman

RESHUFFLING, MIXTURE, CROSS, CROSS_NEYMAN = "reshuffling", "mixture", "mixture, cross", "mixture, cross, Neyman"
AGAIN, ONCE, PROPORTIONAL = "reshuffling again", "shuffling once", "proportional"
DEFAULT = "mixture, by default"  # `Sampler(groups)`: plain shuffling until the mixture pays


class FixedOrder(Family):
    """Shuffling once: every point once per epoch, in one random order for the whole run."""

    def __init__(self, n: int, seed: int) -> None:
        self.k, self.c, self.space = 1, 1.0, Points(n)
        self._order = np.random.default_rng(seed).permutation(n)
        self._next = 0

    @property
    def has_uniform(self) -> bool:
        """True: over an epoch every point is drawn once."""
        return True

    @property
    def reshuffles(self) -> bool:
        """True: no point comes twice in an epoch."""
        return True

    def draw(self, lanes: IntArray, uniforms: Uniforms) -> tuple[IntArray, FloatArray]:
        """Return the next points of the order."""
        places = (self._next + np.arange(len(lanes))) % self.space.n
        self._next = (self._next + len(lanes)) % self.space.n
        return self._order[places], np.ones((len(lanes), 1))

    def ratios(self, atoms: IntArray) -> FloatArray:
        """Return one for every point."""
        return np.ones((len(atoms), 1))


@lru_cache(maxsize=4)
def make_groups(name: str, kind: str = "auto", replacement: bool = False, resplit: str | None = None) -> Groups:
    """Return the groups of a task. They can be reused, because samplers copy them."""
    p = load_problem(name)
    X = p.rows.dense if p.rows.dense.size else make_sparse(p)
    task = "regression" if p.loss == "squared" else "classification"
    return auto(X, p.y, kind=kind, task=task, replacement=replacement, resplit=resplit, rng=0)


def _build_proportional(name: str, seed: int) -> Sampler:
    groups = make_groups(name)
    return vrm(groups, learner=Fixed(np.append(np.zeros(groups.k), 1.0)), rng=seed)


def _build_neyman(name: str, seed: int) -> Sampler:
    groups = make_groups(name, resplit="norms")
    return vrm(groups, learner=Neyman(groups), rng=seed)


ARMS: dict[str, Callable[[str, int], Sampler]] = {
    "uniform": lambda name, seed: uniform(load_problem(name).n, rng=seed),
    RESHUFFLING: lambda name, seed: uniform(load_problem(name).n, replacement=False, rng=seed),
    AGAIN: lambda name, seed: uniform(load_problem(name).n, replacement=False, rng=seed + 1_000_000),
    ONCE: lambda name, seed: Sampler(FixedOrder(load_problem(name).n, seed), learner=Fixed(), rng=seed),
    "static importance": lambda name, seed: importance(load_problem(name).lipschitz, smoothing=0.5, rng=seed),
    "VRB": lambda name, seed: literature.vrb(load_problem(name).n, rng=seed),
    "VRM, independent": lambda name, seed: vrm(
        make_groups(name, replacement=True), allocate=allocate.independent, rng=seed
    ),
    "VRM, stratified": lambda name, seed: vrm(make_groups(name, replacement=True), rng=seed),
    PROPORTIONAL: _build_proportional,
    MIXTURE: lambda name, seed: vrm(make_groups(name), rng=seed),
    DEFAULT: lambda name, seed: Sampler(make_groups(name), rng=seed),
    CROSS: lambda name, seed: vrm(make_groups(name, resplit="norms"), rng=seed),
    CROSS_NEYMAN: _build_neyman,
    "mixture of labels": lambda name, seed: vrm(make_groups(name, "labels"), rng=seed),
    "mixture of norms": lambda name, seed: vrm(make_groups(name, "norms"), rng=seed),
    "mixture of clusters": lambda name, seed: vrm(make_groups(name, "clusters"), rng=seed),
}
# Arms that draw without replacement and always adapt: the thresholds of the meter are for these.
ADAPTIVE_ARMS = (MIXTURE, CROSS, CROSS_NEYMAN, "mixture of labels", "mixture of norms", "mixture of clusters")
