"""The arms of section 6.4: one code path with different samplers."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lab.arrays import FloatArray
from varmix import Sampler, allocate, uniform, vrm
from varmix.components import Dense, Distances
from varmix.estimators.clustering import (
    Seeding,
    SwitchAfter,
    find_nearest_centers,
    make_cell_sampler,
    make_seeding_sampler,
    plus_plus,
)
from varmix.learners import ONS, Fixed
from varmix.literature import vrb

PAPER_COMPONENTS = 10  # components of the paper's mixture
SNAPSHOT_COUNTS = (1, 10, None)  # distances are kept after so many centres of the seeding; None is all
UNIFORM, AGAIN, RESHUFFLING = "uniform", "uniform again", "reshuffling"
PUBLISHED, DEFAULTS, EVEN = "VRM, as published", "VRM, our defaults", "fixed 1/k mixture"
VRB, VRB_SEEDED = "VRB", "VRB, seeded"
SEEDING, CELLS, DEFAULT = "seeding snapshots", "cells", "seeding, the default"


@dataclass(frozen=True)
class Published:
    """Settings of the paper's learner: beta times the mean squared distance at the seeding, and gamma."""

    beta: float
    gamma: float

    def learner(self, scale: float) -> ONS:
        """Return the learner for squared norms around `scale`; the authors' eps of 0.1 is for norms around one."""
        return ONS(gamma=self.gamma, beta=self.beta / scale, eps=0.1 * scale**2)


@dataclass(frozen=True)
class Start:
    """The points, seeding and settings that all arms of a seeding share."""

    X: FloatArray
    seeding: Seeding
    snapshots: tuple[FloatArray, ...]
    published: Published
    seconds: float
    """CPU seconds of the seeding."""

    @property
    def scale(self) -> float:
        """Mean squared distance at the seeding."""
        return float(np.mean(np.asarray(self.seeding.distances, dtype=np.float64) ** 2))


def make_start(X: FloatArray, clusters: int, rng: np.random.Generator, published: Published) -> Start:
    """Seed by k-means++, and keep the distances after some numbers of centres."""
    plus_plus(X[: 2 * clusters], clusters, 0)  # compile before the clock runs
    begun = time.thread_time()
    seeding = plus_plus(X, clusters, rng)
    seconds = time.thread_time() - begun
    kept = [seeding if count is None else find_nearest_centers(X, seeding.centers[:count]) for count in SNAPSHOT_COUNTS]
    return Start(X, seeding, tuple(np.asarray(at.distances, dtype=np.float64) for at in kept), published, seconds)


def make_paper_components(at: Start, seed: int) -> Distances:
    """Return the components of section 6.4: distances to ten randomly chosen centres.

    The paper does not say where they are chosen from. Here they are points. Too many of the seeding's centres lie far
    out, where all distances are alike, and the mixture would gain less.
    """
    chosen = np.random.default_rng([seed, PAPER_COMPONENTS]).choice(len(at.X), PAPER_COMPONENTS, replace=False)
    return Distances(at.X, at.X[np.sort(chosen)], smoothing=0.1)


def _build_published(at: Start, seed: int) -> Sampler:
    """Build the paper's sampler: independent draws in a batch, and Algorithm 2 as learner."""
    learner = at.published.learner(at.scale)
    return vrm(make_paper_components(at, seed), learner=learner, allocate=allocate.independent, rng=seed)


def _vrb_seeded(at: Start, seed: int) -> Sampler:
    """Build VRB with squared distances at the seeding as first estimates of squared norms; centres get tiny ones."""
    squares = np.asarray(at.seeding.distances, dtype=np.float64) ** 2
    return vrb(len(at.X), gamma=squares + 1e-6 * squares.mean(), rng=seed)


def _build_snapshots(at: Start, seed: int) -> Sampler:
    return vrm(Dense(ratios=np.column_stack([d / d.mean() for d in at.snapshots])), rng=seed)


ARMS: dict[str, Callable[[Start, int], Sampler | SwitchAfter]] = {
    UNIFORM: lambda at, seed: uniform(len(at.X), rng=seed),
    AGAIN: lambda at, seed: uniform(len(at.X), rng=seed + 1_000_000),
    RESHUFFLING: lambda at, seed: uniform(len(at.X), replacement=False, rng=seed),
    PUBLISHED: _build_published,
    DEFAULTS: lambda at, seed: vrm(make_paper_components(at, seed), rng=seed),
    EVEN: lambda at, seed: vrm(make_paper_components(at, seed), learner=Fixed(), rng=seed),
    VRB: lambda at, seed: vrb(len(at.X), rng=seed),
    VRB_SEEDED: _vrb_seeded,
    SEEDING: _build_snapshots,
    CELLS: lambda at, seed: make_cell_sampler(at.seeding, rng=seed),
    DEFAULT: lambda at, seed: make_seeding_sampler(at.seeding, rng=seed),
}
EACH_BATCH_ARMS = (PUBLISHED,)  # feedback after every batch, as printed; the others may run some batches ahead
BASELINES = (UNIFORM, AGAIN)  # pooled: no arm is compared with one lucky set of runs
