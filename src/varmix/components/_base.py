"""Components: a family of k sampling distributions over one space."""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from typing import Protocol, runtime_checkable

from varmix._core.draw import Draw, Rows
from varmix._core.rng import Uniforms
from varmix._core.spaces import Space, Subsets
from varmix._core.state import CheckpointError, describe_value, require_entries
from varmix._core.validation import FloatArray, IntArray, State, same


class Components(Protocol):
    """What a sampler needs of k distributions p_1, ..., p_k.

    The last one is the uniform component: uniform on the space, or its target.  Only density ratios q_j = p_j / u are
    ever asked for.  A family may change between rounds (a replay buffer does): `draw` gives atoms together with their
    ratios at that moment, and the receipt keeps both.
    """

    @property
    def k(self) -> int:
        """Number of components; it never changes."""
        ...

    @property
    def space(self) -> Space:
        """What can be drawn; it may grow."""
        ...

    @property
    def c(self) -> float:
        """The largest ratio: Assumption 1 of the paper."""
        ...

    @property
    def has_uniform(self) -> bool:
        """Whether the last component is the uniform law of the space, or its target."""
        ...

    @property
    def reshuffles(self) -> bool:
        """Whether points are drawn without replacement, in shuffled order."""
        ...

    @property
    def names(self) -> Sequence[Hashable]:
        """A name for every lane, for people: the labels of groups, for example."""
        ...

    def lanes(self, w: FloatArray) -> FloatArray:
        """Give the share of the draws that each lane serves under the mixture `w`; their number is fixed."""
        ...

    def draw(self, lanes: IntArray, uniforms: Uniforms) -> tuple[IntArray, FloatArray]:
        """Draw one atom from the lane of each slot.

        (m,) lanes give (m,) points or (m, size) subsets, and their (m, k) ratios under every component: new arrays.
        """
        ...

    def ratios(self, atoms: IntArray) -> FloatArray:
        """Give the present ratios of any atoms under every component, (m, k)."""
        ...

    def observe(self, draw: Draw, norms: FloatArray) -> None:
        """See feedback, in the order in which it arrives; fixed families ignore it."""
        ...

    def end_epoch(self) -> None:
        """Do what is due once per pass over the data; usually nothing."""
        ...

    def state_dict(self) -> State:
        """Give what cannot be rebuilt from the constructor's arguments."""
        ...

    def load_state_dict(self, state: State) -> None:
        """Check a saved state and take it over, or refuse it and stay as before."""
        ...


@runtime_checkable
class Inclusive(Protocol):
    """A family over subsets that knows how likely a set is to include a point."""

    def inclusion(self, points: IntArray) -> FloatArray:
        """Give the probability pi_j that a set holds a point, (m, k): for these points, under every component."""
        ...

    def point_density(self, sets: IntArray, w: FloatArray) -> FloatArray:
        """Give n / size times w.pi for the points of sets that were drawn, (m, size), unchecked; it is linear in w."""
        ...


class Shortcut(Protocol):
    """A family that makes a stratified draw in one compiled call."""

    def draw_stratified(
        self, mixture: FloatArray, m: int, uniforms: Uniforms
    ) -> tuple[IntArray, FloatArray, FloatArray, FloatArray]:
        """Give atoms, ratios, density and exact weights."""
        ...


class Disjoint(Protocol):
    """A family whose lanes are disjoint groups: which one an atom is in says all about its ratios."""

    masses: FloatArray

    @property
    def rows(self) -> Rows:
        """From groups to their rows of ratios, the same at any time."""
        ...

    def draw_atoms(self, lanes: IntArray, uniforms: Uniforms) -> IntArray:
        """Draw one atom from the lane of each slot."""
        ...


class Family(ABC):
    """The usual case: lanes are components, nothing is learned, nothing changes.

    A subclass sets `k`, `space` and `c`, and says how to draw and what the ratios are.
    """

    k: int
    space: Space
    c: float
    #: The part of the points, or of the target, in each lane, where lanes are disjoint groups of points; else None.
    masses: FloatArray | None = None

    @property
    def has_uniform(self) -> bool:
        """Whether the last component is the uniform law of the space, or its target. Default: False."""
        return False

    @property
    def reshuffles(self) -> bool:
        """Whether points are drawn without replacement, in shuffled order. Default: False."""
        return False

    @property
    def names(self) -> Sequence[Hashable]:
        """A name for every lane. Default: component 0, component 1, ..."""
        return [f"component {j}" for j in range(self.k)]

    def lanes(self, w: FloatArray) -> FloatArray:
        """One lane per component."""
        return w

    @abstractmethod
    def draw(self, lanes: IntArray, uniforms: Uniforms) -> tuple[IntArray, FloatArray]:
        """Draw one atom from the lane of each slot, and give its ratios with it."""

    @abstractmethod
    def ratios(self, atoms: IntArray) -> FloatArray:
        """Give the ratios of these atoms under every component, (m, k)."""

    @property
    def observes(self) -> bool:
        """Whether feedback changes the family: then processes that share it must all see every norm."""
        return type(self).observe is not Family.observe

    def observe(self, draw: Draw, norms: FloatArray) -> None:  # noqa: B027
        """Learn nothing from feedback."""

    def end_epoch(self) -> None:  # noqa: B027
        """Do nothing at the end of an epoch."""

    def state_dict(self) -> State:
        """Return what a checkpoint is compared with."""
        state = {"family": type(self).__name__, "n": self.space.n, "k": self.k}
        if isinstance(self.space, Subsets):
            return state | {"size": self.space.size}
        return state if self.space.target is None else state | {"target": self.space.checksum}

    def load_state_dict(self, state: State) -> None:
        """Check that the state is of a family of this kind and shape; there is nothing else to load."""
        require_entries(state, set(Family.state_dict(self)), type(self).__name__)
        self.check_shape(state)

    def check_shape(self, state: State) -> None:
        """Refuse the state of another kind or shape of family."""
        for name, value in Family.state_dict(self).items():
            if not same(state[name], value):
                what = (
                    "the target" if name == "target" else f"{name} was {describe_value(state[name])} and is {value!r}"
                )
                raise CheckpointError(
                    f"The saved components do not fit: {what} {'differs' if name == 'target' else 'here'}. "
                    f"Rebuild the components as they were when the state was saved."
                )

    def __repr__(self) -> str:
        return f"{type(self).__name__}(n={self.space.n}, k={self.k})"


def is_family(source: object) -> bool:
    """Whether something is a family of components: an object with lanes and density ratios."""
    return not isinstance(source, type) and hasattr(source, "ratios") and hasattr(source, "lanes")
