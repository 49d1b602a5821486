"""The command `varmix`: look into a checkpoint, or compile kernels ahead of time.

    varmix --version
    varmix inspect sampler.varmix
    varmix warmup core torch

`python -m varmix` is the same.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from varmix._core.bars import format_bars
from varmix._core.checkpoint import read_checkpoint
from varmix._core.state import CheckpointError, make_printable, read_array, read_count, wrap_load_errors
from varmix._version import __version__

MAX_LINES, MAX_LINE_WIDTH = 500, 400  # printed of a checkpoint that may come from anybody
EXIT_WRONG_CALL, EXIT_FAILED = 2, 1  # exit codes


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code: 2 for a wrong call, 1 for a file or an extra that cannot be used."""
    parser = argparse.ArgumentParser(prog="varmix", description="Stochastic optimisation with less variance.")
    parser.add_argument("--version", action="version", version=f"varmix {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    inspect = commands.add_parser("inspect", help="show what a saved sampler holds")
    inspect.add_argument("checkpoint", type=Path, help="a file written by varmix.save")
    warmup = commands.add_parser("warmup", help="compile kernels now, so that the first call does not wait")
    warmup.add_argument("areas", nargs="*", choices=[*AREAS, "all"], default="core", metavar="AREA", help=AREA_HELP)
    options = parser.parse_args(arguments)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that cannot show a name prints question marks instead
    if options.command == "inspect":
        return print_checkpoint(options.checkpoint)
    if options.command == "warmup":
        areas = [options.areas] if isinstance(options.areas, str) else options.areas
        return warm_up(list(AREAS) if "all" in areas else areas)
    parser.print_help()
    return EXIT_WRONG_CALL


def warm_up(areas: Sequence[str]) -> int:
    """Use each area once on a few points; what gets compiled is kept in Numba's cache on disk."""
    for area in dict.fromkeys(areas):
        start = time.perf_counter()
        try:
            AREAS[area]()
        except ModuleNotFoundError as error:
            print(f"varmix: {error}", file=sys.stderr)
            return EXIT_FAILED
        print(f"{area}: compiled in {time.perf_counter() - start:.1f} s")
    return 0


def _exercise_sampler(sampler: Any) -> None:  # noqa: ANN401
    for batch in (1, 8):
        draw = sampler.draw(batch)
        sampler.update(draw, np.ones(batch))


def _warm_core() -> None:
    import varmix

    n, labels = 60, np.arange(60) % 3
    points = np.random.default_rng(0).normal(size=(n, 4))
    _exercise_sampler(varmix.vrm(varmix.Groups(labels), rng=0))
    for learner in (None, varmix.learners.BarrierNewton()):
        family = varmix.Groups(labels, replacement=False)
        _exercise_sampler(varmix.vrm(family, learner=learner and varmix.learners.Cautious(learner), rng=0))
    _exercise_sampler(varmix.vrm(varmix.Dense(np.full((n, 2), 1 / n)), rng=0))
    _exercise_sampler(varmix.vrm(varmix.Distances(points, points[:2]), rng=0))
    _exercise_sampler(varmix.vrm(varmix.KDpp(points, 3, [0.1, 1.0]), rng=0))
    _exercise_sampler(varmix.uniform(n, rng=0))


def _warm_sklearn() -> None:
    from varmix.estimators import MixtureKMeans, MixtureSGDClassifier, MixtureSGDRegressor

    X = np.random.default_rng(0).standard_t(3, size=(300, 4))
    MixtureSGDClassifier(max_iter=2, random_state=0).fit(X, X[:, 0] > 0)
    MixtureSGDRegressor(max_iter=2, random_state=0).fit(X, X[:, 0])
    MixtureKMeans(n_clusters=3, max_iter=2, batch_size=32, random_state=0).fit(X)


def _warm_torch() -> None:
    from varmix.torch import AdaptiveLoader

    loader = AdaptiveLoader(list(range(60)), np.arange(60) % 3, batch_size=8, rng=0)
    for batch, draw in loader:
        loader.update(draw, np.ones(len(batch)))


def _warm_rl() -> None:
    from types import SimpleNamespace

    from varmix.rl import ReplayBuffer

    observation, action = SimpleNamespace(shape=(2,), dtype=np.float32), SimpleNamespace(shape=(), dtype=np.int64)
    for n_steps in (1, 2):
        buffer = ReplayBuffer(64, observation, action, n_steps=n_steps, rng=0)
        for _ in range(16):
            buffer.add(np.zeros(2, np.float32), 0, 1.0, np.zeros(2, np.float32), terminated=False)
        _, draw = buffer.sample(8)
        buffer.update(draw, np.ones(8))


AREAS: dict[str, Callable[[], None]] = {
    "core": _warm_core,
    "sklearn": _warm_sklearn,
    "torch": _warm_torch,
    "rl": _warm_rl,
}
AREA_HELP = "core (the default), sklearn, torch, rl or all"


def print_checkpoint(path: Path) -> int:
    """Print the parts of a saved sampler, or of the one in a replay buffer, and its mixture as bars."""
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
        print(f"varmix: {name} is not a checkpoint that can be read: {reason}", file=sys.stderr)
        return EXIT_FAILED
    for line in shown[:MAX_LINES]:
        print(make_printable(line, longest=MAX_LINE_WIDTH))
    if len(shown) > MAX_LINES:
        print("  ... and more")
    return 0


def describe_state(state: Mapping[str, Any]) -> Iterator[str]:
    """Tell of a sampler, of the one in a replay buffer, or what entries there are in a state of anything else."""
    if _is_sampler(state.get("sampler")):  # of a replay buffer, ours or TorchRL's
        settings = state.get("settings")
        told = "TorchRL's" if settings is None else _format_settings({"class": "ReplayBuffer", **settings})
        yield f"A replay buffer: {told}"
        yield from _describe_sampler(state["sampler"])
    elif _is_sampler(state):
        yield from _describe_sampler(state)
    else:
        yield "A state, not of a sampler"
        yield from _format_table(_list_entries(state))


def _is_sampler(state: object) -> bool:
    return isinstance(state, Mapping) and {"serial", "settings", "components", "learner"} <= state.keys()


def _describe_sampler(state: Mapping[str, Any]) -> Iterator[str]:
    from varmix.meter import GainMeter  # imported late: `varmix --version` needs none of it

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
        raise CheckpointError(f"The saved mixture sums to {mixture.sum():.6g} instead of one: it is damaged.")
    names = _name_components(state["components"])
    if len(names) >= len(mixture):
        raise CheckpointError(f"There are {len(names)} settings for {len(mixture)} components: they are damaged.")
    last = f"component {len(mixture) - 1}" if state["settings"]["learner"].get("class") == "Fixed" else "uniform"
    shown = mixture[-MAX_LINES:]
    names = names if len(mixture) <= MAX_LINES else []
    numbered = [f"component {j}" for j in range(len(names), len(shown) - 1)]
    yield from format_bars([*names, *numbered, last], shown)


def _list_entries(state: Mapping[str, Any], place: str = "") -> dict[str, str]:
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
    longest = max(map(len, rows), default=0)
    longest = min(longest, 60)
    return [f"  {name:<{longest}}  {said}" for name, said in rows.items()]


def _name_components(components: Mapping[str, Any]) -> list[str]:
    settings = components["settings"] if components.get("family") == "Replay" else []
    return [f"epsilon {epsilon:g}, alpha {alpha:g}" for epsilon, alpha in settings]


def _format_settings(settings: Mapping[str, Any]) -> str:
    kind = settings.get("class", settings.get("family", "?"))
    shown = []
    for name, value in settings.items():
        if isinstance(value, Mapping) and not any(isinstance(part, Mapping) for part in value.values()):
            shown.append(_format_settings(value))  # a learner inside another
        elif name not in ("class", "family", "mark", "seed") and np.ndim(value) == 0 and value is not None:
            shown.append(f"{name}={make_printable(value)}")
    return f"{kind}({', '.join(shown)})"


def _walk_families(state: Mapping[str, Any], place: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    if "families" not in state:
        yield place, state
        return
    for index, family in state["families"].items():
        yield from _walk_families(family, f"{place}.{index}")


if __name__ == "__main__":
    raise SystemExit(main())
