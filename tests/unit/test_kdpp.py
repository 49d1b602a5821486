import numpy as np
import pytest

import varmix
from support.kdpps import features, inclusion_by_enumeration, listed, ratios_by_enumeration, ratios_by_fractions
from varmix import KDpp, Uniform
from varmix._core.rng import Uniforms
from varmix.components import Subsets, with_uniform
from varmix.meter import GainMeter
from varmix.reweight import SoftTruncation, exact, horvitz_thompson

RIDGES = [0.1, 1.0, 10.0]
CASES = [(n, size, d) for n in (8, 9) for size in (3, 4) for d in (2, 3, 4)]


def _check(family, L, size, ridges, tolerance=1e-12):
    sets, points = listed(len(L), size), np.arange(len(L))
    for j, ridge in enumerate(ridges):
        np.testing.assert_allclose(family.ratios(sets)[:, j], ratios_by_enumeration(L, size, ridge), 0, tolerance)
        expected = inclusion_by_enumeration(L, size, ridge)
        np.testing.assert_allclose(family.inclusion(points)[:, j], expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize(("n", "size", "d"), CASES)
def test_ratios_and_inclusion_are_those_of_all_determinants(n, size, d):
    X = features(n, d)
    ridges = RIDGES + [0.0] * (size <= d)
    _check(KDpp(X, size, ridges), X @ X.T, size, ridges)
    _check(KDpp.from_kernel(X @ X.T, size, ridges), X @ X.T, size, ridges)


@pytest.mark.parametrize("size", [1, 2, 5, 6])
def test_sets_of_one_point_and_of_all_points(size):
    X = features(6, 7)  # more features than points
    _check(KDpp(X, size, [0.0, 0.5]), X @ X.T, size, [0.0, 0.5])


def test_a_kernel_of_full_rank():
    X = features(8, 3)
    L = np.exp(-((X[:, None] - X) ** 2).sum(axis=2))
    _check(KDpp.from_kernel(L, 4), L, 4, [0.0])


def test_the_uniform_component_is_uniform_over_sets():
    family = with_uniform(KDpp(features(8, 3), 3, RIDGES))
    assert (family.k, family.ratios(listed(8, 3)).shape) == (4, (56, 4))
    assert (family.ratios(listed(8, 3))[:, -1] == 1.0).all()
    assert family.inclusion(np.arange(8))[:, -1] == pytest.approx(3 / 8)


def test_features_of_less_than_full_rank():
    X = features(8, 2) @ np.array([[1.0, 2.0, 3.0, 0.0], [0.5, 1.0, -1.0, 0.0]])
    _check(KDpp(X, 3, RIDGES), X @ X.T, 3, RIDGES)
    _check(KDpp(X, 2, [0.0]), X @ X.T, 2, [0.0])
    with pytest.raises(ValueError, match="size = 3, rank = 2"):
        KDpp(X, 3, [1.0, 0.0])


def test_features_of_zero_give_uniform_sets():
    family = KDpp(np.zeros((7, 2)), 3, [2.0])
    assert family.ratios(listed(7, 3)) == pytest.approx(1.0)
    assert family.c == pytest.approx(1.0)
    assert family.draw(np.zeros(4, dtype=np.int64), Uniforms(0))[0].shape == (4, 3)


def test_equal_rows_never_come_together_without_a_ridge():
    X = features(8, 4)
    X[3] = X[6]
    family = KDpp(X, 3, [0.0, 0.1])
    _check(family, X @ X.T, 3, [0.0, 0.1])
    sets = listed(8, 3)
    both = (sets == 3).any(axis=1) & (sets == 6).any(axis=1)
    assert (family.ratios(sets[both])[:, 0] == 0.0).all()
    atoms, _ = family.draw(np.zeros(50_000, dtype=np.int64), Uniforms(0))
    assert not ((atoms == 3).any(axis=1) & (atoms == 6).any(axis=1)).any()


@pytest.mark.parametrize("scale", [1e-150, 1e-300, 1e150, 1e300])
def test_scale_changes_nothing_when_the_ridge_follows(scale):
    X, sets = features(8, 3), listed(8, 4)
    plain = KDpp(X, 3, [0.0]).ratios(listed(8, 3))
    assert KDpp(X * scale, 3, [0.0]).ratios(listed(8, 3)) == pytest.approx(plain, rel=1e-10)
    if scale in (1e-150, 1e150):
        expected = KDpp(X, 4, [0.5]).ratios(sets)
        assert KDpp(X * scale, 4, [0.5 * scale**2]).ratios(sets) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("scale", [1e-280, 1e-7, 1e7, 1e280])
def test_kernels_of_any_scale(scale):
    X = features(8, 5)
    expected = KDpp.from_kernel(X @ X.T, 4, [0.0, 0.5]).ratios(listed(8, 4))
    again = KDpp.from_kernel(X @ X.T * scale, 4, [0.0, 0.5 * scale])
    assert again.ratios(listed(8, 4)) == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_kernels_in_single_precision_are_taken_though_rounding_makes_them_indefinite():
    X = features(40, 2)
    L = np.exp(-((X[:, None] - X) ** 2).sum(axis=2) / 50).astype(np.float32)
    assert np.linalg.eigvalsh(L.astype(np.float64))[0] < -1e-9
    family = KDpp.from_kernel(L, 3, [0.1])
    assert family.inclusion(np.arange(40)).sum() == pytest.approx(3.0)


def test_a_ridge_far_above_or_below_the_features():
    X, sets = features(8, 3), listed(8, 4)
    assert KDpp(X * 1e-200, 4, [1.0]).ratios(sets) == pytest.approx(1.0)
    # Far below: a set is three points of the kernel and a uniform one.
    expected = np.array([np.linalg.det(X[s].T @ X[s]) for s in sets])
    assert KDpp(X * 1e200, 4, [1.0]).ratios(sets)[:, 0] == pytest.approx(expected / expected.mean(), rel=1e-10)
    assert KDpp(X * 1e200, 4, [1.0]).inclusion(np.arange(8)).sum() == pytest.approx(4.0)


ILL = {f"a column of {scale:g}": np.array([1.0, 1.0, scale]) for scale in (1e-4, 1e-5, 1e-6, 1e-7, 1e-8)}
ILL["columns from 1 to 1e-9"] = np.geomspace(1.0, 1e-9, 3)


@pytest.mark.parametrize("ridge", [0.0, 1e-12])
@pytest.mark.parametrize("name", ILL)
def test_ratios_of_ill_conditioned_features_keep_their_digits(name, ridge):
    for seed in range(3):
        X = np.random.default_rng(seed).normal(size=(8, 3)) * ILL[name]
        family, expected = KDpp(X, 3, [ridge]), ratios_by_fractions(X, 3, ridge)
        ratios, tolerance = family.ratios(listed(8, 3))[:, 0], max(1e-7, 2.3e-16 * np.linalg.cond(X))
        np.testing.assert_allclose(ratios, expected, rtol=tolerance, atol=0)
        assert ratios.mean() == pytest.approx(1.0, rel=tolerance)
        assert ratios.max() <= family.c
        assert (ratios > 0).all()


@pytest.mark.parametrize("size", [3, 4, 5])
def test_more_or_fewer_ill_conditioned_features_than_points(size):
    X = np.random.default_rng(size).normal(size=(8, 4)) * np.geomspace(1.0, 1e-9, 4)
    for ridge in [0.0] * (size <= 4) + [1e-18, 1e-12, 1e-3]:
        ratios = KDpp(X, size, [ridge]).ratios(listed(8, size))[:, 0]
        np.testing.assert_allclose(ratios, ratios_by_fractions(X, size, ridge), rtol=1e-7, atol=0)


def test_nearly_equal_rows_keep_their_digits():
    X = features(8, 4)
    X[4] = X[0] + 1e-7 * X[5]
    X[6] = X[1] * (1 + 1e-9)
    for ridge in (0.0, 1e-12, 1.0):
        ratios, expected = KDpp(X, 4, [ridge]).ratios(listed(8, 4))[:, 0], ratios_by_fractions(X, 4, ridge)
        np.testing.assert_allclose(ratios, expected, rtol=1e-6, atol=1e-20)


@pytest.mark.parametrize("ridge", [1e-12, 1e-30, 1e-40])
def test_equal_rows_come_together_as_seldom_as_a_small_ridge_says(ridge):
    X = features(8, 3)
    X[1] = X[2] = X[0]
    np.testing.assert_allclose(
        KDpp(X, 3, [ridge]).ratios(listed(8, 3))[:, 0], ratios_by_fractions(X, 3, ridge), rtol=1e-7, atol=0
    )


def test_weights_of_ill_conditioned_features_have_mean_one():
    X = np.random.default_rng(0).normal(size=(12, 3)) * [1.0, 1.0, 1e-8]
    family, sets = KDpp(X, 3, [0.0]), listed(12, 3)
    counts = {tuple(s): r for s, r in zip(sets.tolist(), family.ratios(sets)[:, 0], strict=True)}
    draw = varmix.Sampler(family, learner=varmix.learners.Fixed(), rng=0).draw(20_000)
    assert np.isfinite(draw.weights).all()
    assert np.array_equal(draw.density, [counts[tuple(s)] for s in draw.indices.tolist()])
    often = draw.density > 0.05  # where weights are small enough for their mean to be seen
    expected = np.mean([r > 0.05 for r in counts.values()])
    assert np.sum(draw.weights[often]) / len(draw) == pytest.approx(expected, abs=0.05)


@pytest.mark.parametrize("times", [1e10, 1e14])
def test_one_long_row_leaves_the_law_of_the_others(times):
    X = np.random.default_rng(0).normal(size=(8, 3))
    X[0] *= times
    for ridge in (0.0, 1e-12, 1.0, 1e6):
        ratios, expected = KDpp(X, 3, [ridge]).ratios(listed(8, 3))[:, 0], ratios_by_fractions(X, 3, ridge)
        np.testing.assert_allclose(ratios, expected, rtol=max(1e-7, 2.3e-16 * times), atol=1e-14)


def test_features_that_are_lost_beside_others_are_refused_where_they_matter():
    X = np.random.default_rng(0).normal(size=(8, 3))
    X[0] *= 1e16
    with pytest.raises(
        ValueError, match=r"rank = 1, and ridges\[0\] is 0. Scale down the longest rows or columns, use"
    ):
        KDpp(X, 3, [0.0])
    with pytest.raises(ValueError, match=r"lost in rounding, and ridges\[1\] = 1 is too small"):
        KDpp(X, 3, [1e14, 1.0])
    with pytest.raises(ValueError, match="lost in rounding"):
        KDpp.from_kernel(X @ X.T, 3, [1.0])
    with pytest.raises(ValueError, match="lost in rounding"):
        KDpp(features(8, 3) * [1.0, 1.0, 1e-17], 3, [1e-40])
    ratios = KDpp(X, 3, [1e14]).ratios(listed(8, 3))[:, 0]
    np.testing.assert_allclose(ratios, ratios_by_fractions(X, 3, 1e14), rtol=1e-6)


def test_features_that_are_rounding_are_left_out_whatever_the_ridge():
    X = features(8, 2) @ np.array([[1.0, 2.0, 3.0, 0.0], [0.5, 1.0, -1.0, 0.0]])
    assert KDpp(X, 3, [1e-40]).ratios(listed(8, 3)).mean() == pytest.approx(1.0, rel=1e-10)
    assert KDpp.from_kernel(X @ X.T, 3, [1e-40]).ratios(listed(8, 3)).mean() == pytest.approx(1.0, rel=1e-10)


def test_the_rank_of_a_kernel_is_judged_by_the_precision_it_is_given_in():
    B = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
    with pytest.raises(ValueError, match="size = 5, rank = 3"):
        KDpp.from_kernel(B @ B.T, 5, [0.0])
    with pytest.raises(ValueError, match="size = 5, rank = 3"):
        KDpp.from_kernel((B @ B.T).astype(np.float16), 5, [0.0])
    family = KDpp.from_kernel(B @ B.T, 3, [0.0])
    assert family.inclusion(np.arange(60)).sum() == pytest.approx(3.0)
    assert KDpp.from_kernel(np.eye(6, dtype=np.longdouble), 5, [0.0]).c == pytest.approx(1.0)


def _log_e(values, m):
    """Return log e_m of the eigenvalues, computed by the recursion in Python's integers of any length."""
    unit = 2**200
    e = [unit] + [0] * m
    for value in values:
        whole = int(value * 2**60)
        for i in range(m, 0, -1):
            e[i] += (e[i - 1] * whole) >> 60
    shift = max(e[m].bit_length() - 1000, 0)
    return np.log(float(e[m] >> shift)) + (shift - 200) * np.log(2.0)


def test_large_sets_stay_finite_and_keep_their_digits():
    """Compare with the polynomials of all n eigenvalues of X X' + ridge I, which the library does not use."""
    X = features(1000, 60) * 30
    family = KDpp(X, 50, [0.5, 20.0]).with_uniform()
    atoms, ratios = family.draw(np.repeat([0, 1, 2], 5), Uniforms(0))
    assert np.isfinite(ratios).all()
    assert (ratios > 0).all()
    assert ratios.max() <= family.c
    assert family.inclusion(np.arange(1000)).sum(axis=0) == pytest.approx(50.0, rel=1e-10)
    squares = np.linalg.svd(X, compute_uv=False) ** 2
    for j, ridge in enumerate([0.5, 20.0]):
        values = np.append(squares, np.zeros(940)) + ridge
        mean = _log_e(values, 50) - Subsets(1000, 50).log_count
        for s, row in zip(atoms, ratios, strict=True):
            log_det = np.linalg.slogdet(X[s] @ X[s].T + ridge * np.eye(50))[1]
            assert np.log(row[j]) == pytest.approx(log_det - mean, abs=1e-8)


def test_ratios_that_no_number_can_hold_are_cut():
    """One set of a hundred points has nearly all the mass, and the number of sets overflows a double."""
    X = np.zeros((5000, 120))
    X[:120] = 1e9 * np.eye(120)
    family = KDpp(X, 120, [1e-3]).with_uniform()
    sampler = varmix.vrm(KDpp(X, 120, [1e-3]), rng=0)
    ratios = family.ratios(np.arange(120)[None])
    assert np.isfinite(ratios).all()
    assert ratios[0, 0] == pytest.approx(family.c)
    for _ in range(20):
        draw = sampler.draw(4)
        sampler.update(draw, np.ones(4))
    assert np.isfinite(sampler.mixture).all()


@pytest.mark.parametrize(("n", "size", "d"), CASES)
def test_c_bounds_every_ratio(n, size, d):
    for seed in range(5):
        family = KDpp(features(n, d, seed), size, [0.01, *RIDGES])
        assert family.ratios(listed(n, size)).max() <= family.c * (1 + 1e-12)
    orthogonal = KDpp(np.eye(n) * np.arange(1, n + 1)[:, None], size, [0.0])
    assert orthogonal.c == pytest.approx(orthogonal.ratios(listed(n, size)).max())  # the bound is reached


def test_any_order_of_the_points_gives_the_same_bits():
    family = KDpp(features(9, 4), 4, RIDGES)
    sets = listed(9, 4)
    assert np.array_equal(family.ratios(sets), family.ratios(sets[:, ::-1]))
    assert np.array_equal(family.ratios(sets), family.ratios(sets[:, [2, 0, 3, 1]].astype(np.uint8)))


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.uint8])
def test_features_of_any_real_kind_are_taken_and_left_alone(dtype):
    X = np.arange(24).reshape(8, 3).astype(dtype) ** 2 % 11
    ridges, before = np.array(RIDGES), X.copy()
    family = KDpp(X, 3, ridges)
    _check(family, X.astype(float) @ X.T.astype(float), 3, RIDGES)
    ridges[:] = 7.0
    assert np.array_equal(X, before)
    assert family.ridges.tolist() == RIDGES
    KDpp(np.asfortranarray(X), 3, RIDGES)


def test_saved_families_are_told_apart():
    X = features(9, 4)
    family = KDpp(X, 3, [1.0])
    state = family.state_dict()
    KDpp(X, 3, [1.0]).load_state_dict(state)
    KDpp(X * (1 + 1e-13), 3, [1.0]).load_state_dict(state)  # another machine may round in another way
    others = {
        "ridges": KDpp(X, 3, [2.0]),
        "size was 3 and is 2": KDpp(X, 2, [1.0]),
        "k was 1 and is 2": KDpp(X, 3, [1.0]).with_uniform(),
        "eigenvalues": KDpp(2 * X + 0.1, 3, [1.0]),
        "other eigenvalues": KDpp(X[:, :3], 3, [1.0]),
        "have other eigenvalues": KDpp(2 * X, 3, [1.0]),
        "k-DPPs have other eigenvalues": KDpp(X / 2, 3, [1.0]),
        "other points": KDpp(X[::-1], 3, [1.0]),
        "in the same order": KDpp(X[[1, 0, *range(2, 9)]], 3, [1.0]),
        "rebuild them": KDpp(np.linalg.qr(features(9, 9))[0] @ X, 3, [1.0]),
    }
    for says, other in others.items():
        with pytest.raises(ValueError, match=says):
            other.load_state_dict(state)
    with pytest.raises(varmix.CheckpointError, match="exponent"):
        family.load_state_dict(state | {"exponent": 0.5})


@pytest.mark.parametrize("scale", [1e-2, 1e-4, 1e-5, 1e-6, 1e-7])
def test_short_features_are_told_apart_too(scale):
    """Their eigenvalues are tiny compared with the others, but without a ridge they still decide the sets."""
    X = features(30, 2) * [1.0, scale]
    other = X.copy()
    other[:, 1] = other[::-1, 1]
    state = KDpp(X, 2, [0.0]).state_dict()
    KDpp(X * (1 + 1e-13), 2, [0.0]).load_state_dict(state)
    with pytest.raises(ValueError, match="rebuild them from the same features"):
        KDpp(other, 2, [0.0]).load_state_dict(state)


def test_saved_families_are_known_again_when_rounding_changes_their_scale_or_their_eigenvectors():
    X = features(9, 4) / np.abs(features(9, 4)).max()
    KDpp(X, 3, [1.0]).load_state_dict(
        KDpp(X * (1 - 1e-13), 3, [1.0]).state_dict()
    )  # the largest is below a power of two
    turn = np.linalg.qr(features(4, 4))[0]
    KDpp(X, 3, [1.0]).load_state_dict(KDpp(X @ turn, 3, [1.0]).state_dict())
    eight = KDpp(np.eye(8), 3, [1.0])
    eight.load_state_dict(KDpp(np.linalg.qr(features(8, 8))[0], 3, [1.0]).state_dict())  # X X' = I in both


def test_random_features_and_nystroem_give_rbf_kernels():
    approximation = pytest.importorskip("sklearn.kernel_approximation")
    X = np.random.default_rng(0).normal(size=(200, 2))
    L = np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(axis=2))
    exact_family = KDpp.from_kernel(L, 4, [0.1])
    sets = Uniform(Subsets(200, 4)).draw(np.zeros(100, dtype=np.int64), Uniforms(0))[0]
    for features_of in (
        approximation.RBFSampler(gamma=0.5, n_components=2000, random_state=0),
        approximation.Nystroem(gamma=0.5, n_components=100, random_state=0),
    ):
        family = KDpp(features_of.fit_transform(X), 4, [0.1])
        assert np.abs(family.ratios(sets) - exact_family.ratios(sets)).mean() < 0.05
        draw = varmix.vrm(family, rng=0, reweight=horvitz_thompson).draw(8)
        assert draw.weights.shape == (8, 4)


# Through the sampler ------------------------------------------------------------------------------------------------


def _trained(reweight, rounds=60):
    sampler = varmix.vrm(KDpp(features(7, 3), 3, [0.2, 2.0]), rng=0, reweight=reweight)
    for _ in range(rounds):
        draw = sampler.draw(4)
        sampler.update(draw, 0.1 + (draw.indices == 6).any(axis=1))
    return sampler


def _weights_of_all_sets(sampler):
    """Return the sampler's weights of every set, and the probability of every set."""
    sets = listed(7, 3)
    probabilities = sampler.components.ratios(sets) @ sampler.mixture / len(sets)
    weights = {}
    while len(weights) < len(sets):
        draw = sampler.draw(200)
        weights |= {tuple(s.tolist()): w for s, w in zip(draw.indices, draw.weights, strict=True)}
    return sets, np.array([weights[tuple(s.tolist())] for s in sets]), probabilities


def test_horvitz_thompson_weights_are_unbiased_and_vary_less():
    values = np.random.default_rng(1).normal(size=7) + 1.0
    errors = {}
    for reweight in (exact, horvitz_thompson):
        sets, weights, probabilities = _weights_of_all_sets(_trained(reweight))
        estimates = (weights.reshape(len(sets), -1) * values[sets]).mean(axis=1)
        assert probabilities.sum() == pytest.approx(1.0, abs=1e-12)
        assert probabilities @ estimates == pytest.approx(values.mean(), abs=1e-12)
        errors[reweight] = probabilities @ (estimates - values.mean()) ** 2
    assert errors[horvitz_thompson] < errors[exact]


def test_soft_truncation_of_sets_is_the_papers_and_biased():
    values = np.arange(7.0) ** 2
    sets, weights, probabilities = _weights_of_all_sets(_trained(SoftTruncation(0.2)))
    assert weights == pytest.approx(0.8 / (probabilities * len(sets)) + 0.2)
    assert abs(probabilities @ (weights * values[sets].mean(axis=1)) - values.mean()) > 0.1


def test_weights_by_point_change_the_estimate_and_nothing_that_is_learned():
    plain, by_point = _trained(exact), _trained(horvitz_thompson)
    assert np.array_equal(plain.mixture, by_point.mixture)
    one, other = plain.draw(5), by_point.draw(5)
    assert np.array_equal(one.density, other.density)
    assert np.array_equal(one.ratios, other.ratios)
    pi = by_point.components.inclusion(other.indices.ravel()) @ by_point.mixture
    assert other.weights == pytest.approx(3 / (7 * pi.reshape(5, 3)))


def test_uniform_sets_have_weights_of_one_by_point_too():
    sampler = varmix.uniform(Subsets(9, 4), rng=0)
    sampler.reweight = horvitz_thompson
    assert sampler.draw(3).weights == pytest.approx(np.ones((3, 4)))


def test_weights_by_point_of_a_stack():
    X = features(9, 3)
    sampler = varmix.vrm(KDpp(X, 3, [0.1]), KDpp(X**2, 3, [1.0]), rng=0, reweight=horvitz_thompson)
    draw = sampler.draw(6)
    L = [(X @ X.T, 0.1), ((X**2) @ (X**2).T, 1.0)]
    pi = np.column_stack([*(inclusion_by_enumeration(K, 3, ridge) for K, ridge in L), np.full(9, 1 / 3)])
    assert draw.weights == pytest.approx(3 / (9 * (pi @ sampler.mixture)[draw.indices]))


def test_weights_by_point_are_refused_where_nothing_is_known_of_points():
    with pytest.raises(TypeError, match=r"Points\(2\) does not know with what probability"):
        varmix.vrm(varmix.Groups([0, 1]), reweight=horvitz_thompson)
    sampler = varmix.uniform(5, rng=0)
    with pytest.raises(TypeError, match="does not know with what probability"):
        sampler.reweight = horvitz_thompson
    assert sampler.reweight is exact
    assert sampler.draw(3).weights.shape == (3,)


def test_a_sampler_of_sets_learns_is_measured_and_comes_back(tmp_path):
    make = lambda: varmix.vrm(KDpp(features(50, 4), 5, RIDGES), rng=0, reweight=horvitz_thompson)  # noqa: E731
    sampler, meter = make(), GainMeter()
    for _ in range(200):
        draw = sampler.draw(1)
        norms = draw.ratios[:, 0]  # the first component is the best law there is
        meter.update(draw, norms)
        sampler.update(draw, norms)
    assert sampler.mixture.argmax() == 0
    assert meter.gain.low > 1
    with pytest.raises(TypeError, match="draw_all"):
        sampler.draw_all()
    varmix.save(tmp_path / "sampler", sampler)
    again = varmix.load(tmp_path / "sampler", make())
    assert np.array_equal(again.draw(3).weights, sampler.draw(3).weights)


def test_uniform_sets_are_added_once():
    assert varmix.Sampler(KDpp(features(9, 3), 3, [1.0]), rng=0).components.k == 2
    assert varmix.Sampler(KDpp(features(9, 3), 3, [1.0]).with_uniform(), rng=0).components.k == 2
    assert varmix.Sampler(KDpp(features(9, 3), 3, [1.0]), learner=varmix.learners.Fixed()).components.k == 1
