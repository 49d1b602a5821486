"""Commands as they can be typed here: from a checkout, in a virtual environment that need not be active."""

import os
import shutil
import sys
from pathlib import Path


def find_program() -> str:
    """Return the command that runs the lab."""
    return f"{_find_python()} -m lab"


def format_install(extra: str) -> str:
    """Return the command that adds an extra to this environment; the lab runs in a checkout, which is installed from.

    Examples
    --------
    >>> format_install("torch").endswith("install -e '.[torch]'")
    True
    """
    beside = Path(sys.executable).with_name("pip")
    here = _shorten_path(beside) if beside.exists() else f"{_find_python()} -m pip"
    pip = "pip" if _is_on_path("pip") else here
    return f"{pip} install -e '.[{extra}]'"


def _find_python() -> str:
    return "python" if _is_on_path("python") else _shorten_path(Path(sys.executable))


def _is_on_path(name: str) -> bool:
    """Whether the shell finds this environment's own command."""
    path = shutil.which(name)
    return path is not None and Path(path).parent == Path(sys.executable).parent


def _shorten_path(path: Path) -> str:
    """Return a path as one would type it: from here, if it lies below."""
    here = Path.cwd()
    return os.path.relpath(path, here) if path.is_relative_to(here) else str(path)
