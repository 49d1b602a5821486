"""Commands that are told can be typed: in an environment that is active or not, from a checkout here or elsewhere."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lab import commands


class Distribution:
    def __init__(self, said):
        self.said = said

    def read_text(self, name):
        assert name == "direct_url.json"
        return None if self.said is None else json.dumps(self.said)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An environment below the present folder, which no shell knows of."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "executable", str(tmp_path / ".venv" / "bin" / "python"))
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    return tmp_path


def come_from(monkeypatch, said):
    monkeypatch.setattr(commands, "distribution", lambda name: Distribution(said))


@pytest.mark.parametrize(
    ("said", "package"),
    [
        ({"url": "file://{here}", "dir_info": {"editable": True}}, "--editable '.[rl]'"),
        ({"url": "file://{here}/a%20b", "dir_info": {}}, "'./a b[rl]'"),
        ({"url": "file://{elsewhere}", "dir_info": {}}, "'{elsewhere}[rl]'"),
        (None, "'.[rl]' in a checkout of varmix"),
        ({"url": "https://example.org/varmix.whl", "archive_info": {}}, "'.[rl]' in a checkout of varmix"),
        ({"url": "file://{here}/deleted", "dir_info": {}}, "'.[rl]' in a checkout of varmix"),
    ],
)
def test_an_extra_comes_from_the_checkout_that_varmix_came_from(here, tmp_path_factory, monkeypatch, said, package):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    for folder in (here, here / "a b", elsewhere):
        folder.mkdir(exist_ok=True)
        (folder / "pyproject.toml").touch()
    if said is not None:
        said = {**said, "url": said["url"].format(here=here, elsewhere=elsewhere)}
    package = package.format(elsewhere=elsewhere)
    come_from(monkeypatch, said)
    assert commands.install("rl") == f".venv/bin/python -m pip install {package}"
    monkeypatch.setattr(shutil, "which", lambda name: str(here / ".venv" / "bin" / name))
    assert commands.install("rl") == f"pip install {package}"


def test_without_an_installation_the_command_is_one_for_a_checkout(here, monkeypatch):
    def missing(name):
        raise commands.PackageNotFoundError

    monkeypatch.setattr(commands, "distribution", missing)
    assert commands.install("rl") == ".venv/bin/python -m pip install '.[rl]' in a checkout of varmix"


def test_the_program_is_told_by_its_path_where_the_shell_would_not_find_it(here, monkeypatch):
    assert commands.program() == ".venv/bin/varmix"
    monkeypatch.setattr(shutil, "which", lambda name: str(here / ".venv" / "bin" / name))
    assert commands.program() == "varmix"


def test_the_program_that_is_told_is_there():
    command = [str(Path(sys.executable).parent / "varmix"), "--help"]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
