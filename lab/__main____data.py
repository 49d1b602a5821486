"""Data: the data sets from the command line."""

from collections.abc import Sequence
from typing import Literal

from rich.console import Console

from lab import datasets
from lab.commands import program
from lab.refusal import Refusal
from lab.refusal import unknown


def perform(action: Literal["list", "fetch", "check"], names: Sequence[str], console: Console) -> int:
    """List, fetch or check data sets; give the exit code.

    Without names, all that can be fetched are fetched and all that are at hand are checked.
    """
    for name in names:
        if name not in datasets.SETS:
            raise unknown("data set", name, datasets.names())
    try:
        if action == "list":
            lines = datasets.describe().splitlines()
            wanted = [line for line in lines[1:] if not names or line.split()[0] in names]
            console.print("\n".join([lines[0], *wanted]), soft_wrap=True, highlight=False, markup=False)
            return 0
        chosen = names or [name for name in datasets.names() if _sensible(action, name)]
    except datasets.DataUnavailable as error:
        raise Refusal(str(error)) from None
    if not chosen:
        raise Refusal(f"No data set is at hand: {program()} data fetch")
    failed = [name for name in chosen if not _one(action, name, console)]
    return 1 if failed else 0


def _sensible(action: str, name: str) -> bool:
    return datasets.SETS[name].fetchable if action == "fetch" else datasets.available(name)


def _one(action: str, name: str, console: Console) -> bool:
    """Do it for one set; a set that fails does not keep the others from being looked at."""
    try:
        if action == "fetch":
            console.print(f"{name}: {datasets.fetch(name)}", soft_wrap=True, highlight=False, markup=False)
        else:
            datasets.check(name)
            console.print(f"{name}: sound ({datasets.locate(name)})", soft_wrap=True, highlight=False, markup=False)
    except (datasets.DataUnavailable, datasets.DataDamaged) as error:
        console.print(f"{name}: {error}", style="red", soft_wrap=True, highlight=False, markup=False)
        return False
    return True
