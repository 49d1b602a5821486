"""The arms of the convex experiment: one code path, only the sampler differs."""

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from lab.experiments.convex.tasks import problem, sparse
from varmix import Sampler, allocate, importance, literature, uniform, vrm
from varmix.components import Groups
from varmix.estimators import auto
from varmix.learners import Fixed, Neyman

RESHUFFLING, MIXTURE, CROSS, CROSS_NEYMAN = "reshuffling", "mixture", "mixture, cross", "mixture, cross, Neyman"
AGAIN, PROPORTIONAL = "reshuffling again", "proportional"


@lru_cache(maxsize=4)
def family(name: str, kind: str = "auto", replacement: bool = False, resplit: str | None = None) -> Groups:
    """Give the groups of a task; samplers get copies, so that they can be used again."""
    p = problem(name)
    X = p.rows.dense if p.rows.dense.size else sparse(p)
    task = "regression" if p.loss == "squared" else "classification"
    return auto(X, p.y, kind=kind, task=task, replacement=replacement, resplit=resplit, rng=0)


def _proportional(name: str, seed: int) -> Sampler:
    groups = family(name)
    return vrm(groups, learner=Fixed(np.append(np.zeros(groups.k), 1.0)), rng=seed)


def _neyman(name: str, seed: int) -> Sampler:
    groups = family(name, resplit="norms")
    return vrm(groups, learner=Neyman(groups), rng=seed)


ARMS: dict[str, Callable[[str, int], Sampler]] = {
    "uniform": lambda name, seed: uniform(problem(name).n, rng=seed),
    RESHUFFLING: lambda name, seed: uniform(problem(name).n, replacement=False, rng=seed),
    AGAIN: lambda name, seed: uniform(problem(name).n, replacement=False, rng=seed + 1_000_000),
    "static importance": lambda name, seed: importance(problem(name).lipschitz, smoothing=0.5, rng=seed),
    "VRB": lambda name, seed: literature.vrb(problem(name).n, rng=seed),
    "VRM, independent": lambda name, seed: vrm(family(name, replacement=True), allocate=allocate.independent, rng=seed),
    "VRM, stratified": lambda name, seed: vrm(family(name, replacement=True), rng=seed),
    PROPORTIONAL: _proportional,
    MIXTURE: lambda name, seed: vrm(family(name), rng=seed),
    CROSS: lambda name, seed: vrm(family(name, resplit="norms"), rng=seed),
    CROSS_NEYMAN: _neyman,
    "mixture of labels": lambda name, seed: vrm(family(name, "labels"), rng=seed),
    "mixture of norms": lambda name, seed: vrm(family(name, "norms"), rng=seed),
    "mixture of clusters": lambda name, seed: vrm(family(name, "clusters"), rng=seed),
}
# Arms that draw without replacement and adapt: what the meter's thresholds are for.
CURSORS = (MIXTURE, CROSS, CROSS_NEYMAN, "mixture of labels", "mixture of norms", "mixture of clusters")
