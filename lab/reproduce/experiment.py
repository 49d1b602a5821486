"""Experiment: independent runs, and what they show together."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from lab.reproduce.findings import Findings
from lab.reproduce.records import Config, Record, Result

Mode: TypeAlias = Literal["quick", "full"]


@dataclass(frozen=True)
class Experiment:
    """What the command `python -m lab reproduce` needs to know about an experiment.

    Attributes
    ----------
    name
        The word on the command line.
    plan
        All runs of a mode, as configurations: small dictionaries of plain values, seed included, that determine a run.
    run
        One run, in a process of its own; gives plain values (None where there is no number).
    seconds
        About how long a run takes on one core, to tell before it starts.
    findings
        What the finished runs show, be they all or some.
    then
        The runs that depend on what came out of the planned ones, such as a step size that was chosen on other seeds;
        without records it assumes something, so that their number and time can be told in advance.
    facts
        Numbers for pages that are made from full runs, by name, as JSON holds them.
    """

    name: str
    plan: Callable[[Mode], list[Config]]
    run: Callable[[Config], Result]
    seconds: Callable[[Config], float]
    findings: Callable[[Sequence[Record]], Findings]
    then: Callable[[Mode, Sequence[Record]], list[Config]] = lambda mode, records: []
    facts: Callable[[Sequence[Record]], Mapping[str, Any]] = lambda records: {}
