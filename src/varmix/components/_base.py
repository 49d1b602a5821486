"""Family, the base class of families of components: k sampling distributions over one space."""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from typing import Any, TypeAlias, TypeGuard

import numpy as np

from varmix._core.allocation import Allocation
from varmix._core.draw import Draw, Rows
from varmix._core.rng import Uniforms
from varmix._core.spaces import Space, Subsets
from varmix._core.state import CheckpointError, describe_value, require_entries
from varmix._core.validation import FloatArray, IntArray, State, same
from varmix._kernels.cost import weigh_draws

Sample: TypeAlias = tuple[IntArray, FloatArray | Rows, FloatArray, FloatArray, IntArray | None, FloatArray]
"""Atoms, ratios (or `group_rows`), density, exact weights, groups or None, and the state of the allocation.

A plain tuple, because a named one takes 0.2 us more, which is a twentieth of a draw."""


class Family(ABC):
    """Base class of families: k sampling distributions p_1, ..., p_k over the same atoms.

    Subclass it, set `k`, `space` and `c`, and define `draw` and `ratios`. Everything else has a default, for the usual
    case: every component is a lane, feedback changes nothing, there is no uniform component yet.

    Densities are relative to the target u of the space, which is uniform by default: the ratios q_j = p_j / u are all
    that is used. A family may change between rounds, as a replay buffer does: `draw` returns atoms with their ratios at
    that moment, and the receipt keeps both.

    Attributes
    ----------
    k : int
        Number of components. It never changes.
    space : Points or Subsets
        The atoms that can be drawn. It may change, as a replay buffer does.
    c : float
        The largest ratio: c of Assumption 1 in the paper (Borsos et al., 2019).
    masses : array of shape (lanes,), or None
        Fraction of the points (or of the target) in each lane, if lanes are disjoint groups of points. Default: None.

    Examples
    --------
    >>> from varmix.components import Points
    >>> class Halves(Family):
    ...     def __init__(self, n):
    ...         self.space, self.k, self.c = Points(2 * (n // 2)), 2, 2.0
    ...
    ...     def draw(self, lanes, uniforms):
    ...         half = self.space.n // 2
    ...         atoms = lanes * half + (uniforms.take(len(lanes)) * half).astype(np.int64)
    ...         return atoms, self.ratios(atoms)
    ...
    ...     def ratios(self, atoms):
    ...         return 2.0 * (atoms[:, None] // (self.space.n // 2) == np.arange(2))
    >>> Halves(10).ratios(np.array([0, 9]))
    array([[2., 0.],
           [0., 2.]])
    """

    k: int
    space: Space
    c: float
    masses: FloatArray | None = None

    def __init_subclass__(cls, **arguments: Any) -> None:  # noqa: ANN401
        """Set the general `sample` in a subclass that overrides `draw` or `lanes`, but not `sample`.

        A fast one that it inherits may not call the methods that it overrides.
        """
        super().__init_subclass__(**arguments)
        own = vars(cls)
        if "sample" not in own and ("draw" in own or "lanes" in own):
            cls.sample = Family.sample  # type: ignore[method-assign]

    @property
    def has_uniform(self) -> bool:
        """Whether the last component is the uniform distribution on the space, or its target. Default: False."""
        return False

    @property
    def reshuffles(self) -> bool:
        """Whether points are drawn without replacement, in shuffled order. Default: False."""
        return False

    @property
    def partly_reshuffles(self) -> bool:
        """Whether only some components draw without replacement, as in a stack of both kinds. Default: False."""
        return False

    @property
    def mixable(self) -> bool:
        """Whether a stack may combine the family with others. Default: True."""
        return True

    @property
    def observes(self) -> bool:
        """Whether feedback changes the family. Default: True if `observe` is overridden.

        If so, processes that share all points exchange all norms, so that the family changes alike in each of them.
        """
        return type(self).observe is not Family.observe

    @property
    def knows_inclusion(self) -> bool:
        """Whether `inclusion` and `point_density` work, which needs known inclusion probabilities. Default: False."""
        return False

    @property
    def names(self) -> Sequence[Hashable]:
        """A name for every lane, such as the label of a group. Default: component 0, component 1, ..."""
        return [f"component {j}" for j in range(self.k)]

    @property
    def group_rows(self) -> Rows | None:
        """Function that computes ratios (m, k) from groups (m,), if the group determines them for good; otherwise None.

        Receipts then keep the groups, and compute ratios only when they are read. Default: None.
        """
        return None

    @property
    def parents(self) -> IntArray | None:
        """The larger group that each lane is a part of, if lanes are parts of groups. Default: None."""
        return None

    def lanes(self, w: FloatArray) -> FloatArray:
        """Return the share of the draws that each lane serves. Default: one lane per component, so `w` itself.

        Parameters
        ----------
        w : array of shape (k,)
            The mixture.

        Returns
        -------
        array
            Shares that sum to one. Their number never changes.
        """
        return w

    @abstractmethod
    def draw(self, lanes: IntArray, uniforms: Uniforms) -> tuple[IntArray, FloatArray]:
        """Draw one atom from the lane of each slot.

        Parameters
        ----------
        lanes : integer array of shape (m,)
            The lane of each slot.
        uniforms : Uniforms
            Random numbers.

        Returns
        -------
        atoms : integer array of shape (m,) or (m, size)
            Points, or sets with their points in ascending order. A new array.
        ratios : array of shape (m, k)
            The ratios of the atoms under every component. A new array.
        """

    @abstractmethod
    def ratios(self, atoms: IntArray) -> FloatArray:
        """Return the present ratios of any atoms under every component.

        Parameters
        ----------
        atoms : integer array of shape (m,) or (m, size)
            Points or sets.

        Returns
        -------
        array of shape (m, k)
            The ratios.
        """

    def sample(
        self,
        mixture: FloatArray,
        m: int,
        batches: int,
        allocation: Allocation,
        allocation_state: FloatArray,
        uniforms: Uniforms,
    ) -> Sample:
        """Draw one or several batches: assign lanes, draw atoms, compute densities and weights.

        `Sampler.draw` calls it. Override it where one compiled call is faster than `draw`; the draws must follow the
        same distribution. A subclass that overrides only `draw` or `lanes` gets this general method back.

        Parameters
        ----------
        mixture : array of shape (k,)
            The mixture.
        m : int
            Number of slots in a batch.
        batches : int
            Number of batches.
        allocation : Allocation
            Assigns lanes to slots.
        allocation_state : array
            Its present state. It must not be changed.
        uniforms : Uniforms
            Random numbers.

        Returns
        -------
        atoms : integer array
            The atoms, one per slot.
        ratios : array of shape (m * batches, k), or function
            Their ratios, or `group_rows`.
        density : array of shape (m * batches,)
            The density w.q of each atom.
        weights : array of shape (m * batches,)
            1 / density.
        groups : integer array of shape (m * batches,), or None
            The group of each atom, where lanes are groups and `ratios` is a function.
        allocation_state : array
            The next state of the allocation.

        Raises
        ------
        ValueError
            If `draw` returned arrays of the wrong shape.
        """
        shares = self.lanes(mixture)
        lanes, allocation_state = allocation.assign_batches(allocation_state, shares, m, batches, uniforms)
        atoms, ratios = self.draw(lanes, uniforms)
        if len(atoms) != len(lanes) or ratios.shape != (len(lanes), len(mixture)):
            raise ValueError(
                f"{self!r} drew {len(atoms)} atoms with ratios {ratios.shape} for {len(lanes)} lanes; expected "
                f"({len(lanes)}, {self.k}). Run varmix.testing.COMPONENT_CHECKS over it."
            )
        density, weights = np.empty(len(lanes)), np.empty(len(lanes))
        weigh_draws(ratios, mixture, density, weights)
        return atoms, ratios, density, weights, None, allocation_state

    def groups_of(self, points: IntArray) -> IntArray:
        """Return the group of each point, where lanes are disjoint groups.

        Parameters
        ----------
        points : integer array of shape (m,)
            Points of the space. They are not checked.

        Returns
        -------
        integer array of shape (m,)
            The present group of each.

        Raises
        ------
        TypeError
            If lanes are not groups.
        """
        raise TypeError(f"{self!r} does not define groups_of: its lanes are not groups of points.")

    def inclusion(self, points: IntArray) -> FloatArray:
        """Return the probability that a set includes a point, for a family over sets that knows it.

        Parameters
        ----------
        points : integer array of shape (m,)
            Points.

        Returns
        -------
        array of shape (m, k)
            The probability of each point under every component.

        Raises
        ------
        TypeError
            If the family does not know it.
        """
        raise TypeError(_explain_no_inclusion(self))

    def point_density(self, sets: IntArray, w: FloatArray) -> FloatArray:
        """Return the density of every point of the sets, for a family that knows it.

        It is n / size times the probability that a set drawn with the mixture w includes the point.

        Parameters
        ----------
        sets : integer array of shape (m, size)
            Sets that were drawn. They are not checked.
        w : array of shape (k,)
            The mixture, or the family's part of it: the result is linear in `w`.

        Returns
        -------
        array of shape (m, size)
            The densities.

        Raises
        ------
        TypeError
            If the family does not know them.
        """
        raise TypeError(_explain_no_inclusion(self))

    def with_uniform(self) -> "Family":
        """Return the family with the uniform component, or the target, appended to its own components.

        Override it where there is a cheaper way: groups express the uniform distribution by their sizes. Default: a
        stack of the family and `Uniform`.

        Returns
        -------
        Family
            A family with `has_uniform` and one component more.
        """
        from varmix.components._stack import Stack  # here, because these modules import this one
        from varmix.components._uniform import Uniform

        return Stack(self, Uniform(self.space))

    def observe(self, draw: Draw, norms: FloatArray) -> None:  # noqa: B027
        """Learn from feedback, in the order in which it arrives. Default: do nothing.

        Parameters
        ----------
        draw : Draw
            The receipt.
        norms : array of shape (m,)
            The loss or gradient norm of each atom.
        """

    def end_epoch(self) -> None:  # noqa: B027
        """Do what has to be done once per epoch. Default: nothing."""

    def state_dict(self) -> State:
        """Return the state, and what identifies the family. Default: its class, its size and its target.

        Returns
        -------
        dict
            Arrays, numbers and strings. What the constructor's arguments determine need not be in it.
        """
        state = {"family": type(self).__name__, "n": self.space.n, "k": self.k}
        if isinstance(self.space, Subsets):
            return state | {"size": self.space.size}
        return state if self.space.target is None else state | {"target": self.space.checksum}

    def load_state_dict(self, state: State) -> None:
        """Load a saved state, or raise an error and change nothing. Default: only check that it fits.

        Parameters
        ----------
        state : dict
            What `state_dict` returned.

        Raises
        ------
        CheckpointError
            If the state is damaged or of another family.
        """
        require_entries(state, set(Family.state_dict(self)), type(self).__name__)
        self.check_identity(state)

    def check_identity(self, state: State) -> None:
        """Raise `CheckpointError` if the state is of another class, size or target.

        Parameters
        ----------
        state : dict
            A saved state that has these entries.

        Raises
        ------
        CheckpointError
            If one of them differs.
        """
        for name, value in Family.state_dict(self).items():  # the entries of the base class only
            if not same(state[name], value):
                what = f"{name} was {describe_value(state[name])} and is {value!r} here"
                raise CheckpointError(
                    f"The saved components do not fit: {'the target differs' if name == 'target' else what}. Rebuild "
                    f"the components as they were when the state was saved."
                )

    def __repr__(self) -> str:
        return f"{type(self).__name__}(n={self.space.n}, k={self.k})"


def is_family(source: object) -> TypeGuard[Family]:
    """Return whether something is a family of components: an instance of a subclass of `Family`."""
    return isinstance(source, Family)


def _explain_no_inclusion(family: Family) -> str:
    return (
        f"{family!r} does not know with what probability a set includes a point. Use varmix.KDpp, or reweight by "
        f"varmix.reweight.exact."
    )
