"""`varmix warmup torch` compiles what a first loader needs."""

import pytest

from support.warmup import find_compiled

pytest.importorskip("torch")

USE = """
import numpy as np
from varmix.torch import AdaptiveLoader

loader = AdaptiveLoader(list(range(1000)), np.arange(1000) % 4, batch_size=32, rng=0)
for batch, draw in loader:
    loader.update(draw, np.ones(len(batch)))
"""


def test_after_warming_up_a_first_loader_compiles_nothing():
    assert find_compiled("torch", USE) == ""
