"""Fixtures of several experiments."""

import pytest


@pytest.fixture
def nothing(monkeypatch, tmp_path):
    """No data set, neither in a folder nor in the cache."""
    monkeypatch.setenv("VARMIX_DATA", str(tmp_path))
    monkeypatch.setattr("varmix.datasets.store._cache", lambda: tmp_path / "cache")
    return tmp_path


@pytest.fixture(autouse=True)
def active(monkeypatch):
    """Commands are told as in an environment that is active, with varmix from an index."""
    monkeypatch.setattr("varmix.commands._found", lambda name: True)
    monkeypatch.setattr("varmix.commands._origin", lambda: (None, False))
