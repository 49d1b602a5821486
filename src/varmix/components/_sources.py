"""Sources: streams that are drawn from by number, and that may end."""

from collections.abc import Iterable, Mapping
from copy import copy
from typing import NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike

from varmix._core.rng import Uniforms
from varmix._core.spaces import Points
from varmix._core.state import CheckpointError, describe_value, require_entries, restore_array
from varmix._core.validation import BoolArray, FloatArray, IntArray, State, as_atoms, as_count, as_number, same
from varmix.components._base import Family


class _Law(NamedTuple):
    """What holds while the same sources are there."""

    alive: BoolArray
    space: Points
    target: FloatArray
    table: FloatArray  # the rows of ratios of all sources, the uniform component's column last


@final
class Sources(Family):
    """The atoms are k sources themselves, and component j always draws source j.

    The uniform component, which `with_uniform` adds, is the target T.  The lanes are the sources: source a serves the
    share `pi_a = w_a + w_u T_a`, and its weight is `T_a / pi_a`.

    A source that has ended is dropped.  The target is then T', which is T over the sources that are left, and a
    component whose source is gone becomes T' itself: `pi_a = w_a + (w_u + sum of w_j that are gone) T'_a`.  So
    there are k laws at any time, no share is lost, and weights stay below `1 / gamma`.

    `with_uniform` (and so `varmix.vrm`) gives a view: what is dropped here is dropped there.

    Parameters
    ----------
    names
        The names of the sources, or how many there are.
    target
        The wanted shares, positive: one number per source, or a mapping from all names.  They are normalised; equal
        unless told.

    Examples
    --------
    >>> family = Sources(["web", "code", "books"], target={"web": 2, "code": 1, "books": 1})
    >>> family.ratios(np.array([0, 1]))
    array([[2., 0., 0.],
           [0., 4., 0.]])
    >>> family.drop(0)
    >>> family.space.target
    array([0. , 0.5, 0.5])
    >>> family.lanes(np.array([0.5, 0.3, 0.2]))
    array([0.  , 0.55, 0.45])
    """

    def __init__(self, names: int | Iterable[str], target: Mapping[str, float] | ArrayLike | None = None) -> None:
        self._names = as_names(names)
        self.k = len(self._names)
        self._has_uniform = False
        self._first = self._wanted(target)
        self._laws = [self._law(np.ones(self.k, dtype=np.bool_))]  # in a list, so that views share it

    def _wanted(self, target: Mapping[str, float] | ArrayLike | None) -> Points:
        values = shares_of(target, self.names) if isinstance(target, Mapping) else target
        space = Points(self.k, values)
        if space.target is not None and space.target.min() <= 0.0:
            name = self.names[int(space.target.argmin())]
            raise ValueError(f"Every source needs a share above zero, and {name!r} has none. Leave that source out.")
        return space

    def _law(self, alive: BoolArray) -> _Law:
        wanted, k = self._first.target, len(self.names)
        space = self._first if alive.all() else Points(k, alive * (1.0 if wanted is None else wanted))
        target = np.full(k, 1.0 / k) if space.target is None else space.target
        table = np.ones((k, k + 1))  # as the uniform component is, so is the component of a source that is gone
        table[:, :k][:, alive] = np.diag(1.0 / np.where(alive, target, 1.0))[:, alive]
        return _Law(alive, space, target, table)

    @property
    def has_uniform(self) -> bool:
        """Whether the last component is the target."""
        return self._has_uniform

    @property
    def mixable(self) -> bool:
        """False: when a source ends the target changes, and that of other families does not."""
        return False

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the sources, one per lane."""
        return self._names

    @property
    def alive(self) -> BoolArray:
        """Which sources have not ended."""
        return self._laws[0].alive.copy()

    @property
    def space(self) -> Points:  # type: ignore[override]
        """The sources, with the target over those that are left."""
        return self._laws[0].space

    @property
    def masses(self) -> FloatArray:  # type: ignore[override]
        """The target: the share of every source that is wanted now."""
        return self._laws[0].target.copy()

    @property
    def c(self) -> float:  # type: ignore[override]
        """The largest ratio at present."""
        return float(self._laws[0].table.max())

    def with_uniform(self) -> Family:
        """Give the same sources with the target as one more component, and no more lanes."""
        family = copy(self)
        family.k, family._has_uniform = len(self.names) + 1, True
        return family

    def drop(self, source: int) -> None:
        """Take out a source that has ended; the last one cannot be dropped."""
        j = int(as_atoms([source], len(self.names), "source")[0])
        alive = self.alive
        if not alive[j]:
            raise ValueError(f"Source {self.names[j]!r} has been dropped already.")
        if alive.sum() == 1:
            raise ValueError(f"Source {self.names[j]!r} is the last one: without it there is nothing to draw. Stop.")
        alive[j] = False
        self._laws[0] = self._law(alive)

    def lanes(self, w: FloatArray) -> FloatArray:
        """Give the share of every source: its own weight, and its part of what falls to the target."""
        alive, _, target, _ = self._laws[0]
        own = np.where(alive, w[: len(alive)], 0.0)
        spread = w[: len(alive)][~alive].sum() + w[len(alive) :].sum()
        return np.asarray(own + spread * target)

    def draw(self, lanes: IntArray, uniforms: Uniforms) -> tuple[IntArray, FloatArray]:
        """Give the lanes themselves: they are the sources."""
        return lanes.copy(), self._rows(lanes)

    def ratios(self, atoms: IntArray) -> FloatArray:
        """Give the present ratios of these sources; one that has ended has target zero, and is never drawn."""
        return self._rows(as_atoms(atoms, len(self.names)))

    def _rows(self, atoms: IntArray) -> FloatArray:
        return np.ascontiguousarray(self._laws[0].table[atoms, : self.k])

    def state_dict(self) -> State:
        """Give which sources are left, and what a checkpoint is compared with."""
        return self._own() | {"alive": self.alive}

    def load_state_dict(self, state: State) -> None:
        """Check that these are the sources that were saved, and drop and take up what was so then."""
        require_entries(state, set(self.state_dict()), "Sources")
        for name, value in self._own().items():
            if not same(state[name], value):
                raise CheckpointError(
                    f"The saved sources do not fit: {name} was {describe_value(state[name])} and is {value!r}. Name "
                    f"the same "
                    f"sources, in the same order and with the same target."
                )
        alive = restore_array(state["alive"], self._laws[0].alive, "alive")
        if not alive.any():
            raise CheckpointError("Of the saved sources none is left: the checkpoint is damaged.")
        self._laws[0] = self._law(alive)

    def _own(self) -> State:
        target = np.empty(0) if self._first.target is None else self._first.target.copy()
        return super().state_dict() | {"names": list(self.names), "target": target}


def as_names(names: object) -> tuple[str, ...]:
    """Check distinct names, or number so many sources from zero."""
    if isinstance(names, (int, np.integer)):
        return tuple(map(str, range(as_count(names, "names"))))
    found = () if isinstance(names, str) or not isinstance(names, Iterable) else tuple(names)
    if not found or not all(isinstance(name, str) for name in found):
        raise TypeError(f"names must be the names of the sources, at least one, or their number; got {names!r}.")
    if len(set(found)) < len(found):
        raise ValueError(f"Every source needs a name of its own, got {list(found)}.")
    return found


def shares_of(target: Mapping[str, float], names: tuple[str, ...]) -> list[float]:
    """Give the wanted shares in the order of the names, which must be the same."""
    if set(target) != set(names):
        raise ValueError(f"target must have a share for every source: expected {list(names)}, got {list(target)}.")
    return [as_number(target[name], f"target[{name!r}]") for name in names]
