import importlib
import inspect
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
BUILT = ("_build", "api/generated")
PAGES = sorted(page for page in DOCS.rglob("*.md") if not page.relative_to(DOCS).as_posix().startswith(BUILT))
API = sorted((DOCS / "api").glob("*.md"))
SLOW = "varmix.rl.torchrl"  # imports TorchRL, which takes seconds where it is there at all
TORCH = "varmix.torch"


def name(path):
    return path.relative_to(ROOT).as_posix()


def entries(page):
    """The pages that the toctrees of a page name."""
    for block in re.findall(r"^```\{toctree\}\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE):
        for line in block.splitlines():
            if line and not line.startswith(":"):
                yield from (found.resolve() for found in page.parent.glob(f"{line}.md"))


def reached(page):
    return {page}.union(*map(reached, entries(page)))


def listed():
    """Module and name of all that the reference asks autosummary for."""
    for page in API:
        for block in re.findall(r"^\.\. currentmodule:: (.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE):
            module, *lines = block.splitlines()
            for line in lines:
                if re.fullmatch(r"   \w+", line):
                    yield module, line.strip()


def public(module):
    """What a module says is public, or else the classes and functions that are made in it."""
    made = (
        key
        for key, value in vars(module).items()
        if (inspect.isclass(value) or inspect.isfunction(value)) and value.__module__ == module.__name__
    )
    return [key for key in getattr(module, "__all__", made) if not key.startswith("_")]


def test_every_page_is_reached_from_the_first():
    assert set(PAGES) - reached(DOCS / "index.md") == set()


def test_no_page_has_two_places():
    places = [entry for page in PAGES for entry in entries(page)]
    assert sorted({name(place) for place in places if places.count(place) > 1}) == []


@pytest.mark.parametrize("page", sorted(entries(DOCS / "howto" / "index.md")), ids=name)
def test_every_how_to_has_an_example_that_runs(page):
    assert re.search(r"^```python\n>>> ", page.read_text(), re.MULTILINE)


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md", ROOT / "CONTRIBUTING.md"], ids=name)
def test_links_lead_to_files(page):
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    targets = [target for target in re.findall(r"\]\(([^)#\s]+)", text) if ":" not in target]
    assert [target for target in targets if not (page.parent / target).exists()] == []


def importable(module):
    return module != SLOW and (not module.startswith(TORCH) or find_spec("torch") is not None)


def test_every_public_name_is_in_the_reference():
    texts = "".join(page.read_text() for page in API)
    modules = {module: importlib.import_module(module) for module, _ in listed() if importable(module)}
    assert len(modules) >= 15
    shown = [getattr(modules[module], key) for module, key in listed() if module in modules]
    missing = [
        f"{module.__name__}.{key}"
        for module in modules.values()
        for key in public(module)
        if not inspect.ismodule(getattr(module, key)) and f"`{key}`" not in texts
        if not any(getattr(module, key) is thing for thing in shown)
    ]
    assert missing == []


def test_make_docs_builds_the_site():
    makefile = (ROOT / "Makefile").read_text()
    assert re.search(r"^docs: \$\(VENV\)/\.ready-docs$", makefile, re.MULTILINE)
    assert re.search(r"^\$\(VENV\)/\.ready-docs: EXTRAS := docs", makefile, re.MULTILINE)
    assert "--fail-on-warning" in makefile
