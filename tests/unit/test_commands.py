"""Commands that the lab prints can be typed, in an environment that is active or not."""

import shutil
import sys

import pytest

from lab import commands


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An environment below the present folder, which no shell knows of."""
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
