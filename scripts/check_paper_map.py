"""Check that docs/paper_map.md names functions and tests that exist."""

import ast
import importlib
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MAP = ROOT / "docs" / "paper_map.md"


def resolve(dotted: str) -> bool:
    """Return whether a dotted name is a module, or an attribute inside one."""
    parts = dotted.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            thing = importlib.import_module(".".join(parts[:cut]))
        except ImportError:
            continue
        for name in parts[cut:]:
            if not hasattr(thing, name):
                return False
            thing = getattr(thing, name)
        return True
    return False


def has_test(path: str, name: str) -> bool:
    """Return whether a test file defines a function or class of this name."""
    file = ROOT / path
    if not file.is_file():
        return False
    names = {
        node.name for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, (ast.FunctionDef, ast.ClassDef))
    }
    return name in names


def main() -> int:
    """Print the missing names; return 0 if there are none, else 1."""
    text = MAP.read_text()
    functions = sorted(set(re.findall(r"`(varmix(?:\.\w+)+)`", text)))
    tests = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", text)))
    missing = [name for name in functions if not resolve(name)]
    missing += [f"{path}::{name}" for path, name in tests if not has_test(path, name)]
    if not functions or not tests:
        missing.append("(the map names no functions or no tests)")
    for name in missing:
        print(f"docs/paper_map.md names something that does not exist: {name}")
    if not missing:
        print(f"docs/paper_map.md: {len(functions)} functions and {len(tests)} tests exist.")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
