"""Inspect: what a checkpoint holds, for the terminal."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from varmix._core.checkpoint import read
from lab.refusal import DamagedFile
from lab.refusal import Refusal
from varmix._core.state import CheckpointError
from varmix._core.state import loading
from varmix._core.state import printable
from varmix._core.state import read_array
from varmix._core.state import read_count

WIDTH = 40  # of the longest bar
LINES, WIDEST = 500, 400  # printed at most, and characters in each


def show(path: Path, console: Console) -> None:
    """Print the parts of a saved sampler, or of the one in a replay buffer, and its mixture as bars."""
    name = printable(path)
    try:
        state = read(path)
        with loading(f"the file {name}"):
            shown = list(islice(lines(state), LINES + 1))
    except FileNotFoundError:
        raise Refusal(f"There is no file {name}. Give a checkpoint written by varmix.save.") from None
    except (OSError, ValueError) as error:
        raise DamagedFile(f"{name} is not a checkpoint that can be read: {printable(error, longest=500)}") from None
    for line in shown[:LINES]:
        console.print(printable(line, longest=WIDEST), highlight=False, markup=False, soft_wrap=True)
    if len(shown) > LINES:
        console.print("  ... and more", highlight=False, markup=False)


def lines(state: Mapping[str, Any]) -> Iterator[str]:
    """Tell of a sampler, of the one in a replay buffer, or what entries there are in a state of anything else."""
    if _is_sampler(state.get("sampler")):  # of a replay buffer, ours or TorchRL's
        settings = state.get("settings")
        told = "TorchRL's" if settings is None else _settings({"class": "ReplayBuffer", **settings})
        yield f"A replay buffer: {told}"
        yield from _sampler(state["sampler"])
    elif _is_sampler(state):
        yield from _sampler(state)
    else:
        yield "A state, not of a sampler"
        yield from _table(_entries(state))


def _is_sampler(state: object) -> bool:
    return isinstance(state, Mapping) and {"serial", "settings", "components", "learner"} <= state.keys()


def _sampler(state: Mapping[str, Any]) -> Iterator[str]:
    yield f"A sampler after {read_count(state, 'serial'):,} draws"
    settings = {name: _settings(each) for name, each in state["settings"].items()}
    families = {f"components{place}": _settings(family) for place, family in _families(state["components"])}
    yield from _table(settings | families)
    yield "Mixture"
    mixture = read_array(state["learner"], "mixture", np.float64, (None,), least=0.0, most=1.0)
    if not abs(mixture.sum() - 1.0) < 1e-6:
        raise CheckpointError(f"The saved mixture sums to {mixture.sum():.6g} instead of one: it is damaged.")
    names = _names(state["components"])
    if len(names) >= len(mixture):
        raise CheckpointError(f"There are {len(names)} settings for {len(mixture)} components: they are damaged.")
    yield from bars(mixture[-LINES:], names if len(mixture) <= LINES else ())


def _entries(state: Mapping[str, Any], place: str = "") -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in state.items():
        if isinstance(value, Mapping):
            found |= _entries(value, f"{place}{name}.")
            if len(found) > LINES:
                break
        elif isinstance(value, np.ndarray):
            found[f"{place}{name}"] = f"{value.dtype} {value.shape}"
        else:
            found[f"{place}{name}"] = printable(value)
    return found


def _table(rows: Mapping[str, str]) -> list[str]:
    longest = max(map(len, rows), default=0)
    longest = min(longest, 60)
    return [f"  {name:<{longest}}  {said}" for name, said in rows.items()]


def bars(mixture: np.ndarray[Any, np.dtype[np.float64]], names: Sequence[str] = ()) -> list[str]:
    r"""Give a bar per component, the last of which is the anchor; those without a name are numbered.

    Examples
    --------
    >>> print("\n".join(bars(np.array([0.75, 0.25]))))
      component 0   0.750  ████████████████████████████████████████
      anchor        0.250  █████████████
    """
    numbered = [f"component {j}" for j in range(len(names), len(mixture) - 1)]
    names = [*names, *numbered, "anchor"]
    longest = max(map(len, names))
    scale = WIDTH / mixture.max()
    return [
        f"  {name:<{longest}}   {w:.3f}  {'█' * round(scale * w)}"
        for name, w in zip(names, mixture.tolist(), strict=True)
    ]


def _names(components: Mapping[str, Any]) -> list[str]:
    settings = components["settings"] if components.get("family") == "Replay" else []
    return [f"epsilon {epsilon:g}, alpha {alpha:g}" for epsilon, alpha in settings]


def _settings(settings: Mapping[str, Any]) -> str:
    kind = settings.get("class", settings.get("family", "?"))
    plain = (f"{k}={printable(v)}" for k, v in settings.items() if k not in ("class", "family") and np.ndim(v) == 0)
    return f"{kind}({', '.join(plain)})"


def _families(state: Mapping[str, Any], place: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    if "families" not in state:
        yield place, state
        return
    for index, family in state["families"].items():
        yield from _families(family, f"{place}.{index}")
