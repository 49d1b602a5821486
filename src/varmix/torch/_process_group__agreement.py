"""What processes must have in common before they draw together."""

import numpy as np

from varmix.components import Groups
from varmix._sampler import Sampler
from varmix.torch._process_group__layout import Layout


def agree(sampler: Sampler, layout: Layout, **settings: object) -> None:
    """Refuse, on all processes, samplers or settings that differ between them."""
    if layout.processes is None:
        return
    state, family = sampler.state_dict(), sampler.components
    labels = family.labels.tolist() if isinstance(family, Groups) else None  # components must mean the same
    settings |= {"learner": _printed(state["settings"]["learner"]), "components": (family.k, labels)}
    if layout.name == "replicated":
        settings |= {"components": _printed(state["components"]), "rng": repr(state["uniforms"])}
        settings |= {"allocate": _printed(state["settings"]["allocate"])}
    layout.processes.agree(settings)


def _printed(state: object) -> str:
    """Give all of a state, long arrays included, as text that tells states apart."""
    if isinstance(state, dict):
        return repr({key: _printed(value) for key, value in state.items()})
    return repr(state.tobytes() if isinstance(state, np.ndarray) else state)
