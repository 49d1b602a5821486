"""Feedback that comes late and out of order (section 6.4: "the feedback is given in a delayed fashion").

The evidence of a draw is evaluated at the present mixture with the density of the draw's own time.
"""

import numpy as np
import pytest

import varmix
from support.oracles import cost, random_ratios
from varmix import Dense
from varmix._core.draw import seal_draw
from varmix.hindsight import best_mixture
from varmix.learners import BarrierNewton, Evidence

N, K = 20, 4


def problem():
    rng = np.random.default_rng(0)
    ratios = random_ratios(rng, N, K - 1)
    return Dense(ratios=ratios[:, :-1]), (ratios @ [0.8, 0.1, 0.0, 0.1]) * rng.uniform(0.7, 1.3, size=N)


def receipt_of_every_atom(sampler):
    """Draw until every atom has come, and give one receipt per atom, all made with the present mixture."""
    draw = sampler.draw(20_000)
    atoms, first = np.unique(draw.indices, return_index=True)
    assert len(atoms) == N
    return [
        seal_draw(
            *(getattr(draw, name)[[r]] for name in ("indices", "weights", "ratios", "density")), i, draw.sampler_id
        )
        for i, r in enumerate(first)
    ]


def moved_sampler():
    """Give receipts of one mixture, and the sampler after it has moved far from that mixture."""
    family, norms = problem()
    sampler = varmix.vrm(family, rng=1)
    receipts = receipt_of_every_atom(sampler)
    before = sampler.mixture
    for _ in range(300):
        draw = sampler.draw(8)
        sampler.update(draw, norms[draw.indices])
    assert np.abs(sampler.mixture - before).max() > 0.1
    return sampler, receipts, norms


def test_late_feedback_gives_an_unbiased_gradient_at_the_present_mixture():
    """Sum over all atoms of probability then times gradient now: exactly the gradient of f now."""
    sampler, receipts, norms = moved_sampler()
    w = sampler.mixture
    expected = np.zeros(K)
    for i, receipt in enumerate(receipts):
        probability_then = receipt.density[0] / N
        expected += probability_then * Evidence.from_draw(receipt, norms[[i]]).gradient(w)
    truth = Evidence(sampler.draw_all().ratios, norms**2).gradient(w)
    np.testing.assert_allclose(expected, truth, rtol=1e-10)


def test_the_density_of_the_present_mixture_would_be_biased():
    """Negative control: this is what code that remembers no receipts does."""
    sampler, receipts, norms = moved_sampler()
    w = sampler.mixture
    expected = np.zeros(K)
    for i, receipt in enumerate(receipts):
        probability_then = receipt.density[0] / N
        density_now = receipt.ratios[0] @ w
        expected += probability_then * Evidence(receipt.ratios, norms[[i]] ** 2 / density_now).gradient(w)
    truth = Evidence(sampler.draw_all().ratios, norms**2).gradient(w)
    assert np.abs(expected / truth - 1).max() > 0.05


def reached(delay, m=4, batches=4000):
    """Give the cost after a run in which up to `delay` batches are in flight and come back in random order."""
    family, norms = problem()
    sampler, order, waiting = varmix.vrm(family, rng=2), np.random.default_rng(3), []
    for _ in range(batches):
        waiting.append(sampler.draw(m))
        if len(waiting) > delay:
            draw = waiting.pop(order.integers(len(waiting)))
            sampler.update(draw, norms[draw.indices])
    return cost(sampler.draw_all().ratios, norms, sampler.mixture)


@pytest.mark.parametrize("delay", [0, 1, 32])
def test_the_best_mixture_is_reached_whatever_the_delay(delay):
    family, norms = problem()
    ratios = varmix.vrm(family).draw_all().ratios
    best = best_mixture(Evidence(ratios, norms**2), gamma=BarrierNewton().gamma).cost
    assert cost(ratios, norms, np.append(np.full(K - 1, 0.5 / (K - 1)), 0.5)) > 1.1 * best
    assert reached(delay) < 1.01 * best


def test_skipped_feedback_does_not_bias_what_is_learned():
    family, norms = problem()
    sampler = varmix.vrm(family, rng=4)
    for i in range(8000):
        draw = sampler.draw(4)
        if i % 4 == 0:
            sampler.update(draw, norms[draw.indices])
    best = best_mixture(Evidence(sampler.draw_all().ratios, norms**2), gamma=BarrierNewton().gamma).cost
    assert cost(sampler.draw_all().ratios, norms, sampler.mixture) < 1.01 * best
