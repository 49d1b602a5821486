import itertools

import numpy as np
import pytest

from support.families import FAMILIES, RESHUFFLED
from varmix import KDpp, testing
from varmix.components import Subsets
from varmix.testing import COMPONENT_CHECKS, check_draws_follow_the_mixture


@pytest.mark.parametrize("check", COMPONENT_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_keeps_the_contract(name, check):
    check(FAMILIES[name])


@pytest.mark.parametrize(
    "check",
    [check for check in COMPONENT_CHECKS if check is not check_draws_follow_the_mixture],
    ids=lambda check: check.__name__,
)
@pytest.mark.parametrize("name", RESHUFFLED)
def test_reshuffled_groups_keep_the_rest_of_the_contract(name, check):
    check(RESHUFFLED[name])


def Broken(family, **changes):
    """Return a good family that breaks one promise, to show that the checks notice."""
    members = {name: staticmethod(value) if callable(value) else value for name, value in changes.items()}
    for name in members.keys() & vars(family).keys():
        delattr(family, name)
    family.__class__ = type("Broken", (type(family),), members)
    return family


def _tilted(lanes, uniforms):
    family = FAMILIES["dense, uniform"]()
    atoms, _ = family.draw(lanes, uniforms)
    atoms = np.where(uniforms.take(len(atoms)) < 0.05, 0, atoms)
    return atoms, family.ratios(atoms)


def _into_one_buffer(lanes, uniforms):
    BUFFER[: len(lanes)] = FAMILIES["dense, uniform"]().draw(lanes, uniforms)[0]
    atoms = BUFFER[: len(lanes)]
    return atoms, FAMILIES["dense, uniform"]().ratios(atoms)


def _twice_as_often(points):
    return 2 * FAMILIES["k-dpp, uniform"]().inclusion(points)


BUFFER = np.empty(100, dtype=np.int64)
COUNTER = itertools.count()
BREAKS = {
    "check_what_is_declared_holds": {"names": ["one", "two"]},
    "check_lanes_are_shares": {"lanes": lambda w: w * 1.01},
    "check_draws_have_the_right_shapes": {"ratios": lambda atoms: np.ones((len(atoms), 4))},
    "check_ratios_are_those_of_laws": {"ratios": lambda atoms: np.full((len(atoms), 4), 1.1)},
    "check_draws_follow_the_mixture": {"draw": _tilted},
    "check_inclusion_is_that_of_the_laws": {"inclusion": _twice_as_often},
    "check_components_go_on_after_loading": {"draw": lambda lanes, u: (np.full(len(lanes), next(COUNTER)),) * 2},
    "check_components_refuse_other_states": {"load_state_dict": lambda state: None},
    "check_feedback_may_come_late_and_in_any_order": {"draw": _into_one_buffer},
}


@pytest.mark.parametrize("check", COMPONENT_CHECKS, ids=lambda check: check.__name__)
def test_every_check_can_fail(check):
    name = "k-dpp, uniform" if "inclusion" in check.__name__ else "dense, uniform"
    with pytest.raises(AssertionError):
        check(lambda: Broken(FAMILIES[name](), **BREAKS[check.__name__]))


@pytest.mark.parametrize("declared", [{"names": ["a", "a", "b", "c"]}, {"has_uniform": True}])
def test_what_is_declared_must_be_so(declared):
    with pytest.raises(AssertionError):
        testing.check_what_is_declared_holds(lambda: Broken(FAMILIES["dense"](), **declared))


@pytest.mark.parametrize("masses", [[0.5, 0.5], [0.2, 0.3, 0.6], [0.2, 0.3, 0.5]])
def test_masses_must_be_what_uniform_draws_have(masses):
    family, good = FAMILIES["groups, uniform"](), FAMILIES["groups, uniform"]()
    assert len(family.masses) == 3
    with pytest.raises(AssertionError, match="masses"):
        testing.check_what_is_declared_holds(lambda: Broken(family, masses=np.array(masses), lanes=good.lanes))


def _tilted_sets(lanes, uniforms):
    atoms, rows = FAMILIES["k-dpp, uniform"]().draw(lanes, uniforms)
    first = uniforms.take(len(atoms)) < 0.05
    atoms[first], rows[first] = atoms[0], rows[0]
    return atoms, rows


def _as_drawn(change):
    family = FAMILIES["k-dpp, uniform"]()

    def draw(lanes, uniforms):
        atoms, rows = family.draw(lanes, uniforms)
        return change(atoms), rows

    return {"draw": draw, "ratios": lambda atoms: np.ones((len(atoms), family.k))}


@pytest.mark.parametrize(
    ("check", "breaks"),
    [
        ("check_ratios_are_those_of_laws", {"ratios": lambda sets: np.full((len(sets), 4), 1.1)}),
        ("check_draws_follow_the_mixture", {"draw": _tilted_sets}),
        ("check_inclusion_is_that_of_the_laws", {"point_density": lambda sets, w: np.ones(sets.shape)}),
        ("check_draws_have_the_right_shapes", _as_drawn(lambda atoms: atoms[:, ::-1].copy())),
        ("check_draws_have_the_right_shapes", _as_drawn(lambda atoms: atoms[:, :2].copy())),
        ("check_draws_have_the_right_shapes", _as_drawn(lambda atoms: atoms + 20)),
    ],
)
def test_checks_notice_wrong_sets(check, breaks):
    with pytest.raises(AssertionError):
        getattr(testing, check)(lambda: Broken(FAMILIES["k-dpp, uniform"](), **breaks))


def test_too_many_sets_are_not_listed():
    assert testing.all_atoms(Subsets(1000, 5)).shape == (0, 5)
    for check in COMPONENT_CHECKS:
        check(lambda: KDpp(np.random.default_rng(0).normal(size=(200, 4)), 3, [0.5]))
