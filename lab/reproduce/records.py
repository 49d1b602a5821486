"""Records: every finished run in a file of its own, so that nothing is lost and nothing is done twice.

A file is written aside, renamed, and carries its own checksum.  So a run that is killed leaves either its whole record
or none, any number of processes may write at once, and damage is noticed.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

from lab.files import atomic_write

Config: TypeAlias = Mapping[str, Any]
Result: TypeAlias = Mapping[str, Any]

RECORD_FIELDS = ("experiment", "config", "result", "versions", "wall_seconds", "cpu_seconds")


@dataclass(frozen=True)
class Record:
    """A finished run: what it was, what came out, with which versions, and how long it took."""

    experiment: str
    config: Config
    result: Result
    versions: Mapping[str, str]
    wall_seconds: float
    cpu_seconds: float


class Records:
    """The finished runs below a folder.

    Examples
    --------
    >>> import tempfile
    >>> records = Records(Path(tempfile.mkdtemp()))
    >>> path = records.write(Record("demo", {"seed": 0}, {"error": 0.5}, {"varmix": "0.1.0"}, 1.0, 0.9))
    >>> records.has("demo", {"seed": 0}), records.has("demo", {"seed": 1})
    (True, False)
    >>> [record.result["error"] for record in records.read("demo", [{"seed": 0}, {"seed": 1}])]
    [0.5]
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.damaged: list[Path] = []  # what was found damaged, under the names it was set aside with

    def path(self, experiment: str, config: Config) -> Path:
        """Give the file of a run; its name follows from the configuration."""
        digest = hashlib.sha256(_dump_canonical(config).encode()).hexdigest()[:16]
        return self.folder / experiment / f"{digest}.json"

    def has(self, experiment: str, config: Config) -> bool:
        """Whether a run is finished; a damaged record is set aside and does not count."""
        return self._read(self.path(experiment, config), config) is not None

    def write(self, record: Record) -> Path:
        """Write a record aside and rename it."""
        return self.write_text(record.experiment, record.config, self.encode(record))

    def encode(self, record: Record) -> str:
        """Give the text of a record, with its checksum; ValueError if it holds what JSON does not have."""
        body = asdict(record)
        return _dump_canonical({**body, "sha256": _compute_checksum(body)})

    def write_text(self, experiment: str, config: Config, text: str) -> Path:
        """Write the text of a record aside and rename it."""
        path = self.path(experiment, config)
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as file:
            file.write(f"{text}\n".encode())
        return path

    def read(self, experiment: str, configs: Sequence[Config]) -> list[Record]:
        """Give the records of those runs that are finished, in the order of the configurations."""
        found = (self._read(self.path(experiment, config), config) for config in configs)
        return [record for record in found if record is not None]

    def write_table(self, experiment: str, records: Sequence[Record]) -> Path:
        """Write finished runs into one file of JSON lines, a row per run, for reading elsewhere."""
        path = self.folder / f"{experiment}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = [_dump_canonical(asdict(record)) + "\n" for record in records]
        with atomic_write(path) as file:
            file.write("".join(rows).encode())
        return path

    def _read(self, path: Path, config: Config) -> Record | None:
        try:
            text = path.read_text()
        except FileNotFoundError:
            return None
        except (UnicodeDecodeError, IsADirectoryError):
            text = ""
        record = _parse_record(text)
        if record is None or _dump_canonical(record.config) != _dump_canonical(config):
            aside = _free_name(path)
            path.replace(aside)
            self.damaged.append(aside)
            return None
        return record


def _free_name(path: Path) -> Path:
    """Give a name for a damaged file that is not taken: what was set aside before is evidence too."""
    number = 1
    while (aside := path.with_suffix(f".damaged-{number}")).exists():
        number += 1
    return aside


def _parse_record(text: str) -> Record | None:
    """Give the record that a text holds; None if it is damaged, whatever it was that came of it."""
    try:
        body = json.loads(text)
        checksum = body.pop("sha256")
        sound = set(body) == set(RECORD_FIELDS) and checksum == _compute_checksum(body)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    return Record(**body) if sound else None


def _dump_canonical(value: object) -> str:
    """One text for one value: sorted keys, no blanks, and no numbers that JSON does not have."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _compute_checksum(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(_dump_canonical(body).encode()).hexdigest()
