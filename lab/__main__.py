"""The command `python -m lab`: reproduce the paper, run benchmarks, manage data sets, publish results."""

import io
import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal

from lab import datasets
from lab.commands import find_program, format_install
from lab.refusal import Refusal, refuse_unknown
from lab.reproduce import catalogue

try:
    import typer
    from rich.console import Console
except ImportError:
    raise SystemExit(f"The lab needs an extra: {format_install('lab')}") from None


DataAction = Literal["list", "fetch", "check"]

app = typer.Typer(
    help="Stochastic optimisation with less variance.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
console = Console()
plain = Console(markup=False, highlight=False, soft_wrap=True)  # lines as they are


@app.command()
def reproduce(
    experiments: Annotated[
        list[str] | None,
        typer.Argument(help=f"Which of {', '.join(catalogue.list_experiments())}; all that can run here if none."),
    ] = None,
    full: Annotated[bool, typer.Option("--full/--quick", help="All runs, or a few of them.")] = False,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Processes to run on.")] = os.cpu_count() or 1,
    out: Annotated[Path | None, typer.Option(help="Folder for the results (results/quick or results/full).")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the runs that are missing in the folder.")
    ] = False,
) -> None:
    """Re-run the paper's experiments and show what came out beside what it says."""
    from lab.reproduce.command import run_reproduction as perform
    from lab.reproduce.request import Request

    folder = out or Path("results") / ("full" if full else "quick")
    request = Request(tuple(experiments or ()), "full" if full else "quick", jobs, folder, resume)
    raise typer.Exit(perform(request, console))


@app.command()
def bench(
    benchmarks: Annotated[
        list[str] | None,
        typer.Argument(
            help="Which of cold, core, bias, sets, replay, estimators, kmeans, loaders, norms, solvers; all if none."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for the results (lab/results in a checkout, else results/benchmarks)."),
    ] = None,
) -> None:
    """Measure speed, memory, bias and rates on this machine, beside those peers that are installed."""
    from lab.benchmarks.command import default_folder, run_benchmarks

    raise typer.Exit(run_benchmarks(benchmarks or [], out or default_folder(), plain))


@app.command()
def publish(
    results: Annotated[
        Path | None, typer.Argument(help="Folder with the records of full runs; none renders the pages alone.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="Experiments to take from it; all that it has if none.")
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Change nothing; fail if a page is out of date.")] = False,
) -> None:
    """Make the pages of results, and the numbers in README, from the records of full runs."""
    from lab.publish import run_publish

    if check and results is not None:
        raise Refusal("Give a folder of records or --check, not both.")
    changed = run_publish(results, only or [], check)
    for line in changed:
        plain.print(f"{'out of date: ' if check else ''}{line}")
    raise typer.Exit(1 if check and changed else 0)


@app.command()
def data(
    action: Annotated[DataAction, typer.Argument(help="List the data sets, fetch them, or check their content.")],
    names: Annotated[list[str] | None, typer.Argument(help="Which ones; all that can be had if none.")] = None,
) -> None:
    """Find, fetch and check the data sets of the experiments."""
    raise typer.Exit(run_data_command(action, names or [], console))


def main() -> None:
    """Run the command; what cannot be done is told in one line."""
    if any(find_spec(module) is None for module in ("matplotlib", "scipy")):  # others bring typer and rich as well
        raise SystemExit(f"The lab needs an extra: {format_install('lab')}")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that knows no ticks or bars shows something else instead
    try:
        app()
    except KeyboardInterrupt:  # before there was anything to save
        raise SystemExit(130) from None
    except Refusal as refusal:
        Console(stderr=True).print(f"lab: {refusal}", markup=False, highlight=False, soft_wrap=True)
        raise SystemExit(refusal.code) from None


def run_data_command(action: Literal["list", "fetch", "check"], names: Sequence[str], console: Console) -> int:
    """List, fetch or check data sets; give the exit code.

    Without names, all that can be fetched are fetched and all that are at hand are checked.
    """
    for name in names:
        if name not in datasets.SETS:
            raise refuse_unknown("data set", name, datasets.names())
    try:
        if action == "list":
            lines = datasets.describe().splitlines()
            wanted = [line for line in lines[1:] if not names or line.split()[0] in names]
            console.print("\n".join([lines[0], *wanted]), soft_wrap=True, highlight=False, markup=False)
            return 0
        chosen = names or [name for name in datasets.names() if _is_applicable(action, name)]
    except datasets.DataUnavailable as error:
        raise Refusal(str(error)) from None
    if not chosen:
        raise Refusal(f"No data set is at hand: {find_program()} data fetch")
    failed = [name for name in chosen if not _handle_set(action, name, console)]
    return 1 if failed else 0


def _is_applicable(action: str, name: str) -> bool:
    return datasets.SETS[name].fetchable if action == "fetch" else datasets.available(name)


def _handle_set(action: str, name: str, console: Console) -> bool:
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


if __name__ == "__main__":
    main()
