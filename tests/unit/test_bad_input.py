"""Bad input gets an error that says what to do, and leaves the state as it was."""

import numpy as np
import pytest

import varmix
from varmix import Dense, Distances, Groups, KDpp, Sampler, Stack, Uniform, literature
from varmix.components import Cumulative, Family, Points, Subsets, with_uniform
from varmix.hindsight import best_mixture, regret
from varmix.learners import OGD, ONS, BarrierNewton, Cautious, Evidence, Fixed, Leader, Neyman
from varmix.meter import GainMeter
from varmix.reweight import Clip, Power, SoftTruncation
from varmix.simplex import RestrictedSimplex
from varmix.testing import same
from varmix.theory import full_information, partial_information

HALF = [[0.5], [0.5]]
PAIRS = KDpp([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]], 2, [1.0])
NAN, INF = float("nan"), float("inf")

REFUSED = {
    # spaces
    "no points": (lambda: Points(0), ValueError, "n must be at least 1, got 0"),
    "half a point": (lambda: Points(2.5), TypeError, "whole number"),
    "a true number of points": (lambda: Points(True), TypeError, "whole number"),
    "short target": (lambda: Points(3, [0.5, 0.5]), ValueError, r"shape \(3,\), got shape \(2,\)"),
    "negative target": (lambda: Points(2, [1, -1]), ValueError, "minimum -1"),
    "zero target": (lambda: Points(2, [0, 0]), ValueError, "not all zero"),
    "too many points": (lambda: Points(2**63), ValueError, "too large"),
    "nan target": (lambda: Points(2, [NAN, 1]), ValueError, "entry 0 is not"),
    "subset larger than the set": (lambda: Subsets(3, 4), ValueError, "size = 4, n = 3"),
    # dense
    "no table": (Dense, TypeError, "exactly one"),
    "two tables": (lambda: Dense(HALF, ratios=HALF), TypeError, "exactly one"),
    "negative probability": (lambda: Dense([[1.5], [-0.5]]), ValueError, r"entry \[1, 0\] is -0.5"),
    "nan probability": (lambda: Dense([[1.0], [NAN]]), ValueError, r"entry \[1, 0\] is nan"),
    "infinite ratio": (lambda: Dense(ratios=[[INF], [1.0]]), ValueError, r"entry \[0, 0\] is inf"),
    "probabilities beyond one": (lambda: Dense([[0.5], [0.6]]), ValueError, "column 0 has 1.1"),
    "ratios of mean two": (lambda: Dense(ratios=[[2.0], [2.0]]), ValueError, "column 0 has 2"),
    "mass outside the space": (lambda: Dense(HALF, target=[1, 0]), ValueError, "point 1, whose target is zero"),
    "mass where there is hardly a target": (lambda: Dense(HALF, target=[1e-40, 1]), ValueError, "too small"),
    "atoms outside": (lambda: Dense(HALF).ratios([5]), ValueError, r"0\.\.1, got 5\.\.5"),
    "atoms that are no numbers": (lambda: Groups([0, 1]).ratios([0.5]), TypeError, "whole numbers"),
    "a cube of probabilities": (lambda: Dense(np.ones((2, 2, 2))), ValueError, r"\(n, k\)"),
    "words for probabilities": (lambda: Dense([["a"], ["b"]]), TypeError, "real numbers"),
    "an empty table": (lambda: Dense(np.empty((0, 2))), ValueError, r"\(n, k\)"),
    "target of another length": (lambda: Dense(HALF, target=[1, 1, 1]), ValueError, r"shape \(2,\)"),
    # groups
    "no labels": (lambda: Groups([]), ValueError, "n >= 1"),
    "labels in a table": (lambda: Groups([[1, 2]]), ValueError, r"shape \(1, 2\)"),
    "replacement in words": (lambda: Groups([0, 1], replacement="no"), TypeError, "True or False"),
    "ragged labels": (lambda: Groups([[0], [0, 1]]), TypeError, "different lengths"),
    "float labels": (lambda: Groups([0.5, 1.5]), TypeError, "numpy.digitize"),
    "mixed labels": (lambda: Groups([1, "a", None]), TypeError, "integers, booleans or strings"),
    "labels of the wrong length": (lambda: Groups([0, 1], target=[1, 1, 1]), ValueError, r"shape \(2,\)"),
    "reshuffled sets": (
        lambda: varmix.uniform(varmix.components.Subsets(4, 2), replacement=False),
        TypeError,
        r"Without replacement, n must be a number of points, got Subsets",
    ),
    "a group without target": (lambda: Groups([0, 1], target=[1, 0]), ValueError, "Group 1 has no points to draw"),
    "smoothing above one": (lambda: Groups([0, 1], smoothing=1.5), ValueError, r"\[0, 1\)"),
    "smoothed cursors": (
        lambda: Groups([0, 1], smoothing=0.1, replacement=False),
        ValueError,
        "smoothing works with replacement=True only",
    ),
    "cursors under an uneven target": (
        lambda: Groups([0, 0, 1], target=[1, 2, 1], replacement=False),
        ValueError,
        "Without replacement, .* the target must be constant inside each group; .* Use replacement=True",
    ),
    "resplit under an uneven target": (
        lambda: Groups([0, 0, 1], target=[1, 2, 1], resplit="norms"),
        ValueError,
        "with resplit, the target must be constant inside each group; .* and resplit=None",
    ),
    "an unknown resplit": (lambda: Groups([0, 1], resplit="often"), ValueError, "None or 'norms', got 'often'"),
    "resplit true": (lambda: Groups([0, 1], resplit=True), ValueError, "None or 'norms', got True"),
    # distances
    "nan in X": (lambda: Distances([[0.0], [NAN]], [[0.0]]), ValueError, "row 1 is not"),
    "complex X": (lambda: Distances([[1j]], [[0.0]]), TypeError, "real numbers"),
    "X too large": (lambda: Distances([[1e200]], [[0.0]]), ValueError, "overflow"),
    "nan in a centre": (lambda: Distances([[0.0]], [[NAN]]), ValueError, "centers"),
    "centres of other columns": (lambda: Distances([[0.0]], [[0.0, 1.0]]), ValueError, "same number of columns"),
    "no centres": (lambda: Distances([[0.0]], np.empty((0, 1))), ValueError, "at least one row"),
    # stacks
    "an empty stack": (Stack, ValueError, "at least one family"),
    "families over other spaces": (lambda: Stack(Uniform(2), Uniform(3)), ValueError, r"Points\(2\) and Points\(3\)"),
    "targets that differ": (
        lambda: Stack(Uniform(2), Uniform(Points(2, [1, 2]))),
        ValueError,
        "share one space",
    ),
    "uniform over a word": (lambda: Uniform("all"), TypeError, "a Points or a Subsets, got 'all'"),
    "points that include": (lambda: Uniform(3).inclusion([0]), TypeError, "need a space of Subsets"),
    # sets
    "nan in the features of sets": (lambda: KDpp([[1.0], [NAN]], 1, [1.0]), ValueError, r"entry \(1, 0\) is nan"),
    "infinite features of sets": (lambda: KDpp([[INF], [1.0]], 1, [1.0]), ValueError, r"entry \(0, 0\) is inf"),
    "features in one dimension": (lambda: KDpp([1.0, 2.0], 1, [1.0]), ValueError, r"a matrix .* got shape \(2,\)"),
    "no features": (lambda: KDpp(np.empty((3, 0)), 1, [1.0]), ValueError, r"one column, got shape \(3, 0\)"),
    "complex features": (lambda: KDpp([[1j]], 1, [1.0]), TypeError, "real numbers"),
    "sets larger than the data": (lambda: KDpp([[1.0], [2.0]], 3, [1.0]), ValueError, "size = 3, n = 2"),
    "empty sets": (lambda: KDpp([[1.0], [2.0]], 0, [1.0]), ValueError, "size must be at least 1"),
    "half a point in a set": (lambda: KDpp([[1.0], [2.0]], 1.5, [1.0]), TypeError, "whole number"),
    "a negative ridge": (lambda: KDpp([[1.0], [2.0]], 1, [1.0, -2.0]), ValueError, "the smallest -2"),
    "a ridge that is no number": (lambda: KDpp([[1.0], [2.0]], 1, [NAN]), ValueError, "ridges must be finite"),
    "no ridges": (lambda: KDpp([[1.0], [2.0]], 1, []), ValueError, "one or more non-negative numbers"),
    "a ridge alone": (lambda: KDpp([[1.0], [2.0]], 1, 1.0), ValueError, "ridges must have one dimension"),
    "sets beyond the rank": (lambda: KDpp([[1.0], [2.0]], 2, [0.0]), ValueError, "size = 2, rank = 1"),
    "a kernel that is not square": (lambda: KDpp.from_kernel([[1.0, 0.0]], 1), ValueError, r"square .* \(1, 2\)"),
    "a kernel that is not symmetric": (
        lambda: KDpp.from_kernel([[1.0, 0.5], [0.0, 1.0]], 1),
        ValueError,
        r"L\[0, 1\] is 0.5 and L\[1, 0\] is 0",
    ),
    "a kernel with a negative eigenvalue": (
        lambda: KDpp.from_kernel([[0.0, 1.0], [1.0, 0.0]], 1),
        ValueError,
        "semi-definite; its least eigenvalue is -1 of",
    ),
    "nan in a kernel": (lambda: KDpp.from_kernel([[NAN]], 1), ValueError, "L must be finite"),
    "sets beyond the rank of a kernel": (lambda: KDpp.from_kernel(np.ones((3, 3)), 2), ValueError, "rank = 1"),
    "sets of another size": (lambda: PAIRS.ratios([[0, 1, 2]]), TypeError, r"\(m, 2\).* got shape \(1, 3\)"),
    "a set alone": (lambda: PAIRS.ratios([0, 1]), TypeError, r"got shape \(2,\)"),
    "sets of halves": (lambda: PAIRS.ratios([[0.0, 0.5]]), TypeError, "float64"),
    "sets outside": (lambda: PAIRS.ratios([[0, 1], [0, 3]]), ValueError, r"0\.\.2, got 0\.\.3"),
    "sets below": (lambda: PAIRS.ratios([[-1, 1]]), ValueError, r"got -1\.\.1"),
    "a point twice in a set": (lambda: PAIRS.ratios([[0, 1], [2, 2]]), ValueError, r"set 1 is \[2, 2\]"),
    "uniform sets of another size": (lambda: Uniform(Subsets(3, 2)).ratios([[0]]), TypeError, r"\(m, 2\)"),
    "inclusion of a point outside": (lambda: PAIRS.inclusion([3]), ValueError, r"0\.\.2"),
    "a stack that knows no inclusion": (
        lambda: Stack(PAIRS, Uniform(Subsets(3, 2)), _OneSubset()).inclusion([0]),
        TypeError,
        "_OneSubset.* does not know",
    ),
    # learners and helpers
    "gamma zero": (lambda: BarrierNewton(gamma=0.0), ValueError, r"gamma must lie in \(0, 1\], got 0.0"),
    "gamma above one": (lambda: ONS(gamma=1.1), ValueError, r"\(0, 1\]"),
    "gamma nan": (lambda: OGD(gamma=NAN), ValueError, r"\(0, 1\]"),
    "gamma a word": (lambda: Leader(gamma="much"), TypeError, "must be a number"),
    "gamma nothing": (lambda: Leader(gamma=None), TypeError, "must be a number"),
    "beta zero": (lambda: BarrierNewton(beta=0.0), ValueError, "beta must be a finite number above zero"),
    "window one": (lambda: BarrierNewton(window=1), ValueError, "at least 2"),
    "unknown projection": (lambda: ONS(projection="fast"), ValueError, "'exact' or 'pgd'"),
    "step size zero": (lambda: OGD(step_size=0.0), ValueError, "above zero"),
    "off_below under one": (lambda: Cautious(off_below=0.9), ValueError, "off_below must be at least 1"),
    "on_above not above off_below": (
        lambda: Cautious(off_below=2.0, on_above=2.0),
        ValueError,
        "below on_above, got off_below = 2.0",
    ),
    "off_below a word": (lambda: Cautious(off_below="much"), TypeError, "off_below"),
    "twice as cautious": (
        lambda: Cautious(Cautious()),
        TypeError,
        r"such as varmix.learners.BarrierNewton\(\), got Cautious",
    ),
    "the class of a learner": (lambda: Cautious(BarrierNewton), TypeError, "learner must be a learner"),
    "no learner": (lambda: Cautious(3), TypeError, "learner must be a learner"),
    "cautious for no time": (lambda: Cautious(window=1), ValueError, "at least 2"),
    "half a window": (lambda: Leader(window=2.5), TypeError, "whole number"),
    "shares of another number": (lambda: Neyman([0.5, 0.5]).init(5), ValueError, "2 masses fit 3 components"),
    "shares beyond one": (lambda: Neyman([0.5, 0.6]), ValueError, "sum 1.1"),
    "a prior of another number": (lambda: Neyman([0.5, 0.5], prior=[1.0]), ValueError, "prior"),
    "a negative prior": (lambda: Neyman([0.5, 0.5], prior=[1.0, -1.0]), ValueError, "squared norms"),
    "parents of another number": (lambda: Neyman([0.5, 0.5], parents=[0]), ValueError, "each of the 2 groups"),
    "a class for masses": (lambda: Neyman(Groups), TypeError, "masses must be real numbers"),
    "no components to fix": (lambda: Fixed().init(0), ValueError, "k must be at least 1"),
    "gamma beyond floats": (lambda: OGD(gamma=10**400), ValueError, "too large"),
    "gamma true": (lambda: OGD(gamma=np.True_), TypeError, "must be a number"),
    "a mixture beyond one": (lambda: Fixed([0.5, 0.6]), ValueError, "Divide it by its sum"),
    "a negative mixture": (lambda: Fixed([1.5, -0.5]), ValueError, "minimum -0.5"),
    "a mixture of another length": (lambda: Fixed([0.5, 0.5]).init(3), ValueError, r"shape \(3,\)"),
    "no components": (lambda: BarrierNewton().init(0), ValueError, "k must be at least 1"),
    "simplex of gamma zero": (lambda: RestrictedSimplex(0.0), ValueError, r"\(0, 1\]"),
    "projecting nothing": (lambda: RestrictedSimplex(0.1).project([]), ValueError, "at least one entry"),
    "projecting nan": (lambda: RestrictedSimplex(0.1).project([NAN, 0.0]), ValueError, "finite"),
    "a step from outside": (
        lambda: RestrictedSimplex(0.5).step([0.9, 0.1], [0, 0], np.eye(2)),
        ValueError,
        "Project it first",
    ),
    "an empty step": (lambda: RestrictedSimplex(0.1).step([], [], np.empty((0, 0))), ValueError, "at least one entry"),
    "a metric that is not symmetric": (
        lambda: RestrictedSimplex(0.1).step([0.5, 0.5], [0, 0], [[1, 2], [0, 1]]),
        ValueError,
        "symmetric",
    ),
    "a metric of another shape": (
        lambda: RestrictedSimplex(0.1).step([0.5, 0.5], [0, 0], np.eye(3)),
        ValueError,
        r"shape \(2, 2\)",
    ),
    "no steps": (lambda: RestrictedSimplex(0.1).pgd([0.5, 0.5], [0, 0], np.eye(2), 0), ValueError, "at least 1"),
    "truncation above one": (lambda: SoftTruncation(1.5), ValueError, r"\[0, 1\]"),
    "a negative power": (lambda: Power(-1.0), ValueError, r"\[0, 1\]"),
    "clipping at zero": (lambda: Clip(0.0), ValueError, "above zero"),
    "evidence without rows": (lambda: Evidence(np.empty((0, 2)), []), ValueError, "m >= 1"),
    "evidence of other lengths": (lambda: Evidence(np.ones((2, 2)), [1.0]), ValueError, r"\(2, 2\) and \(1,\)"),
    "evidence of nan": (lambda: Evidence([[NAN]], [1.0]), ValueError, "ratios must be finite"),
    "losses too large for ONS": (
        lambda: ONS().step(ONS().init(2), Evidence([[1.0, 1.0]], [1e200])),
        ValueError,
        "too large for ONS",
    ),
    "negative evidence": (lambda: Evidence([[1.0]], [-1.0]), ValueError, "coefficients must be finite"),
    "evidence without density": (lambda: Evidence([[1.0]], [1.0], [0.0]), ValueError, "above zero"),
    "ragged evidence": (lambda: Evidence([[1.0], [1.0, 2.0]], [1.0, 1.0]), TypeError, "different lengths"),
    "a cost at another length": (lambda: Evidence([[1.0, 1.0]], [1.0]).value(np.ones(5)), ValueError, r"shape \(2,\)"),
    "a hopeless row": (lambda: best_mixture(Evidence([[0.0, 0.0]], [1.0])), ValueError, "No mixture has a finite cost"),
    "a negative tolerance": (lambda: best_mixture(Evidence([[1.0]], [1.0]), tolerance=-1.0), ValueError, "above zero"),
    "regret of a mixture that missed": (
        lambda: regret(np.eye(2), np.ones((1, 2)), [[1.0, 0.0]]),
        ValueError,
        "infinite",
    ),
    "regret of negative mixtures": (
        lambda: regret(np.eye(2), np.ones((1, 2)), [[2.0, -1.0]]),
        ValueError,
        "not negative",
    ),
    "regret of other shapes": (
        lambda: regret(np.ones((3, 2)), np.ones((5, 4)), np.ones((5, 2))),
        ValueError,
        "squares",
    ),
    "hindsight beyond one": (lambda: best_mixture(Evidence([[1.0]], [1.0]), gamma=2.0), ValueError, r"\[0, 1\]"),
    "no rounds": (lambda: full_information(1, 3), ValueError, "at least 2"),
    "a largest gamma above one": (lambda: full_information(100, 3, largest_gamma=5.0), ValueError, r"\(0, 1\]"),
    "no largest ratio": (lambda: partial_information(100, 3, c=0.0), ValueError, "above zero"),
    # samplers
    "vrm of labels": (lambda: varmix.vrm(np.array([0, 1])), TypeError, r"varmix.Groups\(labels\), got ndarray"),
    "a stack of nothing": (lambda: Stack(None), TypeError, "got NoneType"),
    "a class for a family": (lambda: with_uniform(Groups), TypeError, "Components must be a family"),
    "no family": (
        lambda: Sampler(None, learner=Fixed()),
        TypeError,
        "Pass labels, one per point, or a family .* got None",
    ),
    "a word for a learner": (lambda: varmix.vrm(Uniform(2), learner="ons"), TypeError, "learner must be"),
    "a class for a learner": (lambda: Sampler(Uniform(2), learner=Fixed), TypeError, "learner must be"),
    "a word for an allocation": (
        lambda: Sampler(Uniform(2), learner=Fixed(), allocate="all"),
        TypeError,
        "allocate must be",
    ),
    "no reweighting": (lambda: Sampler(Uniform(2), learner=Fixed(), reweight=None), TypeError, "reweight must be"),
    "stacked cursors": (
        lambda: varmix.vrm(Groups([0, 1], replacement=False), Uniform(2)),
        ValueError,
        "cannot be mixed with other families",
    ),
    "cursors inside a stack": (
        lambda: varmix.vrm(Stack(Groups([0, 1], replacement=False), Uniform(2))),
        ValueError,
        "cannot be mixed with other families",
    ),
    "vrm of nothing": (varmix.vrm, TypeError, "at least one family"),
    "gamma beside a learner": (lambda: varmix.vrm(Uniform(2), gamma=0.1, learner=OGD()), TypeError, "not both"),
    "a negative seed": (lambda: varmix.uniform(3, rng=-1), ValueError, "at least 0"),
    "a word for a seed": (lambda: varmix.uniform(3, rng="now"), TypeError, "numpy.random.Generator or None"),
    "the old random state": (
        lambda: varmix.uniform(3, rng=np.random.RandomState(0)),
        TypeError,
        "numpy.random.Generator or None",
    ),
    # the literature
    "cumulative over a word": (lambda: Cumulative("all"), TypeError, "a number of points or a Points, got 'all'"),
    "cumulative over truth": (lambda: Cumulative(True), TypeError, "got True"),
    "gamma of the sums zero": (lambda: Cumulative(3, gamma=0.0), ValueError, "above zero"),
    "a gamma of zero at a point": (lambda: Cumulative(3, gamma=[1, 0, 1]), ValueError, "point 1 has 0"),
    "gamma of other points": (lambda: Cumulative(3, gamma=[1, 1]), ValueError, r"shape \(3,\)"),
    "theta zero": (lambda: varmix.literature.vrb(3, theta=0.0), ValueError, r"theta must lie in \(0, 1\]"),
    "a bandit's step and horizon": (lambda: literature.bandit(3, step=1.0, rounds=9), TypeError, "not both"),
    "a bandit's eta": (lambda: literature.bandit(3, eta=0.0), ValueError, r"eta must lie in \(0, 1\]"),
    "a bandit's step of zero": (lambda: literature.bandit(3, step=0.0), ValueError, "above zero"),
    "a bandit without rounds": (lambda: literature.bandit(3, rounds=0), ValueError, "rounds must be at least 1"),
    "a step and a horizon": (lambda: literature.mirror_descent(3, step=1.0, rounds=9), TypeError, "not both"),
    "a floor of one": (lambda: literature.mirror_descent(3, floor=1.0), ValueError, r"floor must lie in \(0, 1\)"),
    "a floor of nothing": (
        lambda: literature.mirror_descent(3, floor=1e-101),
        ValueError,
        "floor must be at least 1e-100",
    ),
    "a negative step": (lambda: literature.mirror_descent(3, step=-1.0), ValueError, "above zero"),
    "pressure below one": (lambda: literature.batch_selection(3, pressure=0.9), ValueError, "at least 1, got 0.9"),
    "pressure in words": (lambda: literature.batch_selection(3, pressure="high"), TypeError, "a number"),
    "a pass of no slots": (lambda: varmix.allocate.Shuffled(0), ValueError, "period must be"),
    "a period of zero": (lambda: literature.batch_selection(3, period=0), ValueError, "at least 1"),
    "negative scores": (lambda: varmix.importance([-1.0, 2.0]), ValueError, "non-negative"),
    "scores of zero": (lambda: varmix.importance([0.0, 0.0]), ValueError, "not all zero"),
    "ragged scores": (lambda: varmix.importance([[1.0], [1.0, 2.0]]), TypeError, "different lengths"),
    "a meter window of one": (lambda: GainMeter(window=1), ValueError, "at least 2"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_arguments_are_refused_with_a_reason(name):
    action, kind, says = REFUSED[name]
    with pytest.raises(kind, match=says):
        action()


@pytest.fixture
def sampler():
    made = varmix.vrm(Groups([0, 0, 1, 1, 1]), rng=0)
    for _ in range(5):
        made.update(made.draw(4), [1.0, 0.0, 2.0, 3.0])
    return made


BAD_NORMS = {
    "nan": ([1.0, NAN, 1.0], ValueError, r"norms\[1\] is nan"),
    "infinite": ([1.0, 1.0, INF], ValueError, r"norms\[2\] is infinite"),
    "negative": ([-1.0, 1.0, 1.0], ValueError, r"norms\[0\] is -1"),
    "too many": (np.ones(4), ValueError, r"expected shape \(3,\), got \(4,\)"),
    "gradients": (np.ones((3, 10)), ValueError, r"expected shape \(3,\), got \(3, 10\). Pass per-example norms"),
    "a number": (1.0, ValueError, r"got \(\)"),
    "words": (["a", "b", "c"], TypeError, "real numbers"),
    "complex": ([1j, 1.0, 1.0], TypeError, "real numbers"),
    "none": (None, TypeError, "real numbers"),
    "ragged": ([[1.0], [1.0, 2.0], 3.0], TypeError, "different lengths"),
    "squares that overflow": ([1e200, 1.0, 1.0], ValueError, "at most about 1e120"),
    "masked": (np.ma.masked_array([1.0, 1.0, 1.0], [False, True, False]), TypeError, "masked"),
}


@pytest.mark.parametrize("name", BAD_NORMS)
def test_bad_norms_are_refused_and_change_nothing(name, sampler):
    norms, kind, says = BAD_NORMS[name]
    draw = sampler.draw(3)
    before = sampler.state_dict()
    with pytest.raises(kind, match=says):
        sampler.update(draw, norms)
    assert same(sampler.state_dict(), before)
    sampler.update(draw, [0.0, 0.0, 0.0])  # the receipt is still good


class _StrangeRatios(Family):
    """Draws atoms that it says never come, or come infinitely often."""

    space, k, c = Points(2), 1, 1.0

    def __init__(self, ratio):
        self.ratio = ratio

    def draw(self, lanes, uniforms):
        atoms = np.arange(len(lanes)) % 2
        return atoms, np.where(atoms == 1, self.ratio, 1.0)[:, None]

    def ratios(self, atoms):
        return np.ones((len(atoms), 1))


@pytest.mark.parametrize("ratio", [0.0, 1e-300, INF, NAN])
def test_a_strange_density_is_blamed_on_the_components_and_not_on_the_norms(ratio):
    sampler = Sampler(_StrangeRatios(ratio), learner=Fixed(), rng=0)
    draw = sampler.draw(2)
    before = sampler.state_dict()
    with pytest.raises(ValueError, match=rf"row 1 has density {ratio:.3g} \(and norm 3\)"):
        sampler.update(draw, [2.0, 3.0])
    with pytest.raises(ValueError, match=r"norms\[0\] is nan"):
        sampler.update(draw, [NAN, 3.0])
    assert same(sampler.state_dict(), before)


@pytest.mark.parametrize("name", BAD_NORMS)
def test_the_meter_refuses_the_same_norms_and_counts_nothing(name, sampler):
    norms, kind, says = BAD_NORMS[name]
    meter = GainMeter()
    with pytest.raises(kind, match=says):
        meter.update(sampler.draw(3), norms)
    assert meter.batches == 0


@pytest.mark.parametrize(
    ("m", "kind"), [(0, ValueError), (-1, ValueError), (1.5, TypeError), (True, TypeError), (None, TypeError)]
)
def test_batches_need_a_size(m, kind, sampler):
    before = sampler.state_dict()
    with pytest.raises(kind, match="m must be"):
        sampler.draw(m)
    assert same(sampler.state_dict(), before)


@pytest.mark.parametrize(
    ("batches", "kind"),
    [(0, ValueError), (-1, ValueError), (1.0, TypeError), (True, TypeError), (None, TypeError), (2**61, ValueError)],
)
def test_draws_need_a_number_of_batches(batches, kind, sampler):
    before = sampler.state_dict()
    with pytest.raises(kind, match=r"batches (must be|is too large)"):
        sampler.draw(2, batches)
    assert same(sampler.state_dict(), before)


def test_numpy_integers_are_numbers(sampler):
    assert len(sampler.draw(3, np.int64(2))) == 6
    assert len(sampler.draw(np.int32(3))) == 3


class _OneSubset(Family):
    space, k, c = Subsets(3, 2), 1, 1.0

    def draw(self, lanes, uniforms):
        return np.tile([0, 1], (len(lanes), 1)), np.ones((len(lanes), 1))

    def ratios(self, atoms):
        return np.ones((len(atoms), 1))


def test_subsets_have_no_census():
    sampler = Sampler(_OneSubset(), learner=Fixed())
    assert sampler.draw(2).indices.shape == (2, 2)
    with pytest.raises(TypeError, match="draw_all"):
        sampler.draw_all()


class _Fails(Family):
    """Draws, or takes feedback, once; then fails."""

    space, k, c = Points(2), 1, 1.0

    def __init__(self):
        self.broken = False

    def draw(self, lanes, uniforms):
        uniforms.take(3)
        if self.broken:
            raise RuntimeError("the buffer is empty")
        return np.zeros(len(lanes), dtype=np.int64), np.ones((len(lanes), 1))

    def ratios(self, atoms):
        return np.ones((len(atoms), 1))

    def observe(self, draw, norms):
        if self.broken:
            raise RuntimeError("the buffer is empty")


@pytest.mark.parametrize("given", [None, np.ones(3), "draw"])
def test_updates_need_a_receipt(given, sampler):
    with pytest.raises(TypeError, match="takes the receipt of a draw"):
        sampler.update(given, np.ones(3))


class _FailsInOneCall(_Fails):
    """Draws by a fast path of its own, or fails."""

    def sample(self, mixture, m, batches, allocation, state, uniforms):
        atoms, ratios = self.draw(np.zeros(m * batches, dtype=np.int64), uniforms)
        return atoms, ratios, np.ones(len(atoms)), np.ones(len(atoms)), None, state


class _Declines(Clip):
    """Weights nothing."""

    def __call__(self, density):
        raise RuntimeError("no weights today")


class _DrawsTooFew(_Fails):
    def draw(self, lanes, uniforms):
        return np.zeros(1, dtype=np.int64), np.ones((1, 1))


def test_a_family_that_draws_too_few_is_named_and_nothing_changes():
    sampler = Sampler(_DrawsTooFew(), learner=Fixed(), rng=0)
    before = sampler.state_dict()
    with pytest.raises(ValueError, match=r"_DrawsTooFew.* drew 1 atoms"):
        sampler.draw(2)
    assert same(sampler.state_dict(), before)


@pytest.mark.parametrize("allocate", [varmix.allocate.stratified, varmix.allocate.round_robin])
@pytest.mark.parametrize("family", [_Fails, _FailsInOneCall])
def test_a_reweighting_that_fails_leaves_the_sampler_as_it_was(family, allocate):
    sampler = Sampler(family(), learner=Fixed(), rng=0, allocate=allocate)
    before = sampler.state_dict()
    sampler.reweight = _Declines(2.0)
    with pytest.raises(RuntimeError, match="no weights today"):
        sampler.draw(3)
    sampler.reweight = varmix.reweight.exact
    assert same(sampler.state_dict(), before)


@pytest.mark.parametrize("kind", [_Fails, _FailsInOneCall])
def test_a_family_that_fails_leaves_the_sampler_as_it_was(kind):
    family = kind()
    sampler = Sampler(family, learner=Fixed(), rng=0)
    draw = sampler.draw(2)
    before = sampler.state_dict()
    family.broken = True
    with pytest.raises(RuntimeError):
        sampler.draw(2)
    assert same(sampler.state_dict(), before)
    with pytest.raises(RuntimeError):
        sampler.update(draw, [1.0, 1.0])
    assert same(sampler.state_dict(), before)
    family.broken = False
    sampler.update(draw, [1.0, 1.0])
