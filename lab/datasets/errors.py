"""Errors of data sets, and the import of optional packages."""

import importlib
from typing import Any

from lab.commands import format_install


class DataUnavailable(RuntimeError):  # noqa: N818 - a public name without "Error"
    """A data set is missing and could not be fetched. The message says what to do."""


class DataDamaged(ValueError):  # noqa: N818
    """The content of a file or download differs from the expected data set."""


def import_optional(module: str, purpose: str) -> Any:  # noqa: ANN401
    """Import an optional module, or raise `DataUnavailable` with the command that installs it.

    Examples
    --------
    >>> import_optional("no_such_module", "Reading parquet files")
    Traceback (most recent call last):
    ...
    lab.datasets.errors.DataUnavailable: Reading parquet files needs no_such_module, which is not installed.
    Install it with: ...pip install ...
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise DataUnavailable(
            f"{purpose} needs {package}, which is not installed. Install it with: {format_install('lab')}"
        ) from error
