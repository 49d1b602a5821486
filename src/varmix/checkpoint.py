"""Checkpoints: the state of a sampler, or of whatever has one, in one file, without pickle.

Arrays are safetensors; numbers and strings are JSON in its header, under a format version and a checksum.
"""

import hashlib
import json
import os
from types import NoneType
from typing import Any, Protocol, TypeVar

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes

from varmix.arrays import AnyArray, State
from varmix.files import replacing

FORMAT = 1


class Stateful(Protocol):
    """What can be saved: a `Sampler`, a `rl.ReplayBuffer`, or anything that gives and takes a state as they do."""

    def state_dict(self) -> State:
        """Give all that is needed to go on: nested dictionaries of arrays, numbers and strings."""
        ...

    def load_state_dict(self, state: State) -> None:
        """Go on where `state` was saved, or refuse it and stay as before."""
        ...


Owner = TypeVar("Owner", bound=Stateful)


def save(path: str | os.PathLike[str], owner: Stateful) -> None:
    """Write the state of `owner`, a sampler or a replay buffer, to `path`.

    The file is written aside, flushed and renamed: whenever the process dies, `path` holds either the old
    checkpoint or the new one, whole.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import varmix
    >>> sampler = varmix.uniform(10, rng=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(Path(folder) / "sampler.varmix", sampler)
    ...     again = load(Path(folder) / "sampler.varmix", varmix.uniform(10))
    >>> bool((again.draw(5).indices == sampler.draw(5).indices).all())
    True
    """
    arrays: dict[str, AnyArray] = {}
    tree = _split(owner.state_dict(), "", arrays)
    header = json.dumps(tree)
    metadata = {"varmix_format": str(FORMAT), "state": header, "sha256": _digest(header, arrays)}
    content = to_bytes(arrays, metadata=metadata)
    with replacing(path) as file:
        file.write(content)


def load(path: str | os.PathLike[str], owner: Owner) -> Owner:
    """Read a checkpoint into `owner`, built with the arguments of the one that was saved, and give it back.

    A file that is damaged, of another format or of another object is refused, and `owner` stays as it was.
    """
    owner.load_state_dict(read(path))
    return owner


def read(path: str | os.PathLike[str]) -> State:
    """Read the state in a checkpoint without its owner, to look at it."""
    try:
        with safe_open(os.fspath(path), framework="numpy") as file:
            metadata = file.metadata() or {}
            arrays = {name: np.array(file.get_tensor(name)) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise ValueError(f"{path} is truncated or not a varmix checkpoint ({error}).") from error
    version = metadata.get("varmix_format")
    if version is None:
        raise ValueError(f"{path} is a safetensors file, but not a varmix checkpoint.")
    if version != str(FORMAT):
        raise ValueError(
            f"{path} has checkpoint format {version}; this varmix reads format {FORMAT}. "
            f"Load it with the version of varmix that wrote it."
        )
    if metadata.get("sha256") != _digest(metadata.get("state", ""), arrays):
        raise ValueError(f"{path} is damaged: its contents do not match its checksum. Use an older checkpoint.")
    state = _join(json.loads(metadata["state"]), "", arrays)
    assert isinstance(state, dict)
    return state


def _digest(header: str, arrays: dict[str, AnyArray]) -> str:
    digest = hashlib.sha256(header.encode())
    for name in sorted(arrays):
        digest.update(f"{name}{arrays[name].dtype}{arrays[name].shape}".encode())
        digest.update(arrays[name].tobytes())
    return digest.hexdigest()


_ARRAY = {"__array__": True}


def _split(value: Any, name: str, arrays: dict[str, AnyArray]) -> Any:  # noqa: ANN401
    """Move the arrays of a nested state into `arrays`, leaving marks in their places."""
    if isinstance(value, np.ndarray):
        arrays[name] = np.asarray(value, order="C")
        return _ARRAY
    if isinstance(value, dict):
        return {key: _split(part, f"{name}/{_escaped(key)}", arrays) for key, part in value.items()}
    if isinstance(value, np.generic):
        return value.item()
    if not isinstance(value, (str, int, float, list, tuple, NoneType)):
        raise TypeError(
            f"A checkpoint holds arrays, numbers and strings, and {name[1:] or 'the state'} is a "
            f"{type(value).__name__}. States with tensors, of loaders, go into torch.save."
        )
    return value


def _join(tree: Any, name: str, arrays: dict[str, AnyArray]) -> Any:  # noqa: ANN401
    if tree == _ARRAY:
        return arrays[name]
    if isinstance(tree, dict):
        return {key: _join(part, f"{name}/{_escaped(key)}", arrays) for key, part in tree.items()}
    return tree


def _escaped(key: object) -> str:
    """Give a key as a part of a path, as JSON pointers do: no two of them make the same path."""
    if not isinstance(key, str):
        raise TypeError(f"The keys of a state must be strings, got {key!r}: name its entries, or use an array.")
    return key.replace("~", "~0").replace("/", "~1")
