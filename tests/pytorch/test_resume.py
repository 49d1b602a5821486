"""A run that is stopped goes on with exactly the batches and mixtures of one that is not."""

import io
import json
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.stateful import Stateful

import varmix
from support.loaders import EAGER, LABELS, NEARLY, Numbers, follow
from varmix.torch import AdaptiveLoader


def make(workers=0, resplit=None, **options):
    family = varmix.Groups(LABELS, replacement=False, resplit=resplit)
    return AdaptiveLoader(Numbers(), family, 8, num_workers=workers, **{"rng": 0, "learner": EAGER, **options})


def through_a_file(state):
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


@pytest.mark.parametrize("resplit", [None, "norms"])
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("stop", [1, 5, 12, 13, 14, 20, 26])
@pytest.mark.parametrize("learner", [EAGER, NEARLY], ids=["eager", "cautious"])
def test_a_run_stopped_anywhere_goes_on_as_if_it_had_not(workers, stop, resplit, learner):
    whole = follow(make(workers, resplit, learner=learner), epochs=3)
    first = make(workers, resplit, learner=learner)
    before = follow(first, steps=stop, epochs=3)
    state = through_a_file(first.state_dict())
    second = make(workers, resplit, learner=learner, rng=99)
    second.load_state_dict(state)
    after = follow(second, steps=39 - stop, epochs=4)
    assert before + after == whole
    assert len({str(mixture) for *_, mixture in whole}) > 20
    assert second.meter.gain == _meter(make(workers, resplit, learner=learner)).gain


def _meter(loader):
    follow(loader, epochs=3)
    return loader.meter


def test_a_loop_whose_batches_are_all_fetched_ends_when_a_state_is_loaded():
    loader = make(1, steps=3, prefetch_factor=4)
    saved = loader.state_dict()
    loop = iter(loader)
    next(loop)
    loader.load_state_dict(saved)
    with pytest.raises(RuntimeError, match="a state was loaded"):
        next(loop)


def test_a_loop_that_has_not_begun_goes_on_with_the_state_that_is_loaded():
    first = make(2)
    follow(first, steps=5)
    saved = first.state_dict()
    loader, other = make(), make()
    loop = iter(loader)
    loader.load_state_dict(saved)
    other.load_state_dict(saved)
    rest = [(batch.tolist(), draw.indices.tolist()) for batch, draw in loop]
    assert rest == [(batch.tolist(), batch.tolist()) for batch, _ in other]


def test_an_epoch_that_was_saved_at_its_last_batch_has_nothing_left():
    loader = make(2)
    follow(loader, steps=13)
    saved, other = loader.state_dict(), make(2)
    other.load_state_dict(saved)
    assert other.epoch == 0
    assert list(other) == []
    assert len(list(other)) == 13
    assert other.epoch == 1


def test_an_epoch_that_was_saved_after_its_end_is_followed_by_the_next():
    loader = make(2)
    follow(loader)
    other = make(2)
    other.load_state_dict(loader.state_dict())
    assert len(list(other)) == 13
    assert other.epoch == 1


def test_a_loader_that_has_not_begun_is_saved_too():
    loader, other = make(), make(rng=5)
    other.load_state_dict(through_a_file(loader.state_dict()))
    assert follow(other) == follow(loader)


def test_the_number_of_an_epoch_that_goes_on_may_be_set():
    loader, other = make(), make()
    follow(loader, steps=3)
    other.load_state_dict(loader.state_dict())
    other.set_epoch(4)
    assert len(list(other)) == 10
    assert other.epoch == 4


def test_receipts_from_before_the_state_are_taken_after_it_was_loaded():
    loader = make()
    batches = iter(loader)
    _, draw = next(batches)
    state = loader.state_dict()
    _, late = next(batches)
    loader.load_state_dict(state)
    loader.update(draw, torch.ones(8))
    next(iter(loader))
    with pytest.raises(ValueError, match="abandoned run"):
        loader.update(late, torch.ones(8))


def test_a_loop_is_over_when_a_state_is_loaded():
    loader = make()
    batches = iter(loader)
    next(batches)
    loader.load_state_dict(loader.state_dict())
    with pytest.raises(RuntimeError, match="state was loaded"):
        next(batches)


def test_it_keeps_to_the_protocol_of_stateful_objects():
    assert isinstance(make(), Stateful)
    assert isinstance(make().batches, Stateful)


def leaves(value):
    if isinstance(value, (dict, tuple)):
        return [leaf for part in (value.values() if isinstance(value, dict) else value) for leaf in leaves(part)]
    return [value]


def test_a_state_is_tensors_and_plain_values():
    loader = make(2, "norms")
    follow(loader, steps=5)
    assert {type(leaf) for leaf in leaves(loader.state_dict())} <= {torch.Tensor, int, float, str, bool, type(None)}


def _damaged(change):
    loader = make(2)
    follow(loader, steps=3)
    state = loader.state_dict()
    change(state["loader"][0])
    return state


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda state: state["sampler"].pop("meter"), "meter"),
        (lambda state: state["epoch"].update(size=16), "batch_size 16"),
        (lambda state: state["epoch"].update(full=3), "full batches in an epoch: 3"),
        (lambda state: state["epoch"].update(drawn=-1), "drawn"),
        (lambda state: state["epoch"]["in_flight"]["0"].pop("density"), "density"),
        (
            lambda state: state["epoch"]["in_flight"]["0"].update(density=torch.ones(3)),
            "density must be .* shape \\(8\\)",
        ),
        (lambda state: state["epoch"]["in_flight"]["0"].update(rows=torch.ones(8, 4)), "rows must be .* float64"),
        (lambda state: state["sampler"]["components"].update(mark=1), "other members"),
        (lambda state: state["sampler"].pop("serial"), "serial"),
        (lambda state: state["sampler"]["components"].update(masses=torch.ones(3) / 3), "masses"),
        (lambda state: state["sampler"]["meter"].update(decay=0.5), "another window"),
        (lambda state: state["sampler"]["meter"].update(unit=float("nan")), "damaged"),
        (lambda state: state["sampler"]["meter"].update(sums=torch.ones(3)), "sums"),
    ],
)
def test_a_state_that_does_not_fit_is_refused_and_nothing_changes(change, words):
    loader = make(2)
    follow(loader, steps=2)
    before = str(loader.state_dict())
    with pytest.raises(ValueError, match=words):
        loader.load_state_dict(_damaged(change))
    assert str(loader.state_dict()) == before


@pytest.mark.parametrize("state", [{}, {"loader": {}}, {"loader": ()}, {"sampler": 1}])
def test_what_is_no_state_of_a_loader_is_refused(state):
    with pytest.raises(ValueError, match="loader"):
        make().load_state_dict(state)


@pytest.mark.filterwarnings("ignore")  # of torch, about a process group that there is none of
def test_distributed_checkpoints_take_it(tmp_path):
    loader, other = make(2), make(2, rng=3)
    whole = follow(make(2), steps=20, epochs=2)
    before = follow(loader, steps=6)
    dcp.save({"loader": loader}, checkpoint_id=tmp_path)
    dcp.load({"loader": other}, checkpoint_id=tmp_path)
    assert before + follow(other, steps=14, epochs=2) == whole


SCRIPT = """
    import json, sys, torch, varmix
    from support.loaders import EAGER, LABELS, Numbers, follow
    from varmix.torch import AdaptiveLoader
    groups = varmix.Groups(LABELS, replacement=False)
    loader = AdaptiveLoader(Numbers(), groups, 8, learner=EAGER, num_workers=2, rng=7)
    loader.load_state_dict(torch.load(sys.argv[1], weights_only=True))
    print(json.dumps(follow(loader, steps=20, epochs=3)))
"""


def test_a_run_goes_on_in_another_process(tmp_path):
    whole = follow(make(2), steps=27, epochs=3)
    loader = make(2)
    follow(loader, steps=7)
    torch.save(loader.state_dict(), tmp_path / "state.pt")
    command = [sys.executable, "-c", textwrap.dedent(SCRIPT), str(tmp_path / "state.pt")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=_environment())
    assert json.loads(done.stdout) == json.loads(json.dumps(whole[7:]))


def _environment():
    import os
    from pathlib import Path

    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])}


def test_ratios_of_all_families_come_back():
    ratios = np.random.default_rng(0).gamma(1.0, size=(100, 3))
    family = varmix.Dense(ratios / ratios.sum(axis=0))
    loaders = [AdaptiveLoader(Numbers(), family, 8, num_workers=2, rng=rng) for rng in (0, 0, 1)]
    whole = follow(loaders[0], steps=30, epochs=3)
    before = follow(loaders[1], steps=4)
    loaders[2].load_state_dict(through_a_file(loaders[1].state_dict()))
    assert before + follow(loaders[2], steps=26, epochs=3) == whole
