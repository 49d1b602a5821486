"""Datasets to load from: where workers are started anew, they must be found by their names."""

from torch.utils.data import Dataset, TensorDataset


class ItemByItem(TensorDataset):  # type: ignore[misc]
    """Tensors whose items are taken one by one, by any loader."""


class Numbers(Dataset[int]):  # type: ignore[misc]
    """Item i of n is the number i."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> int:
        return index
