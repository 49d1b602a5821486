"""Targets that are files: checkpoints with other bytes, and what `varmix inspect` says of them."""

import contextlib
import hashlib
import io
import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import numpy as np
from safetensors.numpy import load as parse
from safetensors.numpy import save as to_bytes

import varmix
from fuzz.mutations import CONTROL, Mutations, stream
from fuzz.targets import Target, buffer_targets, family_targets
from varmix import __main__ as cli
from varmix._core import checkpoint

LONGEST_OUTPUT = 100_000


class ReportError(Exception):
    """`varmix inspect` has printed what it must not, or ended with another code."""


class Holder:
    """Something with a state that can be saved."""

    def __init__(self, state):
        self._state = state

    def state_dict(self):
        return self._state


class Files:
    """The content of damaged checkpoints, by number: every other has a damaged state, the others damaged bytes."""

    def __init__(self, name, state, seed):
        self._name, self._seed, self._state = name, seed, state
        self._states = Mutations(name, state, [], seed)
        self._good = saved_bytes(state)

    def case(self, number):
        """Return the bytes of a file (or a function that makes something else of a path), and what was done."""
        rng = stream(self._seed, self._name, number)
        if number % 2 == 0:
            state, words = self._states.case(number // 2)
            try:
                return saved_bytes(state), words
            except Exception:  # no state of a checkpoint: there is no such file
                words = f"{words}, which cannot be saved"
        name = sorted(DAMAGES)[rng.integers(len(DAMAGES))]
        return DAMAGES[name](self._good, rng), name


def saved_bytes(state):
    """Return the content of the file that a state is saved in."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "saved"
        varmix.save(path, Holder(state))
        return path.read_bytes()


def _flipped(content, rng):
    changed = bytearray(content)
    for place in rng.integers(len(content), size=rng.integers(1, 9)):
        changed[place] ^= rng.integers(1, 256)
    return bytes(changed)


def _header(make):
    """Return the damage of the first eight bytes, the length of the header."""
    return lambda content, rng: int(make(int.from_bytes(content[:8], "little"))).to_bytes(8, "little") + content[8:]


def _metadata(change):
    """Return the damage of the metadata, with a checksum that fits."""

    def damage(content, rng):
        size = int.from_bytes(content[:8], "little")
        metadata = json.loads(content[8 : 8 + size])["__metadata__"]
        arrays = parse(content)
        metadata["sha256"] = None
        change(metadata, arrays, rng)
        if metadata.get("sha256", "") is None:
            metadata["sha256"] = checkpoint._compute_digest(metadata.get("state", ""), arrays)
        return to_bytes(arrays, metadata={key: str(value) for key, value in metadata.items()})

    return damage


def _tree(change):
    """Return the damage of the text of the state, with a checksum that fits."""

    def damage(metadata, arrays, rng):
        metadata["state"] = change(metadata["state"], rng)

    return _metadata(damage)


def _spliced(text, rng):
    """Put a strange value where a number stands in the text of a state."""
    strange = ["NaN", "-Infinity", "1e999", "1" * 5000, "[" * 300 + "]" * 300, '"\\u001b[2J\\ud800"', "{}", "null"]
    places = [i for i, character in enumerate(text) if character.isdigit() and text[i - 1] == " "]
    place = places[rng.integers(len(places))]
    end = place
    while text[end].isalnum() or text[end] in ".-+":
        end += 1
    return text[:place] + strange[rng.integers(len(strange))] + text[end:]


def _arrays(change):
    def damage(metadata, arrays, rng):
        name = sorted(arrays)[rng.integers(len(arrays))]
        change(arrays, name, rng)

    return _metadata(damage)


def _dropped(arrays, name, rng):
    del arrays[name]


def _added(arrays, name, rng):
    arrays["/more/" + CONTROL[:3]] = np.zeros(3)


def _bytes_of(arrays, name, rng):
    content = bytearray(arrays[name].tobytes())
    if content:
        content[rng.integers(len(content))] ^= rng.integers(1, 256)
    arrays[name] = np.frombuffer(bytes(content), arrays[name].dtype).reshape(arrays[name].shape)


def _set(name, value):
    def damage(metadata, arrays, rng):
        metadata[name] = value

    return _metadata(damage)


def _without(name):
    def damage(metadata, arrays, rng):
        del metadata[name]

    return _metadata(damage)


def _pipe(content, rng):
    return os.mkfifo


def _folder(content, rng):
    return os.mkdir


def _socket_like(content, rng):
    return lambda path: os.symlink("/dev/zero", path)


DAMAGES = {
    "bytes flipped": _flipped,
    "bytes flipped in the header": lambda content, rng: _flipped(content[:200], rng) + content[200:],
    "truncated": lambda content, rng: content[: rng.integers(len(content))],
    "the last byte missing": lambda content, rng: content[:-1],
    "empty": lambda content, rng: b"",
    "bytes behind the end": lambda content, rng: content + rng.bytes(rng.integers(1, 50)),
    "random bytes": lambda content, rng: rng.bytes(rng.integers(1, 300)),
    "a header of any length": lambda content, rng: rng.bytes(8) + content[8:],
    "a header of 2^62 bytes": _header(lambda size: 2**62),
    "a header of 90 million bytes": _header(lambda size: 90_000_000),
    "a header one byte longer": _header(lambda size: size + 1),
    "a header one byte shorter": _header(lambda size: size - 1),
    "a strange value in the state": _tree(_spliced),
    "a state nested deeply": _tree(lambda text, rng: '{"a":' * 100_000 + "1" + "}" * 100_000),
    "a state of nested lists": _tree(lambda text, rng: '{"a":' + "[" * 100_000 + "]" * 100_000 + "}"),
    "a state that is a list": _tree(lambda text, rng: f"[{text}]"),
    "a state that is a number": _tree(lambda text, rng: "1"),
    "a state that is an array": _tree(lambda text, rng: '{"__array__": true}'),
    "a state that is empty": _tree(lambda text, rng: "{}"),
    "a state that is no JSON": _tree(lambda text, rng: text[:-1]),
    "a state that is no text": _tree(lambda text, rng: ""),
    "a mark where no array is": _tree(
        lambda text, rng: text.replace('"serial"', '"array": {"__array__": true}, "serial"')
    ),
    "escapes in a name": _tree(lambda text, rng: text.replace('"class"', '"\\u001b]0;x\\u0007class"')),
    "escapes in all names": _tree(lambda text, rng: text.replace('"serial"', '"\\u001b[31m\\nserial"')),
    "a long name": _tree(lambda text, rng: text.replace('"serial"', f'"{"x" * 100_000}": 1, "serial"')),
    "many names": _tree(lambda text, rng: text[:-1] + "".join(f', "{i}": 0' for i in range(50_000)) + "}"),
    "an array missing": _arrays(_dropped),
    "an array more": _arrays(_added),
    "a byte of an array": _arrays(_bytes_of),
    "another checksum": _set("sha256", hashlib.sha256(b"").hexdigest()),
    "no checksum": _without("sha256"),
    "no state": _without("state"),
    "no format": _without("varmix_format"),
    "an older format": _set("varmix_format", "1"),
    "a newer format": _set("varmix_format", "999"),
    "a strange format": _set("varmix_format", CONTROL[:5] * 1000),
    "a strange version": _set("varmix_version", CONTROL[:5] * 1000),
    "a pipe": _pipe,
    "a folder": _folder,
    "a device": _socket_like,
}


@dataclass(frozen=True)
class FileTarget(Target):
    """A checkpoint file, which is loaded and, before that, inspected."""

    inspect: bool = False

    def cases(self, seed):
        """Return the damaged files, by number."""
        return Files(self.name, self.saved(), seed)

    def load(self, thing, state):
        """Write the file, and load or inspect it."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "checkpoint.varmix"
            if isinstance(state, dict):
                state = saved_bytes(state)
            if callable(state):
                state(path)
            else:
                path.write_bytes(state)
            if self.inspect:
                inspect(path)
            varmix.load(path, thing)


def inspect(path):
    """Run `varmix inspect`, and check that damage is told in one line and nothing but text is printed."""
    out, err = io.StringIO(), io.StringIO()
    # The size: rich would ask a terminal that is not there.
    environment = {"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}
    with (
        patch.dict(os.environ, environment),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        code = cli.main(["inspect", str(path)])
    told, said = out.getvalue(), err.getvalue()
    if len(told) + len(said) > LONGEST_OUTPUT:
        raise ReportError(f"varmix inspect printed {len(told) + len(said):,} characters")
    for line in (told + said).split("\n"):
        if not line.isprintable():
            raise ReportError(f"varmix inspect printed {ascii(line)[:200]}")
    if code == 0 and (said or not told):
        raise ReportError(f"varmix inspect ended well and said {ascii(said)[:200]}")
    if code != 0 and (code != 1 or told or said.count("\n") != 1):
        raise ReportError(f"varmix inspect ended with {code}, and said {ascii(told + said)[:200]}")


def file_targets():
    """Yield files of a few samplers and of a replay buffer, loaded and inspected."""
    chosen = {"reshuffled, resplit", "replay, uniform", "sources, target", "stack, uniform"}
    targets = [target for target in family_targets() if target.name in chosen]
    targets += [target for target in buffer_targets() if target.name == "buffer of 3 steps, 1 environments"]
    for target in targets:
        parts = target.make, target.play, target.prepare
        yield FileTarget(f"file of {target.name}", *parts)
        yield FileTarget(f"inspected file of {target.name}", *parts, inspect=True)
