import itertools

import numpy as np
import pytest

from families import FAMILIES, RESHUFFLED
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


class Broken:
    """Wraps a good family and breaks one promise, to show that the checks notice."""

    def __init__(self, family, **methods):
        self._family = family
        self._methods = methods

    def __getattr__(self, name):
        return self._methods.get(name) or getattr(self._family, name)


def _tilted(lanes, uniforms):
    family = FAMILIES["dense, anchored"]()
    atoms, _ = family.draw(lanes, uniforms)
    atoms = np.where(uniforms.take(len(atoms)) < 0.05, 0, atoms)
    return atoms, family.ratios(atoms)


def _into_one_buffer(lanes, uniforms):
    BUFFER[: len(lanes)] = FAMILIES["dense, anchored"]().draw(lanes, uniforms)[0]
    atoms = BUFFER[: len(lanes)]
    return atoms, FAMILIES["dense, anchored"]().ratios(atoms)


BUFFER = np.empty(100, dtype=np.int64)
COUNTER = itertools.count()
BREAKS = {
    "check_lanes_are_shares": {"lanes": lambda w: w * 1.01},
    "check_draws_have_the_right_shapes": {"ratios": lambda atoms: np.ones((len(atoms), 4))},
    "check_ratios_are_those_of_laws": {"ratios": lambda atoms: np.full((len(atoms), 4), 1.1)},
    "check_draws_follow_the_mixture": {"draw": _tilted},
    "check_components_go_on_after_loading": {"draw": lambda lanes, u: (np.full(len(lanes), next(COUNTER)),) * 2},
    "check_components_refuse_other_states": {"load_state_dict": lambda state: None},
    "check_feedback_may_come_late_and_in_any_order": {"draw": _into_one_buffer},
}


@pytest.mark.parametrize("check", COMPONENT_CHECKS, ids=lambda check: check.__name__)
def test_every_check_can_fail(check):
    with pytest.raises(AssertionError):
        check(lambda: Broken(FAMILIES["dense, anchored"](), **BREAKS[check.__name__]))
