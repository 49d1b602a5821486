"""Work: the request of a user, and the runs that it needs."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from lab.commands import find_program
from lab.reproduce.catalogue import find_entry, import_experiment, list_experiments
from lab.reproduce.experiment import Mode
from lab.reproduce.records import Config, Record, Records
from lab.reproduce.runner import Failure, Job, list_versions, perform_jobs
from lab.reproduce.terminal import print_line


@dataclass(frozen=True)
class Request:
    """Arguments of the command `reproduce`. No experiments means all that can run here.

    Examples
    --------
    >>> Request(("blobs",), "quick", 2, Path("my results"), False).command()
    "python -m lab reproduce blobs --quick --jobs 2 --out 'my results'"
    """

    experiments: tuple[str, ...]
    mode: Mode
    jobs: int
    out: Path
    resume: bool

    def command(self, program: str = "python -m lab") -> str:
        """Return the command line for this request, quoted for a shell."""
        parts = [*program.split(), "reproduce", *self.experiments, f"--{self.mode}", "--jobs", str(self.jobs)]
        return shlex.join([*parts, "--out", str(self.out)])

    def again(self) -> str:
        """Return a sentence with the command that continues."""
        return f"Continue with: {self.command(find_program())} --resume"


class Work:
    """The runs of a request: planned, finished and missing ones. Makes the missing runs."""

    def __init__(self, request: Request, chosen: Sequence[str]) -> None:
        self._request = request
        self.records = Records(request.out / "records")
        self.plans = {name: import_experiment(name).plan(request.mode) for name in chosen}

    def runs(self, name: str) -> list[Config]:
        """Return the planned runs of an experiment, and the runs that depend on their results so far."""
        chosen = import_experiment(name)
        plan = self.plans[name] if name in self.plans else chosen.plan(self._request.mode)
        return [*plan, *chosen.then(self._request.mode, self.records.read(name, plan))]

    def planned(self) -> int:
        """Return the number of all runs."""
        return sum(len(self.runs(name)) for name in self.plans)

    def finished(self, name: str) -> list[Record]:
        """Return the records of an experiment's finished runs."""
        return self.records.read(name, self.runs(name))

    def left(self) -> list[Job]:
        """Return all runs that are missing."""
        return self._missing({name: self.runs(name) for name in self.plans})

    def seconds(self) -> float:
        """Return roughly how many seconds the missing runs take on the requested number of processes."""
        jobs = self.left()
        return sum(job.seconds for job in jobs) / min(self._request.jobs, max(len(jobs), 1))

    def perform(self, console: Console) -> list[Failure]:
        """Make the planned runs, then those that depend on them."""
        failures = self._perform(self.plans, console)
        # If no planned run succeeded, the runs that depend on them are unknown: `then` would only guess.
        known = [name for name, plan in self.plans.items() if not plan or self.records.read(name, plan)]
        return failures + self._perform({name: self.runs(name) for name in known}, console, failures)

    def _perform(
        self, plans: Mapping[str, Sequence[Config]], console: Console, failures: Sequence[Failure] = ()
    ) -> list[Failure]:
        failed = [failure.job for failure in failures]
        jobs = [job for job in self._missing(plans) if job not in failed]
        self.print_damaged(console)
        return perform_jobs(jobs, self._request.out, self._request.jobs, console) if jobs else []

    def _missing(self, plans: Mapping[str, Sequence[Config]]) -> list[Job]:
        return [
            Job(name, config, import_experiment(name).seconds(config))
            for name, plan in plans.items()
            for config in plan
            if not self.records.has(name, config)
        ]

    def shown(self) -> list[str]:
        """Return the experiments to report: the chosen ones, and those with records of earlier calls."""
        return [name for name in list_experiments() if name in self.plans or self._has_records(name)]

    def _has_records(self, name: str) -> bool:
        return find_entry(name).lacking is None and any((self.records.folder / name).glob("*.json"))

    def print_damaged(self, console: Console) -> None:
        """Print the damaged records that were renamed."""
        for path in self.records.damaged:
            print_line(console, f"Damaged record renamed to {path}; its run counts as missing.", "yellow")
        self.records.damaged.clear()

    def remarks(self) -> list[str]:
        """Return a line about records of another version of varmix, if there are any."""
        mine = list_versions().get("varmix")
        made = [r.versions.get("varmix") for name in self.shown() for r in self.finished(name)]
        others = sorted({str(version) for version in made if version != mine})
        if not others:
            return []
        count = sum(version != mine for version in made)
        return [f"{count} runs are from varmix {', '.join(others)}, not {mine}. Without --resume, they are repeated."]

    def saved(self) -> str:
        """Return a sentence with the number of saved runs."""
        there = sum(len(self.finished(name)) for name in self.plans)
        return f"{there} of {self.planned()} runs are saved."
