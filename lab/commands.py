"""Parts shared by all commands of the lab: their error, checks of folders, and commands that a user can copy."""

import os
import shutil
import sys
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path


class CommandError(Exception):
    """A command cannot do its task. The message says why, and what the user can do instead.

    Only commands raise it. `python -m lab` prints the message in one line and exits with code 2.
    """


def unknown_name(kind: str, name: str, known: Iterable[str]) -> CommandError:
    """Return the error for an unknown name, with the known names and the closest one.

    Examples
    --------
    >>> print(unknown_name("fruit", "aple", ["apple", "pear"]))
    Unknown fruit 'aple': choose from apple, pear. Did you mean apple?
    """
    names = list(known)
    close = get_close_matches(name, names, n=1)
    hint = f" Did you mean {close[0]}?" if close else ""
    return CommandError(f"Unknown {kind} {name!r}: choose from {', '.join(names)}.{hint}")


def make_writable(folder: Path) -> None:
    """Create a folder and check that files can be written to it, before any work is done."""
    if folder.exists() and not folder.is_dir():
        raise CommandError(f"Cannot write to {folder}: it is a file, not a folder. Choose another folder with --out.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".probe-{os.getpid()}"
        probe.write_text("")
        probe.unlink()
    except OSError as error:
        raise cannot_write(folder, error) from None


def cannot_write(path: Path, error: OSError) -> CommandError:
    """Return the error for a folder or file that could not be written."""
    return CommandError(f"Cannot write to {path}: {error.strerror}. Choose another folder with --out.")


def find_program() -> str:
    """Return the command that runs the lab, as the user can type it here."""
    return f"{_find_python()} -m lab"


def format_install(extra: str) -> str:
    """Return the pip command that installs an extra from the checkout into this environment.

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
    """Return whether the shell finds this environment's own command under this name."""
    path = shutil.which(name)
    return path is not None and Path(path).parent == Path(sys.executable).parent


def _shorten_path(path: Path) -> str:
    """Return a path relative to the current folder if it lies below it."""
    here = Path.cwd()
    return os.path.relpath(path, here) if path.is_relative_to(here) else str(path)
