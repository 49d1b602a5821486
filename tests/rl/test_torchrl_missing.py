"""Without TorchRL one message says what to install."""

import importlib
import sys

import pytest


@pytest.mark.usefixtures("active")
@pytest.mark.parametrize("missing", ["torch", "torchrl.data"])
def test_a_missing_package_is_told_with_what_to_install(monkeypatch, missing):
    monkeypatch.delitem(sys.modules, "varmix.rl.torchrl", raising=False)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ModuleNotFoundError, match=r"its extra torchrl: pip install '\.\[torchrl\]' in a checkout"):
        importlib.import_module("varmix.rl.torchrl")
