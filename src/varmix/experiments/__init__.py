"""One file per experiment; each can be run by itself with `python -m varmix.experiments.NAME`."""
