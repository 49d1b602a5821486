"""Ghost norms are those of single examples, whatever the network, the weights and the reduction."""

import math

import pytest

pytest.importorskip("torch")

import numpy as np
import torch
from torch import distributed, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

import varmix
from support.networks import TASKS, looped, losses, task
from varmix.torch import norms


def told(model, x, y, weights=None, reduction="mean"):
    with norms.ghost(model) as seen:
        weighted = losses(model, x, y) * (1.0 if weights is None else weights)
        getattr(weighted, reduction)().backward()
    return seen.norms(weights, reduction)


def uneven(m, seed=1):
    return torch.rand(m, generator=torch.Generator().manual_seed(seed)) * 3 + 0.1


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_ghost_equals_exact_with_weights(name, reduction):
    model, x, y = task(name)
    given = told(model, x, y, uneven(len(x)), reduction)
    assert given.shape == (len(x),)
    assert given.dtype == torch.float32
    assert not given.requires_grad
    assert given.max() > 1.05 * given.min()
    torch.testing.assert_close(given, norms.exact(model, functional.cross_entropy, x, y), rtol=1e-4, atol=0.0)


@pytest.mark.parametrize("name", TASKS)
def test_ghost_equals_a_loop_in_double_precision(name):
    model, x, y = task(name, dtype=torch.float64)
    given = told(model, x, y)
    assert given.dtype == torch.float64
    torch.testing.assert_close(given.to(x.dtype) if x.is_floating_point() else given.float(), looped(model, x, y))


@pytest.mark.parametrize("name", TASKS)
def test_gradients_of_training_are_what_they_were(name):
    model, x, y = task(name)
    told(model, x, y)
    given = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    losses(model, x, y).mean().backward()
    assert all(map(torch.equal, given, (parameter.grad for parameter in model.parameters())))


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("frozen", ["weight", "bias"])
def test_frozen_parameters_do_not_count(name, frozen):
    model, x, y = task(name)
    for label, parameter in list(model.named_parameters()):
        parameter.requires_grad_(not label.endswith(frozen) and not label.startswith("0"))
    torch.testing.assert_close(told(model, x, y), looped(model, x, y), rtol=1e-4, atol=0.0)


def test_a_frozen_module_is_not_looked_at():
    model, x, y = task("mlp")
    model = nn.Sequential(nn.Bilinear(12, 12, 12).requires_grad_(False), model)
    model[0].forward = lambda x: x
    torch.testing.assert_close(told(model, x, y), looped(model, x, y), rtol=1e-4, atol=0.0)


def test_weights_of_a_draw_and_feedback_to_its_sampler():
    model, x, y = task("mlp")
    sampler = varmix.vrm(varmix.Groups([0, 0, 0, 1, 1, 1]), rng=0)
    draw = sampler.draw(4)
    rows = torch.tensor(draw.indices)
    weights = torch.tensor(draw.weights, dtype=torch.float32)
    with norms.ghost(model) as seen:
        (weights * losses(model, x[rows], y[rows])).mean().backward()
    given = seen.norms(draw.weights)
    np.testing.assert_allclose(given, looped(model, x[rows], y[rows]), rtol=1e-4)
    sampler.update(draw, given)


def test_one_number_undoes_the_scale_of_the_loss():
    model, x, y = task("mlp")
    with norms.ghost(model) as seen:
        (1024 * losses(model, x, y).mean()).backward()
    torch.testing.assert_close(seen.norms(1024.0), looped(model, x, y), rtol=1e-4, atol=0.0)


def test_a_block_may_hold_many_steps():
    model, x, y = task("transformer")
    given = []
    with norms.ghost(model) as seen:
        for rows in (slice(0, 2), slice(2, 6)):
            losses(model, x[rows], y[rows]).mean().backward()
            given.append(seen.norms())
    torch.testing.assert_close(torch.cat(given), looped(model, x, y), rtol=1e-4, atol=0.0)


def test_passes_without_a_gradient_are_ignored():
    model, x, y = task("cnn")
    with norms.ghost(model) as seen:
        with torch.no_grad():
            model(x[:2])
        model(x[:3])  # has a graph, and no backward pass
        losses(model, x, y).mean().backward()
        with torch.no_grad():
            model(x[:2])
    torch.testing.assert_close(seen.norms(), looped(model, x, y), rtol=1e-4, atol=0.0)


def test_inputs_by_name_and_parts_that_lead_nowhere():
    model, x, y = task("mlp")

    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.unused = model, nn.Linear(12, 3)

        def forward(self, x):
            self.unused(x)
            return self.used[2](input=self.used[1](self.used[0](input=x)))

    named = Named()
    torch.testing.assert_close(told(named, x, y), looped(named, x, y), rtol=1e-4, atol=0.0)


def test_sequences_of_any_dimension_through_a_linear_layer():
    model = nn.Sequential(
        nn.Linear(3, 4), nn.LayerNorm((2, 4)), nn.Tanh(), nn.RMSNorm(4), nn.Flatten(), nn.LazyLinear(5)
    )
    x, y = torch.randn(3, 6, 2, 3, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 1, 4])
    model(x)
    torch.testing.assert_close(told(model, x, y), looped(model, x, y), rtol=1e-4, atol=0.0)


@pytest.mark.parametrize("padding", [None, 0])
def test_embeddings_of_single_ids_and_with_padding(padding):
    model = nn.Sequential(nn.Embedding(4, 3, padding_idx=padding), nn.Flatten(), nn.Linear(9, 5))
    nn.init.normal_(model[0].weight, generator=torch.Generator().manual_seed(0))
    x, y = torch.tensor([[0, 0, 1], [2, 2, 2], [0, 0, 0], [1, 2, 3]]), torch.tensor([0, 1, 2, 4])
    torch.testing.assert_close(told(model, x, y), looped(model, x, y), rtol=1e-4, atol=0.0)
    single = nn.Sequential(model[0], nn.Linear(3, 5))
    torch.testing.assert_close(told(single, x[:, 1], y), looped(single, x[:, 1], y), rtol=1e-4, atol=0.0)


class InPlace(nn.Module):
    """Calls a layer `uses` times, changing what some of the calls return in place, and then a last linear layer."""

    def __init__(self, layer, change, uses, last):
        super().__init__()
        self.layer, self.change, self.uses, self.last = layer, change, uses, last

    def forward(self, x):
        for use in range(self.uses):
            y = self.layer(x)
            x = self.change(y, x) if use != 1 else y.tanh()
        return self.last(x.flatten(1))


def added(y, x):
    y += x
    return y


def scaled_in_part(y, x):
    y[:, ..., 1:3] *= 2.0
    return y


def changed_through_a_view(y, x):
    y.view(len(y), -1).mul_(0.5).tanh_()
    return y


def used_before_and_after(y, x):
    before = y.tanh()
    y.mul_(3.0)
    return before + y.sigmoid()


def written_over(y, x):
    kept = y[:, :1].clone()
    y.zero_()
    y[:, :1] = kept
    return y


CHANGES = [added, scaled_in_part, changed_through_a_view, used_before_and_after, written_over, nn.ReLU(inplace=True)]
LAYERS = {
    "linear": (lambda: nn.Linear(6, 6), (6,)),
    "linear over a sequence": (lambda: nn.Linear(6, 6), (4, 6)),
    "linear over a sequence of one": (lambda: nn.Linear(6, 6), (1, 6)),
    "linear over a grid": (lambda: nn.Linear(6, 6), (2, 3, 6)),
    "linear without bias": (lambda: nn.Linear(6, 6, bias=False), (4, 6)),
    "conv1d": (lambda: nn.Conv1d(4, 4, 3, padding=1), (4, 6)),
    "conv2d": (lambda: nn.Conv2d(2, 2, 3, padding=1), (2, 4, 4)),
    "layer norm": (lambda: nn.LayerNorm(6), (4, 6)),
    "rms norm": (lambda: nn.RMSNorm(6), (4, 6)),
    "group norm": (lambda: nn.GroupNorm(2, 4), (4, 6)),
}


@pytest.mark.parametrize("uses", [1, 2, 3])
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: getattr(change, "__name__", "relu in place"))
@pytest.mark.parametrize("name", LAYERS)
def test_operations_in_place_after_a_layer_lose_nothing(name, change, uses):
    """A `Linear` with bias returns a view for sequences; an operation in place on a view leaves its hooks behind."""
    make, shape = LAYERS[name]
    change = (lambda y, x, module=change: module(y)) if isinstance(change, nn.Module) else change
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = InPlace(make(), change, uses, nn.Linear(math.prod(shape), 5)).double()
        x, y = torch.randn(4, *shape, dtype=torch.float64), torch.tensor([0, 1, 4, 2])
    expected = norms.exact(model, functional.cross_entropy, x, y)
    torch.testing.assert_close(told(model, x, y), expected, rtol=1e-10, atol=0.0)
    torch.testing.assert_close(expected, looped(model, x, y), rtol=1e-10, atol=0.0)


def test_chunks_of_one_output_changed_in_place_lose_nothing():
    class Gated(nn.Module):
        def __init__(self):
            super().__init__()
            self.both, self.out = nn.Linear(6, 12), nn.Linear(6, 5)

        def forward(self, x):
            both = self.both(x)
            values, gates = both[..., :6], both[..., 6:]
            values += x
            gates.sigmoid_()
            again = self.both(values.tanh())
            again[..., :6] *= gates
            return self.out(again[..., :6].mean(1))

    model, x, y = Gated().double(), torch.randn(4, 3, 6, dtype=torch.float64), torch.tensor([0, 1, 4, 2])
    torch.testing.assert_close(told(model, x, y), looped(model, x, y), rtol=1e-10, atol=0.0)


def test_embeddings_changed_in_place_lose_nothing():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.out = nn.Embedding(7, 6), nn.Linear(6, 5)

        def forward(self, x):
            first, second = self.words(x), self.words(x.flip(1))
            first *= 3.0
            second += first
            return self.out(second.tanh().mean(1))

    model, x, y = Scaled().double(), torch.randint(7, (4, 3)), torch.tensor([0, 1, 4, 2])
    torch.testing.assert_close(told(model, x, y), looped(model, x, y).double(), rtol=1e-6, atol=0.0)


def test_an_input_that_a_bias_alone_follows_may_be_overwritten():
    class Residual(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.out = nn.Linear(6, 6), nn.Linear(6, 5)

        def forward(self, x):
            x = x.clone()
            x += self.inner(x)
            return self.out(x.mean(1))

    model, x, y = Residual().double(), torch.randn(4, 3, 6, dtype=torch.float64), torch.tensor([0, 1, 4, 2])
    model.inner.weight.requires_grad_(False)
    torch.testing.assert_close(told(model, x, y), looped(model, x, y), rtol=1e-10, atol=0.0)


def test_a_subclass_that_computes_the_same_is_known():
    class Named(nn.Linear):
        pass

    model, x, y = Named(12, 5), *task("mlp")[1:]
    torch.testing.assert_close(told(model, x, y), looped(model, x, y), rtol=1e-4, atol=0.0)


def test_hooks_of_others_that_change_an_output_come_after():
    model = nn.Linear(2, 1, bias=False)
    model.register_forward_hook(lambda module, args, output: 3 * output)
    x = torch.tensor([[3.0, 4.0], [0.0, 1.0]])
    with norms.ghost(model) as seen:
        model(x)[:, 0].mean().backward()
    assert seen.norms().tolist() == [15.0, 3.0]


def test_checkpoints_inside_the_model():
    model, x, y = task("mlp")

    class Frugal(nn.Module):
        def __init__(self):
            super().__init__()
            self.inside = model

        def forward(self, x):
            return checkpoint(self.inside, x, use_reentrant=False)

    torch.testing.assert_close(told(Frugal(), x, y), looped(model, x, y), rtol=1e-4, atol=0.0)


@pytest.mark.skipif(not (distributed.is_available() and distributed.is_gloo_available()), reason="needs gloo")
def test_a_model_wrapped_for_many_processes():
    model, x, y = task("transformer")
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    try:
        given = told(nn.parallel.DistributedDataParallel(model), x, y)
    finally:
        distributed.destroy_process_group()
    torch.testing.assert_close(given, looped(model, x, y), rtol=1e-4, atol=0.0)


def test_half_precision_is_summed_in_single():
    model = nn.Linear(1000, 1, bias=False).to(torch.float16)
    x = torch.full((2, 1000), 60.0, dtype=torch.float16)  # squares, also of its gradient, are beyond half precision
    with norms.ghost(model) as seen:
        (300 * model(x)).sum().backward()
    given = seen.norms(reduction="sum")
    assert given.dtype == torch.float32
    torch.testing.assert_close(given, torch.full((2,), 300 * 60 * 1000**0.5))


def test_mixed_precision_may_go_on_while_norms_are_read():
    model, x, y = task("mlp")
    with torch.autocast("cpu", dtype=torch.bfloat16), norms.ghost(model) as seen:
        losses(model, x, y).mean().backward()
        calls = list(seen._calls)
        inside = seen.norms()
    torch.testing.assert_close(inside, looped(model, x, y), rtol=0.05, atol=0.0)
    seen._calls = calls
    assert torch.equal(inside, seen.norms())


def test_scaling_a_wrong_weight_is_noticed():
    """The negative control: norms with weights left in are not those of a loop."""
    model, x, y = task("mlp")
    with norms.ghost(model) as seen:
        (uneven(len(x)) * losses(model, x, y)).mean().backward()
    assert not torch.allclose(seen.norms(), looped(model, x, y), rtol=1e-2)
