"""Without TorchRL one message says what to install."""

import importlib
import sys

import pytest


@pytest.mark.parametrize("missing", ["torch", "torchrl.data"])
def test_a_missing_package_is_told_with_what_to_install(monkeypatch, missing):
    monkeypatch.delitem(sys.modules, "varmix.rl.torchrl", raising=False)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'varmix\[torchrl\]'"):
        importlib.import_module("varmix.rl.torchrl")
