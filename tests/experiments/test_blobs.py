import sys

import numpy as np
import pytest

from varmix import Groups, uniform, vrm
from varmix.experiments import blobs
from varmix.experiments.blobs import accuracy, hinge, make_blobs, train


def test_blobs_are_balanced_separated_and_labelled_by_side():
    data = make_blobs(600)
    assert np.bincount(data.blob).tolist() == [100] * 6
    assert (np.sign(data.X[:, 0]) == data.y).all()
    middle = np.isin(data.blob, blobs.MIDDLE)
    assert np.abs(data.X[middle, 0]).max() < np.abs(data.X[~middle, 0]).min()


def test_the_mixture_finds_the_middle_blobs():
    data = make_blobs(6000)
    mixed = train(data, vrm(Groups(data.blob), rng=0), "mixture")
    plain = train(data, uniform(6000, rng=0), "uniform")
    assert mixed.mixture[list(blobs.MIDDLE)].sum() > 0.7
    assert mixed.meter.gain.low > 1.5
    assert plain.meter.gain.value == 1
    assert accuracy(data, mixed.theta) == 1
    assert hinge(data, mixed.theta) < 0.5


def test_the_command_prints_the_mixture_and_the_comparison(capsys):
    blobs.main(["--epochs", "1"])
    printed = capsys.readouterr().out
    assert "Weight on the two middle blobs" in printed
    assert "uniform sampling would have had" in printed
    assert printed.count("accuracy") == 2


def test_a_missing_extra_is_named_with_the_command_that_adds_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "rich.progress", None)
    with pytest.raises(ImportError, match=r"pip install 'varmix\[experiments\]'"):
        blobs.main([])
