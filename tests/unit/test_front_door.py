"""Sampler(labels): what it takes, what it refuses, and what it says of itself."""

import copy
import pickle
import re
import subprocess
import sys

import numpy as np
import pytest

import varmix
from varmix import Dense, Distances, Groups, KDpp, Sampler, Stack, Uniform, vrm
from varmix.allocate import Shuffled, one_component, round_robin, stratified
from varmix.components import Family, Points, with_uniform
from varmix.learners import ONS, BarrierNewton, Cautious, Evidence, Fixed
from varmix.meter import GainMeter, Interval

LABELS = np.repeat(["common", "rare"], [90, 10])
LOSSES = np.where(LABELS == "rare", 3.0, 0.1)
TABLE = np.random.default_rng(0).dirichlet(np.ones(100), size=2).T


def dense():
    return Dense(TABLE)


def trained(sampler, rounds=60, m=20):
    for _ in range(rounds):
        draw = sampler.draw(m)
        sampler.update(draw, LOSSES[draw.indices])
    return sampler


class Column:
    """What a column of a table looks like to NumPy."""

    def __init__(self, values):
        self.values, self.iloc = values, None

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.values, dtype=object)


class Frame(Column):
    """A table of several columns."""

    columns = ("label", "weight")


# What a source becomes


@pytest.mark.parametrize(
    ("source", "learner", "allocate", "k"),
    [
        (lambda: LABELS, Cautious(), Shuffled(100), 3),
        (lambda: LABELS.tolist(), Cautious(), Shuffled(100), 3),
        (lambda: range(100), Cautious(), Shuffled(100), 101),
        (lambda: Column(LABELS), Cautious(), Shuffled(100), 3),
        (lambda: LABELS == "rare", Cautious(), Shuffled(100), 3),
        (lambda: Groups(LABELS, replacement=False), Cautious(), Shuffled(100), 3),
        (lambda: Groups(LABELS), BarrierNewton(), stratified, 3),
        (dense, BarrierNewton(), stratified, 3),
        (lambda: Stack(dense(), Groups(LABELS)), BarrierNewton(), stratified, 5),
        (lambda: Uniform(100), BarrierNewton(), stratified, 1),
        (lambda: KDpp(TABLE, 3, [1.0]), BarrierNewton(), stratified, 2),
        (lambda: Groups(LABELS, replacement=False, target=1.0 + (LABELS == "rare")), Cautious(), Shuffled(100), 3),
    ],
)
def test_every_source_gets_the_defaults_that_we_advise(source, learner, allocate, k):
    sampler = Sampler(source(), rng=0)
    assert (sampler.learner, sampler.allocate, sampler.components.k) == (learner, allocate, k)
    assert sampler.components.has_uniform
    assert len(sampler.draw(4)) == 4


def test_points_that_the_target_leaves_out_are_no_part_of_an_epoch():
    target = np.where(LABELS == "rare", 0.0, 1.0)
    family = Groups(np.where(np.arange(100) < 50, "first", "second"), replacement=False, target=np.ones(100))
    assert Sampler(family).allocate == Shuffled(100)
    labels = np.where(LABELS == "rare", "none", "some")
    with pytest.raises(ValueError, match="Group 'none' has no points to draw"):
        Sampler(Groups(labels, replacement=False, target=target))


def test_gamma_and_learners_reach_the_sampler():
    assert Sampler(LABELS, gamma=0.3).learner == Cautious(BarrierNewton(gamma=0.3))
    assert Sampler(dense(), gamma=0.3).learner == BarrierNewton(gamma=0.3)
    always = Sampler(LABELS, learner=ONS())
    assert (always.learner, always.allocate) == (ONS(), round_robin)
    assert Sampler(LABELS, allocate=one_component).allocate is one_component


def test_until_a_mixture_pays_labels_are_plain_shuffling():
    sampler = Sampler(LABELS, rng=3)
    for _ in range(3):
        assert sorted(sampler.draw(100).indices.tolist()) == list(range(100))
    assert set(sampler.draw(7).weights.tolist()) == {1.0}


def test_the_paper_s_mixture_is_always_on_with_the_same_groups():
    sampler = vrm(Groups(LABELS, replacement=False), rng=0)
    assert (sampler.learner, sampler.allocate) == (BarrierNewton(), round_robin)
    assert sampler.mixture[:2].min() > 0


# The uniform component


def test_the_uniform_component_is_added_once_and_last():
    ready = with_uniform(dense())
    cases = {
        "missing": (dense(),),
        "there": (ready,),
        "beside": (dense(), Uniform(100)),
        "before": (Uniform(100), dense()),
        "on both sides": (Uniform(100), dense(), Uniform(100)),
        "in a stack": (Stack(dense(), Uniform(100)),),
    }
    for name, sources in cases.items():
        components = Sampler(*sources).components
        assert components.k == 3, name
        assert (components.ratios(np.arange(100))[:, -1] == 1).all(), name


def test_a_table_with_a_uniform_column_needs_no_other():
    table = np.column_stack([TABLE, np.full(100, 0.01)])
    assert Sampler(Dense(table)).components.k == 3
    assert Sampler(Dense(table[:, ::-1])).components.k == 4  # not the last column
    uneven = table.copy()
    uneven[:2, 2] += [0.001, -0.001]
    assert Sampler(Dense(uneven)).components.k == 4


def test_a_fixed_mixture_says_whether_there_is_a_uniform_component():
    assert Sampler(Groups(LABELS), learner=Fixed([0.5, 0.5])).components.k == 2
    assert Sampler(Groups(LABELS), learner=Fixed([0.3, 0.3, 0.4])).components.k == 3
    assert Sampler(Groups(LABELS), learner=Fixed()).components.k == 2
    assert vrm(Groups(LABELS), learner=Fixed()).components.k == 3
    with pytest.raises(ValueError, match=r"4 entries, and there are 2 components. Pass one entry each, or one more"):
        Sampler(Groups(LABELS), learner=Fixed([0.25] * 4))
    for family in (Uniform(100), with_uniform(Groups(LABELS))):  # which have it already
        with pytest.raises(ValueError, match=r"Pass one entry each\.$"):
            Sampler(family, learner=Fixed(np.full(family.k + 1, 1.0 / (family.k + 1))))


def test_a_family_that_adds_it_by_itself_is_asked_and_a_wrapper_is_not_lost():
    class Wrapper(Family):
        """Delegates to another family, as users' wrappers do."""

        def __init__(self, inner):
            self._inner, self.space, self.k, self.c = inner, inner.space, inner.k, inner.c
            self.drawn = 0

        def draw(self, lanes, uniforms):
            self.drawn += 1
            return self._inner.draw(lanes, uniforms)

        def ratios(self, atoms):
            return self._inner.ratios(atoms)

        def __getattr__(self, name):
            return getattr(self.__dict__["_inner"], name)

    wrapper = Wrapper(dense())
    Sampler(wrapper, rng=0).draw(50)
    assert wrapper.drawn > 0


# What it says of itself


def test_before_feedback_it_knows_no_gain():
    sampler = Sampler(LABELS)
    assert (str(sampler.gain), sampler.learned_gain) == ("1 [?]", 1.0)
    assert "No verdict yet" in sampler.meter.verdict()


def test_its_meter_is_one_that_was_fed_beside_it():
    sampler, beside = Sampler(LABELS, rng=0), GainMeter()
    for _ in range(80):
        draw = sampler.draw(16)
        norms, gradient = LOSSES[draw.indices], np.array([1.0, LOSSES[draw.indices].mean()])
        beside.update(draw, norms, gradient=gradient)
        sampler.update(draw, norms, gradient=gradient)
    assert sampler.gain == beside.gain
    assert sampler.meter.noise == beside.noise is not None
    assert sampler.meter.draws == 80 * 16
    assert isinstance(sampler.gain, Interval)
    assert sampler.gain.low > 1.2


def test_refused_feedback_does_not_reach_the_meter():
    sampler = trained(Sampler(LABELS, rng=0), rounds=3)
    before, draw = sampler.meter.state_dict(), sampler.draw(4)
    with pytest.raises(ValueError, match="norms"):
        sampler.update(draw, [1.0, -1.0, 1.0, 1.0])
    with pytest.raises(ValueError, match="gradient"):
        sampler.update(draw, np.ones(4), gradient=[np.nan])
    assert str(sampler.meter.state_dict()) == str(before)
    sampler.update(draw, np.ones(4))
    assert sampler.meter.batches == 4


def test_feedback_for_all_points_teaches_and_is_no_part_of_the_gain():
    sampler = trained(vrm(Groups(LABELS), rng=0), rounds=5)
    before, mixture, everything = sampler.gain, sampler.mixture, pickle.loads(pickle.dumps(sampler.draw_all()))
    sampler.update(everything, LOSSES[everything.indices])
    assert everything.complete
    assert not sampler.draw(2).complete
    assert sampler.gain == before
    assert sampler.mixture.tolist() != mixture.tolist()


def test_the_learned_gain_is_that_of_what_waits_to_be_played():
    sampler = trained(Sampler(LABELS, rng=0), rounds=5)
    assert sampler.gain.value == 1.0  # so far it has played plain shuffling
    assert sampler.learned_gain > 1.0
    assert sampler.learned_mixture.tolist() != sampler.mixture.tolist()


def test_shares_are_by_label_or_name_and_sum_to_one():
    sampler = Sampler(LABELS, rng=0)
    assert sampler.shares == pytest.approx({"common": 0.9, "rare": 0.1})
    assert trained(sampler).shares["rare"] > 0.5
    for family, names in [
        (dense(), ["column 0", "column 1", "uniform"]),
        (Distances(TABLE, TABLE[:2]), ["center 0", "center 1", "uniform"]),
        (KDpp(TABLE, 3, [0.5, 2.0]), ["ridge 0.5", "ridge 2", "uniform"]),
        (Groups([3, 5, 5]), [3, 5]),
        (Stack(Groups([0, 1]), Groups([0, 0], smoothing=0.5)), ["0: 0", "0: 1", "1: 0", "uniform"]),
        (varmix.Replay(5, [(0.01, 0.6)]), ["epsilon 0.01, alpha 0.6", "uniform"]),
        (
            Groups([0] * 8 + [1], replacement=False, resplit="norms"),
            ["0, norms 1/3", "0, norms 2/3", "0, norms 3/3", "1"],
        ),
    ]:
        shares = Sampler(family).shares
        assert list(map(str, shares)) == list(map(str, names))
        assert sum(shares.values()) == pytest.approx(1.0)


def test_the_meter_is_part_of_the_state(tmp_path):
    sampler = trained(Sampler(LABELS, rng=0))
    varmix.save(tmp_path / "file", sampler)
    other = varmix.load(tmp_path / "file", Sampler(LABELS))
    assert other.gain == sampler.gain
    assert other.meter.verdict() == sampler.meter.verdict()
    assert trained(other, 5).gain == trained(sampler, 5).gain
    state = sampler.state_dict()
    state["meter"]["draws"] = 1
    with pytest.raises(varmix.CheckpointError, match="GainMeter is damaged"):
        other.load_state_dict(state)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))])
def test_a_copy_has_a_meter_of_its_own_that_goes_on(copied):
    sampler = trained(Sampler(LABELS, rng=0), 10)
    other, before = copied(sampler), sampler.gain
    assert other.gain == before
    trained(other, 60)
    assert other.gain.value > sampler.gain.value == before.value
    assert other.meter.draws == 70 * 20
    Sampler(LABELS).load_state_dict(other.state_dict())


def test_who_holds_the_meter_sees_it_go_on_after_loading():
    saved, sampler = trained(Sampler(LABELS, rng=0), 20).state_dict(), Sampler(LABELS)
    held = sampler.meter
    sampler.load_state_dict(saved)
    assert held.batches == 20
    trained(sampler, 5)
    assert held.batches == 25


def test_a_meter_of_a_longer_run_is_refused():
    state = Sampler(LABELS).state_dict() | {"meter": trained(Sampler(LABELS, rng=0), 3).meter.state_dict()}
    with pytest.raises(varmix.CheckpointError, match="counts 3 receipts, but only 0 were issued"):
        Sampler(LABELS).load_state_dict(state)


def test_a_gradient_of_all_points_is_refused():
    sampler = Sampler(LABELS, rng=0)
    draw = sampler.draw_all()
    with pytest.raises(ValueError, match="leave gradient out"):
        sampler.update(draw, LOSSES, gradient=[1.0])
    sampler.update(draw, LOSSES)


def test_whether_draws_are_reshuffled_depends_on_family_and_allocation():
    assert Sampler(LABELS).reshuffled
    assert vrm(Groups(LABELS, replacement=False)).reshuffled
    assert not vrm(Groups(LABELS, replacement=False), allocate=stratified).reshuffled
    assert not Sampler(Groups(LABELS)).reshuffled
    assert not vrm(Groups(LABELS, replacement=False), dense(), allocate=round_robin).reshuffled  # only a part of it is


# What it refuses

MISTAKES = {
    "nothing": (lambda: Sampler(), TypeError, "Pass labels, one per point, or a family"),
    "none": (lambda: Sampler(None), TypeError, "or a family .* got None"),
    "a number": (lambda: Sampler(5), TypeError, "got 5"),
    "a word": (lambda: Sampler("labels"), TypeError, "got 'labels'"),
    "a dictionary": (lambda: Sampler({"a": 1}), TypeError, "got {'a': 1}"),
    "a set": (lambda: Sampler({1, 2}), TypeError, "got {1, 2}"),
    "a generator": (lambda: Sampler(i for i in range(3)), TypeError, "got <generator"),
    "a class": (lambda: Sampler(Groups), TypeError, "got the class Groups"),
    "a sampler": (lambda: Sampler(Sampler([0, 1])), TypeError, "You passed a varmix.Sampler"),
    "no labels": (lambda: Sampler([]), ValueError, r"n >= 1, got shape \(0,\)"),
    "two dimensions": (lambda: Sampler(np.zeros((3, 2), int)), ValueError, r"got shape \(3, 2\)\.$"),
    "a column": (lambda: Sampler(np.zeros((3, 1), int)), ValueError, "numpy.ravel"),
    "floats": (lambda: Sampler([0.5, 1.5]), TypeError, "numpy.digitize"),
    "whole floats": (lambda: Sampler([0.0, 1.0]), TypeError, "whole numbers: convert them"),
    "not a number": (lambda: Sampler([0.0, np.nan]), TypeError, r"labels\[1\] is missing: drop"),
    "not a number among strings": (lambda: Sampler(["a", np.nan]), TypeError, r"labels\[1\] is nan. Drop"),
    "none among strings": (lambda: Sampler(np.array(["a", None])), TypeError, r"labels\[1\] is None. Drop"),
    "numbers among strings": (lambda: Sampler(["a", 1]), TypeError, r"labels\[1\] is 1. Convert"),
    "masked": (lambda: Sampler(np.ma.array([1, 2], mask=[0, 1])), TypeError, "must not be masked"),
    "dates": (lambda: Sampler(np.array(["2020-01-01"], "datetime64[D]")), TypeError, "datetime64"),
    "a table": (lambda: Sampler(Frame(LABELS)), TypeError, r'one of its columns, such as frame\["label"\]'),
    "a family twice": (lambda: Sampler(*[Groups([0, 1])] * 2), ValueError, "passed twice"),
    "equal groups": (lambda: Sampler(Groups([0, 1]), Groups([0, 1])), ValueError, "passed twice"),
    "labels twice": (lambda: Sampler([0, 1], [1, 0]), TypeError, "Pass labels once.* varmix.Groups"),
    "other points": (lambda: Sampler(Groups([0, 1]), Groups([0, 1, 1])), ValueError, "share one space"),
    "labels beside": (lambda: Sampler(LABELS, dense()), ValueError, r"Pass varmix.Groups\(labels\)"),
    "uniform inside": (
        lambda: Sampler(with_uniform(Groups(LABELS)), dense()),
        ValueError,
        "must come after all families",
    ),
    "a learner by place": (lambda: Sampler([0, 1], BarrierNewton()), TypeError, r"learner=BarrierNewton\(\.\.\.\)"),
    "a learner's class": (lambda: Sampler([0, 1], learner=BarrierNewton), TypeError, "learner must be"),
    "gamma twice": (lambda: Sampler([0, 1], gamma=0.2, learner=ONS()), TypeError, "gamma or a learner, not both"),
    "too much gamma": (lambda: Sampler([0, 1], gamma=2.0), ValueError, "gamma must lie in"),
    "families in a list": (lambda: Sampler([dense(), Uniform(100)]), TypeError, r"Sampler\(\*families\)"),
    "labels beside their groups": (lambda: Sampler([0, 1], Groups([0, 1])), ValueError, "cannot be mixed with other"),
    "labels for vrm": (lambda: vrm([0, 1]), TypeError, r"varmix.Groups\(labels\), got list"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_answered_by_what_to_pass(mistake):
    make, error, words = MISTAKES[mistake]
    with pytest.raises(error, match=words) as caught:
        make()
    assert len(str(caught.value)) < 250


def test_equal_labels_with_another_setting_are_another_family():
    assert Sampler(Groups([0, 1]), Groups([0, 1], smoothing=0.5)).components.k == 5


# The top level

PUBLIC = {
    *("Sampler", "Draw", "Groups", "Dense", "Distances", "KDpp", "Replay", "Uniform", "Stack"),
    *("vrm", "uniform", "importance", "auto", "save", "load", "CheckpointError", "__version__"),
}
MODULES = {
    *("components", "learners", "meter", "allocate", "reweight", "solvers", "estimators", "torch", "plot", "rl"),
    *("literature", "hindsight", "history", "theory", "simplex", "testing"),
}


def test_the_top_level_shows_a_few_names_and_the_modules():
    assert set(dir(varmix)) == PUBLIC | MODULES
    with pytest.raises(AttributeError, match="no attribute 'BarrierNewton'"):
        varmix.BarrierNewton  # noqa: B018


def test_modules_that_need_time_or_other_packages_are_imported_when_they_are_used():
    code = "import sys, varmix; print([m for m in ('torch', 'sklearn', 'varmix.solvers') if m in sys.modules]); "
    code += "print(varmix.solvers.sgd.__name__, varmix.testing.COMPONENT_CHECKS[0].__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert re.match(r"\[\]\nsgd check_\w+", done.stdout)


def test_what_implementers_need_is_in_the_modules():
    assert Points(3).n == 3
    assert Evidence([[1.0]], [2.0]).at_uniform == 2.0
