"""MixtureKMeans: scikit-learn's conventions, and clusters that are right."""

import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.datasets import make_blobs
from sklearn.exceptions import NotFittedError
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import varmix
from varmix.estimators import MixtureKMeans
from varmix.estimators.clustering import mean_squared_distance

X, LABELS, MIDDLES = make_blobs(2000, n_features=3, centers=6, cluster_std=0.5, random_state=3, return_centers=True)
RNG = np.random.default_rng(0)
HEAVY = RNG.standard_t(2, size=(4000, 3))
NAMES = ["seeding", "distances", "uniform", "shuffle", "vrb"]


def model(clusters=6, **options):
    return MixtureKMeans(clusters, **{"random_state": 0, "batch_size": 100} | options)


@pytest.mark.parametrize("components", NAMES)
@pytest.mark.parametrize("precision", [np.float64, np.float32])
def test_clusters_are_found_with_every_sampler(components, precision):
    fitted = model(components=components, n_init=3).fit(X.astype(precision))
    assert adjusted_rand_score(LABELS, fitted.labels_) > 0.99
    assert fitted.cluster_centers_.dtype == precision
    assert fitted.labels_.dtype == np.int32
    assert fitted.inertia_ == pytest.approx(2000 * mean_squared_distance(X, fitted.cluster_centers_), rel=1e-5)
    assert fitted.score(X) == pytest.approx(-fitted.inertia_, rel=1e-5)
    assert fitted.mixture_.sum() == pytest.approx(1.0)
    assert fitted.counts_.sum() == pytest.approx(100 * fitted.n_steps_, rel=0.05)
    np.testing.assert_array_equal(fitted.predict(X.astype(precision)), fitted.labels_)
    np.testing.assert_array_equal(fitted.transform(X).argmin(axis=1), fitted.labels_)


@pytest.mark.parametrize("components", [n for n in NAMES if n != "distances"])
def test_sparse_rows_give_what_dense_rows_give(components):
    thin = HEAVY * (np.random.default_rng(5).random(HEAVY.shape) < 0.5)
    dense, sparse = (model(8, components=components).fit(form(thin)) for form in (np.asarray, csr_matrix))
    assert sparse.inertia_ == pytest.approx(dense.inertia_, rel=0.05)
    np.testing.assert_array_equal(sparse.predict(csr_matrix(thin)), sparse.predict(thin))
    assert sparse.score(csr_matrix(thin)) == pytest.approx(-sparse.inertia_)
    assert sparse.transform(csr_matrix(thin)).shape == (4000, 8)


def test_the_mixture_is_ahead_of_uniform_draws_where_points_differ():
    found = {
        name: np.mean(
            [
                model(50, components=name, max_steps=100, batch_size=50, random_state=s).fit(HEAVY).inertia_
                for s in range(8)
            ]
        )
        for name in ("seeding", "uniform")
    }
    assert found["seeding"] < 0.97 * found["uniform"]
    assert model(50, max_steps=100).fit(HEAVY).gain_.low > 1.2


def test_it_does_not_lose_to_mini_batch_k_means():
    ours = np.mean([model(20, random_state=s).fit(HEAVY).inertia_ for s in range(5)])
    peer = MiniBatchKMeans(20, batch_size=100, n_init=1)
    theirs = np.mean([clone(peer).set_params(random_state=s).fit(HEAVY).inertia_ for s in range(5)])
    assert ours < 1.02 * theirs


@pytest.mark.parametrize("n", [6, 7, 40, 99, 100, 101])
def test_small_data_are_clustered_too(n):
    rng = np.random.default_rng(n)
    few = np.vstack([MIDDLES[i % 6] + 0.01 * rng.normal(size=3) for i in range(n)])
    fitted = model(n_init=5).fit(few)
    assert adjusted_rand_score(np.arange(n) % 6, fitted.labels_) == 1.0
    best = KMeans(6, n_init=10, random_state=0).fit(few)
    assert fitted.inertia_ <= 2.0 * best.inertia_ + 1e-9


def test_one_seed_gives_one_result_and_a_random_state_goes_on():
    first = model(8).fit(HEAVY).cluster_centers_
    np.testing.assert_array_equal(model(8).fit(HEAVY).cluster_centers_, first)
    assert (model(8, random_state=1).fit(HEAVY).cluster_centers_ != first).any()
    states = [np.random.RandomState(5), np.random.RandomState(5)]
    fits = [[model(8, random_state=s).fit(HEAVY).cluster_centers_ for _ in range(2)] for s in states]
    np.testing.assert_array_equal(fits[0], fits[1])
    assert (fits[0][0] != fits[0][1]).any()


def test_passes_and_steps_are_counted():
    options = {"max_no_improvement": None}
    fitted = model(max_iter=3, **options).fit(X)
    assert (fitted.n_iter_, fitted.n_steps_) == (3, 60)
    fitted = model(max_steps=25, **options).fit(X)
    assert (fitted.n_iter_, fitted.n_steps_) == (2, 25)
    fitted = model(max_iter=1, max_steps=25, **options).fit(X)
    assert (fitted.n_iter_, fitted.n_steps_) == (1, 20)
    assert model(max_no_improvement=3).fit(X).n_steps_ < 500
    assert model(tol=0.5, **options).fit(X).n_steps_ < 500


def test_it_says_how_it_goes(capsys):
    model(verbose=1, n_init=2, reassignment_ratio=1.0).fit(X)
    told = capsys.readouterr().out
    for line in (
        "Inertia for init 2/2: ",
        "Minibatch step 4/2000: mean batch inertia: ",
        "Reassigning ",
        "Converged at",
    ):
        assert line in told
    model().fit(X)
    assert capsys.readouterr().out == ""


def far(X, n_clusters, random_state):
    assert isinstance(random_state, np.random.RandomState)
    return MIDDLES[:n_clusters] + 0.5


@pytest.mark.parametrize("init", ["k-means++", "random", MIDDLES + 1.0, far])
@pytest.mark.parametrize("weight", [None, np.where(LABELS == 2, 0.0, 1.0 + LABELS)])
@pytest.mark.parametrize("n_init", ["auto", 1])
def test_it_may_begin_anywhere(init, weight, n_init):
    fitted = model(init=init, n_init=n_init, max_steps=50).fit(X, sample_weight=weight)
    assert fitted.cluster_centers_.shape == (6, 3)
    np.testing.assert_array_equal(fitted.predict(X), fitted.labels_)
    if not isinstance(init, str):
        assert adjusted_rand_score(LABELS, fitted.labels_) > 0.99


def test_seeding_over_all_points_leaves_less_than_over_some():
    options = {"clusters": 40, "max_steps": 1}
    all_of_them = np.mean([model(**options, init_size=4000, random_state=s).fit(HEAVY).inertia_ for s in range(8)])
    some = np.mean([model(**options, init_size=80, random_state=s).fit(HEAVY).inertia_ for s in range(8)])
    assert all_of_them < 0.9 * some


def test_warnings_come_where_scikit_learn_warns():
    with pytest.warns(RuntimeWarning, match=r"init_size=3 should be at least n_clusters=6") as few:
        model(init_size=3).fit(X)
    with pytest.warns(RuntimeWarning, match="Explicit initial center position passed: performing only one init") as one:
        model(init=MIDDLES, n_init=4).fit(X)
    assert few[0].filename == one[0].filename == __file__  # where the user called


def test_points_that_weigh_nothing_have_no_say():
    weight = np.where(np.arange(4000) < 2000, 1.0, 0.0)
    data = np.vstack([X, 1e3 + np.random.default_rng(5).normal(size=(2000, 3))])
    for components in NAMES:
        fitted = model(components=components, n_init=3).fit(data, sample_weight=weight)
        assert np.abs(fitted.cluster_centers_).max() < 50
        assert fitted.inertia_ == pytest.approx(2000 * mean_squared_distance(X, fitted.cluster_centers_))
        assert fitted.score(data, sample_weight=weight) == pytest.approx(-fitted.inertia_)


def test_a_weight_counts_as_so_many_points():
    rng = np.random.default_rng(1)
    points = rng.standard_t(5, size=(4000, 3))
    weight = rng.integers(1, 6, size=4000).astype(float) * (1.0 + 4.0 * (points[:, 0] > 1.0))
    mean = [
        np.mean(
            [
                model(10, init_size=10**6, max_steps=300, max_no_improvement=None, random_state=s)
                .fit(data, sample_weight=w)
                .inertia_
                for s in range(16)
            ]
        )
        for data, w in ((points, weight), (np.repeat(points, weight.astype(int), axis=0), None))
    ]
    assert mean[0] == pytest.approx(mean[1], rel=0.05)


@pytest.mark.parametrize("components", NAMES)
def test_constant_and_duplicate_points_are_no_problem(components):
    same = model(3, components=components).fit(np.full((50, 2), 7.0))
    np.testing.assert_allclose(same.cluster_centers_, 7.0)
    assert same.inertia_ == 0.0
    twice = np.repeat([[0.0, 1.0], [4.0, 5.0]], 40, axis=0)
    fitted = model(5, components=components, reassignment_ratio=0.01).fit(twice)
    assert fitted.inertia_ == pytest.approx(0.0, abs=1e-20)
    assert len(set(fitted.labels_)) == 2


def test_empty_clusters_are_put_on_points_where_that_is_asked_for():
    start = np.vstack([MIDDLES[:4], [[1e3] * 3, [-1e3] * 3]])
    kept = model(init=start).fit(X).cluster_centers_
    assert np.abs(kept).max() == pytest.approx(1e3)
    moved = model(init=start, reassignment_ratio=0.01).fit(X).cluster_centers_
    assert np.abs(moved).max() < 50


def test_partial_fit_takes_a_step_over_all_rows_it_is_given():
    chunks, weights = np.split(X, 10), np.split(np.random.default_rng(5).uniform(0.5, 2.0, 2000), 10)
    fitted = model(init=MIDDLES + 0.3)
    centers, counts = MIDDLES + 0.3, np.zeros(6)
    for chunk, weight in zip(chunks, weights, strict=True):
        fitted.partial_fit(chunk, sample_weight=weight)
        squares = ((chunk[:, None] - centers) ** 2).sum(axis=2)
        for k in range(6):
            own = squares.argmin(axis=1) == k
            counts[k] += weight[own].sum()
            centers[k] += (weight[own, None] * (chunk[own] - centers[k])).sum(axis=0) / counts[k]
        np.testing.assert_allclose(fitted.cluster_centers_, centers, rtol=1e-9)
        np.testing.assert_allclose(fitted.counts_, counts)
        np.testing.assert_array_equal(fitted.predict(chunk), fitted.labels_)
    assert fitted.n_steps_ == 10


def test_partial_fit_begins_by_itself_and_goes_on_after_fit():
    fitted = model(batch_size=500, reassignment_ratio=0.05)
    for chunk in np.split(X, 4):
        fitted.partial_fit(chunk.astype(np.float32))
    assert fitted.cluster_centers_.dtype == np.float32
    assert fitted.partial_fit(X).cluster_centers_.dtype == np.float32
    fitted = model().fit(X)
    before, steps = fitted.counts_.sum(), fitted.n_steps_
    assert fitted.partial_fit(X[:500]).n_steps_ == steps + 1
    assert fitted.counts_.sum() == pytest.approx(before + 500)


def test_families_of_ones_own_are_copied():
    family = varmix.Groups(LABELS, replacement=False)
    fitted = model(components=family, allocate=varmix.allocate.stratified).fit(X)
    assert fitted.mixture_.shape == (7,)
    np.testing.assert_array_equal(
        model(components=family, allocate=varmix.allocate.stratified).fit(X).cluster_centers_, fitted.cluster_centers_
    )


def test_mixtures_take_gamma_or_a_learner():
    assert model(gamma=0.4, max_steps=5).fit(X).mixture_[-1] == pytest.approx(0.4)
    fitted = model(components="distances", learner=varmix.learners.Fixed(np.full(11, 1 / 11)), max_steps=5).fit(X)
    np.testing.assert_allclose(fitted.mixture_, 1 / 11)


def test_it_works_in_pipelines_and_searches():
    pipeline = make_pipeline(StandardScaler(), model(max_steps=50))
    search = GridSearchCV(pipeline, {"mixturekmeans__n_clusters": [2, 6]}, cv=3).fit(X)
    assert search.best_params_ == {"mixturekmeans__n_clusters": 6}
    assert pipeline.fit_transform(X).shape == (2000, 6)
    assert adjusted_rand_score(LABELS, model(n_init=3).fit_predict(X)) > 0.99
    assert model().fit(X).get_feature_names_out().tolist() == [f"mixturekmeans{i}" for i in range(6)]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"n_clusters": 0}, ValueError, "n_clusters must be at least 1"),
        ({"n_clusters": 2001}, ValueError, "n_samples=2000 should be >= n_clusters=2001"),
        ({"batch_size": 1.5}, TypeError, "batch_size must be a whole number"),
        ({"max_iter": 0}, ValueError, "max_iter must be at least 1"),
        ({"max_steps": 0}, ValueError, "max_steps must be at least 1"),
        ({"init_size": 0}, ValueError, "init_size must be at least 1"),
        ({"max_no_improvement": -1}, ValueError, "max_no_improvement must be at least 0"),
        ({"tol": -1.0}, ValueError, "tol must be a finite number of at least 0, got -1.0"),
        ({"tol": "small"}, TypeError, "tol must be a number"),
        ({"reassignment_ratio": np.nan}, ValueError, "reassignment_ratio must be a finite number"),
        ({"n_init": 0}, ValueError, "n_init must be at least 1"),
        ({"n_init": "several"}, ValueError, 'n_init must be "auto" or a whole number'),
        ({"init": "k-means"}, ValueError, r"Unknown init 'k-means'.*Did you mean k-means\+\+"),
        ({"init": 3}, TypeError, "an array or a function, got 3"),
        ({"init": MIDDLES[:5]}, ValueError, r"centers \(5, 3\) does not match the number of clusters 6"),
        ({"init": MIDDLES[:, :2]}, ValueError, r"centers \(6, 2\) does not match the number of features of the data 3"),
        ({"init": lambda X, k, random_state: X[:2]}, ValueError, "does not match the number of clusters 6"),
        ({"components": "seedings"}, ValueError, "Unknown components 'seedings'.*Did you mean seeding"),
        ({"components": varmix.Groups}, TypeError, "got the class Groups"),
        ({"components": varmix.Groups(LABELS[1:])}, ValueError, "2000 points, but the sampler draws from Points"),
        ({"components": varmix.Uniform(varmix.components.Subsets(2000, 2))}, ValueError, "sampler draws from Subsets"),
        ({"gamma": 0.1, "learner": varmix.learners.BarrierNewton()}, TypeError, "gamma or a learner, not both"),
        (
            {"components": "uniform", "gamma": 0.1},
            ValueError,
            "components='uniform' has no mixture, so gamma must be None",
        ),
    ],
)
def test_parameters_that_mean_nothing_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        model(**{"clusters": options.pop("n_clusters", 6)} | options).fit(X)


def test_data_that_cannot_be_clustered_are_refused():
    hole = np.where(np.arange(2000)[:, None] == 3, np.nan, X)
    with pytest.raises(ValueError, match="Input X contains NaN"):
        model().fit(hole)
    with pytest.raises(ValueError, match="at least one non-zero number"):
        model().fit(X, sample_weight=np.zeros(2000))
    with pytest.raises(ValueError, match="Negative values"):
        model().fit(X, sample_weight=-np.ones(2000))
    with pytest.raises(ValueError, match="should be >= n_clusters=6"):
        model().partial_fit(X[:5])
    with pytest.raises(TypeError, match="needs a dense X"):
        model(components="distances").fit(csr_matrix(X))
    for call in (lambda m: m.predict(X), lambda m: m.transform(X), lambda m: m.score(X)):
        with pytest.raises(NotFittedError):
            call(model())


def test_a_call_that_fails_leaves_the_model_as_it_was():
    fresh = model()
    with pytest.raises(ValueError, match="should be >="):
        fresh.fit(X[:3])
    assert set(vars(fresh)) == set(model().get_params())
    fitted = model().fit(X)
    before = dict(vars(fitted))
    with pytest.raises(ValueError, match="features"):
        fitted.partial_fit(X[:, :2])
    assert dict(vars(fitted)) == before


@pytest.mark.parametrize("precision", [np.float64, np.float32])
def test_the_data_are_not_copied(precision):
    data = np.random.default_rng(5).normal(size=(20_000, 40)).astype(precision)
    for _ in range(2):  # the second time nothing is compiled
        tracemalloc.start()
        fitted = model(10, max_steps=20, init_size=500).fit(data)
        fitted.predict(data)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < data.nbytes / 2


# Anonymous memory is limited to some more than there is before the fit: half of what the data would take.
MAPPED = """
import resource, sys
import numpy as np
from varmix.estimators import MixtureKMeans
small = np.random.default_rng(0).normal(size=(5000, 64)).astype(np.float32)
small.setflags(write=False)
MixtureKMeans(10, random_state=0, max_steps=30, init_size=1000).fit(small).predict(small)
data = np.memmap(sys.argv[1], dtype=np.float32, mode="r", shape=(300_000, 64))
with open("/proc/self/status") as status:
    used = next(int(line.split()[1]) for line in status if line.startswith("VmData")) * 1024
resource.setrlimit(resource.RLIMIT_DATA, (used + data.nbytes // 2,) * 2)
model = MixtureKMeans(10, random_state=0, max_steps=30, init_size=1000).fit(data)
assert (model.predict(data) == model.labels_).all()
try:
    np.array(data)
except MemoryError:
    print("fitted, and a copy would not have been possible")
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is limited by a Linux call")
def test_a_memory_map_larger_than_memory_can_be_fitted(tmp_path):
    path = tmp_path / "points.dat"
    mapped = np.memmap(path, dtype=np.float32, mode="w+", shape=(300_000, 64))
    for start in range(0, 300_000, 50_000):
        mapped[start : start + 50_000] = np.random.default_rng(5).normal(size=(50_000, 64))
    mapped.flush()
    command = [sys.executable, "-c", MAPPED, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "fitted, and a copy would not have been possible\n", done.stderr


def test_labels_are_the_groups_that_they_name():
    labels, family = (model(components=given).fit(X) for given in (LABELS, varmix.Groups(LABELS, replacement=False)))
    np.testing.assert_array_equal(labels.cluster_centers_, family.cluster_centers_)
    assert labels.gain_ == family.gain_


def test_a_reassignment_ratio_above_one_counts_as_one():
    X = np.random.default_rng(0).normal(size=(500, 3))
    fits = [
        MixtureKMeans(5, reassignment_ratio=ratio, batch_size=100, max_iter=2, random_state=0).fit(X)
        for ratio in (1.0, 2.0)
    ]
    assert np.array_equal(fits[0].cluster_centers_, fits[1].cluster_centers_)
