"""The classifier and the regressor: what they find, with every kind of sampling."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import varmix
from support.estimators import MARGINS, SAMPLINGS, SCALES, N, T, X, Y, classifier, objective, regressor
from varmix.estimators import MixtureSGDClassifier
from varmix.estimators._sgd import LEARNING_RATES, choose_epochs, first_step
from varmix.solvers import Linear


@pytest.fixture(scope="module")
def logistic():
    return LogisticRegression(C=1 / (0.01 * N), tol=1e-10).fit(X, Y)


@pytest.fixture(scope="module")
def ridge():
    return Ridge(alpha=0.01 * N, tol=1e-12).fit(X, T)


@pytest.mark.parametrize("sampling", ["mixture", "shuffle"])
def test_without_replacement_it_finds_what_exact_solvers_find(sampling, logistic, ridge):
    model = classifier(sampling=sampling, max_iter=100, fallback=False).fit(X, Y)
    np.testing.assert_allclose(model.coef_, logistic.coef_, atol=0.03)
    np.testing.assert_allclose(model.intercept_, logistic.intercept_, atol=0.03)
    model = regressor(sampling=sampling, max_iter=100).fit(X, T)
    np.testing.assert_allclose(model.coef_, ridge.coef_, atol=0.05)
    np.testing.assert_allclose(model.intercept_, ridge.intercept_, atol=0.05)


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_every_sampling_comes_close_to_the_least_objective(sampling, logistic, ridge):
    for make, y, exact in ((classifier, Y, logistic), (regressor, T, ridge)):
        model = make(sampling=sampling, max_iter=100, fallback=False).fit(X, y)
        reached = objective(model, y=y)
        model.coef_, model.intercept_ = exact.coef_, exact.intercept_
        least = objective(model, y=y)
        assert least - 1e-6 <= reached <= least + 3e-3
        assert model.sampling_ == sampling


FAMILIES = [
    "auto",
    "labels",
    "clusters",
    "norms",
    np.arange(N) % 7,
    varmix.Groups(np.arange(N) % 3),
    varmix.Groups(SCALES[:, 0] > 1, replacement=False),
]


@pytest.mark.parametrize("components", FAMILIES, ids=[*FAMILIES[:4], "array", "replaced", "reshuffled"])
def test_every_kind_of_components_draws(components, logistic):
    model = classifier(components=components, fallback=False).fit(X, Y)
    np.testing.assert_allclose(model.coef_, logistic.coef_, atol=0.1)
    assert model.mixture_.sum() == pytest.approx(1)
    assert clone(model).fit(X, Y).coef_.tolist() == model.coef_.tolist()  # a family is as it was


def test_groups_are_cut_again_after_every_epoch():
    plain, cross = (classifier(resplit=resplit, fallback=False).fit(X, Y) for resplit in (None, "norms"))
    assert len(cross.mixture_) == 3 * (len(plain.mixture_) - 1) + 1
    assert objective(cross) == pytest.approx(objective(plain), abs=1e-4)


@pytest.mark.parametrize("rate", LEARNING_RATES)
def test_every_rate_gets_close(rate):
    best = objective(classifier(max_iter=200).fit(X, Y))
    assert objective(classifier(learning_rate=rate).fit(X, Y)) < best + 0.01
    chosen = regressor(learning_rate=rate, eta0=0.02, power_t=0.1).fit(X, T)
    assert chosen.eta0_ == 0.02
    assert chosen.score(X, T) > 0.8


def test_the_hinge_separates_what_can_be_separated():
    model = MixtureSGDClassifier(random_state=0).fit(X, MARGINS > 0)
    assert model.score(X, MARGINS > 0) > 0.98
    assert model.classes_.tolist() == [False, True]
    assert not hasattr(model, "predict_proba")


def test_more_classes_are_each_against_the_rest():
    y = np.digitize(X[:, 1] / SCALES[:, 0], [-0.6, 0.6])
    model = classifier(fallback=False).fit(X, np.array(["low", "middle", "top"])[y])
    assert model.coef_.shape == (3, 4)
    assert model.intercept_.shape == (3,)
    assert model.decision_function(X).shape == (N, 3)
    assert len(model.mixture_) == len(model.gain_) == len(model.sampling_) == len(model.loss_curve_) == 3
    probabilities = model.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    assert (model.classes_[probabilities.argmax(axis=1)] == model.predict(X)).all()
    binary = classifier(fallback=False).fit(X, y == 2)
    exact = LogisticRegression(C=1 / (0.01 * N), tol=1e-10).fit(X, y == 2)
    np.testing.assert_allclose(binary.coef_, exact.coef_, atol=0.05)
    np.testing.assert_allclose(model.coef_[2], binary.coef_[0], atol=0.05)


def test_probabilities_are_those_of_the_logistic_loss(logistic):
    model = classifier(max_iter=100).fit(X, Y)
    np.testing.assert_allclose(model.predict_proba(X), logistic.predict_proba(X), atol=0.03)
    np.testing.assert_allclose(model.predict_log_proba(X), np.log(model.predict_proba(X)))
    model.coef_, model.intercept_ = np.full((3, 4), -1e6), np.zeros(3)  # underflow everywhere
    model.classes_ = np.arange(3)
    assert model.predict_proba(np.ones((1, 4))).tolist() == [[1 / 3] * 3]


@pytest.mark.parametrize("make", [classifier, regressor])
def test_sparse_is_as_dense_and_float32_about_as_float64(make):
    rows, y = np.where(np.abs(X) > 0.2, X, 0.0), T if make is regressor else Y
    dense = make().fit(rows, y)
    for other in (sparse.csr_matrix(rows), sparse.csc_array(rows)):
        model = make().fit(other, y)
        np.testing.assert_allclose(model.coef_, dense.coef_, rtol=1e-9)
        np.testing.assert_allclose(model.predict(other), dense.predict(rows), rtol=1e-9)
    single = make().fit(rows.astype(np.float32), y)
    assert single.coef_.dtype == np.float32
    np.testing.assert_allclose(single.coef_, dense.coef_, atol=0.02)


@pytest.mark.parametrize("make", [classifier, regressor])
def test_a_weight_counts_as_repeated_rows(make):
    y = T if make is regressor else Y
    weights = np.random.default_rng(1).integers(0, 4, size=N)
    weighted = make(max_iter=100).fit(X, y, sample_weight=weights)
    repeated = make(max_iter=100, alpha=0.01 / weights.mean()).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    for model in (weighted, repeated):
        model.alpha = 0.01
    assert objective(repeated, y=y, costs=weights) == pytest.approx(objective(weighted, y=y, costs=weights), abs=2e-3)
    unweighted = make(max_iter=100).fit(X, y, sample_weight=np.ones(N))
    np.testing.assert_allclose(unweighted.coef_, make(max_iter=100).fit(X, y).coef_)


def test_the_same_seed_gives_the_same_model_in_this_and_in_another_process():
    first = classifier(components="clusters", random_state=3).fit(X, Y).coef_
    assert classifier(components="clusters", random_state=3).fit(X, Y).coef_.tolist() == first.tolist()
    states = [classifier(random_state=np.random.RandomState(3)).fit(X, Y).coef_.tolist() for _ in range(2)]
    assert states[0] == states[1]
    going_on = classifier(random_state=np.random.RandomState(3))
    assert going_on.fit(X, Y).coef_.tolist() != going_on.fit(X, Y).coef_.tolist()
    rows = np.random.default_rng(5).normal(size=(300, 2))
    here = MixtureSGDClassifier(random_state=1, max_iter=3).fit(rows, rows[:, 0] > 0).coef_
    code = (
        "import numpy as np; from varmix.estimators import MixtureSGDClassifier as M; r = np.random.default_rng(5);"
        "X = r.normal(size=(300, 2)); print(M(random_state=1, max_iter=3).fit(X, X[:, 0] > 0).coef_.tolist())"
    )
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert there.stdout.strip() == str(here.tolist())


def test_models_are_pickled_with_what_they_learned():
    for model in (classifier().fit(X, Y), regressor(components=varmix.Groups(np.arange(N) % 3)).fit(X, T)):
        other = pickle.loads(pickle.dumps(model))
        assert other.predict(X).tolist() == model.predict(X).tolist()
        assert other.gain_ == model.gain_


def test_a_tolerance_ends_a_run_and_its_lack_is_told():
    model = regressor(tol=0.01, learning_rate="constant", max_iter=200).fit(X, T)
    assert model.n_iter_ < 100
    assert model.t_ == -(-model.n_iter_ * N // 32) + 1
    for make, y in ((regressor, T), (classifier, Y)):
        with pytest.warns(ConvergenceWarning, match="max_iter=3 epochs") as told:
            make(tol=1e-6, max_iter=3).fit(X, y)
        assert told[0].filename == __file__  # where the user called


@pytest.mark.parametrize(("n", "batch", "epochs"), [(1500, 32, 43), (6400, 32, 20), (40, 32, 500), (3, 3, 500)])
def test_epochs_unless_told_are_as_many_as_the_steps_want_and_bounded(n, batch, epochs):
    assert choose_epochs(n, batch) == epochs


def test_few_points_need_no_more_epochs_than_that():
    rows, y = X[:40], Y[:40]
    model = classifier().fit(rows, y)
    assert model.n_iter_ == len(model.loss_curve_) == 500
    exact = LogisticRegression(C=1 / (0.01 * 40), tol=1e-10).fit(rows, y)
    reached = objective(model, rows, y)
    model.coef_, model.intercept_ = exact.coef_, exact.intercept_
    assert reached < objective(model, rows, y) + 1e-3


def test_a_warm_start_goes_on_from_what_there_is():
    for make, y in ((classifier, Y), (regressor, T)):
        model = make(warm_start=True, max_iter=1, eta0=1e-9).fit(X, y)
        model.coef_ = model.coef_ + 1.0
        before = model.coef_.copy()
        np.testing.assert_allclose(model.fit(X, y).coef_, before, atol=1e-5)
        np.testing.assert_allclose(model.set_params(warm_start=False).fit(X, y).coef_, 0, atol=1e-5)
    model = classifier(warm_start=True).fit(X, Y)
    assert model.fit(X, Y + (X[:, 0] > 0)).coef_.shape == (3, 4)  # other classes: from anew
    assert model.fit(X[:, :2], Y + (X[:, 0] > 0)).coef_.shape == (3, 2)


def test_partial_fits_go_on_with_coefficients_and_steps(logistic):
    model, chunks = classifier(learning_rate="invscaling"), np.array_split(np.random.default_rng(3).permutation(N), 3)
    for call in range(60):
        model.partial_fit(X[chunks[call % 3]], Y[chunks[call % 3]], classes=[0, 1] if call < 2 else None)
    assert model.t_ == 60 * 16 + 1
    assert model.n_iter_ == 1
    np.testing.assert_allclose(model.coef_, logistic.coef_, atol=0.15)
    other = regressor()
    for call in range(30):
        other.partial_fit(X[chunks[call % 3]], T[chunks[call % 3]], sample_weight=np.ones(500))
    assert other.score(X, T) > 0.9 * regressor().fit(X, T).score(X, T)
    three = classifier(learning_rate="auto").partial_fit(X, Y, classes=[0, 1, 2])
    first = list(three.eta0_)
    assert three.partial_fit(9 * X[:50], Y[:50]).eta0_ == first  # the first step is of the first call
    assert three.predict(X).max() <= 2


def test_without_an_intercept_it_is_zero():
    model = classifier(fit_intercept=False, warm_start=True).fit(X, Y)
    assert model.fit(X, Y).intercept_.tolist() == [0.0]


def test_few_points_and_features_that_are_zero_still_fit():
    model = classifier().fit(np.zeros((3, 2)), [0, 1, 1])
    assert model.predict(np.zeros((1, 2))).tolist() == [1]
    for sampling in SAMPLINGS:
        model = MixtureSGDClassifier(sampling=sampling, fit_intercept=False, random_state=0)
        assert not model.fit(np.zeros((40, 2)), np.arange(40) % 2).coef_.any()
    problem = Linear(np.zeros((3, 2)), np.ones(3), loss="squared")
    assert first_step(np.zeros((3, 2)), problem, 2) == 1.0
    assert first_step(np.array([[1.0], [-1.0]]), Linear([[1.0], [-1.0]], np.ones(2), loss="squared"), 1) > 0


def test_epochs_are_printed_when_asked(capsys):
    regressor(verbose=1, max_iter=2).fit(X, T)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("epoch 1/2: loss ")
    assert lines[0].endswith("(mixture)")


def test_searches_and_pipelines_take_them():
    steps = make_pipeline(StandardScaler(), MixtureSGDClassifier(random_state=0, max_iter=5))
    grid = {"mixturesgdclassifier__sampling": ["mixture", "shuffle"], "mixturesgdclassifier__alpha": [1e-4, 100.0]}
    search = GridSearchCV(steps, grid, cv=2).fit(X, np.array(["no", "yes"])[Y])
    assert search.best_params_["mixturesgdclassifier__alpha"] == 1e-4
    assert set(search.predict(X)) == {"no", "yes"}
    assert cross_val_score(regressor(max_iter=5), X, T, cv=2).min() > 0.5
