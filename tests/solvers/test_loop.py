"""What all solvers share: the trace, when they stop, what they count, what they refuse."""

import sys

import numpy as np
import pytest

import varmix
from support.problems import custom, linear
from varmix._core.validation import same
from varmix.solvers import Custom, Method, adagrad, coordinate_descent, optimise, saga, schedules, sgd, svrg

OVER_POINTS = [sgd, adagrad, svrg, saga]
SOLVERS = pytest.mark.parametrize("solver", [*OVER_POINTS, coordinate_descent], ids=lambda s: s.__name__)
PLAIN = pytest.mark.parametrize("plain", [False, True], ids=["compiled", "plain"])


def sampler_for(solver, problem, rng=0):
    n = problem.dim if solver is coordinate_descent else problem.n
    return varmix.vrm(varmix.Groups(np.arange(n) % 3), rng=rng)


def solve(solver, problem, rng=0, **options):
    return solver(problem, sampler_for(solver, problem, rng), **({"step": 0.05, "epochs": 3, "batch": 2} | options))


@PLAIN
@SOLVERS
def test_every_look_fills_every_column(solver, plain):
    problem = custom(linear(l2=0.1)) if plain else linear(l2=0.1)
    result = solve(solver, problem, evaluations_per_epoch=2)
    trace = result.trace
    assert len(trace) == 1 + 2 * 3
    for name in ("evaluations", "seconds", "losses", "accuracies", "gains"):
        assert len(getattr(trace, name)) == len(trace)
    assert trace.losses[-1] == problem.objective(result.theta) < trace.losses[0]
    assert (np.diff(trace.evaluations) > 0).all()
    assert (np.diff(trace.seconds) > 0).all()
    assert (trace.accuracies[-1] is None) == plain
    assert (result.stopped, result.epochs) == ("epochs", 3)
    assert trace.gains[0] == 1.0
    assert min(trace.gains[1:]) <= result.meter.gain.value * (1 + 1e-12)  # of all stretches together
    assert max(trace.gains[1:]) >= result.meter.gain.value * (1 - 1e-12)


@PLAIN
@SOLVERS
def test_one_seed_gives_one_result_to_the_last_bit(solver, plain):
    problem = custom(linear(l2=0.1)) if plain else linear(l2=0.1)
    first, second, other = (solve(solver, problem, rng) for rng in (0, 0, 1))
    assert first.theta.tobytes() == second.theta.tobytes() != other.theta.tobytes()
    assert first.trace.losses == second.trace.losses


def test_evaluations_are_counted_with_the_full_passes():
    n, dim, problem = 30, 6, linear()
    functions = custom(problem)
    counted = {
        (s.__name__, p is functions): solve(s, p).trace.evaluations for p in (problem, functions) for s in OVER_POINTS
    }
    assert counted["sgd", False] == counted["sgd", True] == counted["adagrad", True] == [0, n, 2 * n, 3 * n]
    assert counted["svrg", False] == [0, 2 * n, 4 * n, 6 * n]  # a snapshot an epoch, whose slopes are kept
    assert counted["svrg", True] == [0, 3 * n, 6 * n, 9 * n]  # two gradients a draw
    assert counted["saga", False] == counted["saga", True] == [0, 2 * n, 3 * n, 4 * n]
    assert solve(svrg, problem, refresh=2).trace.evaluations == [0, 2 * n, 3 * n, 5 * n]
    assert solve(coordinate_descent, problem).trace.evaluations == [0, dim, 2 * dim, 3 * dim]
    assert solve(coordinate_descent, functions).trace.evaluations == [0, 3 * dim, 6 * dim, 9 * dim]  # whole gradients
    blocks, chosen = [0, 0, 0, 0, 0, 1], varmix.uniform(2, rng=0)
    result = coordinate_descent(problem, chosen, blocks=blocks, step=0.05, epochs=50)
    assert 100 < result.trace.evaluations[-1] < 500  # 100 draws of five coordinates or of one


def test_the_gradients_of_functions_are_asked_for_once_a_draw():
    asked = []

    def gradient(theta, points):
        asked.extend(points.tolist())
        return np.ones((len(points), 1))

    problem = Custom(10, 1, lambda theta, points: np.ones(len(points)), gradient)
    sgd(problem, varmix.uniform(10, rng=0), step=0.1, epochs=2, batch=5)
    assert len(asked) == 20


def test_the_sampler_learns_from_the_norms_that_a_problem_gives():
    known = linear()
    problem = Custom(30, 6, known.losses, known.gradients, norms=lambda theta, points: 1.0 * (points % 3 == 1))
    for solver in (sgd, adagrad):
        sampler = sampler_for(solver, problem)
        solver(problem, sampler, step=0.1, epochs=20, batch=5)
        assert sampler.mixture[:3].argmax() == 1


@SOLVERS
def test_no_looks_leave_no_trace(solver):
    result = solve(solver, linear(), evaluations_per_epoch=0)
    assert len(result.trace) == 0
    assert result.meter.draws > 0
    assert np.abs(result.theta).max() > 0


def test_a_callback_sees_every_look():
    seen = []
    result = solve(sgd, linear(), callback=lambda theta, trace: seen.append((theta.copy(), len(trace))))
    assert [count for _, count in seen] == [1, 2, 3, 4]
    assert not seen[0][0].any()
    np.testing.assert_array_equal(seen[-1][0], result.theta)


def test_batches_ahead_are_drawn_with_one_mixture():
    made = []

    class Counting(varmix.Sampler):
        def draw(self, m, batches=1):
            made.append(batches)
            return super().draw(m, batches)

    def sampler():
        return Counting(varmix.Groups(np.arange(30) % 3), rng=0)

    for problem, ahead, expected in [
        (linear(), 4, [4, 4, 4, 3]),
        (linear(), 100, [15]),
        (custom(linear()), 4, [4, 4, 4, 3]),
        (custom(linear()), None, [1] * 15),
    ]:
        made.clear()
        sgd(problem, sampler(), step=0.1, epochs=1, batch=2, batches_per_update=ahead)
        assert made == expected
    made.clear()
    sgd(linear(), sampler(), step=0.1, epochs=40, batch=2)
    assert made[0] == 1 < max(made)  # a compiled loop runs further ahead as it goes on


@SOLVERS
def test_a_run_stops_when_the_loss_no_longer_falls(solver):
    result = solve(solver, linear(l2=0.5), epochs=500, tol=1e-3, patience=3)
    assert result.stopped == "tolerance"
    assert 3 < result.epochs < 500
    assert len(result.trace) == result.epochs + 1


def test_epochs_that_a_large_batch_leaves_empty_do_not_stop_a_run():
    """One batch in four epochs: those between had no loss, which is not a loss of zero."""
    every_point = varmix.uniform(30, replacement=False, rng=0)  # four times a batch, so that the loss always falls
    result = sgd(linear(l2=0.5), every_point, epochs=40, batch=120, step=0.1, tol=1e-9, patience=2)
    assert (result.stopped, result.epochs) == ("epochs", 40)
    assert result.trace.evaluations[-1] == 10 * 120


@SOLVERS
def test_epochs_without_a_draw_have_no_loss(solver):
    """Those who watch the epochs must not take it for a loss of zero, the least of all."""
    seen = []
    problem = linear(l2=0.5)
    n = problem.dim if solver is coordinate_descent else problem.n
    options = {"epochs": 9, "batch": 4 * n, "after_epoch": lambda epoch, loss, meter: seen.append(loss)}
    result = solve(solver, problem, **options)
    assert result.stopped == "epochs"
    assert np.isnan(seen).tolist() == [epoch % 4 != 0 for epoch in range(9)]
    assert np.nanmin(seen) > 0.1


@PLAIN
@SOLVERS
def test_divergence_is_reported_and_not_raised(solver, plain):
    problem = linear(loss="squared")
    result = solve(
        solver, custom(problem) if plain else problem, step=1e4 if solver is not adagrad else 1e150, epochs=500
    )
    assert result.stopped == "diverged"
    assert result.epochs < 500


@PLAIN
def test_theta_may_diverge_though_gradients_stay_short(plain):
    problem = linear(loss="hinge", l2=1.0)
    result = solve(sgd, custom(problem) if plain else problem, step=50.0, epochs=500)
    assert result.stopped == "diverged"


@pytest.mark.parametrize("step", [0.1, 1e300])
def test_a_bar_goes_to_the_terminal_when_it_is_asked_for(capsys, step):
    solve(sgd, linear(loss="squared"), progress=True, step=step)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "epoch" in captured.err
    assert "loss" in captured.err
    solve(sgd, linear())
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("active")
def test_a_bar_without_rich_says_what_to_install(monkeypatch):
    for name in ("rich", "rich.console", "rich.progress"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install rich, or leave progress"):
        solve(sgd, linear(), progress=True)
    solve(sgd, linear())


def test_schedules_are_their_formulas():
    t = np.array([1.0, 2.0, 4.0])
    np.testing.assert_allclose(schedules.Constant(0.3)(t, 4), 0.3)
    np.testing.assert_allclose(schedules.InverseRoot(0.3)(t, 4), [0.3, 0.3 / 2**0.5, 0.15])
    np.testing.assert_allclose(schedules.LinearDecay(0.4)(t, 4), [0.4, 0.3, 0.1])
    np.testing.assert_allclose(schedules.InverseTime(0.5, 2.0)(t, 4), [0.25, 1 / 6, 0.1])


@pytest.mark.parametrize(
    "kind", [schedules.Constant, schedules.InverseRoot, schedules.LinearDecay, schedules.InverseTime]
)
def test_schedules_check_their_numbers(kind):
    rest = (1.0,) if kind is schedules.InverseTime else ()
    with pytest.raises(ValueError, match=r"eta must be a finite number above zero, got -1.0"):
        kind(-1.0, *rest)
    with pytest.raises(TypeError, match="eta must be a number, got 'a'"):
        kind("a", *rest)
    with pytest.raises(ValueError, match=r"decay must be a finite number of at least 0, got -1.0"):
        schedules.InverseTime(1.0, -1.0)


def test_nothing_is_drawn_for_steps_that_are_refused():
    sampler = sampler_for(sgd, linear())
    before = sampler.state_dict()
    with pytest.raises(ValueError, match="steps must be finite"):
        sgd(linear(), sampler, step=lambda t, total: -t)
    assert same(sampler.state_dict(), before)


def test_a_schedule_is_asked_for_every_step_once_with_their_number():
    asked = []

    def schedule(t, total):
        asked.extend(t.tolist())
        assert total == 45
        return 0.1 / t

    solve(sgd, linear(), step=schedule)
    assert asked == list(range(1, 46))


def test_a_start_is_copied():
    start = np.ones(6)
    for solver in (*OVER_POINTS, coordinate_descent):
        result = solve(solver, linear(), start=start)
        assert (start == 1).all()
        assert result.trace.losses[0] == linear().objective(start)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"step": 0.0}, ValueError, "step must be a finite number above zero, got 0.0"),
        ({"step": "fast"}, TypeError, "step must be a number, got 'fast'"),
        ({"step": lambda t, total: 0.1}, ValueError, r"shape \(\) for 1 steps"),
        (
            {"step": lambda t, total: 0.1 - t},
            ValueError,
            "returned -0.9 for step 1 of 45: steps must be finite and not",
        ),
        ({"step": lambda t, total: t * np.nan}, ValueError, "returned nan for step 1 of 45"),
        ({"step": lambda t, total: np.inf / t}, ValueError, "returned inf for step 1 of 45"),
        ({"step": schedules.Constant}, TypeError, "got the class Constant: make an instance with its eta"),
        ({"epochs": 0}, ValueError, "epochs must be at least 1, got 0"),
        ({"batch": 0}, ValueError, "batch must be at least 1, got 0"),
        ({"evaluations_per_epoch": -1}, ValueError, "evaluations_per_epoch must be at least 0, got -1"),
        ({"batches_per_update": 0}, ValueError, "batches_per_update must be at least 1, got 0"),
        ({"tol": -1.0}, ValueError, "tol must be a finite number above zero, got -1.0"),
        ({"patience": 0}, ValueError, "patience must be at least 1, got 0"),
        ({"start": [1.0]}, ValueError, r"start must have shape \(6,\), got shape \(1,\)"),
    ],
)
def test_options_that_cannot_be_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        solve(sgd, linear(), **options)


def test_what_only_one_solver_takes_is_checked_too():
    with pytest.raises(ValueError, match="refresh must be at least 1, got 0"):
        solve(svrg, linear(), refresh=0)
    with pytest.raises(ValueError, match="epsilon must be a finite number above zero, got 0"):
        solve(adagrad, linear(), epsilon=0)


@SOLVERS
def test_a_problem_and_a_sampler_are_asked_for_in_this_order(solver):
    problem = linear()
    with pytest.raises(TypeError, match=r"takes a problem first, such as varmix.solvers.Linear\(X, y\); got a Sampler"):
        solver(sampler_for(solver, problem), problem, step=0.1)
    with pytest.raises(TypeError, match="got a ndarray"):
        solver(np.ones((30, 6)), sampler_for(solver, problem), step=0.1)
    with pytest.raises(TypeError, match=r"Pass labels, one per point, or a family .* got None"):
        solver(problem, None, step=0.1)
    with pytest.raises(TypeError, match=r"after_epoch must return a varmix.Sampler or None, got 3"):
        solve(solver, problem, after_epoch=lambda epoch, loss, meter: 3)


def test_a_method_subclasses_method():
    problem = linear()

    class Alike:
        theta, compiled, begin_epoch, run = np.zeros(6), False, None, None

    with pytest.raises(TypeError, match=r"must be an instance of a varmix.solvers.Method subclass, got <"):
        optimise(problem, varmix.uniform(30), Alike(), step=0.1)
    with pytest.raises(TypeError, match="abstract"):
        Method(problem, np.zeros(6))


def test_a_method_needs_run_only():
    class Still(Method):
        def run(self, points, weights, steps):
            return np.ones(len(points)), float(len(points))

    result = optimise(linear(), varmix.uniform(30, rng=0), Still(linear(), np.zeros(6)), step=0.1, epochs=2, batch=4)
    assert result.trace.evaluations == [0, 32, 60]
    assert not result.theta.any()


@SOLVERS
def test_another_sampler_may_draw_after_an_epoch(solver):
    problem = linear()
    others = [sampler_for(solver, problem, rng) for rng in (1, 2)]
    solve(solver, problem, epochs=3, after_epoch=lambda epoch, loss, meter: others[epoch % 2] if epoch < 3 else None)
    assert all(other.state_dict()["serial"] > 0 for other in others)


@SOLVERS
def test_a_sampler_over_something_else_is_refused(solver):
    what, n = ("coordinates", 6) if solver is coordinate_descent else ("points", 30)
    with pytest.raises(ValueError, match=rf"has {n} {what}, but the sampler draws from Points\(9\).*Points\({n}\)"):
        solver(linear(), varmix.uniform(9), step=0.1)
    with pytest.raises(ValueError, match=r"draws from Subsets"):
        solver(linear(), varmix.uniform(varmix.components.Subsets(n, 2)), step=0.1)
    target = varmix.Groups(np.arange(n) % 2, target=1.0 + np.arange(n))
    with pytest.raises(ValueError, match="unbiased for another target"):
        solver(linear(), varmix.vrm(target), step=0.1)


def test_labels_or_a_family_are_enough_and_repeat_with_a_seed():
    problem, labels = linear(), np.arange(30) % 3
    ends = [sgd(problem, given, step=0.1, epochs=3, rng=5).theta for given in (labels, labels.tolist())]
    built = sgd(problem, varmix.Sampler(labels, rng=5), step=0.1, epochs=3)
    for theta in ends:
        np.testing.assert_array_equal(theta, built.theta)
    assert built.meter is built.sampler.meter
    assert built.meter.draws > 0
    family = sgd(problem, varmix.Groups(labels), step=0.1, epochs=3, rng=5)
    assert family.sampler.learner == varmix.learners.BarrierNewton()
    with pytest.raises(TypeError, match="A Sampler has its learner, gamma, allocate, rng and history already"):
        sgd(problem, varmix.Sampler(labels), step=0.1, rng=5)


def test_a_trace_begins_with_its_run_and_arguments_that_are_refused_leave_the_meter_alone():
    def used():
        sampler = varmix.vrm(varmix.Groups(np.arange(30) % 3), rng=0)
        for _ in range(50):
            draw = sampler.draw(8)
            sampler.update(draw, np.where(draw.indices % 3 == 0, 5.0, 0.1))
        return sampler

    sampler = used()
    with pytest.raises(ValueError, match="epochs"):
        sgd(linear(), sampler, step=0.1, epochs=-1)
    assert sampler.meter.gain_since_last_call() > 1.15
    expected, other = used(), used()
    expected.meter.gain_since_last_call()
    gains = [
        sgd(
            linear(), varmix.uniform(30, rng=0), step=0.1, epochs=3, after_epoch=lambda *_, second=second: second
        ).trace.gains
        for second in (expected, other)
    ]
    assert gains[0] == gains[1]
