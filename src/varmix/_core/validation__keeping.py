"""Keeping: a model stays as it was when a call is refused or fails on its way."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def kept(model: object) -> Iterator[None]:
    """Put back all attributes when what is inside raises."""
    before = dict(vars(model))
    try:
        yield
    except BaseException:
        vars(model).clear()
        vars(model).update(before)
        raise
