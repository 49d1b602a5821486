"""A page whose examples import what is not installed is left out; the built site is no page."""

import ast
import doctest
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).parent
SITE = ["conf.py", "_build", "api/generated"]


def list_imports(page: Path) -> set[str]:
    """Return the packages that the examples of a page import, varmix and the lab left out."""
    examples = doctest.DocTestParser().get_examples(page.read_text())
    nodes = [node for example in examples for node in ast.walk(ast.parse(example.source))]
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}
    # What varmix asks for itself: its modules for PyTorch and TorchRL.
    needed = {"torch"} if any(name.startswith("varmix.torch") for name in names) else set()
    needed |= {"torchrl"} if "varmix.rl.torchrl" in names else set()
    return needed | {name.partition(".")[0] for name in names} - {"varmix", "lab"}


def list_pages() -> dict[str, set[str]]:
    """Return the pages with the packages that each needs."""
    built = [HERE / name for name in SITE]
    pages = [page for page in sorted(HERE.rglob("*.md")) if not any(page.is_relative_to(folder) for folder in built)]
    return {str(page.relative_to(HERE)): list_imports(page) for page in pages}


NEEDS = list_pages()
collect_ignore = SITE + [page for page, packages in NEEDS.items() if not all(map(find_spec, packages))]
