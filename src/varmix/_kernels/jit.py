"""The two ways in which varmix compiles: a kernel, and a part of kernels.

Machine code is kept on disk by Numba.  That must never be why a program does not start: where no folder can be written
to, the disk is full or a file is damaged, varmix warns once and compiles in memory.

The first call after installation compiles for some seconds, and says so on stderr.  A plain loop compiles in 0.1 s;
NumPy takes longer: `np.sort` 1.3 s, the first `a[:] = b` of two arrays 1 s, a sum 0.2 s.  So kernels are plain loops.
They are nested little, because a kernel is compiled again into each one that calls it.
"""

import gc
import os
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Literal, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., object])

_warned = False
_announced = False

NOTICE = "varmix: compiling kernels, once, about 5 s; `varmix warmup` does it ahead"


def kernel(function: F) -> F:
    """Compile on the first call and keep the machine code on disk, so that later processes only load it.

    Division by zero gives infinity, as in NumPy.  No fast-math: results must not depend on the compiler's mood.
    """
    return _compile_function(function)


def part(function: F) -> F:
    """Compile into every kernel that calls it: for the small things that are done for each item of a loop.

    A call that is given all arrays of a matrix counts references to them, which for short rows takes longer than the
    row.  It is worth it for rows, and for a line or two that several kernels share.  Draws, sum trees and replay
    buffers were no faster when compiled like this.
    """
    return _compile_function(function, inline="always")


def _compile_function(function: F, inline: Literal["never", "always"] = "never") -> F:
    try:
        dispatcher = numba.njit(cache=True, error_model="numpy", inline=inline)(function)
    except RuntimeError as error:  # no folder can be written to: every process compiles for itself
        _warn_once(error)
        return cast(F, numba.njit(error_model="numpy", inline=inline)(function))
    if hasattr(dispatcher, "_cache"):  # not when Numba is told to compile nothing
        dispatcher._cache = TolerantCache(dispatcher._cache)
        _pause_collecting(dispatcher)
    return cast(F, dispatcher)


def _pause_collecting(dispatcher: Any) -> None:  # noqa: ANN401
    """Turn the garbage collector off while a kernel compiles: it takes a tenth of that time and finds nothing much."""
    compile_signature = dispatcher.compile

    def compile_without_collecting(signature: object) -> object:
        collecting = gc.isenabled()
        gc.disable()
        try:
            return compile_signature(signature)
        finally:
            if collecting:
                gc.enable()

    dispatcher.compile = compile_without_collecting


class TolerantCache:
    """Numba's cache of one function, which it asks when it compiles and not when it calls; no failure of it gets out.

    An index that cannot be read is written anew, so that the next process finds its machine code again.
    """

    def __init__(self, cache: Any) -> None:  # noqa: ANN401
        self._cache = cache

    def load_overload(self, signature: object, target: object) -> object:
        """Return the machine code for a signature, or None if there is none that can be read."""
        try:
            code = self._cache.load_overload(signature, target)
        except Exception as error:  # a damaged pickle can raise anything
            _warn_once(error, self._cache.cache_path)
            if not isinstance(error, OSError):
                with suppress(Exception):
                    self._cache.flush()
            return None
        if code is None:
            announce_compiling()
        return code

    def save_overload(self, signature: object, result: object) -> None:
        """Keep machine code on disk, if that is possible."""
        try:
            self._cache.save_overload(signature, result)
        except Exception as error:  # it reads the index, too
            _warn_once(error, self._cache.cache_path)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self._cache, name)


def announce_compiling() -> None:
    """Say on stderr, once in a process, that kernels are compiled, unless VARMIX_QUIET is set."""
    if _announced or os.environ.get("VARMIX_QUIET", "0") not in ("", "0") or sys.stderr is None:
        return
    mute_notice()
    print(NOTICE, file=sys.stderr, flush=True)


def mute_notice() -> None:
    """Say no more about compiling in this process."""
    global _announced
    _announced = True


def _warn_once(error: Exception, folder: str | None = None) -> None:
    """Warn once in a process that machine code cannot be kept, or what was kept not read."""
    global _warned
    if _warned:
        return
    _warned = True
    where = "in any folder" if folder is None else f"in {folder}"
    warnings.warn(
        f"Numba's cache {where} cannot be used ({type(error).__name__}: {error}). varmix compiles in memory, which "
        f"takes some seconds in every process. Free space, delete damaged files there, or set NUMBA_CACHE_DIR to a "
        f"folder that can be written to.",
        RuntimeWarning,
        stacklevel=3,
    )
