"""Findings: what an experiment has to show, apart from how it is shown."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from varmix.meter import Interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BRACKETS_NOTE = "Brackets hold 95 % intervals, [?] where there are too few runs for one."
Verdict = Literal["holds", "holds in part", "does not hold", "too few runs", "measured"]
JUDGED_VERDICTS: tuple[Verdict, ...] = ("holds", "holds in part", "does not hold")


MAX_NAME_LENGTH = 36  # characters: with number and verdict it fits a line of 80
MAX_NUMBER_LENGTH = 26
MAX_CELL_WORDS = 20


@dataclass(frozen=True)
class Details:
    """A small table behind a claim, shown where somebody opens it: headings, and rows of as many cells."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    def __post_init__(self) -> None:
        for row in (self.columns, *self.rows):
            if len(row) != len(self.columns):
                raise ValueError(f"A row of details has {len(row)} cells, and there are {len(self.columns)} columns.")
            for cell in row:
                check_words(cell)


@dataclass(frozen=True)
class Claim:
    """What the paper says or varmix promises, the one number that decides it, and the verdict.

    Whoever shows claims may rely on their lengths: a claim that is too long cannot be built.

    Parameters
    ----------
    name
        A few words that stand for the claim in a line of a summary; at most 36 characters.
    said
        What the paper says, in a sentence of at most 20 words; or what is asked of varmix where the paper is silent.
    number
        The number that decides, with its interval, such as "4.7x [4.0, 5.9] sooner"; at most 26 characters.
    verdict
        Whether it holds; "measured" where nothing was claimed, "too few runs" where these runs cannot tell.
    settings
        Seeds and settings behind the number; at most 20 words.
    beyond
        Whether the paper makes no such claim, so that the sentence is ours.  Default: False.
    details
        Further numbers: by data set, by arm.  Default: None.
    note
        What the number does not say, in a sentence or two.  Default: empty.
    """

    name: str
    said: str
    number: str
    verdict: Verdict
    settings: str
    beyond: bool = False
    details: Details | None = None
    note: str = ""

    def __post_init__(self) -> None:
        for field, longest in (("name", MAX_NAME_LENGTH), ("number", MAX_NUMBER_LENGTH)):
            text = getattr(self, field)
            if not 0 < len(text) <= longest:
                raise ValueError(f"The {field} of a claim needs 1 to {longest} characters, got {len(text)}: {text!r}.")
        check_words(self.said)
        check_words(self.settings)


def check_words(text: str) -> None:
    """Raise `ValueError` for a cell that nobody would read."""
    if len(text.split()) > MAX_CELL_WORDS:
        raise ValueError(f"A cell has at most {MAX_CELL_WORDS} words, got {len(text.split())}: {text!r}.")


def format_number(interval: Interval, form: str = "{value} {bounds}") -> str:
    """Write an interval as the number of a claim, with as many of three digits as there is room for.

    Parameters
    ----------
    interval
        The value and its bounds; a question mark stands for bounds that are not finite.
    form
        Where value and bounds go, and what stands around them.  It is dropped where even one digit leaves no room.
        Default: "{value} {bounds}".

    Returns
    -------
    str
        At most 26 characters.

    Examples
    --------
    >>> format_number(Interval(4.71, 4.0, 5.9), "{value}x {bounds} sooner")
    '4.71x [4, 5.9] sooner'
    >>> format_number(Interval(-0.0482, -0.204, 0.108), "{value} {bounds} points")
    '-0.048 [-0.2, 0.11] points'
    """
    for digits in (3, 2, 1):
        value, low, high = (f"{number:.{digits}g}" for number in interval)
        known = math.isfinite(interval.low) and math.isfinite(interval.high)
        bounds = f"[{low}, {high}]" if known else "[?]"
        text = form.format(value=value, bounds=bounds)
        if len(text) <= MAX_NUMBER_LENGTH:
            return text
    return f"{value} {bounds}"


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


def combine_verdicts(verdicts: Sequence[Verdict]) -> Verdict:
    """Return the verdict of a claim about several cases, such as data sets, from the verdict of each.

    What surely holds somewhere and not surely everywhere holds in part; otherwise cases that differ, one of which is
    open, decide nothing.

    Examples
    --------
    >>> combine_verdicts(["holds", "holds"]), combine_verdicts(["holds", "too few runs", "does not hold"])
    ('holds', 'holds in part')
    >>> combine_verdicts(["does not hold", "too few runs"])
    'too few runs'
    """
    if not verdicts:
        raise ValueError("A verdict is combined of at least one, got none. Leave the claim out where nothing was run.")
    if len(set(verdicts)) == 1:
        return verdicts[0]
    return "holds in part" if {"holds", "holds in part"} & set(verdicts) else "too few runs"
