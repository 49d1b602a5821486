"""Cold start: CPU time from a fresh process to the first result, with nothing compiled yet.

Every use runs in its own process with an empty cache, and once more with the cache that this run left. Times are in
units. One unit is the time to import NumPy and Numba and to compile one simple loop, which no program with Numba can
avoid. It is measured in the same rounds.

    python -m lab.benchmarks.cold OTHER_CHECKOUT

compares the library in another checkout with this one. The two take turns.
"""

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

import varmix
from lab.commands import CommandError

UNIT = """
import numba
import numpy as np

@numba.njit
def add(values):
    total = 0.0
    for value in values:
        total += value
    return total

add(np.ones(3))
"""

USES = {
    "groups": """
import numpy as np
import varmix

sampler = varmix.Sampler(np.arange(1000) % 5, rng=0)
for _ in range(3):
    draw = sampler.draw(32)
    sampler.update(draw, np.ones(32))
""",
    "Dense": """
import numpy as np
import varmix

laws = np.random.default_rng(0).random((1000, 3))
sampler = varmix.Sampler(varmix.Dense(laws / laws.sum(axis=0)), rng=0)
for _ in range(3):
    draw = sampler.draw(32)
    sampler.update(draw, np.ones(32))
""",
    "MixtureSGDClassifier": """
import numpy as np
from varmix.estimators import MixtureSGDClassifier

X = np.random.default_rng(0).standard_t(3, size=(1000, 5))
MixtureSGDClassifier(max_iter=2, tol=None, random_state=0).fit(X, X[:, 0] > 0)
""",
    "MixtureKMeans": """
import numpy as np
from varmix.estimators import MixtureKMeans

X = np.random.default_rng(0).standard_t(3, size=(1000, 5))
MixtureKMeans(n_clusters=3, max_iter=2, random_state=0).fit(X)
""",
    "ReplayBuffer": """
from types import SimpleNamespace
import numpy as np
from varmix.rl import ReplayBuffer

observation, action = SimpleNamespace(shape=(4,), dtype=np.float32), SimpleNamespace(shape=(), dtype=np.int64)
buffer = ReplayBuffer(1000, observation, action, rng=0)
for _ in range(100):
    buffer.add(np.zeros(4, np.float32), 0, 1.0, np.zeros(4, np.float32), terminated=False)
_, draw = buffer.sample(32)
buffer.update(draw, np.ones(32))
""",
}
GOALS = {"groups": 14, "Dense": 14, "MixtureSGDClassifier": 16, "MixtureKMeans": 14, "ReplayBuffer": 14}
SOURCE = Path(varmix.__file__).parents[1]  # folder of the measured library


@dataclass(frozen=True)
class Scale:
    """Size of the benchmark: number of rounds, and uses."""

    rounds: int = 5
    uses: tuple[str, ...] = tuple(USES)


FULL_SCALE = Scale()


def measure(console: Console, scale: Scale = FULL_SCALE) -> dict[str, object]:
    """Measure the first result of every use, with an empty and with a full cache."""
    seconds = measure_rounds({"": SOURCE}, scale)
    unit = statistics.median(seconds["unit", "", "empty"])
    console.print(f"  unit (NumPy, Numba, one simple loop): {unit:.2f} s CPU")
    results: dict[str, object] = {"unit, CPU s": unit}
    for use in scale.uses:
        empty, full = (statistics.median(seconds[use, "", cache]) for cache in ("empty", "full"))
        console.print(
            f"  {use}: {empty:.1f} s CPU with an empty cache, {empty / unit:.1f} units (goal {GOALS[use]}); "
            f"{full / unit:.1f} units with a full cache"
        )
        results[use] = {
            "empty cache, CPU s": empty,
            "empty cache, units": empty / unit,
            "empty cache, units, goal": GOALS[use],
            "full cache, units": full / unit,
        }
    return results


def measure_rounds(sources: Mapping[str, Path], scale: Scale) -> dict[tuple[str, str, str], list[float]]:
    """Return the CPU seconds of all rounds, by use, source and state of the cache. Sources take turns in a round."""
    seconds: dict[tuple[str, str, str], list[float]] = {}
    for source in sources.values():
        run_process("import varmix.estimators, varmix.rl", source, None)  # writes the bytecode of all imports
    for _ in range(scale.rounds):
        seconds.setdefault(("unit", "", "empty"), []).append(run_process(UNIT, SOURCE, None))
        for use in scale.uses:
            for name, source in sources.items():
                with tempfile.TemporaryDirectory() as cache:
                    for state in ("empty", "full"):
                        taken = run_process(USES[use], source, Path(cache))
                        seconds.setdefault((use, name, state), []).append(taken)
    return seconds


def run_process(code: str, source: Path, cache: Path | None) -> float:
    """Run code in a fresh process with this library and cache, and return its CPU seconds."""
    settings = {"PYTHONPATH": str(source), "VARMIX_QUIET": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    if cache is not None:
        settings["NUMBA_CACHE_DIR"] = str(cache)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    if os.name == "nt":
        raise CommandError(
            "Windows does not report the CPU time of other processes. Measure cold starts on another system."
        )
    before = os.times()
    subprocess.run([sys.executable, "-c", code], env=environment | settings, check=True)
    after = os.times()
    return (after.children_user + after.children_system) - (before.children_user + before.children_system)


def compare(other: Path, console: Console, scale: Scale = FULL_SCALE) -> None:
    """Print the CPU time to the first results with the library of another checkout and with this one."""
    seconds = measure_rounds({"other": other / "src", "this": SOURCE}, scale)
    unit = statistics.median(seconds["unit", "", "empty"])
    console.print(f"CPU time with an empty cache, medians of {scale.rounds} rounds; one unit is {unit:.2f} s")
    for use in scale.uses:
        before, after = (statistics.median(seconds[use, name, "empty"]) for name in ("other", "this"))
        console.print(
            f"{use:<20}  other {before:5.2f} s {before / unit:5.1f} units   this {after:5.2f} s {after / unit:5.1f} "
            f"units   ratio {after / before:.3f}"
        )


if __name__ == "__main__":
    compare(Path(sys.argv[1]), Console(width=120, highlight=False))
