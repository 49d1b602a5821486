"""Reproduce: plan, run, resume, judge and report experiments."""

import os
import platform
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from lab import plots, report
from lab.benchmarks import command as benchmarks
from lab.commands import find_program
from lab.files import atomic_write
from lab.refusal import Refusal, make_writable
from lab.reproduce import terminal
from lab.reproduce.catalogue import find_entry, import_experiment, list_experiments
from lab.reproduce.experiment import Mode
from lab.reproduce.findings import Claim, Findings
from lab.reproduce.records import Record
from lab.reproduce.request import Request
from lab.reproduce.runner import Failure, WorkerError, list_versions
from lab.reproduce.work import Work

try:
    import fcntl
except ImportError:  # not on this system: two commands in one folder are then the user's own look-out
    fcntl = None  # type: ignore[assignment]

MIN_FREE_BYTES = 200e6  # bytes on the disk, far above what a full run writes
OUTPUT_FOLDERS = ("records", "figures", "report")


def prepare_folder(out: Path) -> None:
    """Make the folder and its parts, and see that they can be written to, before there is anything to lose."""
    for folder in (out, *(out / part for part in OUTPUT_FOLDERS)):
        make_writable(folder)
    free = shutil.disk_usage(out).free
    if free < MIN_FREE_BYTES:
        raise Refusal(
            f"Too little space on the disk of {out}: {free / 1e6:.0f} MB free, {MIN_FREE_BYTES / 1e6:.0f} MB needed. "
            f"Free some, or choose another folder with --out."
        )


@contextmanager
def lock_folder(out: Path) -> Iterator[None]:
    """Keep other commands out of the folder; the system frees it when the process ends, however it ends."""
    with (out / ".lock").open("w") as file:
        if fcntl is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Refusal(
                    f"Another command is writing to {out}. Wait until it is done, or choose another folder with --out."
                ) from None
        yield


def set_aside(out: Path, chosen: Sequence[str]) -> Path | None:
    """Move the runs of earlier calls to a folder of their own, and give it; nothing is ever deleted."""
    old = [out / "records" / name for name in chosen if any((out / "records" / name).glob("*.json"))]
    if not old:
        return None
    number = 1
    while (kept := out / f"previous-{number}").exists():
        number += 1
    kept.mkdir()
    for folder in old:
        folder.replace(kept / folder.name)
    return kept


def render_markdown(found: Sequence[Findings], facts: Mapping[str, str]) -> str:
    """Give the claims of all experiments, one table each, and how they were measured.

    Examples
    --------
    >>> claim = Claim("Works", "It works.", "2x [1, 3]", "holds", "40 seeds")
    >>> found = [Findings("demo", "A demonstration", [claim])]
    >>> print(render_markdown(found, {"command": "python -m lab reproduce demo"}))
    ## A demonstration
    <BLANKLINE>
    | claim | number | verdict | in words | settings |
    |---|---|---|---|---|
    | Works | 2x [1, 3] | holds | It works. | 40 seeds |
    <BLANKLINE>
    Made with: command python -m lab reproduce demo
    <BLANKLINE>
    """
    parts = [_render_section(findings) for findings in found]
    made = ", ".join(f"{name} {value}" for name, value in facts.items())
    return "".join(f"{part}\n" for part in parts) + f"Made with: {made}\n"


def _render_section(findings: Findings) -> str:
    rows = "".join(_render_row(claim) for claim in findings.claims)
    return f"## {findings.title}\n\n| claim | number | verdict | in words | settings |\n|---|---|---|---|---|\n{rows}"


def _render_row(claim: Claim) -> str:
    said = f"*Beyond the paper:* {claim.said}" if claim.beyond else claim.said
    cells = (claim.name, claim.number, claim.verdict, said, claim.settings)
    return "| " + " | ".join(cell.replace("|", "/").replace("\n", " ") for cell in cells) + " |\n"


def run_reproduction(request: Request, console: Console) -> int:
    """Make all runs that are missing, then the figures, the report and the table; give the exit code."""
    chosen, skipped = choose_experiments(request.experiments, request.mode)
    prepare_folder(request.out)
    try:
        with lock_folder(request.out):
            return _run_chosen(request, chosen, skipped, console)
    except OSError as error:
        place = error.filename or request.out
        raise Refusal(f"{error.strerror or error}: {place}. What is finished is saved. {request.again()}") from None


def choose_experiments(asked: Sequence[str], mode: Mode = "full") -> tuple[list[str], list[str]]:
    """Return the experiments to run, and a line for each that cannot; one that was asked for by name must be able to.

    Those without quick runs are left out of quick mode.
    """
    chosen, skipped = [], []
    for name in dict.fromkeys(asked or list_experiments()):
        lacking = find_entry(name).lacking
        if mode == "quick" and not find_entry(name).quick:
            if asked:
                raise Refusal(f"The experiment {name} has no quick runs. Add --full.")
        elif lacking is None:
            chosen.append(name)
        elif asked:
            raise Refusal(f"The experiment {name} {lacking}")
        else:
            skipped.append(f"{name} {lacking}")
    return chosen, skipped


def _run_chosen(request: Request, chosen: Sequence[str], skipped: list[str], console: Console) -> int:
    start = time.perf_counter()
    if not request.resume:
        kept = set_aside(request.out, chosen)
        if kept is not None:
            terminal.print_line(
                console, f"Starting over: the earlier runs are in {kept}; --resume would have gone on with them."
            )
    work = Work(request, chosen)
    terminal.announce_work(work, request, console)
    try:
        failures = work.perform(console)
        return _conclude_run(request, work, failures, skipped, start, console)
    except KeyboardInterrupt:
        terminal.print_line(console, f"Stopped: {work.saved()} {request.again()}")
        return 130
    except WorkerError as error:
        terminal.print_line(console, f"{error}: {work.saved()} {request.again()}")
        return 1


def _conclude_run(
    request: Request, work: Work, failures: list[Failure], skipped: list[str], start: float, console: Console
) -> int:
    """Write and show what the runs came to; a table that is made from fewer runs than planned says so."""
    finished = {name: work.finished(name) for name in work.shown()}
    for name, records in finished.items():
        work.records.write_table(name, records)
    found = [import_experiment(name).findings(records) for name, records in finished.items()]
    measured, lacking = benchmarks.read_results(benchmarks.default_folder())
    facts = _describe_run(request, finished, time.perf_counter() - start)
    page = _publish_report(request.out, found, facts, [*skipped, *lacking], measured)
    work.tell_damaged(console)
    terminal.print_claims(found, console)
    if request.mode == "quick":
        terminal.print_line(console, _tell_full(request))
    for line in work.remarks():
        terminal.print_line(console, line)
    terminal.tell_failures(failures, console)
    missing = work.planned() - sum(len(finished[name]) for name in work.plans)
    if missing:
        terminal.print_line(
            console, f"{missing} runs are missing; the table is made from the others. {request.again()}"
        )
    for line in [*skipped, *lacking]:
        terminal.print_line(console, f"left out: {line}")
    terminal.print_line(console, f"Report: {page}")
    return 1 if missing else 0


def _tell_full(request: Request) -> str:
    """Return the command for all runs, and how long they take."""
    chosen, _ = choose_experiments(request.experiments)
    seconds = Work(replace(request, mode="full", out=request.out / "full"), chosen).seconds()
    names = " ".join(["reproduce", *request.experiments])
    return f"{find_program()} {names} --full: all seeds, data, claims; {terminal.format_duration(seconds)}"


def _describe_run(request: Request, finished: Mapping[str, Sequence[Record]], seconds: float) -> dict[str, str]:
    """Say how the run was made; versions are those of the runs, which may have been made by others."""
    found = Counter((name, made) for rows in finished.values() for r in rows for name, made in r.versions.items())
    runs = {name: [made for package, made in found if package == name] for name, _ in found}
    return {
        "command": request.command(),
        "time": terminal.format_duration(seconds),
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        **{
            name: " and ".join(sorted(made))
            for name, made in (runs or {n: [v] for n, v in list_versions().items()}).items()
        },
    }


def _publish_report(
    out: Path,
    found: Sequence[Findings],
    facts: Mapping[str, str],
    lacking: Sequence[str],
    measured: Mapping[str, object],
) -> Path:
    """Write the figures, the summary and the report, with a page for the benchmarks if any were measured."""
    for findings in found:
        for picture in findings.pictures:
            plots.save(plots.render_picture(picture), out / "figures", picture.name)
    with atomic_write(out / "summary.md") as file:
        file.write(render_markdown(found, facts).encode())
    return report.write(out, found, facts, lacking, measured or None)
