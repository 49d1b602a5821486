"""Folder: the place of results, which only one command writes to at a time."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lab.refusal import Refusal
from lab.refusal import make_writable

try:
    import fcntl
except ImportError:  # not on this system: two commands in one folder are then the user's own look-out
    fcntl = None  # type: ignore[assignment]

LEAST_SPACE = 200e6  # bytes on the disk, far above what a full run writes
PARTS = ("records", "figures", "report")


def prepare(out: Path) -> None:
    """Make the folder and its parts, and see that they can be written to, before there is anything to lose."""
    for folder in (out, *(out / part for part in PARTS)):
        make_writable(folder)
    free = shutil.disk_usage(out).free
    if free < LEAST_SPACE:
        raise Refusal(
            f"Too little space on the disk of {out}: {free / 1e6:.0f} MB free, {LEAST_SPACE / 1e6:.0f} MB needed. "
            f"Free some, or choose another folder with --out."
        )


@contextmanager
def locked(out: Path) -> Iterator[None]:
    """Keep other commands out of the folder; the system frees it when the process ends, however it ends."""
    with (out / ".lock").open("w") as file:
        if fcntl is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Refusal(
                    f"Another command is writing to {out}. Wait until it is done, or choose another folder with --out."
                ) from None
        yield


def set_aside(out: Path, chosen: Sequence[str]) -> Path | None:
    """Move the runs of earlier calls to a folder of their own, and give it; nothing is ever deleted."""
    old = [out / "records" / name for name in chosen if any((out / "records" / name).glob("*.json"))]
    if not old:
        return None
    number = 1
    while (kept := out / f"previous-{number}").exists():
        number += 1
    kept.mkdir()
    for folder in old:
        folder.replace(kept / folder.name)
    return kept
