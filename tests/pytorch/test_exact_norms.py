"""Norms by torch.func, beside one backward pass for each example."""

import pytest

pytest.importorskip("torch")

import torch
from torch import nn
from torch.nn import functional

from support.networks import TASKS, looped, task
from varmix.torch import norms


@pytest.mark.parametrize("name", TASKS)
def test_exact_norms_are_those_of_a_loop(name):
    model, x, y = task(name)
    given = norms.exact(model, functional.cross_entropy, x, y)
    assert given.shape == (len(x),)
    assert not given.requires_grad
    torch.testing.assert_close(given, looped(model, x, y), rtol=1e-4, atol=0.0)


def test_frozen_parameters_do_not_count_and_nothing_changes():
    model, x, y = task("mlp")
    whole = norms.exact(model, functional.cross_entropy, x, y)
    model[0].requires_grad_(False)
    part = norms.exact(model, functional.cross_entropy, x, y)
    torch.testing.assert_close(part, looped(model, x, y), rtol=1e-4, atol=0.0)
    assert (part < whole).all()
    assert all(parameter.grad is None for parameter in model.parameters())


def test_chunks_change_nothing():
    model, x, y = task("cnn")
    whole = norms.exact(model, functional.cross_entropy, x, y)
    torch.testing.assert_close(norms.exact(model, functional.cross_entropy, x, y, chunk_size=2), whole)


def test_dropout_differs_between_examples():
    model, x = nn.Sequential(nn.Dropout(0.5), nn.Linear(100, 1)), torch.ones(8, 100)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        given = norms.exact(model, lambda outputs, y: outputs.sum(), x, torch.zeros(8))
    assert len(set(given.tolist())) > 1


def test_half_precision_is_summed_in_single():
    model, x = nn.Linear(1000, 1, bias=False).to(torch.bfloat16), torch.full((2, 1000), 200.0, dtype=torch.bfloat16)
    given = norms.exact(model, lambda outputs, y: outputs.sum(), x, torch.zeros(2))
    assert given.dtype == torch.float32
    torch.testing.assert_close(given, torch.full((2,), 200 * 1000**0.5))


def test_a_loss_for_each_example_is_refused():
    model, x, y = task("mlp")
    with pytest.raises(ValueError, match=r"scalar for a batch of one, got \(1,\)"):
        norms.exact(model, lambda outputs, y: functional.cross_entropy(outputs, y, reduction="none"), x, y)


class Pair(nn.Module):
    """Two inputs."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x, factor):
        return self.model(x * factor)


@pytest.mark.parametrize("named", [False, True])
def test_models_may_have_several_inputs(named):
    model, x, y = task("mlp")
    factor = torch.linspace(1.0, 2.0, len(x))[:, None]
    given = norms.exact(Pair(model), functional.cross_entropy, {"factor": factor, "x": x} if named else (x, factor), y)
    torch.testing.assert_close(given, norms.exact(model, functional.cross_entropy, x * factor, y))


def test_rows_that_do_not_match_are_refused():
    model, x, y = task("mlp")
    for wrong, targets in ((x, y[:-1]), (x, y.tolist()), ((x, x[:-1]), y), ({}, y), ("x", y), (x.sum(), y)):
        with pytest.raises(ValueError, match="one row per example"):
            norms.exact(model, functional.cross_entropy, wrong, targets)


def test_batch_normalisation_is_refused():
    with pytest.raises(ValueError, match=r"'1' .BatchNorm1d. mixes the examples"):
        norms.exact(
            nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)), functional.mse_loss, torch.ones(2, 2), torch.ones(2, 2)
        )


def test_a_model_without_trainable_parameters_is_refused():
    with pytest.raises(ValueError, match="no trainable parameters"):
        norms.exact(nn.ReLU(), functional.mse_loss, torch.ones(2, 2), torch.ones(2, 2))
