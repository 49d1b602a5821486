"""The lab: reproduction of the paper, benchmarks, data sets and results. It is not part of the installed package."""
