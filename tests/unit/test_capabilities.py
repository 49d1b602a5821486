"""What families, learners, allocations and reweightings can do is declared on their classes, and looked up there."""

import ast
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import varmix
from support.families import FAMILIES
from varmix import Dense, Groups, KDpp, Replay, Sampler, Uniform, vrm
from varmix.allocate import Allocation, Stratified, independent, round_robin, stratified
from varmix.components import Family, Points, Uniforms
from varmix.components._base import is_family
from varmix.components._tables import TableFamily
from varmix.learners import BarrierNewton, Cautious, Fixed, Learner
from varmix.reweight import HorvitzThompson, Reweight, exact, horvitz_thompson

LABELS = np.repeat(["a", "b"], [90, 10])
TABLE = np.full((100, 2), 0.01)


# Leak 1: fast paths


class Even(TableFamily):
    """A table that draws even points only, by its own `draw`."""

    def draw(self, lanes, uniforms):
        atoms, _ = super().draw(lanes, uniforms)
        atoms -= atoms % 2
        return atoms, self.ratios(atoms)


class EvenEven(Even):
    """Inherits what its parent changed."""


class Faster(Even):
    """Brings a fast path of its own again."""

    def sample(self, mixture, m, batches, allocation, state, uniforms):
        atoms = np.zeros(m, np.int64)
        return atoms, np.ones((m, self.k)), np.ones(m), np.ones(m), None, state


def table(cls):
    return cls(Points(100), np.ones((100, 2), dtype=np.float32))


@pytest.mark.parametrize("cls", [Even, EvenEven])
def test_a_subclass_that_overrides_draw_is_not_bypassed(cls):
    assert cls.sample is Family.sample
    assert not (vrm(table(cls), rng=0).draw(500).indices % 2).any()
    assert (vrm(table(TableFamily), rng=0).draw(500).indices % 2).any()


def test_a_subclass_may_bring_a_fast_path_of_its_own():
    sampler = Sampler(table(Faster), learner=Fixed(), rng=0)
    assert not sampler.draw(5).indices.any()


def test_a_subclass_that_overrides_lanes_is_not_bypassed():
    class FirstOnly(TableFamily):
        def lanes(self, w):
            return np.array([1.0, 0.0])

    assert FirstOnly.sample is Family.sample


class Wrapper(Family):
    """Delegates everything to another family, and doubles the atoms that it draws."""

    def __init__(self, inner):
        self.inner, self.space, self.k, self.c = inner, Points(2 * inner.space.n), inner.k, inner.c

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def lanes(self, w):
        return self.inner.lanes(w)

    def draw(self, lanes, uniforms):
        atoms, ratios = self.inner.draw(lanes, uniforms)
        return 2 * atoms, ratios

    def ratios(self, atoms):
        return self.inner.ratios(np.asarray(atoms) // 2)


@pytest.mark.parametrize("inner", [lambda: Dense(TABLE), lambda: Groups(LABELS)], ids=["dense", "groups"])
def test_a_wrapper_that_delegates_the_rest_is_not_bypassed(inner):
    draw = Sampler(Wrapper(inner()), learner=Fixed(), rng=0).draw(200)
    assert not (draw.indices % 2).any()
    assert draw.indices.max() > 100


FAST = {name: make for name, make in FAMILIES.items() if type(make()).sample is not Family.sample}


@pytest.mark.parametrize("batches", [1, 3])
@pytest.mark.parametrize("allocate", [stratified, independent, round_robin], ids=repr)
@pytest.mark.parametrize("name", FAST)
def test_fast_paths_make_the_draws_of_the_general_one(name, allocate, batches):
    """Over several calls, so that what they leave behind (cursors, random numbers, credits) is the same too."""
    runs = []
    for general in (False, True):
        family, uniforms = FAST[name](), Uniforms(5)
        method = partial(Family.sample, family) if general else family.sample
        w = np.random.default_rng(1).dirichlet(np.ones(family.k))
        state = allocate.init(len(family.lanes(w)))
        rows = []
        for _ in range(20):
            atoms, ratios, density, weights, groups, state = method(w, 7, batches, allocate, state, uniforms)
            rows.append((atoms, ratios(groups) if groups is not None else ratios, density, weights))
        runs.append(rows)
    assert len(FAST) > 10
    for mine, theirs in zip(*runs, strict=True):
        assert np.array_equal(mine[0], theirs[0])
        for a, b in zip(mine[1:], theirs[1:], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)


def test_the_fast_path_is_taken_where_slots_are_stratified():
    class Counted(TableFamily):
        calls = 0

        def sample(self, *arguments):
            type(self).calls += 1
            return super().sample(*arguments)

    sampler = vrm(table(Counted), rng=0)
    sampler.draw(3)
    assert Counted.calls == 1
    assert Stratified.is_stratified
    assert not independent.is_stratified


# Leak 4: is it a family?


class LooksLikeOne:
    space, k, c = Points(3), 1, 1.0

    def lanes(self, w):
        return w

    def draw(self, lanes, uniforms):
        return np.zeros(len(lanes), np.int64), np.ones((len(lanes), 1))

    def ratios(self, atoms):
        return np.ones((len(atoms), 1))


@pytest.mark.parametrize(
    "use",
    [
        lambda thing: Sampler(thing),
        lambda thing: vrm(thing),
        lambda thing: varmix.Stack(Uniform(3), thing),
        lambda thing: varmix.components.with_uniform(thing),
    ],
    ids=["Sampler", "vrm", "Stack", "with_uniform"],
)
@pytest.mark.parametrize(
    "thing", [LooksLikeOne(), LooksLikeOne, Groups, None, 3], ids=["an object", "its class", "a class", "None", "3"]
)
def test_there_is_one_answer_to_what_a_family_is(use, thing):
    assert not is_family(thing)
    with pytest.raises(TypeError, match=r"varmix\.Groups"):
        use(thing)


# Leak 3: is it reshuffled?


@pytest.mark.parametrize(
    ("sampler", "reshuffled"),
    [
        (lambda: Sampler(LABELS), True),
        (lambda: Sampler(LABELS, learner=BarrierNewton()), True),
        (lambda: Sampler(LABELS, allocate=stratified), False),
        (lambda: Sampler(Groups(LABELS)), False),
        (lambda: Sampler(Groups(LABELS), allocate=round_robin), False),
        (lambda: Sampler(Groups(LABELS, replacement=False), Dense(TABLE), allocate=round_robin), False),
    ],
)
def test_family_and_allocation_say_whether_draws_are_reshuffled(sampler, reshuffled):
    built = sampler()
    assert built.reshuffled is reshuffled
    assert reshuffled == (built.components.reshuffles and built.allocate.keeps_epochs)


def test_a_stack_that_is_partly_reshuffled_needs_an_allocation_that_the_user_chose():
    groups = Groups(LABELS, replacement=False)
    for nested in (varmix.Stack(groups, Dense(TABLE)), varmix.Stack(Dense(TABLE), varmix.Stack(groups, Uniform(100)))):
        assert nested.partly_reshuffles
        assert not nested.reshuffles
        with pytest.raises(ValueError, match="unless you choose an allocation"):
            Sampler(nested)


# Leak 5: learners


class HalfState(NamedTuple):
    mixture: np.ndarray
    best: np.ndarray
    seen: int


@dataclass(frozen=True)
class Switches(Learner[HalfState]):
    """Plays the uniform component for five rounds, then what it has learned: no `Cautious` anywhere."""

    gamma: float = 0.1

    @property
    def limits(self):
        return 1.0, 2.0

    def init(self, k):
        best = np.full(k, 0.9 / (k - 1))
        best[-1] = 0.1
        return HalfState(np.eye(k)[-1], best, 0)

    def step(self, state, evidence):
        seen = state.seen + 1
        return HalfState(state.best if seen > 5 else state.mixture, state.best, seen)

    def learned(self, state):
        return state.best

    def gain(self, state):
        return 1.0 if state.seen <= 5 else 3.0


def test_a_learner_of_ones_own_can_stand_aside_as_cautious_does():
    varmix.testing.check_mixtures_stay_in_the_simplex(Switches)
    sampler = Sampler(LABELS, learner=Switches(), rng=0, history=True)
    assert sampler.allocate == varmix.allocate.Shuffled(100)  # plain shuffling until it switches
    assert sampler.learned_mixture.tolist() == [0.45, 0.45, 0.1]
    assert "mixture off" in str(sampler)
    for _ in range(20):
        draw = sampler.draw(10)
        sampler.update(draw, np.ones(10))
    assert "mixture on" in str(sampler)
    assert sampler.learned_gain == 3.0
    assert sampler.mixture.tolist() == sampler.learned_mixture.tolist()
    assert "nothing has to be switched off" in sampler.meter.verdict()
    assert sampler.history.limits == (1.0, 2.0)


def test_learners_without_switches_play_what_they_learn():
    learner = BarrierNewton()
    state = learner.init(3)
    assert learner.played(state) is state.mixture
    assert learner.learned(state) is state.mixture
    assert (learner.gain(state), learner.limits, learner.k, learner.needs_uniform) == (None, None, None, True)
    assert (Fixed([0.5, 0.5]).k, Fixed().needs_uniform, Fixed().learns) == (2, False, False)
    assert Cautious(off_below=1.0, on_above=3.0).limits == (1.0, 3.0)


class QuacksAsLearner:
    gamma, needs_rows = 0.1, False

    def init(self, k):
        return HalfState(np.full(k, 1 / k), np.full(k, 1 / k), 0)

    def step(self, state, evidence):
        return state


@pytest.mark.parametrize(
    ("arguments", "base"),
    [
        ({"learner": QuacksAsLearner()}, "varmix.learners.Learner"),
        ({"learner": BarrierNewton}, "varmix.learners.Learner"),
        ({"allocate": Stratified}, "varmix.allocate.Allocation"),
        ({"reweight": lambda density: density}, "varmix.reweight.Reweight"),
    ],
)
def test_parts_of_the_wrong_kind_are_refused_with_the_class_to_subclass(arguments, base):
    with pytest.raises(TypeError, match=f"subclass of {base}; got"):
        Sampler(LABELS, **arguments)


# Leak 6: weights by point


class HalfHorvitzThompson(Reweight):
    """Halfway between weights by point and none."""

    by_point = True

    def __call__(self, density):
        return 0.5 + 0.5 / density


def sets():
    return KDpp(np.random.default_rng(0).normal(size=(30, 4)), 5, [0.1, 1.0])


def test_users_can_weight_points_one_by_one():
    mine, theirs = (vrm(sets(), reweight=reweight, rng=0) for reweight in (HalfHorvitzThompson(), horvitz_thompson))
    for _ in range(5):
        weights, whole = mine.draw(3).weights, theirs.draw(3).weights
        assert weights.shape == (3, 5)
        np.testing.assert_allclose(weights, 0.5 + 0.5 * whole, rtol=1e-12)
    mine.reweight = exact
    assert mine.draw(3).weights.shape == (3,)


@pytest.mark.parametrize("family", [lambda: Groups(LABELS), lambda: varmix.Stack(sets(), OneSet())])
def test_weights_by_point_need_a_family_that_knows_inclusion(family):
    with pytest.raises(TypeError, match="with what probability a set includes a point"):
        vrm(family(), reweight=HalfHorvitzThompson())


class OneSet(Family):
    """Sets, of which nobody knows how often they include a point."""

    space, k, c = varmix.components.Subsets(30, 5), 1, 1.0

    def draw(self, lanes, uniforms):
        return np.tile(np.arange(5), (len(lanes), 1)), np.ones((len(lanes), 1))

    def ratios(self, atoms):
        return np.ones((len(atoms), 1))


def test_inclusion_of_a_family_that_does_not_know_it_is_refused():
    for family in (OneSet(), Groups(LABELS)):
        assert not family.knows_inclusion
        with pytest.raises(TypeError, match=r"Use varmix.KDpp"):
            family.inclusion(np.arange(3))
        with pytest.raises(TypeError, match=r"Use varmix.KDpp"):
            family.point_density(np.arange(10).reshape(2, 5), np.ones(1))
    assert [family.knows_inclusion for family in (sets(), Uniform(sets().space), Uniform(5))] == [True, True, False]


class WrongShape(Reweight):
    def __call__(self, density):
        return density[:1]


def test_weights_of_another_shape_are_refused_and_nothing_changes():
    sampler = Sampler(LABELS, reweight=WrongShape(), rng=0)
    before = sampler.state_dict()["uniforms"]
    with pytest.raises(ValueError, match="one weight for every density"):
        sampler.draw(4)
    assert varmix._core.validation.same(sampler.state_dict()["uniforms"], before)
    assert HorvitzThompson().by_point


# Leak 7: checksums


@pytest.mark.parametrize(
    ("mine", "other"),
    [
        (lambda: Dense(TABLE), lambda: Dense(np.random.default_rng(0).dirichlet(np.ones(100), size=2).T)),
        (
            lambda: varmix.Distances(np.arange(20.0)[:, None], [[0.0]]),
            lambda: varmix.Distances(np.arange(20.0)[::-1, None], [[0.0]]),
        ),
        (lambda: Groups(LABELS), lambda: Groups(LABELS[::-1])),
        (sets, lambda: KDpp(np.random.default_rng(1).normal(size=(30, 4)), 5, [0.1, 1.0])),
        (lambda: Uniform(Points(3, [1, 1, 2])), lambda: Uniform(Points(3, [1, 2, 1]))),
    ],
    ids=["dense", "distances", "groups", "k-dpp", "target"],
)
def test_states_of_other_data_are_refused(mine, other):
    family = mine()
    family.load_state_dict(mine().state_dict())
    with pytest.raises(varmix.CheckpointError):
        family.load_state_dict(other().state_dict())


def test_third_party_allocations_get_defaults():
    class InTurn(Allocation):
        def assign(self, state, shares, m, uniforms):
            return np.arange(m) % len(shares), state

    sampler = Sampler(Dense(TABLE), allocate=InTurn(), rng=0)
    assert len(sampler.draw(4, batches=3)) == 12
    assert not sampler.reshuffled
    again = Sampler(Dense(TABLE), allocate=InTurn(), rng=1)
    again.load_state_dict(sampler.state_dict())
    assert again.draw(5).indices.tolist() == sampler.draw(5).indices.tolist()


def test_an_empty_buffer_is_refused_by_both_paths():
    replay = Replay(4).with_uniform()
    for method in (replay.sample, partial(Family.sample, replay)):
        with pytest.raises(ValueError, match="empty"):
            method(np.full(replay.k, 1 / replay.k), 3, 1, stratified, np.empty(0), Uniforms(0))


# Nothing of ours is guessed


SOURCE = Path(varmix.__file__).parent
# Objects of other libraries and of users: there is no class of ours to look at.
FOREIGN = {
    "_sampler.py": {"detach", "cpu", "__array__", "columns", "iloc"},  # tensors, arrays and tables of any library
    "_core/draw.py": {"register_at_fork"},  # the operating system
    "_kernels/jit.py": {"_cache"},  # Numba
    "plot.py": {"history"},  # samplers and loaders, which share no base class
    "solvers/_linear.py": {"format", "nnz"},  # sparse matrices, without SciPy
    "learners/_neyman.py": {"masses", "parents"},  # a family, from a layer that learners may not import
    "estimators/_sgd.py": {"coef_", "classes_"},  # how scikit-learn says that an estimator is fitted
    "estimators/_kmeans.py": {"cluster_centers_"},
    "rl/_replay_buffer.py": {"num_envs", "metadata"},  # Gymnasium
    "rl/_transitions.py": {"spaces", "shape", "dtype"},
    "torch/_tagging.py": {"__getitems__"},  # PyTorch's datasets and batches
    "torch/_tensors.py": {"device"},
    "torch/_torch_internals.py": {"__name__"},
    "torch/_settings.py": {"name", "setter"},  # the class that the error is about
    "torch/_batch_sampler.py": {"batch_sampler", "num_processes"},  # loaders of frameworks
    "torch/_stream_source.py": {"set_epoch", "state_dict", "load_state_dict"},  # streams of users
    "torch/norms/_layer_rules.py": {"normalized_shape", "forward", "kernel_size"},  # PyTorch's modules
}


def guesses(tree):
    """Yield the names that are looked up on an object that may not have them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) > 1:
            wanted = node.args[1]
            if node.func.id == "hasattr" or (node.func.id == "getattr" and len(node.args) == 3):
                yield wanted.value if isinstance(wanted, ast.Constant) else ast.unparse(wanted)


def found_guesses():
    found = {}
    for path in SOURCE.rglob("*.py"):
        names = set(guesses(ast.parse(path.read_text())))
        if names:
            found[path.relative_to(SOURCE).as_posix()] = names
    return found


def test_only_objects_of_others_are_asked_for_attributes():
    assert list(guesses(ast.parse('hasattr(x, "a"), getattr(x, "b", 1), getattr(x, "c")'))) == ["a", "b"]
    for file, names in found_guesses().items():
        unexpected = names - FOREIGN.get(file, set())
        assert not unexpected, f"{file} asks objects for {unexpected}: declare it on a base class"


def test_the_list_of_foreign_objects_has_nothing_that_is_gone():
    found = found_guesses()
    for file, names in FOREIGN.items():
        assert names == found.get(file, set()) & names, f"{file} asks for fewer attributes than the list says"


def test_cautious_is_named_where_it_is_a_default_and_nowhere_else():
    naming = set()
    for path in SOURCE.rglob("*.py"):
        tree = ast.parse(path.read_text())
        if any(isinstance(node, ast.Name) and node.id == "Cautious" for node in ast.walk(tree)):
            naming.add(path.relative_to(SOURCE).as_posix())
    assert naming == {"_sampler.py", "learners/_cautious.py", "torch/_interleave.py"}
