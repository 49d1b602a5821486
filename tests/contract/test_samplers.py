import json
import subprocess
import sys

import numpy as np
import pytest

import varmix
from families import FAMILIES, LABELS, LEARNERS, RESHUFFLED
from varmix import BarrierNewton, Fixed, Groups, Sampler
from varmix.allocate import carried, independent, shared, stratified, systematic
from varmix.testing import same

ALL = FAMILIES | RESHUFFLED


def _norms(draw):
    return 0.5 + np.sin(draw.indices.astype(float)) ** 2


def _sampler(make, rng):
    family = make()
    anchored = np.all(family.ratios(np.arange(1, 40, 3))[:, -1] == 1)
    return Sampler(family, BarrierNewton() if anchored else Fixed(), rng=rng)


def _run(sampler, rounds, m=6):
    seen = []
    for _ in range(rounds):
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
    assert same(other.state_dict(), sampler.state_dict())
    other.update(late, np.ones(4))  # a receipt of the saved sampler is still good


@pytest.mark.parametrize("name", ALL)
def test_saved_and_loaded_samplers_go_on_bit_for_bit_for_every_family(name, tmp_path):
    _same_after_loading(lambda: _sampler(ALL[name], rng=3), tmp_path / "sampler.varmix")


@pytest.mark.parametrize("name", LEARNERS)
def test_saved_and_loaded_samplers_go_on_bit_for_bit_for_every_learner(name, tmp_path):
    family = FAMILIES["groups, anchored"]
    _same_after_loading(lambda: Sampler(family(), LEARNERS[name](), rng=3), tmp_path / "sampler.varmix")


@pytest.mark.parametrize("allocate", [independent, stratified, systematic, shared, carried], ids=repr)
def test_saved_and_loaded_samplers_go_on_bit_for_bit_for_every_allocation(allocate, tmp_path):
    make = RESHUFFLED["reshuffled"]
    _same_after_loading(lambda: Sampler(make(), BarrierNewton(), rng=3, allocate=allocate), tmp_path / "sampler.varmix")


OTHER_PROCESS = """
import json, sys
import numpy as np, varmix
sampler = varmix.vrm(varmix.Groups(np.array(json.loads(sys.argv[2])), replacement=False))
varmix.load(sys.argv[1], sampler)
for _ in range(20):
    draw = sampler.draw(6)
    sampler.update(draw, 0.5 + np.sin(draw.indices.astype(float)) ** 2)
    print(json.dumps([draw.indices.tolist(), draw.weights.tolist(), sampler.mixture.tolist()]))
"""


def test_another_process_goes_on_bit_for_bit(tmp_path):
    sampler = varmix.vrm(Groups(LABELS, replacement=False), rng=11)
    _run(sampler, 17)
    path = tmp_path / "sampler.varmix"
    varmix.save(path, sampler)
    command = [sys.executable, "-c", OTHER_PROCESS, str(path), json.dumps(LABELS.tolist())]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert [json.loads(line) for line in output.splitlines()] == [list(row) for row in _run(sampler, 20)]


@pytest.mark.parametrize("name", ALL)
def test_one_seed_gives_one_result(name):
    first, second, other = (_sampler(ALL[name], rng=seed) for seed in (5, 5, 6))
    assert _run(first, 20) == _run(second, 20)
    assert _run(first, 20) != _run(other, 20)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_compiled_shortcut_gives_the_same_numbers_as_the_parts(name):
    short, long = (_sampler(FAMILIES[name], rng=5) for _ in range(2))
    long._shortcut = None
    assert _run(short, 30) == _run(long, 30)


def test_generators_are_asked_for_a_seed_and_left_alone():
    generator = np.random.default_rng(0)
    first, second = (varmix.uniform(1000, rng=generator) for _ in range(2))
    before = generator.bit_generator.state
    assert first.draw(20).indices.tolist() != second.draw(20).indices.tolist()
    assert generator.bit_generator.state == before
    again = varmix.uniform(1000, rng=np.random.default_rng(0))
    assert varmix.uniform(1000, rng=np.random.default_rng(0)).draw(9).indices.tolist() == again.draw(9).indices.tolist()
