"""What the loop of the solvers reports after every epoch."""

import numpy as np
import pytest

import varmix
from varmix.solvers import Linear, sgd

PROBLEM = Linear(np.eye(40), np.ones(40), loss="squared")


def test_after_an_epoch_another_sampler_may_take_over():
    seen, other = [], varmix.uniform(40, rng=1)

    def after(epoch, loss, meter):
        seen.append((epoch, loss, meter.draws))
        return other if epoch == 2 else None

    before = other.state_dict()["serial"]
    sgd(PROBLEM, varmix.uniform(40, rng=0), step=0.1, epochs=4, batch=10, evaluations_per_epoch=0, after_epoch=after)
    assert [(epoch, draws) for epoch, _, draws in seen] == [
        (1, 40),
        (2, 80),
        (3, 40),
        (4, 80),
    ]  # of the sampler that drew
    assert seen[-1][1] < seen[0][1]
    assert other.state_dict()["serial"] > before


def test_a_sampler_over_other_points_cannot():
    with pytest.raises(ValueError, match="has 40 points, but the sampler draws from"):
        sgd(PROBLEM, varmix.uniform(40), step=0.1, epochs=2, after_epoch=lambda *_: varmix.uniform(41))
