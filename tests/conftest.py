"""Settings for all tests."""

import os
import signal

import pytest
from hypothesis import settings

# Tests run side by side: threads of scikit-learn that wait for one another on busy cores take most of the time.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# What a shell starts in the background does not hear Ctrl-C, nor does what the tests start, unless told.
signal.signal(signal.SIGINT, signal.default_int_handler)

# No deadlines: times are not asserted, and the first example compiles.  The same examples in every run.
settings.register_profile("varmix", deadline=None, derandomize=True, database=None)
settings.load_profile("varmix")


@pytest.fixture
def active(monkeypatch):
    """Print commands as in an environment that is active."""
    monkeypatch.setattr("lab.commands._is_on_path", lambda name: True)
