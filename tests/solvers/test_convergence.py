"""How fast solvers converge, on problems whose minimum is known."""

import numpy as np
import pytest

import varmix
from lab.benchmarks.solvers import find_minimum, make_labels, make_regression
from support.problems import linear
from varmix.solvers import Custom, Linear, adagrad, coordinate_descent, saga, sgd, svrg

N = 500
LABELS = make_labels(N)


def ridge():
    problem = make_regression(N, 10, by_row=LABELS)
    return problem, find_minimum(problem)


def logistic():
    """Newton's steps give the minimum."""
    known = make_regression(N, 10, by_row=LABELS)
    problem = Linear(known.rows.dense, np.where(known.y > 0, 1.0, -1.0), l2=0.05)
    theta, X = np.zeros(10), problem.rows.dense
    for _ in range(30):
        p = 1 / (1 + np.exp(-X @ theta))
        hessian = X.T @ (X * (p * (1 - p))[:, None]) / N + problem.l2 * np.eye(10)
        theta = theta - np.linalg.solve(hessian, problem.full_gradient(theta))
    assert np.linalg.norm(problem.full_gradient(theta)) < 1e-14
    return problem, problem.objective(theta)


SAMPLERS = {
    "uniform": (lambda problem: varmix.uniform(N, rng=1), np.max),
    "static": (lambda problem: varmix.importance(problem.lipschitz, rng=1), np.mean),
    "vrm": (lambda problem: varmix.vrm(varmix.Groups(LABELS), rng=1), np.mean),
    "vrm, half uniform": (
        lambda problem: varmix.vrm(varmix.Groups(LABELS), gamma=0.5, rng=1),
        lambda lipschitz: 2 * np.mean(lipschitz),
    ),
    "vrm, window": (
        lambda problem: varmix.vrm(varmix.Groups(LABELS), learner=varmix.learners.BarrierNewton(window=2000), rng=1),
        np.mean,
    ),
}


@pytest.mark.parametrize("problem", [ridge, logistic])
@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("solver", [svrg, saga], ids=["svrg", "saga"])
def test_the_excess_falls_along_a_line_in_logarithms(solver, name, problem):
    """And not that of SGD with the same step, which stalls: the control."""
    made, least = problem()
    build, constant = SAMPLERS[name]
    options = {"step": float(1 / (3 * constant(made.lipschitz))), "batch": 1, "epochs": 60}
    excess = np.array(solver(made, build(made), **options).trace.losses) - least
    assert excess[-1] < 1e-10
    logs = np.log(excess[: np.argmax(excess < 1e-12)] if (excess < 1e-12).any() else excess)
    assert np.exp(np.polyfit(np.arange(len(logs)), logs, 1)[0]) < 0.8
    assert np.corrcoef(np.arange(len(logs)), logs)[0, 1] < -0.95
    stalled = np.array(sgd(made, build(made), **options).trace.losses) - least
    assert stalled[-20:].min() > 1e-6


@pytest.mark.parametrize("solver", [svrg, saga], ids=["svrg", "saga"])
def test_a_problem_from_functions_converges_too(solver):
    """Of data that are the rows themselves: the minimum is their shrunken mean."""
    data = np.random.default_rng(0).normal(size=(50, 3)) * np.geomspace(0.1, 10, 50)[:, None]
    problem = Custom(50, 3, lambda t, p: 0.5 * ((t - data[p]) ** 2).sum(axis=1), lambda t, p: t - data[p], l2=1.0)
    sampler = varmix.vrm(varmix.Groups(np.arange(50) // 10), rng=0)
    result = solver(problem, sampler, step=0.05, batch=5, epochs=60)
    np.testing.assert_allclose(result.theta, data.mean(axis=0) / 2, atol=1e-10)


def test_adagrad_serves_coordinates_of_very_different_scales():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 4)) * [100.0, 10.0, 1.0, 0.1]
    problem = Linear(X, X @ [0.01, 0.1, 1.0, 10.0], loss="squared")
    result = adagrad(problem, varmix.vrm(varmix.Groups(np.arange(N) % 3), rng=0), step=1.0, batch=10, epochs=100)
    assert result.trace.losses[-1] < 1e-3 * result.trace.losses[0]


COORDINATES = make_labels(40)
BLOCKS = np.arange(40) // 4


def coordinate_samplers(blocks):
    if blocks is None:
        return varmix.vrm(varmix.Groups(COORDINATES), rng=0)
    return varmix.vrm(varmix.Groups(COORDINATES[::4]), rng=0)


@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize("blocks", [None, BLOCKS], ids=["coordinates", "blocks"])
@pytest.mark.parametrize("rule", ["lipschitz", "unbiased"])
def test_coordinate_descent_reaches_the_minimum(rule, blocks, kind):
    from scipy.sparse import csr_matrix

    problem = make_regression(400, 40, by_column=COORDINATES)
    least = find_minimum(problem)
    if kind == "csr":
        problem = Linear(csr_matrix(problem.rows.dense), problem.y, loss="squared", l2=problem.l2)
    step = "lipschitz" if rule == "lipschitz" else 1 / 1000 if blocks is None else 1 / 400
    sampler = coordinate_samplers(blocks)
    result = coordinate_descent(problem, sampler, step=step, blocks=blocks, epochs=4000, tol=1e-14)
    assert result.trace.losses[-1] - least < 1e-8
    if rule == "lipschitz":
        assert (np.diff(result.trace.losses) <= 1e-12).all()


def test_the_mixture_over_coordinates_goes_where_the_partial_derivatives_are():
    problem = make_regression(400, 40, by_column=COORDINATES)
    sampler = coordinate_samplers(None)
    result = coordinate_descent(problem, sampler, step=1 / 1000, epochs=30)
    assert result.meter.gain.low > 1.5


def test_coordinate_descent_over_functions_reaches_the_minimum():
    known = linear(loss="squared", l2=0.2)
    problem = Custom(30, 6, known.losses, known.gradients, l2=0.2)
    bounds = np.mean(known.rows.dense**2, axis=0) + 0.2
    result = coordinate_descent(problem, varmix.uniform(6, rng=0), step="lipschitz", lipschitz=bounds, epochs=60)
    assert result.trace.losses[-1] - find_minimum(known) < 1e-12


def test_a_column_of_nothing_stays_where_it_is():
    problem = Linear(np.column_stack([np.ones(5), np.zeros(5)]), np.arange(5.0), loss="squared")
    result = coordinate_descent(problem, varmix.uniform(2, rng=0), step="lipschitz", start=[0.0, 3.0], epochs=5)
    np.testing.assert_allclose(result.theta, [2.0, 3.0])


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"step": "fast"}, ValueError, "step must be a number, a schedule or 'lipschitz', got 'fast'"),
        ({"step": 0.1, "lipschitz": np.ones(6)}, TypeError, "with another step leave it out"),
        ({"step": "lipschitz", "lipschitz": -np.ones(6)}, ValueError, "must not be negative; the smallest is -1"),
        ({"step": "lipschitz", "lipschitz": np.ones(5)}, ValueError, r"lipschitz must have shape \(6,\)"),
        ({"step": 0.1, "blocks": [0, 1]}, ValueError, r"one label per coordinate: expected shape \(6,\), got \(2,\)"),
        ({"step": 0.1, "blocks": np.ones(6)}, TypeError, "labels must be integers, booleans or strings"),
        ({"step": 0.1, "blocks": [0, 0, 0, 1, 1, 1]}, ValueError, "has 2 blocks of coordinates, but the sampler draws"),
    ],
)
def test_coordinate_descent_refuses_what_it_cannot_use(options, error, message):
    with pytest.raises(error, match=message):
        coordinate_descent(linear(), varmix.uniform(6), **options)


def test_constants_that_are_not_known_are_asked_for():
    functions = Custom(30, 6, len, len)
    with pytest.raises(
        ValueError, match=r"does not know the Lipschitz constants of its partial derivatives. Pass lipschitz="
    ):
        coordinate_descent(functions, varmix.uniform(6), step="lipschitz")
    with pytest.raises(ValueError, match="The gradient of the hinge jumps"):
        coordinate_descent(linear(loss="hinge"), varmix.uniform(6), step="lipschitz")
