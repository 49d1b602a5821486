"""Experiment: independent runs, and the findings from all of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from lab.reproduce.findings import Findings
from lab.reproduce.records import Config, Record, Result

Mode: TypeAlias = Literal["quick", "full"]


@dataclass(frozen=True)
class Experiment:
    """Everything that `python -m lab reproduce` needs from an experiment.

    Parameters
    ----------
    name : str
        Name on the command line.
    plan : callable
        From a mode to the configurations of its runs. A configuration is a small dictionary of plain values, including
        the seed, that determines one run.
    run : callable
        From a configuration to the result: plain values, None for a missing number. Runs in its own process.
    seconds : callable
        From a configuration to the approximate duration on one core, for the estimate before the start.
    findings : callable
        From the records of finished runs, all or some, to the findings.
    then : callable, optional
        From a mode and the records of planned runs to further configurations that depend on them, such as runs with a
        step size chosen on other seeds. Without records it returns a guess, for the estimate before the start.
        Default: no further runs.
    facts : callable, optional
        From the records of full runs to numbers by name, as JSON values, which other pages quote. Default: none.
    """

    name: str
    plan: Callable[[Mode], list[Config]]
    run: Callable[[Config], Result]
    seconds: Callable[[Config], float]
    findings: Callable[[Sequence[Record]], Findings]
    then: Callable[[Mode, Sequence[Record]], list[Config]] = lambda mode, records: []
    facts: Callable[[Sequence[Record]], Mapping[str, Any]] = lambda records: {}
