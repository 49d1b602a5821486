"""The command `python -m lab reproduce`: plan, run, resume, judge and report experiments."""

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

from lab import report
from lab.benchmarks import command as benchmarks
from lab.commands import CommandError, find_program, make_writable, unknown_name
from lab.files import atomic_write
from lab.reproduce import terminal
from lab.reproduce.catalogue import ENTRIES, find_entry, import_experiment, list_experiments
from lab.reproduce.experiment import Mode
from lab.reproduce.findings import Claim, Findings
from lab.reproduce.records import Record
from lab.reproduce.runner import Failure, WorkerError, list_versions
from lab.reproduce.work import Request, Work

try:
    import fcntl
except ImportError:  # not on Windows: nothing there keeps two commands from using one folder
    fcntl = None  # type: ignore[assignment]

MIN_FREE_BYTES = 200e6  # a full run writes far less
OUTPUT_FOLDERS = ("records", "figures", "report")


def prepare_folder(out: Path) -> None:
    """Create the output folders and check space and permissions, before any run is made."""
    for folder in (out, *(out / part for part in OUTPUT_FOLDERS)):
        make_writable(folder)
    free = shutil.disk_usage(out).free
    if free < MIN_FREE_BYTES:
        raise CommandError(
            f"Too little space on the disk of {out}: {free / 1e6:.0f} MB free, {MIN_FREE_BYTES / 1e6:.0f} MB needed. "
            f"Free some space, or choose another folder with --out."
        )


@contextmanager
def lock_folder(out: Path) -> Iterator[None]:
    """Lock the folder against other commands. The system releases the lock when the process ends, even if killed."""
    with (out / ".lock").open("w") as file:
        if fcntl is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise CommandError(
                    f"Another command is writing to {out}. Wait until it is done, or choose another folder with --out."
                ) from None
        yield


def move_earlier_runs(out: Path, chosen: Sequence[str]) -> Path | None:
    """Move the records of earlier calls to a new folder `previous-N` and return it; None if there are none."""
    old = [out / "records" / name for name in chosen if any((out / "records" / name).glob("*.json"))]
    if not old:
        return None
    number = 1
    while (previous := out / f"previous-{number}").exists():
        number += 1
    previous.mkdir()
    for folder in old:
        folder.replace(previous / folder.name)
    return previous


def render_markdown(found: Sequence[Findings], facts: Mapping[str, str]) -> str:
    """Return the claims as Markdown, one table per experiment, followed by the facts of the run.

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
    """Make all missing runs, then the figures, the report and the table; return the exit code."""
    chosen, skipped = choose_experiments(request.experiments, request.mode)
    prepare_folder(request.out)
    try:
        with lock_folder(request.out):
            return _run_chosen(request, chosen, skipped, console)
    except OSError as error:
        place = error.filename or request.out
        raise CommandError(f"{error.strerror or error}: {place}. Finished runs are saved. {request.again()}") from None


def choose_experiments(asked: Sequence[str], mode: Mode = "full") -> tuple[list[str], list[str]]:
    """Return the experiments to run, and a line for each one that cannot run here.

    Without names, these are all experiments; quick mode leaves out those without quick runs. An experiment that was
    asked for by name and cannot run raises `CommandError`.
    """
    chosen, skipped = [], []
    for name in dict.fromkeys(asked or list_experiments()):
        if name not in ENTRIES:
            raise unknown_name("experiment", name, ENTRIES)
        lacking = find_entry(name).lacking
        if mode == "quick" and not find_entry(name).quick:
            if asked:
                raise CommandError(f"The experiment {name} has no quick runs. Add --full.")
        elif lacking is None:
            chosen.append(name)
        elif asked:
            raise CommandError(f"The experiment {name} {lacking}")
        else:
            skipped.append(f"{name} {lacking}")
    return chosen, skipped


def _run_chosen(request: Request, chosen: Sequence[str], skipped: list[str], console: Console) -> int:
    start = time.perf_counter()
    if not request.resume:
        moved = move_earlier_runs(request.out, chosen)
        if moved is not None:
            terminal.print_line(console, f"Starting over without --resume: earlier runs are in {moved}")
    work = Work(request, chosen)
    terminal.announce_work(work, request, console)
    try:
        failures = work.perform(console)
        return _conclude_run(request, work, failures, skipped, start, console)
    except KeyboardInterrupt:
        terminal.print_line(console, f"Stopped: {work.saved()} {request.again()}")
        return 130
    except WorkerError as error:
        terminal.print_line(console, f"{error}. {work.saved()} {request.again()}")
        return 1


def _conclude_run(
    request: Request, work: Work, failures: list[Failure], skipped: list[str], start: float, console: Console
) -> int:
    """Write the report and print the claims, and which runs are missing or failed; return the exit code."""
    finished = {name: work.finished(name) for name in work.shown()}
    for name, records in finished.items():
        work.records.write_table(name, records)
    found = [import_experiment(name).findings(records) for name, records in finished.items()]
    measured, lacking = benchmarks.read_results(benchmarks.default_folder())
    facts = _describe_run(request, finished, time.perf_counter() - start)
    page = _publish_report(request.out, found, facts, [*skipped, *lacking], measured)
    work.print_damaged(console)
    terminal.print_claims(found, console)
    if request.mode == "quick":
        terminal.print_line(console, _format_full_command(request))
    for line in work.remarks():
        terminal.print_line(console, line)
    terminal.print_failures(failures, console)
    missing = work.planned() - sum(len(finished[name]) for name in work.plans)
    if missing:
        terminal.print_line(console, f"{missing} runs are missing; the table uses the others. {request.again()}")
    for line in [*skipped, *lacking]:
        terminal.print_line(console, f"Left out: {line}")
    terminal.print_line(console, f"Report: {page}")
    return 1 if missing else 0


def _format_full_command(request: Request) -> str:
    """Return the command for all runs, and about how long they take."""
    chosen, _ = choose_experiments(request.experiments)
    seconds = Work(replace(request, mode="full", out=request.out / "full"), chosen).seconds()
    names = " ".join(["reproduce", *request.experiments])
    return f"All runs (about {terminal.format_duration(seconds)}): {find_program()} {names} --full"


def _describe_run(request: Request, finished: Mapping[str, Sequence[Record]], seconds: float) -> dict[str, str]:
    """Return facts about the run; the versions are those in the records, which may be older than this call."""
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
    """Write figures, summary and report, with a page of benchmarks if there are any; return the report."""
    from lab import plots  # Matplotlib loads slowly, and the first line of the command should not wait for it

    for findings in found:
        for picture in findings.pictures:
            plots.save(plots.render_picture(picture), out / "figures", picture.name)
    with atomic_write(out / "summary.md") as file:
        file.write(render_markdown(found, facts).encode())
    return report.write(out, found, facts, lacking, measured or None)
