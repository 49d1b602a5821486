"""Fixtures for the tests of several experiments."""

import pytest


@pytest.fixture
def nothing(monkeypatch, tmp_path):
    """Provide no data set, neither in a folder nor in the cache."""
    monkeypatch.setenv("VARMIX_DATA", str(tmp_path))
    monkeypatch.setattr("lab.datasets.store._find_cache", lambda: tmp_path / "cache")
    return tmp_path


@pytest.fixture(autouse=True)
def commands_of_an_active_environment(active):
    """Make messages contain the same commands in every environment."""
