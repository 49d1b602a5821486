"""Work: the runs of the chosen experiments, those that are planned and those that follow from them."""

from collections.abc import Mapping, Sequence

from rich.console import Console

from lab.reproduce.catalogue import find_entry, import_experiment, list_experiments
from lab.reproduce.records import Config, Record, Records
from lab.reproduce.request import Request
from lab.reproduce.runner import Failure, Job, list_versions, perform_jobs
from lab.reproduce.terminal import print_line


class Work:
    """What is to be done for a request, what of it is done, and the doing of it."""

    def __init__(self, request: Request, chosen: Sequence[str]) -> None:
        self._request = request
        self.records = Records(request.out / "records")
        self.plans = {name: import_experiment(name).plan(request.mode) for name in chosen}

    def runs(self, name: str) -> list[Config]:
        """Give all runs of an experiment as far as they are known: the planned ones, and what follows from them."""
        chosen = import_experiment(name)
        plan = self.plans[name] if name in self.plans else chosen.plan(self._request.mode)
        return [*plan, *chosen.then(self._request.mode, self.records.read(name, plan))]

    def planned(self) -> int:
        """Give the number of all runs."""
        return sum(len(self.runs(name)) for name in self.plans)

    def finished(self, name: str) -> list[Record]:
        """Give the records of an experiment."""
        return self.records.read(name, self.runs(name))

    def left(self) -> list[Job]:
        """Give all runs that are still to be made."""
        return self._missing({name: self.runs(name) for name in self.plans})

    def seconds(self) -> float:
        """Return about how long the runs that are left take on the processes that were asked for."""
        jobs = self.left()
        return sum(job.seconds for job in jobs) / min(self._request.jobs, max(len(jobs), 1))

    def perform(self, console: Console) -> list[Failure]:
        """Make the planned runs, then those that depend on them."""
        failures = self._perform(self.plans, console)
        # Nothing follows from a plan of which nothing came: what is announced then is but a guess.
        known = [name for name, plan in self.plans.items() if not plan or self.records.read(name, plan)]
        return failures + self._perform({name: self.runs(name) for name in known}, console, failures)

    def _perform(
        self, plans: Mapping[str, Sequence[Config]], console: Console, failures: Sequence[Failure] = ()
    ) -> list[Failure]:
        failed = [failure.job for failure in failures]
        jobs = [job for job in self._missing(plans) if job not in failed]
        self.tell_damaged(console)
        return perform_jobs(jobs, self._request.out, self._request.jobs, console) if jobs else []

    def _missing(self, plans: Mapping[str, Sequence[Config]]) -> list[Job]:
        return [
            Job(name, config, import_experiment(name).seconds(config))
            for name, plan in plans.items()
            for config in plan
            if not self.records.has(name, config)
        ]

    def shown(self) -> list[str]:
        """Give the experiments to show: the chosen ones, and those that earlier calls have left records of."""
        return [name for name in list_experiments() if name in self.plans or self._has_records(name)]

    def _has_records(self, name: str) -> bool:
        return find_entry(name).lacking is None and any((self.records.folder / name).glob("*.json"))

    def tell_damaged(self, console: Console) -> None:
        """Name the records that were found damaged and set aside."""
        for path in self.records.damaged:
            print_line(console, f"damaged record set aside as {path}; the run counts as not made.", "yellow")
        self.records.damaged.clear()

    def remarks(self) -> list[str]:
        """Give a line for records that another version of varmix has made."""
        mine = list_versions().get("varmix")
        made = [r.versions.get("varmix") for name in self.shown() for r in self.finished(name)]
        others = sorted({str(version) for version in made if version != mine})
        if not others:
            return []
        count = sum(version != mine for version in made)
        return [
            f"{count} runs were made by varmix {', '.join(others)}, not by {mine}: start over without --resume to make "
            f"them again."
        ]

    def saved(self) -> str:
        """Say how many runs are on record."""
        there = sum(len(self.finished(name)) for name in self.plans)
        return f"{there} of {self.planned()} runs are saved."
