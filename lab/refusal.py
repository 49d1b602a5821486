"""Refusal: something that cannot be done, told in one line."""

import os
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path


class Refusal(Exception):  # noqa: N818 - not an error of the program
    """What was asked, why it cannot be done, and what to do: the command prints it and ends."""

    code = 2  # of a command that was called wrongly


class DamagedFile(Refusal):
    """A file that was asked for cannot be used; the call itself was right."""

    code = 1


def refuse_unknown(what: str, name: str, known: Iterable[str]) -> Refusal:
    """Give the refusal for a name that is none of those known, with the one that was probably meant.

    Examples
    --------
    >>> print(refuse_unknown("fruit", "aple", ["apple", "pear"]))
    Unknown fruit 'aple': choose from apple, pear. Did you mean apple?
    """
    names = list(known)
    close = get_close_matches(name, names, n=1)
    hint = f" Did you mean {close[0]}?" if close else ""
    return Refusal(f"Unknown {what} {name!r}: choose from {', '.join(names)}.{hint}")


def make_writable(folder: Path) -> None:
    """Make a folder and see that it can be written to, before there is anything to lose."""
    if folder.exists() and not folder.is_dir():
        raise Refusal(f"Cannot write to {folder}: it is a file, not a folder. Choose another folder with --out.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".probe-{os.getpid()}"
        probe.write_text("")
        probe.unlink()
    except OSError as error:
        raise cannot_write(folder, error) from None


def cannot_write(path: Path, error: OSError) -> Refusal:
    """Give the refusal for a folder or file that could not be written."""
    return Refusal(f"Cannot write to {path}: {error.strerror}. Choose another folder with --out.")
