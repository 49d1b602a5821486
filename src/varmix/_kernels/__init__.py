"""Compiled loops that several packages use: arrays in, arrays out, no validation.

Callers allocate the arrays that a kernel writes to: allocating one in Python takes 0.15 us, returning one from
compiled code 0.5 us. Random numbers are an argument. Every kernel ends in bounded time for any input. Its results are
unspecified for non-finite numbers, which callers must rule out.
"""
