"""The command `varmix`: show a checkpoint, or compile kernels ahead of time.

    varmix --version
    varmix inspect sampler.varmix
    varmix warmup core torch

`python -m varmix` is the same.
"""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from varmix._core.bars import format_bars
from varmix._core.checkpoint import read_checkpoint
from varmix._core.state import CheckpointError, make_printable, read_array, read_count, wrap_load_errors
from varmix._version import __version__
from varmix._warmup import AREAS, warm_up

MAX_LINES, MAX_LINE_WIDTH = 500, 400  # limits of the printout, because a checkpoint may be hostile
EXIT_WRONG_CALL, EXIT_FAILED = 2, 1  # exit codes
AREA_HELP = "core (default), sklearn, torch, rl or all"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code: 2 for a wrong call, 1 for a file or an extra that cannot be used."""
    parser = argparse.ArgumentParser(prog="varmix", description="Stochastic optimisation with less variance.")
    parser.add_argument("--version", action="version", version=f"varmix {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    inspect = commands.add_parser("inspect", help="show the contents of a saved sampler")
    inspect.add_argument("checkpoint", type=Path, help="a file written by varmix.save")
    warmup = commands.add_parser("warmup", help="compile kernels now, so that the first call need not wait")
    warmup.add_argument("areas", nargs="*", choices=[*AREAS, "all"], default="core", metavar="AREA", help=AREA_HELP)
    options = parser.parse_args(arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # notebooks and tests replace it by streams without this method
            stream.reconfigure(errors="replace")  # prints question marks for characters that the terminal cannot show
    if options.command == "inspect":
        return print_checkpoint(options.checkpoint)
    if options.command == "warmup":
        areas = [options.areas] if isinstance(options.areas, str) else options.areas
        try:
            warm_up(list(AREAS) if "all" in areas else areas)
        except ModuleNotFoundError as error:
            print(f"varmix: {error}", file=sys.stderr)
            return EXIT_FAILED
        return 0
    parser.print_help()
    return EXIT_WRONG_CALL


def print_checkpoint(path: Path) -> int:
    """Print the parts of a saved sampler or replay buffer, with the mixture as bars. Return the exit code."""
    name = make_printable(path)
    try:
        state = read_checkpoint(path)
        with wrap_load_errors(f"the file {name}"):
            shown = list(islice(describe_state(state), MAX_LINES + 1))
    except FileNotFoundError:
        print(f"varmix: There is no file {name}. Pass a checkpoint written by varmix.save.", file=sys.stderr)
        return EXIT_WRONG_CALL
    except (OSError, ValueError) as error:
        reason = make_printable(error, longest=500)
        print(f"varmix: Cannot read {name} as a checkpoint: {reason}", file=sys.stderr)
        return EXIT_FAILED
    for line in shown[:MAX_LINES]:
        print(make_printable(line, longest=MAX_LINE_WIDTH))
    if len(shown) > MAX_LINES:
        print("  ... and more")
    return 0


def describe_state(state: Mapping[str, Any]) -> Iterator[str]:
    """Yield lines about the sampler in a state or in its replay buffer. List the entries of other states."""
    if _is_sampler(state.get("sampler")):  # in a replay buffer, ours or TorchRL's
        settings = state.get("settings")
        owner = "TorchRL's" if settings is None else _format_settings({"class": "ReplayBuffer", **settings})
        yield f"A replay buffer: {owner}"
        yield from _describe_sampler(state["sampler"])
    elif _is_sampler(state):
        yield from _describe_sampler(state)
    else:
        yield "A state, but not of a sampler"
        yield from _format_table(_list_entries(state))


def _is_sampler(state: object) -> bool:
    """Return whether a state has the entries of a sampler."""
    return isinstance(state, Mapping) and {"serial", "settings", "components", "learner"} <= state.keys()


def _describe_sampler(state: Mapping[str, Any]) -> Iterator[str]:
    """Yield the number of draws, the gain, the settings and the mixture of a sampler's state."""
    from varmix.meter import GainMeter  # imported here, because `varmix --version` does not need it

    meter = GainMeter()
    meter.load_state_dict(state["meter"])
    count = read_count(state, "serial")
    yield f"A sampler after {count:,} draw{'s' * (count != 1)}, with a gain of {meter.gain} over uniform draws"
    settings = {name: _format_settings(each) for name, each in state["settings"].items()}
    families = {f"components{place}": _format_settings(family) for place, family in _walk_families(state["components"])}
    yield from _format_table(settings | families)
    yield "Mixture"
    mixture = read_array(state["learner"], "mixture", np.float64, (None,), least=0.0, most=1.0)
    if not abs(mixture.sum() - 1.0) < 1e-6:
        raise CheckpointError(f"The saved mixture sums to {mixture.sum():.6g} instead of one: the file is damaged.")
    names = _name_components(state["components"])
    if len(names) >= len(mixture):
        raise CheckpointError(f"There are {len(names)} settings for {len(mixture)} components: the file is damaged.")
    last = f"component {len(mixture) - 1}" if state["settings"]["learner"].get("class") == "Fixed" else "uniform"
    shown = mixture[-MAX_LINES:]
    names = names if len(mixture) <= MAX_LINES else []
    numbered = [f"component {j}" for j in range(len(names), len(shown) - 1)]
    yield from format_bars([*names, *numbered, last], shown)


def _list_entries(state: Mapping[str, Any], place: str = "") -> dict[str, str]:
    """Return the entries of a nested state as text, by their dotted names."""
    found: dict[str, str] = {}
    for name, value in state.items():
        if isinstance(value, Mapping):
            found |= _list_entries(value, f"{place}{name}.")
            if len(found) > MAX_LINES:
                break
        elif isinstance(value, np.ndarray):
            found[f"{place}{name}"] = f"{value.dtype} {value.shape}"
        else:
            found[f"{place}{name}"] = make_printable(value)
    return found


def _format_table(rows: Mapping[str, str]) -> list[str]:
    """Return the rows of a table with two aligned columns."""
    longest = max(map(len, rows), default=0)
    longest = min(longest, 60)
    return [f"  {name:<{longest}}  {text}" for name, text in rows.items()]


def _name_components(components: Mapping[str, Any]) -> list[str]:
    """Return the names of a replay family's components; other states do not hold names."""
    settings = components["settings"] if components.get("family") == "Replay" else []
    return [f"epsilon {epsilon:g}, alpha {alpha:g}" for epsilon, alpha in settings]


def _format_settings(settings: Mapping[str, Any]) -> str:
    """Return settings in the form of a call, such as `BarrierNewton(gamma=0.1)`."""
    kind = settings.get("class", settings.get("family", "?"))
    shown = []
    for name, value in settings.items():
        if isinstance(value, Mapping) and not any(isinstance(part, Mapping) for part in value.values()):
            shown.append(_format_settings(value))  # a learner inside another
        elif name not in ("class", "family", "mark", "seed") and np.ndim(value) == 0 and value is not None:
            shown.append(f"{name}={make_printable(value)}")
    return f"{kind}({', '.join(shown)})"


def _walk_families(state: Mapping[str, Any], place: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the place and the state of every family in a stack, or of a single family."""
    if "families" not in state:
        yield place, state
        return
    for index, family in state["families"].items():
        yield from _walk_families(family, f"{place}.{index}")


if __name__ == "__main__":
    raise SystemExit(main())
