"""Parameters of k-means, checked before any work is done."""

from typing import Any

import numpy as np

from varmix._core.validation import as_count
from varmix._core.validation import as_number
from varmix.estimators.clustering._samplers import Choice
from varmix.estimators.clustering._init_centers import Initial


def checked(model: Any) -> tuple[Initial, Choice]:  # noqa: ANN401
    """Refuse parameters that mean nothing; give how to begin, and what draws the batches."""
    for name in ("n_clusters", "batch_size", "max_iter"):
        as_count(getattr(model, name), name)
    for name, least in (("max_steps", 1), ("init_size", 1), ("max_no_improvement", 0)):
        if getattr(model, name) is not None:
            as_count(getattr(model, name), name, least=least)
    for name in ("tol", "reassignment_ratio"):
        if not 0.0 <= as_number(getattr(model, name), name) < np.inf:
            raise ValueError(f"{name} must be a finite number of at least 0, got {getattr(model, name)!r}.")
    if not isinstance(model.n_init, str):
        as_count(model.n_init, "n_init")
    initial = Initial(model.n_clusters, model.init, model.n_init, model.init_size, model.batch_size, model.verbose)
    choice = Choice(model.components, model.gamma, model.learner, model.allocate)
    initial.check()
    choice.check()
    return initial, choice
