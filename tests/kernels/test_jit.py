"""Kernels are kept on disk where there is a place for them, and compiled by every process where there is none."""

from types import SimpleNamespace

import numba
import pytest

from varmix.kernels import jit


def double(x):
    return 2 * x


@pytest.mark.parametrize("decorate", [jit.kernel, jit.part])
def test_without_a_place_to_keep_them_kernels_are_compiled_all_the_same(monkeypatch, decorate):
    asked = []

    def nowhere(**options):
        asked.append(options)
        if options.get("cache"):
            raise RuntimeError("cannot cache function: no locator available")
        return numba.njit(**options)

    monkeypatch.setattr(jit, "numba", SimpleNamespace(njit=nowhere))
    assert decorate(double)(3) == 6
    assert [options.pop("cache", False) for options in asked] == [True, False]
    assert asked[0] == asked[1]
