"""The benchmark of norms with a small scale. Tests check that there are times, not how long they are."""

import io
import json

import pytest
from rich.console import Console

from lab.benchmarks import norms


@pytest.fixture
def console():
    return Console(file=io.StringIO(), markup=False, highlight=False, soft_wrap=True)


def test_every_network_is_measured_plain_and_with_norms(console):
    pytest.importorskip("torch")
    results = norms.measure(console, norms.Scale(examples=2, side=8, length=4, width=8, calls=1, repeats=1))
    assert [name.split()[0] for name in results] == ["MLP", "CNN,", "Transformer,"]
    for kinds in results.values():
        assert kinds["step"]["time over the step's"] == kinds["step"]["memory over the step's"] == 1.0
        assert all(number > 0 for numbers in kinds.values() for number in numbers.values())
        assert kinds["with exact"]["MiB"] > kinds["step"]["MiB"]
    assert json.loads(json.dumps(results, allow_nan=False)) == results
    assert "with ghost" in console.file.getvalue()


def test_the_most_memory_counts_what_is_there_at_once():
    torch = pytest.importorskip("torch")

    def action():
        for _ in range(3):
            torch.zeros(2**18)

    assert 2**20 <= norms.measure_peak(torch.nn.ReLU(), action) < 2**21


@pytest.mark.usefixtures("no_peers")
def test_without_torch_nothing_is_measured(console):
    assert norms.measure(console) == {}
    assert "torch" in console.file.getvalue()
