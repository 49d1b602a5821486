"""Print numbers about the structure of the source, for the architecture page.

    python scripts/instruments.py [--json] [--crossed] [ROOT]

It parses the source without importing it, so that it can measure any checkout. With `--crossed` it also runs the
installed varmix (with PyTorch and scikit-learn), and counts the files whose functions run in a few typical calls.
"""

import argparse
import ast
import json
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType, SimpleNamespace

SMALL = 100  # lines; a smaller module with a single importer belongs in its importer


def list_modules(root: Path) -> dict[str, Path]:
    """Return the files of library and lab by dotted module name."""
    bases = {"varmix": root / "src", "lab": root}
    found = {}
    for package, base in bases.items():
        for path in sorted((base / package).rglob("*.py")):
            parts = path.relative_to(base).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def list_imports(name: str, path: Path, modules: dict[str, Path], *, eager: bool = False) -> set[str]:
    """Return the modules that a module imports. `eager`: leave out imports inside functions and for type checks."""
    tree, targets = ast.parse(path.read_text()), set()
    lazy: set[ast.AST] = set()
    for node in ast.walk(tree):
        checking = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        if eager and (checking or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)):
            lazy.update(ast.walk(node))
    for node in ast.walk(tree):
        if node in lazy:
            continue
        if isinstance(node, ast.Import):
            targets |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            targets |= names & modules.keys()
            if names - modules.keys():
                targets.add(node.module)
    return {target for target in targets if target in modules and target != name}


def measure_depth(graph: dict[str, set[str]]) -> int:
    """Return the number of modules on the longest chain of imports; a cycle raises `RecursionError`."""
    depths: dict[str, int] = {}

    def depth(name: str) -> int:
        if name not in depths:
            depths[name] = 1 + max((depth(target) for target in graph[name]), default=0)
        return depths[name]

    return max(map(depth, graph))


def find_fragments(modules: dict[str, Path]) -> list[tuple[str, str, int]]:
    """Return the small modules with a single importer: name, importer, lines."""
    importers: dict[str, set[str]] = {name: set() for name in modules}
    for name, path in modules.items():
        for target in list_imports(name, path, modules):
            importers[target].add(name)
    rows = []
    for name, by in importers.items():
        lines = len(modules[name].read_text().splitlines())
        package = modules[name].name == "__init__.py"
        if not package and len(by) == 1 and lines < SMALL:
            rows.append((name, next(iter(by)), lines))
    return rows


def is_public(name: str) -> bool:
    """Return whether no part of a dotted name begins with an underscore."""
    return not any(part.startswith("_") for part in name.split("."))


def measure(root: Path) -> dict[str, float]:
    """Return the numbers by name."""
    modules = list_modules(root)
    library = {name: path for name, path in modules.items() if name.split(".")[0] == "varmix"}
    lines = {name: len(path.read_text().splitlines()) for name, path in modules.items()}
    files = [count for name, count in lines.items() if modules[name].name != "__init__.py"]
    graph = {name: list_imports(name, path, modules, eager=True) for name, path in modules.items()}
    functions = [
        node.name
        for path in modules.values()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("__")
    ]
    one_word = [name for name in functions if "_" not in name.strip("_")]
    return {
        "files": len(modules),
        "files of the library": len(library),
        "median file, lines": statistics.median(files),
        "modules under 100 lines with one importer": len(find_fragments(modules)),
        "import depth": measure_depth(graph),
        "import depth of the library": measure_depth({name: graph[name] for name in library}),
        "public modules of the library": sum(map(is_public, library)),
        "functions named by one word, %": round(100 * len(one_word) / len(functions)),
    }


def trace_files(use: Callable[[], object]) -> list[str]:
    """Return the files of varmix whose functions run during a call, in order, with those of compiled loops."""
    import varmix

    home = Path(varmix.__file__).parent
    seen: dict[str, None] = {}

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(str(home)):
            seen[Path(frame.f_code.co_filename).relative_to(home).as_posix()] = None

    sys.setprofile(note)
    try:
        use()
    finally:
        sys.setprofile(None)
    return list(seen)


def trace_uses() -> dict[str, list[str]]:
    """Return the files that a k-means fit, a batch of a loader, and a sample and an update of a buffer cross."""
    import numpy as np
    import torch

    from varmix.estimators import MixtureKMeans
    from varmix.rl import ReplayBuffer
    from varmix.torch import AdaptiveLoader

    X = np.random.default_rng(0).normal(size=(300, 3))
    model = MixtureKMeans(3, random_state=0, max_iter=2, batch_size=30)
    batches = iter(loader := AdaptiveLoader(torch.utils.data.TensorDataset(torch.tensor(X)), np.arange(300) % 3, 10))

    def train() -> None:
        _, draw = next(batches)
        loader.update(draw, np.ones(len(draw)))

    spaces = SimpleNamespace(shape=(4,), dtype=np.float32), SimpleNamespace(shape=(), dtype=np.int64)
    buffer = ReplayBuffer(100, *spaces, rng=0)
    for step in range(50):
        buffer.add(np.full(4, step, np.float32), 1, 0.5, np.full(4, step + 1, np.float32), terminated=False)
    for use in (lambda: model.fit(X), train, lambda: buffer.update(buffer.sample(8)[1], np.ones(8))):
        use()  # compiles
    draws = []
    return {
        "a k-means fit": trace_files(lambda: model.fit(X)),
        "a loader's batch": trace_files(train),
        "a replay sample": trace_files(lambda: draws.append(buffer.sample(8)[1])),
        "a replay update": trace_files(lambda: buffer.update(draws[0], np.ones(8))),
    }


def main() -> None:
    """Print the instruments, and the fragments and crossed files by name."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", nargs="?", type=Path, default=Path(__file__).parents[1])
    parser.add_argument("--json", action="store_true", help="print numbers only, as JSON")
    parser.add_argument("--crossed", action="store_true", help="also run varmix and trace the files that uses cross")
    arguments = parser.parse_args()
    traces = trace_uses() if arguments.crossed else {}
    numbers = measure(arguments.root)
    for use, files in traces.items():
        numbers[f"files crossed by {use}"] = sum("_kernels" not in file for file in files)
        numbers[f"  with files of compiled loops, {use}"] = len(files)
    if arguments.json:
        print(json.dumps(numbers, indent=2))
        return
    for name, value in numbers.items():
        print(f"{name:45} {value:g}")
    for name, importer, lines in find_fragments(list_modules(arguments.root)):
        print(f"  {name} ({lines} lines) is imported by {importer} only")
    for use, files in traces.items():
        print(f"  {use} crosses {', '.join(files)}")


if __name__ == "__main__":
    main()
