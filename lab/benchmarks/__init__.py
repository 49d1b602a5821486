"""What `python -m lab bench` measures, one file per benchmark.

A benchmark is a function `measure(console, scale)`: it prints a line for whatever it has measured and gives all of it
as nested mappings of names to numbers, with units in the names.  `catalogue` lists the benchmarks and the peers that
each is compared with, `run` makes them one by one, `results` writes each to a file as soon as it is done, and reads
those files again for the report.
"""
