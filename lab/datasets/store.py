"""Finding, checking and keeping data sets.

A set is `NAME.npz` in the folder that VARMIX_DATA names, or else in the user's cache, or else it is fetched into the
cache.  The folder belongs to the user: nothing in it is ever changed.  In the cache, what is damaged is set aside.
"""

import os
import warnings
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from lab.arrays import AnyArray
from lab.commands import find_program
from lab.datasets.catalogue import get_spec, names
from lab.datasets.needs import DataDamaged, DataUnavailable, import_optional
from lab.datasets.npz import Arrays, compute_digest, read_arrays, write_arrays
from lab.datasets.sources import MANUAL_HINT

FOLDER_VARIABLE = "VARMIX_DATA"


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """A data set: points in the rows of `X` (C-contiguous), labels or targets in `y`, and what else belongs to them."""

    name: str
    X: AnyArray
    y: AnyArray
    source: Path
    """The file that holds it."""
    extra: Arrays
    """Other arrays by name, such as `feature_names` or `block`."""

    def __repr__(self) -> str:
        more = "".join(f", {name}" for name in self.extra)
        return f"Dataset({self.name}: X {self.X.shape} {self.X.dtype}, y {self.y.dtype}{more}; {self.source})"


def load(name: str, *, fetch: bool = True) -> Dataset:
    """Give a data set, after checking that it is what it should be; the arrays are new and may be changed.

    Parameters
    ----------
    name
        One of `lab.datasets.names()`.
    fetch
        Whether it may be fetched when it is not at hand.

    Examples
    --------
    >>> load("adults")
    Traceback (most recent call last):
    ...
    ValueError: name must be one of mnist, kdd_bio, ..., california_housing, got 'adults'.
    """
    path, arrays = _at_hand(name) or _fetch_set(name, allowed=fetch)
    return Dataset(name, arrays.pop("X"), arrays.pop("y"), path, arrays)


def locate(name: str) -> Path | None:
    """Give the file that `load` would read, without looking into it; None if there is none yet."""
    file = _name_file(name)
    return next((place / file for place in _list_folders() if (place / file).is_file()), None)


def available(name: str) -> bool:
    """Whether the data set is at hand, so that `load` would fetch nothing."""
    return locate(name) is not None


def fetch(name: str) -> Path:
    """Give the file of a data set, fetched into the cache if it is not at hand, and checked in any case."""
    path, _ = _at_hand(name) or _fetch_set(name)
    return path


def check(name: str) -> None:
    """Raise `DataUnavailable` if the data set is not at hand, `DataDamaged` if it is not what it should be."""
    path = locate(name)
    if path is None:
        raise DataUnavailable(_explain_missing(name))
    read_arrays(path, get_spec(name).sha256)


def describe() -> str:
    """Give a table of all data sets and where they are, for people."""
    rows = [("name", "points", "features", "MB", "where", "what")]
    for name in names():
        known = get_spec(name)
        absent = "can be fetched" if known.fetchable else "not at hand"
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
    """The folder that the user has named, if any."""
    value = os.environ.get(FOLDER_VARIABLE)
    if not value:
        return None
    if not Path(value).is_dir():
        raise DataUnavailable(
            f"{FOLDER_VARIABLE} is set to {value}, which is not a folder. Set it to one that has the .npz files, or "
            f"unset it."
        )
    return Path(value)


def _find_cache() -> Path:
    return Path(import_optional("platformdirs", "the cache of data sets").user_cache_dir("varmix"))


def _list_folders() -> list[Path]:
    """The folders to look in.  The cache is left out when platformdirs is missing: a folder must do without."""
    places = [folder] if (folder := _find_folder()) else []
    with suppress(DataUnavailable):
        places.append(_find_cache())
    return places


def _at_hand(name: str) -> tuple[Path, Arrays] | None:
    """The data set if it is at hand and sound; a damaged file of the cache is set aside."""
    path = locate(name)
    if path is None:
        return None
    try:
        return path, read_arrays(path, get_spec(name).sha256)
    except FileNotFoundError:  # another process has set it aside just now
        return None
    except DataDamaged as error:
        if path.parent == _find_folder():
            raise DataDamaged(
                f"{error} It was left as it is: replace it, remove it, or unset {FOLDER_VARIABLE}."
            ) from error
        aside = path.with_name(f"{path.name}.damaged")
        with suppress(FileNotFoundError):
            path.replace(aside)
        warnings.warn(f"{error} It was renamed to {aside.name} and is not used.", stacklevel=3)
        return None


def _fetch_set(name: str, *, allowed: bool = True) -> tuple[Path, Arrays]:
    """Fetch a data set, check it, and keep it in the cache."""
    known = get_spec(name)
    if known.source is None or not allowed:
        raise DataUnavailable(_explain_missing(name))
    target = _find_cache() / _name_file(name)
    arrays = known.source()
    found = compute_digest(arrays)
    if found != known.sha256:
        raise DataDamaged(
            f"What was fetched for {name} ({known.origin}) has other content than it should: expected SHA-256 "
            f"{known.sha256}, got {found}. Nothing was kept: try again, or {MANUAL_HINT}."
        )
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_arrays(target, arrays)
    except OSError as error:
        raise DataUnavailable(
            f"{name} was fetched but could not be kept as {target} ({error}). Make room there, or {MANUAL_HINT}."
        ) from error
    return target, arrays


def _explain_missing(name: str) -> str:
    """Say where a data set was looked for, and how to get it."""
    known = get_spec(name)
    try:
        cache = f"the cache {_find_cache()}"
    except DataUnavailable as error:
        cache = f"the cache ({error})"
    how = (
        f'`{find_program()} data fetch {name}` or lab.datasets.fetch("{name}") gets it, or'
        if known.fetchable
        else "varmix cannot fetch it:"
    )
    return (
        f"{_name_file(name)} was found neither in {FOLDER_VARIABLE} ({_find_folder() or 'not set'}) nor in {cache}. "
        f"{how} {MANUAL_HINT}. Its origin: {known.origin}."
    )
