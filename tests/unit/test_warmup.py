"""`varmix warmup` compiles what first uses need, and the notice of compiling comes once."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import varmix
from lab.benchmarks.cold import USES
from varmix import _warmup
from varmix.__main__ import main
from varmix._kernels import jit

SOURCE = str(Path(varmix.__file__).parents[1])

# Prints every kernel that a use compiles, or loads, for types that warming up has not met.
PROBE = """
import sys
from numba.core.dispatcher import Dispatcher
from varmix._warmup import AREAS

def list_signatures():
    modules = [module for name, module in list(sys.modules.items()) if name.startswith("varmix")]
    kernels = {id(each): each for module in modules for each in vars(module).values() if isinstance(each, Dispatcher)}
    return {(each.py_func.__qualname__, str(types)) for each in kernels.values() for types in each.signatures}

AREAS[area]()
known = list_signatures()
exec(USE)
for name, types in sorted(list_signatures() - known):
    print(name, types)
"""

CORE = """
import numpy as np
import varmix

def use(sampler):
    for _ in range(3):
        draw = sampler.draw(32)
        sampler.update(draw, np.ones(len(draw.indices)))

rng = np.random.default_rng(1)
n = 2000
use(varmix.Sampler(rng.choice(["a", "b", "c"], n), gamma=0.2, rng=0))
use(varmix.Sampler(np.arange(n) % 700, rng=0))
use(varmix.Sampler(varmix.Groups(np.arange(n) % 7), varmix.Groups(np.arange(n) % 3), rng=0))
use(varmix.Sampler(varmix.Distances(rng.normal(size=(n, 3)), rng.normal(size=(4, 3))), rng=0))
use(varmix.Sampler(varmix.KDpp(rng.normal(size=(50, 3)), 4, [0.1, 1.0]), rng=0))
use(varmix.uniform(n, replacement=False, rng=0))
"""

SKLEARN = """
import numpy as np
from varmix.estimators import MixtureKMeans, MixtureSGDRegressor

X = np.random.default_rng(1).standard_t(3, size=(3000, 5)).astype(np.float32)
MixtureSGDRegressor(random_state=0).fit(X, X[:, 0]).predict(X)
MixtureKMeans(n_clusters=5, random_state=0).fit(X).predict(X)
"""

TORCH = """
import numpy as np
from varmix.torch import AdaptiveLoader

loader = AdaptiveLoader(list(range(1000)), np.arange(1000) % 4, batch_size=32, rng=0)
for batch, draw in loader:
    loader.update(draw, np.ones(len(batch)))
"""


def run(code, **settings):
    environment = {**os.environ, "PYTHONPATH": SOURCE, **settings}
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.mark.parametrize(
    ("area", "use"),
    [
        ("core", USES["groups"]),
        ("core", USES["Dense"]),
        ("core", CORE),
        ("sklearn", USES["MixtureSGDClassifier"]),
        ("sklearn", USES["MixtureKMeans"]),
        ("sklearn", SKLEARN),
        ("torch", TORCH),
        ("rl", USES["ReplayBuffer"]),
    ],
)
def test_after_warming_up_first_uses_compile_nothing(area, use):
    if area == "torch":
        pytest.importorskip("torch")
    done = run(f"area, USE = {area!r}, {use!r}\n{PROBE}")
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""


UNIFORM = "import varmix; varmix.uniform(10, rng=0).draw(3)"


def test_the_notice_comes_once_before_the_first_compile_and_never_with_a_full_cache(tmp_path):
    first, second = (run(UNIFORM, NUMBA_CACHE_DIR=str(tmp_path), VARMIX_QUIET="") for _ in range(2))
    assert first.stderr == f"{jit.NOTICE}\n"
    assert second.stderr == ""


def test_the_notice_is_silenced_by_the_environment(tmp_path):
    assert run(UNIFORM, NUMBA_CACHE_DIR=str(tmp_path), VARMIX_QUIET="1").stderr == ""


def test_the_notice_fits_a_terminal():
    assert len(jit.NOTICE) < 80


def test_warmup_takes_areas_once_and_says_how_long_each_took(monkeypatch, capsys):
    used = []
    monkeypatch.setattr(_warmup, "AREAS", {name: lambda name=name: used.append(name) for name in _warmup.AREAS})
    assert main(["warmup", "rl", "core", "rl"]) == 0
    assert used == ["rl", "core"]
    assert [line.split()[:2] for line in capsys.readouterr().out.splitlines()] == [
        ["rl:", "compiled"],
        ["core:", "compiled"],
    ]


def test_warmup_says_which_extra_is_missing(monkeypatch, capsys):
    def fail():
        raise ModuleNotFoundError("varmix.torch needs torch: pip install 'varmix[torch]'")

    monkeypatch.setitem(_warmup.AREAS, "torch", fail)
    assert main(["warmup", "torch"]) == 1
    assert capsys.readouterr().err == "varmix: varmix.torch needs torch: pip install 'varmix[torch]'\n"
