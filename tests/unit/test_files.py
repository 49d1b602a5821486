import pytest

from varmix._core.checkpoint import atomic_write


def test_what_was_there_stays_until_all_is_written(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with atomic_write(path) as file:
        file.write(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"


def test_a_failure_leaves_nothing_behind(tmp_path):
    path = tmp_path / "file"
    with pytest.raises(TypeError), atomic_write(path) as file:
        file.write(b"half") + "no number"
    assert list(tmp_path.iterdir()) == []
