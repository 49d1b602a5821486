"""The command `varmix`: parsing, and nothing else."""

import io
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal

from lab.commands import install

try:
    import typer
    from rich.console import Console
except ImportError:
    raise SystemExit(f"The command varmix needs an extra: {install('experiments')}") from None

from lab.reproduce import catalogue
from lab.refusal import Refusal

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
        typer.Argument(help=f"Which of {', '.join(catalogue.names())}; all that can run here if none."),
    ] = None,
    full: Annotated[bool, typer.Option("--full/--quick", help="All runs, or a few of them.")] = False,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Processes to run on.")] = os.cpu_count() or 1,
    out: Annotated[Path | None, typer.Option(help="Folder for the results (results/quick or results/full).")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the runs that are missing in the folder.")
    ] = False,
) -> None:
    """Re-run the paper's experiments and show what came out beside what it says."""
    from lab.reproduce.command import reproduce as perform
    from lab.reproduce.request import Request

    folder = out or Path("results") / ("full" if full else "quick")
    request = Request(tuple(experiments or ()), "full" if full else "quick", jobs, folder, resume)
    raise typer.Exit(perform(request, console))


@app.command()
def bench(
    benchmarks: Annotated[
        list[str] | None,
        typer.Argument(
            help="Which of core, bias, sets, replay, estimators, kmeans, loaders, norms, solvers; all if none."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for the results (benchmarks/results in a checkout, else results/benchmarks)."),
    ] = None,
) -> None:
    """Measure speed, memory, bias and rates on this machine, beside those peers that are installed."""
    from lab.benchmarks.command import default_folder
    from lab.benchmarks.command__run import perform

    raise typer.Exit(perform(benchmarks or [], out or default_folder(), plain))


@app.command()
def data(
    action: Annotated[DataAction, typer.Argument(help="List the data sets, fetch them, or check their content.")],
    names: Annotated[list[str] | None, typer.Argument(help="Which ones; all that can be had if none.")] = None,
) -> None:
    """Find, fetch and check the data sets of the experiments."""
    from lab.__main____data import perform

    raise typer.Exit(perform(action, names or [], console))


@app.command()
def inspect(checkpoint: Annotated[Path, typer.Argument(help="A file written by varmix.save.")]) -> None:
    """Show what a saved sampler holds, with its mixture as a bar chart."""
    from varmix.__main__ import show

    show(checkpoint, console)


def main() -> None:
    """Run the command; what cannot be done is told in one line."""
    if any(find_spec(module) is None for module in ("matplotlib", "scipy")):  # others bring typer and rich as well
        raise SystemExit(f"The command varmix needs an extra: {install('experiments')}")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that knows no ticks or bars shows something else instead
    try:
        app()
    except KeyboardInterrupt:  # before there was anything to save
        raise SystemExit(130) from None
    except Refusal as refusal:
        Console(stderr=True).print(f"varmix: {refusal}", markup=False, highlight=False, soft_wrap=True)
        raise SystemExit(refusal.code) from None
