"""Progress: a bar on the terminal, where one is wanted."""

from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any

from lab.commands import install


class Progress(AbstractContextManager["Progress"]):
    """A bar over `total` epochs; without `show` it does nothing.  It is drawn by rich, which is needed only then."""

    def __init__(self, total: int, show: bool) -> None:
        self._bar: Any = None
        if show:
            try:
                from rich.console import Console
                from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
            except ImportError:
                raise ModuleNotFoundError(
                    f"A progress bar needs rich: {install('experiments')}, or leave progress=False."
                ) from None
            columns = (BarColumn(), TextColumn("epoch {task.completed:.0f}/{task.total:.0f} {task.description}"))
            self._bar = Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True))
            self._task = self._bar.add_task("", total=total)

    def __enter__(self) -> "Progress":
        if self._bar is not None:
            self._bar.start()
        return self

    def advance(self, text: str) -> None:
        """One more epoch is done."""
        if self._bar is not None:
            self._bar.update(self._task, advance=1, description=text)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
