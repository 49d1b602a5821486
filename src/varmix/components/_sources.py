"""Sources: data streams that are drawn from by number and may end."""

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
    """Constants that hold until the next source is dropped."""

    alive: BoolArray
    space: Points
    target: FloatArray
    table: FloatArray  # rows of ratios of all sources; the last column is the uniform component


@final
class Sources(Family):
    """Family whose atoms are k data sources: component j always draws source j.

    Use it to mix streams, as `varmix.torch.Interleave` does. Call `drop` when a source has ended. Lanes are the
    sources. With the uniform component, which is the target T here, source a gets the share `w_a + w_u T_a` of the
    draws and the weight `T_a / share`.

    After a source is dropped, the target T' is T over the remaining sources. The component of a dropped source becomes
    T' itself, so that there are always k components and no share is lost: source a gets `w_a + (w_u + w_dropped) T'_a`,
    where w_dropped is the sum over the dropped sources. Weights stay below `1 / gamma`.

    `with_uniform` returns a view, and `varmix.vrm` uses it: dropping a source here drops it there, too.

    Parameters
    ----------
    names : int or iterable of str
        Names of the sources, or their number.
    target : mapping or array-like of shape (k,), optional
        Desired positive shares: one number per source, or a mapping from all names to numbers. They are normalised.
        Default: equal shares.

    Raises
    ------
    TypeError
        If names are not strings, or there are none.
    ValueError
        If names are not distinct, or a share is missing or not positive.

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
        self._laws = [self._law(np.ones(self.k, dtype=np.bool_))]  # in a list, so that views share changes

    def _wanted(self, target: Mapping[str, float] | ArrayLike | None) -> Points:
        """Return the space of all sources with the desired target."""
        values = shares_of(target, self.names) if isinstance(target, Mapping) else target
        space = Points(self.k, values)
        if space.target is not None and space.target.min() <= 0.0:
            name = self.names[int(space.target.argmin())]
            raise ValueError(f"Every source needs a share above zero, but {name!r} has none. Leave this source out.")
        return space

    def _law(self, alive: BoolArray) -> _Law:
        """Return the constants for the sources that are left."""
        wanted, k = self._first.target, len(self.names)
        space = self._first if alive.all() else Points(k, alive * (1.0 if wanted is None else wanted))
        target = np.full(k, 1.0 / k) if space.target is None else space.target
        table = np.ones((k, k + 1))  # ones for the uniform component and for components of dropped sources
        table[:, :k][:, alive] = np.diag(1.0 / np.where(alive, target, 1.0))[:, alive]
        return _Law(alive, space, target, table)

    @property
    def has_uniform(self) -> bool:
        """Whether the last component is the target."""
        return self._has_uniform

    @property
    def mixable(self) -> bool:
        """False: the target changes when a source is dropped, but the target of other families does not."""
        return False

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the sources, one per lane."""
        return self._names

    @property
    def alive(self) -> BoolArray:
        """Mask of the sources that were not dropped."""
        return self._laws[0].alive.copy()

    @property
    def space(self) -> Points:  # type: ignore[override]
        """The sources, with the target over those that are left."""
        return self._laws[0].space

    @property
    def masses(self) -> FloatArray:  # type: ignore[override]
        """The target: the desired share of every source at present."""
        return self._laws[0].target.copy()

    @property
    def c(self) -> float:  # type: ignore[override]
        """Largest ratio at present."""
        return float(self._laws[0].table.max())

    def with_uniform(self) -> Family:
        """Return a view of these sources with the target as one more component, without another lane."""
        family = copy(self)
        family.k, family._has_uniform = len(self.names) + 1, True
        return family

    def drop(self, source: int) -> None:
        """Drop a source that has ended.

        Parameters
        ----------
        source : int
            Number of the source.

        Raises
        ------
        ValueError
            If the source was dropped already, or is the last one.
        """
        j = int(as_atoms([source], len(self.names), "source")[0])
        alive = self.alive
        if not alive[j]:
            raise ValueError(f"Source {self.names[j]!r} was dropped already.")
        if alive.sum() == 1:
            raise ValueError(f"Source {self.names[j]!r} is the last one: without it there is nothing to draw.")
        alive[j] = False
        self._laws[0] = self._law(alive)

    def lanes(self, w: FloatArray) -> FloatArray:
        """Return the share of every source: its own weight, plus its part of the weight of the target."""
        alive, _, target, _ = self._laws[0]
        own = np.where(alive, w[: len(alive)], 0.0)
        spread = w[: len(alive)][~alive].sum() + w[len(alive) :].sum()
        return np.asarray(own + spread * target)

    def draw(self, lanes: IntArray, uniforms: Uniforms) -> tuple[IntArray, FloatArray]:
        """Return the lanes, which are the sources, and their ratios."""
        return lanes.copy(), self._rows(lanes)

    def ratios(self, atoms: IntArray) -> FloatArray:
        """Return the present ratios of these sources; a dropped one has target zero and is never drawn."""
        return self._rows(as_atoms(atoms, len(self.names)))

    def _rows(self, atoms: IntArray) -> FloatArray:
        return np.ascontiguousarray(self._laws[0].table[atoms, : self.k])

    def state_dict(self) -> State:
        """Return which sources are left, and the names and target that a loaded checkpoint must match."""
        return self._own() | {"alive": self.alive}

    def load_state_dict(self, state: State) -> None:
        """Check that the state belongs to the same sources, and restore which of them are left."""
        require_entries(state, set(self.state_dict()), "Sources")
        for name, value in self._own().items():
            if not same(state[name], value):
                raise CheckpointError(
                    f"The saved sources are other sources: {name} was {describe_value(state[name])} and is {value!r}. "
                    f"Pass the same sources, in the same order and with the same target."
                )
        alive = restore_array(state["alive"], self._laws[0].alive, "alive")
        if not alive.any():
            raise CheckpointError("None of the saved sources is left: the state is damaged.")
        self._laws[0] = self._law(alive)

    def _own(self) -> State:
        """Return the part of the state that must be equal when it is loaded."""
        target = np.empty(0) if self._first.target is None else self._first.target.copy()
        return super().state_dict() | {"names": list(self.names), "target": target}


def as_names(names: object) -> tuple[str, ...]:
    """Return distinct names as a tuple, or numbers as names if only their number is passed."""
    if isinstance(names, (int, np.integer)):
        return tuple(map(str, range(as_count(names, "names"))))
    found = () if isinstance(names, str) or not isinstance(names, Iterable) else tuple(names)
    if not found or not all(isinstance(name, str) for name in found):
        raise TypeError(f"names must be one or more names of sources, or their number, got {names!r}.")
    if len(set(found)) < len(found):
        raise ValueError(f"The names of sources must be distinct, got {list(found)}.")
    return found


def shares_of(target: Mapping[str, float], names: tuple[str, ...]) -> list[float]:
    """Return the desired shares in the order of the names."""
    if set(target) != set(names):
        raise ValueError(f"target must have a share for every source: expected {list(names)}, got {list(target)}.")
    return [as_number(target[name], f"target[{name!r}]") for name in names]
