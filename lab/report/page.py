"""The pages of a run: the paper beside what was measured, then every experiment, then how it was run."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path

from lab.reproduce.findings import BRACKETS
from lab.reproduce.findings import Findings
from lab.reproduce.findings import Picture
from lab.report import benchmarks as tables
from lab.report import page__claims as claims
from lab.report import evolutions
from lab.report import page__figures as figures
from lab.report.document import document
from lab.report.markup import prose
from lab.report.markup import text
from varmix._core.checkpoint__files import replacing

PAPER = "Online Variance Reduction with Mixtures"


def write(
    out: Path,
    findings: Sequence[Findings],
    facts: Mapping[str, str],
    skipped: Sequence[str],
    benchmarks: Mapping[str, object] | None = None,
) -> Path:
    """Write `out/report/index.html` and give its path; each page is one file that needs no network.

    Parameters
    ----------
    out
        The folder of the run; its folder `report` is made when missing.
    findings
        What each experiment has to show, in the order of the page.
    facts
        How the run was made: mode, command, seeds, versions, machine, time.
    skipped
        A line for each experiment that could not run, with the command that would let it.
    benchmarks
        Title to nested results, as in `benchmarks/results`; written to `benchmarks.html` and linked.
    """
    # Everything is drawn before anything is written, so that an error leaves the last report as it was.
    first = index(findings, facts, skipped, linked=benchmarks is not None)
    second = None if benchmarks is None else tables.page(benchmarks)
    folder = Path(out) / "report"
    folder.mkdir(parents=True, exist_ok=True)
    if second is not None:
        _replace(folder / "benchmarks.html", second)
    return _replace(folder / "index.html", first)


def index(findings: Sequence[Findings], facts: Mapping[str, str], skipped: Sequence[str], linked: bool = False) -> str:
    """Give the first page; `linked` says whether there is a page of benchmarks to point to."""
    if len({claims.anchor(found) for found in findings}) < len(findings):
        names = [found.experiment for found in findings]
        raise ValueError(f"Findings must be of different experiments, got {names}. Merge those of the same name.")
    numbers = count(1)
    sections = "".join(_section(found, numbers) for found in findings)
    contents = {"#claims": "The paper and this run"}
    contents |= {f"#{claims.anchor(found)}": found.title for found in findings}
    contents |= {"#not-run": "Not run"} if skipped else {}
    contents |= {"#facts": "How it was run"}
    contents |= {"benchmarks.html": "Benchmarks"} if linked else {}
    lead = f"What <cite>{PAPER}</cite> (ICML 2019) says, beside what came out when varmix ran it. "
    body = (
        f'<section id="claims" aria-label="The paper and this run">{claims.table(findings)}</section>'
        f"{sections}{_not_run(skipped)}{_facts(facts)}"
    )
    lead += f"{claims.summary(findings)} {BRACKETS}" if any(found.claims for found in findings) else ""
    return document("The paper, run again", lead, contents, body, scripts=("plot.js",))


def _section(found: Findings, numbers: Iterator[int]) -> str:
    parts = [_figure(picture, f"figure-{next(numbers)}") for picture in found.pictures]
    parts += [evolutions.embed(evolution, f"plot-{next(numbers)}") for evolution in found.evolutions]
    parts += [f'<p class="note">{prose(note)}</p>' for note in found.notes]
    return f'<section id="{claims.anchor(found)}"><h2>{text(found.title)}</h2>{"".join(parts)}</section>'


def _figure(picture: Picture, name: str) -> str:
    drawn = figures.embed(picture, f"{name}-")
    return (
        f'<figure id="{name}"><div class="card" tabindex="0" role="region" aria-label="Figure">{drawn}</div>'
        f"<figcaption>{prose(picture.caption)}</figcaption></figure>"
    )


def _not_run(skipped: Sequence[str]) -> str:
    if not skipped:
        return ""
    items = "".join(f"<li>{prose(line)}</li>" for line in skipped)
    return f'<section id="not-run"><h2>Not run</h2><ul class="skipped">{items}</ul></section>'


def _facts(facts: Mapping[str, str]) -> str:
    rows = "".join(f"<div><dt>{text(name)}</dt><dd>{prose(value)}</dd></div>" for name, value in facts.items())
    return f'<section id="facts"><h2>How it was run</h2><dl class="facts">{rows}</dl></section>'


def _replace(path: Path, page: str) -> Path:
    with replacing(path) as file:
        file.write(page.encode())
    return path
