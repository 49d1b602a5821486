"""The lab: everything that measures varmix, from the paper's figures to benchmarks beside peers."""
