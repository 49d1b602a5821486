"""Norms from losses and logits, beside automatic differentiation."""

import math

import pytest

pytest.importorskip("torch")

import torch
from torch.nn import functional

from varmix.torch import norms


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def normal(*shape, seed=0, dtype=torch.float32):
    return torch.randn(*shape, generator=generator(seed), dtype=dtype)


def slopes(loss, logits):
    """Return the norms of the gradients of losses (m,) with respect to logits, one example after another."""
    logits = logits.clone().requires_grad_()
    gradients = [torch.autograd.grad(each, logits, retain_graph=True)[0] for each in loss(logits)]
    return torch.stack([gradient.norm() for gradient in gradients])


def test_losses_are_averaged_over_positions_and_have_no_graph():
    values = normal(3, 4, 5).abs().requires_grad_()
    given = norms.losses(values)
    assert given.shape == (3,)
    assert not given.requires_grad
    torch.testing.assert_close(given, values.detach().mean((1, 2)))
    assert torch.equal(norms.losses(values[:, 0, 0]), values[:, 0, 0].detach())


def test_losses_in_half_precision_are_averaged_in_single():
    assert norms.losses(torch.full((1, 4096), 100.0, dtype=torch.float16)).tolist() == [100.0]


def test_a_mean_loss_is_refused():
    with pytest.raises(ValueError, match="reduction='none'"):
        norms.losses(torch.tensor(1.0))


@pytest.mark.parametrize("positions", [(), (7,), (3, 2)])
def test_cross_entropy_of_classes_as_by_automatic_differentiation(positions):
    logits, classes = 3 * normal(6, 5, *positions), torch.randint(5, (6, *positions), generator=generator())
    expected = slopes(lambda z: functional.cross_entropy(z, classes, reduction="none").reshape(6, -1).mean(1), logits)
    torch.testing.assert_close(norms.last_layer(logits.requires_grad_(), classes), expected)
    assert not norms.last_layer(logits, classes).requires_grad


@pytest.mark.parametrize("positions", [(), (7,)])
def test_cross_entropy_of_probabilities_as_by_automatic_differentiation(positions):
    logits, shares = normal(6, 5, *positions), normal(6, 5, *positions, seed=1).softmax(1)
    expected = slopes(lambda z: functional.cross_entropy(z, shares, reduction="none").reshape(6, -1).mean(1), logits)
    torch.testing.assert_close(norms.last_layer(logits, shares), expected)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_smoothed_and_mixed_labels_are_probabilities_in_any_precision(dtype):
    labels = functional.one_hot(torch.randint(1000, (6,), generator=generator()), 1000).to(dtype)
    mixed = 0.7 * labels + 0.3 * labels.flip(0)
    for shares in (labels, 0.9 * labels + 0.1 / 1000, mixed, 0.9 * mixed + 0.1 / 1000):
        assert shares.dtype == dtype
        given = norms.last_layer(normal(6, 1000), shares)
        torch.testing.assert_close(given, norms.last_layer(normal(6, 1000), shares.float()), check_dtype=False)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    ("row", "total"),
    [([1.0, 1.0, 0.0], "2"), ([0.0, 0.0, 0.0], "0"), ([0.5, 0.25, 0.0], "0.75"), ([math.nan] * 3, "nan")],
)
def test_several_labels_per_example_are_refused_by_cross_entropy_and_taken_by_binary(row, total, dtype):
    logits, targets = normal(3, 3), torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.25, 0.75], row], dtype=dtype)
    with pytest.raises(ValueError, match=rf"sum to one; those of row 2 sum to {total}\. .*pass loss='binary'"):
        norms.last_layer(logits, targets)
    assert norms.last_layer(logits, targets, loss="binary").shape == (3,)


def test_probabilities_are_checked_at_every_position():
    shares = normal(4, 3, 5, seed=1).softmax(1)
    norms.last_layer(normal(4, 3, 5), shares)
    shares[2, :, 3] *= 2
    with pytest.raises(ValueError, match="those of row 2 sum to 2"):
        norms.last_layer(normal(4, 3, 5), shares)


def test_ignored_positions_do_not_count():
    logits, classes = normal(3, 5, 4), torch.tensor([[0, 1, 9, 9], [2, 9, 3, 4], [9, 9, 9, 9]])
    given = norms.last_layer(logits, classes, ignore_index=9)
    for i in range(2):
        kept = classes[i] != 9
        torch.testing.assert_close(given[i], norms.last_layer(logits[i : i + 1, :, kept], classes[i : i + 1, kept])[0])
    assert given[2] == 0.0
    assert norms.last_layer(logits[:, :, 0], torch.tensor([0, -100, 1]))[1] == 0.0


@pytest.mark.parametrize("shape", [(6,), (6, 3)])
def test_other_losses_as_by_automatic_differentiation(shape):
    logits, values, bits = normal(*shape), normal(*shape, seed=1), normal(*shape, seed=2) > 0
    binary = functional.binary_cross_entropy_with_logits

    def alone(losses):
        return losses.reshape(6, -1).mean(1)

    expected = slopes(lambda z: alone(binary(z, bits.float(), reduction="none")), logits)
    torch.testing.assert_close(norms.last_layer(logits, bits, loss="binary"), expected)
    shares = values.sigmoid()
    expected = slopes(lambda z: alone(binary(z, shares, reduction="none")), logits)
    torch.testing.assert_close(norms.last_layer(logits, shares, loss="binary"), expected)
    expected = slopes(lambda z: alone(functional.mse_loss(z, values, reduction="none")), logits)
    torch.testing.assert_close(norms.last_layer(logits, values, loss="squared"), expected)


@pytest.mark.parametrize("loss", ["cross_entropy", "binary", "squared"])
def test_with_features_the_gradient_of_a_last_linear_layer(loss):
    features, layer = normal(6, 4), torch.nn.Linear(4, 3)
    targets = torch.tensor([0, 1, 2, 0, 1, 2]) if loss == "cross_entropy" else normal(6, 3, seed=1).sigmoid()
    functions = {
        "cross_entropy": functional.cross_entropy,
        "binary": functional.binary_cross_entropy_with_logits,
        "squared": functional.mse_loss,
    }
    expected = norms.exact(layer, functions[loss], features, targets)
    given = norms.last_layer(layer(features), targets, loss=loss, features=features.requires_grad_())
    torch.testing.assert_close(given, expected)
    assert not given.requires_grad


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_saturated_logits_give_finite_norms_in_single_precision(dtype):
    logits = torch.tensor([[60000.0, 0.0, -60000.0], [0.0, 0.0, 0.0], [-math.inf, 0.0, 1.0]], dtype=dtype)
    given = norms.last_layer(logits, torch.tensor([0, 1, 1]))
    assert given.dtype == torch.float32
    assert given.isfinite().all()
    assert given[0] == 0.0
    wrong = norms.last_layer(logits, torch.tensor([2, 1, 1]))
    assert wrong[0] == pytest.approx(math.sqrt(2))
    sure = norms.last_layer(logits[:, 0].clamp_min(-60000), torch.tensor([1, 0, 1]), loss="binary")
    assert sure.tolist() == [0.0, 0.5, 1.0]


@pytest.mark.parametrize("z", [20.0, 60.0])
def test_nearly_saturated_logits_keep_their_digits(z):
    """`softmax(z) - 1` and `sigmoid(z) - 1` are zero in single precision."""
    logits = torch.tensor([[z, 0.0]])
    right = norms.last_layer(logits.double(), torch.tensor([0]))
    assert right.item() == pytest.approx(math.sqrt(2) / (1 + math.exp(z)), rel=1e-6)
    torch.testing.assert_close(norms.last_layer(logits, torch.tensor([0])), right.float(), rtol=1e-5, atol=0.0)
    single = norms.last_layer(torch.tensor([z, -z]), torch.tensor([1, 0]), loss="binary")
    torch.testing.assert_close(single, torch.full((2,), 1 / (1 + math.exp(z))), rtol=1e-5, atol=0.0)


def test_doubles_stay_doubles():
    assert norms.last_layer(normal(2, 3, dtype=torch.float64), torch.tensor([0, 1])).dtype == torch.float64


@pytest.mark.parametrize(
    ("shape", "targets", "options", "message"),
    [
        ((2, 3), torch.tensor([0, 1]), {"loss": "hinge"}, "got 'hinge'"),
        ((3,), torch.tensor([0, 1, 2]), {}, "the class as second"),
        ((), torch.tensor(1.0), {"loss": "squared"}, "first dimension: got"),
        ((2, 3), torch.tensor([0, 1, 2]), {}, r"takes \(2,\)"),
        ((2, 3), torch.tensor([0.0, 1.0]), {}, r"takes \(2, 3\)"),
        ((2, 3, 4), torch.zeros(2, dtype=torch.int64), {}, r"takes \(2, 4\)"),
        ((2, 1), torch.zeros(2), {"loss": "squared"}, r"targets \(2,\) of torch.float32 do not fit logits \(2, 1\)"),
        ((2, 3), torch.tensor([0, 1]), {"features": torch.ones(3, 4)}, r"got features \(3, 4\)"),
        ((2, 3, 1), torch.tensor([[0], [1]]), {"features": torch.ones(2, 4)}, "use ghost"),
    ],
)
def test_what_does_not_fit_is_refused(shape, targets, options, message):
    with pytest.raises(ValueError, match=message):
        norms.last_layer(torch.zeros(shape), targets, **options)


def test_lists_are_refused():
    with pytest.raises(TypeError, match="must be tensors, got Tensor and list"):
        norms.last_layer(torch.zeros(2, 3), [0, 1])


def test_integer_logits_are_refused():
    with pytest.raises(ValueError, match=r"must be real.*torch.int64"):
        norms.last_layer(torch.zeros(2, 3, dtype=torch.int64), torch.tensor([0, 1]))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.bool])
def test_classes_may_be_of_any_whole_type(dtype):
    logits, classes = torch.randn(6, 2), torch.tensor([0, 1, 1, 0, 1, 0])
    assert torch.equal(norms.last_layer(logits, classes.to(dtype)), norms.last_layer(logits, classes))
