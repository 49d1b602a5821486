"""Arrays in `.npz` files, identified by a digest of their content.

The digest covers the arrays, not the file: the same numbers may be compressed in different ways. So one digest per set
checks a file in a folder, a file in the cache and freshly fetched arrays.
"""

import hashlib
from pathlib import Path
from typing import TypeAlias

import numpy as np

from lab.arrays import AnyArray
from lab.datasets.errors import DataDamaged
from lab.files import atomic_write

Arrays: TypeAlias = dict[str, AnyArray]


def compute_digest(arrays: Arrays) -> str:
    """Compute the SHA-256 of named arrays; it does not depend on their memory layout.

    The digest covers, for every array in the order of the names, the line `name dtype shape` as NumPy writes it, then
    the numbers in row order as little-endian bytes.

    Examples
    --------
    >>> X = np.arange(6, dtype=np.int16).reshape(2, 3)
    >>> compute_digest({"X": X})
    '11f81f1a35660a7c1b1e27db591fc32d7f943924383fd87d930b270c66d4200b'
    >>> compute_digest({"X": np.asfortranarray(X)}) == compute_digest({"X": X}) != compute_digest({"X": X.T})
    True
    """
    total = hashlib.sha256()
    for name in sorted(arrays):
        dtype = arrays[name].dtype.newbyteorder("<")
        array = np.ascontiguousarray(arrays[name], dtype=dtype)
        total.update(f"{name} {dtype.str} {array.shape}\n".encode())
        total.update(array.reshape(-1).view(np.uint8).data)
    return total.hexdigest()


def read_arrays(path: Path, sha256: str) -> Arrays:
    """Read all arrays of a file as C-contiguous arrays; raise `DataDamaged` unless their digest is `sha256`."""
    with path.open("rb") as file:
        try:
            with np.load(file, allow_pickle=False) as members:
                arrays = {name: np.ascontiguousarray(members[name]) for name in members.files}
            found = compute_digest(arrays)
        except Exception as error:  # damaged bytes can fail in the zip, the decompression, a header or an allocation
            raise DataDamaged(
                f"{path} is truncated or not an .npz file of arrays ({error}): expected SHA-256 {sha256}, got none."
            ) from error
    if found != sha256:
        raise DataDamaged(f"{path} has the wrong content: expected SHA-256 {sha256}, got {found}.")
    return arrays


def write_arrays(path: Path, arrays: Arrays) -> None:
    """Write arrays to a compressed file, atomically."""
    with atomic_write(path) as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)
