"""Settings for doctests and tests in every folder."""

import multiprocessing
import os

import pytest

# TorchRL prints messages about new storages; doctests would take them for output of the examples.
os.environ.setdefault("RL_LOGGING_LEVEL", "WARNING")


@pytest.fixture(autouse=True)
def usual_start() -> None:
    """Reset the start method of processes, which the import of TorchRL changes."""
    multiprocessing.set_start_method(None, force=True)
