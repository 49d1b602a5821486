"""Private parts of PyTorch are read in one module, and this version of PyTorch has all of them."""

import ast
import copy
import re
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

import varmix
from support.loaders import Numbers
from varmix.torch import _torch_internals as internals

LIBRARY = Path(varmix.__file__).parent
ADAPTER = Path(internals.__file__)
PRIVATE = re.compile(r"_(?!_)\w+$")
OF_NAMED_TUPLES = {"_replace", "_asdict", "_fields", "_make"}  # documented, in spite of their names
OF_PYTHON = {("sys", "_getframe")}


def find_own_names(root):
    """Return the private names that the files of a package define: attributes, functions, slots and modules."""
    names = set()
    for path in root.rglob("*.py"):
        names.add(path.stem)
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                names.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.add(node.id)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                names.add(node.attr)
            elif isinstance(node, ast.Assign) and any(getattr(each, "id", "") == "__slots__" for each in node.targets):
                names |= set(ast.literal_eval(node.value))
    return names


def find_foreign_privates(source, own):
    """Return line and name of every private attribute or import in a file that the library does not define itself."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and PRIVATE.match(node.attr) and node.attr not in own | OF_NAMED_TUPLES:
            if (getattr(node.value, "id", None), node.attr) not in OF_PYTHON:
                found.append((node.lineno, node.attr))
        elif isinstance(node, ast.ImportFrom) and not (node.module or "").startswith("varmix"):
            parts = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
            found += [(node.lineno, part) for part in parts if PRIVATE.match(part)]
        elif isinstance(node, ast.Import):
            parts = [part for alias in node.names for part in alias.name.split(".")]
            found += [(node.lineno, part) for part in parts if PRIVATE.match(part)]
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("getattr", "hasattr", "setattr"):
            name = node.args[1]
            if isinstance(name, ast.Constant) and PRIVATE.match(str(name.value)) and name.value not in own:
                found.append((node.lineno, name.value))
    return found


@pytest.mark.parametrize("folder", ["torch", "rl"])
def test_only_the_adapter_reads_private_attributes(folder):
    own = find_own_names(LIBRARY / folder)
    files = [path for path in (LIBRARY / folder).rglob("*.py") if path != ADAPTER]
    assert {path.name: found for path in files if (found := find_foreign_privates(path.read_text(), own))} == {}


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("iterator._rcvd_idx", "_rcvd_idx"),
        ("torch._C.current()", "_C"),
        ("x = tensor._base", "_base"),
        ("getattr(tensor, '_version')", "_version"),
        ("from torch.nn.modules.batchnorm import _BatchNorm", "_BatchNorm"),
        ("import torch._dynamo", "_dynamo"),
        ("from torch._inductor import config", "_inductor"),
    ],
)
def test_private_attributes_are_found(line, name):
    """The control of the test above."""
    assert find_foreign_privates(line, find_own_names(LIBRARY / "torch")) == [(1, name)]


def test_public_and_own_attributes_are_not_found():
    source = "self._sampler.draw(3)\ntorch.nn.Linear\nround_._replace(norms=1)\nmodule.__dict__"
    assert find_foreign_privates(source, find_own_names(LIBRARY / "torch")) == []


class Failing(Numbers):
    def __getitem__(self, index):
        if index == 5:
            raise KeyError(index)
        return super().__getitem__(index)


def test_batches_that_a_loader_returned_or_lost_are_counted():
    batches = iter(DataLoader(Failing(16), batch_size=4, num_workers=1))
    counts = [internals.count_batches_taken(batches)]
    for error in (None, KeyError, None, None):
        if error is None:
            next(batches)
        else:
            with pytest.raises(error):
                next(batches)
        counts.append(internals.count_batches_taken(batches))
    assert counts == [0, 1, 2, 3, 4]


def test_hooks_of_one_backward_pass_have_one_number():
    x, seen = torch.ones(2, requires_grad=True), []
    for each in (x, x * 1.0):
        each.register_hook(lambda grad: seen.append(internals.identify_backward()))
        (each * 2).sum().backward()
    assert len(seen) == 3  # the second pass reaches both hooks
    assert seen[0] != seen[1] == seen[2]


def test_the_base_of_a_view_and_changes_in_place_are_known():
    whole = torch.zeros(3, 2)
    view = whole.view(6)
    assert internals.find_base(view) is whole
    assert internals.find_base(whole) is None
    before = internals.count_changes(whole)
    view.add_(1)
    assert internals.count_changes(whole) == before + 1
    with torch.inference_mode():
        assert internals.count_changes(torch.zeros(2)) == 0


def test_norms_of_every_dimension_are_recognised():
    batch = [nn.BatchNorm1d(2), nn.BatchNorm2d(2), nn.BatchNorm3d(2), nn.SyncBatchNorm(2), nn.LazyBatchNorm2d()]
    instance = [nn.InstanceNorm1d(2), nn.InstanceNorm2d(2), nn.InstanceNorm3d(2), nn.LazyInstanceNorm1d()]
    others = [nn.GroupNorm(1, 2), nn.LayerNorm(2), nn.Linear(2, 2)]
    for modules, expected in ((batch, (True, False)), (instance, (False, True)), (others, (False, False))):
        assert {(internals.is_batch_norm(each), internals.is_instance_norm(each)) for each in modules} == {expected}


def test_an_attribute_that_is_gone_is_one_clear_error():
    words = rf"list_iterator of PyTorch {re.escape(torch.__version__)} has no attribute _rcvd_idx, which varmix reads"
    with pytest.raises(RuntimeError, match=words):
        internals.count_batches_taken(iter([1, 2]))


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths")
@pytest.mark.parametrize(
    "layer",
    [
        nn.Conv1d(2, 3, 4, padding="same"),
        nn.Conv2d(2, 3, (3, 4), padding="same", dilation=(1, 3)),
        nn.Conv2d(2, 3, 3, padding="valid"),
        nn.Conv2d(2, 3, (3, 5), padding=(2, 1), padding_mode="circular"),
        nn.Conv3d(2, 3, 2, padding=(0, 1, 2), padding_mode="replicate"),
    ],
    ids=repr,
)
def test_convolutions_pad_as_computed_from_public_attributes(layer):
    from varmix.torch.norms._layer_rules import find_padding

    x = torch.randn(1, 2, *[9] * len(layer.kernel_size))
    mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
    bare = copy.deepcopy(layer)
    bare.padding, bare.padding_mode = (0,) * len(layer.kernel_size), "zeros"
    assert torch.allclose(layer(x), bare(nn.functional.pad(x, find_padding(layer), mode=mode)), atol=1e-6)
