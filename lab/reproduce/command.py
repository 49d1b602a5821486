"""Reproduce: from a list of experiments to a report.

- out/records/     one file per finished run, and one table per experiment
- out/figures/     every figure as PNG and SVG
- out/report/      index.html, which holds all of it
- out/summary.md   its table as Markdown
- out/errors/      how runs failed, if any did
- out/previous-N/  the runs of earlier calls that were started over
"""

import os
import platform
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console

from lab.benchmarks import command as benchmarks
from lab import plots
from lab import report
from lab.reproduce import terminal
from lab.reproduce.catalogue import entry
from lab.reproduce.catalogue import experiment
from lab.reproduce.catalogue import names
from lab.reproduce.findings import Findings
from lab.reproduce.command__folder import locked
from lab.reproduce.command__folder import prepare
from lab.reproduce.command__folder import set_aside
from lab.reproduce.records import Record
from lab.reproduce.request import Request
from lab.reproduce.runner import Failure
from lab.reproduce.runner import WorkerError
from lab.reproduce.runner import versions
from lab.reproduce.command__summary import markdown
from lab.reproduce.work import Work
from varmix._core.checkpoint__files import replacing
from lab.refusal import Refusal


def reproduce(request: Request, console: Console) -> int:
    """Make all runs that are missing, then the figures, the report and the table; give the exit code."""
    chosen, skipped = choose(request.experiments)
    prepare(request.out)
    try:
        with locked(request.out):
            return _reproduce(request, chosen, skipped, console)
    except OSError as error:
        place = error.filename or request.out
        raise Refusal(f"{error.strerror or error}: {place}. What is finished is saved. {request.again()}") from None


def choose(asked: Sequence[str]) -> tuple[list[str], list[str]]:
    """Give the experiments to run, and a line for each that cannot; one that was asked for by name must be able to."""
    chosen, skipped = [], []
    for name in dict.fromkeys(asked or names()):
        lacking = entry(name).lacking
        if lacking is None:
            chosen.append(name)
        elif asked:
            raise Refusal(f"The experiment {name} {lacking}")
        else:
            skipped.append(f"{name} {lacking}")
    return chosen, skipped


def _reproduce(request: Request, chosen: Sequence[str], skipped: list[str], console: Console) -> int:
    start = time.perf_counter()
    if not request.resume:
        kept = set_aside(request.out, chosen)
        if kept is not None:
            terminal.say(
                console, f"Starting over: the earlier runs are in {kept}; --resume would have gone on with them."
            )
    work = Work(request, chosen)
    terminal.announce(work, request, console)
    try:
        failures = work.perform(console)
        return _conclude(request, work, failures, skipped, start, console)
    except KeyboardInterrupt:
        terminal.say(console, f"Stopped: {work.saved()} {request.again()}")
        return 130
    except WorkerError as error:
        terminal.say(console, f"{error}: {work.saved()} {request.again()}")
        return 1


def _conclude(
    request: Request, work: Work, failures: list[Failure], skipped: list[str], start: float, console: Console
) -> int:
    """Write and show what the runs came to; a table that is made from fewer runs than planned says so."""
    finished = {name: work.finished(name) for name in work.shown()}
    for name, records in finished.items():
        work.records.write_table(name, records)
    found = [experiment(name).findings(records) for name, records in finished.items()]
    measured, lacking = benchmarks.read(benchmarks.default_folder())
    facts = _facts(request, finished, time.perf_counter() - start)
    page = _publish(request.out, found, facts, [*skipped, *lacking], measured)
    work.tell_damaged(console)
    if any(each.claims for each in found):
        console.print(terminal.claims_table(found))
    for line in work.remarks():
        terminal.say(console, line)
    terminal.tell_failures(failures, console)
    missing = work.planned() - sum(len(finished[name]) for name in work.plans)
    if missing:
        terminal.say(console, f"{missing} runs are missing; the table is made from the others. {request.again()}")
    for line in [*skipped, *lacking]:
        terminal.say(console, f"left out: {line}")
    terminal.say(console, f"Report: {page}")
    return 1 if missing else 0


def _facts(request: Request, finished: Mapping[str, Sequence[Record]], seconds: float) -> dict[str, str]:
    """Say how the run was made; versions are those of the runs, which may have been made by others."""
    found = Counter((name, made) for rows in finished.values() for r in rows for name, made in r.versions.items())
    runs = {name: [made for package, made in found if package == name] for name, _ in found}
    return {
        "command": request.command(),
        "time": terminal.duration(seconds),
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        **{
            name: " and ".join(sorted(made)) for name, made in (runs or {n: [v] for n, v in versions().items()}).items()
        },
    }


def _publish(
    out: Path,
    found: Sequence[Findings],
    facts: Mapping[str, str],
    lacking: Sequence[str],
    measured: Mapping[str, object],
) -> Path:
    """Write the figures, the summary and the report, with a page for the benchmarks if any were measured."""
    for findings in found:
        for picture in findings.pictures:
            plots.save(plots.render(picture), out / "figures", picture.name)
    with replacing(out / "summary.md") as file:
        file.write(markdown(found, facts).encode())
    return report.write(out, found, facts, lacking, measured or None)
