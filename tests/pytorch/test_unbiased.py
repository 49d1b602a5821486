"""With any number of workers, batches estimate the full gradient, and the mixture gets to the same optimum."""

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

import varmix
from support.loaders import EAGER, LABELS, Numbers
from varmix import hindsight
from varmix.torch import AdaptiveLoader, norms

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create 4 worker processes")
WORKERS = [0, 2, 4]


def gradients():
    """Per-example gradients of a small model: squared error of a linear one, at some theta."""
    rng = np.random.default_rng(0)
    x, noise = rng.normal(size=(100, 3)), rng.normal(size=100)
    x[90:] *= 4.0
    errors = x @ [1.0, -2.0, 0.5] - noise
    return 2.0 * errors[:, None] * x


def remembering(sampler):
    """Let a sampler remember the mixture of every draw."""
    mixtures, draw = {}, sampler.draw

    def remembered(m):
        mixture, receipt = sampler.mixture, draw(m)
        mixtures[receipt.serial] = mixture
        return receipt

    sampler.draw = remembered
    return mixtures


@pytest.mark.parametrize("workers", WORKERS)
def test_the_expectation_of_every_batch_is_the_full_gradient(workers):
    """Exactly: summed over all points, by the law that the batch was drawn with while workers ran ahead."""
    each = gradients()
    lengths, table = (
        np.linalg.norm(each, axis=1),
        varmix.components.with_uniform(varmix.Groups(LABELS)).ratios(np.arange(100)),
    )
    loader = AdaptiveLoader(Numbers(), varmix.Groups(LABELS), 10, rng=0, num_workers=workers, steps=20)
    mixtures, late = remembering(loader.sampler), 0
    for batch, draw in loader:
        density = table @ mixtures[draw.serial]
        weights = np.full(100, np.nan)
        weights[batch] = draw.weights  # what the user multiplies by
        np.testing.assert_allclose(weights[batch], 1 / density[batch], rtol=1e-6)
        law = density / 100
        np.testing.assert_allclose(law.sum(), 1.0)
        np.testing.assert_allclose(law @ (each / density[:, None]), each.mean(axis=0), rtol=1e-12)
        late += not np.allclose(weights[batch], 1 / (table @ loader.mixture)[batch], rtol=1e-6)
        loader.update(draw, lengths[batch.numpy()])
    # The control: the present mixture is another one than that of the draw, as soon as workers run ahead.
    assert late == 0 if workers == 0 else late > 10


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize(("replacement", "learner"), [(True, None), (False, None), (False, EAGER)])
def test_the_average_over_many_batches_is_the_full_gradient(workers, replacement, learner):
    each = torch.from_numpy(gradients())
    family = varmix.Groups(LABELS, replacement=replacement)
    loader = AdaptiveLoader(Numbers(), family, 10, learner=learner, rng=0, num_workers=workers, steps=1500)
    weighted, plain = [], []
    for batch, draw in loader:
        loader.update(draw, each[batch].norm(dim=1))
        weighted.append((draw.weights[:, None] * each[batch]).mean(dim=0).numpy())
        plain.append(each[batch].mean(dim=0).numpy())
    truth, n = each.mean(dim=0).numpy(), len(weighted)
    error = np.std(weighted, axis=0, ddof=1) / np.sqrt(n)
    assert (np.abs(np.mean(weighted, axis=0) - truth) < 4.5 * error).all()
    spread = np.std(plain, axis=0, ddof=1) / np.sqrt(n)
    assert (np.abs(np.mean(plain, axis=0) - truth) > 4.5 * spread).any()  # the control: without weights it is another


@pytest.mark.parametrize("workers", WORKERS)
def test_the_mixture_reaches_the_optimum_in_spite_of_the_lag(workers):
    lengths = np.linalg.norm(gradients(), axis=1)
    sampler = varmix.vrm(varmix.Groups(LABELS), rng=0)
    draw_all = sampler.draw_all()
    evidence = varmix.learners.Evidence.from_draw(draw_all, lengths)
    cost, best = evidence.value, hindsight.best_mixture(evidence, gamma=0.1).mixture
    loader = AdaptiveLoader(Numbers(), sampler, 32, num_workers=workers, steps=1500)
    for batch, draw in loader:
        loader.update(draw, lengths[batch.numpy()])
    uniform = cost(np.array([0.0, 0.0, 0.0, 1.0]))
    assert cost(loader.mixture) < 1.02 * cost(best) < 0.8 * uniform


@pytest.mark.parametrize("workers", WORKERS)
def test_a_network_gets_unbiased_gradients(workers):
    torch.manual_seed(0)
    labels = torch.multinomial(torch.tensor([0.6, 0.3, 0.08, 0.02]), 2000, replacement=True)
    x = torch.randn(2000, 12) + labels[:, None]
    model = torch.nn.Sequential(torch.nn.Linear(12, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    directions = torch.randn(5, sum(p.numel() for p in model.parameters()), dtype=torch.float64)

    def gradient(batch, targets, weights):
        model.zero_grad()
        with norms.ghost(model) as seen:
            (weights * cross_entropy(model(batch), targets, reduction="none")).mean().backward()
        flat = torch.cat([p.grad.flatten() for p in model.parameters()]).double()
        return (directions @ flat).numpy(), seen.norms(weights)

    truth, _ = gradient(x, labels, torch.ones(2000))
    family = varmix.Groups(labels)
    loader = AdaptiveLoader(TensorDataset(x, labels), family, 64, rng=0, num_workers=workers, steps=250)
    weighted, plain = [], []
    for (batch, targets), draw in loader:
        seen, lengths = gradient(batch, targets, draw.weights)
        loader.update(draw, lengths)
        weighted.append(seen)
        plain.append(gradient(batch, targets, torch.ones(len(batch)))[0])

    def furthest(estimates):
        error = np.std(estimates, axis=0, ddof=1) / np.sqrt(len(estimates))
        return np.abs((np.mean(estimates, axis=0) - truth) / error).max()

    assert furthest(weighted) < 4.5 < furthest(plain)
