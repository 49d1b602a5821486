"""A progress bar, for whatever takes longer than a blink."""

from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def tracked(items: Iterable[T], total: int, title: str) -> Iterator[T]:
    """Yield `items` while a bar with the remaining time fills up."""
    try:
        from rich.progress import track
    except ImportError:
        raise ImportError("Experiments need rich: pip install 'varmix[experiments]'.") from None
    return iter(track(items, total=total, description=title))
