"""`python -m lab bench` as a user meets it, and the report that shows what it wrote."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from lab import __main__ as cli
from lab.benchmarks import command as catalogue
from lab.benchmarks import command as results
from lab.benchmarks.command import Benchmark
from lab.benchmarks.peers import Peer
from lab.reproduce import command as reproduce
from lab.reproduce.work import Request

NAMES = catalogue.list_benchmarks()  # before tests replace them
CHECKOUT = Path(__file__).parents[2]
ABSENT = Peer("nobody", "no_such_module", "bench")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Work in an empty folder, so that no test changes the results of the checkout."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Replace the benchmarks by two that take no time; the second has a missing peer."""

    def measured(console):
        console.print("  measured [all] of it")
        return {"speed": {"us": 1.5}}

    entries = {"core": Benchmark("The core", measured), "sets": Benchmark("The sets", measured, (ABSENT,))}
    for known in (catalogue, results):
        monkeypatch.setattr(known, "ENTRIES", entries)
    return entries


def call(*arguments):
    """Call the command and return its exit code."""
    before, sys.argv = sys.argv, ["varmix", *map(str, arguments)]
    try:
        cli.main()
    except SystemExit as ended:
        return ended.code
    finally:
        sys.argv = before


def test_the_help_names_every_benchmark(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    assert call("bench", "--help") == 0
    assert ", ".join(NAMES) in capsys.readouterr().out


def told(capsys, *arguments):
    """Call the command with wrong arguments and return the line that it prints."""
    assert call(*arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    return line


def stop(console):
    raise KeyboardInterrupt


def test_every_result_is_written_with_the_machine(capsys, tmp_path):
    assert not call("bench")
    for name in ("core", "sets"):
        content = json.loads((tmp_path / "results" / "benchmarks" / f"{name}.json").read_text())
        assert content["speed"] == {"us": 1.5}
        assert {"cpu", "cores", "python", "numpy", "numba", "varmix"} == set(content["machine"])
    assert [path.name for path in sorted((tmp_path / "results" / "benchmarks").iterdir())] == ["core.json", "sets.json"]
    lines = capsys.readouterr().out.splitlines()
    assert "  measured [all] of it" in lines  # unchanged: brackets are not markup
    (absent,) = [line for line in lines if "nobody" in line]
    assert absent.endswith("pip install -e '.[bench]'")
    assert lines[-1].endswith(str(Path("results/benchmarks/sets.json")))


def test_only_those_asked_for_are_made_and_each_once(capsys, tmp_path):
    assert not call("bench", "core", "core", "--out", tmp_path / "a" / "b")
    assert [path.name for path in (tmp_path / "a" / "b").iterdir()] == ["core.json"]
    assert capsys.readouterr().out.count("measured [all]") == 1


def test_in_a_checkout_results_go_to_its_folder(tmp_path):
    (tmp_path / "lab" / "results").mkdir(parents=True)
    assert not call("bench", "core")
    assert (tmp_path / "lab" / "results" / "core.json").exists()
    assert not (tmp_path / "results").exists()


def test_an_unknown_benchmark_is_told_with_the_known_ones_before_anything_is_done(capsys, tmp_path):
    line = told(capsys, "bench", "core", "cores")
    assert "'cores'" in line
    assert "core, sets" in line
    assert line.endswith("mean core?")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_to_is_told(capsys, tmp_path):
    (tmp_path / "file").write_text("")
    for out in (tmp_path / "file", tmp_path / "file" / "below"):
        line = told(capsys, "bench", "--out", out)
        assert str(out) in line
        assert "--out" in line


def test_a_disk_that_is_full_in_the_end_is_told(capsys, tmp_path, monkeypatch):
    def full(folder, name, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("lab.benchmarks.command.write_results", full)
    assert call("bench", "core") == 2
    assert "No space left on device" in capsys.readouterr().err


def test_stopping_keeps_what_is_finished_and_says_how_to_go_on(capsys, tmp_path, quick):
    quick["sets"] = Benchmark("The sets", stop)
    assert call("bench") == 130
    captured = capsys.readouterr()
    folder = Path("results") / "benchmarks"
    last = captured.out.splitlines()[-1]
    assert "1 of 2" in last
    assert last.endswith(f"python -m lab bench sets --out {folder}")
    assert captured.err == ""
    assert [path.name for path in folder.iterdir()] == ["core.json"]


def test_a_real_ctrl_c_is_one_line(tmp_path):
    command = [sys.executable, "-c", "from lab.__main__ import main; main()", "bench", "bias", "--out", str(tmp_path)]
    process = subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    first = process.stdout.readline()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert first.startswith("bias: "), err
    assert process.returncode == 130, err
    assert "0 of 1" in out.splitlines()[-1]
    assert err == ""
    assert list(tmp_path.iterdir()) == []


def test_a_result_replaces_the_last_one_whole_or_not_at_all(tmp_path):
    path = results.write_results(tmp_path, "core", {"us": 1})
    before = path.read_bytes()
    with pytest.raises(ValueError, match="JSON"):
        results.write_results(tmp_path, "core", {"fine": 1, "us": float("nan")})
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_results_are_read_by_title_in_the_order_of_the_catalogue(tmp_path):
    for name in ("sets", "another", "core"):
        results.write_results(tmp_path, name, {"us": 1})
    found, lacking = results.read_results(tmp_path)
    assert list(found) == ["The core", "The sets", "another"]
    assert lacking == []


def test_no_results_are_named_with_the_command(tmp_path):
    found, (line,) = results.read_results(tmp_path / "nowhere")
    assert found == {}
    assert "`python -m lab bench`" in line


@pytest.mark.parametrize("content", [b"", b"3", b"\xff\xfe", b'["\\ud800"]', b"[" * 10**5])
def test_a_damaged_file_is_named_and_the_others_are_read(tmp_path, content):
    results.write_results(tmp_path, "sets", {"us": 1})
    (tmp_path / "core.json").write_bytes(content)
    (tmp_path / "other.json").write_bytes(content)
    found, lacking = results.read_results(tmp_path)
    assert found == {"The sets": {"us": 1}}
    known, unknown = lacking
    assert str(tmp_path / "core.json") in known
    assert known.endswith("`python -m lab bench core`")
    assert str(tmp_path / "other.json") in unknown
    assert "bench " not in unknown  # no command makes it


def test_what_cannot_be_opened_is_named(tmp_path):
    (tmp_path / "core.json").mkdir()
    found, (line,) = results.read_results(tmp_path)
    assert found == {}
    assert str(tmp_path / "core.json") in line
    assert "directory" in line


@pytest.fixture
def no_experiments(monkeypatch):
    monkeypatch.setattr(reproduce, "choose_experiments", lambda asked, mode="full": ([], []))


def report(tmp_path, capsys):
    request = Request((), "quick", 1, tmp_path / "out", False)
    assert reproduce.run_reproduction(request, Console(soft_wrap=True)) == 0
    return capsys.readouterr().out, tmp_path / "out" / "report"


@pytest.mark.usefixtures("no_experiments")
def test_the_report_shows_what_was_measured_and_names_what_is_damaged(tmp_path, capsys):
    call("bench")
    damaged = Path("results") / "benchmarks" / "sets.json"
    damaged.write_text("{")
    output, pages = report(tmp_path, capsys)
    assert [
        line for line in output.splitlines() if str(damaged) in line and line.endswith("`python -m lab bench sets`")
    ]
    first, second = ((pages / name).read_text("utf-8") for name in ("index.html", "benchmarks.html"))
    assert 'href="benchmarks.html"' in first
    assert "sets.json" in first
    assert "The core" in second
    assert "1.50" in second
    assert "The sets" not in second


@pytest.mark.usefixtures("no_experiments")
def test_without_benchmarks_the_report_says_how_to_get_them(tmp_path, capsys):
    output, pages = report(tmp_path, capsys)
    assert [line for line in output.splitlines() if line.endswith("`python -m lab bench`")]
    assert os.listdir(pages) == ["index.html"]
    assert "<code>python -m lab bench</code>" in (pages / "index.html").read_text("utf-8")


@pytest.mark.usefixtures("no_experiments")
def test_whatever_json_holds_can_be_shown(tmp_path, capsys):
    odd = '{"": [], "a": {}, "b": [[], [1, [2]]], "c": [{}, 3, null, true], "n": NaN, "i": -Infinity, "big": 1%s}'
    folder = tmp_path / "results" / "benchmarks"
    folder.mkdir(parents=True)
    (folder / "odd.json").write_text(odd % ("0" * 400))
    _, pages = report(tmp_path, capsys)
    assert "odd" in (pages / "benchmarks.html").read_text("utf-8")


def test_the_results_of_this_checkout_can_be_read():
    found, lacking = results.read_results(CHECKOUT / "lab" / "results")
    assert len(found) >= 4
    assert lacking == []


@pytest.mark.parametrize(("command", "folder"), [("bench", "results/benchmarks"), ("reproduce", "results/full")])
def test_the_help_says_where_results_go(capsys, command, folder):
    assert not call(command, "--help")
    assert folder in capsys.readouterr().out
