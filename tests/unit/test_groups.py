import numpy as np
import pytest

import varmix
from varmix import Groups, Sampler
from varmix.allocate import round_robin
from varmix.components import Points, with_uniform
from varmix.learners import Fixed


@pytest.mark.parametrize(
    ("labels", "distinct"),
    [
        ([3, 1, 3, 3], [1, 3]),
        (np.array([-5, 1000, -5]), [-5, 1000]),
        (np.array([2**40, 0, 2**40]), [0, 2**40]),
        (["b", "a", "b"], ["a", "b"]),
        (np.array(["b", "a", "b"], dtype=object), ["a", "b"]),
        ([True, False], [False, True]),
        (np.array([200, 255, 200], dtype=np.uint8), [200, 255]),
    ],
    ids=repr,
)
def test_labels_of_any_kind_become_sorted_groups(labels, distinct):
    family = Groups(labels)
    assert family.labels.tolist() == distinct
    counts = np.array([np.sum(np.asarray(labels) == label) for label in distinct])
    assert family.masses == pytest.approx(counts / len(labels))
    for i, label in enumerate(np.asarray(labels)):
        assert int(family.ratios(np.array([i]))[0].argmax()) == distinct.index(label)


def _bytes(*families):
    parts = [part for family in families for part in (family, family._cursors, family._split) if part is not None]
    arrays = {id(a): a for part in parts for a in vars(part).values() if isinstance(a, np.ndarray)}
    return sum(array.nbytes for array in arrays.values() if len(array) > 100_000)


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize("groups", [2, 300, 70_000])
@pytest.mark.parametrize("sources", [False, True])
def test_a_point_costs_at_most_twelve_bytes(groups, replacement, sources):
    n = 200_000
    labels = np.arange(n) % groups
    target = 1.0 + labels % 3 if sources else None
    base = Groups(labels, replacement=replacement, target=target)
    sampler = varmix.vrm(base, rng=0, learner=Fixed())
    sampler.draw(10)
    assert _bytes(base, sampler.components) <= 12 * n


@pytest.mark.parametrize("replacement", [True, False])
def test_a_point_costs_four_bytes_more_with_resplit(replacement):
    n = 200_000
    sampler = varmix.vrm(Groups(np.arange(n) % 300, replacement=replacement, resplit="norms"), rng=0, learner=Fixed())
    sampler.update(sampler.draw(10), np.ones(10))
    sampler.end_epoch()
    sampler.draw(10)
    assert _bytes(sampler.components) <= 16 * n


def test_the_callers_labels_and_target_are_never_modified():
    labels, target = np.array([1, 0, 1, 1]), np.array([1.0, 2.0, 3.0, 4.0])
    copies = labels.copy(), target.copy()
    sampler = varmix.vrm(Groups(labels, target=target), rng=0)
    for _ in range(10):
        draw = sampler.draw(3)
        sampler.update(draw, np.ones(3))
    assert np.array_equal(labels, copies[0])
    assert np.array_equal(target, copies[1])


def test_smoothing_and_the_uniform_component_are_lanes_of_the_groups():
    family = with_uniform(Groups([0, 1, 1, 1], smoothing=0.2))
    w = np.array([0.3, 0.1, 0.6])
    shares = family.lanes(w)
    density = family.ratios(np.arange(4)) @ w
    assert density == pytest.approx(shares[[0, 1, 1, 1]] / family.masses[[0, 1, 1, 1]])
    assert len(shares) == 2


def test_families_made_from_one_do_not_share_cursors():
    base = Groups(np.arange(6) % 2, replacement=False)
    first, second = (Sampler(with_uniform(base), learner=Fixed(), rng=0, allocate=round_robin) for _ in range(2))
    drawn = first.draw(9).indices.tolist()
    assert second.draw(9).indices.tolist() == drawn


def test_proportions_of_sources_are_a_target():
    labels = np.array(["web"] * 90 + ["books"] * 10)
    wanted = np.where(labels == "books", 0.5 / 10, 0.5 / 90)
    sampler = varmix.vrm(Groups(labels, target=wanted, replacement=False), rng=0)
    assert sampler.components.masses == pytest.approx([0.5, 0.5])
    total = 0.0
    for _ in range(400):
        draw = sampler.draw(10)
        total += float((draw.weights * (draw.indices >= 90)).mean()) / 400
        sampler.update(draw, 1.0 + (draw.indices >= 90))
    assert total == pytest.approx(0.5, abs=0.01)


def test_vrm_chooses_carried_allocation_for_reshuffled_groups():
    assert varmix.vrm(Groups([0, 1], replacement=False)).allocate is round_robin
    assert varmix.vrm(Groups([0, 1])).allocate is varmix.allocate.stratified


def test_the_space_is_that_of_the_target():
    assert Groups([0, 1], target=[1, 3]).space == Points(2, [1, 3])


def test_a_target_that_varies_inside_groups_needs_a_table_and_a_constant_one_does_not():
    assert Groups([0, 0, 1], target=[1, 1, 5])._cumulative is None
    assert Groups([0, 0, 1], target=[1, 2, 5])._cumulative is not None


def test_groups_far_lighter_than_others_are_drawn_from_evenly():
    family = Groups([0, 0, 1, 1, 1], target=[1, 2, 1e-18, 2e-18, 1e-18])
    atoms, _ = family.draw(np.ones(4000, dtype=np.int64), varmix._core.rng.Uniforms(0))
    assert np.bincount(atoms, minlength=5)[2:] / 4000 == pytest.approx([0.25, 0.5, 0.25], abs=0.03)


@pytest.mark.parametrize("resplit", [None, "norms"])
def test_a_state_of_groups_with_other_members_is_refused(resplit):
    labels = np.repeat([0, 1], 20)
    saved = Groups(labels, replacement=False, resplit=resplit).state_dict()
    other = Groups(1 - labels, replacement=False, resplit=resplit)
    with pytest.raises(ValueError, match="other members"):
        other.load_state_dict(saved)
    Groups(labels, replacement=False, resplit=resplit).load_state_dict(saved)
