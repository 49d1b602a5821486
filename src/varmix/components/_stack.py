"""Stack: several families over one space as one; with_uniform: the uniform component behind them."""

from collections.abc import Hashable, Sequence
from typing import Any, final

import numpy as np

from varmix._core.draw import Draw
from varmix._core.rng import Uniforms
from varmix._core.spaces import Space, refuse_window
from varmix._core.state import require_entries
from varmix._core.validation import FloatArray, IntArray, State, same
from varmix.components._base import Components, Family, Inclusive, is_family
from varmix.components._groups import Groups
from varmix.components._sources import Sources
from varmix.components._uniform import Uniform


@final
class Stack(Family):
    """The components of several families, one after the other.  All must share one space.

    Examples
    --------
    >>> from varmix import Dense
    >>> family = Stack(Dense([[0.75], [0.25]]), Uniform(2))
    >>> family.ratios(np.array([0, 1]))
    array([[1.5, 1. ],
           [0.5, 1. ]])
    """

    def __init__(self, *families: Components) -> None:
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
            _refuse_sources(families)
        for other in families[1:]:
            if other.space != families[0].space:
                raise ValueError(
                    f"All families of a stack must share one space, got {families[0].space} and {other.space}."
                )
        self.families: Sequence[Components] = families
        self.k = sum(family.k for family in families)
        self._columns = _compute_offsets([family.k for family in families])
        self._lanes = _compute_offsets([len(family.lanes(np.full(family.k, 1.0 / family.k))) for family in families])

    @property
    def space(self) -> Space:  # type: ignore[override]
        """What the first family draws from now."""
        return self.families[0].space

    @property
    def has_uniform(self) -> bool:
        """Whether the last family ends with the uniform component."""
        return self.families[-1].has_uniform

    @property
    def reshuffles(self) -> bool:
        """Whether any of the families draws without replacement."""
        return any(family.reshuffles for family in self.families)

    @property
    def names(self) -> list[Hashable]:
        """The names of all lanes; where two families share a name, all are numbered by family."""
        plain = [name for family in self.families for name in family.names]
        if len(set(plain)) == len(plain):
            return plain
        return [f"{i}: {name}" for i, family in enumerate(self.families) for name in family.names]

    @property
    def c(self) -> float:  # type: ignore[override]
        """The largest ratio of any family."""
        return max(family.c for family in self.families)

    def lanes(self, w: FloatArray) -> FloatArray:
        """Give the lanes of all families; each maps its own part of `w`."""
        return np.concatenate([family.lanes(w[part]) for family, part in self._parts(self._columns)])

    def draw(self, lanes: IntArray, uniforms: Uniforms) -> tuple[IntArray, FloatArray]:
        """Let every family draw the slots of its own lanes; the others add their ratios."""
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
        """Put the columns of all families side by side."""
        return np.concatenate([family.ratios(atoms) for family in self.families], axis=1)

    def inclusion(self, points: IntArray) -> FloatArray:
        """Put the inclusion probabilities of all families side by side; each must know its own."""
        return np.concatenate([_require_inclusive(family).inclusion(points) for family in self.families], axis=1)

    def point_density(self, sets: IntArray, w: FloatArray) -> FloatArray:
        """Add up what the families say of their own parts of `w`."""
        density = np.zeros(sets.shape)
        for family, part in self._parts(self._columns):
            density += _require_inclusive(family).point_density(sets, w[part])
        return density

    @property
    def observes(self) -> bool:
        """Whether feedback changes any of the families; one that does not say so may."""
        return any(getattr(family, "observes", True) for family in self.families)

    def observe(self, draw: Draw, norms: FloatArray) -> None:
        """Pass feedback on to every family."""
        for family in self.families:
            family.observe(draw, norms)

    def end_epoch(self) -> None:
        """Pass the end of an epoch on to every family."""
        for family in self.families:
            family.end_epoch()

    def state_dict(self) -> State:
        """Give the states of all families."""
        return {"families": {str(i): family.state_dict() for i, family in enumerate(self.families)}}

    def load_state_dict(self, state: State) -> None:
        """Load every family, or none of them."""
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

    def _parts(self, offsets: IntArray) -> list[tuple[Components, slice]]:
        return [(family, slice(int(offsets[i]), int(offsets[i + 1]))) for i, family in enumerate(self.families)]


def check_family(family: object) -> None:
    """Refuse what is no family at all, such as labels that were meant to go into one."""
    if not is_family(family):
        raise TypeError(
            f"Components must be a family such as varmix.Groups(labels), got {type(family).__name__}; "
            f"varmix.Sampler takes labels as they are."
        )


def _refuse_sources(families: Sequence[Components]) -> None:
    for family in families:
        if isinstance(family, Sources):
            raise TypeError(
                f"{family!r} cannot be mixed with other families: when a source ends its target changes, and theirs "
                f"does not. varmix.vrm(sources) has the target as its last component already."
            )


def _require_inclusive(family: Components) -> Inclusive:
    if not isinstance(family, Inclusive):
        raise TypeError(f"{family!r} of the stack does not know with what probability a set holds a point.")
    return family


def _compute_offsets(sizes: list[int]) -> IntArray:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _are_the_same(family: Components, other: Components) -> bool:
    """Whether two families are one object, or groups of the same points with the same settings."""
    if family is other:
        return True
    if not (isinstance(family, Groups) and isinstance(other, Groups)):
        return False
    alike = family.replacement == other.replacement and family.resplit == other.resplit
    return alike and family.space == other.space and same(family.description(), other.description())


def with_uniform(*families: Components) -> Components:
    """Return the families as one, with the uniform law (or the target) as the last component.

    It is added where it is missing, and never twice.  A family that knows a cheaper way takes it: `Groups` express the
    uniform law by the group sizes and add a column but no lane.

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
    return family if family.has_uniform else add_uniform(family)


def add_uniform(family: Any) -> Components:  # noqa: ANN401 - a family, perhaps with a method of its own for this
    """Return the family with the uniform component behind its own."""
    if hasattr(type(family), "with_uniform"):
        return family.with_uniform()  # type: ignore[no-any-return]
    return Stack(family, Uniform(family.space))


def _uniform_last(families: Sequence[Components]) -> tuple[Components, ...]:
    """Unpack stacks, and put the first uniform family last without the others."""
    flat: list[Components] = []
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
                f"{family!r} has the uniform component already, and it must be the last of all. Pass the family "
                f"without it: the sampler adds it behind all families."
            )
    return (*others, *uniforms[:1])
