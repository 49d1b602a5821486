"""Contract checks for families of components."""

import math
from collections.abc import Callable
from itertools import combinations
from typing import Any, TypeAlias

import numpy as np

from varmix._core.draw import Draw
from varmix._core.rng import Uniforms
from varmix._core.spaces import Points, Space, Subsets
from varmix._core.validation import FloatArray, IntArray, same
from varmix._sampler import Sampler
from varmix.allocate import independent
from varmix.components._base import Family
from varmix.learners import Fixed

MAX_SUBSETS = 10_000  # limit for exact checks; families over more subsets skip these checks


def chi_square_z(counts: IntArray, probabilities: FloatArray) -> float:
    """Return the chi-square statistic of counts as a standard normal deviate (Wilson and Hilferty).

    Cells with fewer than five expected counts are merged.

    Parameters
    ----------
    counts : ndarray of shape (cells,)
        How often each cell was drawn.
    probabilities : ndarray of shape (cells,)
        Expected share of each cell.

    Returns
    -------
    float
        About standard normal if the counts follow the probabilities. Infinity if a cell of probability zero was drawn.

    Examples
    --------
    >>> even = np.full(2, 0.5)
    >>> chi_square_z(np.array([480, 520]), even) < 2 < 5 < chi_square_z(np.array([400, 600]), even)
    True
    """
    expected = probabilities * counts.sum()
    if counts[expected == 0].any():
        return float("inf")
    rare = expected < 5
    if rare.any():
        counts = np.append(counts[~rare], counts[rare].sum())
        expected = np.append(expected[~rare], expected[rare].sum())
        counts, expected = counts[expected > 0], expected[expected > 0]
    freedom = len(counts) - 1
    if freedom == 0:
        return 0.0
    statistic = float(((counts - expected) ** 2 / expected).sum())
    spread = 2.0 / (9.0 * freedom)
    return float(((statistic / freedom) ** (1 / 3) - (1.0 - spread)) / np.sqrt(spread))


def all_atoms(space: Space) -> IntArray:
    """Return all points of a space, or all subsets in lexicographic order.

    Parameters
    ----------
    space : Points or Subsets
        The space.

    Returns
    -------
    ndarray of shape (count,) or (count, size)
        One point or one set per row. Empty if there are 10,000 subsets or more.

    Examples
    --------
    >>> from varmix.components import Subsets
    >>> all_atoms(Subsets(3, 2)).tolist()
    [[0, 1], [0, 2], [1, 2]]
    """
    if isinstance(space, Points):
        return space.atoms
    few = space.log_count < np.log(MAX_SUBSETS)
    listed = list(combinations(range(space.n), space.size)) if few else []
    return np.array(listed, dtype=np.int64).reshape(-1, space.size)


def count_atoms(atoms: IntArray, space: Space) -> IntArray:
    """Return how often each point or subset of a space was drawn.

    Parameters
    ----------
    atoms : ndarray of shape (m,) or (m, size)
        The draws. The points of a set must be in ascending order.
    space : Points or Subsets
        The space.

    Returns
    -------
    ndarray of shape (count,)
        One count per row of `all_atoms(space)`.

    Examples
    --------
    >>> from varmix.components import Subsets
    >>> count_atoms(np.array([[0, 2], [0, 1], [0, 2]]), Subsets(3, 2)).tolist()
    [1, 2, 0]
    """
    if isinstance(space, Points):
        return np.bincount(atoms - space.first, minlength=space.n)
    n, size, total = space.n, space.size, math.comb(space.n, space.size)
    # Number of sets after a set: they agree with it up to some place and have a larger point there.
    after = np.array([[min(math.comb(n - 1 - p, size - i), total) for i in range(size)] for p in range(n)])
    return np.bincount(total - 1 - after[atoms, np.arange(size)].sum(axis=1), minlength=total)


MakeComponents: TypeAlias = Callable[[], Family]


def _make_mixtures(k: int) -> list[FloatArray]:
    """Return an even mixture, the last component alone, and a random mixture."""
    rng = np.random.default_rng(5)
    return [np.full(k, 1.0 / k), np.eye(k)[-1], rng.dirichlet(np.ones(k))]


def _draw_atoms(family: Family, w: FloatArray, m: int, uniforms: Uniforms) -> tuple[IntArray, FloatArray]:
    """Return independent draws from a mixture and their ratios."""
    lanes, _ = independent.assign(np.empty(0), family.lanes(w), m, uniforms)
    return family.draw(lanes, uniforms)


def check_what_is_declared_holds(make: MakeComponents) -> None:
    """Check that `names`, `has_uniform` and `masses` are correct.

    There must be one name per lane, and names must differ. If `has_uniform`, the ratios of the last component must be
    one. If `masses` is not None, it must hold one number per lane with sum one: the shares of the lanes when only the
    uniform component is drawn from.

    Parameters
    ----------
    make : callable
        Function without arguments that builds a new family. Every call must build an equal one.

    Raises
    ------
    AssertionError
        If a declaration is false.

    Examples
    --------
    >>> from varmix.components import Groups
    >>> check_what_is_declared_holds(lambda: Groups([0, 0, 1]))
    """
    family = make()
    lanes = len(family.lanes(np.full(family.k, 1.0 / family.k)))
    assert len(family.names) == lanes, f"{len(family.names)} names for {lanes} lanes"
    assert len(set(family.names)) == lanes, f"names must differ from each other, got {list(family.names)}"
    if family.has_uniform:
        atoms, ratios = family.draw(np.arange(lanes, dtype=np.int64), Uniforms(2))
        last = ratios[:, -1]
        assert np.allclose(last, 1.0, atol=1e-6), f"has_uniform, but the last ratios of {atoms.tolist()} are {last}"
    masses = family.masses
    if masses is not None:
        assert np.shape(masses) == (lanes,), f"masses of shape {np.shape(masses)} for {lanes} lanes"
        assert abs(np.sum(masses) - 1.0) < 1e-9, f"masses sum to {np.sum(masses)}"
        plain = family.lanes(np.eye(family.k)[-1]) if family.has_uniform else masses
        assert np.allclose(plain, masses), f"masses are {masses}, but uniform draws have the shares {plain}"


def check_lanes_are_shares(make: MakeComponents) -> None:
    """Check that the shares of the lanes are non-negative and sum to one, and that their number is constant.

    Parameters
    ----------
    make : callable
        Function without arguments that builds a new family. Every call must build an equal one.

    Raises
    ------
    AssertionError
        If a share or the number of lanes is wrong.

    Examples
    --------
    >>> from varmix.components import Groups
    >>> check_lanes_are_shares(lambda: Groups([0, 0, 1]))
    """
    family = make()
    number = {len(family.lanes(w)) for w in _make_mixtures(family.k)}
    assert len(number) == 1, f"the number of lanes depends on the mixture: {number}"
    for w in _make_mixtures(family.k):
        before = w.copy()
        shares = family.lanes(w)
        assert shares.min() >= 0.0, f"negative share {shares.min()}"
        assert abs(shares.sum() - 1.0) < 1e-12, f"shares sum to {shares.sum()}"
        assert np.array_equal(w, before), "lanes changed the mixture"


def check_draws_have_the_right_shapes(make: MakeComponents) -> None:
    """Check the shapes, types and ranges of draws and their ratios.

    Atoms must lie in the space, and the points of a set must differ and ascend. Ratios must have shape (m, k), be at
    least zero and at most `c`, and equal the result of `ratios`. Every draw must return new arrays.

    Parameters
    ----------
    make : callable
        Function without arguments that builds a new family. Every call must build an equal one.

    Raises
    ------
    AssertionError
        If a draw breaks one of these rules.

    Examples
    --------
    >>> from varmix.components import Groups
    >>> check_draws_have_the_right_shapes(lambda: Groups([0, 0, 1]))
    """
    family, uniforms = make(), Uniforms(1)
    for m in (1, 7, 64):
        w = _make_mixtures(family.k)[0]
        atoms, ratios = _draw_atoms(family, w, m, uniforms)
        assert atoms.dtype == np.int64, f"atoms of dtype {atoms.dtype}"
        assert len(atoms) == m, f"{len(atoms)} atoms for {m} lanes"
        assert ratios.shape == (m, family.k), f"ratios of shape {ratios.shape}"
        assert ratios.dtype == np.float64, f"ratios of dtype {ratios.dtype}"
        assert ratios.min() >= 0.0, "a negative ratio"
        assert ratios.max() <= family.c * (1 + 1e-9), f"a ratio of {ratios.max()} above c = {family.c}"
        assert np.array_equal(ratios, family.ratios(atoms)), "draw and ratios disagree"
        other, _ = _draw_atoms(family, w, m, uniforms)
        assert not np.shares_memory(atoms, other), "two draws share memory"
        first = 0 if isinstance(family.space, Subsets) else family.space.first
        assert atoms.min() >= first, "an atom below the first of the space"
        assert atoms.max() < first + family.space.n, "an atom above the last of the space"
        shape = (m, family.space.size) if isinstance(family.space, Subsets) else (m,)
        assert atoms.shape == shape, f"atoms of shape {atoms.shape} instead of {shape}"
        if isinstance(family.space, Subsets):
            assert (np.diff(atoms, axis=1) > 0).all(), "the points of a set must differ and be in ascending order"


def _list_ratios(family: Family) -> tuple[FloatArray, FloatArray]:
    """Return the target and the ratios of all atoms."""
    space, atoms = family.space, all_atoms(family.space)
    uniform = np.full(len(atoms), 1.0 / max(len(atoms), 1))
    target = uniform if isinstance(space, Subsets) or space.target is None else space.target
    return target, family.ratios(atoms)


def check_ratios_are_those_of_laws(make: MakeComponents) -> None:
    """Check that the ratios of every component have mean one under the target, as for any distribution.

    Parameters
    ----------
    make : callable
        Function without arguments that builds a new family. Every call must build an equal one.

    Raises
    ------
    AssertionError
        If a mean is not one.

    Examples
    --------
    >>> from varmix.components import Groups
    >>> check_ratios_are_those_of_laws(lambda: Groups([0, 0, 1]))
    """
    target, ratios = _list_ratios(make())
    if len(target):
        means = target @ ratios
        assert np.abs(means - 1.0).max() < 1e-9, f"the columns have means {means}"


def check_draws_follow_the_mixture(make: MakeComponents) -> None:
    """Check that draws follow the density of the mixture times the target.

    It compares 20,000 draws with the expected counts by a chi-square test with an error probability of about 1e-4.
    Atoms of target zero must not be drawn.

    Parameters
    ----------
    make : callable
        Function without arguments that builds a new family. Every call must build an equal one.

    Raises
    ------
    AssertionError
        If the counts differ significantly.

    Examples
    --------
    >>> from varmix.components import Groups
    >>> check_draws_follow_the_mixture(lambda: Groups([0, 0, 1]))
    """
    family, uniforms = make(), Uniforms(2)
    target, ratios = _list_ratios(family)
    for w in _make_mixtures(family.k):
        if len(target):
            family = make()
            atoms, _ = _draw_atoms(family, w, 20_000, uniforms)
            counts = count_atoms(atoms, family.space)
            probabilities = (ratios @ w) * target
            z = chi_square_z(counts, probabilities / probabilities.sum())
            assert z < 3.9, f"draws do not follow the mixture {w}: z = {z:.1f}"


def check_inclusion_is_that_of_the_laws(make: MakeComponents) -> None:
    """Check `inclusion` and `point_density` against sums over all sets, for families that know them.

    It passes for other families, and for families over too many sets.

    Parameters
    ----------
    make : callable
        Function without arguments that builds a new family. Every call must build an equal one.

    Raises
    ------
    AssertionError
        If an inclusion probability or a density is wrong.

    Examples
    --------
    >>> from varmix.components import Subsets, Uniform
    >>> check_inclusion_is_that_of_the_laws(lambda: Uniform(Subsets(5, 2)))
    """
    family = make()
    sets = all_atoms(family.space)
    if isinstance(family.space, Subsets) and family.knows_inclusion and len(sets):
        inclusion = family.inclusion(np.arange(family.space.n))
        ratios = family.ratios(sets)
        for point, row in enumerate(inclusion):
            expected = ratios[(sets == point).any(axis=1)].sum(axis=0) / len(sets)
            assert np.abs(row - expected).max() < 1e-9, f"point {point}: inclusion {row} instead of {expected}"
        for w in _make_mixtures(family.k):
            density = (inclusion @ w)[sets] * (family.space.n / family.space.size)
            difference = np.abs(family.point_density(sets, w) - density).max()
            assert difference < 1e-9, f"the density of points differs from their inclusion by {difference}"


def check_components_go_on_after_loading(make: MakeComponents) -> None:
    """Check that a new family with a loaded state makes the same draws, bit for bit, and saves the same state.

    Parameters
    ----------
    make : callable
        Function without arguments that builds a new family. Every call must build an equal one.

    Raises
    ------
    AssertionError
        If draws or states differ.

    Examples
    --------
    >>> from varmix.components import Groups
    >>> check_components_go_on_after_loading(lambda: Groups([0, 0, 1]))
    """
    family, uniforms = make(), Uniforms(3)
    w = _make_mixtures(family.k)[2]
    _draw_atoms(family, w, 50, uniforms)
    family.end_epoch()
    saved, stream = family.state_dict(), uniforms.state_dict()
    expected = [_draw_atoms(family, w, 13, uniforms) for _ in range(20)]
    other = make()
    other.load_state_dict(saved)
    assert same(other.state_dict(), saved), "the state changed by saving and loading"
    uniforms.load_state_dict(stream)
    for atoms, ratios in expected:
        again, rows = _draw_atoms(other, w, 13, uniforms)
        assert np.array_equal(again, atoms), "atoms differ after loading"
        assert np.array_equal(rows, ratios), "ratios differ after loading"


def check_components_refuse_other_states(make: MakeComponents) -> None:
    """Check that a foreign state raises `ValueError` and changes nothing.

    Parameters
    ----------
    make : callable
        Function without arguments that builds a new family. Every call must build an equal one.

    Raises
    ------
    AssertionError
        If a foreign state was loaded, or changed the family.

    Examples
    --------
    >>> from varmix.components import Groups
    >>> check_components_refuse_other_states(lambda: Groups([0, 0, 1]))
    """
    family = make()
    _draw_atoms(family, _make_mixtures(family.k)[0], 20, Uniforms(4))
    before = family.state_dict()
    for wrong in ({}, {**before, "something": 1}):
        if not same(wrong, before):
            _assert_refuses(lambda state=wrong: family.load_state_dict(state))  # type: ignore[misc]
            assert same(family.state_dict(), before), "a foreign state changed the family"


def check_feedback_may_come_late_and_in_any_order(make: MakeComponents) -> None:
    """Check that feedback may come late and in any order, and that receipts never change.

    Parameters
    ----------
    make : callable
        Function without arguments that builds a new family. Every call must build an equal one.

    Raises
    ------
    AssertionError
        If a receipt changed.

    Examples
    --------
    >>> from varmix.components import Groups
    >>> check_feedback_may_come_late_and_in_any_order(lambda: Groups([0, 0, 1]))
    """
    sampler = Sampler(make(), learner=Fixed(), rng=6, allocate=independent)
    draws = [sampler.draw(5) for _ in range(8)]
    copies = [_copy_arrays(draw) for draw in draws]
    for i in (7, 0, 3, 1):
        sampler.update(draws[i], np.linspace(0.0, 1.0, 5))
        sampler.draw(3)
    sampler.end_epoch()
    for draw, copy in zip(draws, copies, strict=True):
        assert same(_copy_arrays(draw), copy), "a receipt changed after the draw"


def _copy_arrays(draw: Draw) -> dict[str, Any]:
    """Return copies of a receipt's arrays."""
    return {name: np.array(getattr(draw, name)) for name in ("indices", "weights", "ratios", "density")}


def _assert_refuses(action: Callable[[], object]) -> None:
    """Raise `AssertionError` unless an action raises `ValueError`."""
    try:
        action()
    except ValueError:
        return
    raise AssertionError("a foreign state was loaded without an error")


COMPONENT_CHECKS: tuple[Callable[[MakeComponents], None], ...] = (
    check_what_is_declared_holds,
    check_lanes_are_shares,
    check_draws_have_the_right_shapes,
    check_ratios_are_those_of_laws,
    check_draws_follow_the_mixture,
    check_inclusion_is_that_of_the_laws,
    check_components_go_on_after_loading,
    check_components_refuse_other_states,
    check_feedback_may_come_late_and_in_any_order,
)
