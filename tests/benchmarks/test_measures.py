"""Every benchmark with a small scale. Tests check that there are times, not how long they are."""

import io
import json
import re
import subprocess
import sys
from math import isfinite
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

from lab.benchmarks import bias, core, estimators, kmeans, loaders, replay, sets, solvers
from lab.benchmarks import command as catalogue
from lab.benchmarks import core as processes
from lab.benchmarks.peers import CLUSTERING, DPPY, SKLEARN, TORCH
from lab.benchmarks.timing import best_of, describe_machine, time_calls
from lab.datasets import DataUnavailable

CORE = core.Scale(n=200, calls=1, repeats=1, rounds=1000, starts=2, huge=())
SETS = sets.Scale(few=20, many=30, built=(20, 30), calls=1, repeats=1)
REPLAY = replay.Scale(items=(100, 1000), buffer=200, calls=1, repeats=1)


@pytest.fixture
def console():
    return Console(file=io.StringIO(), markup=False, highlight=False, soft_wrap=True)


@pytest.fixture
def quick_starts(monkeypatch):
    """Replace the measured code: the first process reports a long time, as if it had compiled."""
    code = "import os; p = os.environ['NUMBA_CACHE_DIR'] + '/x'; print(3, 2 if os.path.exists(p) else 9); open(p, 'w')"
    monkeypatch.setattr(processes, "START_CODE", code)


def numbers(results):
    for value in results.values():
        if isinstance(value, dict):
            yield from numbers(value)
        else:
            yield value


def printed(console):
    return console.file.getvalue()


def find_limits(console):
    """Return the limits at the ends of printed lines, by the names at their beginnings."""
    found = re.findall(r"^  (\S.*?)  .* limit ([\d.]+)", printed(console), re.MULTILINE)
    return {name: float(limit) for name, limit in found}


@pytest.mark.usefixtures("stand_ins", "quick_starts")
def test_the_core_is_measured_beside_a_peer(console):
    results = core.measure(console, CORE)
    measured = ["speed", "meter us", "building", "metric step us", "million rounds", "start-up", "huge groups"]
    assert list(results) == measured
    assert results["speed"]["RandomSampler, one index, ns"] > 0
    assert set(results["speed"]["WeightedRandomSampler, 100"]) == {"us", "per index over RandomSampler"}
    assert "Groups, reshuffled, m = 1000" in results["speed"]
    assert results["million rounds"]["least uniform share"] >= 0.1 - 1e-12
    assert all(isfinite(value) for value in numbers(results))
    assert json.loads(json.dumps(results, allow_nan=False)) == results
    assert find_limits(console)["Dense, m = 1000"] == 1


@pytest.mark.usefixtures("no_peers", "quick_starts")
def test_without_a_peer_the_core_is_measured_without_ratios(console):
    speed = core.measure(console, CORE)["speed"]
    assert set(speed) == {
        f"{name}, m = {m}" for name in ("Dense", "Groups", "Groups, reshuffled") for m in core.DRAW_SIZES
    }
    assert all(set(row) == {"us"} for row in speed.values())
    assert "RandomSampler" not in printed(console)
    assert "nan" not in printed(console)


@pytest.mark.usefixtures("stand_ins")
def test_sets_are_measured_beside_a_peer(console):
    results = sets.measure(console, SETS)
    draws = results["draws"]
    assert set(draws["DPPy"]) == {"us a set"}
    assert set(draws["n = 20, least ridge, m = 64"]) == {"us a set", "times faster than DPPy"}
    assert {"growth, a quarter each, m = 1", "DPPy over the slowest single draw", "DPPy set-up ms"} <= set(draws)
    assert list(results["set-up"]) == ["n = 20, ms", "n = 30, ms"]
    assert all(isfinite(value) for value in numbers(results))


@pytest.mark.usefixtures("no_peers")
def test_without_a_peer_sets_are_measured_without_ratios(console):
    draws = sets.measure(console, SETS)["draws"]
    assert set(draws["n = 20, draw and update, m = 1"]) == {"us a set"}
    assert not [name for name in draws if "DPPy" in name]


@pytest.mark.filterwarnings("ignore")
def test_the_real_peers_are_called_as_they_want_to_be(console):
    if not (TORCH.present and DPPY.present):
        pytest.skip("needs torch and DPPy")
    assert core.measure_speed(console, CORE)["RandomSampler, one index, ns"] > 0
    assert sets.measure_draws(console, SETS)["DPPy"]["us a set"] > 0


LOADERS = loaders.Scale(n=300, features=(3,), repeats=1, workers=(0, 1), huge=1000)


def test_loaders_are_measured_beside_pytorchs_own(console):
    pytest.importorskip("torch")
    results = loaders.measure(console, LOADERS)
    assert len(results["overhead"]) == 4
    assert all(isfinite(value) and value > 0 for value in numbers(results))
    assert results["huge"]["items"] == 1000
    assert loaders.MAX_OVERHEAD in find_limits(console).values()


@pytest.mark.usefixtures("no_peers")
def test_without_torch_there_are_no_loaders_to_measure(console):
    assert loaders.measure(console, LOADERS) == {}
    assert "torch" in printed(console)


ESTIMATORS = estimators.Scale(sets=("adult",), epochs=2, repeats=1)


@pytest.fixture
def adult(monkeypatch):
    """Replace the data set by generated data."""
    X = np.random.default_rng(0).normal(size=(300, 3))
    data = SimpleNamespace(X=np.column_stack([X, np.ones(300)]), y=(X[:, 0] > 1).astype(np.uint8))
    monkeypatch.setattr("lab.datasets.load", lambda name: data)


@pytest.mark.usefixtures("adult")
def test_the_estimators_are_measured_beside_a_peer(console):
    pytest.importorskip("sklearn")
    results = estimators.measure(console, ESTIMATORS)
    assert list(results) == ["adult, hinge", "adult, log_loss"]
    assert list(results["adult, hinge"]) == ["SGDClassifier", "shuffle", "mixture", "resplit by norms"]
    assert results["adult, hinge"]["SGDClassifier"]["over SGDClassifier"] == 1.0
    assert all(isfinite(value) for row in results.values() for value in numbers(row))
    assert find_limits(console)["shuffle"] == 1.5


def test_without_a_peer_or_data_the_estimators_are_left_out(console, monkeypatch):
    def missing(name):
        raise DataUnavailable(f"There is no {name}.")

    monkeypatch.setattr("lab.datasets.load", missing)
    assert estimators.measure(console, ESTIMATORS) == {}
    assert printed(console).count("There is no adult.") == SKLEARN.present
    monkeypatch.setitem(sys.modules, "sklearn.linear_model", None)
    assert estimators.measure(console, ESTIMATORS) == {}


KMEANS = kmeans.Scale(sets=("chest_accel", "mnist"), clusters=5, batch=20, seeds=2, steps=(1, 200), repeats=1)


@pytest.fixture
def clustered(monkeypatch):
    """Replace every data set by generated points with long tails."""
    X = np.random.default_rng(0).standard_t(3, size=(500, 12))
    monkeypatch.setattr("lab.datasets.load", lambda name: SimpleNamespace(X=X))


@pytest.mark.usefixtures("clustered")
def test_k_means_is_measured_beside_a_peer(console):
    pytest.importorskip("sklearn")
    results = kmeans.measure(console, KMEANS)
    assert list(results) == ["chest_accel", "mnist"]
    for row in results.values():
        assert set(row["an iteration"]) == {
            f"{name} us" for name in ("MiniBatchKMeans", "partial_fit", "uniform", "cells")
        }
        assert list(row["to the peer's inertia"]) == ["its defaults", "no reassignment"]
        assert row["to the peer's inertia"]["its defaults"]["by default, of that inertia"] > 0
        assert row["the sampler"]["kept, bytes a point"] > 0
        assert all(isfinite(value) for value in numbers(row))
    assert json.loads(json.dumps(results, allow_nan=False)) == results
    assert "n = 500, d = 10" in printed(console)  # components of mnist
    assert find_limits(console)["uniform"] == 1


@pytest.mark.parametrize("steps", [(9, 99), (1,), ()])
def test_a_race_ends_when_the_peers_inertia_is_reached_or_says_that_it_is_not(console, monkeypatch, steps):
    pytest.importorskip("sklearn")

    def fits(make, *arguments):
        """Return an inertia of 1 for the peer after two seconds; ours needs more than ten steps for it."""
        model = make(0)
        return (1.0, 2.0) if not hasattr(model, "max_steps") else (1.5 - (model.max_steps or 0) / 100, 0.5)

    monkeypatch.setattr(kmeans, "_measure_fits", fits)
    X = np.random.default_rng(0).normal(size=(100, 2))
    rows = kmeans.race_fits(console, X, "kdd_bio", kmeans.Scale(clusters=3, batch=10, steps=steps))
    assert {row.get("times faster") for row in rows.values()} == {4.0 if 99 in steps else None}
    assert rows["its defaults"]["by default, of that inertia"] == 1.5
    assert printed(console).count("99 steps") == (2 if 99 in steps else 0)
    assert printed(console).count("(goal 1.5)") == 1


def test_without_a_peer_or_data_k_means_is_left_out(console, monkeypatch):
    def missing(name):
        raise DataUnavailable(f"There is no {name}.")

    monkeypatch.setattr("lab.datasets.load", missing)
    assert kmeans.measure(console, KMEANS) == {}
    assert printed(console).count("There is no chest_accel.") == CLUSTERING.present
    monkeypatch.setitem(sys.modules, "sklearn.cluster", None)
    assert kmeans.measure(console, KMEANS) == {}


def test_the_bias_is_measured_the_same_each_time(console):
    scale = bias.Scale(seeds=2, batches=(1, 10), draws=20, epochs=1)
    results = bias.measure(console, scale)
    keys = ["m = 1", "m = 10", "pass", "pass, standard error"]
    assert list(results) == [f"{name}, {key}" for name in ("round_robin", "shuffled") for key in keys]
    assert abs(results["round_robin, pass"]) < 0.01 < results["round_robin, m = 1"]
    assert bias.measure(console, scale) == results


def test_the_rates_of_solvers_are_measured_the_same_each_time(console):
    scale = solvers.Scale(n=100, coordinates=20, epochs=4, sweeps=30)
    results = solvers.measure(console, scale)
    rates, draws = results.values()
    assert list(rates)[:3] == ["svrg, uniform", "svrg, static", "svrg, VRM"]
    assert rates["svrg, VRM"]["rate"] < rates["sgd, VRM"]["rate"]
    assert list(draws) == ["lipschitz", "unbiased"]
    assert "uniform" not in draws["unbiased"]  # not solved in so few draws, and the output says so
    (line,) = [line for line in printed(console).splitlines() if "unbiased" in line and "uniform" in line]
    assert not re.search(r"\d", line)
    assert json.loads(json.dumps(results, allow_nan=False)) == results
    assert solvers.measure(console, scale) == results


def test_the_problem_of_the_bias_is_a_mixture_with_its_anchor():
    labels, values, mixture = bias.make_problem()
    assert labels.shape == values.shape == (6000,)
    assert mixture.sum() == pytest.approx(1)
    assert mixture[-1] == 0.1


@pytest.mark.usefixtures("quick_starts")
def test_a_start_is_timed_with_an_empty_cache_and_with_a_full_one(console):
    results = processes.start_up(console, 3)
    assert results == {"import s": 3.0, "first draw, compiling s": 9.0, "first draw, cached s": 2.0}


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read as Linux shows it")
def test_memory_of_groups_is_measured_in_a_process_of_its_own(console):
    results = processes.huge_groups(console, (1000,))
    assert set(results) == {"GB at 1e+03", "us for draw(100) at 1e+03"}


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read as Linux shows it")
def test_a_process_that_dies_is_told_and_the_others_go_on(console, monkeypatch):
    code = "import os, sys; os.abort() if sys.argv[1] == '1000' else print(1, 2e9, 3)"
    monkeypatch.setattr(processes, "HUGE_CODE", code)
    assert list(processes.huge_groups(console, (1000, 10**4))) == ["GB at 1e+04", "us for draw(100) at 1e+04"]
    assert len([line for line in printed(console).splitlines() if "1e+03" in line]) == 1


def test_memory_is_left_out_where_it_cannot_be_measured(console, monkeypatch):
    monkeypatch.setattr(sys, "platform", "other")
    assert processes.huge_groups(console, (1000,)) == {}
    assert "Linux" in printed(console)


def test_the_code_of_the_first_draw_runs():
    done = subprocess.run([sys.executable, "-c", processes.START_CODE], capture_output=True, text=True, check=True)
    assert len([float(word) for word in done.stdout.split()]) == 2


def test_actions_take_turns_and_each_is_called_at_least_once():
    calls = []
    best = best_of({"a": (lambda: calls.append("a"), 2), "b": (lambda: calls.append("b"), 0)}, repeats=2)
    assert "".join(calls) == "ab" + "aab" * 2
    assert set(best) == {"a", "b"}
    assert all(0 <= spent < float("inf") for spent in best.values())
    assert time_calls(lambda: calls.clear(), 1) >= 0


@pytest.mark.usefixtures("stand_ins")
def test_the_machine_is_described_with_the_peers_that_are_there():
    described = describe_machine((TORCH, DPPY))
    assert list(described) == ["cpu", "cores", "python", "numpy", "numba", "varmix", "torch", "dppy"]
    assert described["cpu"]
    assert described["numpy"] == np.__version__


@pytest.mark.usefixtures("no_peers")
def test_the_machine_is_described_without_the_peers_that_are_missing(monkeypatch, tmp_path):
    monkeypatch.setattr("lab.benchmarks.timing.CPU_INFO_PATH", tmp_path / "none")
    described = describe_machine((TORCH, DPPY))
    assert "torch" not in described
    assert described["cpu"]


def test_a_missing_peer_says_how_to_get_it():
    command = "pip install -e '.[torch]'"
    assert TORCH.absence.startswith("torch ")
    assert TORCH.absence.endswith(command)


def test_titles_of_benchmarks_differ():
    assert len({entry.title for entry in catalogue.ENTRIES.values()}) == len(catalogue.list_benchmarks())


def test_the_page_of_solvers_shows_the_rates_that_were_measured():
    root = Path(__file__).parents[2]
    measured = json.loads((root / "lab/results/solvers.json").read_text())
    rates, draws = (measured[next(key for key in measured if word in key)] for word in ("factor", "draws"))
    page = (root / "docs/solvers.md").read_text()
    columns = ("uniform", "static", "VRM", "static, half uniform", "VRM, half uniform")
    for solver in ("svrg", "saga"):
        row = " | ".join(f"{rates[f'{solver}, {name}']['rate']:.2f}" for name in columns)
        assert f"| `{solver}` | {row} |" in page
    few, many = (round(draws["unbiased"][name], -3) for name in ("VRM", "uniform"))
    (told,) = [paragraph for paragraph in page.split("\n\n") if f"{few:,}" in paragraph]
    lipschitz = [f"{draws['lipschitz'][name]:,}" for name in ("uniform", "VRM")]
    places = [told.find(number) for number in (f"{few:,}", f"{many:,}", *lipschitz)]
    assert -1 < places[0] < places[1] < places[2] < places[3]


@pytest.mark.usefixtures("stand_ins")
def test_replay_is_measured_beside_a_peer(console):
    results = replay.measure(console, REPLAY)
    assert list(results) == ["family", "buffer", "memory"]
    assert {"sample and update, over cpprb", "add, over cpprb"} <= set(results["buffer"])
    assert all(value > 0 for value in numbers(results))
    assert re.search(r"cpprb.*limit 1\)", printed(console))


@pytest.mark.usefixtures("no_peers")
def test_replay_is_measured_without_a_peer(console):
    results = replay.measure(console, REPLAY)
    assert list(results["buffer"]) == ["varmix, sample and update, us", "varmix, add, us"]
    assert "cpprb" not in printed(console)
