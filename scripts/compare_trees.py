"""Compare this checkout with another one: the draws and fits from fixed seeds, and how long they take.

    python scripts/compare_trees.py OTHER [--rounds 4]

The trees run in turn, each in its own process and with its own cache of compiled code. Times are the smallest over
the rounds, in microseconds. The digests cover indices, weights, densities, ratios and mixtures.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]

PROGRAM = """
import hashlib, json, timeit
import numpy as np
import varmix
from varmix import Dense, Distances, Groups, KDpp, Uniform, vrm

rng, n = np.random.default_rng(0), 10_000
labels, P, X = rng.integers(0, 10, n), rng.dirichlet(np.ones(n), size=10).T, rng.normal(size=(n, 4))
norms = np.exp(rng.normal(size=n)) * (1 + 3 * (labels == 2))
families = {
    "groups": lambda: Groups(labels),
    "reshuffled": lambda: Groups(labels, replacement=False),
    "resplit": lambda: Groups(labels, replacement=False, resplit="norms"),
    "dense": lambda: Dense(P),
    "distances": lambda: Distances(X, X[:3]),
    "k-dpp": lambda: KDpp(X[:200], 5, [0.1, 1.0]),
    "uniform": lambda: Uniform(n),
}
found = {}
for name, make in families.items():
    digest, sampler = hashlib.sha256(), vrm(make(), rng=1)
    for step in range(100):
        draw = sampler.draw(9)
        points = draw.indices if draw.indices.ndim == 1 else draw.indices.sum(axis=1) % n
        sampler.update(draw, norms[points])
        for array in (draw.indices, draw.weights, draw.density, draw.ratios, sampler.mixture):
            digest.update(np.ascontiguousarray(array).tobytes())
        if step % 30 == 29:
            sampler.end_epoch()
    found[f"digest of {name}"] = digest.hexdigest()[:16]
for name in ("groups", "reshuffled", "dense"):
    sampler = vrm(families[name](), rng=0)
    for m in (1, 32, 128):
        ones = np.ones(m)
        both = lambda: sampler.update(sampler.draw(m), ones)
        both()
        for what, action, calls in (("draw", lambda: sampler.draw(m), 3000), ("draw and update", both, 1000)):
            found[f"{name}, {what}, {m}"] = min(timeit.repeat(action, number=calls, repeat=7)) / calls * 1e6
from types import SimpleNamespace

import torch
from varmix.estimators import MixtureKMeans, MixtureSGDClassifier
from varmix.rl import ReplayBuffer
from varmix.torch import AdaptiveLoader

data, losses = torch.utils.data.TensorDataset(torch.tensor(X), torch.tensor(labels)), torch.ones(50)
loader = AdaptiveLoader(data, labels, batch_size=50, rng=0)


def epoch():
    for _, draw in loader:
        loader.update(draw, losses)


epoch()
found["a batch of a loader, 50"] = min(timeit.repeat(epoch, number=1, repeat=9)) / 200 * 1e6
spaces = SimpleNamespace(shape=(4,), dtype=np.float32), SimpleNamespace(shape=(), dtype=np.int64)
buffer = ReplayBuffer(5000, *spaces, rng=0)
for step in range(5000):
    buffer.add(np.full(4, step, np.float32), 1, 0.5, np.full(4, step, np.float32), terminated=False)
replay = lambda: buffer.update(buffer.sample(32)[1], np.ones(32))
replay()
found["replay, sample and update, 32"] = min(timeit.repeat(replay, number=1000, repeat=7)) / 1000 * 1e6
fits = {
    "a fit of k-means": lambda: MixtureKMeans(10, random_state=0, max_iter=3).fit(X).cluster_centers_,
    "a fit of the classifier": lambda: MixtureSGDClassifier(max_iter=3, random_state=0).fit(X, labels > 4).coef_,
}
for name, fit in fits.items():
    found[f"digest of {name}"] = hashlib.sha256(fit().tobytes()).hexdigest()[:16]
    found[name] = min(timeit.repeat(fit, number=1, repeat=9)) * 1e6
print(json.dumps(found))
"""


def run_program(tree: Path, cache: str) -> dict[str, str | float]:
    """Return what the program prints with the library of a tree."""
    environment = os.environ | {"PYTHONPATH": str(tree / "src"), "NUMBA_CACHE_DIR": cache, "VARMIX_QUIET": "1"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, cwd=cache, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"The program failed with the library in {tree}:\n{done.stderr}")
    return json.loads(done.stdout)


def main() -> int:
    """Print digests and times of both trees; succeed if the digests are equal."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path, help="another checkout of this repository, for example a git worktree")
    parser.add_argument("--rounds", type=int, default=4, help="how often each tree runs (default: 4)")
    arguments = parser.parse_args()
    trees = {"other": arguments.other.resolve(), "here": HERE}
    runs: dict[str, list[dict[str, str | float]]] = {name: [] for name in trees}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(arguments.rounds):
            for name, tree in trees.items():
                cache = Path(folder, name)
                cache.mkdir(exist_ok=True)
                runs[name].append(run_program(tree, str(cache)))
    different = 0
    for key, value in runs["here"][0].items():
        other, here = ([run[key] for run in runs[name]] for name in trees)
        if isinstance(value, str):
            different += other != here
            print(f"{key:32} {'equal' if other == here else 'DIFFERENT'}")
        else:
            print(f"{key:32} {min(other):7.2f} {min(here):7.2f} us")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
