"""Kernels of k-means against plain NumPy."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from varmix.estimators import _kmeans_kernels as kernels
from varmix.estimators._seeding import _choose_centers
from varmix.solvers._linear import unchecked_rows

RNG = np.random.default_rng(5)
X = RNG.normal(size=(700, 9)) * np.arange(1, 10) * (RNG.random((700, 9)) < 0.6)
CENTERS = X[::50].copy() + 0.01
KINDS = ["dense", "csr"]
PRECISIONS = [np.float64, np.float32]


def given(kind, precision, data=X):
    data = data.astype(precision)
    rows, _ = unchecked_rows(csr_matrix(data) if kind == "csr" else data)
    return rows, np.zeros(0 if kind == "csr" else data.shape[1], dtype=precision)


def all_squares(data, centers):
    return ((data[:, None, :].astype(float) - centers[None].astype(float)) ** 2).sum(axis=2)


def tolerance(precision):
    return 1e-9 if precision is np.float64 else 2e-4


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("begin", "count"), [(0, 700), (13, 1), (100, 257), (5, 0)])
def test_nearest_centers_are_those_of_all_distances(kind, precision, begin, count):
    rows, shift = given(kind, precision)
    labels, squares = np.empty(count, dtype=np.int32), np.empty(count)
    kernels.find_nearest(rows, shift, CENTERS.astype(precision), begin, labels, squares)
    expected = all_squares(X[begin : begin + count], CENTERS)
    np.testing.assert_array_equal(labels, expected.argmin(axis=1))
    np.testing.assert_allclose(squares, expected.min(axis=1), rtol=tolerance(precision), atol=tolerance(precision))


def test_far_from_the_origin_the_shift_keeps_the_digits():
    far = X + 1e9
    rows, _ = given("dense", np.float64, far)
    centers = far[:40].copy()
    found = []
    for shift in (centers.mean(axis=0), np.zeros(9)):
        labels, squares = np.empty(700, dtype=np.int32), np.empty(700)
        kernels.find_nearest(rows, shift, centers - shift, 0, labels, squares)
        found.append(np.abs(squares - all_squares(far, centers).min(axis=1)).max())
    assert found[0] < 1e-4 < found[1]


def plain_descent(data, centers, counts, costs, points, weights, steps):
    """Return norms and losses of steps written down as they are defined, and change centers and counts."""
    norms, losses = np.empty(len(points)), np.empty(steps)
    for t, batch in enumerate(np.split(np.arange(len(points)), steps)):
        here, w = points[batch], weights[batch] * costs[points[batch]]
        squares = all_squares(data[here], centers)
        nearest = squares.argmin(axis=1)
        norms[batch] = costs[here] * np.sqrt(squares.min(axis=1))
        losses[t] = (w * squares.min(axis=1)).sum() / w.sum()
        old = centers.copy()
        for k in np.unique(nearest):
            own = nearest == k
            counts[k] += w[own].sum()
            if counts[k] > 0:
                centers[k] += (w[own, None] * (data[here][own] - old[k])).sum(axis=0) / counts[k]
    return norms, losses


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("batch", "steps"), [(40, 5), (1, 7), (600, 2)])
def test_steps_are_the_weighted_means_of_what_every_center_was_given(kind, precision, weighted, batch, steps):
    rng = np.random.default_rng(batch)
    points, weights = rng.integers(700, size=batch * steps), rng.uniform(0.1, 3.0, batch * steps)
    costs = rng.integers(0, 4, 700).astype(float) if weighted else np.ones(700)
    rows, shift = given(kind, precision)
    centers, counts = CENTERS.astype(precision), np.zeros(len(CENTERS))
    norms, losses = np.empty(batch * steps), np.empty(steps)
    known = np.zeros(700, dtype=np.uint8), np.full(700, -1.0, dtype=np.float32)
    moving = centers, counts, norms, losses, *known
    kernels.move_centers(rows, shift, costs if weighted else np.empty(0), points, weights, *moving)
    expected, expected_counts = CENTERS.astype(precision).astype(float), np.zeros(len(CENTERS))
    with np.errstate(invalid="ignore"):
        want = plain_descent(X, expected, expected_counts, costs, points, weights, steps)
    close = {"rtol": tolerance(precision), "atol": 10 * tolerance(precision)}
    np.testing.assert_allclose(counts, expected_counts, rtol=1e-9)
    np.testing.assert_allclose(centers, expected, **close)
    np.testing.assert_allclose(norms**2, want[0] ** 2, **close)
    np.testing.assert_allclose(losses, np.nan_to_num(want[1]), **close)
    last = dict(zip(points.tolist(), norms.tolist(), strict=True))  # what is known of a point is from when it last came
    came = np.array(sorted(last))
    far = known[1][came] * costs[came]
    np.testing.assert_allclose(far, [last[i] for i in came.tolist()], rtol=1e-6, atol=1e-6)
    assert (np.delete(known[1], came) == -1.0).all()


def test_a_batch_that_weighs_nothing_moves_nothing():
    rows, shift = given("dense", np.float64)
    centers, counts, norms, losses = CENTERS.copy(), np.zeros(len(CENTERS)), np.ones(6), np.ones(1)
    nothing = np.empty(0, dtype=np.uint8), np.empty(0, dtype=np.float32)
    moving = centers, counts, norms, losses, *nothing
    kernels.move_centers(rows, shift, np.zeros(700), np.arange(6), np.ones(6), *moving)
    assert (centers == CENTERS).all()
    assert not counts.any()
    assert not norms.any()
    assert losses == [0.0]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("trials", [1, 5])
@pytest.mark.parametrize("kind", KINDS)
def test_seeding_is_k_means_plus_plus(kind, trials, weighted):
    costs = np.random.default_rng(1).integers(0, 3, 700).astype(float) if weighted else np.empty(0)
    parts = costs if weighted else np.ones(700)
    rows, _ = given(kind, np.float64)
    uniforms = np.random.default_rng(2).random((12, trials))
    centers, labels, squares = np.empty((12, 9)), np.empty(700, dtype=np.uint8), np.empty(700)
    _choose_centers(rows, costs, uniforms, centers, labels, squares)
    expected = X[[np.searchsorted(np.cumsum(parts), uniforms[0, 0] * parts.sum(), side="right")]]
    for k in range(1, 12):
        law = parts * all_squares(X, expected).min(axis=1)
        tried = X[np.searchsorted(np.cumsum(law), uniforms[k] * law.sum(), side="right")]
        left = [parts @ all_squares(X, np.vstack([expected, [c]])).min(axis=1) for c in tried]
        expected = np.vstack([expected, [tried[np.argmin(left)]]])
    np.testing.assert_array_equal(centers, expected)
    np.testing.assert_array_equal(labels, all_squares(X, centers).argmin(axis=1))
    np.testing.assert_allclose(squares, all_squares(X, centers).min(axis=1), atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("stride", "begin"), [(1, 0), (7, 3), (100, 99)])
def test_candidates_are_compared_on_some_points(kind, stride, begin):
    rows, _ = given(kind, np.float64)
    costs, squares, left = np.random.default_rng(1).random(700), all_squares(X, CENTERS).min(axis=1), np.empty(3)
    shift, tried = X[4].copy(), X[[5, 100, 650]].copy()
    lengths = np.empty(700)
    if len(rows.indptr):
        kernels.measure_rows(rows, lengths)
    else:
        lengths = all_squares(X, shift[None])[:, 0]
    kernels.write_potentials(rows, shift, lengths, costs, tried, squares, stride, begin, left)
    some = np.arange(begin, 700, stride)
    least = np.minimum(squares[some, None], all_squares(X[some], tried))
    np.testing.assert_allclose(left, costs[some] @ least)


def pick(costs, squares, totals, *uniforms):
    points = np.full(len(uniforms), -1)
    kernels.pick_points(costs, squares, totals, np.array(uniforms), points)
    return points.tolist()


@pytest.mark.parametrize("costs", [np.empty(0), np.r_[np.zeros(1500), np.ones(1), np.zeros(1499)]])
@pytest.mark.parametrize("u", [0.0, 0.5, 1.0 - 1e-16])
def test_a_draw_by_distance_never_gives_what_has_none(costs, u):
    squares = np.zeros(3000)
    squares[1500:1502] = 2.0
    parts = (costs if len(costs) else np.ones(3000)) * squares
    totals = np.array([parts[i : i + kernels.POINTS_PER_BLOCK].sum() for i in range(0, 3000, kernels.POINTS_PER_BLOCK)])
    assert parts[pick(costs, squares, totals, u)] > 0
    inflated = 1.5 * totals  # as if rounding had gone the other way
    assert parts[pick(costs, squares, inflated, u)] > 0


def test_where_all_distances_are_zero_a_draw_goes_by_weight_alone():
    costs = np.array([0.0, 1.0, 0.0, 3.0])
    assert pick(costs, np.zeros(4), np.zeros(1), 0.0, 0.2, 0.3, 0.99) == [1, 1, 3, 3]
    assert pick(np.empty(0), np.zeros(4), np.zeros(1), 0.1, 0.9) == [0, 3]


def cut(labels, distances, costs=(), groups=1):
    codes, numbers, means = np.empty(len(labels), dtype=np.uint8), np.full(3 * groups, -1), np.full(3 * groups, np.nan)
    given = labels.astype(np.uint8), distances.astype(np.float32), np.array(costs, dtype=float)
    kernels.cut_cells(*given, groups, codes, numbers, means)
    np.testing.assert_array_equal(numbers, np.bincount(codes, minlength=3 * groups))
    return codes, means


def test_a_group_is_cut_at_its_mean_and_a_third_above():
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(4), [8000, 800, 15, 16])
    distances = (rng.gamma(9.0, size=len(labels)) * 10.0**labels).astype(np.float32)
    codes, means = cut(labels, distances, groups=5)
    np.testing.assert_array_equal(codes // 3, labels)
    for group in (0, 1, 3):
        inside = distances[labels == group].astype(float)
        expected = np.digitize(
            inside, inside.mean() * np.array([kernels.NEAR_CUT_SCORE, kernels.FAR_CUT_SCORE]), right=True
        )
        np.testing.assert_array_equal(codes[labels == group] % 3, expected)
    assert set(codes[labels == 2] % 3) == {0}  # too few
    some = [c for c in range(15) if (codes == c).any()]
    np.testing.assert_allclose(means[some], [(distances[codes == c].astype(float) ** 2).mean() for c in some])
    assert not np.delete(means, some).any()


def test_cells_are_cut_by_cost_times_distance():
    rng = np.random.default_rng(0)
    distances, costs = rng.gamma(3.0, size=500).astype(np.float32), rng.gamma(1.0, size=500)
    codes, means = cut(np.zeros(500), distances, costs)
    norms = costs * distances.astype(float)
    np.testing.assert_array_equal(
        codes, np.digitize(norms, norms.mean() * np.array([kernels.NEAR_CUT_SCORE, kernels.FAR_CUT_SCORE]))
    )
    np.testing.assert_allclose(means, [(norms[codes == c] ** 2).mean() for c in range(3)])


def test_equal_distances_are_one_cell():
    for value in (0.0, 3.0):
        codes, _ = cut(np.zeros(100), np.full(100, value))
        assert len(set(codes)) == 1


def test_cells_are_renumbered_where_some_are_empty():
    codes = np.array([5, 0, 2, 5], dtype=np.uint8)
    kernels.renumber_cells(codes, np.array([0, 0, 1, 1, 1, 2], dtype=np.uint8))
    assert codes.tolist() == [2, 0, 1, 2]
