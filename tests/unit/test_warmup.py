"""`varmix warmup` compiles what first uses need, and the notice of compiling comes once."""

import pytest

from lab.benchmarks.cold import USES
from support.warmup import find_compiled, run
from varmix import _warmup
from varmix.__main__ import main
from varmix._kernels import jit

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


FIRST_USES = {
    "core": USES["groups"] + USES["Dense"] + CORE,
    "sklearn": USES["MixtureSGDClassifier"] + USES["MixtureKMeans"] + SKLEARN,
    "rl": USES["ReplayBuffer"],
}


@pytest.mark.parametrize("area", FIRST_USES)
def test_after_warming_up_first_uses_compile_nothing(area):
    assert find_compiled(area, FIRST_USES[area]) == ""


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
        raise ModuleNotFoundError("varmix.torch needs torch: do this.")

    monkeypatch.setitem(_warmup.AREAS, "torch", fail)
    assert main(["warmup", "torch"]) == 1
    assert capsys.readouterr().err == "varmix: varmix.torch needs torch: do this.\n"
