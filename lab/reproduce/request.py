"""Request: what was asked of the command."""

import shlex
from dataclasses import dataclass
from pathlib import Path

from lab.commands import find_program
from lab.reproduce.experiment import Mode


@dataclass(frozen=True)
class Request:
    """Which experiments (none mean all that can run here), how many runs, on how many processes, and where to.

    Examples
    --------
    >>> Request(("blobs",), "quick", 2, Path("my results"), False).command()
    "python -m lab reproduce blobs --quick --jobs 2 --out 'my results'"
    """

    experiments: tuple[str, ...]
    mode: Mode
    jobs: int
    out: Path
    resume: bool

    def command(self, program: str = "python -m lab") -> str:
        """Give the command that was called, fit to be pasted."""
        parts = [*program.split(), "reproduce", *self.experiments, f"--{self.mode}", "--jobs", str(self.jobs)]
        return shlex.join([*parts, "--out", str(self.out)])

    def again(self) -> str:
        """Say how to go on."""
        return f"Go on with: {self.command(find_program())} --resume"
