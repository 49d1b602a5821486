"""Sampler: draw, get feedback, adapt."""

from dataclasses import fields, is_dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from varmix._core.draw import Draw, Ledger, Rows, seal
from varmix._core.evidence import Evidence
from varmix._core.rng import Uniforms
from varmix._core.spaces import Points, Subsets
from varmix._core.state import CheckpointError, check_format, format_stamp, loading, printable, require, restored
from varmix._core.validation import FloatArray, IntArray, State, as_count, same
from varmix._kernels.cost import weigh, weigh_groups
from varmix.allocate import Allocation, assign_batches, stratified
from varmix.components._base import Components, Disjoint, Inclusive, Shortcut
from varmix.learners._base import Learner, load_state, save_state
from varmix.learners._cautious import Cautious
from varmix.reweight import Exact, HorvitzThompson, Reweight, exact


def described(part: object) -> State:
    """Give the class of a part and, for a dataclass, its settings, as a checkpoint gives them back."""
    settings = {}
    if is_dataclass(part):
        settings = {field.name: _plain(getattr(part, field.name)) for field in fields(part)}
    return {"class": type(part).__name__, **settings}


def _plain(value: object) -> object:
    if hasattr(value, "step") and not isinstance(value, type):  # a learner inside another
        return described(value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.copy()
    return [_plain(entry) for entry in value] if isinstance(value, (tuple, list)) else value


def check_parts(components: object, learner: object, allocate: object) -> None:
    """Refuse what is not a part at all, or the class of one; the parts check themselves."""
    check_part("components", components, "draw", "a family such as varmix.Groups(labels)")
    check_part("learner", learner, "step", "a learner such as varmix.BarrierNewton()")
    check_part("allocate", allocate, "assign", "an allocation such as varmix.allocate.stratified")


def check_part(name: str, part: object, method: str, example: str) -> None:
    """Refuse what lacks the method that makes it a part, and classes of parts."""
    if isinstance(part, type) or not hasattr(part, method):
        raise TypeError(f"{name} must be {example}, got {part!r}.")


def check_anchor(components: Components, learner: object) -> None:
    """Look at a few atoms: where the last component is not the target, gamma would bound nothing.

    A family that added it itself says so.
    """
    if hasattr(learner, "gamma") and not getattr(components, "has_anchor", False):
        space = components.space
        size = space.size if isinstance(space, Subsets) else 1
        some = np.unique(np.linspace(0, space.n - size, 16).astype(np.int64))
        some = some[:, None] + np.arange(size) if isinstance(space, Subsets) else some + space.first
        if space.n == 0 or np.abs(components.ratios(some)[:, -1] - 1.0).max() > 1e-6:
            raise ValueError(
                f"The last component of {components!r} must be the uniform law (or the target), which keeps every "
                f"atom drawable. Use varmix.vrm, or varmix.with_uniform(components)."
            )


def as_inclusive(components: Components) -> Inclusive:
    """Refuse to weight points one by one where the sets, or how often they hold a point, are not known."""
    if not (isinstance(components.space, Subsets) and isinstance(components, Inclusive)):
        raise TypeError(
            f"Horvitz-Thompson weights need sets, and how often they hold a point; {components!r} over "
            f"{components.space} has no inclusion probabilities. Use varmix.KDpp, or reweight by varmix.reweight.exact."
        )
    components.inclusion(np.zeros(1, dtype=np.int64))  # a stack asks every family
    return components


class Sampler:
    """Draws atoms from a mixture of components and adapts the mixture to feedback.

    `draw` gives a receipt, `update` takes it back with one norm (of a loss or a gradient) per atom.  Feedback may
    come late, in any order, or not at all.  Not thread-safe.

    Parameters
    ----------
    components
        A family whose last component is the anchor; see `with_uniform`, or use `varmix.vrm`, which adds it.
    learner
        How to adapt.
    rng
        Seed, generator to take a seed from, or None.
    allocate
        How the slots of a batch are given to lanes.
    reweight
        How densities become weights.

    Examples
    --------
    >>> from varmix import BarrierNewton, Groups, with_uniform
    >>> sampler = Sampler(with_uniform(Groups([0, 0, 0, 1])), BarrierNewton(), rng=0)
    >>> draw = sampler.draw(8)
    >>> sampler.update(draw, norms=np.ones(8))
    >>> sampler.mixture.sum().round(12) == 1
    np.True_
    """

    def __init__(
        self,
        components: Components,
        learner: Learner[Any],
        *,
        rng: int | np.random.Generator | None = None,
        allocate: Allocation = stratified,
        reweight: Reweight = exact,
    ) -> None:
        check_parts(components, learner, allocate)
        self._components = components
        self._learner = learner
        self._allocate = allocate
        self.reweight = reweight
        self._uniforms = Uniforms(rng)
        self._learned = learner.init(components.k)
        check_anchor(components, learner)
        self._allocation = allocate.init(len(components.lanes(self._learned.mixture)))
        # By name: asking whether a family keeps to a protocol takes longer than to draw from it.
        shortcut: Shortcut | None = components if hasattr(components, "draw_stratified") else None  # type: ignore[assignment]
        self._shortcut = shortcut.draw_stratified if shortcut is not None and allocate is stratified else None
        self._disjoint: Disjoint | None = components if hasattr(components, "draw_atoms") else None  # type: ignore[assignment]
        self._ledger = Ledger()

    @property
    def components(self) -> Components:
        """The family that is drawn from."""
        return self._components

    @property
    def learner(self) -> Learner[Any]:
        """How the mixture adapts."""
        return self._learner

    @property
    def allocate(self) -> Allocation:
        """How slots are given to lanes."""
        return self._allocate

    @property
    def reweight(self) -> Reweight:
        """How densities become weights; it may be set between draws, to anneal an exponent."""
        return self._reweight

    @reweight.setter
    def reweight(self, reweight: Reweight) -> None:
        check_part("reweight", reweight, "__call__", "a reweighting such as varmix.reweight.exact")
        by_point = isinstance(reweight, HorvitzThompson)
        self._point_density = as_inclusive(self._components).point_density if by_point else None
        self._reweight = reweight
        self._exact = isinstance(reweight, Exact)

    @property
    def mixture(self) -> FloatArray:
        """A copy of the mixture `w` that the next draw is made with."""
        return np.array(self._learned.mixture)

    @property
    def learnt(self) -> FloatArray:
        """A copy of the mixture that the learner steps from: `mixture`, unless it plays another than it has learnt."""
        inner: Any = getattr(self._learned, "learnt", None)
        return np.array(inner.mixture if hasattr(inner, "mixture") else self._learned.mixture)

    @property
    def learnt_gain(self) -> float | None:
        """What the mixture that was learnt would gain over uniform draws, where the learner watches it: `Cautious`."""
        return self._learner.gain(self._learned) if isinstance(self._learner, Cautious) else None

    def draw(self, m: int, batches: int = 1) -> Draw:
        """Draw `m` atoms, or several batches of `m`, and give the receipt.

        Batches of one receipt are made with the same mixture, by the law of as many draws without an update between
        them; each is `m` consecutive slots.  The receipt is one round of feedback, with a norm for every slot: a
        compiled loop can take several minibatches between two updates.

        When it fails, the random numbers and the allocation are as before (not so the cursors of a family that draws
        without replacement, if it had drawn already).

        Examples
        --------
        >>> from varmix import Groups, vrm
        >>> sampler = vrm(Groups([0, 0, 0, 1], replacement=False), rng=0)
        >>> draw = sampler.draw(2, batches=3)
        >>> draw.indices.reshape(3, 2).shape
        (3, 2)
        >>> sampler.update(draw, norms=np.ones(6))
        """
        if type(m) is not int or m < 1:
            m = as_count(m, "m")
        if type(batches) is not int or batches != 1:
            batches = as_count(batches, "batches")
            as_count(m * batches, "m * batches")
        mixture, allocation, groups = self._learned.mixture, self._allocation, None
        ratios: FloatArray | Rows
        mark = self._uniforms.mark()
        try:
            if self._shortcut is not None and batches == 1:
                atoms, ratios, density, weights = self._shortcut(mixture, m, self._uniforms)
            else:
                shares = self._components.lanes(mixture)
                lanes, allocation = self._lanes(shares, m, batches)
                density, weights = np.empty(len(lanes)), np.empty(len(lanes))
                if self._disjoint is not None:
                    atoms, ratios, groups = self._disjoint.draw_atoms(lanes, self._uniforms), self._disjoint.rows, lanes
                    weigh_groups(groups, shares, self._disjoint.masses, density, weights)
                else:
                    atoms, ratios = self._drawn(lanes, len(mixture))
                    weigh(ratios, mixture, density, weights)
            if not self._exact:
                by_point = self._point_density
                weights = self._reweight(density if by_point is None else by_point(atoms, mixture))
        except BaseException:  # a buffer that is empty, say: the next draw must get the same numbers
            self._uniforms.rewind(mark)
            raise
        self._allocation = allocation
        return seal(atoms, weights, ratios, density, self._ledger.issue(), self._ledger.sampler_id, groups)

    def _lanes(self, shares: FloatArray, m: int, batches: int) -> tuple[IntArray, FloatArray]:
        if batches == 1:
            return self._allocate.assign(self._allocation, shares, m, self._uniforms)
        return assign_batches(self._allocate, self._allocation, shares, m, batches, self._uniforms)

    def _drawn(self, lanes: IntArray, k: int) -> tuple[IntArray, FloatArray]:
        atoms, ratios = self._components.draw(lanes, self._uniforms)
        if len(atoms) != len(lanes) or ratios.shape != (len(lanes), k):
            self._refuse_drawn(atoms, ratios, len(lanes))
        return atoms, ratios

    def _refuse_drawn(self, atoms: IntArray, ratios: FloatArray, m: int) -> NoReturn:
        raise ValueError(
            f"{self._components!r} drew {len(atoms)} atoms with ratios {ratios.shape} for {m} lanes; expected "
            f"({m}, {self._components.k}). Run varmix.testing.COMPONENT_CHECKS over it."
        )

    def census(self) -> Draw:
        """Give a receipt for every atom once, for feedback with full information.

        The weighted mean over a census is the mean under the target, exactly; reweighting does not apply.
        """
        space = self._components.space
        if not isinstance(space, Points):
            raise TypeError(
                f"A census needs atoms that can be listed, and {space} has e^{space.log_count:.0f} of them. Use draw."
            )
        if space.n == 0:
            raise ValueError(f"There is nothing to list yet: {self._components!r} is empty. Insert something first.")
        if space.target is None:
            atoms, weights = space.atoms, np.ones(space.n)
        else:
            atoms = np.flatnonzero(space.target)
            weights = space.target[atoms] * len(atoms)
        ratios = self._components.ratios(atoms)
        return seal(atoms, weights, ratios, 1.0 / weights, self._ledger.issue(), self._ledger.sampler_id)

    def update(self, draw: Draw, norms: ArrayLike) -> None:
        """Learn from the norms (of losses or gradients, never squared) of the atoms of `draw`, in its order.

        Feedback that is refused leaves everything as it was.
        """
        self.check(draw)
        evidence = Evidence.from_draw(draw, norms)
        self.learn(draw, evidence, evidence.norms)

    def check(self, draw: Draw) -> None:
        """Raise `ValueError` if another sampler issued the receipt or it was already used."""
        if type(draw) is not Draw:
            raise TypeError(f"update takes the receipt of a draw, then its norms; got {type(draw).__name__} first.")
        self._ledger.check(draw.serial, draw.sampler_id)

    def learn(self, draw: Draw, evidence: Evidence, norms: FloatArray | None = None) -> None:
        """Learn from evidence that was put together elsewhere, for a receipt that was checked: it is then used.

        For feedback that is spread over many processes; `update` does this with what a draw and its norms say.  The
        components see the norms, where there are any.
        """
        learned = self._learner.step(self._learned, evidence)
        if norms is not None:
            self._components.observe(draw, norms)
        self._learned = learned
        self._ledger.use(draw.serial)

    def end_epoch(self) -> None:
        """Tell the components that a pass over the data is over."""
        self._components.end_epoch()

    def state_dict(self) -> State:
        """Return the state needed to resume exactly, as a nested dict of arrays, numbers and strings."""
        return {
            **format_stamp(),
            **self._ledger.state_dict(),
            "settings": self._settings(),
            "uniforms": self._uniforms.state_dict(),
            "allocation": self._allocation.copy(),
            "learner": save_state(self._learned),
            "components": self.components.state_dict(),
        }

    def load_state_dict(self, state: State) -> None:
        """Resume where `state` was saved.

        Build the sampler with the same arguments first: data and settings are not part of the state.

        Raises
        ------
        CheckpointError
            If the state is damaged, of another sampler or of another format.  The sampler is then unchanged.
        """
        with loading("a Sampler"):
            check_format(state, "a Sampler")
            require(state, set(self.state_dict()), "a Sampler")
            self._check_settings(state["settings"])
            ledger = Ledger.loaded(state)
            uniforms = Uniforms(0)
            uniforms.load_state_dict(state["uniforms"])
            learned = load_state(self.learner, self.components.k, state["learner"])
            allocation = restored(state["allocation"], self._allocation, "allocation")
            if hasattr(self._allocate, "check_state"):
                self._allocate.check_state(allocation)
            self.components.load_state_dict(state["components"])  # the last that can fail, and all or nothing itself
        self._uniforms, self._ledger, self._learned, self._allocation = uniforms, ledger, learned, allocation

    def _check_settings(self, saved: object) -> None:
        settings = self._settings()
        require(saved, set(settings), "a Sampler's settings")
        assert isinstance(saved, dict)
        for name, value in settings.items():
            if not same(saved[name], value):
                raise CheckpointError(
                    f"The saved sampler had {name} = {printable(saved[name])}, this one has {value}. "
                    f"Build the sampler as it was when it was saved."
                )

    def _settings(self) -> dict[str, State]:
        parts = {"learner": self.learner, "allocate": self.allocate, "reweight": self.reweight}
        return {name: described(part) for name, part in parts.items()}

    def __repr__(self) -> str:
        return f"Sampler({self.components!r}, {self.learner!r}, allocate={self.allocate!r})"
