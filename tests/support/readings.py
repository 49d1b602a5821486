"""Figures in what people read: wording may change, figures and their order may not."""

import math
import re

from varmix.meter import Interval

NUMBER = r"-?(?:\d[\d,]*\d|\d)(?:\.\d+)?(?:e[+-]?\d+)?|-?inf"


def read_numbers(text):
    """Return all numbers in a text, in order.

    >>> read_numbers("VRM took 1,200 us, 12.5% more than 3e-2 [-inf, 4.].")
    [1200.0, 12.5, 0.03, -inf, 4.0]
    """
    return [float(found.replace(",", "")) for found in re.findall(rf"(?<![\w.])(?:{NUMBER})(?![\w])", text)]


def read_percentages(text):
    """Return all numbers with a percent sign directly behind them."""
    return [float(found) for found in re.findall(r"(-?\d+(?:\.\d+)?)%", text)]


def read_intervals(text):
    """Return all values with an interval, in order.

    >>> read_intervals("0.691 [0.648, 0.738] here, 2x [?] there")
    [Interval(value=0.691, low=0.648, high=0.738), Interval(value=2.0, low=-inf, high=inf)]
    """
    found = re.findall(rf"({NUMBER})x? \[(?:({NUMBER}), ({NUMBER})|\?)\]", text)
    return [Interval(float(value), float(low or -math.inf), float(high or math.inf)) for value, low, high in found]


def read_shares(text):
    """Return all pairs of numbers with "of" between them, such as "3 of 8"."""
    return [(int(part), int(whole)) for part, whole in re.findall(r"(\d+) of (\d+)", text)]


def read_entries(text):
    """Return what is said by name, in order.

    >>> read_entries("uniform: 1 [1, 1]; VRM: 2 [1, 3].")
    {'uniform': '1 [1, 1]', 'VRM': '2 [1, 3]'}
    """
    return dict(entry.split(": ", 1) for entry in text.rstrip(".").split("; "))
