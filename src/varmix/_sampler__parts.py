"""The parts of a sampler: whether they are any, fit together, and how a checkpoint tells them."""

from dataclasses import fields, is_dataclass

import numpy as np

from varmix._core.validation import State
from varmix.components._base import Components
from varmix.components._base import Inclusive
from varmix._core.spaces import Subsets


def described(part: object) -> State:
    """Give the class of a part and, for a dataclass, its settings, as a checkpoint gives them back."""
    settings = {}
    if is_dataclass(part):
        settings = {field.name: _plain(getattr(part, field.name)) for field in fields(part)}
    return {"class": type(part).__name__, **settings}


def _plain(value: object) -> object:
    if hasattr(value, "step") and not isinstance(value, type):  # a learner inside another
        return described(value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.copy()
    return [_plain(entry) for entry in value] if isinstance(value, (tuple, list)) else value


def check_parts(components: object, learner: object, allocate: object) -> None:
    """Refuse what is not a part at all, or the class of one; the parts check themselves."""
    check_part("components", components, "draw", "a family such as varmix.Groups(labels)")
    check_part("learner", learner, "step", "a learner such as varmix.BarrierNewton()")
    check_part("allocate", allocate, "assign", "an allocation such as varmix.allocate.stratified")


def check_part(name: str, part: object, method: str, example: str) -> None:
    """Refuse what lacks the method that makes it a part, and classes of parts."""
    if isinstance(part, type) or not hasattr(part, method):
        raise TypeError(f"{name} must be {example}, got {part!r}.")


def check_anchor(components: Components, learner: object) -> None:
    """Look at a few atoms: where the last component is not the target, gamma would bound nothing.

    A family that added it itself says so.
    """
    if hasattr(learner, "gamma") and not getattr(components, "has_anchor", False):
        space = components.space
        size = space.size if isinstance(space, Subsets) else 1
        some = np.unique(np.linspace(0, space.n - size, 16).astype(np.int64))
        some = some[:, None] + np.arange(size) if isinstance(space, Subsets) else some + space.first
        if space.n == 0 or np.abs(components.ratios(some)[:, -1] - 1.0).max() > 1e-6:
            raise ValueError(
                f"The last component of {components!r} must be the uniform law (or the target), which keeps every "
                f"atom drawable. Use varmix.vrm, or varmix.with_uniform(components)."
            )


def as_inclusive(components: Components) -> Inclusive:
    """Refuse to weight points one by one where the sets, or how often they hold a point, are not known."""
    if not (isinstance(components.space, Subsets) and isinstance(components, Inclusive)):
        raise TypeError(
            f"Horvitz-Thompson weights need sets, and how often they hold a point; {components!r} over "
            f"{components.space} has no inclusion probabilities. Use varmix.KDpp, or reweight by varmix.reweight.exact."
        )
    components.inclusion(np.zeros(1, dtype=np.int64))  # a stack asks every family
    return components
