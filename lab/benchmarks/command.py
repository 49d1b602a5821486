"""Results: a file of JSON for every benchmark, written whole or not at all, and read again for the report."""

import json
from collections.abc import Mapping
from pathlib import Path

from lab.benchmarks.command__catalogue import ENTRIES
from lab.commands import program
from varmix._core.checkpoint__files import replacing

CHECKOUT = Path("benchmarks") / "results"
ELSEWHERE = Path("results") / "benchmarks"
GRID = {"regret": "Cost of the default learner over a grid of problems"}  # of an experiment, shown with the others


def default_folder() -> Path:
    """Give where results are: a checkout keeps them with the code, everyone else with the results of experiments."""
    return CHECKOUT if CHECKOUT.is_dir() else ELSEWHERE


def write(folder: Path, name: str, results: Mapping[str, object]) -> Path:
    """Write the results of a benchmark aside and rename them."""
    path = folder / f"{name}.json"
    text = json.dumps(results, indent=1, allow_nan=False)
    with replacing(path) as file:
        file.write(f"{text}\n".encode())
    return path


def read(folder: Path) -> tuple[dict[str, object], list[str]]:
    """Give all results in a folder by their titles, and a line for whatever there is to say about missing ones."""
    found: dict[str, object] = {}
    lacking = []
    for path in sorted(folder.glob("*.json"), key=_order):
        try:
            found[_title(path.stem)] = _parse(path)
        except OSError as error:
            lacking.append(f"benchmarks: {path} cannot be read ({error.strerror}).{_again(path.stem)}")
        except (ValueError, RecursionError):
            lacking.append(f"benchmarks: {path} is damaged.{_again(path.stem)}")
    if not found and not lacking:
        lacking.append(f"benchmarks: run `{program()} bench`")
    return found, lacking


def _parse(path: Path) -> object:
    """Give the content of a file; ValueError unless it is JSON that a page can show."""
    content = json.loads(path.read_text("utf-8"))
    if not isinstance(content, dict | list):
        raise ValueError(f"Results must be an object or a list, got {type(content).__name__}.")  # noqa: TRY004
    json.dumps(content, ensure_ascii=False).encode()  # half a surrogate pair is JSON, but no text
    return content


def _order(path: Path) -> tuple[int, str]:
    known = list(ENTRIES)
    return (known.index(path.stem) if path.stem in known else len(known)), path.name


def _title(name: str) -> str:
    return ENTRIES[name].title if name in ENTRIES else GRID.get(name, name)


def _again(name: str) -> str:
    return f" Make it again: `varmix bench {name}`" if name in ENTRIES else ""
