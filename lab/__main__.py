"""The command `python -m lab`: reproduce the paper, run benchmarks, manage data sets, publish results."""

import io
import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal

from lab import datasets
from lab.commands import CommandError, find_program, format_install, unknown_name
from lab.reproduce import catalogue

try:
    import typer
    from rich.console import Console
except ImportError:
    raise SystemExit(f"The lab needs an extra: {format_install('lab')}") from None


DataAction = Literal["list", "fetch", "check"]

app = typer.Typer(
    help="Reproduce the paper, run benchmarks, manage data sets, publish results.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
console = Console()
plain = Console(markup=False, highlight=False, soft_wrap=True)  # prints lines unchanged


@app.command()
def reproduce(
    experiments: Annotated[
        list[str] | None,
        typer.Argument(help=f"Any of {', '.join(catalogue.list_experiments())}. Default: all that can run here."),
    ] = None,
    full: Annotated[bool, typer.Option("--full/--quick", help="Make all runs, or only a few.")] = False,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Number of processes.")] = os.cpu_count() or 1,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the results. Default: results/quick or results/full.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Keep finished runs and make only the missing ones.")
    ] = False,
) -> None:
    """Run the paper's experiments and compare the results with its claims."""
    from lab.reproduce.command import run_reproduction
    from lab.reproduce.work import Request

    folder = out or Path("results") / ("full" if full else "quick")
    request = Request(tuple(experiments or ()), "full" if full else "quick", jobs, folder, resume)
    raise typer.Exit(run_reproduction(request, console))


@app.command()
def bench(
    benchmarks: Annotated[
        list[str] | None,
        typer.Argument(
            help="Any of cold, core, bias, sets, replay, estimators, kmeans, loaders, norms, solvers. Default: all."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for the results. Default: lab/results in a checkout, else results/benchmarks."),
    ] = None,
) -> None:
    """Measure speed, memory, bias and convergence, and compare with similar packages that are installed."""
    from lab.benchmarks.command import default_folder, run_benchmarks

    raise typer.Exit(run_benchmarks(benchmarks or [], out or default_folder(), plain))


@app.command()
def publish(
    results: Annotated[
        Path | None,
        typer.Argument(help="Folder with records of full runs. Default: none, only render the pages again."),
    ] = None,
    only: Annotated[list[str] | None, typer.Option(help="Experiments to take from the folder. Default: all.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Change nothing. Fail if a page is out of date.")] = False,
) -> None:
    """Update the pages of results, and the numbers in README, from records of full runs."""
    from lab.publish import run_publish

    if check and results is not None:
        raise CommandError("Pass a folder of records or --check, not both.")
    changed = run_publish(results, only or [], check)
    for line in changed:
        plain.print(f"{'out of date: ' if check else ''}{line}")
    raise typer.Exit(1 if check and changed else 0)


@app.command()
def data(
    action: Annotated[DataAction, typer.Argument(help="List the data sets, fetch them, or check their content.")],
    names: Annotated[
        list[str] | None, typer.Argument(help="Names of data sets. Default: all that the action applies to.")
    ] = None,
) -> None:
    """List, fetch or check the data sets of the experiments."""
    raise typer.Exit(run_data_command(action, names or [], console))


def main() -> None:
    """Run the command. Print a `CommandError` as one line, without a traceback."""
    if any(find_spec(module) is None for module in ("matplotlib", "scipy")):  # other packages bring typer and rich
        raise SystemExit(f"The lab needs an extra: {format_install('lab')}")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that cannot show ticks or bars prints "?"
    try:
        app()
    except KeyboardInterrupt:  # nothing is saved yet: commands that save something catch it themselves
        raise SystemExit(130) from None
    except CommandError as error:
        Console(stderr=True).print(f"lab: {error}", markup=False, highlight=False, soft_wrap=True)
        raise SystemExit(2) from None


def run_data_command(action: Literal["list", "fetch", "check"], names: Sequence[str], console: Console) -> int:
    """List, fetch or check data sets, and return the exit code.

    Without names, "fetch" fetches every set that can be fetched and "check" checks every set that is present.
    """
    for name in names:
        if name not in datasets.SETS:
            raise unknown_name("data set", name, datasets.names())
    try:
        if action == "list":
            lines = datasets.describe().splitlines()
            wanted = [line for line in lines[1:] if not names or line.split()[0] in names]
            console.print("\n".join([lines[0], *wanted]), soft_wrap=True, highlight=False, markup=False)
            return 0
        chosen = names or [name for name in datasets.names() if _is_applicable(action, name)]
    except datasets.DataUnavailable as error:
        raise CommandError(str(error)) from None
    if not chosen:
        raise CommandError(f"No data set is present. Fetch them with: {find_program()} data fetch")
    failed = [name for name in chosen if not _handle_set(action, name, console)]
    return 1 if failed else 0


def _is_applicable(action: str, name: str) -> bool:
    return datasets.SETS[name].fetchable if action == "fetch" else datasets.available(name)


def _handle_set(action: str, name: str, console: Console) -> bool:
    """Fetch or check one set and return whether it worked; a failure is printed, so that other sets follow."""
    try:
        if action == "fetch":
            console.print(f"{name}: {datasets.fetch(name)}", soft_wrap=True, highlight=False, markup=False)
        else:
            datasets.check(name)
            console.print(f"{name}: intact ({datasets.locate(name)})", soft_wrap=True, highlight=False, markup=False)
    except (datasets.DataUnavailable, datasets.DataDamaged) as error:
        console.print(f"{name}: {error}", style="red", soft_wrap=True, highlight=False, markup=False)
        return False
    return True


if __name__ == "__main__":
    main()
