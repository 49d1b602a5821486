"""Requirements of experiments, and the messages about missing ones."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from lab import datasets
from lab.commands import CommandError
from lab.experiments.convex.tasks import BUNDLED_TASKS, TASKS
from lab.experiments.kmeans.data import REAL_SETS
from lab.reproduce import catalogue
from lab.reproduce import command as reproduce
from lab.reproduce.catalogue import Entry

ROOT = Path(__file__).parents[2]


def test_without_data_an_experiment_is_left_out_with_one_line_and_the_others_run(nothing):
    chosen, skipped = reproduce.choose_experiments(())
    able = [name for name in catalogue.list_experiments() if not catalogue.find_entry(name).missing]
    told = [line for line in skipped if "data" in line]
    assert [line.split()[0] for line in told] == [name for name in ("networks",) if name in able]
    for line in told:
        wanted = catalogue.find_entry(line.split()[0]).data
        assert ", ".join(wanted) in line
        assert line.endswith(f"python -m lab data fetch {wanted[0]}")
    assert chosen == [name for name in able if name != "networks"]


def test_without_data_an_experiment_that_was_asked_for_is_refused(nothing, monkeypatch):
    monkeypatch.setitem(catalogue.ENTRIES, "convex", Entry("", data=("adult",)))
    with pytest.raises(CommandError) as told:
        reproduce.choose_experiments(("regret", "convex"))
    assert "convex" in str(told.value)
    assert str(told.value).endswith("python -m lab data fetch adult")


def test_a_folder_of_data_that_is_none_is_told(monkeypatch):
    monkeypatch.setenv("VARMIX_DATA", "/no/such/folder")
    told = [line for line in reproduce.choose_experiments(())[1] if "VARMIX_DATA" in line]
    able = [name for name in ("kmeans", "convex", "networks") if not catalogue.find_entry(name).missing]
    assert [line.split()[0] for line in told] == able
    assert all("/no/such/folder" in line for line in told)


@pytest.mark.parametrize("name", ["california_housing", "w8a"])
def test_full_mode_takes_what_is_at_hand_and_quick_mode_what_comes_with_scikit_learn(nothing, name):
    (nothing / f"{name}.npz").touch()
    assert catalogue.find_entry("convex").lacking is None
    convex = catalogue.import_experiment("convex")
    for mode, expected in (("quick", set(BUNDLED_TASKS)), ("full", {name, *BUNDLED_TASKS})):
        plan = convex.plan(mode)
        assert {config["task"] for config in plan} == expected
        assert all(convex.seconds(config) > 0 for config in plan + convex.then(mode, []))


def test_the_data_of_convex_are_those_of_its_tasks():
    assert set(catalogue.find_entry("convex").data) == {task.data for task in TASKS.values() if not task.bundled}
    assert datasets.SETS[catalogue.find_entry("convex").data[0]].fetchable


def test_an_experiment_that_brings_its_data_runs_without_any(nothing):
    assert Entry("", data=("w8a",), brings_data=True).lacking is None
    assert set(catalogue.find_entry("kmeans").data) == set(REAL_SETS)
    assert "kmeans" in reproduce.choose_experiments(())[0]


def test_data_that_nobody_can_fetch_go_into_a_folder(nothing):
    lacking = Entry("", data=("w8a",)).lacking
    assert "w8a" in lacking
    assert "VARMIX_DATA" in lacking
    assert "data fetch" not in lacking


def test_modules_come_before_data(nothing):
    lacking = Entry("", ("no_such_module",), "rl", ("w8a",)).lacking
    assert "no_such_module: pip install -e '.[rl]'" in lacking
    assert "w8a" not in lacking


def test_every_extra_exists_and_make_run_brings_it_unless_torch_is_in_it():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (brought,) = re.findall(r"\.ready-run: EXTRAS := (\S+)", (ROOT / "Makefile").read_text())
    for name in catalogue.list_experiments():
        assert set(catalogue.find_entry(name).extra.split(",")) <= set(extras)
        assert (catalogue.find_entry(name).extra in brought.split(",")) != ("torch" in catalogue.find_entry(name).needs)


def test_plans_and_findings_do_without_what_only_runs_need():
    """A report of records from another machine needs neither Gymnasium nor PyTorch."""
    code = """
import sys
from lab.reproduce import catalogue
for name in ("cartpole", "networks"):
    experiment = catalogue.import_experiment(name)
    experiment.plan("quick")
    experiment.findings([])
print(len({"gymnasium", "torch"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0"


def test_the_agents_experiment_comes_in_the_papers_order_and_says_what_it_needs():
    names = catalogue.list_experiments()
    assert names.index("kdpp") < names.index("cartpole") < names.index("kmeans")
    assert (catalogue.find_entry("cartpole").needs, catalogue.find_entry("cartpole").extra) == (
        ("torch", "gymnasium"),
        "rl",
    )
