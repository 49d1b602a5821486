"""Terminal: what the command says."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from lab.reproduce.findings import BRACKETS_NOTE, Claim, Findings
from lab.reproduce.request import Request
from lab.reproduce.runner import Failure

if TYPE_CHECKING:
    from lab.reproduce.work import Work

VERDICT_MARKS = {
    "holds": ("✓", "green"),
    "holds in part": ("◐", "yellow"),
    "does not hold": ("✗", "red"),
    "too few runs": ("…", "yellow"),
    "measured": ("·", "default"),
}


def print_line(console: Console, line: str, style: str = "") -> None:
    """Print a line as it is: paths may hold brackets, and are to be copied whole."""
    console.print(Text(line, style=style), soft_wrap=True, highlight=False)


def announce_work(work: "Work", request: Request, console: Console) -> None:
    """Say what is to be done and how long it will take."""
    jobs, planned = work.left(), work.planned()
    expected = sum(job.seconds for job in jobs) / min(request.jobs, max(len(jobs), 1))
    done = planned - len(jobs)
    already = f" ({done} of {planned} are done already)" if done else ""
    processes = f"{request.jobs} process{'es' if request.jobs > 1 else ''}"
    print_line(
        console,
        f"{request.mode} mode: {len(jobs)} runs{already} on {processes}, about {format_duration(expected)}; results "
        f"go to "
        f"{request.out}",
    )


def claims_table(found: Sequence[Findings]) -> Table:
    """Give the table that opens the report, for the terminal."""
    table = Table(show_lines=True, title="The paper says, we measured", caption=Text(BRACKETS_NOTE, style="dim"))
    for heading, share in (("", 1), ("the paper says", 4), ("we measured", 5), ("verdict", 2)):
        table.add_column(heading, ratio=share)
    for findings in found:
        for claim in findings.claims:
            table.add_row(findings.experiment, *_format_cells(claim))
    return table


def _format_cells(claim: Claim) -> tuple[Text, Text, Text]:
    mark, color = VERDICT_MARKS[claim.verdict]
    said = Text("beyond the paper: ", style="dim") if claim.beyond else Text()
    measured = Text(claim.measured) + Text(f"\n{claim.settings}", style="dim")
    return said + Text(claim.paper, style="default"), measured, Text(f"{mark} {claim.verdict}", style=color)


def tell_failures(failures: Sequence[Failure], console: Console) -> None:
    """Name the runs that raised, those with the same error in one line, and a file that tells how."""
    alike: dict[tuple[str, str], list[Failure]] = {}
    for failure in failures:
        alike.setdefault((failure.job.experiment, failure.message), []).append(failure)
    for (experiment, message), group in alike.items():
        what = ", ".join(f"{name} {value}" for name, value in group[0].job.config.items())
        runs = f"{len(group)} runs, the first" if len(group) > 1 else "the run"
        print_line(console, f"failed: {experiment}, {runs} with {what}: {message}; see {group[0].path}", "red")


def format_duration(seconds: float) -> str:
    """Say a time as a person would.

    Examples
    --------
    >>> format_duration(42), format_duration(600), format_duration(9000)
    ('42 s', '10 min', '2.5 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
