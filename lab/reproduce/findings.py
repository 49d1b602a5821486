"""Findings of an experiment: claims, figures and notes, independent of how they are displayed."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from varmix.meter import Interval

BRACKETS_NOTE = "Brackets are 95 % intervals; [?] means too few runs for an interval."
Verdict = Literal["holds", "holds in part", "does not hold", "too few runs", "measured"]
JUDGED_VERDICTS: tuple[Verdict, ...] = ("holds", "holds in part", "does not hold")


MAX_NAME_LENGTH = 36  # characters; with number and verdict it fits into 80 columns
MAX_NUMBER_LENGTH = 26
MAX_CELL_WORDS = 20


@dataclass(frozen=True)
class Details:
    """A small table with the numbers behind a claim; readers unfold it. Every row has one cell per column."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    def __post_init__(self) -> None:
        for row in (self.columns, *self.rows):
            if len(row) != len(self.columns):
                raise ValueError(
                    f"A row of details has {len(row)} cells for {len(self.columns)} columns. Pass one cell per column."
                )
            for cell in row:
                check_words(cell)


@dataclass(frozen=True)
class Claim:
    """A claim of the paper or of varmix, the number that decides it, and the verdict.

    Texts that are too long raise `ValueError`, so that every claim fits into a line of 80 columns.

    Parameters
    ----------
    name : str
        Name of the claim in a summary; at most 36 characters.
    said : str
        Statement of the paper, or of varmix if the paper makes none; at most 20 words.
    number : str
        Number that decides, with its interval, such as "4.7x [4.0, 5.9] sooner"; at most 26 characters.
    verdict : {"holds", "holds in part", "does not hold", "too few runs", "measured"}
        Whether the claim holds. "measured": there is no claim. "too few runs": these runs cannot decide.
    settings : str
        Seeds and settings behind the number; at most 20 words.
    beyond : bool, default False
        Whether the claim is ours and not the paper's.
    details : Details, optional
        Table of further numbers, by data set or by arm. Default: none.
    note : str, default ""
        One or two sentences on the limits of the number.
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
    """Raise `ValueError` if a text has more than 20 words."""
    if len(text.split()) > MAX_CELL_WORDS:
        raise ValueError(f"A text of a claim has at most {MAX_CELL_WORDS} words, got {len(text.split())}: {text!r}.")


def format_number(interval: "Interval", form: str = "{value} {bounds}") -> str:
    """Format an interval as the number of a claim, with up to three digits, fewer if space is short.

    Parameters
    ----------
    interval : Interval
        Value and bounds. Bounds that are not finite are written as "[?]".
    form : str, default "{value} {bounds}"
        Format with the places of value and bounds. It is ignored if it is too long even with one digit.

    Returns
    -------
    str
        At most 26 characters.

    Examples
    --------
    >>> from varmix.meter import Interval
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
    """A figure: file name, caption of one or two sentences, and description for readers who cannot see it."""

    name: str
    caption: str
    description: str
    plot: Callable[[], "Figure"]


@dataclass(frozen=True)
class Evolution:
    """An interactive plot of lines over time, one per arm; usually the weights of a mixture."""

    name: str
    title: str
    x_label: str
    y_label: str
    x: Sequence[float]
    arms: Mapping[str, Sequence[float]]


@dataclass(frozen=True)
class Findings:
    """All findings of one experiment."""

    experiment: str
    title: str
    claims: Sequence[Claim]
    pictures: Sequence[Picture] = ()
    evolutions: Sequence[Evolution] = ()
    notes: Sequence[str] = ()


def combine_verdicts(verdicts: Sequence[Verdict]) -> Verdict:
    """Return the verdict of a claim about several cases, such as data sets, from the verdict of each case.

    If all cases have the same verdict, it is returned. Otherwise the claim holds in part if it holds, at least in part,
    in some case, and there are too few runs if it holds in none.

    Examples
    --------
    >>> combine_verdicts(["holds", "holds"]), combine_verdicts(["holds", "too few runs", "does not hold"])
    ('holds', 'holds in part')
    >>> combine_verdicts(["does not hold", "too few runs"])
    'too few runs'
    """
    if not verdicts:
        raise ValueError("There are no verdicts to combine. Leave the claim out if there are no runs.")
    if len(set(verdicts)) == 1:
        return verdicts[0]
    return "holds in part" if {"holds", "holds in part"} & set(verdicts) else "too few runs"
