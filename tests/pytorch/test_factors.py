"""Squared norms from factors: two ways that must agree, beside gradients by automatic differentiation."""

import pytest

pytest.importorskip("torch")

import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

from support.networks import TASKS, losses, task
from varmix.torch import norms
from varmix.torch.norms import _layer_rules as factors
from varmix.torch.norms._ghost import Call
from varmix.torch.norms._layer_rules import Factors

M = 3


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def dense(positions, *, groups=1, rows=5, cols=4, seed=0):
    return Factors(
        normal(M, groups, positions, rows, seed=seed), normal(M, groups, positions, cols, seed=seed + 1), rows
    )


def ids(positions, *, rows=5, cols=4, seed=0):
    numbers = torch.randint(rows, (M, positions), generator=torch.Generator().manual_seed(seed))
    return Factors(numbers, normal(M, 1, positions, cols, seed=seed + 1), rows)


def written(use):
    """Return the gradients by their definition, one example, group and position after another."""
    left = functional.one_hot(use.left, use.rows)[:, None].double() if use.ids else use.left
    m, groups, positions, cols = use.right.shape
    total = torch.zeros(m, groups, use.rows, cols, dtype=torch.float64)
    for i in range(m):
        for g in range(groups):
            for t in range(positions):
                total[i, g] += torch.outer(left[i, g, t], use.right[i, g, t])
    return total.flatten(1)


USES = {
    "one position": [dense(1)],
    "many positions": [dense(9)],
    "groups": [dense(4, groups=3)],
    "two uses": [dense(2), dense(3, seed=5)],
    "ids": [ids(7)],
    "ids twice": [ids(7), ids(2, seed=5)],
    "tied": [dense(3), ids(4, seed=5)],
    "tied, used twice": [ids(4, seed=5), dense(3), dense(2, seed=9), ids(1, seed=11)],
}


@pytest.mark.parametrize("uses", USES.values(), ids=USES)
def test_both_ways_are_the_square_of_what_is_written_out(uses):
    expected = sum(written(use) for use in uses).square().sum(1)
    torch.testing.assert_close(factors.compute_ghost_norms(uses), expected, rtol=1e-10, atol=0.0)
    torch.testing.assert_close(factors.compute_direct_norms(uses), expected, rtol=1e-10, atol=0.0)
    torch.testing.assert_close(factors.square_norms(uses), expected, rtol=1e-10, atol=0.0)


def test_the_smaller_one_is_taken():
    assert not factors.direct_is_cheaper([dense(4)])
    assert factors.direct_is_cheaper([dense(5)])
    assert factors.direct_is_cheaper([dense(2), ids(3)])
    assert not factors.direct_is_cheaper([dense(4, groups=3)])


def test_uses_with_other_groups_are_written_out():
    uses = [dense(1, groups=2, rows=2), dense(1, groups=1, rows=4)]
    assert factors.direct_is_cheaper(uses)
    expected = (written(uses[0]) + written(uses[1])).square().sum(1)
    torch.testing.assert_close(factors.square_norms(uses), expected, rtol=1e-10, atol=0.0)


def test_gradients_as_they_are_go_with_factors():
    use, plain = dense(1), normal(M, 5, 4, seed=7)
    expected = (written(use) + plain.flatten(1)).square().sum(1)
    torch.testing.assert_close(factors.square_norms([plain, use]), expected, rtol=1e-10, atol=0.0)


def test_what_cancels_is_not_below_zero():
    left, right = normal(M, 1, 1, 5).float(), normal(M, 1, 1, 400).float()
    use = Factors(torch.cat([left, 3 * left, -4 * left], 2), torch.cat([right, right, right], 2), 5)
    assert (factors.compute_ghost_norms([use]) >= 0).all()


@pytest.mark.parametrize("name", TASKS)
def test_both_ways_agree_for_whole_networks(name, monkeypatch):
    model, x, y = task(name, dtype=torch.float64)
    found = []
    for cheaper in (False, True):
        monkeypatch.setattr(factors, "direct_is_cheaper", lambda uses, cheaper=cheaper: cheaper)
        with norms.ghost(model) as seen:
            losses(model, x, y).mean().backward()
        found.append(seen.norms())
    torch.testing.assert_close(*found, rtol=1e-10, atol=0.0)


@pytest.mark.parametrize("name", TASKS)
def test_the_networks_of_these_tests_take_both_ways(name, monkeypatch):
    model, x, y = task(name)
    taken = []
    cheaper = factors.direct_is_cheaper
    monkeypatch.setattr(factors, "direct_is_cheaper", lambda uses: taken.append(cheaper(uses)) or taken[-1])
    with norms.ghost(model) as seen:
        losses(model, x, y).mean().backward()
    seen.norms()
    assert set(taken) == ({False} if name == "mlp" else {False, True})


@given(st.data())
def test_convolutions_of_all_shapes(data):
    axes, groups = data.draw(st.sampled_from([1, 2, 3]), "axes"), data.draw(st.sampled_from([1, 2, 3]), "groups")
    size, gap, stride, padding = (
        tuple(data.draw(st.integers(least, 3), name) for _ in range(axes))
        for name, least in (("kernel", 1), ("dilation", 1), ("stride", 1), ("padding", 0))
    )
    mode = data.draw(st.sampled_from(["zeros", "reflect", "replicate", "circular"]), "mode")
    pads = data.draw(st.sampled_from([padding, "valid", "same"] if max(stride) == 1 else [padding, "valid"]), "pads")
    side = tuple(gap[i] * (size[i] - 1) + 1 + data.draw(st.integers(0, 3), "more") for i in range(axes))
    around = padding if pads == padding else (0,) * axes if pads == "valid" else tuple(map(_half, size, gap))
    assume(mode == "zeros" or all(most < length for most, length in zip(around, side, strict=True)))
    kind = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[axes - 1]
    options = {"stride": stride, "padding": pads, "dilation": gap, "groups": groups, "padding_mode": mode}
    layer = kind(2 * groups, 3 * groups, size, **options, dtype=torch.float64)
    x = normal(M, 2 * groups, *side)
    _agrees(layer, x)


def _half(size, gap):
    return -(-gap * (size - 1) // 2)


def _agrees(layer, x):
    """Both parameters get the gradients that automatic differentiation gives each example."""
    y = layer(x)
    grad = normal(*y.shape, seed=1)
    call = Call("layer", layer, x, grad)
    gradients = [torch.autograd.grad(layer(x[i : i + 1]), list(layer.parameters()), grad[i : i + 1]) for i in range(M)]
    for number, (name, _) in enumerate(layer.named_parameters()):
        expected = torch.stack([each[number].flatten() for each in gradients])
        part = call.part(name)
        found = factors.write_gradient(part) if isinstance(part, Factors) else part.flatten(1)
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(factors.square_norms([part]), expected.square().sum(1), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.Linear(4, 3), (M, 4)),
        (nn.Linear(4, 3, bias=False), (M, 2, 5, 4)),
        (nn.LayerNorm(4), (M, 4)),
        (nn.LayerNorm((5, 4), bias=False), (M, 2, 5, 4)),
        (nn.RMSNorm(4), (M, 2, 4)),
        (nn.GroupNorm(2, 4), (M, 4)),
        (nn.GroupNorm(4, 4), (M, 4, 3, 2)),
    ],
)
def test_other_layers(layer, shape):
    _agrees(layer.double(), normal(*shape))
