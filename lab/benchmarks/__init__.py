"""The benchmarks of `python -m lab bench`, one file per benchmark.

A benchmark is a function `measure(console, scale)`. It prints one line per measurement and returns all of them as
nested mappings of names to numbers, with units in the names. `command` lists the benchmarks with their peers (packages
to compare with), runs them, writes each result to a file as soon as it is done, and reads these files for the report.
"""
