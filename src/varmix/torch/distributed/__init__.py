"""Many processes: one mixture, learnt by all of them from what each of them sees."""

from varmix.torch.distributed.agreement import agree
from varmix.torch.distributed.layout import Layout, LayoutName, layout_of
from varmix.torch.distributed.rounds import Rounds

__all__ = ["Layout", "LayoutName", "Rounds", "agree", "layout_of"]
