"""Inspect: what a checkpoint holds, for the terminal."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from varmix.checkpoint import read
from varmix.refusal import Refusal

WIDTH = 40  # of the longest bar


def show(path: Path, console: Console) -> None:
    """Print the parts of a saved sampler, or of the one in a replay buffer, and its mixture as bars."""
    if path.is_dir():
        raise Refusal(f"{path} is a folder. Give a checkpoint, a file written by varmix.save.")
    try:
        state = read(path)
    except FileNotFoundError:
        raise Refusal(f"There is no file {path}. Give a checkpoint written by varmix.save.") from None
    except (OSError, ValueError) as error:
        raise Refusal(f"{path} is not a checkpoint that can be read: {error}") from None
    if "sampler" in state:  # of a replay buffer, ours or TorchRL's
        settings, state = state.get("settings"), state["sampler"]
        told = "TorchRL's" if settings is None else _settings({"class": "ReplayBuffer", **settings})
        console.print(f"A replay buffer: {told}", highlight=False)
    console.print(f"A sampler after {state['serial']:,} draws", highlight=False)
    for name, settings in state["settings"].items():
        console.print(f"  {name:<12}{_settings(settings)}", highlight=False)
    for place, family in _families(state["components"]):
        console.print(f"  {'components' + place:<12}{_settings(family)}", highlight=False)
    mixture = np.asarray(state["learner"]["mixture"])
    console.print("Mixture", highlight=False)
    for line in bars(mixture, _names(state["components"])):
        console.print(line, highlight=False)


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
    plain = (f"{k}={v}" for k, v in settings.items() if k not in ("class", "family") and np.ndim(v) == 0)
    return f"{kind}({', '.join(plain)})"


def _families(state: Mapping[str, Any], place: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    if "families" not in state:
        yield place, state
        return
    for index, family in state["families"].items():
        yield from _families(family, f"{place}.{index}")
