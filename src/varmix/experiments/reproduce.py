"""Reproduce: from a list of experiments to a report.

out/records/     one file per finished run, and one table per experiment
out/figures/     every figure as PNG and SVG
out/report/      index.html, which holds all of it
out/errors/      how runs failed, if any did
"""

import os
import platform
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from varmix.benchmarks import results as benchmarks
from varmix.experiments import plots, report
from varmix.experiments.catalogue import entry, experiment, names
from varmix.experiments.experiment import Mode
from varmix.experiments.findings import Claim, Findings
from varmix.experiments.records import Config, Record, Records
from varmix.experiments.runner import Failure, Job, WorkerError, perform, versions
from varmix.refusal import Refusal, make_writable

LEAST_SPACE = 200e6  # bytes on the disk, far above what a full run writes
MARKS = {
    "holds": ("✓", "green"),
    "holds in part": ("◐", "yellow"),
    "does not hold": ("✗", "red"),
    "too few runs": ("…", "yellow"),
    "measured": ("·", "default"),
}


@dataclass(frozen=True)
class Request:
    """What was asked for; no names mean all experiments that can run here."""

    experiments: tuple[str, ...]
    mode: Mode
    jobs: int
    out: Path
    resume: bool


def reproduce(request: Request, console: Console) -> int:
    """Make all runs that are missing, then the figures, the report and the table; give the exit code."""
    start = time.perf_counter()
    chosen, skipped = choose(request.experiments)
    prepare(request.out)
    if not request.resume:
        set_aside(request.out, chosen, console)
    work = Work(request, chosen)
    announce(work, request, console)
    try:
        failures = work.perform(console)
    except KeyboardInterrupt:
        console.print(f"Stopped: {work.saved()} {again(request)}", soft_wrap=True)
        return 130
    except WorkerError as error:
        console.print(f"{error}: {work.saved()} {again(request)}", soft_wrap=True)
        return 1
    found = [experiment(name).findings(work.finished(name)) for name in chosen]
    for name in chosen:
        work.records.write_table(name, work.plans[name])
    measured, lacking = benchmarks.read(benchmarks.default_folder())
    skipped += lacking
    page = publish(found, request, skipped, measured, time.perf_counter() - start)
    conclude(found, failures, skipped, page, request, console)
    return 1 if failures else 0


class Work:
    """The runs of the chosen experiments: those that are planned, and those that follow from them."""

    def __init__(self, request: Request, chosen: Sequence[str]) -> None:
        self._request = request
        self.records = Records(request.out / "records")
        self.plans = {name: experiment(name).plan(request.mode) for name in chosen}
        self.expected = {name: len(plan) + len(self._following(name)) for name, plan in self.plans.items()}

    def perform(self, console: Console) -> list[Failure]:
        """Make the planned runs, then those that depend on them."""
        failures = self._perform(self.plans, console)
        following = {name: self._following(name) for name in self.plans}
        for name, plan in following.items():
            self.plans[name] = self.plans[name] + plan
        return failures + self._perform(following, console)

    def _perform(self, plans: Mapping[str, Sequence[Config]], console: Console) -> list[Failure]:
        jobs = [job for name, plan in plans.items() for job in self.missing(name, plan)]
        for path in self.records.damaged:
            console.print(
                f"[yellow]damaged[/yellow] record set aside as {path}; the run is made again.", soft_wrap=True
            )
        self.records.damaged.clear()
        return perform(jobs, self._request.out, self._request.jobs, console) if jobs else []

    def missing(self, name: str, plan: Sequence[Config]) -> list[Job]:
        """Give the runs of a plan that are not on record."""
        seconds = experiment(name).seconds
        return [Job(name, config, seconds(config)) for config in plan if not self.records.has(name, config)]

    def left(self) -> list[Job]:
        """Give all runs that are still to be made, as far as they are known."""
        plans = {name: plan + self._following(name) for name, plan in self.plans.items()}
        return [job for name, plan in plans.items() for job in self.missing(name, plan)]

    def _following(self, name: str) -> list[Config]:
        return experiment(name).then(self._request.mode, self.finished(name))

    def finished(self, name: str) -> list[Record]:
        """Give the records of the runs that were planned."""
        return self.records.read(name, self.plans[name])

    def saved(self) -> str:
        """Say how many runs are on record."""
        there = sum(len(self.finished(name)) for name in self.plans)
        return f"{there} of {sum(self.expected.values())} runs are saved."


def choose(asked: Sequence[str]) -> tuple[list[str], list[str]]:
    """Give the experiments to run, and a line for each that cannot; one that was asked for by name must be able to."""
    chosen, skipped = [], []
    for name in dict.fromkeys(asked or names()):
        lacking = entry(name).missing
        if not lacking:
            chosen.append(name)
            continue
        line = f"{name} needs {', '.join(lacking)}: pip install 'varmix[{entry(name).extra}]'"
        if asked:
            raise Refusal(f"The experiment {line}")
        skipped.append(line)
    return chosen, skipped


def prepare(out: Path) -> None:
    """Make the folder and see that it can be written to, and has room."""
    make_writable(out)
    free = shutil.disk_usage(out).free
    if free < LEAST_SPACE:
        raise Refusal(
            f"Too little space on the disk of {out}: {free / 1e6:.0f} MB free, {LEAST_SPACE / 1e6:.0f} MB needed. "
            f"Free some, or choose another folder with --out."
        )


def set_aside(out: Path, chosen: Sequence[str], console: Console) -> None:
    """Move the runs of an earlier call out of the way; they are kept until the next."""
    for name in chosen:
        old, kept = out / "records" / name, out / "previous" / name
        if old.exists():
            shutil.rmtree(kept, ignore_errors=True)
            kept.parent.mkdir(exist_ok=True)
            old.replace(kept)
            console.print(
                f"{name}: starting over, the earlier runs are kept in {kept} (--resume would go on with them)."
            )


def announce(work: Work, request: Request, console: Console) -> None:
    """Say what is to be done and how long it will take."""
    jobs, planned = work.left(), sum(work.expected.values())
    expected = sum(job.seconds for job in jobs) / min(request.jobs, max(len(jobs), 1))
    done = planned - len(jobs)
    already = f" ({done} of {planned} are done already)" if done else ""
    processes = f"{request.jobs} process{'es' if request.jobs > 1 else ''}"
    console.print(
        f"{request.mode} mode: {len(jobs)} runs{already} on {processes}, about {duration(expected)}; "
        f"results go to {request.out}",
        soft_wrap=True,
    )


def publish(
    found: Sequence[Findings],
    request: Request,
    skipped: Sequence[str],
    measured: Mapping[str, object],
    seconds: float,
) -> Path:
    """Write the figures and the report, with a page for the benchmarks if any were measured."""
    for findings in found:
        for picture in findings.pictures:
            plots.save(plots.render(picture), request.out / "figures", picture.name)
    facts = {
        "command": command(request),
        "time": duration(seconds),
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        **versions(),
    }
    return report.write(request.out, found, facts, skipped, measured or None)


def conclude(
    found: Sequence[Findings],
    failures: Sequence[Failure],
    skipped: Sequence[str],
    page: Path,
    request: Request,
    console: Console,
) -> None:
    """Print the table, what failed, what was left out, and where the report is."""
    console.print(claims_table(found))
    for failure in failures:
        what = ", ".join(f"{name} {value}" for name, value in failure.job.config.items())
        console.print(f"[red]failed[/red] {failure.job.experiment} ({what}): {failure.message}; see {failure.path}")
    if failures:
        console.print(f"{len(failures)} runs failed; the table is made from the others. {again(request)}")
    for line in skipped:
        console.print(f"left out: {line}", markup=False, soft_wrap=True)
    console.print(f"Report: {page}", soft_wrap=True)


def claims_table(found: Sequence[Findings]) -> Table:
    """Give the table that opens the report, for the terminal."""
    table = Table(show_lines=True, title="The paper says, we measured")
    for heading, share in (("", 1), ("the paper says", 4), ("we measured", 5), ("verdict", 2)):
        table.add_column(heading, ratio=share)
    for findings in found:
        for claim in findings.claims:
            table.add_row(findings.experiment, *_cells(claim))
    return table


def _cells(claim: Claim) -> tuple[Text, Text, Text]:
    mark, color = MARKS[claim.verdict]
    said = (
        Text("beyond the paper: ", style="dim") + Text(claim.paper, style="default")
        if claim.beyond
        else Text(claim.paper)
    )
    measured = Text(claim.measured) + Text(f"\n{claim.settings}", style="dim")
    return said, measured, Text(f"{mark} {claim.verdict}", style=color)


def command(request: Request) -> str:
    """Give the command that was called."""
    parts = ["varmix", "reproduce", *request.experiments, f"--{request.mode}", "--jobs", str(request.jobs)]
    return " ".join([*parts, "--out", str(request.out)])


def again(request: Request) -> str:
    """Say how to go on."""
    return f"Go on with: {command(request)} --resume"


def duration(seconds: float) -> str:
    """Say a time as a person would.

    Examples
    --------
    >>> duration(42), duration(600), duration(9000)
    ('42 s', '10 min', '2.5 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
