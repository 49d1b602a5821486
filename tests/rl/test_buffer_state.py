"""Save, load, and go on bit for bit."""

import numpy as np
import pytest

import varmix
from support.oracles import nameless
from support.replay import BOX, DISCRETE, IMAGE, Space, filled, numbered, stays
from varmix import CheckpointError
from varmix._core import checkpoint
from varmix.rl import ReplayBuffer
from varmix.testing import same


def _go_on(buffer, first, steps=60):
    """Add, sample and update, and give all that was drawn."""
    given = []
    for step in range(first, first + steps):
        buffer.add(*numbered(step), terminated=step % 7 == 6)
        batch, draw = buffer.sample(8)
        buffer.update(draw, np.sin(batch.rewards))
        given += [*batch, draw.indices, draw.weights, buffer.sampler.mixture]
    return given


@pytest.mark.parametrize("n_steps", [1, 4])
@pytest.mark.parametrize("count", [12, 45])
def test_a_loaded_buffer_goes_on_bit_for_bit(count, n_steps, tmp_path):
    buffer = filled(count, capacity=40, n_steps=n_steps)
    _go_on(buffer, count, steps=3)
    varmix.save(tmp_path / "buffer.varmix", buffer)
    again = varmix.load(tmp_path / "buffer.varmix", ReplayBuffer(40, BOX, DISCRETE, n_steps=n_steps))
    assert isinstance(again, ReplayBuffer)
    assert stays(again, buffer.state_dict())
    for one, other in zip(_go_on(buffer, count + 3), _go_on(again, count + 3), strict=True):
        assert np.array_equal(one, other)
    assert same(nameless(again.state_dict()), nameless(buffer.state_dict()))


def test_feedback_of_a_run_that_was_given_up_is_refused_however_far_the_new_one_has_got():
    buffer = filled(40)
    state = buffer.state_dict()
    _, before = buffer.sample(8)
    for step in range(40, 100):
        buffer.add(*numbered(step), terminated=False)
    _, given_up = buffer.sample(64)
    buffer.load_state_dict(state)
    for _ in range(5):
        buffer.sample(8)
    now = buffer.state_dict()
    for receipt in (before, given_up):
        with pytest.raises(ValueError, match="by an abandoned run"):
            buffer.update(receipt, np.ones(len(receipt)))
    assert stays(buffer, now)


def test_pending_transitions_are_saved_too():
    buffer = filled(13, n_steps=5)
    assert buffer.state_dict()["pending"]["count"].tolist() == [3]
    without = filled(10, n_steps=5)
    without.load_state_dict(buffer.state_dict())
    for one in (buffer, without):
        one.add(*numbered(13), terminated=True)
    assert len(without) == 14
    assert stays(without, buffer.state_dict())


def test_a_fuller_buffer_can_go_back_to_an_emptier_one():
    fuller, emptier = filled(50, capacity=40), filled(7, capacity=40)
    fuller.load_state_dict(emptier.state_dict())
    assert len(fuller) == 7
    assert stays(fuller, emptier.state_dict())


def test_only_rows_that_are_filled_are_saved_in_the_order_of_their_slots():
    assert filled(7, capacity=40).state_dict()["transitions"]["action"].tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert filled(12, capacity=10).state_dict()["transitions"]["action"].tolist() == [10, 11, *range(2, 10)]


def test_a_state_does_not_change_with_its_buffer():
    for n_steps in (1, 3):
        buffer = filled(12, capacity=10, n_steps=n_steps)
        state, copy = buffer.state_dict(), buffer.state_dict()
        _go_on(buffer, 12)
        assert same(state, copy)
        again = ReplayBuffer(10, BOX, DISCRETE, n_steps=n_steps)
        again.load_state_dict(state)
        _go_on(again, 12)
        assert same(state, copy)


def test_nested_spaces_are_saved_whatever_their_keys(tmp_path):
    space = Space(spaces={"a/b": BOX, "a": Space(spaces={"b": BOX}), 3: Space(spaces=(IMAGE, DISCRETE))})
    value = {"a/b": np.ones(4), "a": {"b": np.zeros(4)}, 3: (np.ones((2, 3), np.uint8), 5)}
    buffer = ReplayBuffer(10, space, DISCRETE, n_steps=2, rng=0)
    for step in range(5):
        buffer.add(value, step, 1.0, value, terminated=False)
    varmix.save(tmp_path / "buffer.varmix", buffer)
    again = varmix.load(tmp_path / "buffer.varmix", ReplayBuffer(10, space, DISCRETE, n_steps=2))
    assert stays(again, buffer.state_dict())
    batch, _ = again.sample(2)
    assert batch.observations["a/b"].tolist() == [[1.0] * 4] * 2
    assert batch.observations["a"]["b"].tolist() == [[0.0] * 4] * 2
    assert batch.observations[3][1].tolist() == [5, 5]


def test_receipts_of_the_buffer_that_was_saved_are_taken():
    buffer = filled(30)
    _, draw = buffer.sample(10)
    again = filled(0)
    again.load_state_dict(buffer.state_dict())
    again.update(draw, np.ones(10))


def test_an_annealed_exponent_must_be_set_as_it_was():
    buffer = filled(30)
    buffer.sampler.reweight = varmix.reweight.Power(0.7)
    again = filled(0)
    with pytest.raises(ValueError, match="reweight"):
        again.load_state_dict(buffer.state_dict())
    again.sampler.reweight = varmix.reweight.Power(0.7)
    again.load_state_dict(buffer.state_dict())
    assert stays(again, buffer.state_dict())


OTHERS = {
    "another capacity": ({"capacity": 50}, "capacity = 40, this one has 50"),
    "more steps": ({"n_steps": 2}, "n_steps = 3, this one has 2"),
    "another discount": ({"discount": 0.9}, "discount = 0.99, this one has 0.9"),
    "more environments": ({"environments": 2}, "environments = 1, this one has 2"),
    "another observation": (
        {"observation_space": Space(shape=(3,), dtype=np.float32)},
        r"observation was float32 of shape \(4,\), and is float32 of shape \(3,\) here",
    ),
    "another dtype": (
        {"action_space": Space(shape=(), dtype=np.int32)},
        r"action was int64 of shape \(\), and is int32 of shape \(\) here",
    ),
    "other keys": ({"observation_space": Space(spaces={"a": BOX})}, r"expected the entries .*observation\['a'\]"),
    "other settings": ({"settings": [(0.1, 0.5)]}, r"settings = .*, this one has \[\[0.1, 0.5\]\]"),
    "another learner": ({"learner": varmix.learners.BarrierNewton(gamma=0.2)}, "learner"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_states_of_other_buffers_are_refused_and_change_nothing(name, tmp_path):
    arguments, says = OTHERS[name]
    varmix.save(tmp_path / "buffer.varmix", filled(60, capacity=40, n_steps=3))
    same_as_saved = {"capacity": 40, "observation_space": BOX, "action_space": DISCRETE, "n_steps": 3}
    buffer = ReplayBuffer(**(same_as_saved | arguments), rng=1)
    before = buffer.state_dict()
    with pytest.raises(CheckpointError, match=says):
        varmix.load(tmp_path / "buffer.varmix", buffer)
    assert stays(buffer, before)


def _with(path, value):
    def change(state):
        *parents, name = path.split("/")
        for parent in parents:
            state = state[parent]
        state[name] = value

    return change


DAMAGE = {
    "an entry too many": (_with("more", 1), "expected the entries"),
    "settings that are none": (_with("settings", 3), "must be a dictionary"),
    "settings that lack": (_with("settings", {"capacity": 40}), "expected the entries"),
    "a column too short": (_with("transitions/reward", np.zeros(3, np.float32)), r"columns of \[3, 40\] rows"),
    "a column too many": (_with("transitions/more", np.zeros(40)), "expected the entries"),
    "a column without rows": (
        _with("transitions/reward", np.float32(1.0)),
        r"Saved reward must be an array .*, got 1\.0",
    ),
    "nothing pending": (_with("pending", {}), "pending transitions"),
    "returns that are none": (_with("pending/returns", np.full(3, np.nan)), "not finite"),
    "too many pending": (_with("pending/count", np.array([3])), "outside the ring"),
    "fewer than none pending": (_with("pending/count", np.array([-1])), "outside the ring"),
    "a place outside": (_with("pending/head", np.array([3])), "outside the ring"),
    "places of another ring": (
        _with("pending/columns/action", np.zeros(4, np.int64)),
        "same number of rows, at most 3",
    ),
    "pending actions of another kind": (_with("pending/columns/action", np.zeros(3)), "action was float64"),
    "a sampler that is none": (_with("sampler", {}), "expected the entries"),
    "another serial": (_with("sampler/serial", -1), "serial"),
    "no state at all": (lambda state: state.clear(), "expected the entries"),
    "transitions that are none": (_with("transitions", 3), "must be a dictionary"),
    "a column in words": (_with("transitions/reward", "x"), "Saved reward must be an array .*, got 'x'"),
    "a column of lists": (_with("transitions/action", [1] * 40), r"Saved action must be an array .*, got a list"),
    "pending that is none": (_with("pending", None), "must be a dictionary"),
    "a sampler in words": (_with("sampler", "x"), "must be a dictionary"),
    "items that are none": (_with("sampler/components", None), "damaged"),
    "a setting that is an array": (_with("settings/capacity", np.array([40, 40])), r"capacity = \[40 40\]"),
    "a setting that rings a bell": (_with("settings/capacity", "\x1b[2J"), r"capacity = \\x1b\[2J"),
    "more items than there can be": (_with("sampler/components/total", 2**70), "total"),
    "resets that are none": (_with("ended", np.zeros(1, bool)), "ended must be an array of shape"),
}


def _row(name, value, row=5):
    """Change one row of a column; 9, 19, ... are those where an episode of `filled` terminated."""

    def change(state):
        *parents, last = name.split("/")
        for parent in parents:
            state = state[parent]
        state[last][row] = value

    return change


def _byte(name, row=5):
    def change(state):
        state["transitions"][name].view(np.uint8)[row] = 2

    return change


REFUSED_BY_ADD = {
    "no reward": (_row("transitions/reward", np.nan), "reward nan in row 5"),
    "endless reward": (_row("transitions/reward", -np.inf), "reward -inf in row 5"),
    "too much reward": (_row("transitions/reward", 4e30), "reward .* in row 5"),
    "too much pending reward": (_row("pending/returns", -4e30, row=1), "pending return -4e"),
    "an end that is neither": (_byte("terminated"), "terminated has bytes"),
    "a discount that is none": (_row("transitions/discount", np.nan), "discount nan in row 5"),
    "an endless discount": (_row("transitions/discount", np.inf), "discount inf in row 5"),
    "a huge discount": (_row("transitions/discount", 1e30), "discount 1e.30 in row 5"),
    "a negative discount": (_row("transitions/discount", -0.99), "discount -0.99"),
    "a discount of no steps": (_row("transitions/discount", 1.0), "discount 1 in row 5"),
    "a discount of too many steps": (_row("transitions/discount", 0.99**4), "discount 0.96.* in row 5"),
    "a discount of another buffer": (_row("transitions/discount", 0.985), "discount 0.985.* in row 5"),
    "no discount where nothing ended": (_row("transitions/discount", 0.0), "discount 0 in row 5"),
    "a discount where an episode terminated": (_row("transitions/discount", 0.99, row=9), "discount 0.99.* in row 9"),
}


@pytest.mark.parametrize("name", REFUSED_BY_ADD)
def test_what_add_refuses_a_load_refuses_too(name):
    change, says = REFUSED_BY_ADD[name]
    state = filled(40, capacity=40, n_steps=3).state_dict()
    buffer = filled(30, capacity=40, n_steps=3, rng=1)
    before = buffer.state_dict()
    buffer.load_state_dict(state)
    buffer.load_state_dict(before)
    change(state)
    with pytest.raises(CheckpointError, match=says):
        buffer.load_state_dict(state)
    assert same(nameless(buffer.state_dict()), nameless(before))


@pytest.mark.parametrize("discount", [0.0, 1e-20, 0.5, 0.99, 1.0])
@pytest.mark.parametrize("n_steps", [1, 2, 7])
def test_whatever_a_buffer_writes_it_loads_again(discount, n_steps):
    buffer = ReplayBuffer(60, BOX, DISCRETE, n_steps=n_steps, discount=discount, rng=0)
    for step in range(50):
        observation, action, _, after = numbered(step)
        buffer.add(observation, action, 1e30 * (-1) ** (step // 20), after, step % 11 == 10, truncated=step % 7 == 6)
    again = ReplayBuffer(60, BOX, DISCRETE, n_steps=n_steps, discount=discount)
    again.load_state_dict(buffer.state_dict())
    assert stays(again, buffer.state_dict())


@pytest.mark.parametrize("name", DAMAGE)
def test_damaged_states_are_refused_and_change_nothing(name):
    change, says = DAMAGE[name]
    state = filled(60, capacity=40, n_steps=3).state_dict()
    change(state)
    buffer = filled(30, capacity=40, n_steps=3, rng=1)
    before = buffer.state_dict()
    with pytest.raises(CheckpointError, match=says):
        buffer.load_state_dict(state)
    assert stays(buffer, before)


@pytest.mark.parametrize("rows", [25, 35])
def test_rows_without_items_are_refused_and_change_nothing(rows):
    state = filled(30, capacity=40).state_dict()
    state["transitions"] = filled(rows, capacity=40).state_dict()["transitions"]
    buffer = filled(12, capacity=40, rng=1)
    before = buffer.state_dict()
    with pytest.raises(ValueError, match=f"{rows} rows of transitions for 30"):
        buffer.load_state_dict(state)
    assert stays(buffer, before)
    assert np.array_equal(buffer.sample(5)[1].indices, filled(12, capacity=40, rng=1).sample(5)[1].indices)


def test_more_rows_than_there_is_room_for_are_refused():
    state = filled(12, capacity=10).state_dict()
    state["transitions"] = {name: np.repeat(column, 2, axis=0) for name, column in state["transitions"].items()}
    buffer = filled(5, capacity=10)
    before = buffer.state_dict()
    with pytest.raises(ValueError, match=r"columns of \[20\] rows"):
        buffer.load_state_dict(state)
    assert stays(buffer, before)


def test_anything_with_a_state_can_be_saved(tmp_path):
    class Counter:
        count = 3

        def state_dict(self):
            return {"count": self.count}

        def load_state_dict(self, state):
            self.count = state["count"]

    varmix.save(tmp_path / "counter.varmix", Counter())
    counter = Counter()
    counter.count = 0
    assert varmix.load(tmp_path / "counter.varmix", counter) is counter
    assert counter.count == 3
    assert checkpoint.read_checkpoint(tmp_path / "counter.varmix") == {"count": 3}
