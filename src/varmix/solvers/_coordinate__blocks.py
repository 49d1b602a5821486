"""Layout: which coordinates each atom of coordinate descent holds."""

import numpy as np
from numpy.typing import ArrayLike

from varmix._core.validation import IntArray
from varmix._core.validation import as_array
from varmix.components._labels import encode


class Layout:
    """Which coordinates each atom holds: one, or those with one label.

    Examples
    --------
    >>> layout = Layout(4, ["b", "a", "b", "b"])
    >>> layout.start.tolist(), layout.members.tolist()
    ([0, 1, 4], [1, 0, 2, 3])
    """

    def __init__(self, dim: int, blocks: ArrayLike | None = None) -> None:
        self.what = "coordinates" if blocks is None else "blocks of coordinates"
        labels = np.arange(dim) if blocks is None else as_array(blocks, "blocks")
        if labels.shape != (dim,):
            raise ValueError(f"blocks must be one label per coordinate: expected shape ({dim},), got {labels.shape}.")
        _, codes = encode(labels)
        self.sizes: IntArray = np.bincount(codes).astype(np.int64)
        self.start: IntArray = np.concatenate([[0], np.cumsum(self.sizes)]).astype(np.int64)
        self.members: IntArray = np.argsort(codes, kind="stable").astype(np.int64)

    def __len__(self) -> int:
        return len(self.sizes)

    def inside(self, b: int) -> IntArray:
        """Give the coordinates of block b."""
        return self.members[self.start[b] : self.start[b + 1]]
