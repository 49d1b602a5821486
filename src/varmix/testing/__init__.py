"""Contract checks for families of components and learners, to run over your own.

    @pytest.mark.parametrize("check", varmix.testing.COMPONENT_CHECKS)
    def test_my_family(check):
        check(lambda: MyFamily(...))

Each check takes a function that builds a new object. Every call must build an equal one. A check raises
`AssertionError` if the object breaks the contract. Checks are deterministic.
"""

from varmix._core.validation import same
from varmix.testing._components import (
    COMPONENT_CHECKS,
    MakeComponents,
    all_atoms,
    check_components_go_on_after_loading,
    check_components_refuse_other_states,
    check_draws_follow_the_mixture,
    check_draws_have_the_right_shapes,
    check_feedback_may_come_late_and_in_any_order,
    check_inclusion_is_that_of_the_laws,
    check_lanes_are_shares,
    check_ratios_are_those_of_laws,
    check_what_is_declared_holds,
    chi_square_z,
    count_atoms,
)
from varmix.testing._learners import (
    LEARNER_CHECKS,
    MakeLearner,
    check_learners_go_on_after_loading,
    check_mixtures_stay_in_the_simplex,
    check_rows_are_declared,
    check_steps_are_pure,
)

__all__ = [
    "COMPONENT_CHECKS",
    "LEARNER_CHECKS",
    "MakeComponents",
    "MakeLearner",
    "all_atoms",
    "check_components_go_on_after_loading",
    "check_components_refuse_other_states",
    "check_draws_follow_the_mixture",
    "check_draws_have_the_right_shapes",
    "check_feedback_may_come_late_and_in_any_order",
    "check_inclusion_is_that_of_the_laws",
    "check_lanes_are_shares",
    "check_learners_go_on_after_loading",
    "check_mixtures_stay_in_the_simplex",
    "check_ratios_are_those_of_laws",
    "check_rows_are_declared",
    "check_steps_are_pure",
    "check_what_is_declared_holds",
    "chi_square_z",
    "count_atoms",
    "same",
]
