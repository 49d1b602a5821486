"""Stack, which joins several families into one, and with_uniform, which adds the uniform component."""

from collections.abc import Hashable, Sequence
from typing import final

import numpy as np

from varmix._core.draw import Draw
from varmix._core.rng import Uniforms
from varmix._core.spaces import Space, refuse_window
from varmix._core.state import require_entries
from varmix._core.validation import FloatArray, IntArray, State, same
from varmix.components._base import Family, is_family
from varmix.components._groups import Groups
from varmix.components._uniform import Uniform


@final
class Stack(Family):
    """The components of several families over the same space, one after the other.

    Parameters
    ----------
    *families : Family
        At least one. `Sampler(a, b)` stacks families by itself.

    Attributes
    ----------
    families : sequence of Family
        The families, in order.

    Raises
    ------
    TypeError
        If an argument is not a family, or is a family that cannot be mixed with others.
    ValueError
        If no family is passed, a family is passed twice, or the families have different spaces.

    Examples
    --------
    >>> from varmix import Dense
    >>> family = Stack(Dense([[0.75], [0.25]]), Uniform(2))
    >>> family.ratios(np.array([0, 1]))
    array([[1.5, 1. ],
           [0.5, 1. ]])
    """

    def __init__(self, *families: Family) -> None:
        if not families:
            raise ValueError("Stack needs at least one family, got none.")
        for i, family in enumerate(families):
            check_family(family)
            if any(_are_the_same(family, other) for other in families[:i]):
                raise ValueError(
                    f"{family!r} was passed twice. Pass every family once: the mixture learns its weight by itself."
                )
        if len(families) > 1:
            refuse_window(families[0].space, "Stack")
            _check_mixable(families)
        for other in families[1:]:
            if other.space != families[0].space:
                raise ValueError(
                    f"All families of a stack must share one space, got {families[0].space} and {other.space}."
                )
        self.families: Sequence[Family] = families
        self.k = sum(family.k for family in families)
        self._columns = _compute_offsets([family.k for family in families])
        self._lanes = _compute_offsets([len(family.lanes(np.full(family.k, 1.0 / family.k))) for family in families])

    @property
    def space(self) -> Space:  # type: ignore[override]
        """Present space of the first family, which all families share."""
        return self.families[0].space

    @property
    def has_uniform(self) -> bool:
        """Whether the last family ends with the uniform component."""
        return self.families[-1].has_uniform

    @property
    def reshuffles(self) -> bool:
        """Whether all families draw without replacement."""
        return all(family.reshuffles for family in self.families)

    @property
    def partly_reshuffles(self) -> bool:
        """Whether some of the families draw without replacement, but not all."""
        return not self.reshuffles and any(family.reshuffles or family.partly_reshuffles for family in self.families)

    @property
    def names(self) -> list[Hashable]:
        """Names of all lanes. If two families share a name, every name gets the number of its family."""
        plain = [name for family in self.families for name in family.names]
        if len(set(plain)) == len(plain):
            return plain
        return [f"{i}: {name}" for i, family in enumerate(self.families) for name in family.names]

    @property
    def c(self) -> float:  # type: ignore[override]
        """The largest ratio of any family."""
        return max(family.c for family in self.families)

    def lanes(self, w: FloatArray) -> FloatArray:
        """Return the shares of the lanes of all families; each maps its own part of `w`."""
        return np.concatenate([family.lanes(w[part]) for family, part in self._parts(self._columns)])

    def draw(self, lanes: IntArray, uniforms: Uniforms) -> tuple[IntArray, FloatArray]:
        """Draw the slots of every lane from its family, and compute the ratios under all families."""
        atoms: IntArray | None = None
        for family, part in self._parts(self._lanes):
            mine = np.flatnonzero((lanes >= part.start) & (lanes < part.stop))
            if len(mine):
                drawn, _ = family.draw(lanes[mine] - part.start, uniforms)
                if atoms is None:
                    atoms = np.empty((len(lanes), *drawn.shape[1:]), dtype=np.int64)
                atoms[mine] = drawn
        assert atoms is not None  # every lane belongs to a family
        return atoms, self.ratios(atoms)

    def ratios(self, atoms: IntArray) -> FloatArray:
        """Return the columns of all families side by side."""
        return np.concatenate([family.ratios(atoms) for family in self.families], axis=1)

    def inclusion(self, points: IntArray) -> FloatArray:
        """Return the inclusion probabilities of all families side by side."""
        return np.concatenate([family.inclusion(points) for family in self.families], axis=1)

    def point_density(self, sets: IntArray, w: FloatArray) -> FloatArray:
        """Return the sum of the densities of all families; each uses its own part of `w`."""
        density = np.zeros(sets.shape)
        for family, part in self._parts(self._columns):
            density += family.point_density(sets, w[part])
        return density

    @property
    def knows_inclusion(self) -> bool:
        """Whether all families know their inclusion probabilities."""
        return all(family.knows_inclusion for family in self.families)

    @property
    def mixable(self) -> bool:
        """Whether all families can be mixed with others."""
        return all(family.mixable for family in self.families)

    @property
    def observes(self) -> bool:
        """Whether feedback changes any of the families."""
        return any(family.observes for family in self.families)

    def observe(self, draw: Draw, norms: FloatArray) -> None:
        """Pass feedback on to every family."""
        for family in self.families:
            family.observe(draw, norms)

    def end_epoch(self) -> None:
        """Pass the end of an epoch on to every family."""
        for family in self.families:
            family.end_epoch()

    def state_dict(self) -> State:
        """Return the states of all families."""
        return {"families": {str(i): family.state_dict() for i, family in enumerate(self.families)}}

    def load_state_dict(self, state: State) -> None:
        """Load the states of all families. If one cannot be loaded, all families stay unchanged."""
        require_entries(state, {"families"}, "Stack")
        require_entries(state["families"], {str(i) for i in range(len(self.families))}, "Stack")
        before = self.state_dict()["families"]
        for i, family in enumerate(self.families):
            try:
                family.load_state_dict(state["families"][str(i)])
            except Exception:
                for j in range(i):
                    self.families[j].load_state_dict(before[str(j)])
                raise

    def _parts(self, offsets: IntArray) -> list[tuple[Family, slice]]:
        return [(family, slice(int(offsets[i]), int(offsets[i + 1]))) for i, family in enumerate(self.families)]


def check_family(family: object) -> None:
    """Raise `TypeError` for anything that is not a family, such as bare labels."""
    if not is_family(family):
        raise TypeError(
            f"Components must be a family such as varmix.Groups(labels), got {type(family).__name__}. Your own "
            f"families must subclass varmix.components.Family. To sample by labels, pass them to varmix.Sampler alone."
        )


def _check_mixable(families: Sequence[Family]) -> None:
    for family in families:
        if not family.mixable:
            raise TypeError(
                f"{family!r} cannot be mixed with other families: its target changes, for example when a source ends, "
                f"and theirs does not. Pass it alone, as in varmix.vrm(sources), which adds the target as a component."
            )


def _compute_offsets(sizes: list[int]) -> IntArray:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _are_the_same(family: Family, other: Family) -> bool:
    """Return whether two families are one object, or the same groups with the same settings."""
    if family is other:
        return True
    if not (isinstance(family, Groups) and isinstance(other, Groups)):
        return False
    alike = family.replacement == other.replacement and family.resplit == other.resplit
    return alike and family.space == other.space and same(family.identity(), other.identity())


def with_uniform(*families: Family) -> Family:
    """Return families as one, with the uniform component (or the target) as the last component.

    The uniform component is added only if it is missing.

    Parameters
    ----------
    *families : Family
        At least one family, all over the same space.

    Returns
    -------
    Family
        The family itself if there is only one, otherwise a stack of all.

    Raises
    ------
    TypeError
        If an argument is not a family.
    ValueError
        If a family has the uniform component already and is not the last.

    Examples
    --------
    >>> from varmix import Groups
    >>> with_uniform(Groups(["a", "b", "b"])).ratios(np.array([0, 1]))
    array([[3. , 0. , 1. ],
           [0. , 1.5, 1. ]])
    >>> with_uniform(Uniform(3), Groups(["a", "b", "b"]), Uniform(3)).k
    3
    """
    if len(families) > 1:
        families = _uniform_last(families)
    family = families[0] if len(families) == 1 else Stack(*families)
    check_family(family)
    return family if family.has_uniform else family.with_uniform()


def _uniform_last(families: Sequence[Family]) -> tuple[Family, ...]:
    """Unpack stacks, and move the first uniform family to the end; other uniform families are left out."""
    flat: list[Family] = []
    for family in families:
        flat.extend(family.families if isinstance(family, Stack) else [family])
    others = [family for family in flat if not isinstance(family, Uniform)]
    uniforms = [family for family in flat if isinstance(family, Uniform)]
    if not others:
        return tuple(uniforms[:1])
    for family in others[:-1] if not uniforms else others:
        check_family(family)
        if family.has_uniform:
            raise ValueError(
                f"{family!r} has the uniform component already, which must come after all families. Pass the family "
                f"without it: the sampler adds it at the end."
            )
    return (*others, *uniforms[:1])
