"""The kernels of k-DPPs against plain Python on the same uniforms."""

import faulthandler

import numpy as np
import pytest

from support.kdpps import features
from varmix import KDpp, Uniform
from varmix._core.rng import Uniforms
from varmix._kernels import random
from varmix.components import Subsets
from varmix.components import _kdpp_kernels as determinants
from varmix.components import _kdpp_kernels as kdpp
from varmix.components import _uniform_kernels as subsets
from varmix.components._kdpp_laws import keep_probabilities, log_polynomials, taken_probabilities


class Stream:
    """The random numbers of kernels/random.py, in whole numbers of any length."""

    def __init__(self, pair):
        self.state = self.mix((int(pair[0] * 2**32) << 32) | int(pair[1] * 2**32))

    @staticmethod
    def mix(x):
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) % 2**64
        return x ^ (x >> 31)

    def __call__(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) % 2**64
        return (self.mix(self.state) >> 11) * 2.0**-53


def test_numbers_are_those_of_the_stream():
    pair = np.array([0.123456789, 0.987654321])
    stream, state = Stream(pair), random.seed_state(pair)
    numbers = [random.uniform(state) for _ in range(1000)]
    assert numbers == [stream() for _ in range(1000)]
    assert 0.45 < np.mean(numbers) < 0.55


def pick(weights, u):
    """Give the first index whose running sum is above u."""
    return int(np.searchsorted(np.cumsum(weights) / np.sum(weights), u, side="right"))


def uniform_points(points, size, n, u):
    while len(points) < size:
        rest = sorted(set(range(n)) - set(points))
        points.append(rest[int(u() * len(rest))])
    return sorted(points)


def one_set(u, lane, V, values, ranks, size, tries):
    """Draw a set by the text of the algorithm, with projections by least squares and polynomials by products."""
    n = len(V)
    m = pick(ranks[lane], u()) if lane < len(ranks) else 0
    left, chosen = m, []
    for v in range(len(values) - 1, -1, -1):
        if left == 0:
            break
        if v >= left:
            e = [np.exp(log_polynomials(values[:v], left)[-1, i]) for i in (left - 1, left)]
            if not u() < values[v] * e[0] / (values[v] * e[0] + e[1]):
                continue
        left -= 1
        chosen.insert(0, v)
    W, points = V[:, chosen], []
    for count in range(m):
        span = W[points].T
        residual = W.T - (span @ np.linalg.lstsq(span, W.T, rcond=None)[0] if count else 0.0)
        for _ in range(tries * m):
            v = chosen[int(u() * m)]
            i = pick(V[:, v] ** 2, u())
            if (not count or u() * (W[i] @ W[i]) < residual[:, i] @ residual[:, i]) and i not in points:
                points.append(i)
                break
        else:
            points.append(pick((residual**2).sum(axis=0), u()))
    return uniform_points(points, size, n, u)


@pytest.mark.parametrize("tries", [0, 1, 32])
@pytest.mark.parametrize(("n", "size", "d"), [(8, 3, 4), (9, 4, 3), (30, 5, 6)])
def test_sets_are_those_of_plain_python(n, size, d, tries):
    family = KDpp(features(n, d), size, [0.3, 3.0]).with_uniform()
    family._tries = tries
    cumulative, guide, V, ranks, keep = family._draws
    lanes, pair = np.arange(300) % 3, Uniforms(1).take(2)
    atoms = np.empty((300, size), dtype=np.int64)
    kdpp.draw_sets(lanes, pair, cumulative, guide, V, ranks, keep, tries, atoms)
    u = Stream(pair)
    expected = [one_set(u, lane, V, family._values, ranks, size, tries) for lane in lanes]
    assert atoms.tolist() == expected


def test_uniform_sets_are_those_of_plain_python():
    pair, atoms = Uniforms(2).take(2), np.empty((200, 5), dtype=np.int64)
    subsets.draw_subsets(pair, 7, atoms)
    u = Stream(pair)
    assert atoms.tolist() == [uniform_points([], 5, 7, u) for _ in range(200)]


def test_points_are_inserted_in_their_places_once():
    points = np.array([2, 5, 9, 0])
    assert not subsets.insert_point(points, 3, 5)
    assert subsets.insert_point(points, 3, 4)
    assert points.tolist() == [2, 4, 5, 9]


def test_polynomials_are_sums_of_products():
    values = np.array([0.5, 2.0, 3.0, 0.1])
    expected = np.abs(np.poly(-values))
    assert np.exp(log_polynomials(values, 4)[-1]) == pytest.approx(expected, rel=1e-14)
    assert np.exp(log_polynomials(values, 2)[-1]) == pytest.approx(expected[:3], rel=1e-14)


def test_eigenvectors_are_taken_with_the_probabilities_of_their_products():
    values = np.array([0.1, 0.5, 2.0, 3.0])
    taken = taken_probabilities(keep_probabilities(values, log_polynomials(values, 3)))
    e = np.abs(np.poly(-values))
    for v in range(4):
        others = np.abs(np.poly(-np.delete(values, v)))
        for m in (1, 2, 3):
            assert taken[m, v] == pytest.approx(values[v] * others[m - 1] / e[m], rel=1e-13)
    assert taken.sum(axis=1) == pytest.approx([0, 1, 2, 3], rel=1e-13)


@pytest.mark.parametrize("ridge", [0.0, 1e-3, 1.0])
@pytest.mark.parametrize("order", [1, 5, 40])
def test_log_determinants_are_those_of_numpy(order, ridge):
    A = np.random.default_rng(order).normal(size=(order, order)) * 10
    gram = A @ A.T
    expected = np.linalg.slogdet(0.25 * gram + ridge * np.eye(order))[1]
    by_cholesky = determinants.by_cholesky(gram, 0.25, ridge, np.empty((order, order)))
    assert by_cholesky == pytest.approx(expected, abs=1e-9) or np.isnan(by_cholesky)
    assert determinants.by_orthogonalising(A.T.copy(), 0.25, ridge) == pytest.approx(expected, abs=1e-9)


def test_singular_matrices_have_determinant_zero_without_a_ridge():
    row = np.array([[0.1, 0.7, 0.3]])
    assert np.isnan(determinants.by_cholesky(row.T @ row, 1.0, 0.0, np.empty((3, 3))))
    assert determinants.by_orthogonalising(row, 1.0, 0.0) == -np.inf
    assert determinants.by_orthogonalising(np.zeros((2, 3)), 1.0, 0.0) == -np.inf
    # A ridge below the rounding of the rest counts once for every point that is spanned: ridge^2 (3 + ridge).
    expected = np.log(3) + 2 * np.log(1e-40)
    assert determinants.by_orthogonalising(np.ones((1, 3)), 1.0, 1e-40) == pytest.approx(expected, rel=1e-14)


def _kahan(order, s):
    """Give columns of length one that lose digits little by little: no pivot is small, and all of them are together."""
    upper = np.triu(np.full((order, order), -np.sqrt(1 - s * s)), 1) + np.eye(order)
    return upper * s ** np.arange(order)[:, None]


@pytest.mark.parametrize("order", [3, 5, 10])
def test_cholesky_is_accurate_wherever_it_is_taken(order):
    """Both ways agree where Cholesky's answers, from harmless to hopeless rows; and both of that is seen."""
    rng, answered = np.random.default_rng(order), []
    columns = [rng.normal(size=(order + extra, order)) @ np.diag(np.geomspace(1, 1e-3, order)) for extra in (0, 5, 90)]
    for closeness in np.geomspace(1e-6, 0.5, 12):
        near = rng.normal(size=(order + 2, order))
        near[:, -1] = near[:, 0] + closeness * near[:, -1]
        columns.append(near)
    columns += [_kahan(order, s) for s in (0.3, 0.5, 0.6, 0.7, 0.8, 0.9)]
    for rows in columns:
        for ridge in (0.0, 1e-3):
            by_cholesky = determinants.by_cholesky(rows.T @ rows, 1.0, ridge, np.empty((order, order)))
            answered.append(not np.isnan(by_cholesky))
            if answered[-1]:
                by_volume = determinants.by_orthogonalising(np.ascontiguousarray(rows), 1.0, ridge)
                assert by_cholesky == pytest.approx(by_volume, abs=1e-11)
    assert 0.2 < np.mean(answered) < 0.9


@pytest.mark.parametrize("s", [0.3, 0.6, 0.9])
def test_volumes_are_exact_where_digits_are_lost_little_by_little(s):
    expected = 10 * 9 * np.log(s)  # the diagonal of Kahan's matrix, squared
    assert determinants.by_orthogonalising(_kahan(10, s), 1.0, 0.0) == pytest.approx(expected, abs=1e-7)


# Bounded, whatever they are fed -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def _compiled():
    """Compile before the clock starts."""
    family = KDpp(features(8, 3), 4, [1.0])
    family.draw(np.zeros(1, dtype=np.int64), Uniforms(0))


@pytest.fixture
def _time_limit(_compiled):
    faulthandler.dump_traceback_later(120, exit=True)  # compiled code cannot be interrupted otherwise
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.mark.usefixtures("_time_limit")
@pytest.mark.parametrize("place", range(6))
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, -1.0, 2.0, 1e300])
def test_sets_exist_for_any_numbers(bad, place):
    cumulative, guide, V, ranks, keep = KDpp(features(8, 3), 4, [1.0])._draws
    numbers = [np.array(part) for part in (np.array([0.2, 0.8]), cumulative, V, ranks, keep, keep)]
    spoilt = numbers[place].reshape(-1)
    spoilt[:] = bad if place < 5 else 0.0
    pair, cumulative, V, ranks, keep = (*numbers[:4], numbers[5 if place == 5 else 4])
    atoms = np.full((50, 4), -1)
    kdpp.draw_sets(np.zeros(50, dtype=np.int64), pair, cumulative, guide, V, ranks, keep, 3, atoms)
    assert (np.diff(atoms, axis=1) > 0).all()
    assert atoms.min() >= 0
    assert atoms.max() < 8
    ratios = np.empty((50, 2))
    determinants.set_ratios(atoms, V, np.ones(3), np.array([[1.0, 0.5, bad, 1.0]]), ratios)
    determinants.set_ratios(atoms, V, np.full(3, bad), np.array([[1.0, 0.0, 0.0, bad]]), ratios)


def test_uniform_sets_may_be_all_points():
    atoms, _ = Uniform(Subsets(4, 4)).draw(np.zeros(3, dtype=np.int64), Uniforms(0))
    assert atoms.tolist() == [[0, 1, 2, 3]] * 3
