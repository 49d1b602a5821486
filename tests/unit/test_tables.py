"""Dense and Distances: tables from arrays and memory maps."""

import numpy as np
import pytest

import varmix
from varmix import Dense, Distances
from varmix.components import _tables as tabulated
from varmix.components import with_uniform


@pytest.fixture
def probabilities():
    table = np.random.default_rng(0).gamma(0.5, size=(1000, 3))
    return table / table.sum(axis=0)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_any_float_type_is_stored_in_four_bytes(dtype, probabilities):
    # Float16 has no room for 1/n: give ratios.
    table = (probabilities * len(probabilities)).astype(dtype)
    family = Dense(ratios=table / table.astype(np.float64).mean(axis=0))
    assert family._ratios.dtype == np.float32
    assert family.ratios(np.arange(1000)).mean(axis=0) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("order", ["C", "F"])
def test_memory_maps_are_read_in_blocks(order, probabilities, tmp_path, monkeypatch):
    monkeypatch.setattr(tabulated, "ENTRIES_PER_BLOCK", 200)
    file = np.lib.format.open_memmap(
        tmp_path / "p.npy", mode="w+", dtype=np.float64, shape=probabilities.shape, fortran_order=order == "F"
    )
    file[:] = probabilities
    file.flush()
    family = Dense(np.load(tmp_path / "p.npy", mmap_mode="r"))
    atoms = np.arange(1000)
    assert np.array_equal(family.ratios(atoms), Dense(probabilities).ratios(atoms))
    assert family.ratios(atoms) == pytest.approx(probabilities * 1000, rel=1e-6)


def test_probabilities_and_ratios_say_the_same(probabilities):
    target = np.random.default_rng(1).random(1000)
    target /= target.sum()
    one = Dense(probabilities, target=target)
    other = Dense(ratios=probabilities / target[:, None], target=target)
    assert one.ratios(np.arange(1000)) == pytest.approx(other.ratios(np.arange(1000)), rel=1e-6)


def test_c_is_the_largest_ratio(probabilities):
    family = Dense(probabilities)
    assert family.c == pytest.approx(probabilities.max() * 1000, rel=1e-6)
    assert with_uniform(Dense(np.full((10, 1), 0.1))).c == pytest.approx(1)


def test_one_column_may_be_a_vector(probabilities):
    assert Dense(probabilities[:, 0]).k == 1


def test_the_callers_table_is_never_modified(probabilities):
    before = probabilities.copy()
    probabilities.setflags(write=False)
    sampler = varmix.vrm(Dense(probabilities), rng=0)
    sampler.update(sampler.draw(5), np.ones(5))
    assert np.array_equal(probabilities, before)


def test_the_uniform_component_shares_the_tables(probabilities):
    family = Dense(probabilities)
    assert with_uniform(family)._ratios is family._ratios


def _plain_distances(X, centers, smoothing, target):
    d = np.sqrt(((X[:, None, :] - centers[None]) ** 2).sum(axis=2))
    return (1 - smoothing) * d / (target[:, None] * d).sum(axis=0) + smoothing


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("with_target", [False, True])
def test_distances_are_those_of_section_6_4_normalised(smoothing, with_target, monkeypatch):
    monkeypatch.setattr(tabulated, "ENTRIES_PER_BLOCK", 150)
    rng = np.random.default_rng(0)
    X, target = rng.normal(size=(200, 5)) + 100, rng.random(200) if with_target else np.ones(200)
    target /= target.sum()
    family = Distances(X, X[:3], smoothing=smoothing, target=target if with_target else None)
    expected = _plain_distances(X, X[:3], smoothing, target)
    assert family.ratios(np.arange(200)) == pytest.approx(expected, rel=2e-6, abs=1e-6)


def test_distances_read_memory_maps_and_integers(tmp_path):
    X = np.random.default_rng(0).integers(-5, 5, size=(500, 4)).astype(np.int16)
    np.save(tmp_path / "X.npy", X)
    mapped = Distances(np.load(tmp_path / "X.npy", mmap_mode="r"), X[:2])
    assert np.array_equal(mapped.ratios(np.arange(500)), Distances(X.astype(float), X[:2]).ratios(np.arange(500)))


def test_points_that_are_all_the_centre_are_drawn_evenly():
    assert Distances(np.ones((5, 2)), [[1.0, 1.0]]).ratios(np.arange(5)) == pytest.approx(1)


def test_far_from_the_origin_no_digits_are_lost():
    X = np.array([[0.0], [1.0], [3.0]])
    near = Distances(X, X[:1]).ratios(np.arange(3))
    assert Distances(X + 1e9, X[:1] + 1e9).ratios(np.arange(3)) == pytest.approx(near, rel=1e-6)


def test_one_block_never_sets_the_scale_for_all(monkeypatch):
    monkeypatch.setattr(tabulated, "ENTRIES_PER_BLOCK", 4)
    X = np.concatenate([np.full(10, 1e-25), np.full(10, 1e20), np.full(10, 3e20)])[:, None]
    ratios = Distances(X, [[0.0]], smoothing=0.0).ratios(np.arange(30))[:, 0]
    assert ratios[[0, 10, 20]] == pytest.approx([0.0, 0.75, 2.25], abs=1e-6)


def test_centres_far_apart_keep_the_digits_near_each():
    offsets = np.array([0.0, 1e-3, 2e-3, 4e-3])
    X = np.column_stack([1e6 + offsets, np.zeros(4)])
    ratios = Distances(X, [[0.0, 0.0], [1e6, 0.0]], smoothing=0.0).ratios(np.arange(4))
    assert ratios[:, 1] == pytest.approx(offsets / offsets.mean(), rel=1e-5)
    assert ratios[:, 0] == pytest.approx(1, rel=1e-5)


def test_points_of_target_zero_do_not_count_for_c():
    assert Distances([[100.0], [1.0], [2.0], [3.0]], [[0.0]], target=[0, 1, 1, 1]).c == pytest.approx(1.45)


def test_building_distances_needs_little_more_than_the_table():
    tracemalloc = pytest.importorskip("tracemalloc")
    X = np.random.default_rng(0).normal(size=(30_000, 60)).astype(np.float32) + 1000
    tracemalloc.start()
    Distances(X, np.vstack([np.zeros(60), X[:9]]))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 14 * 30_000 * 10 + 60 * 8 * tabulated.ENTRIES_PER_BLOCK / 10
