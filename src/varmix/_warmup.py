"""Compilation ahead of time for `varmix warmup`: it uses each area once on a few points, as new users do.

Kernels are compiled for the types of their arguments, so the uses cover different types: few and many groups, draws
with and without replacement, single and double precision, dense and sparse rows.
"""

import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from varmix._kernels.jit import mute_notice


def warm_up(areas: Sequence[str]) -> None:
    """Compile the kernels of some areas into Numba's cache on disk, and print how long each took.

    Raise `ModuleNotFoundError` if the extra of an area is not installed.
    """
    mute_notice()
    for area in dict.fromkeys(areas):
        start = time.perf_counter()
        AREAS[area]()
        print(f"{area}: compiled in {time.perf_counter() - start:.1f} s", flush=True)


def _warm_core() -> None:
    """Use samplers over every family."""
    import varmix

    n = 600
    few, many = np.arange(n) % 3, np.arange(n) % 300
    points = np.random.default_rng(0).normal(size=(n, 4))
    families = (
        varmix.Groups(many),
        varmix.Groups(few, target=np.full(n, 1 / n)),
        varmix.Groups(few, replacement=False, resplit="norms"),
        varmix.Stack(varmix.Groups(few), varmix.Dense(np.full((n, 2), 1 / n))),
        varmix.Dense(np.full((n, 2), 1 / n)),
        varmix.Distances(points, points[:2]),
        varmix.KDpp(points, 3, [0.1, 1.0]),
    )
    for labels in (few, many):
        _use_sampler(varmix.Sampler(labels, rng=0))
    for family in families:
        _use_sampler(varmix.Sampler(family, rng=0))
    _use_sampler(varmix.vrm(varmix.Groups(few, replacement=False), rng=0))
    for replacement in (True, False):
        _use_sampler(varmix.uniform(n, replacement=replacement, rng=0))
    sampler = varmix.Sampler(few, rng=0)
    every = sampler.draw_all()
    sampler.update(every, np.ones(n))
    _use_sampler(sampler)
    sampler.load_state_dict(sampler.state_dict())


def _use_sampler(sampler: Any) -> None:  # noqa: ANN401
    """Draw and update, with one batch and with several."""
    for batch in (1, 8):
        draw = sampler.draw(batch)
        sampler.update(draw, np.ones(batch))
    several = sampler.draw(4, batches=2)
    sampler.update(several, np.ones(8))
    sampler.end_epoch()


def _warm_sklearn() -> None:
    """Fit every estimator to dense and sparse rows of both precisions."""
    from scipy.sparse import csr_array, csr_matrix

    from varmix.estimators import MixtureKMeans, MixtureSGDClassifier, MixtureSGDRegressor

    points = np.random.default_rng(0).standard_t(3, size=(1000, 4))
    some = np.where(np.abs(points) > 1.0, points, 0.0)
    for X in (points, points.astype(np.float32), csr_array(some), csr_matrix(some.astype(np.float32))):
        for model in (MixtureSGDClassifier(max_iter=2, tol=None), MixtureSGDClassifier(loss="log_loss")):
            model.set_params(random_state=0).fit(X, points[:, 0] > 0).predict(X)
        MixtureSGDRegressor(max_iter=2, tol=None, random_state=0).fit(X, points[:, 0])
        for batch_size in (128, 1024):
            means = MixtureKMeans(n_clusters=3, max_iter=2, batch_size=batch_size, random_state=0)
            means.fit(X, sample_weight=np.ones(1000)).predict(X)
        means.partial_fit(X)


def _warm_torch() -> None:
    """Run an epoch of a loader with few groups and with many."""
    from varmix.torch import AdaptiveLoader

    for labels in (np.arange(600) % 3, np.arange(600) % 300):
        loader = AdaptiveLoader(list(range(600)), labels, batch_size=8, rng=0)
        for batch, draw in loader:
            loader.update(draw, np.ones(len(batch)))
        loader.load_state_dict(loader.state_dict())


def _warm_rl() -> None:
    """Fill, sample and update a replay buffer, with single steps and with n-step returns."""
    from varmix.rl import ReplayBuffer

    observation, action = SimpleNamespace(shape=(2,), dtype=np.float32), SimpleNamespace(shape=(), dtype=np.int64)
    for n_steps in (1, 2):
        buffer = ReplayBuffer(64, observation, action, n_steps=n_steps, rng=0)
        for _ in range(16):
            buffer.add(np.zeros(2, np.float32), 0, 1.0, np.zeros(2, np.float32), terminated=False)
        _, draw = buffer.sample(8)
        buffer.update(draw, np.ones(8))


AREAS: dict[str, Callable[[], None]] = {
    "core": _warm_core,
    "sklearn": _warm_sklearn,
    "torch": _warm_torch,
    "rl": _warm_rl,
}
