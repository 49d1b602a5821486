"""ReplayBuffer: stores transitions of an agent, and draws them by a learned mixture of priorities."""

import threading
from collections.abc import Mapping, Sequence
from enum import Enum
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
from varmix._core.validation import (
    BoolArray,
    FloatArray,
    IntArray,
    State,
    as_count,
    as_floats,
    as_fraction,
    find_first,
    same,
)
from varmix._presets import vrm
from varmix._sampler import Sampler
from varmix.components._replay import PAPER_SETTINGS, Replay
from varmix.learners import BarrierNewton, Learner
from varmix.reweight import Reweight, exact
from varmix.rl._n_step import PendingSteps
from varmix.rl._transitions import (
    Batch,
    Transitions,
    as_flag,
    as_flags,
    as_reward,
    as_rewards,
    check_rewards,
    discount_powers,
)

NEXT_STEP, SAME_STEP, DISABLED = "next_step", "same_step", "disabled"
AUTORESET_CHOICES = f"{NEXT_STEP!r}, {SAME_STEP!r} or {DISABLED!r}"

#: The default barrier suits noisy feedback from single draws. Feedback from batches is less noisy and needs less of it.
DEFAULT_LEARNER = BarrierNewton(eps=0.3)


class EpisodeState(NamedTuple):
    """The episodes between two steps.  Each step makes a new one and leaves the old one unchanged."""

    pending: PendingSteps | None
    """Pending transitions, or None if transitions span one step."""
    ended: BoolArray
    """Which environments ended in the last step, if the next step only resets them; otherwise empty."""


class ReplayBuffer:
    """Replay buffer that learns which priorities suit the agent.

    Add transitions, sample a batch, and pass the TD errors of the batch back.  Prioritised replay draws transition i in
    proportion to `(|delta_i| + epsilon)**alpha`, where `delta_i` is its latest TD error.  This buffer mixes several
    settings of (epsilon, alpha) with the uniform distribution.  It learns the mixture that minimises the second moment
    of the weighted TD errors.  It keeps the newest `capacity` transitions.  One thread may add while another samples.

    Parameters
    ----------
    capacity : int
        Number of transitions that the buffer holds. New ones overwrite the oldest.
    observation_space : gymnasium.Space
        Space of the observations of one environment, or any object with `shape` and `dtype`, or with nested `spaces`.
    action_space : gymnasium.Space
        Space of the actions of one environment.
    settings : sequence of (float, float), optional
        Pairs (epsilon, alpha), one per component. Default: the nine settings of the paper.
    n_steps : int, default 1
        Number of steps that a transition spans. Its reward is their discounted sum.
    discount : float, default 0.99
        Discount per step, from 0 to 1.
    environments : int, optional
        Number of environments that step together. Default: the number in `envs`, or one without `envs`.
    autoreset : {"next_step", "same_step", "disabled"}, optional
        How vector environments reset after an episode. "next_step": the next step only resets them, and the
        buffer leaves it out. "same_step": they reset at once, and `add_batch` takes the final observations.
        "disabled": your code resets them. Default: the mode of `envs`. `add_batch` needs to know it.
    envs : gymnasium.vector.VectorEnv, optional
        Vector environment from which to read `environments` and `autoreset`. It needs Gymnasium 1.1 or later.
    learner : Learner, optional
        Learner that adapts the mixture. Default: `varmix.learners.BarrierNewton(eps=0.3)`.
    reweight : Reweight, default varmix.reweight.exact
        How densities become weights. To anneal an exponent, set `buffer.sampler.reweight` at any time.
    rng : int or numpy.random.Generator, optional
        Seed, or a generator to take a seed from. Default: a new seed.

    Raises
    ------
    ValueError
        If a number is out of range, or the capacity is too small for one step of all environments.

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
                f"capacity must be at least n_steps * environments = {self._n_steps * self._environments}, the most "
                f"transitions that one step can add; got {capacity}."
            )
        self._replay = Replay(self._capacity, settings)
        self._sampler = vrm(
            self._replay, learner=DEFAULT_LEARNER if learner is None else learner, reweight=reweight, rng=rng
        )
        # Item i is in row i % room. There are more rows than items, so that a step is written to rows that no draw
        # reads until the step is complete.
        room = self._capacity + self._n_steps * self._environments
        self._rows = Transitions(room, observation_space, action_space)
        # Whether `add` may write one row directly: nothing is pending, and no row is a reset.
        self._adds_at_once = self._n_steps == 1 and self._autoreset in (None, DISABLED)
        start = self._make_episodes()
        self._episodes = start, start, 0  # before and after the last step, and the number of items after it
        self._lock = threading.Lock()

    def _make_episodes(self) -> EpisodeState:
        """Return the state of the episodes before the first step."""
        pending = None
        if self._n_steps > 1:
            pending = PendingSteps(self._n_steps, self._discount, self._environments, self._rows.inputs)
        return EpisodeState(
            pending, np.zeros(self._environments if self._autoreset == NEXT_STEP else 0, dtype=np.bool_)
        )

    def _current_episodes(self) -> EpisodeState:
        """Return the state of the episodes after the last step whose items are all in the buffer."""
        before, after, inserted = self._episodes
        return after if self._replay.inserted >= inserted else before

    @property
    def sampler(self) -> Sampler:
        """Sampler that draws and learns. It takes no lock: while another thread adds, only read its mixture."""
        return self._sampler

    @property
    def replay(self) -> Replay:
        """Family of prioritised replays over the transitions, which are numbered in the order they were added."""
        return self._replay

    @property
    def nbytes(self) -> int:
        """Bytes that the transitions take when the buffer is full; they are allocated at the start."""
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
        """Add one step of the environment.

        An error adds nothing.  An interrupt leaves the step added as a whole or not at all.

        Parameters
        ----------
        observation : array, dict or tuple
            Observation before the step.
        action : array, int, dict or tuple
            Action of the step.
        reward : float
            Reward of the step, at most 1e30 in magnitude.
        next_observation : array, dict or tuple
            Observation after the step.
        terminated : bool
            Whether the episode ended in a terminal state.
        truncated : bool, default False
            Whether the episode was cut off, by a time limit for example. The value of its last observation still
            counts.

        Raises
        ------
        ValueError
            If a value does not fit its space, or the buffer was built for several environments.
        TypeError
            If a value has the wrong type.
        """
        if self._environments != 1:
            raise ValueError(f"This buffer was built for {self._environments} environments: use add_batch.")
        values = self._rows.split(observation, action, next_observation, ())
        reward = as_reward(reward)
        terminated, truncated = as_flag(terminated, "terminated"), as_flag(truncated, "truncated")
        if self._adds_at_once:
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
        """Add one step of vector environments.

        The first axis of every argument indexes the environments. An error adds nothing.  An interrupt leaves the
        step added as a whole or not at all.

        Parameters
        ----------
        observations : array, dict or tuple
            Observations before the step.
        actions : array, dict or tuple
            Actions of the step.
        rewards : array-like of shape (environments,)
            Rewards of the step.
        next_observations : array, dict or tuple
            Observations after the step.
        terminated : array-like of shape (environments,), bool
            Which episodes ended in a terminal state.
        truncated : array-like of shape (environments,), bool
            Which episodes were cut off.
        where : array-like of shape (environments,), bool, optional
            Which rows to add. Default: all. With `autoreset="next_step"` the buffer also leaves out the rows that only
            reset an environment; it finds them by `terminated` and `truncated` of the step before.
        final_observations : array, dict or tuple, optional
            Last observations of the episodes that ended in this step: pass `infos.get("final_obs")` of Gymnasium, or a
            batch of observations, of which only these rows are read. Default: None. Required with
            `autoreset="same_step"` when an episode ended; not allowed with the other modes.

        Raises
        ------
        ValueError
            If a value does not fit its space, the buffer does not know how the environments reset, or final
            observations are missing.
        TypeError
            If a value has the wrong type.
        """
        if self._autoreset is None:
            raise ValueError(
                f"The buffer does not know how these environments reset, so it cannot distinguish transitions from "
                f"resets. Build it with envs=envs, or with autoreset={AUTORESET_CHOICES}."
            )
        number = self._environments
        values = self._rows.split(observations, actions, next_observations, (number,))
        checked_rewards = as_rewards(rewards, number)
        terminal, cut = as_flags(terminated, "terminated", number), as_flags(truncated, "truncated", number)
        counts = None if where is None else as_flags(where, "where", number)
        over = terminal | cut
        if self._autoreset == SAME_STEP:
            values = self._replace_finals(values, final_observations, over if counts is None else over & counts)
        elif final_observations is not None:
            raise ValueError(
                f"final_observations belong to autoreset='same_step'; with {self._autoreset!r} the last observation "
                f"of an episode is in next_observations. Leave them out."
            )
        self._add_rows(counts, values, checked_rewards, terminal, over)

    def _replace_finals(self, values: list[Any], finals: object, ended: BoolArray) -> list[Any]:
        """Return the arrays of a step, with final observations as next observations of the ended episodes."""
        if not ended.any():
            return values
        if finals is None:
            raise ValueError(
                f"The episode of environment {find_first(ended)} ended. With autoreset='same_step' its row of "
                f"next_observations belongs to the next episode: pass final_observations=infos['final_obs']."
            )
        return self._rows.replace_finals(values, finals, ended.nonzero()[0], len(ended))

    def _add_rows(
        self, counts: BoolArray | None, values: list[Any], rewards: FloatArray, terminated: BoolArray, over: BoolArray
    ) -> None:
        """Add the rows of a step where `counts` is True, or all of them. `over` marks the episodes that end."""
        with self._lock:
            now = self._current_episodes()
            pending, ended = now
            if len(ended):
                counts, ended = ~ended if counts is None else counts & ~ended, over
            if counts is None:
                rows = np.arange(len(rewards))
            else:
                rows = counts.nonzero()[0]
                values = [value[rows] for value in values]
                rewards, terminated, over = rewards[rows], terminated[rows], over[rows]
            check_rewards(rewards)
            if pending is None:
                columns = [*values, rewards, terminated, np.where(terminated, 0.0, self._discount)]
                self._append(columns, len(rows), now, EpisodeState(None, ended))
            else:
                split = len(self._rows.inputs)
                ready, pending = pending.push(rows, values[:split], rewards, over)
                row = ready.row
                discounts = np.where(terminated[row], 0.0, ready.discounts)
                after = [value[row] for value in values[split:]]
                columns = [*ready.inputs, *after, ready.returns, terminated[row], discounts]
                self._append(columns, len(row), now, EpisodeState(pending, ended))

    def _append(self, values: Sequence[Any], count: int, before: EpisodeState, after: EpisodeState) -> None:
        """Append rows and set the next state of the episodes. After an interrupt, both have happened or neither.

        The rows are written where no item is. The next state takes effect when all items are in the buffer, and one
        compiled call inserts them all.
        """
        inserted = self._replay.inserted + count
        if count:
            self._rows.write(np.arange(inserted - count, inserted) % self._rows.room, values)
        self._episodes = before, after, inserted
        if count:
            self._replay.insert(count)

    def sample(self, batch_size: int) -> tuple[Batch, Draw]:
        """Draw a batch of transitions.

        Parameters
        ----------
        batch_size : int
            Number of transitions. The buffer must hold at least as many.

        Returns
        -------
        batch : Batch
            Copies of the transitions.
        draw : Draw
            Receipt of the batch. Multiply the loss of each row by `draw.weights`, and pass the receipt to `update`.

        Raises
        ------
        ValueError
            If the buffer holds fewer transitions than `batch_size`.
        """
        if type(batch_size) is not int or batch_size < 1:
            batch_size = as_count(batch_size, "batch_size")
        with self._lock:  # so that no drawn row is overwritten before it is copied
            if len(self._replay) < batch_size:
                raise ValueError(
                    f"The buffer holds {len(self._replay)} transitions, fewer than the {batch_size} asked for: add "
                    f"more first or ask for fewer."
                )
            draw = self._sampler.draw(batch_size)
            return self._rows.gather(draw.indices % self._rows.room), draw

    def transitions(self, ids: ArrayLike) -> Batch:
        """Return the transitions with these numbers.

        Parameters
        ----------
        ids : array-like of int
            Numbers of transitions, such as `draw.indices`. `buffer.sampler.draw_all().indices` lists all of them.

        Returns
        -------
        Batch
            Copies of the transitions.

        Raises
        ------
        ValueError
            If a transition has been overwritten, or its number does not exist.
        """
        with self._lock:
            self._replay.slots(ids)  # raises an error if one is missing
            return self._rows.gather(np.asarray(ids, dtype=np.int64) % self._rows.room)

    def update(self, draw: Draw, td_errors: ArrayLike) -> None:
        """Learn from the TD errors of a batch.

        The mixture also learns from transitions that were overwritten in the meantime; `buffer.replay.overwritten`
        counts them.

        Parameters
        ----------
        draw : Draw
            The receipt that `sample` returned.
        td_errors : array-like of shape (m,)
            TD errors of the batch, in its order. Their signs do not matter.

        Raises
        ------
        ValueError
            If a TD error is not finite, or the receipt was already used or belongs to another buffer. Nothing has
            changed then.
        TypeError
            If `draw` is not a receipt, or `td_errors` are not real numbers.
        """
        if type(draw) is not Draw:
            raise TypeError(
                f"update takes the receipt that sample returned, then the TD errors; got {type(draw).__name__} first."
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
                        f"td_errors[{find_first(bad)}] is {np.asarray(td_errors)[find_first(bad)]}. "
                        f"Skip the update of a batch that diverged."
                    ) from None
                raise

    def state_dict(self) -> State:
        """Return the state needed to resume exactly.

        Returns
        -------
        dict
            Transitions, pending transitions, priorities, mixture and random numbers, as a nested dict of arrays,
            numbers and strings.
        """
        with self._lock:
            now = self._current_episodes()
            return {
                "settings": self._settings(),
                "transitions": self._rows.state_dict(self._list_rows()),
                "pending": {} if now.pending is None else now.pending.state_dict(),
                "ended": now.ended.copy(),
                "sampler": self._sampler.state_dict(),
            }

    def _list_rows(self) -> IntArray:
        """Return the rows of all items, in the order of their places in the sampler."""
        space = self._replay.space
        return np.asarray((space.first + (np.arange(space.n) - space.first) % self._capacity) % self._rows.room)

    def load_state_dict(self, state: State) -> None:
        """Resume where `state` was saved.

        Build the buffer with the same arguments first.  If you annealed an exponent, set `buffer.sampler.reweight` to
        its value at the time of saving.

        Parameters
        ----------
        state : dict
            State that `state_dict` returned.

        Raises
        ------
        CheckpointError
            If the state is damaged, belongs to another buffer or format, or holds values that `add` does not accept.
            The buffer is then unchanged.
        """
        with wrap_load_errors("a ReplayBuffer"):
            saved: object = state
            if isinstance(saved, Mapping) and "sampler" in saved:
                check_format(saved["sampler"], "a ReplayBuffer")
            require_entries(state, {"settings", "transitions", "pending", "ended", "sampler"}, "a ReplayBuffer")
            self._check_settings(state["settings"])
            powers = discount_powers(self._discount, self._n_steps)
            rows = self._rows.read_state(state["transitions"], self._capacity, powers)
            present = min(read_count(state["sampler"]["components"], "total"), self._capacity)
            if len(rows[0]) != present:
                raise CheckpointError(
                    f"The saved buffer is damaged: it has {len(rows[0])} rows of transitions for {present} items."
                )
            episodes = self._read_episodes(state)
            with self._lock:
                self._sampler.load_state_dict(state["sampler"])  # the last call that can fail
                self._rows.load_rows(self._list_rows(), rows)
                self._episodes = episodes, episodes, 0

    def _read_episodes(self, state: State) -> EpisodeState:
        pending, ended = self._make_episodes()
        if pending is not None:
            pending.load_state_dict(state["pending"])
        else:
            require_entries(state["pending"], set(), "a ReplayBuffer of single steps")
        ended = read_array(state, "ended", np.bool_, ended.shape)
        if (ended.view(np.uint8) > 1).any():
            raise CheckpointError("The saved buffer is damaged: ended has bytes that are neither 0 nor 1.")
        return EpisodeState(pending, ended)

    def _settings(self) -> State:
        return {
            "capacity": self._capacity,
            "n_steps": self._n_steps,
            "discount": self._discount,
            "environments": self._environments,
            "autoreset": self._autoreset,
            "settings": [list(setting) for setting in self._replay.settings],
        }

    def _check_settings(self, saved: State) -> None:
        settings = self._settings()
        require_entries(saved, set(settings), "a ReplayBuffer's settings")
        for name, value in settings.items():
            if not same(saved[name], value):
                raise CheckpointError(
                    f"The saved buffer had {name} = {make_printable(saved[name])}, this one has {value}. "
                    f"Build the buffer with the arguments it was saved with."
                )

    def __getstate__(self) -> NoReturn:
        raise TypeError(
            "A ReplayBuffer cannot be copied or pickled. Build another one with the same arguments and load the state "
            "into it: other.load_state_dict(buffer.state_dict())."
        )

    def __repr__(self) -> str:
        return f"ReplayBuffer({len(self)} of {self._capacity}, k={self._sampler.components.k})"


def as_errors(values: ArrayLike, m: int) -> FloatArray:
    """Return |TD errors| of a batch of `m`.  The sampler checks that they are finite."""
    try:
        errors = as_floats(values, "td_errors")
    except (RuntimeError, TypeError) as error:
        raise TypeError(
            f"td_errors must be real numbers that NumPy can read ({error}). If it is a tensor, detach it and move it "
            f"to the CPU: td_errors.detach().float().cpu()."
        ) from None
    if errors.shape != (m,):
        raise ValueError(
            f"td_errors must have shape ({m},), one per transition of the batch, got {errors.shape}. Pass the errors "
            f"themselves, not their mean, and remove other axes."
        )
    return np.abs(errors)


def as_environments(environments: int | None, envs: object) -> int:
    """Return `environments` if it was passed, otherwise the number in `envs`, otherwise one."""
    given = None if environments is None else as_count(environments, "environments")
    if envs is None:
        return 1 if given is None else given
    number = getattr(envs, "num_envs", None)  # Gymnasium is not a dependency: there is no class to check against
    if number is None:
        raise TypeError(
            f"envs must be a vector environment of Gymnasium, got {type(envs).__name__}, which has no num_envs. For a "
            f"single environment leave envs out and use add."
        )
    if given is not None and given != number:
        raise ValueError(f"environments = {given}, but envs has {number}: leave environments out.")
    return as_count(number, "envs.num_envs")


def as_autoreset(autoreset: object, envs: object) -> str | None:
    """Return how environments reset: `autoreset` if it was passed, otherwise the mode of `envs`, otherwise None."""
    given = None if autoreset is None else _parse_mode(autoreset)
    if autoreset is not None and given is None:
        raise ValueError(f"autoreset must be {AUTORESET_CHOICES}, got {autoreset!r}.")
    if envs is None:
        return given
    metadata = getattr(envs, "metadata", None)  # Gymnasium is not a dependency
    said = metadata.get("autoreset_mode") if isinstance(metadata, Mapping) else None
    mode = None if said is None else _parse_mode(said)
    if mode is None and given is None:
        raise ValueError(
            f"envs does not say how it resets: its metadata has the autoreset_mode {said!r}, which Gymnasium sets from "
            f"version 1.1 on. Find out how it resets and pass autoreset={AUTORESET_CHOICES}."
        )
    if mode is not None and given is not None and mode != given:
        raise ValueError(f"autoreset = {given!r}, but envs resets by {mode!r}: leave autoreset out.")
    return given if mode is None else mode


def _parse_mode(value: object) -> str | None:
    """Return the mode for a name or a member of Gymnasium's `AutoresetMode`, or None if it is unknown."""
    name = value.name if isinstance(value, Enum) else value
    modes = {mode.replace("_", ""): mode for mode in (NEXT_STEP, SAME_STEP, DISABLED)}
    return modes.get(name.replace("_", "").lower()) if isinstance(name, str) else None
