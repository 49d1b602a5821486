"""The main page of the report: figures, claims, and the evolution of mixtures."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, get_args
from xml.etree import ElementTree

from lab.commands import format_install
from lab.files import atomic_write
from lab.report import benchmarks as tables
from lab.report import evolutions
from lab.report.markup import escape_prose, escape_text, make_slug, render_document
from lab.reproduce.findings import BRACKETS_NOTE, Claim, Findings, Picture, Verdict

# Every verdict has its own shape, for readers who cannot distinguish the colours.
ICONS: dict[Verdict, str] = {
    "holds": '<path d="M2 6.5 5 9.5 10 3"/>',
    "holds in part": '<circle cx="6" cy="6" r="4.2"/><path d="M6 1.8v8.4a4.2 4.2 0 0 1 0-8.4z" fill="currentColor"/>',
    "does not hold": '<path d="M2.5 2.5l7 7m0-7l-7 7"/>',
    "too few runs": '<path d="M2 6h.01M6 6h.01M10 6h.01" stroke-width="2.4"/>',
    "measured": '<path d="M2 10V6M6 10V2M10 10V4.5"/>',
}
COUNTED_FORMS: dict[Verdict, tuple[str, str]] = {
    "holds": ("holds", "hold"),
    "holds in part": ("holds in part", "hold in part"),
    "does not hold": ("does not hold", "do not hold"),
    "too few runs": ("has too few runs to tell", "have too few runs to tell"),
    "measured": ("is a measurement without a claim", "are measurements without a claim"),
}


def summarise_claims(findings: Sequence[Findings]) -> str:
    """Count the verdicts in one sentence.

    Examples
    --------
    >>> row = Claim("a", "b", "1x", "holds", "c")
    >>> summarise_claims([Findings("x", "X", [row, row, Claim("a", "b", "1x", "too few runs", "c")])])
    'Of 3 findings, 2 hold and 1 has too few runs to tell.'
    """
    verdicts = Counter(claim.verdict for found in findings for claim in found.claims)
    parts = [f"{verdicts[v]} {COUNTED_FORMS[v][verdicts[v] > 1]}" for v in get_args(Verdict) if verdicts[v]]
    if not parts:
        return ""
    counted = f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else parts[0]
    total = verdicts.total()
    return f"Of {total} findings, {counted}." if total > 1 else f"The one finding {counted[2:]}."


def make_anchor(found: Findings) -> str:
    """Return the id of an experiment's section; no other element has an id with this prefix."""
    return f"experiment-{make_slug(found.experiment)}"


def render_badge(verdict: Verdict) -> str:
    """Return the verdict with its icon."""
    return (
        f'<span class="badge {make_slug(verdict)}"><svg viewBox="0 0 12 12" aria-hidden="true">{ICONS[verdict]}</svg>'
        f"{escape_text(verdict)}</span>"
    )


def _render_claims(claims: Sequence[Claim]) -> str:
    """Return a table of claims; on a narrow screen page.css shows its rows as cards."""
    if not claims:
        return ""
    # Browsers drop the roles of table elements when page.css lays them out as cards, so they are repeated.
    return (
        '<table class="claims" role="table"><thead role="rowgroup"><tr role="row">'
        '<th scope="col" role="columnheader">Claim</th><th scope="col" role="columnheader">Number</th>'
        '<th scope="col" role="columnheader">Verdict</th></tr></thead>'
        f'<tbody role="rowgroup">{"".join(map(_render_row, claims))}</tbody></table>'
    )


def _render_row(claim: Claim) -> str:
    source = "Beyond the paper" if claim.beyond else "The paper"
    return (
        f'<tr role="row"><td role="cell"><div><span class="title">{escape_prose(claim.name)}</span>'
        f'<span class="said"><span class="{"beyond" if claim.beyond else "source"}">{source}</span> '
        f'{escape_prose(claim.said)}</span><span class="settings">{escape_prose(claim.settings)}</span>'
        f"{_render_details(claim)}</div></td>"
        f'<td role="cell" class="figure"><div>{escape_prose(claim.number)}</div></td>'
        f'<td role="cell"><div>{render_badge(claim.verdict)}</div></td></tr>'
    )


def _render_details(claim: Claim) -> str:
    """Return the folded details of a claim: its note and its table."""
    parts = [f"<p>{escape_prose(claim.note)}</p>"] if claim.note else []
    if claim.details is not None:
        head = "".join(f'<th scope="col">{escape_text(column)}</th>' for column in claim.details.columns)
        rows = "".join(_render_cells(row) for row in claim.details.rows)
        parts.append(
            '<div class="wide" tabindex="0" role="region" aria-label="Table">'
            f'<table class="numbers"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
        )
    return f"<details><summary>Details</summary>{''.join(parts)}</details>" if parts else ""


def _render_cells(row: Sequence[str]) -> str:
    first, *others = row
    cells = "".join(f"<td>{escape_text(cell)}</td>" for cell in others)
    return f'<tr><th scope="row">{escape_text(first)}</th>{cells}</tr>'


if TYPE_CHECKING:
    from matplotlib.figure import Figure

MIN_PIXELS_PER_UNIT = 0.85  # smallest size of a figure, in pixels per unit of its SVG
URL_REFERENCE = re.compile(r"url\(#([^)]+)\)")


def embed_picture(picture: Picture, prefix: str) -> str:
    """Draw a picture and return its SVG, with its description as a label and `prefix` before all ids."""
    root = ElementTree.fromstring(draw_svg(_draw_picture(picture)))
    _strip_namespaces(root)
    _strip_style(root)
    _prefix_ids(root, prefix)
    root.set("role", "img")
    # On a narrow screen the figure scrolls instead of shrinking below this width: its letters are nine units high.
    root.set("style", f"--least: {MIN_PIXELS_PER_UNIT * float(root.get('viewBox', '0 0 500 0').split()[2]):.0f}px")
    root.set("aria-label", picture.description)
    return ElementTree.tostring(root, encoding="unicode")


def _draw_picture(picture: Picture) -> "Figure":
    try:
        from lab.plots import render_picture
    except ImportError:
        raise ImportError(
            f"The figures of the report need matplotlib. Install it with: {format_install('lab')}"
        ) from None
    return render_picture(picture)


def draw_svg(figure: "Figure") -> str:
    """Return a figure as SVG with letters as outlines, so that formulas do not depend on the reader's fonts."""
    from matplotlib import rc_context

    written = BytesIO()
    # A fixed salt and no date: equal findings give equal pages, byte for byte.
    with rc_context({"svg.fonttype": "path", "svg.hashsalt": "varmix"}):
        figure.savefig(written, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return written.getvalue().decode()


def _strip_namespaces(root: ElementTree.Element) -> None:
    # HTML needs no namespaces for SVG, and they are the only URLs in the file.
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        for name in [name for name in element.attrib if name.startswith("{")]:
            element.set(name.rpartition("}")[2], element.attrib.pop(name))


def _strip_style(root: ElementTree.Element) -> None:
    # The selector `*` in Matplotlib's style sheet would apply to the whole page; page.css has these rules for figures.
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in ("style", "metadata"):
                parent.remove(child)
    root.attrib.pop("version", None)


def _prefix_ids(root: ElementTree.Element, prefix: str) -> None:
    for element in root.iter():
        for name, value in element.attrib.items():
            if name == "id":
                element.set(name, prefix + value)
            elif name == "href" and value.startswith("#"):
                element.set(name, f"#{prefix}{value[1:]}")
            else:
                element.set(name, URL_REFERENCE.sub(rf"url(#{prefix}\1)", value))


PAPER_TITLE = "Online Variance Reduction with Mixtures"


def write(
    out: Path,
    findings: Sequence[Findings],
    facts: Mapping[str, str],
    skipped: Sequence[str],
    benchmarks: Mapping[str, object] | None = None,
) -> Path:
    """Write `out/report/index.html` and return its path. Each page is one file that needs no network.

    Parameters
    ----------
    out : pathlib.Path
        Folder of the run. Its folder `report` is created if it is missing.
    findings : sequence of Findings
        Findings of each experiment, in the order of the page.
    facts : mapping of str to str
        How the run was made: command, time, machine, versions.
    skipped : sequence of str
        One line per experiment that could not run, with the command that installs what is missing.
    benchmarks : mapping of str to object, optional
        Nested results by title, as in `lab/results`. They are written to `benchmarks.html` and linked. Default: none.

    Returns
    -------
    pathlib.Path
        The file `index.html`.
    """
    # Both pages are rendered before one is written, so that an error leaves the previous report unchanged.
    first = render_index(findings, facts, skipped, linked=benchmarks is not None)
    second = None if benchmarks is None else tables.render_page(benchmarks)
    folder = Path(out) / "report"
    folder.mkdir(parents=True, exist_ok=True)
    if second is not None:
        _write_page(folder / "benchmarks.html", second)
    return _write_page(folder / "index.html", first)


def render_index(
    findings: Sequence[Findings], facts: Mapping[str, str], skipped: Sequence[str], linked: bool = False
) -> str:
    """Return the main page; it links to the page of benchmarks if `linked`."""
    if len({make_anchor(found) for found in findings}) < len(findings):
        names = [found.experiment for found in findings]
        raise ValueError(f"Findings must be of different experiments, got {names}. Merge those of the same name.")
    numbers = count(1)
    sections = "".join(_render_section(found, numbers) for found in findings)
    contents = {f"#{make_anchor(found)}": found.title for found in findings}
    contents |= {"#not-run": "Not run"} if skipped else {}
    contents |= {"#facts": "How it was run"}
    contents |= {"benchmarks.html": "Benchmarks"} if linked else {}
    lead = f"The claims of <cite>{PAPER_TITLE}</cite> (ICML 2019), and the results of varmix. "
    if any(found.claims for found in findings):
        lead += f"{summarise_claims(findings)} {BRACKETS_NOTE}"
    else:
        lead += "No experiment of this run tested a claim."
    body = f"{sections}{_not_run(skipped)}{_render_facts(facts)}"
    return render_document("Reproduction of the paper", lead, contents, body, scripts=("plot.js",))


def _render_section(found: Findings, numbers: Iterator[int]) -> str:
    """Return the figures of an experiment, its claims, and its protocol, folded."""
    parts = [_render_figure(picture, f"figure-{next(numbers)}") for picture in found.pictures]
    parts += [evolutions.embed_evolution(evolution, f"plot-{next(numbers)}") for evolution in found.evolutions]
    parts.append(_render_claims(found.claims))
    if found.notes:
        notes = "".join(f'<p class="note">{escape_prose(note)}</p>' for note in found.notes)
        parts.append(f"<details><summary>Protocol</summary>{notes}</details>")
    return f'<section id="{make_anchor(found)}"><h2>{escape_text(found.title)}</h2>{"".join(parts)}</section>'


def _render_figure(picture: Picture, name: str) -> str:
    drawn = embed_picture(picture, f"{name}-")
    return (
        f'<figure id="{name}"><div class="card" tabindex="0" role="region" aria-label="Figure">{drawn}</div>'
        f"<figcaption>{escape_prose(picture.caption)}</figcaption></figure>"
    )


def _not_run(skipped: Sequence[str]) -> str:
    if not skipped:
        return ""
    items = "".join(f"<li>{escape_prose(line)}</li>" for line in skipped)
    return f'<section id="not-run"><h2>Not run</h2><ul class="skipped">{items}</ul></section>'


def _render_facts(facts: Mapping[str, str]) -> str:
    rows = "".join(
        f"<div><dt>{escape_text(name)}</dt><dd>{escape_prose(value)}</dd></div>" for name, value in facts.items()
    )
    return f'<section id="facts"><h2>How it was run</h2><dl class="facts">{rows}</dl></section>'


def _write_page(path: Path, page: str) -> Path:
    with atomic_write(path) as file:
        file.write(page.encode())
    return path
