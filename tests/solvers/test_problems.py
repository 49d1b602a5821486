"""Problems: kernels against plain Python, gradients against differences, and what is refused."""

import math

import numba
import numpy as np
import pytest
from scipy.sparse import csc_matrix, csr_matrix

import varmix
from support.problems import KINDS, custom, linear
from varmix._kernels import rows as kernels
from varmix.solvers import Custom, Linear, Problem, adagrad, saga, sgd, svrg
from varmix.solvers._coordinate import BlockLayout, compute_block_constants, copy_columns
from varmix.solvers._kernels import LOSS_NAMES, loss_slope, loss_value, write_squares
from varmix.solvers._problems import POINTS_PER_BLOCK, mean_gradient

ALL = pytest.mark.parametrize("kind", KINDS)
EVERY_LOSS = pytest.mark.parametrize("loss", LOSS_NAMES)


@ALL
def test_rows_do_what_the_loops_of_python_do(kind):
    problem, X = linear(kind=kind), linear().rows.dense
    v = np.random.default_rng(0).normal(size=6)
    for i in range(problem.n):
        assert kernels.dot_row(problem.rows, i, v) == pytest.approx(sum(a * b for a, b in zip(X[i], v, strict=True)))
        moved = v.copy()
        kernels.add_row(problem.rows, i, 2.0, moved)
        np.testing.assert_allclose(moved, [b + 2 * a for a, b in zip(X[i], v, strict=True)])
    lengths = [math.sqrt(sum(a * a for a in row) + 1) for row in X]
    np.testing.assert_allclose(linear(kind=kind, intercept=True).lengths, lengths, rtol=1e-15)


@ALL
@pytest.mark.parametrize("intercept", [False, True])
def test_columns_are_the_transpose_with_ones_for_an_intercept(kind, intercept):
    problem, X = linear(kind=kind, intercept=intercept, costs=True), linear().rows.dense
    X = np.column_stack([X, np.ones(30)]) if intercept else X
    columns, v = copy_columns(problem), np.random.default_rng(0).normal(size=30)
    np.testing.assert_allclose([kernels.dot_row(columns, j, v) for j in range(problem.dim)], X.T @ v)
    sums = np.empty(problem.dim)
    write_squares(columns, problem.costs, sums)
    np.testing.assert_allclose(sums, problem.costs @ X**2, rtol=1e-12)


@EVERY_LOSS
def test_losses_are_their_formulas_and_stay_finite(loss):
    formula = {
        "hinge": lambda z, y: max(1 - y * z, 0.0),
        "logistic": lambda z, y: float(np.logaddexp(0.0, -y * z)),
        "squared": lambda z, y: (z - y) ** 2 / 2,
    }[loss]
    code = LOSS_NAMES.index(loss)
    for z in (-1000.0, -3.0, -0.5, 0.0, 0.3, 2.0, 1000.0):
        for y in (-1.0, 1.0):
            assert loss_value(code, z, y) == pytest.approx(formula(z, y), rel=1e-13)
            slope = (formula(z + 1e-6, y) - formula(z - 1e-6, y)) / 2e-6
            assert loss_slope(code, z, y) == pytest.approx(slope, rel=1e-5, abs=1e-7)
    assert loss_slope(0, 1.0, 1.0) == 0.0  # at the corner


@EVERY_LOSS
@ALL
def test_gradients_are_the_differences_of_the_losses(kind, loss):
    problem = linear(loss=loss, kind=kind, intercept=True, l2=0.3, costs=True)
    theta, points = np.random.default_rng(2).normal(size=problem.dim), np.arange(problem.n)
    steps = 1e-6 * np.eye(problem.dim)
    single = [(problem.losses(theta + h, points) - problem.losses(theta - h, points)) / 2e-6 for h in steps]
    np.testing.assert_allclose(problem.gradients(theta, points).T, single, atol=1e-7)
    whole = [(problem.objective(theta + h) - problem.objective(theta - h)) / 2e-6 for h in steps]
    np.testing.assert_allclose(problem.full_gradient(theta), whole, atol=1e-7)
    np.testing.assert_allclose(
        problem.norms(theta, points), np.linalg.norm(problem.gradients(theta, points), axis=1), rtol=1e-12
    )
    np.testing.assert_allclose(mean_gradient(problem, theta) + problem.penalty(theta), problem.full_gradient(theta))


@EVERY_LOSS
def test_lipschitz_bounds_how_gradients_change(loss):
    """A cost below one must not shorten the part of the penalty."""
    problem = linear(loss=loss, l2=2.0, intercept=True, costs=True)
    rng, points = np.random.default_rng(3), np.arange(problem.n)
    tight = np.zeros(problem.n)
    for size in (0.01, 1.0, 100.0):
        for _ in range(20):
            a, b = size * rng.normal(size=(2, problem.dim))
            ga, gb = (problem.gradients(t, points) + problem.penalty(t) for t in (a, b))
            if loss == "hinge":
                assert (problem.norms(a, points) <= problem.lipschitz * (1 + 1e-12)).all()
            else:
                change = np.linalg.norm(ga - gb, axis=1) / np.linalg.norm(a - b)
                tight = np.maximum(tight, change / problem.lipschitz)
    assert tight.max() <= 1 + 1e-9
    assert loss == "hinge" or tight.max() > 0.3


@pytest.mark.parametrize("loss", ["logistic", "squared"])
@pytest.mark.parametrize("blocks", [None, [0, 0, 1, 2, 1, 0, 3]], ids=["coordinates", "blocks"])
def test_a_step_of_one_over_the_blocks_constant_decreases_F_by_half_its_square(loss, blocks):
    problem = linear(loss=loss, l2=0.2, intercept=True, costs=True)
    layout = BlockLayout(problem.dim, blocks)
    constants = compute_block_constants(problem, copy_columns(problem), layout.start, layout.members)
    rng = np.random.default_rng(4)
    for _ in range(20):
        theta = rng.normal(size=problem.dim) * 3
        gradient = problem.full_gradient(theta)
        for b in range(len(layout)):
            part = np.zeros(problem.dim)
            part[layout.coordinates_of(b)] = gradient[layout.coordinates_of(b)]
            decrease = problem.objective(theta) - problem.objective(theta - part / constants[b])
            assert decrease >= (part @ part) / (2 * constants[b]) * (1 - 1e-9) - 1e-12
    if loss == "squared" and blocks is None:  # and no shorter constant would do
        X = np.column_stack([linear(loss=loss, l2=0.2, costs=True).rows.dense, np.ones(30)])
        exact = problem.costs @ X**2 / 30 + np.where(np.arange(7) < 6, 0.2, 0.0)
        np.testing.assert_allclose(constants, exact, rtol=1e-12)


def test_what_is_told_of_a_linear_problem():
    problem = linear(kind="csr", l2=0.5)
    assert repr(problem) == "Linear(n=30, d=6, csr, loss='logistic', l2=0.5)"
    assert 0.0 <= problem.accuracy(np.ones(6)) <= 1.0
    assert linear(loss="squared").accuracy(np.ones(6)) is None
    assert Linear([[1]], [2], loss="squared").rows.dense.dtype == np.float64


def damaged(**arrays):
    """Return a CSR matrix whose arrays are wrong, which SciPy finds out only when it is asked."""
    X = csr_matrix(([1.0, 2.0], [0, 1], [0, 1, 2]), shape=(2, 3))
    for name, values in arrays.items():
        setattr(X, name, np.array(values, dtype=np.int32))
    return X


@pytest.mark.parametrize(
    ("X", "y", "settings", "error", "message"),
    [
        ([[1.0]], [1.0], {"loss": "hing"}, ValueError, "Unknown loss 'hing'.*Did you mean hinge"),
        ([[1.0], [2.0]], [1.0], {}, ValueError, r"y must have shape \(2,\), got shape \(1,\)"),
        ([[1.0], [2.0]], [0.0, 1.0], {}, ValueError, r"logistic loss needs labels -1 and 1; y holds 0.0, 1.0. Use"),
        ([[1.0], [2.0]], ["yes", "no"], {"loss": "hinge"}, ValueError, r"hinge loss needs labels.*y holds no, yes"),
        ([[1.0], [2.0]], [True, False], {}, ValueError, "y holds False, True"),
        ([[1.0]], np.array([None]), {}, ValueError, "y holds None"),
        ([[1.0]], ["a"], {"loss": "squared"}, TypeError, "y must be real numbers"),
        ([[1.0]], csr_matrix([[1.0]]), {}, TypeError, "y must be real numbers"),
        ([[1.0]], [1.0], {"loss": None}, ValueError, "Unknown loss 'None': choose from hinge"),
        ([[1.0]], [1.0], {"l2": None}, TypeError, "l2 must be a number, got None"),
        ([[1.0]], [1.0], {"intercept": "no"}, TypeError, "intercept must be True or False, got 'no'"),
        ([[1.0]], [1.0], {"l2": -1.0}, ValueError, "l2 must be a finite number of at least 0, got -1.0"),
        ([[1.0]], [1.0], {"l2": math.nan}, ValueError, "l2 must be"),
        ([[1.0]], [1.0], {"costs": [-1.0]}, ValueError, "costs must not be negative; the smallest is -1"),
        ([[1.0]], [1.0], {"costs": [1.0, 2.0]}, ValueError, r"costs must have shape \(1,\)"),
        ([1.0, 2.0], [1.0], {}, ValueError, r"X must be \(n, d\).*got shape \(2,\)"),
        (np.empty((0, 3)), [], {}, ValueError, "at least one row"),
        ([[np.inf]], [1.0], {}, ValueError, "X must be finite"),
        (csr_matrix([[np.nan]]), [1.0], {}, ValueError, "X must be finite"),
        (csc_matrix([[1.0]]), [1.0], {}, TypeError, "must be CSR, got csc. Use X.tocsr()"),
        ([["a"]], [1.0], {}, TypeError, "X must be real numbers"),
        (csr_matrix([[1.0 + 1.0j]]), [1.0], {}, TypeError, "X must be real numbers, got an array of dtype complex128"),
        (damaged(indices=[0, 7]), [1.0, 1.0], {}, ValueError, "X has 3 columns, but its indices go from 0 to 7"),
        (damaged(indices=[-1, 1]), [1.0, 1.0], {}, ValueError, "its indices go from -1 to 1"),
        (damaged(indptr=[0, 2, 1]), [1.0, 1.0], {}, ValueError, "The indptr of X is not that of a CSR matrix"),
        (damaged(indptr=[0, 1, 9]), [1.0, 1.0], {}, ValueError, "The indptr of X"),
        (csr_matrix((0, 3)), [], {}, ValueError, "at least one row"),
    ],
)
def test_linear_refuses_what_it_cannot_use(X, y, settings, error, message):
    with pytest.raises(error, match=message):
        Linear(X, y, **settings)


@ALL
@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda p: p.losses(np.zeros(5)), ValueError, r"theta must have shape \(6,\) for Linear.*, got shape \(5,\)"),
        (lambda p: p.objective(np.zeros((6, 1))), ValueError, r"theta must.*got shape \(6, 1\)"),
        (lambda p: p.full_gradient(np.zeros(7)), ValueError, r"theta must.*got shape \(7,\)"),
        (lambda p: p.penalty(np.zeros(1)), ValueError, r"theta must.*got shape \(1,\)"),
        (lambda p: p.combine(np.zeros(6)), ValueError, r"slopes must have shape \(30,\)"),
        (lambda p: p.gradients(np.zeros(6), np.array([10**8])), ValueError, "points must lie in 0..29, got 100000000"),
        (lambda p: p.norms(np.zeros(6), np.array([-1])), ValueError, "points must lie in 0..29, got -1..-1"),
        (lambda p: p.losses(np.zeros(6), np.array([0.5])), TypeError, "points must be whole numbers"),
    ],
)
def test_what_kernels_would_read_behind_an_end_is_refused(kind, call, error, message):
    with pytest.raises(error, match=message):
        call(linear(kind=kind))


def test_lists_of_theta_and_points_will_do():
    problem = linear()
    assert problem.gradients([0.1] * 6, [3, 4]).shape == (2, 6)
    assert problem.objective([0] * 6) == pytest.approx(math.log(2))


def test_room_that_no_row_of_a_csr_matrix_uses_is_not_looked_at():
    X, used = csr_matrix(linear().rows.dense), linear(kind="csr")
    X.data = np.append(X.data, [np.nan] * 1000)
    X.indices = np.append(X.indices, [10**6] * 1000).astype(np.int32)
    problem = Linear(X, used.y)
    assert len(problem.rows.data) == X.indptr[-1]
    for a, b in zip(copy_columns(problem), copy_columns(used), strict=True):
        np.testing.assert_array_equal(a, b)


@ALL
def test_arrays_that_cannot_be_written_are_compiled_for_as_the_others_are(kind):
    """Those of pandas, of memory maps, and of strided views too."""
    given = linear(kind=kind, costs=True)
    X, y, costs = np.array(linear().rows.dense), np.repeat(given.y, 2), given.costs.copy()
    for array in (X, y, costs):
        array.setflags(write=False)
    problem = Linear(KINDS[kind](X), y[::2], costs=costs)
    for a, b in zip((*problem.rows, problem.y, problem.costs), (*given.rows, given.y, given.costs), strict=True):
        np.testing.assert_array_equal(a, b)
        assert numba.typeof(a) == numba.typeof(b)
        assert not a.flags.writeable


def test_functions_make_the_same_problem():
    known = linear(l2=0.3, costs=True)
    problem, theta, points = custom(known), np.linspace(-1, 1, 6), np.array([3, 3, 0])
    for name in ("losses", "gradients", "norms"):
        np.testing.assert_allclose(getattr(problem, name)(theta, points), getattr(known, name)(theta, points))
    np.testing.assert_array_equal(problem.penalty(theta), known.penalty(theta))
    assert problem.objective(theta) == pytest.approx(known.objective(theta))
    assert repr(problem) == "Custom(n=30, dim=6, l2=0.3)"


class TwoFunctions(Problem):
    """The least that a subclass must define."""

    def __init__(self, known):
        self.known, self.n, self.dim, self.l2 = known, known.n, known.dim, known.l2

    def losses(self, theta, points):
        return self.known.losses(theta, points)

    def gradients(self, theta, points):
        return self.known.gradients(theta, points)


@pytest.mark.parametrize("solver", [sgd, adagrad, svrg, saga])
def test_a_subclass_needs_losses_and_gradients_only(solver):
    known = linear(l2=0.3)
    problem, theta, points = TwoFunctions(known), np.linspace(-1, 1, 6), np.array([3, 3, 0])
    np.testing.assert_allclose(problem.norms(theta, points), known.norms(theta, points))
    np.testing.assert_array_equal(problem.penalty(theta), known.penalty(theta))
    assert problem.objective(theta) == pytest.approx(known.objective(theta))
    assert problem.accuracy(theta) is None
    ends = [
        solver(each, varmix.uniform(30, rng=0), step=0.1, epochs=2, batch=3).theta for each in (problem, custom(known))
    ]
    np.testing.assert_array_equal(*ends)


def test_norms_that_a_subclass_defines_are_used():
    class Short(TwoFunctions):
        def norms(self, theta, points):
            return 1.0 * (points % 3 == 1)

    assert [kind(linear()).knows_norms for kind in (TwoFunctions, Short)] == [False, True]
    sampler = varmix.vrm(varmix.Groups(np.arange(30) % 3), rng=0)
    sgd(Short(linear()), sampler, step=0.1, epochs=20, batch=5)
    assert sampler.mixture[:3].argmax() == 1


def test_a_class_that_is_no_problem_is_told_to_become_one():
    class Alike:
        n, dim = 30, 6
        losses = gradients = norms = penalty = objective = len

    with pytest.raises(TypeError, match=r"got a Alike\. For a problem of your own, .* subclass varmix.solvers.Problem"):
        sgd(Alike(), varmix.uniform(30), step=0.1)
    with pytest.raises(TypeError, match="abstract"):
        Problem()


def test_more_points_than_fit_at_once_are_taken_in_parts():
    asked = []

    def gradient(theta, points):
        asked.append(len(points))
        return points[:, None] * np.ones(2)

    n = 2 * POINTS_PER_BLOCK + 5
    problem = Custom(n, 2, lambda theta, points: 2.0 * points, gradient)
    np.testing.assert_allclose(mean_gradient(problem, np.zeros(2)), (n - 1) / 2)
    assert asked == [POINTS_PER_BLOCK, POINTS_PER_BLOCK, 5]
    assert problem.objective(np.zeros(2)) == pytest.approx(n - 1)


def test_norms_that_are_given_are_used():
    problem = Custom(3, 1, lambda t, p: p, lambda t, p: p[:, None], norms=lambda t, p: 10.0 + p, accuracy=lambda t: 0.5)
    assert problem.norms(np.zeros(1), np.array([2])).tolist() == [12.0]
    assert problem.accuracy(np.zeros(1)) == 0.5


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        (
            "loss",
            lambda t, p: np.ones((len(p), 1)),
            r"loss\(theta, points\) must return one number.*\(2,\), got \(2, 1\)",
        ),
        ("loss", lambda t, p: 1.0, r"loss\(theta, points\).*got \(\)"),
        ("gradient", lambda t, p: np.ones(3), r"one row of length dim for each of its 2 points.*\(2, 3\), got \(3,\)"),
        ("norms", lambda t, p: np.ones(3), r"norms\(theta, points\) must return one number.*\(2,\), got \(3,\)"),
    ],
)
def test_functions_that_give_the_wrong_shape_are_named(name, given, message):
    functions = {"loss": lambda t, p: np.ones(len(p)), "gradient": lambda t, p: np.ones((len(p), 3)), name: given}
    problem = Custom(5, 3, **functions)
    call = {"loss": problem.losses, "gradient": problem.gradients, "norms": problem.norms}[name]
    with pytest.raises(ValueError, match=message):
        call(np.zeros(3), np.array([0, 1]))


def test_functions_that_give_no_numbers_are_named():
    problem = Custom(2, 1, lambda t, p: ["a"] * len(p), lambda t, p: p[:, None])
    with pytest.raises(TypeError, match="The result of loss must be real numbers"):
        problem.losses(np.zeros(1), np.array([0]))


@pytest.mark.parametrize(
    ("arguments", "settings", "error", "message"),
    [
        ((0, 1, len, len), {}, ValueError, "n must be at least 1, got 0"),
        ((1, 1.5, len, len), {}, TypeError, "dim must be a whole number, got 1.5"),
        ((1, 1, None, len), {}, TypeError, "loss must be a function, got None"),
        ((1, 1, len, 3), {}, TypeError, "gradient must be a function, got 3"),
        ((1, 1, len, len), {"norms": 3}, TypeError, "norms must be a function, got 3"),
        ((1, 1, len, len), {"accuracy": "a"}, TypeError, "accuracy must be a function, got 'a'"),
        ((1, 1, len, len), {"l2": -0.1}, ValueError, "l2 must be a finite number of at least 0, got -0.1"),
    ],
)
def test_custom_refuses_what_it_cannot_use(arguments, settings, error, message):
    with pytest.raises(error, match=message):
        Custom(*arguments, **settings)
