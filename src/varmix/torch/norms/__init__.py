"""Norms: numbers per example to feed back, from the cheapest to the most exact.

`losses` costs nothing, `last_layer` next to nothing, `ghost` a part of a training step, and `exact` several steps.
"""

from varmix.torch.norms._cheap import last_layer, losses
from varmix.torch.norms._ghost import GhostNorms, ghost
from varmix.torch.norms._per_example import exact

__all__ = ["GhostNorms", "exact", "ghost", "last_layer", "losses"]
