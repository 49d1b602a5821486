"""Cases: a damaged state is loaded, and must be refused without a trace, or work."""

import copy
import signal
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from fuzz.mutations import is_dense, places
from fuzz.targets import BATCHES
from varmix import CheckpointError

LONGEST_MESSAGE = 4000


class Verdict(NamedTuple):
    """What came of a case: "accepted", "refused", or what went wrong, in a few words and in full."""

    outcome: str
    mutation: str
    detail: str = ""

    @property
    def failed(self):
        return self.outcome not in ("accepted", "refused")


class Hang(BaseException):
    """A case took too long.  Not an Exception, so that nothing catches it on the way."""


class CaseError(Exception):
    def __init__(self, outcome, detail=""):
        super().__init__(outcome, detail)
        self.outcome, self.detail = outcome, detail


@contextmanager
def time_limit(seconds):
    """Raise `Hang` after so many seconds of computing; those that the process waits do not count."""

    def ring(number, frame):
        raise Hang

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def run_case(target, state, mutation, rng):
    """Return the verdict of a damaged state."""
    seed = int(rng.integers(2**32))
    verdict = _judged(target, copied(state), mutation, np.random.default_rng(seed))
    if verdict.outcome == "hang":  # the first time a kernel may have been compiled
        verdict = _judged(target, copied(state), mutation, np.random.default_rng(seed))
    return verdict


def _judged(target, state, mutation, rng):
    thing = target.build()
    before = frozen(target.snapshot(thing))
    try:
        with time_limit(target.seconds):
            outcome = _loaded(target, thing, state, before, rng)
    except CaseError as failure:
        return Verdict(failure.outcome, mutation, failure.detail)
    except Hang:
        return Verdict("hang", mutation, f"more than {target.seconds} s of computing")
    return Verdict(outcome, mutation)


def run_foreign(target):
    """Yield verdicts of the states of objects that were built with other arguments: all must be refused."""
    for place, make in enumerate(target.foreign):
        verdict = run_case(target, target.state(make), f"the state of foreign object {place}", np.random.default_rng(0))
        if verdict.outcome == "accepted":
            verdict = verdict._replace(outcome="the state of another object is accepted")
        yield verdict


def run_undamaged(target):
    """Raise `CaseError` unless the state as it was saved is accepted and works; this also compiles all kernels."""
    thing = target.build()
    state = copied(target.saved())
    outcome = _loaded(target, thing, state, frozen(target.snapshot(thing)), np.random.default_rng(0))
    if outcome != "accepted":
        raise CaseError("an undamaged state is refused")


def _loaded(target, thing, state, before, rng):
    try:
        target.load(thing, state)
    except CheckpointError as error:
        _check_refusal(target, thing, error, before)
        _played(target, thing, rng, 2, "refused, and broken afterwards")
        return "refused"
    except Exception as error:
        raise CaseError(f"{type(error).__name__} while loading", told(error)) from error
    except SystemExit as error:
        raise CaseError("exit while loading", told(error)) from error
    _check_own(target, thing, state)
    _played(target, thing, rng, BATCHES, "accepted, and broken afterwards")
    return "accepted"


def _check_refusal(target, thing, error, before):
    cause = error
    while cause is not None:
        if isinstance(cause, MemoryError):
            raise CaseError("refused when memory ran out", told(cause))
        cause = cause.__cause__ or cause.__context__
    message = str(error)
    if not message.isprintable() or len(message) > LONGEST_MESSAGE:
        raise CaseError("refused with a message that cannot be printed in a line", ascii(message)[:300])
    difference = first_difference(before, frozen(target.snapshot(thing)))
    if difference:
        raise CaseError("refused, and changed", difference)


def _check_own(target, thing, state):
    """Check that what was loaded is a copy: who writes into the state later changes nothing."""
    try:
        loaded = frozen(target.snapshot(thing))
    except Exception as error:
        raise CaseError("accepted, and cannot be saved", told(error)) from error
    for _, value in places(state):
        scribble(value)
    difference = first_difference(loaded, frozen(target.snapshot(thing)))
    if difference:
        raise CaseError("accepted, and shares memory with the state", difference)


def scribble(value):
    """Overwrite an array or a tensor."""
    if is_dense(value):
        value.fill_(1)
    elif isinstance(value, np.ndarray) and value.flags.writeable and value.dtype.kind in "biuf":
        np.asarray(value)[...] = np.logical_not(value) if value.dtype.kind == "b" else value.dtype.type(77)


def _played(target, thing, rng, batches, outcome):
    try:
        target.play(thing, rng, batches)
    except Exception as error:
        raise CaseError(outcome, told(error)) from error


def told(error):
    """Return an error and where in varmix it was raised, in a line."""
    frames, place = error.__traceback__, ""
    while frames is not None:
        name = frames.tb_frame.f_code.co_filename
        if "/varmix/" in name:
            place = f" at {name[name.rindex('/varmix/') + 1 :]}:{frames.tb_lineno}"
        frames = frames.tb_next
    return f"{type(error).__name__}: {ascii(str(error))[:200]}{place}"


def copied(state):
    """Return a state whose arrays are its own, however deeply it is nested and whatever is in it."""
    if isinstance(state, np.ndarray) and state.flags.c_contiguous:
        return copy.deepcopy(state)
    if type(state) is dict:
        return {key: copied(part) for key, part in state.items()}
    if type(state) in (list, tuple):
        return type(state)(copied(part) for part in state)
    if is_dense(state):
        return state.clone()
    return state


def frozen(state):
    """Return every leaf of a state by its path, as values that can be compared to the last bit."""
    return {path: _leaf(value) for path, value in places(state)}


def _leaf(value):
    if isinstance(value, (dict, list, tuple)):
        return type(value).__name__, len(value)
    if hasattr(value, "numpy"):
        value = value.numpy()
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, float):
        return "float", value.hex()
    return type(value).__name__, value


def first_difference(one, other):
    """Return in words where two frozen states differ first, or nothing."""
    for path in one.keys() | other.keys():
        if one.get(path) != other.get(path):
            return f"{'.'.join(map(str, path))} differs"
    return ""
