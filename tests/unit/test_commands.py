"""Commands in messages work whether the environment is active or not."""

import re
import shutil
import sys
from pathlib import Path

import pytest

from lab import commands

LAB = Path(commands.__file__).parent
COMMANDS = {"__main__", "benchmarks/cold", "benchmarks/command", "commands", "publish", "reproduce/command"}


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An environment below the current folder, which is not on the path of the shell."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "executable", str(tmp_path / ".venv" / "bin" / "python"))
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    return tmp_path


def test_commands_name_the_environment_where_the_shell_would_find_another(here):
    assert commands.find_program() == ".venv/bin/python -m lab"
    assert commands.format_install("rl") == ".venv/bin/python -m pip install -e '.[rl]'"


def test_a_pip_beside_python_is_named_by_its_path(here):
    (here / ".venv" / "bin").mkdir(parents=True)
    (here / ".venv" / "bin" / "pip").touch()
    assert commands.format_install("rl") == ".venv/bin/pip install -e '.[rl]'"


def test_commands_are_short_in_an_environment_that_is_active(here, active):
    assert commands.find_program() == "python -m lab"
    assert commands.format_install("rl") == "pip install -e '.[rl]'"


def test_only_commands_raise_the_error_of_commands():
    modules = {path.relative_to(LAB).with_suffix("").as_posix(): path.read_text() for path in LAB.rglob("*.py")}
    raising = {name for name, text in modules.items() if re.search("CommandError|unknown_name|cannot_write", text)}
    assert raising == COMMANDS
