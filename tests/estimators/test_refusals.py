"""Invalid parameters and data raise, and the model does not change."""

import numpy as np
import pytest

import varmix
from support.estimators import N, T, X, Y, classifier, regressor
from varmix.estimators import MixtureSGDClassifier


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"loss": "log"}, ValueError, "Unknown loss 'log': choose from hinge, log_loss"),
        ({"learning_rate": "linar"}, ValueError, "Did you mean linear"),
        ({"sampling": "mix"}, ValueError, "Unknown sampling 'mix'"),
        ({"sampling": None}, ValueError, "Unknown sampling 'None'"),
        ({"components": "cluster"}, ValueError, "Did you mean clusters"),
        ({"components": None}, TypeError, "Pass labels, one per point, or a family .* got None"),
        ({"components": varmix.Groups}, TypeError, "got the class Groups"),
        ({"components": varmix.uniform(1500)}, TypeError, "its family, sampler.components"),
        ({"loss": ["hinge"]}, ValueError, "Unknown loss"),
        ({"learning_rate": np.arange(3)}, ValueError, "Unknown learning_rate"),
        ({"resplit": np.arange(3)}, ValueError, "resplit must be None or"),
        ({"components": np.arange(5)}, ValueError, "over 5 points, but X has 1500 rows"),
        ({"components": varmix.Groups([0, 1])}, ValueError, "X has 1500 rows"),
        ({"components": varmix.Groups([0, 1]), "resplit": "norms"}, ValueError, "Pass it to the family instead"),
        ({"resplit": "nroms"}, ValueError, "resplit must be None or"),
        ({"alpha": -1.0}, ValueError, "alpha must be a finite number of at least zero"),
        ({"alpha": "1"}, TypeError, "alpha must be a number"),
        ({"power_t": np.nan}, ValueError, "power_t must be a finite number"),
        ({"eta0": 0.0}, ValueError, "eta0 must be a finite number above zero"),
        ({"tol": -1e-3}, ValueError, "tol must be a finite number above zero"),
        ({"batch_size": 0}, ValueError, "batch_size must be at least 1"),
        ({"batch_size": 1.5}, TypeError, "batch_size must be a whole number"),
        ({"max_iter": True}, TypeError, "max_iter must be a whole number"),
        ({"n_iter_no_change": 0}, ValueError, "n_iter_no_change must be at least 1"),
    ],
)
def test_parameters_that_mean_nothing_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        classifier(**options).fit(X, Y)


def test_steps_that_are_too_long_are_told():
    with pytest.raises(ValueError, match=r"SGD diverged in epoch 1: the step size 1e\+04 is too large"):
        regressor(eta0=1e4).fit(X, T)


@pytest.mark.parametrize("call", ["fit", "partial_fit"])
def test_a_call_that_fails_leaves_the_model_as_it_was(call):
    fresh = regressor(eta0=1e160)
    with pytest.raises(ValueError, match="diverged"):
        getattr(fresh, call)(1e150 * X, T)
    assert set(vars(fresh)) == set(regressor().get_params())
    fitted = classifier(learning_rate="constant").fit(X, Y)
    before, predicted = dict(vars(fitted)), fitted.predict(X)
    with pytest.raises(ValueError, match="diverged"):
        getattr(fitted.set_params(eta0=1e160), call)(1e150 * X[:, :3] if call == "fit" else 1e150 * X, Y)
    assert dict(vars(fitted)) == before | {"eta0": 1e160}
    assert (fitted.predict(X) == predicted).all()


def test_a_first_partial_fit_that_fails_can_be_made_again():
    model = classifier(eta0=1e160)
    with pytest.raises(ValueError, match="diverged"):
        model.partial_fit(1e150 * X, Y, classes=[0, 1])
    assert model.set_params(eta0=None).partial_fit(X, Y, classes=[0, 1]).t_ == -(-N // 32) + 1


def test_data_that_cannot_be_fitted_are_refused():
    with pytest.raises(ValueError, match="one class only"):
        classifier().fit(X, np.zeros(N))
    with pytest.raises(ValueError, match="non-zero"):
        classifier().fit(X, Y, sample_weight=np.zeros(N))
    with pytest.raises(ValueError, match=r"[Nn]egative"):
        classifier().fit(X, Y, sample_weight=-np.ones(N))
    with pytest.raises(ValueError, match="need classes, and y holds numbers"):
        regressor(components="labels").fit(X, T)


def test_partial_fits_that_cannot_go_on_are_refused():
    with pytest.raises(ValueError, match="decays to zero at the last step, which partial_fit cannot know"):
        classifier(learning_rate="linear").partial_fit(X, Y, classes=[0, 1])
    model = classifier()
    with pytest.raises(ValueError, match="classes must be passed on the first call"):
        model.partial_fit(X, Y)
    with pytest.raises(ValueError, match="classes has one only: 1"):
        model.partial_fit(X, Y, classes=[1])
    with pytest.raises(ValueError, match="not among"):
        model.partial_fit(X, Y + 1, classes=[0, 1])
    model.partial_fit(X, Y, classes=[0, 1])
    with pytest.raises(ValueError, match="classes must not change between calls"):
        model.partial_fit(X, Y, classes=[0, 1, 2])
    with pytest.raises(AttributeError, match="predict_proba"):
        MixtureSGDClassifier().predict_proba(X)
