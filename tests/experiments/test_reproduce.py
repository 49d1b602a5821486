"""The command as a user meets it: real processes, real signals, real folders."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import namedtuple
from pathlib import Path

import pytest
from rich.console import Console

from varmix import cli, vrm
from varmix import save as save_sampler
from varmix.components import Groups
from varmix.experiments import catalogue, regret, reproduce
from varmix.experiments.catalogue import Entry
from varmix.experiments.experiment import Experiment
from varmix.refusal import Refusal

COMMAND = [sys.executable, "-c", "from varmix.cli import main; main()", "reproduce", "regret", "--quick", "--jobs", "2"]


def start(out, *options):
    return subprocess.Popen(
        [*COMMAND, "--out", str(out), *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def records_in(out):
    return {path: path.stat().st_mtime_ns for path in (out / "records" / "regret").glob("*.json")}


def wait_for_records(out, count, process, timeout=120):
    deadline = time.monotonic() + timeout
    while len(records_in(out)) < count:
        assert process.poll() is None, process.stdout.read()
        assert time.monotonic() < deadline, "no run finished"
        time.sleep(0.02)


def children(pid):
    found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False).stdout.split()
    return [int(child) for child in found]


def alive(pid):
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes as Linux shows them")
def test_a_killed_run_leaves_no_workers_and_goes_on_without_repeating_anything(tmp_path):
    process = start(tmp_path)
    wait_for_records(tmp_path, 3, process)
    workers = children(process.pid)
    assert workers
    process.kill()
    process.communicate()
    deadline = time.monotonic() + 20
    while any(map(alive, workers)):
        assert time.monotonic() < deadline, "workers outlive the command"
        time.sleep(0.05)
    saved = records_in(tmp_path)
    damaged = next(iter(saved))
    damaged.write_text(damaged.read_text()[:100])
    del saved[damaged]
    process = start(tmp_path, "--resume")
    output = process.communicate()[0]
    assert process.returncode == 0, output
    assert f"({len(saved)} of {len(regret.plan('quick'))} are done already)" in output
    assert damaged.stem in output  # named, and set aside
    assert damaged.with_suffix(".damaged-1").exists()
    assert {path: time_ for path, time_ in records_in(tmp_path).items() if path in saved} == saved
    assert len(records_in(tmp_path)) == len(regret.plan("quick"))
    rows = (tmp_path / "records" / "regret.jsonl").read_text().splitlines()
    assert len(rows) == len(regret.plan("quick"))
    assert json.loads(rows[0])["versions"]["varmix"]
    assert "Theorem 1" in output
    assert (tmp_path / "report" / "index.html").exists()
    assert (tmp_path / "figures" / "regret.svg").exists()
    assert (tmp_path / "figures" / "regret.png").exists()


def test_ctrl_c_saves_what_is_finished_and_says_how_to_go_on(tmp_path):
    process = start(tmp_path)
    wait_for_records(tmp_path, 2, process)
    process.send_signal(signal.SIGINT)
    output = process.communicate(timeout=60)[0]
    assert process.returncode == 130
    assert "Traceback" not in output
    assert "runs are saved" in output
    assert "--resume" in output
    assert len(records_in(tmp_path)) >= 2


def told(capsys, *arguments):
    """Call the command with wrong arguments; give the one line that it answers with."""
    with pytest.raises(SystemExit) as ended:
        call(*arguments)
    assert ended.value.code == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    return lines[0]


def call(*arguments):
    before, sys.argv = sys.argv, ["varmix", *map(str, arguments)]
    try:
        cli.main()
    finally:
        sys.argv = before


def test_an_unknown_experiment_is_told_with_the_known_ones(capsys):
    line = told(capsys, "reproduce", "blob")
    assert (
        line
        == "varmix: Unknown experiment 'blob': choose from " + ", ".join(catalogue.names()) + ". Did you mean blobs?"
    )


@pytest.mark.skipif(os.geteuid() == 0 and not Path("/proc").exists(), reason="needs a folder that nobody can write to")
def test_a_folder_that_cannot_be_written_to_is_told(capsys, tmp_path):
    (tmp_path / "file").write_text("")
    line = told(capsys, "reproduce", "regret", "--out", tmp_path / "file" / "below")
    assert "Cannot write to" in line
    assert "--out" in line


def test_too_little_space_is_told(capsys, tmp_path, monkeypatch):
    Usage = namedtuple("Usage", "total used free")
    monkeypatch.setattr("shutil.disk_usage", lambda path: Usage(10**9, 10**9, 12_000_000))
    line = told(capsys, "reproduce", "regret", "--out", tmp_path)
    assert "12 MB free" in line


def test_a_missing_extra_is_told_when_the_experiment_was_asked_for(capsys, monkeypatch, tmp_path):
    monkeypatch.setitem(catalogue.ENTRIES, "later", Entry("Needs much", ("no_such_module",), "rl"))
    line = told(capsys, "reproduce", "later", "--out", tmp_path)
    assert line == "varmix: The experiment later needs no_such_module: pip install 'varmix[rl]'"


def test_a_missing_extra_is_only_named_when_all_were_asked_for(monkeypatch):
    monkeypatch.setitem(catalogue.ENTRIES, "later", Entry("Needs much", ("no_such_module",), "rl"))
    chosen, skipped = reproduce.choose(())
    assert "later" not in chosen
    assert skipped == ["later needs no_such_module: pip install 'varmix[rl]'"]


def test_every_experiment_of_the_catalogue_has_plans_that_json_can_hold():
    for name in catalogue.names():
        if not catalogue.entry(name).missing:
            experiment = catalogue.experiment(name)
            assert experiment.name == name
            for mode in ("quick", "full"):
                plan = experiment.plan(mode)
                assert len({json.dumps(config, sort_keys=True) for config in plan}) == len(plan)
                assert all(experiment.seconds(config) > 0 for config in plan)
            assert len(experiment.plan("quick")) < len(experiment.plan("full"))


def test_findings_can_be_made_from_no_runs_at_all():
    for name in catalogue.names():
        if not catalogue.entry(name).missing:
            assert catalogue.experiment(name).findings([]).experiment == name


def test_starting_over_keeps_the_earlier_runs_once(tmp_path):
    old = tmp_path / "records" / "regret"
    for content in ("first", "second"):
        old.mkdir(parents=True, exist_ok=True)
        (old / "a.json").write_text(content)
        reproduce.set_aside(tmp_path, ["regret"], Console(quiet=True))
        assert not old.exists()
    assert (tmp_path / "previous" / "regret" / "a.json").read_text() == "second"


def test_runs_that_depend_on_others_are_counted_before_and_made_after_them(monkeypatch, tmp_path):
    base = regret.plan("quick")[0] | {"rounds": 20}
    seen = []

    def then(mode, records):
        seen.append(len(records))
        return [base | {"seed": 100 + len(records)}]

    def plan(mode):
        return [base | {"seed": 1}, base | {"seed": 2}]

    made = Experiment("regret", plan, regret.run, regret.seconds, regret.findings, then)
    monkeypatch.setattr(regret, "EXPERIMENT", made)
    request = reproduce.Request(("regret",), "quick", 1, tmp_path, True)
    work = reproduce.Work(request, ["regret"])
    assert len(work.left()) == 3
    assert work.perform(Console(quiet=True)) == []
    assert [r.config["seed"] for r in work.finished("regret")] == [1, 2, 102]
    assert seen[-1] == 2
    assert reproduce.Work(request, ["regret"]).left() == []
    assert work.saved() == "3 of 3 runs are saved."


def test_inspect_shows_the_parts_and_the_mixture(tmp_path, capsys):
    path = tmp_path / "sampler.varmix"
    sampler = vrm(Groups([0, 0, 1]), rng=0)
    sampler.draw(4)
    save_sampler(path, sampler)
    with pytest.raises(SystemExit) as ended:
        call("inspect", path)
    assert not ended.value.code
    printed = capsys.readouterr().out
    assert "after 1 draws" in printed
    assert "BarrierNewton" in printed
    assert "Groups(n=3, k=3" in printed
    assert "█" in printed


@pytest.mark.parametrize("content", [None, b"no checkpoint"])
def test_inspect_refuses_what_is_no_checkpoint(tmp_path, capsys, content):
    path = tmp_path / "file"
    if content:
        path.write_bytes(content)
    assert str(path) in told(capsys, "inspect", path)


def test_a_refusal_is_no_error_of_the_program():
    assert not issubclass(Refusal, (ValueError, OSError))
