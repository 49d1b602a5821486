"""Loop: one pass over a loader, each batch with its receipt."""

from collections.abc import Iterator
from typing import Any

from torch.utils.data import DataLoader

from varmix.torch._batch_sampler import MixtureBatchSampler
from varmix.torch._tensor_draw import TensorDraw
from varmix.torch._tensors import device_of


class Loop(Iterator[tuple[Any, TensorDraw]]):
    """Pairs the batches of a loader with the receipts of its batch sampler, in their order.

    A batch that cannot be fetched raises the dataset's error, and is lost with its receipt; the next call goes on with
    the next batch, as in PyTorch's own loops.  One that is late (`timeout`) comes with the next call.
    """

    def __init__(self, loader: DataLoader[Any], batches: MixtureBatchSampler) -> None:
        with batches.turn:
            self._fetched, self._batches, self._ahead = iter(loader), batches, loader.num_workers > 0
            # With workers the pass has begun already, for they fetch ahead; else it begins with its first batch.
            self._number = batches.live if self._ahead else None

    def __next__(self) -> tuple[Any, TensorDraw]:
        with self._batches.turn:
            if self._number is not None:  # before a batch is taken: with persistent workers it is the newer loop's
                self._batches.check(self._number)
            try:
                batch = next(self._fetched)
            except StopIteration:
                self._batches.end()
                raise
            except BaseException:
                self._batches.lose(self._taken())
                raise
            finally:
                self._number = self._batches.live if self._number is None else self._number
            return batch, self._batches.arrived(self._taken(), device_of(batch))

    def _taken(self) -> int:
        """Give how many batches the loader has taken out of its queue, or fetched itself: come, or lost by an error.

        Which of them an error leaves to come, PyTorch alone knows: one that waits too long for a worker loses none.
        """
        return int(self._fetched._rcvd_idx) if self._ahead else self._batches.given
