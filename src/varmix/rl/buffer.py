"""ReplayBuffer: transitions of an agent, drawn by a mixture of prioritised replays that is learnt online."""

import threading
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from varmix.arrays import AnyArray, BoolArray, FloatArray, State, as_count, as_fraction, first
from varmix.components.replay import SETTINGS, Replay
from varmix.draw import Draw
from varmix.evidence import LARGEST_NORM
from varmix.learners import BarrierNewton, Learner
from varmix.presets import vrm
from varmix.reweight import Reweight, exact
from varmix.rl.checks import as_errors, as_flag, as_flags, as_reward, as_rewards, check_size
from varmix.rl.n_steps import Pending
from varmix.rl.transitions import Batch, Transitions
from varmix.sampler import Sampler
from varmix.states import require

#: A batch of transitions says more than the single draw that the usual barrier is made for, so a lower one will do.
LEARNER = BarrierNewton(eps=0.3)


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
        How many environments add at a time.
    learner
        How the mixture adapts: `varmix.BarrierNewton(eps=0.3)` unless told.
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
        settings: Sequence[tuple[float, float]] = SETTINGS,
        n_steps: int = 1,
        discount: float = 0.99,
        environments: int = 1,
        learner: Learner[Any] | None = None,
        reweight: Reweight = exact,
        rng: int | np.random.Generator | None = None,
    ) -> None:
        self._capacity = as_count(capacity, "capacity")
        self._n_steps, self._environments = as_count(n_steps, "n_steps"), as_count(environments, "environments")
        self._discount = as_fraction(discount, "discount", zero=True)
        if self._capacity < self._n_steps * self._environments:
            raise ValueError(
                f"capacity must be at least n_steps * environments = {self._n_steps * self._environments}, as many "
                f"transitions as one step may add, got {capacity}."
            )
        self._replay = Replay(self._capacity, settings)
        self._sampler = vrm(self._replay, learner=LEARNER if learner is None else learner, reweight=reweight, rng=rng)
        self._rows = Transitions(self._capacity, observation_space, action_space)
        self._pending = self._nothing_pending()
        self._lock = threading.Lock()

    def _nothing_pending(self) -> Pending | None:
        if self._n_steps == 1:
            return None
        return Pending(self._n_steps, self._discount, self._environments, self._rows.chosen)

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
        added when anything is refused.
        """
        if self._environments != 1:
            raise ValueError(f"This buffer is of {self._environments} environments: use add_batch.")
        values = self._rows.split(observation, action, next_observation, ())
        reward = as_reward(reward)
        terminated, truncated = as_flag(terminated, "terminated"), as_flag(truncated, "truncated")
        if self._pending is None:
            values += reward, terminated, 0.0 if terminated else self._discount
            with self._lock:
                self._rows.write(int(self._replay.insert(1)[0]) % self._capacity, values)
        else:
            arrays = [np.asarray(value)[None] for value in values]
            self._push(np.zeros(1, dtype=np.int64), arrays, np.array([reward]), np.array([terminated]), truncated)

    def add_batch(
        self,
        observations: object,
        actions: object,
        rewards: ArrayLike,
        next_observations: object,
        terminated: ArrayLike,
        truncated: ArrayLike,
        where: ArrayLike | None = None,
    ) -> None:
        """Add what one step of vector environments gave; the leading axis of everything is that of environments.

        `where` marks the rows that count.  With Gymnasium's default autoreset the step after an end only resets, and is
        no transition: pass `where=~ended`, of the step before.  Nothing is added when anything is refused.
        """
        number = self._environments
        values = self._rows.split(observations, actions, next_observations, (number,))
        summands = as_rewards(rewards, number)
        terminal, cut = as_flags(terminated, "terminated", number), as_flags(truncated, "truncated", number)
        counting = np.arange(number)
        if where is not None:
            counting = as_flags(where, "where", number).nonzero()[0]
            values = [value[counting] for value in values]
            summands, terminal, cut = summands[counting], terminal[counting], cut[counting]
        check_size(summands)
        if self._pending is None:
            with self._lock:
                self._append([*values, summands, terminal, np.where(terminal, 0.0, self._discount)], len(counting))
        else:
            self._push(counting, values, summands, terminal, cut)

    def _push(
        self,
        environments: AnyArray,
        values: list[Any],
        rewards: FloatArray,
        terminated: BoolArray,
        cut: BoolArray | bool,
    ) -> None:
        """Add steps to what is pending, and append the transitions that are complete by them."""
        assert self._pending is not None
        split = len(self._rows.chosen)
        with self._lock:
            ready = self._pending.push(environments, values[:split], rewards, terminated | cut)
            row = ready.row
            discounts = np.where(terminated[row], 0.0, ready.discounts)
            after = [value[row] for value in values[split:]]
            self._append([*ready.chosen, *after, ready.returns, terminated[row], discounts], len(row))

    def _append(self, values: Sequence[Any], count: int) -> None:
        if count:
            self._rows.write(self._replay.insert(count) % self._capacity, values)

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
            return self._rows.gather(draw.indices % self._capacity), draw

    def transitions(self, ids: ArrayLike) -> Batch:
        """Give the transitions with these numbers, such as `buffer.sampler.census().indices`, all there are."""
        with self._lock:
            return self._rows.gather(self._replay.slots(ids))

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
                        f"td_errors must be finite, and at most about {LARGEST_NORM:.0e}; td_errors[{first(bad)}] is "
                        f"{np.asarray(td_errors)[first(bad)]}. Skip the update of a batch that diverged."
                    ) from None
                raise

    def state_dict(self) -> State:
        """Give all that is needed to go on bit for bit: the filled rows, what is pending, and the sampler's state."""
        with self._lock:
            return {
                "settings": self._settings(),
                "transitions": self._rows.state_dict(len(self._replay)),
                "pending": {} if self._pending is None else self._pending.state_dict(),
                "sampler": self._sampler.state_dict(),
            }

    def load_state_dict(self, state: State) -> None:
        """Go on where `state` was saved, or refuse it and stay as before.

        Build the buffer with the same arguments first; an exponent that was annealed must be set as it was.
        """
        require(state, {"settings", "transitions", "pending", "sampler"}, "a ReplayBuffer")
        self._check_settings(state["settings"])
        rows = self._rows.checked_state(state["transitions"])
        pending = self._nothing_pending()
        if pending is not None:
            pending.load_state_dict(state["pending"])
        else:
            require(state["pending"], set(), "a ReplayBuffer of single steps")
        with self._lock:
            self._load_sampler(state["sampler"], len(rows[0]))
            self._rows.load_rows(rows)
            self._pending = pending

    def _load_sampler(self, state: State, rows: int) -> None:
        before = self._sampler.state_dict()
        self._sampler.load_state_dict(state)
        if len(self._replay) != rows:
            present = len(self._replay)
            self._sampler.load_state_dict(before)
            raise ValueError(f"The saved buffer is damaged: {rows} rows of transitions for {present} to be drawn.")

    def _settings(self) -> State:
        names = "capacity", "n_steps", "discount", "environments"
        settings = [list(setting) for setting in self._replay.settings]
        return {name: getattr(self, f"_{name}") for name in names} | {"settings": settings}

    def _check_settings(self, saved: State) -> None:
        settings = self._settings()
        require(saved, set(settings), "a ReplayBuffer's settings")
        for name, value in settings.items():
            if saved[name] != value:
                raise ValueError(
                    f"The saved buffer had {name} = {saved[name]}, this one has {value}. "
                    f"Build the buffer as it was when it was saved."
                )

    def __getstate__(self) -> NoReturn:
        raise TypeError(
            "A ReplayBuffer cannot be copied or pickled. Build another with the same arguments, and give it the state: "
            "other.load_state_dict(buffer.state_dict())."
        )

    def __repr__(self) -> str:
        return f"ReplayBuffer({len(self)} of {self._capacity}, k={self._sampler.components.k})"
