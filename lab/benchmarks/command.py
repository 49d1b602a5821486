"""The command `python -m lab bench`: list of benchmarks, their execution, and the files of results."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from lab.benchmarks import bias, cold, core, estimators, kmeans, loaders, norms, replay, sets, solvers
from lab.benchmarks.peers import CLUSTERING, CPPRB, DPPY, SKLEARN, TORCH, Peer
from lab.benchmarks.timing import describe_machine
from lab.commands import cannot_write, find_program, make_writable, unknown_name
from lab.files import atomic_write


@dataclass(frozen=True)
class Benchmark:
    """Title of a benchmark, its function, and the peers that it compares with."""

    title: str
    measure: Callable[[Console], dict[str, object]]
    peers: tuple[Peer, ...] = ()


ENTRIES = {
    "cold": Benchmark("First call with nothing compiled", cold.measure),
    "core": Benchmark("Core, compared with PyTorch's samplers", core.measure, (TORCH,)),
    "bias": Benchmark("Bias of single batches of the reshuffled mixture", bias.measure),
    "sets": Benchmark("Sets from k-DPPs, compared with DPPy", sets.measure, (DPPY,)),
    "replay": Benchmark("Prioritised replay, compared with cpprb", replay.measure, (CPPRB,)),
    "estimators": Benchmark("Estimators, compared with scikit-learn's SGD", estimators.measure, (SKLEARN,)),
    "kmeans": Benchmark("k-means, compared with scikit-learn's MiniBatchKMeans", kmeans.measure, (CLUSTERING,)),
    "loaders": Benchmark("Loaders, compared with PyTorch's DataLoader", loaders.measure, (TORCH,)),
    "norms": Benchmark("Per-example gradient norms, compared with a training step", norms.measure, (TORCH,)),
    "solvers": Benchmark("Convergence of the solvers", solvers.measure),
}


def list_benchmarks() -> tuple[str, ...]:
    """Return the names of all benchmarks."""
    return tuple(ENTRIES)


def find_benchmark(name: str) -> Benchmark:
    """Return a benchmark; raise `CommandError` for an unknown name."""
    if name not in ENTRIES:
        raise unknown_name("benchmark", name, ENTRIES)
    return ENTRIES[name]


CHECKOUT_FOLDER = Path("lab") / "results"
FALLBACK_FOLDER = Path("results") / "benchmarks"
GRID_TITLES = {
    "regret": "Cost of the default learner over a grid of problems"
}  # of an experiment, shown with the others


def default_folder() -> Path:
    """Return the folder of results: `lab/results` in a checkout, else with the results of experiments."""
    return CHECKOUT_FOLDER if CHECKOUT_FOLDER.is_dir() else FALLBACK_FOLDER


def write_results(folder: Path, name: str, results: Mapping[str, object]) -> Path:
    """Write the results of a benchmark atomically and return the file."""
    path = folder / f"{name}.json"
    text = json.dumps(results, indent=1, allow_nan=False)
    with atomic_write(path) as file:
        file.write(f"{text}\n".encode())
    return path


def read_results(folder: Path) -> tuple[dict[str, object], list[str]]:
    """Return all results in a folder by title, and a line for each file that cannot be read."""
    found: dict[str, object] = {}
    lacking = []
    for path in sorted(folder.glob("*.json"), key=_rank_file):
        try:
            found[_find_title(path.stem)] = _read_json(path)
        except OSError as error:
            lacking.append(f"benchmarks: {path} cannot be read ({error.strerror}).{_explain_rerun(path.stem)}")
        except (ValueError, RecursionError):
            lacking.append(f"benchmarks: {path} is damaged.{_explain_rerun(path.stem)}")
    if not found and not lacking:
        lacking.append(f"benchmarks: none measured yet, run `{find_program()} bench`")
    return found, lacking


def _read_json(path: Path) -> object:
    """Return the content of a file; raise `ValueError` unless it is JSON that a page can show."""
    content = json.loads(path.read_text("utf-8"))
    if not isinstance(content, dict | list):
        raise ValueError(f"Results must be an object or a list, got {type(content).__name__}.")  # noqa: TRY004
    json.dumps(content, ensure_ascii=False).encode()  # half a surrogate pair is valid JSON, but not valid text
    return content


def _rank_file(path: Path) -> tuple[int, str]:
    known = list(ENTRIES)
    return (known.index(path.stem) if path.stem in known else len(known)), path.name


def _find_title(name: str) -> str:
    return ENTRIES[name].title if name in ENTRIES else GRID_TITLES.get(name, name)


def _explain_rerun(name: str) -> str:
    return f" Measure it again: `python -m lab bench {name}`" if name in ENTRIES else ""


def run_benchmarks(asked: Sequence[str], out: Path, console: Console) -> int:
    """Run the requested benchmarks, by default all, and return the exit code.

    The console should print lines unchanged: without markup, highlighting or wrapping.
    """
    chosen = list(dict.fromkeys(asked or list_benchmarks()))
    for name in chosen:
        find_benchmark(name)
    make_writable(out)
    done = 0
    try:
        for name in chosen:
            path = _run_benchmark(name, out, console)
            done += 1
            console.print(f"Written to {path}")
    except KeyboardInterrupt:
        left = " ".join(chosen[done:])
        console.print(
            f"Stopped: {done} of {len(chosen)} benchmarks are saved. "
            f"Continue with: python -m lab bench {left} --out {out}"
        )
        return 130
    return 0


def _run_benchmark(name: str, out: Path, console: Console) -> Path:
    chosen = find_benchmark(name)
    described = describe_machine(chosen.peers)
    console.print(f"{name}: {chosen.title} ({', '.join(f'{what} {value}' for what, value in described.items())})")
    for peer in chosen.peers:
        if not peer.present:
            console.print(peer.absence)
    results = chosen.measure(console)
    try:
        return write_results(out, name, {"machine": described, **results})
    except OSError as error:
        raise cannot_write(out, error) from None
