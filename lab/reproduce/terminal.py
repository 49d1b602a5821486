"""Terminal output of `python -m lab reproduce`, in lines of at most 80 columns."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

import varmix
from lab.reproduce.findings import JUDGED_VERDICTS, Findings
from lab.reproduce.runner import Failure

if TYPE_CHECKING:
    from lab.reproduce.work import Request, Work

VERDICT_MARKS = {
    "holds": ("✓", "green"),
    "holds in part": ("◐", "yellow"),
    "does not hold": ("✗", "red"),
}
MAX_COLUMNS, LONGEST_VERDICT = 80, len("x does not hold")
START_SECONDS, COMPILE_SECONDS = 6.0, 25.0  # start of the workers; compilation of all kernels


def print_line(console: Console, line: str, style: str = "") -> None:
    """Print a line without markup or wrapping: paths may contain brackets, and users copy them."""
    console.print(Text(line, style=style), soft_wrap=True, highlight=False)


def announce_work(work: "Work", request: "Request", console: Console) -> None:
    """Print the number of runs and about how long they take, including compilation."""
    left, planned = len(work.left()), work.planned()
    already = f" ({planned - left} of {planned} are done)" if left < planned else ""
    processes = f"{request.jobs} process{'es' if request.jobs > 1 else ''}"
    expected = work.seconds() + (_guess_start() if left else 0.0)
    line = f"{request.mode} mode: {left} runs{already} on {processes}, about {format_duration(expected)}"
    print_line(console, line)


def _guess_start() -> float:
    """Return about how many seconds pass before the first run starts; kernels may have to be compiled."""
    folder = os.environ.get("NUMBA_CACHE_DIR")
    places = Path(folder) if folder else Path(varmix.__file__).parent
    compiled = next(places.rglob("*.nbc"), None) is not None
    return START_SECONDS + (0.0 if compiled else COMPILE_SECONDS)


def print_claims(found: Sequence[Findings], console: Console) -> None:
    """Print one line per judged claim: name, number, verdict."""
    judged = [claim for findings in found for claim in findings.claims if claim.verdict in JUDGED_VERDICTS]
    if not judged:
        print_line(console, "There are too few runs to judge any claim.")
        return
    name, number = (max(len(getattr(claim, part)) for claim in judged) for part in ("name", "number"))
    gap = "  " if name + number + len("  ") * 2 + LONGEST_VERDICT <= MAX_COLUMNS else " "
    for claim in judged:
        mark, color = VERDICT_MARKS[claim.verdict]
        line = Text(f"{claim.name:<{name}}{gap}{claim.number:<{number}}{gap}")
        console.print(line + Text(f"{mark} {claim.verdict}", style=color), soft_wrap=True, highlight=False)


def print_failures(failures: Sequence[Failure], console: Console) -> None:
    """Print the runs that failed, one line per error, with a file that has the traceback."""
    alike: dict[tuple[str, str], list[Failure]] = {}
    for failure in failures:
        alike.setdefault((failure.job.experiment, failure.message), []).append(failure)
    for (experiment, message), group in alike.items():
        what = ", ".join(f"{name} {value}" for name, value in group[0].job.config.items())
        runs = f"{len(group)} runs, the first" if len(group) > 1 else "the run"
        print_line(console, f"Failed: {experiment}, {runs} with {what}: {message}; see {group[0].path}", "red")


def format_duration(seconds: float) -> str:
    """Return a duration in seconds, minutes or hours.

    Examples
    --------
    >>> format_duration(42), format_duration(600), format_duration(9000)
    ('42 s', '10 min', '2.5 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
