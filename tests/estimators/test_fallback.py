"""Whether plain shuffling takes over, and when."""

from types import SimpleNamespace

import numpy as np
import pytest

import varmix
from support.estimators import TRUE, N, T, X, regressor
from varmix.estimators._sgd import FallbackMonitor


def test_where_it_does_not_pay_plain_shuffling_takes_over():
    rng = np.random.default_rng(2)
    rows = rng.choice([-1.0, 1.0], size=(N, 4))  # all of one length
    y = rows @ TRUE + rng.normal(size=N)
    model = regressor(fallback=True, components=np.arange(N) % 5).fit(rows, y)
    assert model.sampling_ == "shuffle"
    assert model.fallback_.startswith("After 5 of 43 epochs the gain over uniform sampling was ")
    assert model.gain_.value < 1.25
    assert len(model.loss_curve_) == model.n_iter_ == 43
    kept = regressor(fallback=False, components=np.arange(N) % 5).fit(rows, y)
    assert (kept.sampling_, kept.fallback_) == ("mixture", None)


def test_where_few_points_matter_the_mixture_stays():
    model = regressor().fit(X, T)
    assert (model.sampling_, model.fallback_) == ("mixture", None)
    assert model.gain_.low > 1.5
    assert len(model.mixture_) > 5


def test_an_undecided_meter_is_asked_again_until_three_tenths_are_done(monkeypatch):
    asked = []

    class Meter:
        draws = 10_000

        @property
        def gain(self):
            asked.append(1)
            return varmix.meter.Interval(1.2, 1.0, 1.4)

    watch = FallbackMonitor("mixture", varmix.uniform(10, replacement=False), 20, True, 0, 0)
    given = [watch(epoch, 1.0, Meter()) for epoch in range(1, 21)]
    assert [epoch for epoch, sampler in enumerate(given, 1) if sampler is not None] == [6]
    assert watch.sampling == "shuffle"
    assert "1.2 [1, 1.4], below 1.25" in watch.reason


@pytest.mark.parametrize(("replacement", "sampling"), [(True, "shuffle"), (False, "mixture")])
def test_a_family_with_replacement_has_to_gain_more_than_shuffling_gives_for_nothing(replacement, sampling):
    family = varmix.Groups(np.arange(10) % 2, replacement=replacement)
    watch = FallbackMonitor("mixture", varmix.vrm(family), 20, True, 0, 0)
    watch(2, 1.0, SimpleNamespace(draws=10_000, gain=varmix.meter.Interval(2.0, 1.9, 2.1)))
    assert watch.sampling == sampling
    assert ("below 3.5" in (watch.reason or "")) == replacement
