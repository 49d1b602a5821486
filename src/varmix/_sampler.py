"""Sampler: the front door of varmix.  Draw a batch, report what it cost, and the mixture adapts.

`resolve` is the one place that turns what users pass (labels, families of components, a learner or none) into the
parts of a sampler.  Loaders, solvers, estimators and presets all build their samplers through it.
"""

import textwrap
from collections.abc import Hashable, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Literal, NamedTuple, NoReturn, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike

from varmix._core.bars import format_bars
from varmix._core.draw import Draw, Ledger, Rows, seal_draw
from varmix._core.evidence import Evidence
from varmix._core.rng import Uniforms
from varmix._core.spaces import Points, Subsets
from varmix._core.state import (
    CheckpointError,
    check_format,
    format_stamp,
    make_printable,
    require_entries,
    restore_array,
    wrap_load_errors,
)
from varmix._core.validation import FloatArray, IntArray, State, as_count, same
from varmix._kernels.cost import weigh_draws, weigh_groups
from varmix.allocate import Allocation, Shuffled, assign_batches, round_robin, stratified
from varmix.components import Groups, Stack, with_uniform
from varmix.components._base import Components, Disjoint, Inclusive, Shortcut, is_family
from varmix.components._stack import add_uniform
from varmix.history import History
from varmix.learners import BarrierNewton, Cautious, Fixed, Learner, load_state, save_state
from varmix.meter import GainMeter, Interval, Moments
from varmix.reweight import Exact, HorvitzThompson, Reweight, exact

Source: TypeAlias = Components | ArrayLike
"""What a sampler draws from: a family of components, or one label per point."""

MAX_BARS = 10  # that `print(sampler)` shows

SOURCES = "labels, one per point, or a family of components such as varmix.Groups(labels)"


class Parts(NamedTuple):
    """The parts of a sampler, as `resolve` returns them."""

    components: Components
    learner: Learner[Any]
    allocate: Allocation


def resolve(
    sources: tuple[Any, ...],
    learner: Learner[Any] | None = None,
    gamma: float | None = None,
    allocate: Allocation | None = None,
) -> Parts:
    """Turn what a user passes into the parts of a sampler.

    Labels become groups without replacement, several families a stack, and the uniform component is put behind them
    where it is missing.  Only `Fixed`, which keeps a mixture that somebody chose, may do without it.

    Examples
    --------
    >>> components, learner, allocate = resolve((["cat", "dog", "dog"],))
    >>> components.replacement, type(learner).__name__, allocate
    (False, 'Cautious', Shuffled(period=3))
    >>> resolve((Groups([0, 1, 1]),)).allocate
    stratified
    """
    if gamma is not None and learner is not None:
        raise TypeError("gamma belongs to the learner: pass gamma or a learner, not both.")
    families = _as_families(sources)
    cautious = learner is None and len(families) == 1 and isinstance(families[0], Groups) and families[0].reshuffles
    if learner is None:
        learner = BarrierNewton() if gamma is None else BarrierNewton(gamma=gamma)
        learner = Cautious(learner) if cautious else learner
    _check_part("learner", learner, "step", "a learner such as varmix.learners.BarrierNewton()")
    components = _join(families, learner)
    if allocate is None:
        allocate = _default_allocation(components, learner)
    _check_part("allocate", allocate, "assign", "an allocation such as varmix.allocate.stratified")
    return Parts(components, learner, allocate)


def _as_families(sources: tuple[Any, ...]) -> list[Components]:
    """Return every source as a family."""
    if not sources:
        raise TypeError(f"Pass {SOURCES}.")
    families = [as_family(source) for source in sources]
    if sum(not is_family(source) for source in sources) > 1:
        raise TypeError(
            "Pass labels once. For several groupings of the same points pass families that draw with "
            "replacement, such as varmix.Groups(a), varmix.Groups(b), or join both into one label per point."
        )
    return families


def as_family(source: Source, *, resplit: Literal["norms"] | None = None) -> Components:
    """Return a family as it is, and labels as groups without replacement.

    Examples
    --------
    >>> as_family(["cat", "dog", "dog"])
    Groups(n=3, k=2)
    """
    if is_family(source):
        return cast(Components, source)
    _check_labels(source)
    labels: Any = source
    if hasattr(labels, "detach") and hasattr(labels, "cpu"):  # a tensor, perhaps on another device
        labels = labels.detach().cpu()
        labels = np.asarray(labels.float() if "bfloat16" in str(labels.dtype) else labels)  # NumPy has no bfloat16
    return Groups(labels, replacement=False, resplit=resplit)


def _join(families: list[Components], learner: Learner[Any]) -> Components:
    """Return the families as one, with the uniform component unless a fixed mixture has no entry for it."""
    if getattr(learner, "needs_uniform", True):
        return with_uniform(*families)
    components = families[0] if len(families) == 1 else Stack(*families)
    entries = getattr(learner, "k", None)
    allowed = (components.k,) if components.has_uniform else (components.k, components.k + 1)
    if entries is not None and entries not in allowed:
        more = "" if components.has_uniform else ", or one more for the uniform component, the last"
        raise ValueError(
            f"The fixed mixture has {entries} entries, and there are {components.k} components. Pass one entry each"
            f"{more}."
        )
    return add_uniform(components) if entries == components.k + 1 else components


def _check_labels(source: Any) -> None:  # noqa: ANN401
    """Raise `TypeError` for what can neither be labels nor a family, and say what to pass."""
    if isinstance(source, Sampler):
        raise TypeError("Pass labels or a family here; a varmix.Sampler is used as it is, or pass sampler.components.")
    if callable(getattr(type(source), "step", None)):
        raise TypeError(f"Pass a learner by name: Sampler(labels, learner={type(source).__name__}(...)).")
    if isinstance(source, (list, tuple)) and any(is_family(each) for each in source[:3]):
        raise TypeError("Pass families one by one, Sampler(*families), or as one: varmix.Stack(*families).")
    if isinstance(source, (type, str, bytes)) or not (isinstance(source, Sequence) or hasattr(source, "__array__")):
        raise TypeError(f"Pass {SOURCES}; got {_shown(source)}.")
    if hasattr(source, "columns") and hasattr(source, "iloc"):
        raise TypeError('Pass one label per point, not a whole table: one of its columns, such as frame["label"].')


def _shown(source: object) -> str:
    return f"the class {source.__name__}" if isinstance(source, type) else repr(source)[:60]


def _default_allocation(components: Components, learner: Learner[Any]) -> Allocation:
    """Return stratified slots, or for groups without replacement what keeps their epochs.

    A learner that may play plain shuffling gets slots dealt as by shuffling everything that can be drawn.
    """
    if not components.reshuffles:
        return stratified
    if isinstance(components, Stack):
        raise ValueError(  # noqa: TRY004 - the type is right, the setting is not
            "Groups without replacement draw everything through their own cursors, so they cannot be mixed with other "
            "families. Pass varmix.Groups(labels), which draws with replacement, or say which allocation you want."
        )
    space = components.space
    if isinstance(learner, Cautious) and isinstance(space, Points):
        return Shuffled(space.n if space.target is None else int(np.count_nonzero(space.target)))
    return round_robin


def _check_part(name: str, part: object, method: str, example: str) -> None:
    """Raise `TypeError` for what lacks the method that makes it a part, and for classes of parts."""
    if isinstance(part, type) or not hasattr(part, method):
        raise TypeError(f"{name} must be {example}, got {part!r}.")


def as_sampler(
    source: Any,  # noqa: ANN401
    *,
    learner: Learner[Any] | None = None,
    gamma: float | None = None,
    allocate: Allocation | None = None,
    rng: int | np.random.Generator | None = None,
    history: bool = False,
) -> "Sampler":
    """Return a sampler as it is, or build one from labels or a family."""
    if not isinstance(source, Sampler):
        return Sampler(source, learner=learner, gamma=gamma, allocate=allocate, rng=rng, history=history)
    if history or any(part is not None for part in (learner, gamma, allocate, rng)):
        raise TypeError(
            "A Sampler has its learner, gamma, allocate, rng and history already: pass these, or a sampler, not both."
        )
    return source


class Sampler:
    """Draw batches from a mixture of components and adapt the mixture to what they cost.

    `draw` returns a receipt with indices and importance weights.  `update` takes the receipt back with one loss or
    gradient norm per index.  Feedback may come late, in any order, or not at all.  Not thread-safe.

    Parameters
    ----------
    *sources
        Labels, one per point (an array, a list or a tensor), or one or more families of components over the same
        points. Labels mean `varmix.Groups(labels, replacement=False)`.  The uniform component is added where it is
        missing.
    learner
        Learner that adapts the mixture.  Default: `Cautious()` for groups without replacement, which is plain shuffling
        until the mixture pays; otherwise `BarrierNewton()`, which is always on.
    gamma
        Smallest share of the uniform component; no weight exceeds `1 / gamma`.  Default: 0.1, or the learner's own.
    allocate
        How the slots of a batch are distributed over components.  Default: `stratified`; for groups without replacement
        `Shuffled`, or `round_robin` with a learner that is not `Cautious`.
    reweight
        How densities become weights.  Default: `exact`, which is unbiased.
    rng
        Seed, generator to take a seed from, or None.  Default: None, a new seed.
    history
        Whether to keep how shares and gain move, in at most 512 entries: `varmix.plot` draws them.  They are part of
        the saved state, so samplers with a history load no states without one, and the other way round.
        Default: False.

    Examples
    --------
    >>> labels = np.repeat(["common", "rare"], [900, 100])
    >>> losses = np.where(labels == "rare", 3.0, 0.1)
    >>> sampler = Sampler(labels, rng=0)
    >>> for step in range(200):
    ...     batch = sampler.draw(32)
    ...     sampler.update(batch, losses[batch.indices])
    >>> sampler.gain.low > 2, sampler.shares["rare"] > 0.5
    (True, True)
    """

    def __init__(
        self,
        *sources: Source,
        learner: Learner[Any] | None = None,
        gamma: float | None = None,
        allocate: Allocation | None = None,
        reweight: Reweight = exact,
        rng: int | np.random.Generator | None = None,
        history: bool = False,
    ) -> None:
        if not isinstance(history, bool):
            raise TypeError(f"history must be True or False, got {_shown(history)}.")
        components, learner, allocate = resolve(sources, learner, gamma, allocate)
        self._components = components
        self._learner = learner
        self._allocate = allocate
        self.reweight = reweight
        self._uniforms = Uniforms(rng)
        self._learned = learner.init(components.k)
        self._allocation = allocate.init(len(components.lanes(self._learned.mixture)))
        # By name: asking whether a family keeps to a protocol takes longer than to draw from it.
        shortcut: Shortcut | None = components if hasattr(components, "draw_stratified") else None  # type: ignore[assignment]
        self._shortcut = shortcut.draw_stratified if shortcut is not None and allocate is stratified else None
        self._disjoint: Disjoint | None = components if hasattr(components, "draw_atoms") else None  # type: ignore[assignment]
        self._ledger = Ledger()
        self._meter = GainMeter(reshuffled=self.reshuffled, cautious=isinstance(learner, Cautious))
        self._history = self._make_history() if history else None
        if history:
            self._record()

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
        _check_part("reweight", reweight, "__call__", "a reweighting such as varmix.reweight.exact")
        by_point = isinstance(reweight, HorvitzThompson)
        self._point_density = _as_inclusive(self._components).point_density if by_point else None
        self._reweight = reweight
        self._exact = isinstance(reweight, Exact)

    @property
    def mixture(self) -> FloatArray:
        """A copy of the mixture `w` that the next draw is made with."""
        return np.array(self._learned.mixture)

    @property
    def learned_mixture(self) -> FloatArray:
        """A copy of the mixture that was learned: `mixture`, unless the learner plays another one meanwhile."""
        inner: Any = getattr(self._learned, "learned", None)
        return np.array(inner.mixture if hasattr(inner, "mixture") else self._learned.mixture)

    @property
    def learned_gain(self) -> float:
        """How much the learned mixture would gain over uniform draws, also while the learner plays another one."""
        if isinstance(self._learner, Cautious):
            return self._learner.gain(self._learned)
        return self._meter.gain.value

    @property
    def meter(self) -> GainMeter:
        """The meter of all feedback so far: gain, noise, and a verdict in words."""
        return self._meter

    @property
    def gain(self) -> Interval:
        """How many times smaller the second moment was than under uniform sampling, with a 95 % interval.

        It is that of the mixtures that were played; `1 [?]` before there is feedback.
        """
        return self._meter.gain

    @property
    def shares(self) -> dict[Hashable, float]:
        """The share of the draws that each named component serves: labels of groups, for example."""
        shares = self._components.lanes(self._learned.mixture)
        return dict(zip(self._components.names, shares.tolist(), strict=True))

    @property
    def history(self) -> History | None:
        """How shares and gain moved; None unless the sampler was built with `history=True`."""
        return self._history

    @property
    def reshuffled(self) -> bool:
        """Whether draws are reshuffled: from groups without replacement, by an allocation that keeps their epochs."""
        alone = not isinstance(self._components, Stack)  # of a stack only a part may be
        return alone and self._components.reshuffles and bool(getattr(self._allocate, "keeps_epochs", False))

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
                    weigh_draws(ratios, mixture, density, weights)
            if not self._exact:
                by_point = self._point_density
                weights = self._reweight(density if by_point is None else by_point(atoms, mixture))
        except BaseException:  # a buffer that is empty, say: the next draw must get the same numbers
            self._uniforms.rewind(mark)
            raise
        self._allocation = allocation
        return seal_draw(atoms, weights, ratios, density, self._ledger.issue(), self._ledger.sampler_id, groups)

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

    def draw_all(self) -> Draw:
        """Return a receipt for every atom once, for feedback with full information.

        The weighted mean over it is the mean under the target, exactly; reweighting does not apply.  Its feedback
        teaches the learner and leaves the meter alone: nothing was sampled.
        """
        space = self._components.space
        if not isinstance(space, Points):
            raise TypeError(
                f"draw_all needs atoms that can be listed, and {space} has e^{space.log_count:.0f} of them. Use draw."
            )
        if space.n == 0:
            raise ValueError(f"There is nothing to list yet: {self._components!r} is empty. Insert something first.")
        if space.target is None:
            atoms, weights = space.atoms, np.ones(space.n)
        else:
            atoms = np.flatnonzero(space.target)
            weights = space.target[atoms] * len(atoms)
        ratios = self._components.ratios(atoms)
        serial, sampler_id = self._ledger.issue(), self._ledger.sampler_id
        return seal_draw(atoms, weights, ratios, 1.0 / weights, serial, sampler_id, complete=True)

    def update(self, draw: Draw, norms: ArrayLike, *, gradient: ArrayLike | None = None) -> None:
        """Learn from the losses or gradient norms of a batch.

        Parameters
        ----------
        draw
            The receipt that `draw` returned.
        norms
            (m,) non-negative numbers, never squared, in the order of `draw.indices`.
        gradient
            The weighted mean gradient of the batch, for the meter's noise check.  Default: None.

        Raises
        ------
        ValueError
            If norms are negative or not finite, or the receipt is used or another sampler's.  Nothing has changed then.
        """
        self.check(draw)
        evidence = Evidence.from_draw(draw, norms)
        if gradient is not None and draw.complete:
            raise ValueError("A receipt of draw_all samples nothing, so its gradient has no noise: leave gradient out.")
        mean = None if gradient is None else self._meter.check_gradient(gradient)
        self.learn(draw, evidence, evidence.norms, None, mean)

    def check(self, draw: Draw) -> None:
        """Raise `ValueError` if another sampler issued the receipt or it was already used."""
        if type(draw) is not Draw:
            raise TypeError(f"update takes the receipt of a draw, then its norms; got {type(draw).__name__} first.")
        self._ledger.check(draw.serial, draw.sampler_id)

    def learn(
        self,
        draw: Draw,
        evidence: Evidence,
        norms: FloatArray | None = None,
        moments: Moments | None = None,
        gradient: FloatArray | None = None,
    ) -> None:
        """Learn from evidence that was put together elsewhere, for a receipt that was checked, and use it up.

        For feedback that is spread over many processes; `update` does this with what a draw and its norms say.

        Parameters
        ----------
        draw
            The receipt.
        evidence
            What feedback says about the cost of mixtures.
        norms
            Norms that the components see.  Default: None, they see nothing.
        moments
            Moments of the whole batch for the meter.  Default: None, those of the evidence.
        gradient
            The mean gradient, as `GainMeter.check_gradient` returns it.  Default: None.
        """
        learned = self._learner.step(self._learned, evidence)
        if norms is not None:
            self._components.observe(draw, norms)
        self._learned = learned
        self._ledger.use(draw.serial)
        if moments is not None:
            self._meter.add_moments(moments, gradient)
        elif not draw.complete:
            self._meter.add(evidence, gradient)
        if self._history is not None and self._history.count_update():
            self._record()

    def _make_history(self) -> History:
        learner = self._learner
        limits = (learner.off_below, learner.on_above) if isinstance(learner, Cautious) else None
        return History(self._components.names, getattr(self._components, "masses", None), limits)

    def _record(self) -> None:
        """Add how things are now to the history."""
        assert self._history is not None
        shares = self._components.lanes(self._learned.mixture)
        self._history.record(self._meter.draws, shares, self._meter.gain, self.learned_gain)

    def end_epoch(self) -> None:
        """Tell the components that an epoch is over."""
        self._components.end_epoch()

    def state_dict(self) -> State:
        """Return the state needed to resume exactly, as a nested dict of arrays, numbers and strings."""
        state = {
            **format_stamp(),
            **self._ledger.state_dict(),
            "settings": self._settings(),
            "uniforms": self._uniforms.state_dict(),
            "allocation": self._allocation.copy(),
            "learner": save_state(self._learned),
            "components": self.components.state_dict(),
            "meter": self._meter.state_dict(),
        }
        return state if self._history is None else state | {"history": self._history.state_dict()}

    def load_state_dict(self, state: State) -> None:
        """Resume where `state` was saved.

        Build the sampler with the same arguments first: data and settings are not part of the state.  That goes for
        `history` too: a state with a history needs a sampler with `history=True`, and one without needs one without.

        Raises
        ------
        CheckpointError
            If the state is damaged, of another sampler or of another format.  The sampler is then unchanged.
        """
        with wrap_load_errors("a Sampler"):
            check_format(state, "a Sampler")
            self._check_has_history(state)
            require_entries(state, set(self.state_dict()), "a Sampler")
            self._check_settings(state["settings"])
            ledger = Ledger.loaded(state)
            uniforms = Uniforms(0)
            uniforms.load_state_dict(state["uniforms"])
            learned = load_state(self.learner, self.components.k, state["learner"])
            allocation = restore_array(state["allocation"], self._allocation, "allocation")
            if hasattr(self._allocate, "check_state"):
                self._allocate.check_state(allocation)
            meter = GainMeter(reshuffled=self.reshuffled, cautious=isinstance(self._learner, Cautious))
            meter.load_state_dict(state["meter"])
            if meter.batches > ledger.serial:
                raise CheckpointError(
                    f"The saved meter has seen {meter.batches} receipts, and only {ledger.serial} were issued: damaged."
                )
            if self._history is not None:
                self._check_saved_history(state["history"], ledger.serial, meter.draws)
            self.components.load_state_dict(state["components"])  # the last that can fail, and all or nothing itself
        self._uniforms, self._ledger, self._learned, self._allocation = uniforms, ledger, learned, allocation
        # Both were checked above; who holds the meter or the history goes on with it.
        self._meter.load_state_dict(state["meter"])
        if self._history is not None:
            self._history.load_state_dict(state["history"])

    def _check_has_history(self, state: State) -> None:
        """Raise `CheckpointError` if the state has a history and the sampler has none, or the other way round."""
        if ("history" in state) == (self._history is not None):
            return
        if self._history is None:
            raise CheckpointError(
                "The saved sampler kept a history, and this one does not: build it with history=True, as it was when "
                "it was saved."
            )
        raise CheckpointError(
            "The saved sampler kept no history, and this one does: build it without history=True, as it was when it "
            "was saved."
        )

    def _check_settings(self, saved: object) -> None:
        settings = self._settings()
        require_entries(saved, set(settings), "a Sampler's settings")
        assert isinstance(saved, dict)
        for name, value in settings.items():
            if not same(saved[name], value):
                raise CheckpointError(
                    f"The saved sampler had {name} = {make_printable(saved[name])}, this one has {value}. "
                    f"Build the sampler as it was when it was saved."
                )

    def _check_saved_history(self, state: State, receipts: int, draws: int) -> None:
        """Raise `CheckpointError` for a saved history that is damaged, or longer than the run was."""
        history = self._make_history()
        history.load_state_dict(state)
        if history.updates > receipts or history.draws[-1] > draws:
            raise CheckpointError(
                f"The saved history has {history.updates} updates with {history.draws[-1]} draws, and only {receipts} "
                f"receipts with {draws} draws were seen: damaged."
            )

    def _settings(self) -> dict[str, State]:
        parts = {"learner": self.learner, "allocate": self.allocate, "reweight": self.reweight}
        return {name: _describe(part) for name, part in parts.items()}

    def __str__(self) -> str:
        components = self._components
        heading = f"Sampler: {self._meter.draws:,} draws with feedback, gain {self.gain}, {self._describe_learner()}"
        target = getattr(components.space, "target", None)
        bars = format_bars(
            components.names,
            components.lanes(self._learned.mixture),
            getattr(components, "masses", None),
            beside_name="points" if target is None else "target",
            most=MAX_BARS,
        )
        return "\n".join([*textwrap.wrap(heading, 80), *bars])

    def _describe_learner(self) -> str:
        """Return in a few words whether the learned mixture is drawn from."""
        if isinstance(self._learner, Fixed):
            return "fixed mixture"
        if not isinstance(self._learner, Cautious):
            return "mixture always on"
        part = self._learner.part(self.learned_gain)
        if 0.0 < part < 1.0:
            return f"mixture {min(max(round(100 * part), 1), 99)} % on"
        return "mixture on" if part else "mixture off"

    def __repr__(self) -> str:
        return f"Sampler({self.components!r}, learner={self.learner!r}, allocate={self.allocate!r})"


def _describe(part: object) -> State:
    """Return the class of a part and, for a dataclass, its settings, as a checkpoint holds them."""
    settings = {}
    if is_dataclass(part):
        settings = {field.name: _plain(getattr(part, field.name)) for field in fields(part)}
    return {"class": type(part).__name__, **settings}


def _plain(value: object) -> object:
    if hasattr(value, "step") and not isinstance(value, type):  # a learner inside another
        return _describe(value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.copy()
    return [_plain(entry) for entry in value] if isinstance(value, (tuple, list)) else value


def _as_inclusive(components: Components) -> Inclusive:
    """Refuse to weight points one by one where the sets, or how often they hold a point, are not known."""
    if not (isinstance(components.space, Subsets) and isinstance(components, Inclusive)):
        raise TypeError(
            f"Horvitz-Thompson weights need sets, and how often they hold a point; {components!r} over "
            f"{components.space} has no inclusion probabilities. Use varmix.KDpp, or reweight by varmix.reweight.exact."
        )
    components.inclusion(np.zeros(1, dtype=np.int64))  # a stack asks every family
    return components
