"""Settings for all tests."""

import os

from hypothesis import settings

# Tests run side by side: threads of scikit-learn that wait for one another on busy cores take most of the time.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# No deadlines: times are not asserted, and the first example compiles.  The same examples in every run.
settings.register_profile("varmix", deadline=None, derandomize=True, database=None)
settings.load_profile("varmix")
