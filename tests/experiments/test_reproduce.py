"""The command as a user meets it: real processes, real signals, real folders."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

from lab import __main__ as cli
from lab.commands import CommandError
from lab.experiments import blobs, regret
from lab.reproduce import catalogue
from lab.reproduce import command as reproduce
from lab.reproduce.catalogue import Entry
from lab.reproduce.command import lock_folder, move_earlier_runs
from lab.reproduce.experiment import Experiment
from lab.reproduce.records import Record, Records
from lab.reproduce.runner import list_versions
from lab.reproduce.work import Request, Work
from varmix import Dense, vrm
from varmix import save as save_sampler
from varmix.__main__ import main as inspect
from varmix.components import Groups
from varmix.meter import GainMeter
from varmix.rl import ReplayBuffer

# Four very short runs and four of a second, so that a test can stop the command in the middle.
PLAN = [regret.plan("quick")[0] | {"rounds": rounds, "seed": seed} for rounds in (20, 4000) for seed in range(4)]
CODE = f"""
import json
from dataclasses import replace
from lab.__main__ import main
from lab.experiments import regret
plan = json.loads({json.dumps(PLAN)!r})
regret.EXPERIMENT = replace(regret.EXPERIMENT, plan=lambda mode: plan)
main()
"""


class Threads(ThreadPoolExecutor):
    """Workers as threads of this process, for tests of the output that need no processes."""

    def __init__(self, max_workers, mp_context, initializer, initargs):
        super().__init__(max_workers)


@pytest.fixture
def in_this_process(monkeypatch):
    monkeypatch.setattr("lab.reproduce.runner.ProcessPoolExecutor", Threads)


def call(*arguments):
    if arguments[0] == "inspect":
        raise SystemExit(inspect(list(map(str, arguments))))
    before, sys.argv = sys.argv, ["lab", *map(str, arguments)]
    try:
        cli.main()
    finally:
        sys.argv = before


def done(capsys, out, *options):
    """Call the command on the experiment regret; return its exit code and what it printed."""
    with pytest.raises(SystemExit) as ended:
        call("reproduce", "regret", "--jobs", "1", "--out", out, *options)
    printed = capsys.readouterr()
    return ended.value.code or 0, printed.out + printed.err


def start(out):
    """Start the command in its own process group, as a terminal does."""
    command = [sys.executable, "-c", CODE, "reproduce", "regret", "--jobs", "2", "--out", str(out)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )


def records_in(out):
    return {path: path.stat().st_mtime_ns for path in (out / "records" / "regret").glob("*.json")}


def wait_until(met, process, timeout=120):
    """Wait until `met` returns true while the process runs."""
    deadline = time.monotonic() + timeout
    while not met():
        assert process.poll() is None, process.stdout.read()
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.01)


def wait_for_records(out, count, process):
    wait_until(lambda: len(records_in(out)) >= count, process)


def numbers_in(text):
    """Return all whole numbers in a text."""
    return [int(number) for number in re.findall(r"(?<![\w.-])\d+(?![\w.])", text)]


def line_with(text, key):
    """Return the one printed line with a keyword."""
    (line,) = [line for line in text.splitlines() if key in line]
    return line


def children(pid):
    found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False).stdout.split()
    return [int(child) for child in found]


def alive(pid):
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes as Linux shows them")
def test_a_killed_run_leaves_no_workers_and_goes_on_without_repeating_anything(
    in_this_process, tmp_path, capsys, monkeypatch
):
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
    monkeypatch.setattr(regret, "EXPERIMENT", replace(regret.EXPERIMENT, plan=lambda mode: PLAN))
    code, output = done(capsys, tmp_path, "--resume")
    assert code == 0, output
    assert numbers_in(output.splitlines()[0])[:3] == [len(PLAN) - len(saved), len(saved), len(PLAN)]
    assert damaged.stem in output  # named in the output, and renamed
    assert damaged.with_suffix(".damaged-1").exists()
    assert {path: time_ for path, time_ in records_in(tmp_path).items() if path in saved} == saved
    assert len(records_in(tmp_path)) == len(PLAN)
    rows = (tmp_path / "records" / "regret.jsonl").read_text().splitlines()
    assert len(rows) == len(PLAN)
    assert json.loads(rows[0])["versions"]["varmix"]
    assert output.count("holds") == 1  # a table, of one row
    assert (tmp_path / "report" / "index.html").exists()
    assert (tmp_path / "figures" / "regret.svg").exists()
    assert (tmp_path / "figures" / "regret.png").exists()


def test_ctrl_c_saves_what_is_finished_and_says_how_to_go_on(tmp_path):
    process = start(tmp_path)
    wait_for_records(tmp_path, 2, process)
    os.killpg(process.pid, signal.SIGINT)
    output = process.communicate(timeout=60)[0]
    assert process.returncode == 130
    assert "Traceback" not in output
    saved = len(records_in(tmp_path))
    assert 2 <= saved <= len(PLAN)
    assert numbers_in(line_with(output, "Stopped"))[:2] == [saved, len(PLAN)]
    assert "--resume" in line_with(output, "Stopped")


def told(capsys, *arguments, code=2):
    """Call the command with wrong arguments and return the line that it prints."""
    with pytest.raises(SystemExit) as ended:
        call(*arguments)
    assert ended.value.code == code
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    return lines[0]


def test_an_unknown_experiment_is_told_with_the_known_ones(capsys):
    line = told(capsys, "reproduce", "blob")
    assert "'blob'" in line
    assert ", ".join(catalogue.list_experiments()) in line
    assert line.endswith("mean blobs?")


def test_a_folder_that_cannot_be_written_to_is_told(capsys, tmp_path):
    (tmp_path / "file").write_text("")
    line = told(capsys, "reproduce", "regret", "--out", tmp_path / "file" / "below")
    assert str(tmp_path / "file" / "below") in line
    assert "--out" in line


def test_too_little_space_is_told(capsys, tmp_path, monkeypatch):
    Usage = namedtuple("Usage", "total used free")
    monkeypatch.setattr("shutil.disk_usage", lambda path: Usage(10**9, 10**9, 12_000_000))
    line = told(capsys, "reproduce", "regret", "--out", tmp_path)
    assert "12 MB" in line


def test_a_missing_extra_is_told_when_the_experiment_was_asked_for(capsys, monkeypatch, tmp_path):
    monkeypatch.setitem(catalogue.ENTRIES, "later", Entry("Needs much", ("no_such_module",), "rl"))
    line = told(capsys, "reproduce", "later", "--out", tmp_path)
    assert "later needs no_such_module" in line
    assert "pip install -e '.[rl]'" in line


def test_a_missing_extra_is_only_named_when_all_were_asked_for(monkeypatch):
    monkeypatch.setitem(catalogue.ENTRIES, "later", Entry("Needs much", ("no_such_module",), "rl"))
    chosen, skipped = reproduce.choose_experiments(())
    assert "later" not in chosen
    assert "later needs no_such_module" in skipped[-1]
    assert "pip install -e '.[rl]'" in skipped[-1]


@pytest.mark.parametrize("data", ["at hand", "none"])
def test_every_experiment_of_the_catalogue_has_plans_that_json_can_hold(request, data):
    if data == "none":
        request.getfixturevalue("nothing")
    for name in catalogue.list_experiments():
        if catalogue.find_entry(name).lacking is None:
            experiment = catalogue.import_experiment(name)
            assert experiment.name == name
            runs = {mode: [*experiment.plan(mode), *experiment.then(mode, [])] for mode in ("quick", "full")}
            for plan in runs.values():
                assert len({json.dumps(config, sort_keys=True) for config in plan}) == len(plan)
                assert all(experiment.seconds(config) > 0 for config in plan)
            assert len(runs["quick"]) < len(runs["full"])


def test_findings_can_be_made_from_no_runs_at_all():
    for name in catalogue.list_experiments():
        if not catalogue.find_entry(name).missing:
            assert catalogue.import_experiment(name).findings([]).experiment == name


@pytest.fixture
def tiny(in_this_process, monkeypatch):
    """Replace the experiment regret by three very short runs in this process, without its figure."""
    base = regret.plan("quick")[0] | {"rounds": 20}
    plan = [base | {"seed": seed} for seed in (1, 2, 3)]

    def findings(records):
        return replace(regret.findings(records), pictures=())

    made = Experiment("regret", lambda mode: plan, regret.run, regret.seconds, findings)
    monkeypatch.setattr(regret, "EXPERIMENT", made)
    return plan


def test_starting_over_never_deletes_earlier_runs(tiny, tmp_path, capsys):
    old = tmp_path / "records" / "regret"
    for number in (1, 2):
        old.mkdir(parents=True, exist_ok=True)
        (old / "a.json").write_text(str(number))
        assert move_earlier_runs(tmp_path, ["regret", "blobs"]) == tmp_path / f"previous-{number}"
        assert not old.exists()
    assert move_earlier_runs(tmp_path, ["regret"]) is None
    assert [(tmp_path / f"previous-{i}" / "regret" / "a.json").read_text() for i in (1, 2)] == ["1", "2"]
    Records(tmp_path / "records").write(Record("regret", tiny[0], {}, {}, 1.0, 1.0))
    code, printed = done(capsys, tmp_path)
    assert code == 0
    assert "previous-3" in printed
    assert len(records_in(tmp_path)) == 3


def test_one_command_a_folder(tiny, tmp_path, capsys):
    tmp_path.mkdir(exist_ok=True)
    with lock_folder(tmp_path):
        code, printed = done(capsys, tmp_path)
    assert code == 2
    assert str(tmp_path) in printed
    assert "--out" in printed
    assert records_in(tmp_path) == {}
    assert done(capsys, tmp_path)[0] == 0


def test_runs_of_another_version_are_named(tiny, tmp_path, capsys):
    records = Records(tmp_path / "records")
    for config in tiny[:2]:
        records.write(Record("regret", config, {"paid": 1.0, "uniform": 1.0, "best": 1.0}, {"varmix": "0.0.1"}, 1, 1))
    code, printed = done(capsys, tmp_path, "--resume")
    assert code == 0
    assert numbers_in(line_with(printed, "0.0.1"))[0] == 2
    summary = (tmp_path / "summary.md").read_text()
    assert "0.0.1" in summary
    assert list_versions()["varmix"] in summary


def test_folders_with_any_name_are_used_and_told_as_they_are(tiny, tmp_path, capsys):
    name = "a b [red]größe[/b]"
    code, printed = done(capsys, tmp_path / name)
    assert code == 0
    assert f"{name}/report/index.html" in printed
    assert (tmp_path / name / "report" / "index.html").exists()


@pytest.mark.parametrize("part", ["records", "figures", "report"])
def test_a_file_in_the_place_of_a_folder_is_told_before_any_run(tiny, tmp_path, capsys, part):
    (tmp_path / part).write_text("")
    code, printed = done(capsys, tmp_path)
    assert code == 2
    assert str(tmp_path / part) in printed
    assert records_in(tmp_path) == {}


def test_a_record_that_is_a_folder_is_set_aside(tiny, tmp_path, capsys):
    path = Records(tmp_path / "records").path("regret", tiny[0])
    path.mkdir(parents=True)
    code, printed = done(capsys, tmp_path, "--resume")
    assert code == 0
    assert f"{path.stem}.damaged-1" in printed


def test_a_disk_that_fills_up_ends_in_one_line(tiny, tmp_path, capsys, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device", str(tmp_path / "records"))

    monkeypatch.setattr("lab.reproduce.work.perform_jobs", full)
    code, printed = done(capsys, tmp_path)
    assert code == 2
    assert "No space left on device" in printed
    assert "--resume" in printed
    assert "Traceback" not in printed


def test_a_failing_run_is_told_whatever_its_message_and_gone_after_it_succeeds(tiny, tmp_path, capsys, monkeypatch):
    tiny[1] = tiny[1] | {"arm": "[/x]"}
    made = replace(regret.EXPERIMENT, seconds=lambda config: 0.1)
    monkeypatch.setattr(regret, "EXPERIMENT", made)
    code, printed = done(capsys, tmp_path)
    assert code == 1
    assert "KeyError: '[/x]'" in printed
    assert numbers_in(line_with(printed, "missing"))[0] == 1
    assert len(list((tmp_path / "errors" / "regret").glob("*.txt"))) == 1


def test_runs_that_fail_alike_are_told_once_and_nothing_follows_from_them(tiny, tmp_path, capsys, monkeypatch):
    broken = [config | {"arm": "[/x]"} for config in tiny]
    made = replace(regret.EXPERIMENT, seconds=lambda config: 0.1, plan=lambda mode: broken, then=lambda *_: tiny)
    monkeypatch.setattr(regret, "EXPERIMENT", made)
    code, printed = done(capsys, tmp_path)
    assert code == 1
    assert printed.count("KeyError") == 1
    assert numbers_in(line_with(printed, "KeyError"))[0] == 3
    assert "regret" in line_with(printed, "KeyError")
    assert "verdict" not in printed  # an empty table
    assert not list((tmp_path / "records" / "regret").glob("*.json"))


def test_stopping_during_the_report_says_that_all_runs_are_saved(tiny, tmp_path, capsys, monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("lab.report.write", interrupted)
    code, printed = done(capsys, tmp_path)
    assert code == 130
    assert numbers_in(line_with(printed, "Stopped"))[:2] == [3, 3]


def test_the_report_shows_what_earlier_calls_have_left_in_the_folder(tiny, tmp_path, capsys):
    config = blobs.plan("quick")[0]
    result = {"sustained": 5, "mixture": [0.1] * 7, "mixture_in_figure": [0.1] * 7, "mixtures": [[0.1] * 7]}
    result |= {"iterations": [25], "kept": [1.0]}
    Records(tmp_path / "records").write(Record("blobs", config, result, {"varmix": "0.1.0"}, 1.0, 1.0))
    assert done(capsys, tmp_path)[0] == 0
    page = (tmp_path / "report" / "index.html").read_text()
    assert blobs.findings([]).title in page
    assert regret.findings([]).title in page


def test_a_terminal_that_knows_ascii_only_gets_a_table_all_the_same(tiny, tmp_path, capsys):
    terminal = io.TextIOWrapper(io.BytesIO(), "ascii")
    assert terminal.errors == "strict"  # so ticks and bars would raise an error
    with redirect_stdout(terminal):
        code, _ = done(capsys, tmp_path)
    assert code == 0
    terminal.flush()
    printed = terminal.buffer.getvalue().decode("ascii")
    assert printed.count("? holds") == 1  # the tick


@pytest.mark.parametrize("moment", ["as soon as there is a folder", "as soon as there is a worker"])
def test_ctrl_c_from_a_terminal_shows_no_traceback_at_any_moment(tmp_path, moment):
    """A terminal signals the whole group, workers included, which may just be starting.

    Before there is a folder Python is busy importing, and answers for itself.
    """
    process = start(tmp_path)
    wait_until(lambda: any(tmp_path.iterdir()), process)
    if "worker" in moment:
        wait_until(lambda: children(process.pid), process)
    os.killpg(process.pid, signal.SIGINT)
    output = process.communicate(timeout=60)[0]
    assert process.returncode == 130
    assert "Traceback" not in output, output


def test_runs_that_depend_on_others_are_counted_before_and_made_after_them(in_this_process, monkeypatch, tmp_path):
    base = regret.plan("quick")[0] | {"rounds": 20}
    seen = []

    def then(mode, records):
        seen.append(len(records))
        return [base | {"seed": 100 + len(records)}]

    def plan(mode):
        return [base | {"seed": 1}, base | {"seed": 2}]

    made = Experiment("regret", plan, regret.run, regret.seconds, regret.findings, then)
    monkeypatch.setattr(regret, "EXPERIMENT", made)
    request = Request(("regret",), "quick", 1, tmp_path, True)
    work = Work(request, ["regret"])
    assert len(work.left()) == 3
    assert work.perform(Console(quiet=True)) == []
    assert [r.config["seed"] for r in work.finished("regret")] == [1, 2, 102]
    assert seen[-1] == 2
    assert Work(request, ["regret"]).left() == []
    assert numbers_in(work.saved()) == [3, 3]


def test_inspect_shows_the_parts_and_the_mixture(tmp_path, capsys):
    path = tmp_path / "sampler.varmix"
    sampler = vrm(Groups([0, 0, 1]), rng=0)
    sampler.draw(4)
    for _ in range(50):
        draw = sampler.draw(4)
        sampler.update(draw, 1.0 + draw.indices)
    save_sampler(path, sampler)
    with pytest.raises(SystemExit) as ended:
        call("inspect", path)
    assert not ended.value.code
    printed = capsys.readouterr().out
    assert 51 in numbers_in(line_with(printed, "draws"))
    assert str(sampler.gain) in line_with(printed, "gain")
    assert "BarrierNewton" in printed
    assert "Groups(n=3, k=3" in printed
    assert "###" in printed


def test_inspect_shows_a_replay_buffer_with_its_settings(tmp_path, capsys):
    spaces = SimpleNamespace(shape=(2,), dtype=np.float32), SimpleNamespace(shape=(), dtype=np.int64)
    save_sampler(tmp_path / "buffer.varmix", ReplayBuffer(10, *spaces, settings=[(0.01, 0.9), (1.0, 0.5)], rng=0))
    with pytest.raises(SystemExit) as ended:
        call("inspect", tmp_path / "buffer.varmix")
    assert not ended.value.code
    printed = capsys.readouterr().out
    assert "ReplayBuffer(capacity=10" in printed
    for setting in ("epsilon 0.01, alpha 0.9", "epsilon 1, alpha 0.5"):
        assert re.search(rf"{setting} +#+ +0\.250\b", printed)


def test_inspect_shows_what_is_in_any_state(tmp_path, capsys):
    meter = GainMeter()
    save_sampler(tmp_path / "meter.varmix", meter)
    with pytest.raises(SystemExit) as ended:
        call("inspect", tmp_path / "meter.varmix")
    assert not ended.value.code
    first, *rest = capsys.readouterr().out.splitlines()
    assert "not of a sampler" in first
    assert {line.split()[0] for line in rest} >= set(meter.state_dict())


def test_inspect_keeps_families_apart_from_their_names(tmp_path, capsys):
    save_sampler(tmp_path / "two.varmix", vrm(Groups([0, 0, 1]), Dense(np.full((3, 2), 1 / 3)), rng=0))
    with pytest.raises(SystemExit):
        call("inspect", tmp_path / "two.varmix")
    assert re.search(r"components\S*  +Groups\(", capsys.readouterr().out)


def test_inspect_says_so_when_it_is_given_a_folder(tmp_path, capsys):
    assert "folder" in told(capsys, "inspect", tmp_path, code=1)


def test_results_cannot_go_into_a_file(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert f"{tmp_path / 'file'}" in told(capsys, "reproduce", "regret", "--out", tmp_path / "file")


def test_data_lists_the_sets_that_were_asked_for(capsys):
    with pytest.raises(SystemExit):
        call("data", "list", "adult", "w8a")
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["name", "w8a", "adult"]
    assert "'x'" in told(capsys, "data", "check", "x")


def test_data_that_are_not_there_cannot_be_checked(capsys, nothing):
    assert "python -m lab data fetch" in told(capsys, "data", "check")


def test_ctrl_c_before_anything_has_begun_ends_quietly(capsys, monkeypatch):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "app", interrupted)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 130


def test_a_command_without_its_figures_is_told(monkeypatch):
    monkeypatch.setattr(cli, "find_spec", lambda name: None if name == "matplotlib" else name)
    with pytest.raises(SystemExit, match=r"pip install -e '\.\[lab\]'"):
        cli.main()


def test_data_checks_and_says_where(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("VARMIX_DATA", str(tmp_path))
    (tmp_path / "w8a.npz").write_bytes(b"rubbish")
    with pytest.raises(SystemExit) as ended:
        call("data", "check", "w8a")
    assert ended.value.code == 1
    assert str(tmp_path / "w8a.npz") in capsys.readouterr().out


@pytest.mark.parametrize("content", [None, b"no checkpoint"])
def test_inspect_refuses_what_is_no_checkpoint(tmp_path, capsys, content):
    path = tmp_path / "file"
    if content:
        path.write_bytes(content)
    assert str(path) in told(capsys, "inspect", path, code=2 if content is None else 1)


def test_a_refusal_is_no_error_of_the_program():
    assert not issubclass(CommandError, (ValueError, OSError))
