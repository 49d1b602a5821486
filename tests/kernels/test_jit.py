"""Kernels are kept on disk where there is a place for them, and compiled by every process where there is none."""

import gc
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numba
import pytest

from varmix._kernels import jit

SOURCE = str(Path(jit.__file__).parents[2])

# What a program does first; it prints every warning that it gets, and what it has drawn.
START = """
import warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    {before}
    import varmix
    sampler = varmix.uniform(10, rng=0)
    draw = sampler.draw(3)
    sampler.update(draw, [1.0, 2.0, 3.0])
print(draw.indices.tolist())
print(*(f"{{each.category.__name__}}: {{each.message}}" for each in caught), sep="\\n")
"""


def start(folder, before="pass"):
    """Start a program of its own with a cache in `folder`; give what it has drawn, and its warnings."""
    settings = {"NUMBA_CACHE_DIR": str(folder), "PYTHONPATH": SOURCE, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", START.format(before=before)],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    drawn, *warned = done.stdout.splitlines()
    return drawn, [line for line in warned if line]


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A cache in which everything is in order, in a folder that was missing."""
    folder = tmp_path_factory.mktemp("numba") / "missing" / "cache"
    drawn, warned = start(folder)
    assert warned == []
    assert list(folder.rglob("*.nbc"))
    return folder, drawn


def copied(filled, folder):
    for path in filled[0].rglob("*.nb[ic]"):
        place = folder / path.relative_to(filled[0])
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(path.read_bytes())
    return folder


def two_of(folder, ending):
    """Give the files of two kernels, so that few are compiled again and there would be two warnings."""
    paths = sorted(folder.rglob(f"*.{ending}"))[:2]
    assert len(paths) == 2
    return paths


@pytest.mark.parametrize("part", [0.0, 0.5])
@pytest.mark.parametrize("ending", ["nbi", "nbc"])
def test_a_truncated_file_of_the_cache_is_warned_about_once_and_written_anew(filled, tmp_path, ending, part):
    folder = copied(filled, tmp_path / "cache")
    for path in two_of(folder, ending):
        content = path.read_bytes()
        path.write_bytes(content[: int(part * len(content))])
    drawn, warned = start(folder)
    assert drawn == filled[1]
    assert len(warned) == 1
    assert warned[0].startswith("RuntimeWarning: Numba's cache in ")
    assert "compiles in memory" in warned[0]
    assert start(folder) == (filled[1], [])


def test_a_file_of_the_cache_that_is_none_is_warned_about_once(filled, tmp_path):
    folder = copied(filled, tmp_path / "cache")
    for path in two_of(folder, "nbi"):
        path.unlink()
        path.mkdir()
    drawn, warned = start(folder)
    assert drawn == filled[1]
    assert len(warned) == 1
    assert "Error" in warned[0]


FULL = """
    import errno, numba.core.caching as caching
    def full(self, path):
        raise OSError(errno.ENOSPC, "No space left on device")
    caching.IndexDataCacheFile._open_for_write = full"""
LIMITED = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))"


@pytest.mark.parametrize(
    ("before", "words"),
    [
        (FULL, "No space left on device"),
        pytest.param(
            LIMITED, "File too large", marks=pytest.mark.skipif(sys.platform == "win32", reason="needs resource limits")
        ),
    ],
    ids=["full", "limited"],
)
def test_a_full_disk_is_warned_about_once(filled, tmp_path, before, words):
    folder = copied(filled, tmp_path / "cache")
    missing = two_of(folder, "nbi")
    for path in missing:
        path.unlink()
    drawn, warned = start(folder, before)
    assert drawn == filled[1]
    assert len(warned) == 1
    assert warned[0].startswith("RuntimeWarning: Numba's cache in ")
    assert words in warned[0]
    assert not any(path.exists() for path in missing)


def test_without_any_folder_to_write_to_it_is_warned_about_once(filled, tmp_path):
    nowhere = """
    import numba.core.caching as caching
    def nothing(self):
        raise PermissionError(13, "Permission denied")
    caching._CacheLocator.ensure_cache_path = nothing"""
    drawn, warned = start(tmp_path / "missing" / "cache", nowhere)
    assert drawn == filled[1]
    assert len(warned) == 1
    assert "Numba's cache in any folder cannot be used" in warned[0]
    assert "NUMBA_CACHE_DIR" in warned[0]


def double(x):
    return 2 * x


@pytest.mark.parametrize("decorate", [jit.kernel, jit.part])
def test_without_a_place_to_keep_them_kernels_are_compiled_all_the_same(monkeypatch, decorate):
    asked = []

    def nowhere(**options):
        asked.append(options)
        if options.get("cache"):
            raise RuntimeError("cannot cache function: no locator available")
        return numba.njit(**options)

    monkeypatch.setattr(jit, "numba", SimpleNamespace(njit=nowhere))
    monkeypatch.setattr(jit, "_warned", False)
    with pytest.warns(RuntimeWarning, match="in any folder cannot be used .RuntimeError: cannot cache function"):
        assert decorate(double)(3) == 6
    assert decorate(double)(4) == 8  # no second warning, which would be an error here
    assert [options.pop("cache", False) for options in asked] == [True, False] * 2
    assert all(options == asked[0] for options in asked)


def test_nothing_stands_between_a_kernel_and_its_calls():
    """Dispatch is Numba's own: the cache is asked when something is compiled."""
    compiled = jit.kernel(double)
    assert type(compiled) is type(numba.njit(double))
    assert isinstance(compiled._cache, jit.TolerantCache)
    assert compiled.stats.cache_path == compiled._cache.cache_path


@pytest.mark.parametrize("collecting", [True, False])
def test_garbage_is_not_collected_while_a_kernel_compiles_and_then_as_before(collecting):
    def compile_signature(signature):
        seen.append(gc.isenabled())
        if signature == "wrong":
            raise TypeError
        return signature

    seen, dispatcher = [], SimpleNamespace(compile=compile_signature)
    jit._pause_collecting(dispatcher)
    was = gc.isenabled()
    try:
        (gc.enable if collecting else gc.disable)()
        assert dispatcher.compile("right") == "right"
        with pytest.raises(TypeError):
            dispatcher.compile("wrong")
        assert gc.isenabled() == collecting
    finally:
        (gc.enable if was else gc.disable)()
    assert seen == [False, False]
