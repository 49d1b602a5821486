"""Time two ways to make a receipt: `seal_draw`, and writing the fields of a closed object.

    python scripts/bench_receipts.py

`seal_draw` writes the fields into an open object and then changes its class. The output shows how much time that saves.
"""

import timeit

import numpy as np

from varmix._core.draw import Draw, seal_draw

ROUNDS, CALLS = 7, 100_000


class Closed:
    """A receipt whose fields are written by `object.__setattr__`, as in a frozen dataclass."""

    __slots__ = ("_ratios", "complete", "density", "groups", "indices", "sampler_id", "serial", "weights")

    def __init__(self, indices, weights, ratios, density, serial, sampler_id, groups=None, complete=False):
        write = object.__setattr__
        write(self, "indices", indices)
        write(self, "weights", weights)
        write(self, "_ratios", ratios)
        write(self, "density", density)
        write(self, "serial", serial)
        write(self, "sampler_id", sampler_id)
        write(self, "groups", groups)
        write(self, "complete", complete)

    __setattr__ = Draw.__setattr__


def main() -> None:
    """Print the time of both in one run, and their ratio."""
    indices, weights, ratios, density = np.arange(32), np.ones(32), np.ones((32, 3)), np.ones(32)
    fields = indices, weights, ratios, density, 3, "0" * 32

    def make_closed() -> Closed:
        for array in (indices, weights, density, ratios):
            array.setflags(write=False)
        return Closed(*fields)

    times = {}
    for name, make in (("seal_draw", lambda: seal_draw(*fields)), ("object.__setattr__", make_closed)):
        times[name] = min(timeit.repeat(make, number=CALLS, repeat=ROUNDS)) / CALLS * 1e6
        print(f"{name:20} {times[name]:.2f} us")
    print(f"{'ratio':20} {times['seal_draw'] / times['object.__setattr__']:.2f}")


if __name__ == "__main__":
    main()
