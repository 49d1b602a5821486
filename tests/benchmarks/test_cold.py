"""Cold starts are measured in fresh processes, with an empty cache, then with a full one."""

from io import StringIO

import pytest
from rich.console import Console

from lab.benchmarks import cold
from lab.benchmarks.cold import GOALS, SOURCE, USES, Scale, measure, run_process


def test_every_use_has_a_goal():
    assert USES.keys() == GOALS.keys()


def test_a_process_is_timed_with_its_own_cache(tmp_path):
    loop = "import numba, os; assert os.environ['NUMBA_CACHE_DIR'] == " + repr(str(tmp_path))
    assert run_process(loop + "\nfor _ in range(10**6): pass", SOURCE, tmp_path) > 0.01


def test_a_use_that_fails_is_no_time(tmp_path):
    with pytest.raises(cold.subprocess.CalledProcessError):
        run_process("raise SystemExit(3)", SOURCE, tmp_path)


def test_two_trees_are_compared_in_turns(monkeypatch, tmp_path):
    seen = []

    def run(code, source, cache):
        if cache is not None:
            seen.append(source)
            return 8.0 if source == tmp_path / "src" else 4.0
        return 0.5

    monkeypatch.setattr(cold, "run_process", run)
    printed = StringIO()
    cold.compare(tmp_path, Console(file=printed, width=200), Scale(rounds=2, uses=("Dense",)))
    assert seen == [tmp_path / "src", tmp_path / "src", SOURCE, SOURCE] * 2
    line = " ".join(printed.getvalue().splitlines()[1].split())
    assert line == "Dense other 8.00 s 16.0 units this 4.00 s 8.0 units ratio 0.500"


def test_uses_are_multiples_of_the_unit(monkeypatch):
    taken = {cold.UNIT: 0.5, USES["groups"]: 6.0}
    seen = []

    def run(code, source, cache):
        if cache is None:
            return taken.get(code, 1.0)
        full = any(cache.iterdir())
        (cache / "kernel").touch()
        seen.append(full)
        return 0.75 if full else taken[code]

    monkeypatch.setattr(cold, "run_process", run)
    printed = StringIO()
    results = measure(Console(file=printed, width=200), Scale(rounds=3, uses=("groups",)))
    assert results["unit, CPU s"] == 0.5
    assert results["groups"] == {
        "empty cache, CPU s": 6.0,
        "empty cache, units": 12.0,
        "empty cache, units, goal": 14,
        "full cache, units": 1.5,
    }
    assert seen == [False, True] * 3
    assert "groups: 6.0 s CPU with an empty cache, 12.0 units (goal 14)" in printed.getvalue()
