"""`ghost` raises an error where it cannot compute norms, and leaves no hook behind."""

import pytest

pytest.importorskip("torch")

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from support.networks import looped, losses, task
from varmix.torch import norms


class Bare(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(3))


class Doubled(nn.Linear):
    def forward(self, x):
        return 2 * super().forward(x)


class Adapted(nn.Linear):
    def __init__(self):
        super().__init__(2, 2)
        self.extra = nn.Parameter(torch.ones(2))


def hooks(model):
    on_modules = sum(len(module._forward_hooks) for module in model.modules())
    return on_modules + sum(len(each._backward_hooks or ()) for each in model.parameters())


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (lambda: nn.BatchNorm2d(3), r"'1' \(BatchNorm2d\) mixes the examples.*GroupNorm"),
        (lambda: nn.BatchNorm1d(3, affine=False), "mixes the examples"),
        (lambda: nn.BatchNorm1d(3, track_running_stats=False).eval(), "mixes the examples"),
        (lambda: nn.BatchNorm1d(3).eval(), r"bias, weight of '1' \(BatchNorm1d\)"),
        (
            lambda: nn.InstanceNorm1d(3, track_running_stats=True),
            r"'1' \(InstanceNorm1d\) keeps running statistics.*eval",
        ),
        (lambda: nn.MultiheadAttention(4, 2), r"in_proj_bias, in_proj_weight of '1' \(MultiheadAttention\)"),
        (lambda: nn.LSTM(2, 2), r"'1' \(LSTM\)"),
        (Bare, r"scale of '1' \(Bare\).*requires_grad_\(False\).*norms.exact"),
        (lambda: Doubled(2, 2), r"bias, weight of '1' \(Doubled\)"),
        (Adapted, r"extra of '1' \(Adapted\)"),
        (lambda: nn.Embedding(3, 2, scale_grad_by_freq=True), r"weight of '1' \(Embedding\)"),
        (lambda: nn.utils.parametrizations.weight_norm(nn.Linear(2, 2)), "original0, original1 of"),
    ],
)
def test_layers_that_are_not_known_are_refused_by_name(layer, message):
    model = nn.Sequential(nn.Linear(2, 2), layer())
    with pytest.raises(ValueError, match=message), norms.ghost(model):
        pass
    assert hooks(model) == 0


def test_layers_without_a_shape_yet_are_refused():
    with pytest.raises(ValueError, match=r"'0' .LazyLinear. does not know its shape yet. Run the model once"):
        norms.ghost(nn.Sequential(nn.LazyLinear(3))).__enter__()


def test_the_model_itself_may_be_refused():
    with pytest.raises(ValueError, match=r"'the model' \(Bare\)"), norms.ghost(Bare()):
        pass


def test_frozen_batch_normalisation_in_evaluation_mode_is_fine():
    _, x, y = task("mlp")
    model = nn.Sequential(nn.Linear(12, 5), nn.BatchNorm1d(5).eval().requires_grad_(False))
    with norms.ghost(model) as seen:
        losses(model, x, y).mean().backward()
    torch.testing.assert_close(seen.norms(), looped(model, x, y), rtol=1e-4, atol=0.0)


@pytest.mark.parametrize("track", [False, True])
def test_instance_normalisation_is_fine_unless_it_updates_running_statistics(track):
    model = nn.Sequential(nn.Conv1d(3, 4, 3), nn.InstanceNorm1d(4, track_running_stats=track), nn.Flatten())
    model.append(nn.Linear(12, 5)).double()
    x, y = torch.randn(4, 3, 5, dtype=torch.float64), torch.tensor([0, 1, 4, 2])
    model(x)
    if track:
        with pytest.raises(ValueError, match="track_running_stats=False"):
            norms.exact(model, functional.cross_entropy, x, y)
        model.eval()
    with norms.ghost(model) as seen:
        losses(model, x, y).mean().backward()
    torch.testing.assert_close(seen.norms(), looped(model, x, y), rtol=1e-10, atol=0.0)


def test_hooks_are_removed_also_after_an_exception():
    model, x, y = task("cnn")
    with norms.ghost(model) as seen:
        assert hooks(model) > 0
        value = losses(model, x, y).mean()
    assert hooks(model) == 0
    value.backward()  # the graph still has its hooks, which tell nobody
    with pytest.raises(RuntimeError, match="No backward pass"):
        seen.norms()
    with pytest.raises(ZeroDivisionError), norms.ghost(model):
        raise ZeroDivisionError
    assert hooks(model) == 0


def test_norms_before_a_backward_pass_are_refused():
    model, x, y = task("mlp")
    with norms.ghost(model) as seen:
        value = losses(model, x, y).mean()
        with pytest.raises(RuntimeError, match="No backward pass to read"):
            seen.norms()
        value.backward()
        seen.norms()
        with pytest.raises(RuntimeError, match="once after it"):
            seen.norms()


@pytest.mark.parametrize("again", [False, True])
def test_a_second_backward_pass_before_reading_is_refused(again):
    model, x, y = task("mlp")
    with norms.ghost(model) as seen:
        value = losses(model, x, y).mean()
        value.backward(retain_graph=True)
        (value if again else losses(model, x, y).mean()).backward()
        assert len(seen._calls) == 2  # those of the first pass: memory does not grow
        with pytest.raises(RuntimeError, match="2 backward passes came before"):
            seen.norms()
        losses(model, x, y).mean().backward()
        torch.testing.assert_close(seen.norms(), looped(model, x, y), rtol=1e-4, atol=0.0)


def test_reentrant_checkpoints_are_refused():
    model, x, y = task("mlp")
    with norms.ghost(model) as seen:
        hidden = model[1](model[0](x))
        functional.cross_entropy(checkpoint(model[2], hidden, use_reentrant=True), y).backward()
    with pytest.raises(RuntimeError, match="use_reentrant=False"):
        seen.norms()


@pytest.mark.parametrize(
    ("weights", "reduction", "message"),
    [
        (torch.ones(5), "mean", r"one per example, \(6,\), or one number: got \(5,\)"),
        (torch.ones(6, 1), "mean", r"got \(6, 1\)"),
        (torch.zeros(6), "mean", "finite and positive"),
        ([1.0, 1.0, 1.0, 1.0, 1.0, float("nan")], "mean", "finite"),
        (float("inf"), "mean", "finite"),
        (None, "none", "got 'none'"),
    ],
)
def test_wrong_weights_are_refused_and_norms_can_be_read_after(weights, reduction, message):
    model, x, y = task("mlp")
    with norms.ghost(model) as seen:
        losses(model, x, y).mean().backward()
    with pytest.raises(ValueError, match=message):
        seen.norms(weights, reduction)
    torch.testing.assert_close(seen.norms(), looped(model, x, y), rtol=1e-4, atol=0.0)


def test_inputs_that_examples_share_are_refused():
    class Places(nn.Module):
        def __init__(self):
            super().__init__()
            self.places, self.out = nn.Embedding(3, 4), nn.Linear(4, 5)

        def forward(self, x):
            return self.out(x + self.places(torch.arange(3))).mean(1)

    model = Places()
    with norms.ghost(model) as seen:
        losses(model, torch.ones(2, 3, 4), torch.tensor([0, 1])).mean().backward()
    with pytest.raises(ValueError, match=r"'out' got \(2, 3, 4\), 'places' got \(3,\).*expand"):
        seen.norms()


@pytest.mark.parametrize(
    ("model", "shape"),
    [
        (nn.Linear(4, 2), (4,)),
        (nn.Conv2d(1, 2, 3), (1, 4, 4)),
        (nn.LayerNorm((2, 4)), (2, 4)),
    ],
)
def test_inputs_without_a_dimension_for_examples_are_refused(model, shape):
    with norms.ghost(model), pytest.raises(ValueError, match=r"no such dimension. Add one"):
        model(torch.ones(shape))


def test_an_input_that_was_overwritten_is_refused_where_autograd_kept_a_copy_of_its_own():
    first, second = nn.Linear(4, 4), nn.Linear(4, 2)
    copy = torch.autograd.graph.saved_tensors_hooks(torch.clone, lambda kept: kept)
    with norms.ghost(nn.Sequential(first, second)) as seen, copy:
        hidden = first(torch.ones(3, 4)).tanh()
        given = second(hidden)
        hidden.zero_()
        given.sum().backward()
    with pytest.raises(RuntimeError, match=r"input of '1' was changed in place.*norms.exact"):
        seen.norms()


def test_a_view_of_a_part_of_another_tensor_is_refused():
    padded = nn.Linear(4, 2)
    padded.forward = lambda x: functional.linear(functional.pad(x, (0, 0, 0, 3)), padded.weight, padded.bias)[:, :-3]
    message = r"output of '0' is a view of a part of another tensor, \(2, 5, 2\) of .*clone"
    with norms.ghost(nn.Sequential(padded)), pytest.raises(ValueError, match=message):
        padded(torch.ones(2, 5, 4))


def test_parameters_that_only_functions_use_are_refused():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(12, 12), nn.Linear(12, 5)

        def forward(self, x):
            return functional.linear(self.first(x), self.second.weight)

    model, (_, x, y) = Tied(), task("mlp")
    with norms.ghost(model) as seen:
        losses(model, x, y).mean().backward()
    with pytest.raises(RuntimeError, match=r"second.weight got a gradient, but no call of their module was seen"):
        seen.norms()


def test_compiled_models_are_refused():
    model, x, y = task("mlp")
    with norms.ghost(model) as seen:
        # What a compiled model does, without compiling: its modules are not called.
        for layer in (model[0], model[2]):
            x = functional.linear(x.relu(), layer.weight, layer.bias)
        functional.cross_entropy(x, y).backward()
    with pytest.raises(RuntimeError, match=r"0.bias, 0.weight, 2.bias, 2.weight got.*compiled models"):
        seen.norms()
