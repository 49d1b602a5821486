"""The two decorators that compile varmix's loops: `kernel` and `part`.

Numba keeps machine code on disk. If that fails (no writable folder, full disk, damaged file), varmix warns once and
compiles in memory, so programs still run.

The first call after installation compiles for some seconds and says so on stderr. A plain loop compiles in 0.1 s, and
NumPy functions take longer: `np.sort` 1.3 s, the first `a[:] = b` of two arrays 1 s, a sum 0.2 s. So kernels are plain
loops. A kernel is compiled again into every kernel that calls it, so kernels call few others.
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
    """Compile a function at its first call and cache the machine code on disk for later processes.

    Division by zero gives infinity, as in NumPy. Fast-math is off, so that results do not depend on the compiler.
    """
    return _compile_function(function)


def part(function: F) -> F:
    """Compile a function into every kernel that calls it (inlining), for small steps inside loops.

    Use it for functions that take a matrix and work on one short row: an ordinary call counts references to all arrays,
    which takes longer than the work on the row. Draws, sum trees and replay buffers were no faster with it.
    """
    return _compile_function(function, inline="always")


def _compile_function(function: F, inline: Literal["never", "always"] = "never") -> F:
    """Compile with Numba, with a cache that never raises an error."""
    try:
        dispatcher = numba.njit(cache=True, error_model="numpy", inline=inline)(function)
    except RuntimeError as error:  # no writable folder: every process compiles for itself
        _warn_once(error)
        return cast(F, numba.njit(error_model="numpy", inline=inline)(function))
    if hasattr(dispatcher, "_cache"):  # missing if Numba is disabled by NUMBA_DISABLE_JIT
        dispatcher._cache = TolerantCache(dispatcher._cache)
        _pause_collecting(dispatcher)
    return cast(F, dispatcher)


def _pause_collecting(dispatcher: Any) -> None:  # noqa: ANN401
    """Turn the garbage collector off while a function compiles, which saves a tenth of that time."""
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
    """Numba's cache of one function with all errors caught. Numba uses it when it compiles, not at every call.

    An index that cannot be read is written again, so that the next process finds its machine code.
    """

    def __init__(self, cache: Any) -> None:  # noqa: ANN401
        self._cache = cache

    def load_overload(self, signature: object, target: object) -> object:
        """Return the machine code for a signature, or None if there is none or it cannot be read."""
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
        """Save machine code to disk, if possible."""
        try:
            self._cache.save_overload(signature, result)
        except Exception as error:  # saving reads the index, too, which may be damaged
            _warn_once(error, self._cache.cache_path)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self._cache, name)


def announce_compiling() -> None:
    """Print once per process on stderr that kernels are compiled, unless VARMIX_QUIET is set."""
    if _announced or os.environ.get("VARMIX_QUIET", "0") not in ("", "0") or sys.stderr is None:
        return
    mute_notice()
    print(NOTICE, file=sys.stderr, flush=True)


def mute_notice() -> None:
    """Suppress the notice about compiling in this process."""
    global _announced
    _announced = True


def _warn_once(error: Exception, folder: str | None = None) -> None:
    """Warn once per process that the cache of machine code cannot be used."""
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
