"""Sampler, the front door of varmix: draw a batch, report its losses, and the mixture adapts.

`resolve` turns what users pass (labels, families of components, a learner or none) into the parts of a sampler.
Loaders, solvers and estimators get their samplers through it too, by `Sampler(...)` or `as_sampler(...)`.
"""

import textwrap
from collections.abc import Hashable, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from varmix._core.bars import format_bars
from varmix._core.draw import Draw, Ledger, seal_draw
from varmix._core.evidence import Evidence
from varmix._core.rng import Uniforms
from varmix._core.spaces import Points
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
from varmix.allocate import Allocation, Shuffled, round_robin, stratified
from varmix.components import Family, Groups, Stack, with_uniform
from varmix.components._base import is_family
from varmix.history import History
from varmix.learners import BarrierNewton, Cautious, Learner, load_state, save_state
from varmix.meter import GainMeter, Interval, Moments
from varmix.reweight import Reweight, exact

Source: TypeAlias = Family | ArrayLike
"""What a sampler draws from: a family of components, or one label per point."""

MAX_BARS = 10  # shown by `print(sampler)`

ACCEPTED_SOURCES = "labels, one per point, or a family of components such as varmix.Groups(labels)"


class Parts(NamedTuple):
    """The parts of a sampler, as `resolve` returns them."""

    family: Family
    learner: Learner[Any]
    allocate: Allocation


def resolve(
    sources: tuple[Any, ...],
    learner: Learner[Any] | None = None,
    gamma: float | None = None,
    allocate: Allocation | None = None,
) -> Parts:
    """Turn what a user passes into the parts of a sampler.

    Labels become groups without replacement, and several families are joined in a stack. The uniform component is added
    as the last one where it is missing, unless `learner.needs_uniform` is False.

    Examples
    --------
    >>> family, learner, allocate = resolve((["cat", "dog", "dog"],))
    >>> family.replacement, type(learner).__name__, allocate
    (False, 'Cautious', Shuffled(period=3))
    >>> resolve((Groups([0, 1, 1]),)).allocate
    stratified
    """
    if gamma is not None and learner is not None:
        raise TypeError("gamma belongs to the learner: pass gamma or a learner, not both.")
    families = _as_families(sources)
    if learner is None:
        learner = BarrierNewton() if gamma is None else BarrierNewton(gamma=gamma)
        learner = Cautious(learner) if all(family.reshuffles for family in families) else learner
    _check_part(
        "learner", learner, Learner, "varmix.learners.Learner", "a learner such as varmix.learners.BarrierNewton()"
    )
    family = _join(families, learner)
    if allocate is None:
        allocate = _default_allocation(family, learner)
    _check_part(
        "allocate",
        allocate,
        Allocation,
        "varmix.allocate.Allocation",
        "an allocation such as varmix.allocate.stratified",
    )
    return Parts(family, learner, allocate)


def _as_families(sources: tuple[Any, ...]) -> list[Family]:
    """Return every source as a family."""
    if not sources:
        raise TypeError(f"Pass {ACCEPTED_SOURCES}.")
    families = [as_family(source) for source in sources]
    if sum(not is_family(source) for source in sources) > 1:
        raise TypeError(
            "Pass labels once. For several groupings of the same points pass families that draw with "
            "replacement, such as varmix.Groups(a), varmix.Groups(b), or join both into one label per point."
        )
    return families


def as_family(source: Source, *, resplit: Literal["norms"] | None = None) -> Family:
    """Return a family as it is, and labels as groups without replacement, with `resplit` as in `Groups`.

    Examples
    --------
    >>> as_family(["cat", "dog", "dog"])
    Groups(n=3, k=2)
    """
    if is_family(source):
        return source
    _check_labels(source)
    labels: Any = source
    if hasattr(labels, "detach") and hasattr(labels, "cpu"):  # a tensor, perhaps on another device
        labels = labels.detach().cpu()
        labels = np.asarray(labels.float() if "bfloat16" in str(labels.dtype) else labels)  # NumPy has no bfloat16
    return Groups(labels, replacement=False, resplit=resplit)


def _check_labels(source: Any) -> None:  # noqa: ANN401
    """Raise `TypeError` for anything that cannot be labels, and say what to pass."""
    if isinstance(source, Sampler):
        raise TypeError(
            "You passed a varmix.Sampler: use it directly, or build another one from its family, sampler.components."
        )
    if isinstance(source, Learner):
        raise TypeError(f"Pass a learner by name: Sampler(labels, learner={type(source).__name__}(...)).")
    if isinstance(source, (list, tuple)) and any(is_family(each) for each in source[:3]):
        raise TypeError("Pass families one by one, Sampler(*families), or as one: varmix.Stack(*families).")
    if isinstance(source, (type, str, bytes)) or not (isinstance(source, Sequence) or hasattr(source, "__array__")):
        raise TypeError(f"Pass {ACCEPTED_SOURCES}; got {_short_repr(source)}.")
    if hasattr(source, "columns") and hasattr(source, "iloc"):
        raise TypeError('Pass one label per point, not a whole table: one of its columns, such as frame["label"].')


def _short_repr(source: object) -> str:
    return f"the class {source.__name__}" if isinstance(source, type) else repr(source)[:60]


def _join(families: list[Family], learner: Learner[Any]) -> Family:
    """Return the families as one, with the uniform component where the learner needs it.

    If a fixed mixture has one entry more than there are components, the uniform component is added for the last entry.
    """
    if learner.needs_uniform:
        return with_uniform(*families)
    family = families[0] if len(families) == 1 else Stack(*families)
    allowed = (family.k,) if family.has_uniform else (family.k, family.k + 1)
    if learner.k is not None and learner.k not in allowed:
        more = "" if family.has_uniform else ", or one more for the uniform component, the last"
        raise ValueError(
            f"The fixed mixture has {learner.k} entries, and there are {family.k} components. Pass one entry each"
            f"{more}."
        )
    return family.with_uniform() if learner.k == family.k + 1 else family


def _default_allocation(family: Family, learner: Learner[Any]) -> Allocation:
    """Return `stratified`, or for groups without replacement an allocation that keeps their epochs.

    A learner with `limits` may fall back to uniform sampling. It gets `Shuffled`: uniform sampling then is plain
    reshuffling.
    """
    if family.partly_reshuffles:
        raise ValueError(
            "Groups without replacement cannot be mixed with other families unless you choose an allocation. Pass "
            "varmix.Groups(labels), which draws with replacement, or allocate=varmix.allocate.stratified, for example."
        )
    if not family.reshuffles:
        return stratified
    space = family.space
    if learner.limits is not None and isinstance(space, Points):
        return Shuffled(space.n if space.target is None else int(np.count_nonzero(space.target)))
    return round_robin


def _check_part(name: str, part: object, base: type, base_name: str, example: str) -> None:
    """Raise `TypeError` for a part that is no instance of its base class."""
    if not isinstance(part, base):
        raise TypeError(f"{name} must be {example}, or an instance of a subclass of {base_name}; got {part!r}.")


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
            "A Sampler has its learner, gamma, allocate, rng and history already: pass a Sampler or these, not both."
        )
    return source


class Sampler:
    """Draw batches from a mixture of components, and adapt the mixture to the losses of the batches.

    `draw` returns a receipt with indices and importance weights. `update` takes the receipt back with one loss or
    gradient norm per index. Feedback may come late, in any order, or not at all. A sampler is not thread-safe.

    Parameters
    ----------
    *sources : array-like of shape (n,), or Family
        Labels, one per point (an array, a list or a tensor), or one or more families of components over the same
        points. Labels mean `varmix.Groups(labels, replacement=False)`. The uniform component is added where it is
        missing.
    learner : Learner, optional
        Learner that adapts the mixture. Default: `Cautious()` for groups without replacement, which samples uniformly
        until the learned mixture has proven useful; otherwise `BarrierNewton()`, whose mixture is drawn from at once.
    gamma : float, optional
        Smallest share of the uniform component. With exact weights no weight exceeds `1 / gamma`. Default: 0.1, or the
        learner's own.
    allocate : Allocation, optional
        How the slots of a batch are distributed over components (or groups). Default: `stratified`. For groups without
        replacement `Shuffled`, or `round_robin` with a learner other than `Cautious`.
    reweight : Reweight, default exact
        How densities become weights. `exact` is unbiased.
    rng : int, Generator or None, default None
        A seed, or a generator that a seed is taken from. None takes a new seed.
    history : bool, default False
        Whether to keep the course of shares and gain, in at most 512 entries, for `varmix.plot`. It is part of the
        saved state: a state with a history can only be loaded by a sampler with one.

    Raises
    ------
    TypeError
        If a source is neither labels nor a family, or a part has the wrong type.
    ValueError
        If the parts do not fit together.

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
            raise TypeError(f"history must be True or False, got {_short_repr(history)}.")
        family, learner, allocate = resolve(sources, learner, gamma, allocate)
        self._family = family
        self._learner = learner
        self._allocation = allocate
        self.reweight = reweight  # its setter checks that it fits the family
        self._uniforms = Uniforms(rng)
        self._learner_state = learner.init(family.k)
        self._mixture = learner.played(self._learner_state)
        self._allocation_state = allocate.init(len(family.lanes(self._mixture)))
        self._ledger = Ledger()
        self._meter = self._make_meter()
        self._history = self._make_history() if history else None
        if history:
            self._record()

    @property
    def components(self) -> Family:
        """The family that is drawn from, with the uniform component."""
        return self._family

    @property
    def learner(self) -> Learner[Any]:
        """The learner that adapts the mixture."""
        return self._learner

    @property
    def allocate(self) -> Allocation:
        """How the slots of a batch are distributed over components."""
        return self._allocation

    @property
    def reweight(self) -> Reweight:
        """How densities become weights. It may be set between draws, for example to anneal an exponent."""
        return self._reweight

    @reweight.setter
    def reweight(self, reweight: Reweight) -> None:
        _check_part(
            "reweight", reweight, Reweight, "varmix.reweight.Reweight", "a reweighting such as varmix.reweight.exact"
        )
        if reweight.by_point and not self._family.knows_inclusion:
            raise TypeError(
                f"{reweight!r} weights every point of a set, and {self._family!r} over {self._family.space} "
                f"does not know with what probability a set includes a point. Use varmix.KDpp, or reweight by "
                f"varmix.reweight.exact."
            )
        self._reweight = reweight
        self._exact = reweight.is_exact

    @property
    def mixture(self) -> FloatArray:
        """A copy of the mixture `w` that the next draw is made with."""
        return np.array(self._mixture)

    @property
    def learned_mixture(self) -> FloatArray:
        """A copy of the mixture that was learned. It differs from `mixture` while `Cautious` mixes in uniform draws."""
        return np.array(self._learner.learned(self._learner_state))

    @property
    def learned_gain(self) -> float:
        """Gain of the learned mixture over uniform draws, whether it is played or not.

        If the learner does not measure it, this is the value of `gain`.
        """
        gain = self._learner.gain(self._learner_state)
        return self._meter.gain.value if gain is None else gain

    @property
    def meter(self) -> GainMeter:
        """The meter of all feedback so far: gain, noise, and a verdict in words."""
        return self._meter

    @property
    def gain(self) -> Interval:
        """Second moment of uniform sampling divided by that of the draws so far, with a 95 % interval.

        Above one, the weighted estimates vary less than uniform draws would. Before
        feedback its value is 1 and its interval unknown, which prints as `1 [?]`.
        """
        return self._meter.gain

    @property
    def shares(self) -> dict[Hashable, float]:
        """The share of the draws that each group (or other component) gets, by name."""
        shares = self._family.lanes(self._mixture)
        return dict(zip(self._family.names, shares.tolist(), strict=True))

    @property
    def history(self) -> History | None:
        """The course of shares and gain; None unless the sampler was built with `history=True`."""
        return self._history

    @property
    def reshuffled(self) -> bool:
        """Whether draws are reshuffled: from groups without replacement, with an allocation that keeps their epochs."""
        return self._family.reshuffles and self._allocation.keeps_epochs

    def draw(self, m: int, batches: int = 1) -> Draw:
        """Draw `m` atoms, or several batches of `m`, and return the receipt.

        Several batches have the same distribution as several calls without an update in between. Each is `m`
        consecutive slots of one receipt, which takes one round of feedback with one norm per slot. So a compiled loop
        can process several minibatches between two updates.

        Parameters
        ----------
        m : int
            Number of atoms in a batch.
        batches : int, default 1
            Number of batches.

        Returns
        -------
        Draw
            The receipt: indices, weights, ratios and densities.

        Raises
        ------
        ValueError
            If a number is below one, or there is nothing to draw. Random numbers and the allocation are then rolled
            back; groups without replacement may have advanced.

        Examples
        --------
        >>> from varmix import Groups, vrm
        >>> sampler = vrm(Groups([0, 0, 0, 1], replacement=False), rng=0)
        >>> draw = sampler.draw(2, batches=3)
        >>> draw.indices.reshape(3, 2).shape
        (3, 2)
        >>> sampler.update(draw, norms=np.ones(6))
        """
        if type(m) is not int or m < 1:  # the usual case skips the check, for speed
            m = as_count(m, "m")
        if type(batches) is not int or batches != 1:
            batches = as_count(batches, "batches")
            as_count(m * batches, "m * batches")
        mark = self._uniforms.mark()
        try:
            atoms, ratios, density, weights, groups, allocation_state = self._family.sample(
                self._mixture, m, batches, self._allocation, self._allocation_state, self._uniforms
            )
            if not self._exact:  # the weights above are the exact ones
                weights = self._weigh(atoms, density)
        except BaseException:  # a draw that fails, from an empty buffer for example, leaves no trace
            self._uniforms.rewind(mark)
            raise
        self._allocation_state = allocation_state
        return seal_draw(atoms, weights, ratios, density, self._ledger.issue(), self._ledger.sampler_id, groups)

    def _weigh(self, atoms: IntArray, density: FloatArray) -> FloatArray:
        """Return the weights of atoms, or of the points of sets."""
        if self._reweight.by_point:
            density = self._family.point_density(atoms, self._mixture)
        weights = np.asarray(self._reweight(density))
        if weights.shape != density.shape:
            raise ValueError(
                f"{self._reweight!r} returned weights of shape {weights.shape} for densities of shape "
                f"{density.shape}. Return one weight for every density."
            )
        return weights

    def draw_all(self) -> Draw:
        """Return a receipt that lists every atom (with a positive target) once, to learn from all losses.

        Its weighted mean is exactly the mean under the target; reweighting does not apply. Feedback for it reaches the
        learner, but not the meter, because nothing was sampled.

        Returns
        -------
        Draw
            The receipt.

        Raises
        ------
        TypeError
            If the atoms are sets, of which there are too many to list.
        ValueError
            If there are no atoms yet.
        """
        space = self._family.space
        if not isinstance(space, Points):
            raise TypeError(f"draw_all lists all atoms, and {space} has e^{space.log_count:.0f} of them. Use draw.")
        if space.n == 0:
            raise ValueError(f"{self._family!r} is empty, so there is nothing to list. Insert something first.")
        if space.target is None:
            atoms, weights = space.atoms, np.ones(space.n)
        else:
            atoms = np.flatnonzero(space.target)
            weights = space.target[atoms] * len(atoms)
        # Each listed atom counts as one uniform draw from the list, whose density is 1 / weight.
        ratios = self._family.ratios(atoms)
        serial, sampler_id = self._ledger.issue(), self._ledger.sampler_id
        return seal_draw(atoms, weights, ratios, 1.0 / weights, serial, sampler_id, complete=True)

    def update(self, draw: Draw, norms: ArrayLike, *, gradient: ArrayLike | None = None) -> None:
        """Learn from the losses or gradient norms of a batch.

        Parameters
        ----------
        draw : Draw
            The receipt that `draw` returned.
        norms : array-like of shape (m,)
            Losses or gradient norms, in the order of `draw.indices`: non-negative, not squared.
        gradient : array-like, optional
            Gradient of the weighted mean loss of the batch, for `meter.noise`. Default: None.

        Raises
        ------
        ValueError
            If norms are negative or not finite, or the receipt was used before or is another sampler's. Nothing has
            changed then.
        """
        self.check(draw)
        evidence = Evidence.from_draw(draw, norms)
        if gradient is not None and draw.complete:
            raise ValueError("draw_all samples nothing, so its gradient has no sampling noise: leave gradient out.")
        mean_gradient = None if gradient is None else self._meter.check_gradient(gradient)
        self.learn(draw, evidence, evidence.norms, None, mean_gradient)

    def check(self, draw: Draw) -> None:
        """Raise an error if feedback for a receipt would be refused.

        Parameters
        ----------
        draw : Draw
            The receipt.

        Raises
        ------
        TypeError
            If it is not a receipt.
        ValueError
            If another sampler issued the receipt, or it was already used.
        """
        if type(draw) is not Draw:
            raise TypeError(
                f"update takes the receipt of a draw (a varmix.Draw) and then its norms; got {type(draw).__name__} "
                f"first."
            )
        self._ledger.check(draw.serial, draw.sampler_id)

    def learn(
        self,
        draw: Draw,
        evidence: Evidence,
        norms: FloatArray | None = None,
        moments: Moments | None = None,
        gradient: FloatArray | None = None,
    ) -> None:
        """Learn from the evidence of a receipt that was checked: the last step of all feedback.

        `update` calls it, and so does feedback that is spread over many processes.

        Parameters
        ----------
        draw : Draw
            The receipt. It is used up.
        evidence : Evidence
            What the feedback says about the cost of mixtures.
        norms : array of shape (m,), optional
            Norms for `Family.observe`. Default: None, it is not called.
        moments : Moments, optional
            Moments of the whole batch, for the meter. Default: None, those of the evidence.
        gradient : array, optional
            The mean gradient, as `GainMeter.check_gradient` returns it. Default: None.
        """
        learner_state = self._learner.step(self._learner_state, evidence)
        if norms is not None:
            self._family.observe(draw, norms)
        # Only now, so that an exception in either leaves the sampler as it was.
        self._learner_state, self._mixture = learner_state, self._learner.played(learner_state)
        self._ledger.use(draw.serial)
        if moments is not None:
            self._meter.add_moments(moments, gradient)
        elif not draw.complete:  # draw_all samples nothing, so it has no gain to measure
            self._meter.add(evidence, gradient)
        if self._history is not None and self._history.count_update():
            self._record()

    def _make_meter(self) -> GainMeter:
        return GainMeter(reshuffled=self.reshuffled, switches=self._learner.limits is not None)

    def _make_history(self) -> History:
        return History(self._family.names, self._family.masses, self._learner.limits)

    def _record(self) -> None:
        """Add the present shares and gain to the history."""
        assert self._history is not None
        shares = self._family.lanes(self._mixture)
        self._history.record(self._meter.draws, shares, self._meter.gain, self.learned_gain)

    def end_epoch(self) -> None:
        """Report the end of an epoch to the components. Groups with `resplit` then divide their points by norm."""
        self._family.end_epoch()

    def state_dict(self) -> State:
        """Return the state needed to resume exactly.

        Returns
        -------
        dict
            A nested dict of arrays, numbers and strings. `varmix.save` writes it to a file.
        """
        state = {
            **format_stamp(),
            **self._ledger.state_dict(),
            "settings": self._settings(),
            "uniforms": self._uniforms.state_dict(),
            "allocation": self._allocation_state.copy(),
            "learner": save_state(self._learner_state),
            "components": self.components.state_dict(),
            "meter": self._meter.state_dict(),
        }
        return state if self._history is None else state | {"history": self._history.state_dict()}

    def load_state_dict(self, state: State) -> None:
        """Resume where `state` was saved.

        Build the sampler with the same data and arguments first, `history` included. The state holds settings only to
        check that they are the same.

        Parameters
        ----------
        state : dict
            What `state_dict` returned.

        Raises
        ------
        CheckpointError
            If the state is damaged, of another sampler or of another format. The sampler is then unchanged.
        """
        with wrap_load_errors("a Sampler"):
            check_format(state, "a Sampler")
            self._check_has_history(state)
            require_entries(state, set(self.state_dict()), "a Sampler")
            self._check_settings(state["settings"])
            ledger = Ledger.loaded(state)
            uniforms = Uniforms(0)
            uniforms.load_state_dict(state["uniforms"])
            learner_state = load_state(self._learner, self._family.k, state["learner"])
            allocation_state = restore_array(state["allocation"], self._allocation_state, "allocation")
            self._allocation.check_state(allocation_state)
            meter = self._make_meter()
            meter.load_state_dict(state["meter"])
            if meter.batches > ledger.serial:
                raise CheckpointError(
                    f"The saved state is damaged: its meter counts {meter.batches} receipts, but only {ledger.serial} "
                    f"were issued."
                )
            if self._history is not None:
                self._check_saved_history(state["history"], ledger.serial, meter.draws)
            self._family.load_state_dict(state["components"])  # the last step that can fail; it loads all or nothing
        self._uniforms, self._ledger = uniforms, ledger
        self._learner_state, self._allocation_state = learner_state, allocation_state
        self._mixture = self._learner.played(learner_state)
        # Their states were tried on new objects above. Load them in place: users may hold the meter and the history.
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
                f"The saved state is damaged: its history has {history.updates} updates with {history.draws[-1]} "
                f"draws, but only {receipts} receipts with {draws} draws were seen."
            )

    def _settings(self) -> dict[str, State]:
        parts = {"learner": self.learner, "allocate": self.allocate, "reweight": self.reweight}
        return {name: _settings_of(part) for name, part in parts.items()}

    def __str__(self) -> str:
        components, space = self._family, self._family.space
        heading = f"Sampler: {self._meter.draws:,} draws with feedback, gain {self.gain}, {self._describe_learner()}"
        bars = format_bars(
            components.names,
            components.lanes(self._mixture),
            components.masses,
            beside_name="points" if not isinstance(space, Points) or space.target is None else "target",
            most=MAX_BARS,
        )
        return "\n".join([*textwrap.wrap(heading, 80), *bars])

    def _describe_learner(self) -> str:
        """Return in a few words whether the learned mixture is drawn from."""
        if not self._learner.learns:
            return "fixed mixture"
        if self._learner.limits is None:
            return "mixture always on"
        off_below, on_above = self._learner.limits
        part = (self.learned_gain - off_below) / (on_above - off_below)
        if 0.0 < part < 1.0:
            return f"mixture {min(max(round(100 * part), 1), 99)} % on"
        return "mixture on" if part >= 1.0 else "mixture off"

    def __repr__(self) -> str:
        return f"Sampler({self.components!r}, learner={self.learner!r}, allocate={self.allocate!r})"


def _settings_of(part: object) -> State:
    """Return the class of a part and, for a dataclass, its settings, as a checkpoint holds them."""
    settings = {}
    if is_dataclass(part):
        settings = {field.name: _as_plain(getattr(part, field.name)) for field in fields(part)}
    return {"class": type(part).__name__, **settings}


def _as_plain(value: object) -> object:
    if isinstance(value, Learner):  # a learner wrapped by another
        return _settings_of(value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.copy()
    return [_as_plain(entry) for entry in value] if isinstance(value, (tuple, list)) else value
