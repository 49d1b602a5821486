"""The table a reader looks for first: what the paper says, what we measured, and the verdict."""

from collections import Counter
from collections.abc import Sequence
from typing import get_args

from lab.reproduce.findings import Claim
from lab.reproduce.findings import Findings
from lab.reproduce.findings import Verdict
from lab.report.markup import prose
from lab.report.markup import slug
from lab.report.markup import text

# A shape for each verdict, so that none is told by its colour alone.
ICONS: dict[Verdict, str] = {
    "holds": '<path d="M2 6.5 5 9.5 10 3"/>',
    "holds in part": '<circle cx="6" cy="6" r="4.2"/><path d="M6 1.8v8.4a4.2 4.2 0 0 1 0-8.4z" fill="currentColor"/>',
    "does not hold": '<path d="M2.5 2.5l7 7m0-7l-7 7"/>',
    "too few runs": '<path d="M2 6h.01M6 6h.01M10 6h.01" stroke-width="2.4"/>',
    "measured": '<path d="M2 10V6M6 10V2M10 10V4.5"/>',
}
COUNTED: dict[Verdict, tuple[str, str]] = {
    "holds": ("holds", "hold"),
    "holds in part": ("holds in part", "hold in part"),
    "does not hold": ("does not hold", "do not hold"),
    "too few runs": ("has too few runs to tell", "have too few runs to tell"),
    "measured": ("is a measurement without a claim", "are measurements without a claim"),
}


def table(findings: Sequence[Findings]) -> str:
    """Give the table, grouped by experiment; on a narrow screen its rows become cards."""
    groups = "".join(_group(found) for found in findings if found.claims)
    if not groups:
        return '<p class="aside">No experiment of this run examined a claim.</p>'
    # The roles repeat what the elements are: browsers forget it when the rows are laid out as cards.
    return (
        '<table class="claims" role="table"><thead role="rowgroup"><tr role="row">'
        '<th scope="col" role="columnheader">The paper says</th><th scope="col" role="columnheader">We measured</th>'
        f'<th scope="col" role="columnheader">Verdict</th></tr></thead>{groups}</table>'
    )


def summary(findings: Sequence[Findings]) -> str:
    """Count the verdicts in one sentence.

    Examples
    --------
    >>> row = Claim("a", "b", "holds", "c")
    >>> summary([Findings("x", "X", [row, row, Claim("a", "b", "too few runs", "c")])])
    "Of the table's 3 rows, 2 hold and 1 has too few runs to tell."
    """
    verdicts = Counter(claim.verdict for found in findings for claim in found.claims)
    parts = [f"{verdicts[v]} {COUNTED[v][verdicts[v] > 1]}" for v in get_args(Verdict) if verdicts[v]]
    if not parts:
        return ""
    counted = f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else parts[0]
    total = verdicts.total()
    return f"Of the table's {total} rows, {counted}." if total > 1 else f"The table's one row {counted[2:]}."


def anchor(found: Findings) -> str:
    """Give the id of an experiment's section, which no other id on the page can be."""
    return f"experiment-{slug(found.experiment)}"


def badge(verdict: Verdict) -> str:
    """Give the verdict in words, with its sign before it."""
    return (
        f'<span class="badge {slug(verdict)}"><svg viewBox="0 0 12 12" aria-hidden="true">{ICONS[verdict]}</svg>'
        f"{text(verdict)}</span>"
    )


def _group(found: Findings) -> str:
    return (
        '<tbody role="rowgroup"><tr class="group" role="row"><th colspan="3" scope="rowgroup" role="rowheader">'
        f'<a href="#{anchor(found)}">{text(found.title)}</a></th></tr>'
        f"{''.join(map(_row, found.claims))}</tbody>"
    )


def _row(claim: Claim) -> str:
    beyond = '<span class="beyond">beyond the paper</span>' if claim.beyond else ""
    return (
        f'<tr role="row"><td role="cell" data-label="{"We ask" if claim.beyond else "The paper says"}">'
        f"<div>{beyond}{prose(claim.paper)}</div></td>"
        f'<td role="cell" data-label="We measured"><div>{prose(claim.measured)}'
        f'<span class="settings">{prose(claim.settings)}</span></div></td>'
        f'<td role="cell" data-label="Verdict"><div>{badge(claim.verdict)}</div></td></tr>'
    )
