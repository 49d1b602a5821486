import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from lab import datasets
from lab.datasets import DataDamaged, DataUnavailable, Spec, catalogue, npz

ROOT = Path(__file__).parents[2]


def _toy():
    X = np.arange(600, dtype=np.float32).reshape(200, 3)
    return {"X": X, "y": np.arange(200, dtype=np.uint8), "feature_names": np.array(["a", "b", "c"])}


class Places:
    """A temporary folder and cache, and a catalogue of two sets: `toy` can be fetched, `rare` cannot."""

    def __init__(self, tmp_path):
        self.folder, self.cache = tmp_path / "folder", tmp_path / "cache" / "varmix"
        self.folder.mkdir()
        self.fetched = 0
        self.gives = _toy()

    def source(self):
        self.fetched += 1
        return self.gives

    def files(self):
        return sorted(file.name for file in self.cache.iterdir()) if self.cache.exists() else []


@pytest.fixture
def places(tmp_path, monkeypatch):
    platformdirs = pytest.importorskip("platformdirs")
    places = Places(tmp_path)
    about = {"title": "A toy", "shape": (200, 3), "size": 1, "sha256": npz.compute_digest(_toy()), "licence": "none"}
    toys = {"toy": Spec(**about, origin="a shop", source=places.source), "rare": Spec(**about, origin="an attic")}
    monkeypatch.setattr(catalogue, "SETS", toys)
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda name: str(places.cache.with_name(name)))
    monkeypatch.delenv("VARMIX_DATA", raising=False)
    return places


@pytest.fixture
def folder(places, monkeypatch):
    monkeypatch.setenv("VARMIX_DATA", str(places.folder))
    return places.folder


def _break(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


# Digests


def test_the_digest_is_of_the_content_not_of_its_layout(tmp_path):
    arrays = _toy()
    expected = npz.compute_digest(arrays)
    swapped = {name: np.asfortranarray(arrays[name].astype(arrays[name].dtype.newbyteorder(">"))) for name in "yX"}
    assert npz.compute_digest({"feature_names": arrays["feature_names"], **swapped}) == expected
    npz.write_arrays(tmp_path / "a.npz", arrays)
    np.savez(tmp_path / "b.npz", **arrays)
    for name in "ab":
        assert npz.compute_digest(npz.read_arrays(tmp_path / f"{name}.npz", expected)) == expected


CHANGES = {
    "a number": lambda arrays: arrays["X"].__setitem__((5, 1), -1),
    "a sign of zero": lambda arrays: arrays["X"].__setitem__((0, 0), -0.0),
    "a dtype": lambda arrays: arrays.update(X=arrays["X"].astype(np.float64)),
    "a shape": lambda arrays: arrays.update(X=arrays["X"].reshape(300, 2)),
    "a name": lambda arrays: arrays.update(z=arrays.pop("y")),
    "one array less": lambda arrays: arrays.pop("feature_names"),
    "one array more": lambda arrays: arrays.update(z=np.zeros(0)),
    "a word": lambda arrays: arrays["feature_names"].__setitem__(0, "d"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_the_digest_notices(change):
    arrays = _toy()
    CHANGES[change](arrays)
    assert npz.compute_digest(arrays) != npz.compute_digest(_toy())


# The folder


def test_the_folder_is_looked_in_first(places, folder):
    np.savez(folder / "toy.npz", **{**_toy(), "X": np.asfortranarray(_toy()["X"])})
    data = datasets.load("toy")
    assert (data.name, data.source, places.fetched, places.files()) == ("toy", folder / "toy.npz", 0, [])
    assert data.X.flags.c_contiguous
    assert data.X.flags.writeable
    assert np.array_equal(data.X, _toy()["X"])
    assert np.array_equal(data.y, _toy()["y"])
    assert list(data.extra) == ["feature_names"]
    assert repr(data) == f"Dataset(toy: X (200, 3) float32, y uint8, feature_names; {data.source})"
    assert datasets.locate("toy") == datasets.fetch("toy") == data.source
    assert datasets.available("toy")
    datasets.check("toy")


@pytest.mark.parametrize("use", [datasets.load, datasets.fetch, datasets.check])
def test_a_wrong_file_in_the_folder_is_an_error_and_stays(use, places, folder):
    path = folder / "toy.npz"
    wrong = {**_toy(), "y": np.zeros(200)}
    np.savez(path, **wrong)
    before = path.read_bytes()
    with pytest.raises(DataDamaged) as caught:
        use("toy")
    for part in (str(path), npz.compute_digest(_toy()), npz.compute_digest(wrong)):
        assert part in str(caught.value)
    assert path.read_bytes() == before
    assert [file.name for file in folder.iterdir()] == ["toy.npz"]
    assert places.fetched == 0


def test_the_folders_owner_is_told_what_to_do(folder):
    (folder / "toy.npz").write_text("hello, no arrays here")
    with pytest.raises(DataDamaged, match=r"truncated or not an \.npz.* not changed: replace it, remove it, or unset"):
        datasets.load("toy")


@pytest.mark.parametrize("use", [datasets.load, datasets.locate, datasets.fetch, datasets.check])
def test_a_folder_that_does_not_exist_is_an_error(use, places, monkeypatch):
    monkeypatch.setenv("VARMIX_DATA", str(places.folder / "nowhere"))
    with pytest.raises(DataUnavailable, match=r"VARMIX_DATA is set to .*nowhere, which is not a folder"):
        use("toy")


def test_an_empty_variable_is_as_good_as_none(places, monkeypatch):
    monkeypatch.setenv("VARMIX_DATA", "")
    assert datasets.load("toy").source == places.cache / "toy.npz"


def test_a_folder_without_the_set_is_no_error(places, folder):
    assert datasets.load("toy").source == places.cache / "toy.npz"
    assert list(folder.iterdir()) == []


def test_pickles_are_never_loaded(folder):
    np.savez(folder / "toy.npz", X=np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(DataDamaged, match="allow_pickle"):
        datasets.load("toy")


# The cache


def test_what_was_fetched_is_kept(places):
    assert not datasets.available("toy")
    first = datasets.load("toy")
    again = datasets.load("toy", fetch=False)
    assert (places.fetched, places.files()) == (1, ["toy.npz"])
    assert first.source == again.source == places.cache / "toy.npz"
    assert npz.compute_digest({"X": first.X, "y": first.y, **first.extra}) == npz.compute_digest(_toy())
    assert datasets.fetch("toy") == first.source
    datasets.check("toy")
    assert places.fetched == 1


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.999])
def test_a_truncated_file_is_set_aside_and_fetched_anew(share, places):
    path = datasets.fetch("toy")
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.warns(UserWarning, match=r"toy\.npz .*renamed to toy\.npz\.damaged"):
        data = datasets.load("toy")
    assert np.array_equal(data.X, _toy()["X"])
    assert (places.fetched, places.files()) == (2, ["toy.npz", "toy.npz.damaged"])
    assert (places.cache / "toy.npz.damaged").stat().st_size == int(share * len(content))


def test_a_changed_byte_never_changes_the_data(places):
    path = datasets.fetch("toy")
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    noticed = 0
    for place in rng.integers(len(content), size=200):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1 << int(rng.integers(8))]) + content[place + 1 :])
        try:
            arrays = npz.read_arrays(path, npz.compute_digest(_toy()))
        except DataDamaged:
            noticed += 1
        else:  # dates and the like in the zip's directory do not matter
            assert npz.compute_digest(arrays) == npz.compute_digest(_toy())
    assert noticed > 100


def test_an_array_that_is_no_archive_is_damage(places):
    path = datasets.fetch("toy")
    with path.open("wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(DataDamaged):
        datasets.check("toy")


def test_checking_says_what_is_wrong_and_changes_nothing(places):
    with pytest.raises(DataUnavailable, match="neither in"):
        datasets.check("toy")
    assert places.fetched == 0
    _break(datasets.fetch("toy"))
    with pytest.raises(DataDamaged, match="expected SHA-256"):
        datasets.check("toy")
    assert places.files() == ["toy.npz"]


def test_a_damaged_set_that_cannot_be_fetched_is_unavailable(places):
    places.cache.mkdir(parents=True)
    (places.cache / "rare.npz").write_bytes(b"broken")
    with pytest.warns(UserWarning, match="renamed"), pytest.raises(DataUnavailable, match="cannot fetch it"):
        datasets.load("rare")
    assert places.files() == ["rare.npz.damaged"]


def test_a_file_that_another_process_takes_away_is_fetched_again(places, monkeypatch):
    datasets.fetch("toy")

    def gone(path, sha256):
        path.unlink()
        raise FileNotFoundError(path)

    monkeypatch.setattr("lab.datasets.store.read_arrays", gone)
    assert np.array_equal(datasets.load("toy").X, _toy()["X"])
    assert places.fetched == 2


def test_an_interrupted_write_leaves_no_file(places, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda handle: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        datasets.load("toy")
    assert places.files() == []


def test_a_cache_that_cannot_be_written_is_said_so(places):
    places.cache.parent.mkdir(parents=True)
    places.cache.write_text("a file where the folder should be")
    with pytest.raises(DataUnavailable, match=r"could not be saved as .*toy\.npz .*set VARMIX_DATA"):
        datasets.load("toy")


WRITER = """
import sys
from pathlib import Path
import numpy as np
from lab.datasets import npz
arrays = {"X": np.random.default_rng(0).normal(size=(20_000, 3))}
print(npz.compute_digest(arrays), flush=True)
while True:
    npz.write_arrays(Path(sys.argv[1]), arrays)
"""


def test_neither_kills_nor_others_leave_half_a_file(tmp_path):
    path = tmp_path / "big.npz"
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE) for _ in range(2)]
    try:
        sha256 = {writer.stdout.readline().decode().strip() for writer in writers}.pop()
        while not path.exists():
            assert all(writer.poll() is None for writer in writers)
        for _ in range(30):
            npz.read_arrays(path, sha256)
    finally:
        for writer in writers:
            writer.kill()
            writer.communicate()
    npz.read_arrays(path, sha256)


# What is missing


def test_unknown_names_are_refused(places):
    for use in (datasets.load, datasets.locate, datasets.fetch, datasets.check, datasets.available):
        with pytest.raises(ValueError, match=r"must be one of toy, rare, got '\.\./toy'"):
            use("../toy")


def test_nothing_is_fetched_unless_allowed(places):
    with pytest.raises(DataUnavailable, match=r"VARMIX_DATA \(not set\) nor in the cache .*datasets\.fetch\(\"toy\"\)"):
        datasets.load("toy", fetch=False)
    assert places.fetched == 0


def test_a_set_without_a_source_says_where_it_comes_from(folder):
    with pytest.raises(DataUnavailable, match=r"cannot fetch it: set VARMIX_DATA .* Its origin: an attic"):
        datasets.load("rare")
    np.savez(folder / "rare.npz", **_toy())
    assert datasets.load("rare").source == folder / "rare.npz"


def test_wrong_data_from_a_source_is_not_kept(places):
    places.gives = {**_toy(), "y": np.zeros(200)}
    with pytest.raises(DataDamaged, match=r"fetched for toy \(a shop\).* Nothing was saved") as caught:
        datasets.load("toy")
    assert npz.compute_digest(_toy()) in str(caught.value)
    assert npz.compute_digest(places.gives) in str(caught.value)
    assert places.files() == []


@pytest.mark.usefixtures("active")
def test_without_platformdirs_the_folder_still_works(places, folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "platformdirs", None)
    missing = r"needs platformdirs, which is not installed.* pip install -e '\.\[lab\]'"
    with pytest.raises(DataUnavailable, match=missing):
        datasets.load("toy")
    with pytest.raises(DataUnavailable, match=missing):
        datasets.load("toy", fetch=False)
    assert places.fetched == 0
    np.savez(folder / "toy.npz", **_toy())
    assert datasets.load("toy").source == folder / "toy.npz"


def test_the_table_says_what_is_where(places, folder):
    np.savez(folder / "rare.npz", **_toy())
    head, toy, rare = datasets.describe().splitlines()
    assert head.split() == ["name", "points", "features", "MB", "where", "what"]
    assert toy.split() == ["toy", "200", "3", "0", "can", "be", "fetched", "A", "toy"]
    assert str(folder / "rare.npz") in rare
    (folder / "rare.npz").unlink()
    assert "missing" in datasets.describe()


# The real catalogue


def test_public_names_are_sorted_and_exist():
    order = sorted(datasets.__all__, key=lambda name: (not name.isupper(), not name[0].isupper(), name))
    assert datasets.__all__ == order
    assert all(hasattr(datasets, name) for name in datasets.__all__)


@pytest.mark.parametrize("name", datasets.names())
def test_the_documents_list_every_set_with_its_licence(name):
    known = datasets.SETS[name]
    rows = [line for line in (ROOT / "docs" / "data.md").read_text().splitlines() if line.startswith(f"| {name} |")]
    shape = f"{known.shape[0]:,} x {known.shape[1]}"
    origin = known.origin if known.fetchable else f"{known.origin}; not fetched"
    assert rows == [f"| {name} | {shape} | {origin} | {known.licence} |"]


REAL = Path(os.environ.get("VARMIX_DATA") or ROOT.parent / "shared" / "data")


@pytest.mark.skipif(not REAL.is_dir(), reason="set VARMIX_DATA to a folder with the data sets")
@pytest.mark.parametrize("name", datasets.names())
def test_real_sets_are_what_the_catalogue_says(name, monkeypatch):
    if not (REAL / f"{name}.npz").is_file():
        pytest.skip(f"{REAL} has no {name}.npz")
    monkeypatch.setenv("VARMIX_DATA", str(REAL))
    known, data = datasets.SETS[name], datasets.load(name, fetch=False)
    arrays = {"X": data.X, "y": data.y, **data.extra}
    assert data.source.parent == REAL
    assert npz.compute_digest(arrays) == known.sha256
    assert sum(array.nbytes for array in arrays.values()) == known.size
    assert data.X.shape == known.shape
    assert data.X.flags.c_contiguous
    assert data.y.shape == known.shape[:1]
    assert np.isfinite(data.X).all()
