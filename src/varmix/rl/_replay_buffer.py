"""ReplayBuffer: transitions of an agent, drawn by a mixture of prioritised replays that is learned online."""

import threading
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from varmix._core.draw import Draw
from varmix._core.evidence import LARGEST_NORM
from varmix._core.state import (
    CheckpointError,
    check_format,
    make_printable,
    read_array,
    read_count,
    require_entries,
    wrap_load_errors,
)
from varmix._core.validation import BoolArray, FloatArray, IntArray, State, as_count, as_fraction, find_first, same
from varmix._presets import vrm
from varmix._sampler import Sampler
from varmix.components._replay import PAPER_SETTINGS, Replay
from varmix.learners import BarrierNewton, Learner
from varmix.reweight import Reweight, exact
from varmix.rl._n_step import OpenSteps
from varmix.rl._transitions import (
    AUTORESET_CHOICES,
    DISABLED,
    NEXT_STEP,
    SAME_STEP,
    Batch,
    Transitions,
    as_autoreset,
    as_environments,
    as_errors,
    as_flag,
    as_flags,
    as_reward,
    as_rewards,
    check_size,
    discount_powers,
)

#: A batch of transitions says more than the single draw that the usual barrier is made for, so a lower one will do.
DEFAULT_LEARNER = BarrierNewton(eps=0.3)


class Moment(NamedTuple):
    """Where the episodes are between two steps; a step makes another one and never changes it."""

    pending: OpenSteps | None
    """The transitions that are pending, with more than one step."""
    ended: BoolArray
    """Which environments ended in the step before, where the next step only resets them; else empty."""


class ReplayBuffer:
    """The latest `capacity` transitions, and a sampler that learns which priorities serve the agent.

    Prioritised replay draws transition i in proportion to `(|delta_i| + epsilon)^alpha`, of its latest TD error.  Here
    all `settings` of (epsilon, alpha) are components of one mixture, with the uniform law beside them; the mixture goes
    to where the second moment of the weighted TD errors is least.  One thread may add while another samples.

    Parameters
    ----------
    capacity
        How many transitions are kept; the oldest are overwritten.
    observation_space, action_space
        Gymnasium's, or whatever has `shape` and `dtype` (or `spaces`, nested) as these have.  Of vector environments
        the single ones.
    settings
        Pairs (epsilon, alpha), one per component.
    n_steps, discount
        A transition spans up to `n_steps` steps, and its reward is their discounted sum.
    environments
        How many environments add at a time.  Default: as many as `envs` has, or one.
    autoreset
        What vector environments do after the end of an episode: "next_step" (the step after it only resets, and the
        buffer leaves it out), "same_step" (they reset at once, and `add_batch` takes the final observations beside) or
        "disabled" (you reset them).  Default: what `envs` says.  `add_batch` needs it.
    envs
        The vector environment, to read `environments` and `autoreset` from: Gymnasium's, of version 1.1 or later.
    learner
        How the mixture adapts: `varmix.learners.BarrierNewton(eps=0.3)` unless told.
    reweight
        How densities become weights; `buffer.sampler.reweight` may be set at any time, to anneal an exponent.
    rng
        Seed, generator or None.

    Examples
    --------
    >>> from types import SimpleNamespace as Space
    >>> buffer = ReplayBuffer(1000, Space(shape=(4,), dtype=np.float32), Space(shape=(), dtype=np.int64), rng=0)
    >>> for step in range(100):
    ...     buffer.add(np.full(4, step, np.float32), 1, 0.5, np.full(4, step + 1, np.float32), terminated=step == 99)
    >>> batch, draw = buffer.sample(32)
    >>> batch.observations.shape, batch.rewards.shape, draw.weights.shape
    ((32, 4), (32,), (32,))
    >>> buffer.update(draw, td_errors=batch.observations[:, 0] / 100 - 0.5)
    """

    def __init__(
        self,
        capacity: int,
        observation_space: object,
        action_space: object,
        *,
        settings: Sequence[tuple[float, float]] = PAPER_SETTINGS,
        n_steps: int = 1,
        discount: float = 0.99,
        environments: int | None = None,
        autoreset: str | None = None,
        envs: object = None,
        learner: Learner[Any] | None = None,
        reweight: Reweight = exact,
        rng: int | np.random.Generator | None = None,
    ) -> None:
        self._capacity = as_count(capacity, "capacity")
        self._n_steps, self._environments = as_count(n_steps, "n_steps"), as_environments(environments, envs)
        self._autoreset = as_autoreset(autoreset, envs)
        self._discount = as_fraction(discount, "discount", zero=True)
        if self._capacity < self._n_steps * self._environments:
            raise ValueError(
                f"capacity must be at least n_steps * environments = {self._n_steps * self._environments}, as many "
                f"transitions as one step may add, got {capacity}."
            )
        self._replay = Replay(self._capacity, settings)
        self._sampler = vrm(
            self._replay, learner=DEFAULT_LEARNER if learner is None else learner, reweight=reweight, rng=rng
        )
        # Item i has row i % room.  There are more rows than items: a step is written where no item can be drawn from.
        room = self._capacity + self._n_steps * self._environments
        self._rows = Transitions(room, observation_space, action_space)
        self._simple = self._n_steps == 1 and self._autoreset in (None, DISABLED)
        start = self._first_moment()
        self._moments = start, start, 0
        self._lock = threading.Lock()

    def _first_moment(self) -> Moment:
        pending = None
        if self._n_steps > 1:
            pending = OpenSteps(self._n_steps, self._discount, self._environments, self._rows.chosen)
        return Moment(pending, np.zeros(self._environments if self._autoreset == NEXT_STEP else 0, dtype=np.bool_))

    def _now(self) -> Moment:
        """Return the moment after the last step that was added as a whole: that whose items are all there."""
        before, after, inserted = self._moments
        return after if self._replay.inserted >= inserted else before

    @property
    def sampler(self) -> Sampler:
        """What draws and learns; it takes no lock, so while another thread adds only read its mixture."""
        return self._sampler

    @property
    def replay(self) -> Replay:
        """The family of prioritised replays over the transitions, whose ids are counted from the first one added."""
        return self._replay

    @property
    def nbytes(self) -> int:
        """Bytes of the transitions, filled or not."""
        return self._rows.nbytes

    def __len__(self) -> int:
        return len(self._replay)

    def add(
        self,
        observation: object,
        action: object,
        reward: float,
        next_observation: object,
        terminated: bool,
        truncated: bool = False,
    ) -> None:
        """Add what one step of the environment gave.

        An episode that is `truncated` has ended, but the value of its last observation still counts.  Nothing is
        added when anything is refused; an interrupt leaves the step added as a whole or not at all.
        """
        if self._environments != 1:
            raise ValueError(f"This buffer is of {self._environments} environments: use add_batch.")
        values = self._rows.split(observation, action, next_observation, ())
        reward = as_reward(reward)
        terminated, truncated = as_flag(terminated, "terminated"), as_flag(truncated, "truncated")
        if self._simple:
            values += reward, terminated, 0.0 if terminated else self._discount
            with self._lock:
                self._rows.write(self._replay.inserted % self._rows.room, values)
                self._replay.insert(1)
            return
        if self._autoreset == SAME_STEP and (terminated or truncated):
            raise ValueError("With autoreset='same_step' use add_batch, which takes final observations.")
        arrays = [np.asarray(value)[None] for value in values]
        self._add_rows(None, arrays, np.array([reward]), np.array([terminated]), np.array([terminated or truncated]))

    def add_batch(
        self,
        observations: object,
        actions: object,
        rewards: ArrayLike,
        next_observations: object,
        terminated: ArrayLike,
        truncated: ArrayLike,
        where: ArrayLike | None = None,
        *,
        final_observations: object = None,
    ) -> None:
        """Add what one step of vector environments gave; the leading axis of everything is that of environments.

        Nothing is added when anything is refused; an interrupt leaves the step added as a whole or not at all.

        Parameters
        ----------
        observations, actions, rewards, next_observations, terminated, truncated
            What the environments got and gave.
        where
            Marks the rows that count.  Default: all.  With `autoreset="next_step"` rows that only reset an environment
            do not count in any case; which these are, `terminated` and `truncated` of all rows of the step before say.
        final_observations
            With `autoreset="same_step"`, the last observations of the episodes that ended in this step: pass
            `infos.get("final_obs")` of Gymnasium, or a batch of observations, of which only these rows are read.

        Raises
        ------
        ValueError
            If a value does not fit, the buffer does not know how the environments reset, or final observations are
            missing.
        """
        if self._autoreset is None:
            raise ValueError(
                f"The buffer does not know how these environments reset, and so which rows are transitions. Build it "
                f"with envs=envs, or with autoreset={AUTORESET_CHOICES}."
            )
        number = self._environments
        values = self._rows.split(observations, actions, next_observations, (number,))
        summands = as_rewards(rewards, number)
        terminal, cut = as_flags(terminated, "terminated", number), as_flags(truncated, "truncated", number)
        counts = None if where is None else as_flags(where, "where", number)
        over = terminal | cut
        if self._autoreset == SAME_STEP:
            values = self._with_finals(values, final_observations, over if counts is None else over & counts)
        elif final_observations is not None:
            raise ValueError(
                f"final_observations belong to autoreset='same_step'; with {self._autoreset!r} the last observation "
                f"of an episode is in next_observations. Leave them out."
            )
        self._add_rows(counts, values, summands, terminal, over)

    def _with_finals(self, values: list[Any], finals: object, ended: BoolArray) -> list[Any]:
        """Put final observations into the places of next observations, where those are of the next episode."""
        if not ended.any():
            return values
        if finals is None:
            raise ValueError(
                f"The episode of environment {find_first(ended)} ended, and with autoreset='same_step' "
                f"next_observations "
                f"has the first observation of the next one there. Pass final_observations=infos['final_obs']."
            )
        return self._rows.with_finals(values, finals, ended.nonzero()[0], len(ended))

    def _add_rows(
        self, counts: BoolArray | None, values: list[Any], rewards: FloatArray, terminated: BoolArray, over: BoolArray
    ) -> None:
        """Add the rows of a step that count, or all of them, and remember which environments are over."""
        with self._lock:
            now = self._now()
            pending, ended = now
            if len(ended):
                counts, ended = ~ended if counts is None else counts & ~ended, over
            if counts is None:
                rows = np.arange(len(rewards))
            else:
                rows = counts.nonzero()[0]
                values = [value[rows] for value in values]
                rewards, terminated, over = rewards[rows], terminated[rows], over[rows]
            check_size(rewards)
            if pending is None:
                columns = [*values, rewards, terminated, np.where(terminated, 0.0, self._discount)]
                self._append(columns, len(rows), now, Moment(None, ended))
            else:
                split = len(self._rows.chosen)
                ready, pending = pending.push(rows, values[:split], rewards, over)
                row = ready.row
                discounts = np.where(terminated[row], 0.0, ready.discounts)
                after = [value[row] for value in values[split:]]
                columns = [*ready.chosen, *after, ready.returns, terminated[row], discounts]
                self._append(columns, len(row), now, Moment(pending, ended))

    def _append(self, values: Sequence[Any], count: int, before: Moment, after: Moment) -> None:
        """Append rows and go on to the next moment, as a whole: an interrupt leaves both done, or both not.

        Rows are written where no item is.  The moment counts as soon as all items are there, and those come in one
        compiled call.
        """
        inserted = self._replay.inserted + count
        if count:
            self._rows.write(np.arange(inserted - count, inserted) % self._rows.room, values)
        self._moments = before, after, inserted
        if count:
            self._replay.insert(count)

    def sample(self, batch_size: int) -> tuple[Batch, Draw]:
        """Draw transitions, and give them with their receipt: `draw.weights` for the loss, all of it for `update`."""
        if type(batch_size) is not int or batch_size < 1:
            batch_size = as_count(batch_size, "batch_size")
        with self._lock:  # around both: nothing that is drawn may be overwritten before it is copied
            if len(self._replay) < batch_size:
                raise ValueError(
                    f"The buffer holds {len(self._replay)} transitions, fewer than the {batch_size} asked for: add "
                    f"more first or ask for fewer."
                )
            draw = self._sampler.draw(batch_size)
            return self._rows.gather(draw.indices % self._rows.room), draw

    def transitions(self, ids: ArrayLike) -> Batch:
        """Give the transitions with these numbers, such as `buffer.sampler.draw_all().indices`, all there are."""
        with self._lock:
            self._replay.slots(ids)  # refuses what is not there
            return self._rows.gather(np.asarray(ids, dtype=np.int64) % self._rows.room)

    def update(self, draw: Draw, td_errors: ArrayLike) -> None:
        """Learn from the TD errors (of either sign) of a sample, in its order.

        What was overwritten in the meantime still teaches the mixture; `buffer.replay.overwritten` counts it.
        """
        if type(draw) is not Draw:
            raise TypeError(
                f"update takes the receipt that sample gave, then TD errors; got {type(draw).__name__} first."
            )
        norms = as_errors(td_errors, len(draw.indices))
        with self._lock:
            try:
                self._sampler.update(draw, norms)
            except ValueError:
                bad = ~(norms <= LARGEST_NORM)
                if bad.any():
                    raise ValueError(
                        f"td_errors must be finite, and at most about {LARGEST_NORM:.0e}; "
                        f"td_errors[{find_first(bad)}] is "
                        f"{np.asarray(td_errors)[find_first(bad)]}. Skip the update of a batch that diverged."
                    ) from None
                raise

    def state_dict(self) -> State:
        """Return the state needed to resume exactly: rows, what is pending, which episodes ended, and the sampler's."""
        with self._lock:
            now = self._now()
            return {
                "settings": self._settings(),
                "transitions": self._rows.state_dict(self._filled()),
                "pending": {} if now.pending is None else now.pending.state_dict(),
                "ended": now.ended.copy(),
                "sampler": self._sampler.state_dict(),
            }

    def _filled(self) -> IntArray:
        """Return the rows of the items that are there, in the order of their places in the sampler."""
        space = self._replay.space
        return np.asarray((space.first + (np.arange(space.n) - space.first) % self._capacity) % self._rows.room)

    def load_state_dict(self, state: State) -> None:
        """Resume where `state` was saved.

        Build the buffer with the same arguments first; an exponent that was annealed must be set as it was.

        Raises
        ------
        CheckpointError
            If the state is damaged, of another buffer or of another format, or holds what `add` refuses.  The buffer
            is then unchanged.
        """
        with wrap_load_errors("a ReplayBuffer"):
            saved: object = state
            if isinstance(saved, Mapping) and "sampler" in saved:
                check_format(saved["sampler"], "a ReplayBuffer")
            require_entries(state, {"settings", "transitions", "pending", "ended", "sampler"}, "a ReplayBuffer")
            self._check_settings(state["settings"])
            powers = discount_powers(self._discount, self._n_steps)
            rows = self._rows.checked_state(state["transitions"], self._capacity, powers)
            present = min(read_count(state["sampler"]["components"], "total"), self._capacity)
            if len(rows[0]) != present:
                raise CheckpointError(
                    f"The saved buffer is damaged: {len(rows[0])} rows of transitions for {present} to be drawn."
                )
            moment = self._read_moment(state)
            with self._lock:
                self._sampler.load_state_dict(state["sampler"])  # the last that can refuse
                self._rows.load_rows(self._filled(), rows)
                self._moments = moment, moment, 0

    def _read_moment(self, state: State) -> Moment:
        pending, ended = self._first_moment()
        if pending is not None:
            pending.load_state_dict(state["pending"])
        else:
            require_entries(state["pending"], set(), "a ReplayBuffer of single steps")
        ended = read_array(state, "ended", np.bool_, ended.shape)
        if (ended.view(np.uint8) > 1).any():
            raise CheckpointError("The saved buffer is damaged: ended has bytes that are neither 0 nor 1.")
        return Moment(pending, ended)

    def _settings(self) -> State:
        names = "capacity", "n_steps", "discount", "environments", "autoreset"
        settings = [list(setting) for setting in self._replay.settings]
        return {name: getattr(self, f"_{name}") for name in names} | {"settings": settings}

    def _check_settings(self, saved: State) -> None:
        settings = self._settings()
        require_entries(saved, set(settings), "a ReplayBuffer's settings")
        for name, value in settings.items():
            if not same(saved[name], value):
                raise CheckpointError(
                    f"The saved buffer had {name} = {make_printable(saved[name])}, this one has {value}. "
                    f"Build the buffer as it was when it was saved."
                )

    def __getstate__(self) -> NoReturn:
        raise TypeError(
            "A ReplayBuffer cannot be copied or pickled. Build another with the same arguments, and give it the state: "
            "other.load_state_dict(buffer.state_dict())."
        )

    def __repr__(self) -> str:
        return f"ReplayBuffer({len(self)} of {self._capacity}, k={self._sampler.components.k})"
