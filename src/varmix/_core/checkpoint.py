"""Save and load samplers as files: safetensors with a JSON header, atomic writes, no pickle."""

import hashlib
import json
import os
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import NoneType
from typing import Any, BinaryIO, Protocol, TypeVar

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes

from varmix._core.state import FORMAT, CheckpointError, make_printable, wrap_load_errors
from varmix._core.validation import AnyArray, State
from varmix._version import __version__


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a temporary file that replaces `path` after it was written completely.

    If the process dies, `path` holds either its old content or the complete new one. If two processes write at once,
    the last one wins.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with atomic_write(Path(folder) / "greeting") as file:
    ...         _ = file.write(b"hello")
    ...     (Path(folder) / "greeting").read_bytes()
    b'hello'
    """
    target = Path(path)
    handle, aside = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(aside, 0o666 & ~_read_umask())
        os.replace(aside, target)
    except BaseException:
        Path(aside).unlink(missing_ok=True)
        raise


def _read_umask() -> int:
    """Return the umask of this process."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


MAX_HEADER_LENGTH = 1 << 24  # characters of JSON; states keep most of their numbers in arrays
MAX_NESTING_DEPTH = 32  # levels of dictionaries


class Stateful(Protocol):
    """Object that can be saved: a `Sampler`, an `rl.ReplayBuffer`, or any other object with these two methods."""

    def state_dict(self) -> State:
        """Return the state needed to resume exactly, as a nested dict of arrays, numbers and strings."""
        ...

    def load_state_dict(self, state: State) -> None:
        """Resume from `state`, or raise an error and stay unchanged."""
        ...


Owner = TypeVar("Owner", bound=Stateful)


def save(path: str | os.PathLike[str], owner: Stateful) -> None:
    """Write the state of a sampler or a replay buffer to a file.

    The write is atomic: if the process dies, `path` holds either the old checkpoint or the complete new one.

    Parameters
    ----------
    path : str or os.PathLike
        File to write. An existing file is replaced.
    owner : Stateful
        Object to save: a `Sampler`, an `rl.ReplayBuffer`, or any object with `state_dict` and `load_state_dict`. The
        states of loaders contain tensors; save them with `torch.save`.

    Raises
    ------
    TypeError
        If the state contains anything other than nested dicts of arrays, numbers and strings.
    OSError
        If the file cannot be written.

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
    tree = _extract_arrays(owner.state_dict(), "", arrays)
    header = json.dumps(tree)
    metadata = {
        "varmix_format": str(FORMAT),
        "varmix_version": __version__,
        "state": header,
        "sha256": _compute_digest(__version__ + header, arrays),
    }
    content = to_bytes(arrays, metadata=metadata)
    with atomic_write(path) as file:
        file.write(content)


def load(path: str | os.PathLike[str], owner: Owner) -> Owner:
    """Load a checkpoint into an object that was built like the saved one.

    Parameters
    ----------
    path : str or os.PathLike
        File that `save` wrote.
    owner : Stateful
        Object to load the state into. Build it with the same arguments as the one that was saved.

    Returns
    -------
    Stateful
        `owner` itself.

    Raises
    ------
    CheckpointError
        If the file is damaged, has another format, or belongs to another object. `owner` is then unchanged.
    OSError
        If the file does not exist or cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import varmix
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(Path(folder) / "sampler.varmix", varmix.uniform(10, rng=0))
    ...     sampler = load(Path(folder) / "sampler.varmix", varmix.uniform(10))
    >>> sampler.draw(3).indices.shape
    (3,)
    """
    state = read_checkpoint(path)
    with wrap_load_errors(f"{type(owner).__name__} in {make_printable(path)}"):
        owner.load_state_dict(state)
    return owner


def read_checkpoint(path: str | os.PathLike[str]) -> State:
    """Return the state in a checkpoint without loading it into an object.

    It raises the same errors as `load`.
    """
    kind = os.stat(path).st_mode
    if not stat.S_ISREG(kind):
        what = "a folder" if stat.S_ISDIR(kind) else "not a regular file"
        raise CheckpointError(f"{make_printable(path)} is {what}. Pass the path of a file that varmix.save wrote.")
    with wrap_load_errors(f"the file {make_printable(path)}"):
        return _parse_checkpoint(path)


def _parse_checkpoint(path: str | os.PathLike[str]) -> State:
    """Return the state in a checkpoint after checking its format and checksum."""
    name = make_printable(path)
    try:
        with safe_open(os.fspath(path), framework="numpy") as file:
            metadata = file.metadata() or {}
            _check_format(name, metadata)
            arrays = {key: np.array(file.get_tensor(key)) for key in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise CheckpointError(f"{name} is truncated or not a varmix checkpoint ({make_printable(error)}).") from error
    header = metadata.get("state", "")
    if metadata.get("sha256") != _compute_digest(metadata.get("varmix_version", "") + header, arrays):
        raise CheckpointError(f"{name} is damaged: its contents do not match its checksum. Use an older checkpoint.")
    if len(header) > MAX_HEADER_LENGTH:
        raise CheckpointError(
            f"{name} has a header of {len(header):,} characters, and varmix writes at most 16 million."
        )
    state = _insert_arrays(json.loads(header), "", arrays)
    if not isinstance(state, dict):
        raise CheckpointError(f"{name} is damaged: it holds a {type(state).__name__} instead of a dictionary.")
    return state


def _check_format(name: str, metadata: Mapping[str, str]) -> None:
    """Raise `CheckpointError` if the metadata does not belong to a checkpoint in the current format."""
    found = metadata.get("varmix_format")
    if found is None:
        raise CheckpointError(f"{name} is a safetensors file, but not a varmix checkpoint.")
    if found != str(FORMAT):
        writer = make_printable(metadata.get("varmix_version", "0.1.0 or older"), longest=30)
        raise CheckpointError(
            f"{name} has checkpoint format {make_printable(found, longest=30)}, written by varmix {writer}; varmix "
            f"{__version__} reads format {FORMAT}. Load it with the version that wrote it, or start a new run."
        )


def _compute_digest(header: str, arrays: dict[str, AnyArray]) -> str:
    """Return the SHA-256 of a header and the arrays, in hexadecimal."""
    digest = hashlib.sha256(header.encode())
    for name in sorted(arrays):
        digest.update(f"{name}{arrays[name].dtype}{arrays[name].shape}".encode())
        digest.update(arrays[name].tobytes())
    return digest.hexdigest()


_ARRAY_MARK = {"__array__": True}


def _extract_arrays(value: Any, name: str, arrays: dict[str, AnyArray]) -> Any:  # noqa: ANN401
    """Move the arrays of a nested state into `arrays`; return the state with marks in their places."""
    if isinstance(value, np.ndarray):
        arrays[name] = np.asarray(value, order="C")
        return _ARRAY_MARK
    if isinstance(value, dict):
        return {key: _extract_arrays(part, f"{name}/{_escape_key(key)}", arrays) for key, part in value.items()}
    if isinstance(value, np.generic):
        return value.item()
    if not isinstance(value, (str, int, float, list, tuple, NoneType)):
        raise TypeError(
            f"A checkpoint holds arrays, numbers and strings, but {name[1:] or 'the state'} is a "
            f"{type(value).__name__}. Save the state of a loader, which holds tensors, with torch.save."
        )
    return value


def _insert_arrays(tree: Any, name: str, arrays: dict[str, AnyArray], depth: int = 0) -> Any:  # noqa: ANN401
    """Return a nested state with the arrays put back in place of their marks."""
    if depth > MAX_NESTING_DEPTH:
        raise CheckpointError(
            f"The checkpoint nests more than {MAX_NESTING_DEPTH} levels of dictionaries: it is damaged."
        )
    if tree == _ARRAY_MARK:
        return arrays[name]
    if isinstance(tree, dict):
        return {
            key: _insert_arrays(part, f"{name}/{_escape_key(key)}", arrays, depth + 1) for key, part in tree.items()
        }
    return tree


def _escape_key(key: object) -> str:
    """Return a key escaped as in JSON pointers, so that different keys make different paths."""
    if not isinstance(key, str):
        raise TypeError(f"The keys of a state must be strings, got {key!r}. Use names as keys, or store an array.")
    return key.replace("~", "~0").replace("/", "~1")
