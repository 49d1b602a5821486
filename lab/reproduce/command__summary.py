"""Summary: the table of a run as Markdown, to be kept beside the code."""

from collections.abc import Mapping, Sequence

from lab.reproduce.findings import Claim
from lab.reproduce.findings import Findings


def markdown(found: Sequence[Findings], facts: Mapping[str, str]) -> str:
    """Give the claims of all experiments, one table each, and how they were measured.

    Examples
    --------
    >>> claim = Claim("It works.", "It does, 2 [1, 3] times.", "holds", "40 seeds")
    >>> print(markdown([Findings("demo", "A demonstration", [claim])], {"command": "varmix reproduce demo"}))
    ## A demonstration
    <BLANKLINE>
    | the paper says | we measured | verdict |
    |---|---|---|
    | It works. | It does, 2 [1, 3] times. (40 seeds) | holds |
    <BLANKLINE>
    Made with: command varmix reproduce demo
    <BLANKLINE>
    """
    parts = [_section(findings) for findings in found]
    made = ", ".join(f"{name} {value}" for name, value in facts.items())
    return "".join(f"{part}\n" for part in parts) + f"Made with: {made}\n"


def _section(findings: Findings) -> str:
    rows = "".join(_row(claim) for claim in findings.claims)
    return f"## {findings.title}\n\n| the paper says | we measured | verdict |\n|---|---|---|\n{rows}"


def _row(claim: Claim) -> str:
    said = f"*Beyond the paper:* {claim.paper}" if claim.beyond else claim.paper
    cells = (said, f"{claim.measured} ({claim.settings})", claim.verdict)
    return "| " + " | ".join(cell.replace("|", "/").replace("\n", " ") for cell in cells) + " |\n"
