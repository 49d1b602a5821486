"""Store of data sets: find, check, fetch and cache them.

A set is read from `NAME.npz` in the folder of VARMIX_DATA, else from the user's cache, else it is fetched into the
cache. The folder belongs to the user and is never changed. A damaged file in the cache is renamed.
"""

import os
import warnings
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from lab.arrays import AnyArray
from lab.commands import find_program
from lab.datasets.catalogue import get_spec, names
from lab.datasets.errors import DataDamaged, DataUnavailable, import_optional
from lab.datasets.npz import Arrays, compute_digest, read_arrays, write_arrays
from lab.datasets.sources import MANUAL_HINT

FOLDER_VARIABLE = "VARMIX_DATA"


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """A data set with points in the rows of `X` (C-contiguous) and labels or targets in `y`."""

    name: str
    X: AnyArray
    y: AnyArray
    source: Path
    """File that it was read from."""
    extra: Arrays
    """Other arrays by name, such as `feature_names` or `block`."""

    def __repr__(self) -> str:
        more = "".join(f", {name}" for name in self.extra)
        return f"Dataset({self.name}: X {self.X.shape} {self.X.dtype}, y {self.y.dtype}{more}; {self.source})"


def load(name: str, *, fetch: bool = True) -> Dataset:
    """Load a data set and check its content. The arrays are new and may be changed.

    Parameters
    ----------
    name : str
        One of `lab.datasets.names()`.
    fetch : bool, default True
        Whether to fetch the set if it is missing.

    Returns
    -------
    Dataset
        Points, labels or targets, and further arrays.

    Raises
    ------
    ValueError
        If there is no data set of this name.
    DataUnavailable
        If the set is missing and cannot or must not be fetched.
    DataDamaged
        If a file in the folder of VARMIX_DATA, or a download, has the wrong content.

    Examples
    --------
    >>> load("adults")
    Traceback (most recent call last):
    ...
    ValueError: name must be one of mnist, kdd_bio, ..., california_housing, got 'adults'.
    """
    path, arrays = _read_set(name) or _fetch_set(name, allowed=fetch)
    return Dataset(name, arrays.pop("X"), arrays.pop("y"), path, arrays)


def locate(name: str) -> Path | None:
    """Return the file that `load` would read, without opening it.

    Parameters
    ----------
    name : str
        One of `lab.datasets.names()`.

    Returns
    -------
    pathlib.Path or None
        The file; None if there is none yet.
    """
    file = _name_file(name)
    return next((place / file for place in _list_folders() if (place / file).is_file()), None)


def available(name: str) -> bool:
    """Return whether the file of a data set is present, so that `load` fetches nothing.

    Parameters
    ----------
    name : str
        One of `lab.datasets.names()`.

    Returns
    -------
    bool
        Whether there is a file. Its content is not checked.
    """
    return locate(name) is not None


def fetch(name: str) -> Path:
    """Return the file of a data set; fetch it into the cache if it is missing, and check its content.

    Parameters
    ----------
    name : str
        One of `lab.datasets.names()`.

    Returns
    -------
    pathlib.Path
        The file.

    Raises
    ------
    DataUnavailable
        If the set is missing and cannot be fetched.
    DataDamaged
        If a file in the folder of VARMIX_DATA, or the download, has the wrong content.
    """
    path, _ = _read_set(name) or _fetch_set(name)
    return path


def check(name: str) -> None:
    """Check the content of a data set without changing or fetching anything.

    Parameters
    ----------
    name : str
        One of `lab.datasets.names()`.

    Raises
    ------
    DataUnavailable
        If the set is missing.
    DataDamaged
        If its file has the wrong content.
    """
    path = locate(name)
    if path is None:
        raise DataUnavailable(_explain_missing(name))
    read_arrays(path, get_spec(name).sha256)


def describe() -> str:
    """Return a table of all data sets and their files.

    Returns
    -------
    str
        A heading, then one line per set.
    """
    rows = [("name", "points", "features", "MB", "where", "what")]
    for name in names():
        known = get_spec(name)
        absent = "can be fetched" if known.fetchable else "missing"
        n, d = known.shape
        rows.append((name, f"{n:,}", f"{d}", f"{known.size / 1e6:.0f}", str(locate(name) or absent), known.title))
    widths = [max(len(row[j]) for row in rows) for j in range(len(rows[0]))]
    aligns = "<>>><<"
    lines = ("  ".join(f"{cell:{a}{w}}" for cell, a, w in zip(row, aligns, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def _name_file(name: str) -> str:
    get_spec(name)
    return f"{name}.npz"


def _find_folder() -> Path | None:
    """Return the folder of VARMIX_DATA; None if it is not set."""
    value = os.environ.get(FOLDER_VARIABLE)
    if not value:
        return None
    if not Path(value).is_dir():
        raise DataUnavailable(
            f"{FOLDER_VARIABLE} is set to {value}, which is not a folder. Set it to a folder with .npz files, "
            f"or unset it."
        )
    return Path(value)


def _find_cache() -> Path:
    return Path(import_optional("platformdirs", "The cache of data sets").user_cache_dir("varmix"))


def _list_folders() -> list[Path]:
    """Return the folders to search, without the cache if platformdirs is missing: only the cache needs it."""
    places = [folder] if (folder := _find_folder()) else []
    with suppress(DataUnavailable):
        places.append(_find_cache())
    return places


def _read_set(name: str) -> tuple[Path, Arrays] | None:
    """Read a data set; return None if it is missing. A damaged file in the cache is renamed and counts as missing."""
    path = locate(name)
    if path is None:
        return None
    try:
        return path, read_arrays(path, get_spec(name).sha256)
    except FileNotFoundError:  # another process has just renamed it
        return None
    except DataDamaged as error:
        if path.parent == _find_folder():
            raise DataDamaged(
                f"{error} The file was not changed: replace it, remove it, or unset {FOLDER_VARIABLE}."
            ) from error
        aside = path.with_name(f"{path.name}.damaged")
        with suppress(FileNotFoundError):
            path.replace(aside)
        warnings.warn(f"{error} It was renamed to {aside.name} and is ignored.", stacklevel=3)
        return None


def _fetch_set(name: str, *, allowed: bool = True) -> tuple[Path, Arrays]:
    """Fetch a data set, check it, and save it in the cache."""
    known = get_spec(name)
    if known.source is None or not allowed:
        raise DataUnavailable(_explain_missing(name))
    target = _find_cache() / _name_file(name)
    arrays = known.source()
    found = compute_digest(arrays)
    if found != known.sha256:
        raise DataDamaged(
            f"The data fetched for {name} ({known.origin}) have the wrong content: expected SHA-256 {known.sha256}, "
            f"got {found}. Nothing was saved. Try again, or {MANUAL_HINT}."
        )
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_arrays(target, arrays)
    except OSError as error:
        raise DataUnavailable(
            f"{name} was fetched but could not be saved as {target} ({error}). Make room there, or {MANUAL_HINT}."
        ) from error
    return target, arrays


def _explain_missing(name: str) -> str:
    """Return where a data set was searched, and how to get it."""
    known = get_spec(name)
    try:
        cache = f"the cache {_find_cache()}"
    except DataUnavailable as error:
        cache = f"the cache ({error})"
    how = (
        f'Fetch it with `{find_program()} data fetch {name}` or lab.datasets.fetch("{name}"), or'
        if known.fetchable
        else "The lab cannot fetch it:"
    )
    return (
        f"{_name_file(name)} was found neither in {FOLDER_VARIABLE} ({_find_folder() or 'not set'}) nor in {cache}. "
        f"{how} {MANUAL_HINT}. Its origin: {known.origin}."
    )
