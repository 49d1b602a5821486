"""What the meter says can be written for TensorBoard, and read back."""

import doctest
import inspect
from pathlib import Path

import pytest

pytest.importorskip("tensorboard")

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch.utils.tensorboard import SummaryWriter

from support.loaders import LABELS, Numbers, losses
from varmix.torch import AdaptiveLoader

PAGE = Path(__file__).parents[2] / "docs" / "torch.md"


def log(writer, summary, step):
    """Write numbers as scalars, and words as text."""
    for name, value in summary.items():
        if isinstance(value, str):
            writer.add_text(f"sampling/{name}", value, step)
        else:
            writer.add_scalar(f"sampling/{name}", value, step)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A short run, the summaries that were logged, and what can be read of it."""
    folder, logged = tmp_path_factory.mktemp("events"), []
    loader = AdaptiveLoader(Numbers(), LABELS, 8, rng=0)
    with SummaryWriter(folder) as writer:
        for epoch in range(3):
            for batch, draw in loader:
                loader.update(draw, losses(batch))
            logged.append(loader.meter.summary())
            log(writer, logged[-1], epoch)
    events = EventAccumulator(str(folder))
    events.Reload()
    return logged, events


def test_numbers_come_back_as_scalars(written):
    logged, events = written
    numbers = {name for name, value in logged[0].items() if not isinstance(value, str)}
    assert {"gain", "gain_low", "gain_high", "draws"} <= numbers
    assert set(events.Tags()["scalars"]) == {f"sampling/{name}" for name in numbers}
    for name in numbers:
        found = events.Scalars(f"sampling/{name}")
        assert [event.step for event in found] == [0, 1, 2]
        assert [event.value for event in found] == pytest.approx([summary[name] for summary in logged], rel=1e-6)


def test_the_verdict_comes_back_as_text(written):
    logged, events = written
    found = events.Tensors("sampling/verdict/text_summary")
    texts = [event.tensor_proto.string_val[0].decode() for event in found]
    assert texts == [summary["verdict"] for summary in logged]


def test_the_page_shows_this_very_code():
    shown = [example.source for example in doctest.DocTestParser().get_examples(PAGE.read_text())]
    assert inspect.getsource(log) in shown
