"""Settings for all tests."""

from hypothesis import settings

# No deadlines: times are not asserted, and the first example compiles.  The same examples in every run.
settings.register_profile("varmix", deadline=None, derandomize=True, database=None)
settings.load_profile("varmix")
