"""Groups in sub-groups that are cut anew by the norms last seen: `resplit="norms"`."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import varmix
from support.oracles import nameless
from varmix import Groups, Sampler
from varmix._core.rng import Uniforms
from varmix.allocate import round_robin
from varmix.components import _groups as cross
from varmix.components import with_uniform
from varmix.learners import BarrierNewton, Fixed, Neyman
from varmix.testing import same

SIZES = np.array([1, 2, 3, 16, 50])
LABELS = np.random.default_rng(0).permutation(np.repeat(np.arange(5), SIZES))
N = len(LABELS)
SOURCES = np.array([5.0, 1.0, 0.5, 2.0, 3.0])[LABELS]


def family(labels=LABELS, **options):
    return Groups(labels, **{"replacement": False, "resplit": "norms", **options})


def sub_groups(groups):
    """Give the sub-group of every point, from the ratios."""
    n = groups.space.n
    return np.argmax(groups.ratios(np.arange(n))[:, : len(groups.masses)], axis=1)


def feed(sampler, norms, rounds=10, m=8):
    """Draw and give feedback; give the norms last seen."""
    seen = {}
    for _ in range(rounds):
        draw = sampler.draw(m)
        sampler.update(draw, norms[draw.indices])
        seen.update(zip(draw.indices.tolist(), norms[draw.indices].tolist(), strict=True))
    return seen


def resplit_groups(norms, labels=LABELS, **options):
    """Give a sampler that has seen all norms and has cut its groups by them."""
    sampler = varmix.vrm(family(labels, **options), rng=0)
    sampler.update(sampler.draw_all(), norms)
    sampler.end_epoch()
    return sampler


# The sub-groups -----------------------------------------------------------------------------------------------------


def test_groups_are_cut_at_fixed_parts_with_a_point_in_each():
    groups = family()
    assert groups.labels.tolist() == [0, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]
    assert (groups.masses * N).round(9).tolist() == [1, 1, 1, 1, 1, 1, 8, 6, 2, 25, 19, 6]
    assert groups.k == 12
    assert groups.c == N
    assert with_uniform(groups).k == 13


@pytest.mark.parametrize("parts", [(1 / 3, 1 / 3, 1 / 3), (0.98, 0.01, 0.01), (0.01, 0.01, 0.98), (0.5, 0.5)])
def test_any_parts_leave_a_point_in_each_where_there_are_enough(parts, monkeypatch):
    monkeypatch.setattr(cross, "SUB_GROUP_FRACTIONS", parts)
    groups = family()
    counts = np.bincount(sub_groups(groups), minlength=groups.k)
    assert counts.min() >= 1
    assert np.bincount(groups.labels).tolist() == np.minimum(SIZES, len(parts)).tolist()
    for label, size in enumerate(SIZES):
        mine = counts[groups.labels == label]
        assert mine.sum() == size
        assert np.abs(mine - size * np.array(parts)[: len(mine)]).max() < max(2, len(parts))


@settings(max_examples=50)
@given(st.data())
def test_splits_are_always_those_of_the_norms_last_seen(data):
    labels = np.array(data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=40)))
    levels = data.draw(st.integers(1, 5))
    seed = data.draw(st.integers(0, 99))
    rng = np.random.default_rng(seed)
    groups = with_uniform(family(labels))
    sampler = Sampler(groups, learner=BarrierNewton(), rng=seed, allocate=round_robin)
    masses, c, k = groups.masses.copy(), groups.c, groups.k
    sizes = np.bincount(sub_groups(groups), minlength=k - 1)
    seen = {}
    for _ in range(data.draw(st.integers(1, 4))):
        seen |= feed(sampler, rng.integers(levels, size=len(labels)) * 1.0, data.draw(st.integers(0, 5)))
        sampler.end_epoch()
        split = sub_groups(groups)
        np.testing.assert_array_equal(groups.labels[split], labels)  # never mixed
        np.testing.assert_array_equal(np.bincount(split, minlength=k - 1), sizes)
        assert np.array_equal(groups.masses, masses)
        assert (groups.c, groups.k) == (c, k)
        for label in np.unique(labels):
            known = [point for point in np.flatnonzero(labels == label) if point in seen]
            ordered = sorted(known, key=lambda point: (split[point], seen[point]))
            assert [seen[point] for point in ordered] == sorted(seen[point] for point in known)


def test_after_a_census_sub_groups_are_those_of_a_sort():
    norms = np.random.default_rng(1).gamma(0.3, size=N)
    sampler = resplit_groups(norms)
    split = sub_groups(sampler.components)
    for label in range(5):
        points = np.flatnonzero(LABELS == label)
        assert (np.diff(split[points[np.argsort(norms[points])]]) >= 0).all()


def test_points_not_seen_are_ranked_in_the_middle_of_their_group():
    sampler = varmix.vrm(family(np.zeros(80, dtype=int)), rng=0)
    draw = sampler.draw(11)
    norms = np.repeat([1.0, 5.0, 9.0], [5, 1, 5])
    sampler.update(draw, norms)
    sampler.end_epoch()
    split = sub_groups(sampler.components)
    assert np.bincount(split).tolist() == [40, 30, 10]
    assert (split[draw.indices[norms == 1]] == 0).all()
    assert (split[draw.indices[norms == 9]] == 2).all()


@pytest.mark.parametrize("norms", [None, np.zeros(3000), np.full(3000, 2.5)], ids=["nothing seen", "zero", "equal"])
def test_without_differences_sub_groups_do_not_follow_the_order_of_the_file(norms):
    labels = np.repeat([0, 1], 1500)
    sampler = varmix.vrm(family(labels), rng=0)
    if norms is not None:
        sampler.update(sampler.draw_all(), norms)
        sampler.end_epoch()
    split = sub_groups(sampler.components)
    for j in range(6):
        places = np.flatnonzero(split == j) % 1500
        assert abs(places.mean() - 750) < 4 * 433 / np.sqrt(len(places))
        assert np.ptp(places) > 1300


def test_the_first_cut_needs_no_seed_and_is_the_same_every_time():
    assert np.array_equal(sub_groups(family()), sub_groups(family()))


def test_points_of_target_zero_are_in_a_sub_group_of_their_label_and_never_come():
    target = np.where(np.arange(N) % 7 == 0, 0.0, 1.0)
    labels = np.where(LABELS < 3, 3, LABELS)
    sampler = varmix.vrm(family(labels, target=target), rng=0)
    feed(sampler, np.arange(N) * 1.0, 40)
    sampler.end_epoch()
    assert np.array_equal(sampler.components.labels[sub_groups(sampler.components)], labels)
    assert target[sampler.draw(500).indices].min() > 0


# Draws --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options", [{}, {"target": SOURCES}, {"replacement": True}, {"replacement": True, "smoothing": 0.2}]
)
def test_estimates_are_unbiased_after_every_resplit_by_exact_enumeration(options):
    rng = np.random.default_rng(2)
    groups = with_uniform(family(**options))
    sampler = Sampler(groups, learner=BarrierNewton(), rng=0, allocate=round_robin)
    target = np.full(N, 1 / N) if groups.space.target is None else groups.space.target
    g = rng.normal(size=N)
    for _ in range(4):
        feed(sampler, rng.gamma(0.3, size=N), 20)
        sampler.end_epoch()
        shares, split = groups.lanes(sampler.mixture), sub_groups(groups)
        weights = 1 / (groups.ratios(np.arange(N)) @ sampler.mixture)
        drawn = shares[split] / np.bincount(split)[split]  # the lane, then any of its points
        assert drawn.sum() == pytest.approx(1)
        assert np.sum(drawn * weights * g) == pytest.approx(np.sum(target * g), rel=1e-9)


def test_lanes_draw_their_own_sub_groups_evenly_after_a_resplit():
    sampler = resplit_groups(np.random.default_rng(1).gamma(0.3, size=N))
    groups, split = sampler.components, sub_groups(sampler.components)
    for lane, size in enumerate(np.bincount(split)):
        atoms, rows = groups.draw(np.full(size, lane), Uniforms(0))
        np.testing.assert_array_equal(np.sort(atoms), np.flatnonzero(split == lane))
        np.testing.assert_array_equal(rows, groups.ratios(atoms))


@pytest.mark.parametrize("m", [1, 8, 72])
def test_every_point_comes_once_per_pass_under_the_uniform_mixture(m):
    sampler = varmix.vrm(family(), learner=Fixed(np.eye(13)[-1]), rng=0)
    norms = np.random.default_rng(3).random(N)
    for _ in range(5):
        atoms = []
        for _ in range(N // m):
            draw = sampler.draw(m)
            sampler.update(draw, norms[draw.indices])
            atoms.extend(draw.indices.tolist())
        assert sorted(atoms) == list(range(N))
        sampler.end_epoch()


def test_cursors_start_anew_in_another_order():
    sampler = varmix.vrm(family(np.zeros(40, dtype=int)), learner=Fixed([0, 0, 0, 1.0]), rng=0)
    orders = []
    for _ in range(5):
        orders.append(sampler.draw(30).indices.tolist())
        sampler.end_epoch()
    assert len({tuple(order) for order in orders}) == 5


def test_a_sub_group_goes_on_with_the_points_that_it_had_still_to_serve():
    """Where nothing moves, refreshing changes nothing: all come once in a pass, however often groups are cut."""
    sampler = varmix.vrm(family(np.zeros(40, dtype=int)), learner=Fixed([0, 0, 0, 1.0]), rng=0)
    norms = np.random.default_rng(6).random(40)
    sampler.update(sampler.draw_all(), norms)
    sampler.end_epoch()
    for _ in range(5):
        came = []
        for _ in range(5):
            draw = sampler.draw(8)
            came += draw.indices.tolist()
            sampler.update(draw, norms[draw.indices])
            sampler.end_epoch()
        assert sorted(came) == list(range(40))


def test_the_first_receipt_after_a_resplit_has_the_new_sub_groups_and_older_ones_keep_theirs():
    sampler = varmix.vrm(family(), rng=0)
    old = sampler.draw(30)
    before, split = old.ratios.copy(), sub_groups(sampler.components)
    sampler.update(sampler.draw_all(), np.random.default_rng(4).random(N))
    sampler.end_epoch()
    assert not np.array_equal(sub_groups(sampler.components), split)
    np.testing.assert_array_equal(old.ratios, before)
    new = sampler.draw(30)
    np.testing.assert_array_equal(new.ratios, sampler.components.ratios(new.indices))


def test_feedback_from_before_a_resplit_is_still_taken_and_counts_at_the_next():
    sampler = varmix.vrm(family(), rng=0)
    late = sampler.draw(N)
    sampler.end_epoch()
    norms = np.arange(N) * 1.0
    mixture = sampler.mixture
    sampler.update(late, norms[late.indices])
    assert not np.array_equal(sampler.mixture, mixture)
    sampler.end_epoch()
    split = sub_groups(sampler.components)
    for label in range(5):
        points = np.intersect1d(np.flatnonzero(LABELS == label), late.indices)
        assert (np.diff(split[points]) >= 0).all()


def test_large_norms_are_drawn_more_often_once_groups_are_cut_by_them():
    """One label, and norms with a tail: plain groups can do nothing about it."""
    norms = np.exp(2 * np.random.default_rng(5).normal(size=2000))
    labels = np.zeros(2000, dtype=int)

    def second_moment(sampler):
        for _ in range(3):
            for _ in range(40):
                draw = sampler.draw(50)
                sampler.update(draw, norms[draw.indices])
            sampler.end_epoch()
        draw = sampler.draw(2000)
        return float(np.mean(norms**2 / (sampler.components.ratios(np.arange(2000)) @ sampler.mixture)))

    plain = second_moment(varmix.vrm(Groups(labels, replacement=False), rng=0))
    assert second_moment(varmix.vrm(family(labels), rng=0)) < 0.4 * plain
    groups = family(labels)
    assert second_moment(varmix.vrm(groups, learner=Neyman(groups), rng=0)) < 0.4 * plain


# State --------------------------------------------------------------------------------------------------------------


def run(sampler, rounds, ends=()):
    norms = np.random.default_rng(6).gamma(0.3, size=N)
    drawn = []
    for i in range(rounds):
        draw = sampler.draw(7)
        sampler.update(draw, norms[draw.indices])
        drawn.append((draw.indices.tolist(), draw.weights.tolist(), sampler.mixture.tolist()))
        if i in ends:
            sampler.end_epoch()
    return drawn


@pytest.mark.parametrize("options", [{}, {"target": SOURCES}, {"replacement": True}])
@pytest.mark.parametrize("ends", [(), (10,), (10, 24), (4, 8, 12)], ids=repr)
def test_loaded_samplers_go_on_bit_for_bit_in_mid_epoch_and_after_a_resplit(options, ends, tmp_path):
    sampler, other = (varmix.vrm(family(**options), rng=seed) for seed in (1, 2))
    run(sampler, 25, ends)
    varmix.save(tmp_path / "sampler", sampler)
    varmix.load(tmp_path / "sampler", other)
    assert same(nameless(other.state_dict()), nameless(sampler.state_dict()))
    assert run(other, 40, ends=(5, 30)) == run(sampler, 40, ends=(5, 30))
    assert same(nameless(other.state_dict()), nameless(sampler.state_dict()))


def test_an_epoch_that_ends_before_the_first_draw_can_be_saved():
    sampler, other = (varmix.vrm(family(), rng=1) for _ in range(2))
    sampler.end_epoch()
    other.load_state_dict(sampler.state_dict())
    assert run(other, 5) == run(sampler, 5)


def test_families_made_from_one_do_not_disturb_each_other():
    base = family()
    split = sub_groups(base)
    first, second, alone = (
        Sampler(with_uniform(groups), learner=BarrierNewton(), rng=0, allocate=round_robin)
        for groups in (base, base, family())
    )
    run(first, 30, ends=(5, 15))
    np.testing.assert_array_equal(sub_groups(base), split)
    np.testing.assert_array_equal(sub_groups(second.components), split)
    assert run(second, 30, ends=(5, 15)) == run(alone, 30, ends=(5, 15))


def test_a_family_takes_what_it_has_seen_along_when_it_is_extended():
    base = family()
    sampler = Sampler(base, learner=Fixed(), rng=0, allocate=round_robin)
    feed(sampler, np.arange(N) * 1.0, 20)
    extended = with_uniform(base)
    base.end_epoch()
    extended.end_epoch()
    np.testing.assert_array_equal(sub_groups(extended), sub_groups(base))


def damage(state, **changes):
    return {**state, **{name: change(state[name].copy()) for name, change in changes.items()}}


def put(index, value):
    def change(array):
        array[index] = value
        return array

    return change


def swap_across_groups(split):
    i, j = np.flatnonzero(LABELS == 3)[0], np.flatnonzero(LABELS == 4)[0]
    split[[i, j]] = split[[j, i]]
    return split


def all_in_one(split):
    split[LABELS == 4] = split[LABELS == 4].min()
    return split


DAMAGED = {
    "negative norm": ({"seen": put(3, -2.0)}, "must not be negative"),
    "negative zero": ({"seen": put(3, -0.0)}, "must not be negative"),
    "nan": ({"seen": put(3, np.nan)}, "not finite"),
    "fewer norms": ({"seen": lambda seen: seen[1:]}, "Saved seen must be an array of shape"),
    "norms in double": ({"seen": lambda seen: seen.astype(np.float64)}, "dtype float64"),
    "a sub-group too many": ({"split": put(0, 12)}, "belongs to other groups"),
    "another label": ({"split": swap_across_groups}, "belongs to other groups"),
    "other sizes": ({"split": all_in_one}, "belongs to other groups"),
    "another dtype": ({"split": lambda split: split.astype(np.int64)}, "dtype int64"),
    "cursors outside": ({"position": put(0, 99)}, "outside their groups"),
    "fewer marks": ({"due": lambda due: due[1:]}, "Saved due must be an array of shape"),
    "marks that count": ({"due": lambda due: due.astype(np.int64)}, "dtype int64"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_states_are_refused_and_change_nothing(name):
    changes, says = DAMAGED[name]
    sampler, other = (varmix.vrm(family(), rng=seed) for seed in (1, 2))
    run(sampler, 20, ends=(10,))
    run(other, 12, ends=(3,))
    groups = other.components
    before, split = groups.state_dict(), sub_groups(groups)
    with pytest.raises(ValueError, match=says):
        groups.load_state_dict(damage(sampler.components.state_dict(), **changes))
    assert same(groups.state_dict(), before)
    np.testing.assert_array_equal(sub_groups(groups), split)


@pytest.mark.parametrize("saved", [None, "norms"])
def test_states_with_and_without_resplit_do_not_fit_each_other(saved):
    families = {resplit: family(resplit=resplit) for resplit in (None, "norms")}
    other = families["norms" if saved is None else None]
    before = other.state_dict()
    with pytest.raises(ValueError, match="does not belong to Groups"):
        other.load_state_dict(families[saved].state_dict())
    assert same(other.state_dict(), before)


def test_feedback_that_is_refused_is_not_remembered():
    sampler = varmix.vrm(family(), rng=0)
    draw = sampler.draw(3)
    before = sampler.state_dict()
    with pytest.raises(ValueError, match="nan"):
        sampler.update(draw, [1.0, np.nan, 1.0])
    assert same(sampler.state_dict(), before)


def test_without_resplit_the_end_of_an_epoch_changes_nothing():
    sampler = varmix.vrm(Groups(LABELS, replacement=False), rng=0)
    run(sampler, 5)
    before = sampler.state_dict()
    sampler.end_epoch()
    assert same(sampler.state_dict(), before)
    assert sampler.components.resplit is None
