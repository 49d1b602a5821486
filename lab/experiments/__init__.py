"""One module or package per experiment, run by `python -m lab reproduce NAME`."""
