import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import varmix
from support.families import FAMILIES, LEARNERS, RESHUFFLED, use_general_sample
from support.oracles import nameless
from varmix import Sampler
from varmix.allocate import Shuffled, independent, one_component, round_robin, stratified, systematic
from varmix.learners import BarrierNewton, Fixed
from varmix.testing import all_atoms, same

ALL = FAMILIES | RESHUFFLED


def _norms(draw):
    return 0.5 + np.sin(draw.indices.reshape(len(draw), -1).sum(axis=1)) ** 2


def _sampler(make, rng):
    family = make()
    atoms = all_atoms(family.space)
    extended = np.all(family.ratios(atoms[atoms.reshape(len(atoms), -1)[:, 0] > 0])[:, -1] == 1)
    return Sampler(family, learner=BarrierNewton() if extended else Fixed(), rng=rng)


def _run(sampler, rounds, m=6):
    seen = []
    for i in range(rounds):
        if i % 12 == 11:
            sampler.end_epoch()
        draw = sampler.draw(m)
        sampler.update(draw, _norms(draw))
        seen.append((draw.indices.tolist(), draw.weights.tolist(), sampler.mixture.tolist()))
    return seen


def _same_after_loading(make, path):
    sampler = make()
    _run(sampler, 30)
    late = sampler.draw(4)
    varmix.save(path, sampler)
    expected = _run(sampler, 30)
    other = varmix.load(path, make())
    assert _run(other, 30) == expected
    assert same(nameless(other.state_dict()), nameless(sampler.state_dict()))
    other.update(late, np.ones(4))  # a receipt of the saved sampler is still good


@pytest.mark.parametrize("name", ALL)
def test_saved_and_loaded_samplers_go_on_bit_for_bit_for_every_family(name, tmp_path):
    _same_after_loading(lambda: _sampler(ALL[name], rng=3), tmp_path / "sampler.varmix")


@pytest.mark.parametrize("name", LEARNERS)
def test_saved_and_loaded_samplers_go_on_bit_for_bit_for_every_learner(name, tmp_path):
    family = FAMILIES["groups, uniform"]
    _same_after_loading(lambda: Sampler(family(), learner=LEARNERS[name](), rng=3), tmp_path / "sampler.varmix")


@pytest.mark.parametrize(
    "allocate", [independent, stratified, systematic, one_component, round_robin, Shuffled(7)], ids=repr
)
@pytest.mark.parametrize("name", ["reshuffled", "reshuffled, resplit"])
def test_saved_and_loaded_samplers_go_on_bit_for_bit_for_every_allocation(name, allocate, tmp_path):
    make = RESHUFFLED[name]
    _same_after_loading(
        lambda: Sampler(make(), learner=BarrierNewton(), rng=3, allocate=allocate), tmp_path / "sampler.varmix"
    )


def test_the_state_of_another_period_is_refused():
    one, other = (
        Sampler(RESHUFFLED["reshuffled"](), learner=BarrierNewton(), rng=3, allocate=Shuffled(period))
        for period in (7, 8)
    )
    before = str(other.state_dict())
    with pytest.raises(ValueError, match=r"had allocate = .*'period': 7.*, this one has .*'period': 8"):
        other.load_state_dict(one.state_dict())
    assert str(other.state_dict()) == before


def _everything():
    """One sampler for every family, and one for every learner."""
    for name in ALL:
        yield name, _sampler(ALL[name], rng=11)
    for name in LEARNERS:
        yield f"learner {name}", Sampler(FAMILIES["groups, uniform"](), learner=LEARNERS[name](), rng=11)


def test_another_process_goes_on_bit_for_bit_with_every_family_and_learner(tmp_path):
    expected = {}
    for name, sampler in _everything():
        _run(sampler, 17)
        varmix.save(tmp_path / name, sampler)
        expected[name] = _run(sampler, 20)
    code = (
        "import sys; sys.path[:0] = sys.argv[2:]; import json, pathlib, test_samplers as t, varmix;"
        "load = lambda name, sampler: varmix.load(pathlib.Path(sys.argv[1]) / name, sampler);"
        "print(json.dumps({name: t._run(load(name, sampler), 20) for name, sampler in t._everything()}))"
    )
    here = Path(__file__).parent
    command = [sys.executable, "-c", code, str(tmp_path), str(here), str(here.parent)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert json.loads(output) == json.loads(json.dumps(expected))


@pytest.mark.parametrize("name", ALL)
def test_several_batches_in_one_draw_are_one_round_for_every_family(name):
    sampler, other = (_sampler(ALL[name], rng=5) for _ in range(2))
    for _ in range(10):
        draw, again = (each.draw(3, batches=4) for each in (sampler, other))
        assert len(draw) == 12
        assert draw.indices.tolist() == again.indices.tolist()
        assert draw.weights == pytest.approx(1 / (draw.ratios @ sampler.mixture))
        for each in (sampler, other):
            each.update(draw if each is sampler else again, _norms(draw))


@pytest.mark.parametrize("name", ALL)
def test_one_seed_gives_one_result(name):
    first, second, other = (_sampler(ALL[name], rng=seed) for seed in (5, 5, 6))
    assert _run(first, 20) == _run(second, 20)
    assert _run(first, 20) != _run(other, 20)


# The density of groups is a share over a mass, and so differs from a sum of ratios in the last bit.
@pytest.mark.parametrize("name", [name for name, make in FAMILIES.items() if make().group_rows is None])
def test_the_fast_path_of_a_family_makes_the_draws_of_the_general_one(name):
    short = _sampler(FAMILIES[name], rng=5)
    long = _sampler(lambda: use_general_sample(FAMILIES[name]()), rng=5)
    assert _run(short, 30) == _run(long, 30)


def test_generators_are_asked_for_a_seed_and_left_alone():
    generator = np.random.default_rng(0)
    first, second = (varmix.uniform(1000, rng=generator) for _ in range(2))
    before = generator.bit_generator.state
    assert first.draw(20).indices.tolist() != second.draw(20).indices.tolist()
    assert generator.bit_generator.state == before
    again = varmix.uniform(1000, rng=np.random.default_rng(0))
    assert varmix.uniform(1000, rng=np.random.default_rng(0)).draw(9).indices.tolist() == again.draw(9).indices.tolist()
