"""Groups that are found in the data."""

import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse

import varmix
from varmix.estimators import auto, auto_labels
from varmix.estimators._auto_groups import merge_small_bins, nest_bins

RNG = np.random.default_rng(0)
X = RNG.standard_cauchy((2000, 3))
CLASSES = RNG.integers(3, size=2000)
LENGTHS = np.linalg.norm(X, axis=1)


def test_inside_every_class_the_upper_half_its_upper_half_and_so_on():
    labels = auto_labels(X, CLASSES)
    for c in range(3):
        inside = CLASSES == c
        n, order = inside.sum(), np.argsort(np.argsort(LENGTHS[inside]))
        expected = np.minimum(np.floor(-np.log2((n - order) / n)), 5).astype(int)
        assert np.bincount(expected)[5] < 32  # the last bin is too small, and joins the one below
        expected = np.minimum(expected, 4)
        assert (labels[inside] == 6 * c + expected).mean() > 0.99  # lengths are rounded


def test_regression_bins_targets_and_lengths():
    y = np.random.default_rng(1).standard_cauchy(2000)
    labels = auto_labels(X, y)
    assert set(labels // 6) == {0, 1, 2}
    far = np.abs(y - np.median(y))
    assert far[labels // 6 == 2].min() >= far[labels // 6 == 1].max() * 0.999
    for outer in range(3):
        short, long = LENGTHS[labels == 6 * outer], LENGTHS[labels == 6 * outer + 1]
        assert short.max() <= long.min() * 1.001


def test_without_targets_there_is_the_length_alone():
    assert np.unique(auto_labels(X)).tolist() == [0, 1, 2, 3, 4, 5]
    assert np.bincount(auto_labels(X, kind="norms")).tolist() == [200] * 10


def test_whole_numbers_are_classes_up_to_64_of_them_unless_told():
    few, many = np.arange(2000.0) % 64, np.arange(2000) % 65
    assert (auto_labels(X, few) // 2 == few).all()  # 64 classes of two bins
    assert auto_labels(X, many).max() < 18  # three bins of targets, six of lengths
    assert auto_labels(X, CLASSES.astype(float), task="regression").max() < 18
    assert (auto_labels(X, few, kind="labels") == few).all()


def test_of_many_classes_the_rarest_count_as_one():
    y = np.minimum(np.arange(4000) // 40, 90)
    labels = auto_labels(np.ones((4000, 1)), y, task="classification")
    assert len(np.unique(labels)) == 64
    assert len(np.unique(labels[y == 90])) == 1  # the most frequent is alone
    assert (labels == labels[y == 90][0]).sum() == (y == 90).sum()


@pytest.mark.parametrize("kind", ["auto", "norms", "clusters"])
def test_lengths_that_are_equal_up_to_rounding_stay_together(kind):
    rows = np.full((500, 3), 1 / 3) * (1 + 1e-9 * np.random.default_rng(2).random((500, 1)))
    assert len(np.unique(auto_labels(rows if kind != "clusters" else np.ones((500, 3)), kind=kind))) == 1


def test_the_order_of_the_points_does_not_matter():
    order, ties = np.random.default_rng(3).permutation(2000), np.floor(np.abs(X))
    for y in (None, CLASSES, X[:, 0] - 1):
        shuffled = auto_labels(ties[order], None if y is None else y[order])
        assert (shuffled == auto_labels(ties, y)[order]).all()


@pytest.mark.parametrize("kind", ["auto", "labels", "norms", "clusters"])
@pytest.mark.parametrize("n", [1, 2, 3, 31, 70])
def test_few_points_and_one_class_give_a_family(kind, n):
    for y in (np.zeros(n, dtype=int), np.arange(n) % 2):
        family = auto(X[:n], y, kind=kind, rng=0)
        assert family.space.n == n
        assert not family.replacement
        varmix.vrm(family, rng=0).draw(5)


@pytest.mark.parametrize("kind", ["auto", "norms", "clusters"])
def test_sparse_is_as_dense_and_float32_about_as_float64(kind):
    rows = np.where(np.abs(X) > 1, X, 0.0)
    labels = auto_labels(rows, CLASSES, kind=kind, rng=0)
    for made in (sparse.csr_matrix, sparse.csc_matrix, sparse.csr_array):
        assert (auto_labels(made(rows), CLASSES, kind=kind, rng=0) == labels).mean() > 0.95
    assert (auto_labels(rows.astype(np.float32), CLASSES, kind=kind, rng=0) == labels).mean() > 0.95


def test_clusters_follow_from_the_seed_and_from_some_points_of_many(monkeypatch):
    blobs = np.random.default_rng(4).normal(size=(2000, 2)) + 100 * np.column_stack([CLASSES, CLASSES])
    monkeypatch.setattr(sys.modules["varmix.estimators._auto_groups"], "MAX_POINTS_TO_CLUSTER", 500)
    labels = auto_labels(blobs, kind="clusters", rng=1)
    assert (auto_labels(blobs, kind="clusters", rng=1) == labels).all()
    assert 3 <= len(np.unique(labels)) <= 16
    assert all(len(np.unique(CLASSES[labels == c])) == 1 for c in np.unique(labels))


def test_strings_and_booleans_are_classes():
    names = np.array(["a", "b", "c"])[CLASSES]
    assert (auto_labels(X, names) == auto_labels(X, CLASSES)).all()
    assert (auto_labels(X, names.astype(object)) == auto_labels(X, CLASSES)).all()
    assert (auto_labels(X, CLASSES > 0, kind="labels") == (CLASSES > 0)).all()


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((X, CLASSES), {"kind": "norm"}, "Unknown kind of groups 'norm'.*Did you mean norms"),
        ((X, CLASSES), {"task": "regress"}, "Unknown task 'regress'"),
        ((np.where(X > 9, np.nan, X), CLASSES), {}, "X must be finite"),
        ((X[:, 0], CLASSES), {}, r"X must be \(n, d\)"),
        ((X, X[:, 0]), {"kind": "labels"}, "need classes, and y holds numbers"),
        ((X,), {"kind": "labels"}, "need classes, and there is no y"),
        ((X, CLASSES[:5]), {}, r"y must be one per point, shape \(2000,\), got shape \(5,\)"),
        ((X, X[:5, 0]), {}, r"y must have shape \(2000,\)"),
        ((X, np.where(X[:, 0] > 9, np.nan, X[:, 0])), {}, "y must be finite"),
        ((X, np.where(X[:, 0] > 9, np.nan, 1.0)), {"task": "classification"}, "y must be finite"),
    ],
)
def test_what_cannot_be_grouped_is_refused(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        auto(*arguments, **options)


def test_bins_below_a_small_lowest_one_join_upwards():
    assert merge_small_bins(np.array([0, 1, 1, 2, 2]), bins=3, least=2).tolist() == [1, 1, 1, 2, 2]
    assert merge_small_bins(np.array([0, 2]), bins=3, least=5).tolist() == [0, 0]
    assert nest_bins(np.array([0, 1, 0, 1]), np.array([1.0, 5, 2, 4]), ()).tolist() == [0, 1, 0, 1]


def test_the_top_of_the_package_gives_it_when_asked():
    assert varmix.auto is auto
    with pytest.raises(AttributeError, match="no attribute 'automatic'"):
        varmix.automatic  # noqa: B018


def test_without_scikit_learn_one_line_says_what_to_install():
    code = "import sys; sys.modules['sklearn'] = None; import varmix; from varmix import *; {}"
    for use in ("varmix.auto", "import varmix.estimators"):
        done = subprocess.run([sys.executable, "-c", code.format(use)], capture_output=True, text=True, check=False)
        assert done.stderr.strip().splitlines()[-1] == (
            "ModuleNotFoundError: varmix.estimators needs scikit-learn, which is not installed. Install varmix with "
            "its extra sklearn: pip install '.[sklearn]' in a checkout of varmix."
        )
