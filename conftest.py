"""Settings for doctests and tests in every folder."""

import multiprocessing
import os

import pytest

# TorchRL prints about storages that it makes, which doctests would take for their own output.
os.environ.setdefault("RL_LOGGING_LEVEL", "WARNING")


@pytest.fixture(autouse=True)
def usual_start() -> None:
    """Reset how processes are started: TorchRL changes it when it is imported."""
    multiprocessing.set_start_method(None, force=True)
