"""What a user types to install varmix works, and keeps the versions that are already there."""

import re
import runpy
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
BUILT = ("docs/_build/", "docs/api/generated/")
TORCH = re.compile(
    r"^\s*(?:from|import) (?:torch|torchrl|tensordict|lightning|transformers|accelerate|varmix\.torch)\b"
    r'|importorskip\("torch',
    re.MULTILINE,
)


def name(path):
    return path.relative_to(ROOT).as_posix()


def texts(*folders):
    """What people read, by name: prose, docstrings, messages, and with tests the messages that they expect."""
    pages = list(ROOT.glob("*.md"))
    for folder in folders:
        pages += [*(ROOT / folder).rglob("*.md"), *(ROOT / folder).rglob("*.py"), *(ROOT / folder).rglob("*.html")]
    return {name(page): page.read_text() for page in sorted(pages) if not name(page).startswith(BUILT)}


def requirements():
    """Every requirement of every extra but those that are extras of varmix itself."""
    found = [(extra, Requirement(line)) for extra, lines in EXTRAS.items() for line in lines]
    return [(extra, requirement) for extra, requirement in found if requirement.name != "varmix"]


def make(*arguments):
    if shutil.which("make") is None:
        pytest.skip("needs make")
    return subprocess.run(["make", "-n", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def makefile(variable):
    text = (ROOT / "Makefile").read_text().replace("\\\n", " ")
    (value,) = re.findall(rf"^{variable} := (.*)$", text, re.MULTILINE)
    return value.split()


def test_no_extra_replaces_a_newer_version_that_a_user_has():
    capped = {
        (extra, part.name) for extra, part in requirements() for bound in part.specifier if bound.operator != ">="
    }
    assert capped == {("torchrl", "torchrl")}


def test_torchrl_is_allowed_from_the_oldest_to_the_newest_version_that_was_tested():
    (bounds,) = {part.specifier for _, part in requirements() if part.name == "torchrl"}
    assert sorted(bound.operator for bound in bounds) == ["<", ">="]
    assert "0.14.0" in bounds
    assert "0.14.1" in bounds
    assert "0.13.3" not in bounds  # it leaves prefetched batches out of its state


def test_torch_has_one_floor_whatever_extra_brings_it():
    assert [(extra, str(part.specifier)) for extra, part in requirements() if part.name == "torch"] == [
        ("torch", ">=2.7")
    ]


def test_make_installs_versions_that_the_extras_allow():
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    chosen = {pin.name: str(pin.specifier).removeprefix("==") for pin in map(Requirement, lines)}
    assert {"torch", "torchrl"} <= set(chosen)
    for _, part in requirements():
        assert part.name not in chosen or chosen[part.name] in part.specifier
    for target in ("run", "test", "check", "bench", "docs"):
        installs = [line for line in make("--always-make", target).splitlines() if "--editable" in line]
        assert installs
        assert all("--constraint constraints.txt" in line for line in installs)


def test_another_torch_is_tested_in_an_environment_of_its_own():
    told = make("--always-make", "test-torch", "VERSION=2.7.1")
    assert ".venv-torch-2.7.1/bin/python -m pip" in told
    assert "'torch==2.7.1'" in told
    assert ".venv-torch-2.7.1/bin/python -m pytest" in told
    assert "constraints.txt" not in told
    assert ".venv/" not in told


def test_another_torch_needs_its_version_said():
    if shutil.which("make") is None:
        pytest.skip("needs make")
    done = subprocess.run(["make", "test-torch", "VERSION="], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "make test-torch VERSION=" in done.stdout


def test_all_that_imports_torch_is_tested_on_another_torch():
    tested = [ROOT / path for path in makefile("TORCH_TESTS")]
    assert all(path.exists() for path in tested)
    helpers = [path.stem for path in (ROOT / "tests" / "support").glob("*.py") if TORCH.search(path.read_text())]
    through = re.compile(rf"^from support(?:\.| import )(?:{'|'.join(helpers)})\b", re.MULTILINE)
    for path in (ROOT / "tests").glob("*/**/*.py"):
        text = "" if {"support", "integrations"} & set(path.parts) else path.read_text()
        if TORCH.search(text) or through.search(text):
            assert any(path.is_relative_to(folder) for folder in tested), name(path)
    needs = runpy.run_path(str(ROOT / "docs" / "conftest.py"))["NEEDS"]
    pages = [f"docs/{page}" for page, packages in needs.items() if "torch" in packages]
    for part in pages:
        assert any((ROOT / part).is_relative_to(folder) for folder in tested), part


def test_no_page_or_message_installs_varmix_from_an_index():
    this = name(Path(__file__).resolve())
    for page, text in texts("src", "docs", "tests", "scripts", "lab").items():
        assert page == this or not re.search(r"varmix\\?\[\w", text), (
            f"{page} asks an index for varmix, which is on none"
        )


def test_every_install_line_names_an_extra_that_there_is():
    said = {page: re.findall(r"'\.\[([\w,]+)\]'", text) for page, text in texts("src", "docs").items()}
    assert sum(map(len, said.values())) > 10
    for page, extras in said.items():
        assert {part for extra in extras for part in extra.split(",")} <= set(EXTRAS), page
