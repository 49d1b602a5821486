"""What may be missing, and one way of saying so."""

import importlib
from typing import Any

from lab.commands import format_install


class DataUnavailable(RuntimeError):  # noqa: N818 (what is wrong is the name)
    """A data set is not at hand and could not be fetched; the message says what to do."""


class DataDamaged(ValueError):  # noqa: N818
    """A file, or what a source gave, is not the data set it should be."""


def import_optional(module: str, what_for: str) -> Any:  # noqa: ANN401
    """Import a module that only some data sets need.

    Examples
    --------
    >>> import_optional("no_such_module", "reading tea leaves")
    Traceback (most recent call last):
    ...
    lab.datasets.needs.DataUnavailable: no_such_module is missing, which reading tea leaves needs.
    Install it with: ...pip install ...
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise DataUnavailable(
            f"{package} is missing, which {what_for} needs. Install it with: {format_install('lab')}"
        ) from error
