"""Findings: what an experiment has to show, apart from how it is shown."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BRACKETS_NOTE = "Brackets hold 95 % intervals, [?] where there are too few runs for one."
Verdict = Literal["holds", "holds in part", "does not hold", "too few runs", "measured"]


@dataclass(frozen=True)
class Claim:
    """A row of the table: what the paper says, what was measured, and what follows.

    Attributes
    ----------
    paper
        What the paper says, in a sentence; or what is asked of varmix where the paper is silent.
    measured
        What came out, with its interval.
    verdict
        Whether it holds; "measured" where nothing was claimed, "too few runs" where a quick run cannot tell.
    settings
        Seeds and settings behind the number.
    beyond
        Whether the paper makes no such claim, so that the first column is ours.
    """

    paper: str
    measured: str
    verdict: Verdict
    settings: str
    beyond: bool = False


@dataclass(frozen=True)
class Picture:
    """A figure: a file name, two sentences for the reader, a description for those who cannot see it."""

    name: str
    caption: str
    description: str
    plot: Callable[[], "Figure"]


@dataclass(frozen=True)
class Evolution:
    """Lines over time, one per arm, to be looked at closely: the weights of a mixture, usually."""

    name: str
    title: str
    x_label: str
    y_label: str
    x: Sequence[float]
    arms: Mapping[str, Sequence[float]]


@dataclass(frozen=True)
class Findings:
    """All that one experiment has to show."""

    experiment: str
    title: str
    claims: Sequence[Claim]
    pictures: Sequence[Picture] = ()
    evolutions: Sequence[Evolution] = ()
    notes: Sequence[str] = ()
