"""Plants: targets with known defects, which the harness must find."""

import ctypes
import time

import numpy as np
from numba import njit

from fuzz.targets import Target, demand
from varmix import CheckpointError
from varmix._core.state import read_array, require_entries, wrap_load_errors


class Sound:
    """Draws by a table of places, as kernels do; it checks what it loads, and changes nothing when it refuses."""

    def __init__(self, rng):
        self.places, self.scale, self.rounds = np.arange(8), 1.0, rng

    def state_dict(self):
        return {"places": self.places.copy(), "scale": self.scale, "rounds": self.rounds}

    def load_state_dict(self, state):
        with wrap_load_errors("a plant"):
            require_entries(state, {"places", "scale", "rounds"}, "a plant")
            places = read_array(state, "places", np.int64, (8,), least=0, most=7)
            if type(state["scale"]) is not float or not 0 < state["scale"] < 100:
                raise CheckpointError("scale must be a positive number below 100")
            if type(state["rounds"]) is not int or not 0 <= state["rounds"] < 2**40:
                raise CheckpointError("rounds must be a count")
        self.places, self.scale, self.rounds = places, state["scale"], state["rounds"]


class Trusting(Sound):
    """Takes whatever it is given."""

    def load_state_dict(self, state):
        with wrap_load_errors("a plant"):
            require_entries(state, {"places", "scale", "rounds"}, "a plant")
            self.places, self.scale, self.rounds = np.array(state["places"]), state["scale"], state["rounds"]


class Hasty(Sound):
    """Changes one thing before it has checked the next."""

    def load_state_dict(self, state):
        if isinstance(state, dict) and type(state.get("rounds")) is int:
            self.rounds = state["rounds"]
        super().load_state_dict(state)


class Rude(Sound):
    """Refuses by whatever error comes."""

    def load_state_dict(self, state):
        if {"places", "scale", "rounds"} - set(state):
            raise KeyError("an entry is missing")
        super().load_state_dict(state)


class Sharing(Sound):
    """Keeps the arrays of the state."""

    def load_state_dict(self, state):
        super().load_state_dict(state)
        self.places = state["places"]


class Chatty(Sound):
    """Prints what it was given."""

    def load_state_dict(self, state):
        try:
            super().load_state_dict(state)
        except CheckpointError:
            raise CheckpointError(f"not a state: {state}") from None


class Greedy(Sound):
    """Allocates as much as the state asks for."""

    def load_state_dict(self, state):
        with wrap_load_errors("a plant"):
            np.ones(state["rounds"] * 2**22)
            super().load_state_dict(state)


class Slow(Sound):
    """Computes for as long as the state asks for."""

    def load_state_dict(self, state):
        super().load_state_dict(state)
        while self.rounds == 2**31:
            pass


class Waiting(Sound):
    """Waits for ever, as whoever opens a pipe does."""

    def load_state_dict(self, state):
        super().load_state_dict(state)
        if self.rounds == 2**31:
            time.sleep(10_000)


class Deadly(Sound):
    """Reads from where nothing is."""

    def load_state_dict(self, state):
        super().load_state_dict(state)
        if self.rounds == 2**31:
            ctypes.string_at(0)


class Foreigner(Sound):
    """Takes the state of another object for its own."""


@njit
def _gather(table, places):
    total = 0.0
    for place in places:
        total += table[place]
    return total


def play(plant, rng, batches):
    """Look something up by a compiled kernel, which must check bounds."""
    for _ in range(batches):
        value = plant.scale * _gather(np.ones(8), plant.places)
        demand(np.isfinite(value) and value > 0, f"value {value}")
        plant.rounds += 1


def plants():
    """Yield the plants, the sound one first."""
    for plant in (Sound, Trusting, Hasty, Rude, Sharing, Chatty, Greedy, Slow, Waiting, Deadly):
        yield Target(plant.__name__, plant, play, lambda plant: play(plant, None, 3), seconds=0.5)
    yield Target("Foreigner", Foreigner, play, lambda plant: None, (lambda: Foreigner(3),))
