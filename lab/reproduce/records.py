"""Records: one file per finished run, so that runs can be interrupted and resumed.

Files are written atomically and contain their own checksum. So a killed run leaves a complete record or none, several
processes may write at the same time, and damage is detected.
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
    """A finished run: configuration, result, versions of packages, and duration."""

    experiment: str
    config: Config
    result: Result
    versions: Mapping[str, str]
    wall_seconds: float
    cpu_seconds: float


class Records:
    """The records of finished runs in a folder.

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
        self.damaged: list[Path] = []  # new names of records that were damaged

    def path(self, experiment: str, config: Config) -> Path:
        """Return the file of a run; its name is a hash of the configuration."""
        digest = hashlib.sha256(_dump_canonical(config).encode()).hexdigest()[:16]
        return self.folder / experiment / f"{digest}.json"

    def has(self, experiment: str, config: Config) -> bool:
        """Return whether a run is finished. A damaged record is renamed and does not count."""
        return self._read(self.path(experiment, config), config) is not None

    def write(self, record: Record) -> Path:
        """Write a record atomically and return its file."""
        return self.write_text(record.experiment, record.config, self.encode(record))

    def encode(self, record: Record) -> str:
        """Return a record as JSON with its checksum; raise `ValueError` for values outside JSON, such as nan."""
        body = asdict(record)
        return _dump_canonical({**body, "sha256": _compute_checksum(body)})

    def write_text(self, experiment: str, config: Config, text: str) -> Path:
        """Write the encoded record of a run atomically and return its file."""
        path = self.path(experiment, config)
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as file:
            file.write(f"{text}\n".encode())
        return path

    def read(self, experiment: str, configs: Sequence[Config]) -> list[Record]:
        """Return the records of the finished runs, in the order of the configurations."""
        found = (self._read(self.path(experiment, config), config) for config in configs)
        return [record for record in found if record is not None]

    def write_table(self, experiment: str, records: Sequence[Record]) -> Path:
        """Write finished runs into one file of JSON lines, one line per run, for other programs."""
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
    """Return an unused name for a damaged file, so that damaged files found before are kept."""
    number = 1
    while (aside := path.with_suffix(f".damaged-{number}")).exists():
        number += 1
    return aside


def _parse_record(text: str) -> Record | None:
    """Return the record in a text; None if it is damaged in any way."""
    try:
        body = json.loads(text)
        checksum = body.pop("sha256")
        sound = set(body) == set(RECORD_FIELDS) and checksum == _compute_checksum(body)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    return Record(**body) if sound else None


def _dump_canonical(value: object) -> str:
    """Return the same JSON for equal values: sorted keys, no blanks, no nan or infinity."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _compute_checksum(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(_dump_canonical(body).encode()).hexdigest()
