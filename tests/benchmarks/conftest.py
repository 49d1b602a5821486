"""Peers for tests: stand-ins that need no installation, and no peers at all."""

import sys
from types import ModuleType

import numpy as np
import pytest


def module(name, **content):
    made = ModuleType(name)
    vars(made).update(content)
    return made


@pytest.fixture
def stand_ins(monkeypatch):
    """Stand-ins with only those functions of the peers that the benchmarks call."""

    class FiniteDPP:
        def __init__(self, kind, L):
            assert kind == "likelihood"
            self.n = len(L)

        def sample_exact_k_dpp(self, size, random_state):
            return random_state.choice(self.n, size, replace=False).tolist()

    class Replays:
        def __init__(self, size, fields, alpha, eps):
            assert {"obs", "act", "rew", "next_obs", "done"} == set(fields)
            self.size = size

        def add(self, obs, act, rew, next_obs, done):
            return 0

        def sample(self, count, beta):
            return {"indexes": np.zeros(count, dtype=np.int64)}

        def update_priorities(self, indexes, priorities):
            assert indexes.shape == priorities.shape

    samplers = module("torch.utils.data", RandomSampler=iter, WeightedRandomSampler=lambda weights, m: weights[:m])
    utils = module("torch.utils", data=samplers)
    torch = module("torch", utils=utils, rand=np.ones, set_num_threads=lambda number: None)
    dpps = module("dppy.finite_dpps", FiniteDPP=FiniteDPP)
    cpprb = module("cpprb", PrioritizedReplayBuffer=Replays)
    for made in (torch, utils, samplers, module("dppy", finite_dpps=dpps), dpps, cpprb):
        monkeypatch.setitem(sys.modules, made.__name__, made)


@pytest.fixture
def no_peers(monkeypatch):
    """Make every import of a peer fail, whether it is installed or not."""
    for name in ("torch", "torch.utils.data", "dppy", "dppy.finite_dpps", "cpprb"):
        monkeypatch.setitem(sys.modules, name, None)


@pytest.fixture(autouse=True)
def commands_of_an_active_environment(active):
    """Make messages contain the same commands in every environment."""
