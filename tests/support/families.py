"""One small example of every family and every learner, for tests that hold for all of them."""

import numpy as np

from varmix import Dense, Distances, Groups, KDpp, Replay, Stack, Uniform
from varmix._core.draw import seal_draw
from varmix.components import (
    Cumulative,
    Exponential,
    Family,
    MirrorDescent,
    Points,
    Ranks,
    Sources,
    Subsets,
    with_uniform,
)
from varmix.learners import OGD, ONS, BarrierNewton, Cautious, Fixed, Leader, Neyman

N = 40
LABELS = np.repeat([3, 5, 9], [4, 12, 24])
TARGET = np.where(np.arange(N) % 7 == 0, 0.0, 1.0 + np.arange(N) % 3)
SOURCES = np.array([5.0, 1.0, 0.5])[np.searchsorted([3, 5, 9], LABELS)]  # a target that is constant inside groups


def probabilities(seed=0, k=3, target=None):
    table = np.random.default_rng(seed).gamma(0.5, size=(N, k))
    if target is not None:
        table[target == 0] = 0.0
    return table / table.sum(axis=0)


def features(seed=1):
    return np.random.default_rng(seed).normal(size=(N, 2)) * np.linspace(0.1, 3, N)[:, None]


def use_general_sample(family):
    """Return the family without its fast path: as a subclass that leaves `sample` to the base class."""
    family.__class__ = type("General", (type(family),), {"sample": Family.sample})
    return family


class Drifting(Family):
    """Two components that change after every feedback, as a replay buffer does (section 6.3)."""

    def __init__(self):
        self.space, self.k, self.c = Points(N), 2, float(N)
        self._scores = np.ones(N)

    def _ratios(self):
        return np.column_stack([self._scores / self._scores.mean(), np.ones(N)])

    def draw(self, lanes, uniforms):
        table = self._ratios()
        cumulative = np.cumsum(table, axis=0) / N
        u = uniforms.take(len(lanes))
        pairs = zip(lanes, u, strict=True)
        atoms = np.array([np.searchsorted(cumulative[:, j], v, side="right") for j, v in pairs], dtype=np.int64)
        atoms = np.minimum(atoms, N - 1)
        return atoms, table[atoms]

    def ratios(self, atoms):
        return self._ratios()[atoms]

    def observe(self, draw, norms):
        self._scores[draw.indices] = norms + 0.1

    def state_dict(self):
        return super().state_dict() | {"scores": self._scores.copy()}

    def load_state_dict(self, state):
        if set(state) != set(self.state_dict()):
            raise ValueError("not a Drifting state")
        self._scores = np.array(state["scores"])


FAMILIES = {
    "uniform": lambda: Uniform(N),
    "uniform, target": lambda: Uniform(Points(N, TARGET)),
    "dense": lambda: Dense(probabilities()),
    "dense, uniform": lambda: with_uniform(Dense(probabilities())),
    "dense, target": lambda: with_uniform(Dense(probabilities(target=TARGET), target=TARGET)),
    "dense, one component": lambda: with_uniform(Dense(probabilities(k=1))),
    "groups": lambda: Groups(LABELS),
    "groups, uniform": lambda: with_uniform(Groups(LABELS)),
    "groups, smoothed": lambda: with_uniform(Groups(LABELS, smoothing=0.2)),
    "groups, target": lambda: with_uniform(Groups(LABELS, target=TARGET)),
    "groups, smoothed, target": lambda: Groups(LABELS, smoothing=0.3, target=TARGET),
    "groups, resplit": lambda: with_uniform(Groups(LABELS, resplit="norms")),
    "groups, smoothed, resplit, sources": lambda: Groups(LABELS, smoothing=0.2, target=SOURCES, resplit="norms"),
    "groups, sources": lambda: with_uniform(Groups(LABELS, target=SOURCES)),
    "distances": lambda: with_uniform(Distances(features(), features()[:3])),
    "distances, target": lambda: with_uniform(Distances(features(), features()[:3], target=TARGET)),
    "stack": lambda: Stack(Dense(probabilities()), Groups(LABELS), Uniform(N)),
    "stack, uniform": lambda: with_uniform(Groups(LABELS, smoothing=0.1), Distances(features(), features()[:2])),
    "drifting": Drifting,
}


def taught(family):
    """Give the family after feedback that has made its law uneven."""
    n, target = family.space.n, family.space.target
    everyone = np.arange(n) if target is None else np.flatnonzero(target)
    for i in range(3):
        atoms = np.concatenate([everyone[i::2], everyone[:5], everyone[:2]])  # some of them more than once
        ratios, density = np.ones((len(atoms), family.k)), np.linspace(0.5, 2.0, len(atoms))
        receipt = seal_draw(atoms, np.ones(len(atoms)), ratios, density, i, "taught")
        family.observe(receipt, 0.1 + (atoms * 7 % n) ** 2 / n)
    return family


FAMILIES |= {
    "cumulative": lambda: taught(Cumulative(N)),
    "cumulative, untaught": lambda: with_uniform(Cumulative(N)),
    "cumulative, uniform": lambda: with_uniform(taught(Cumulative(N, gamma=0.5))),
    "cumulative, gamma by point": lambda: with_uniform(taught(Cumulative(N, gamma=0.1 + np.arange(N)))),
    "cumulative, target": lambda: with_uniform(taught(Cumulative(Points(N, TARGET)))),
    "cumulative and groups": lambda: with_uniform(taught(Cumulative(N)), Groups(LABELS)),
    "exponential": lambda: taught(Exponential(N)),
    "exponential, uniform": lambda: with_uniform(taught(Exponential(N, step=0.01))),
    "exponential, target": lambda: with_uniform(taught(Exponential(Points(N, TARGET)))),
    "mirror descent": lambda: taught(MirrorDescent(N, step=0.02)),
    "mirror descent, relative": lambda: taught(MirrorDescent(N, floor=0.3)),
    "ranks": lambda: taught(Ranks(N, period=10)),
    "ranks, unsorted": lambda: Ranks(N),
}


def replayed(count=55, capacity=N):
    """Give a replay with items of very different errors, some overwritten, some heard of since."""
    replay = Replay(capacity, [(0.01, 0.9), (1.0, 0.5), (0.0, 0.1)])
    replay.insert(count, np.geomspace(1e-3, 1e2, count))
    replay.insert(3)
    replay.set_delta(np.arange(count)[::4], np.linspace(0.0, 3.0, len(range(0, count, 4))))
    return replay


FAMILIES |= {
    "replay": replayed,
    "replay, uniform": lambda: with_uniform(replayed()),
    "replay, growing": lambda: with_uniform(replayed(count=20)),
}


def ended(family, *sources):
    """Give the sources after these have ended."""
    for source in sources:
        family.drop(source)
    return family


SHARES = [4.0, 1.0, 2.0, 0.5, 2.5]

FAMILIES |= {
    "sources": lambda: Sources(5),
    "sources, uniform": lambda: with_uniform(Sources(5)),
    "sources, target": lambda: with_uniform(Sources(list("abcde"), SHARES)),
    "sources, some ended": lambda: ended(with_uniform(Sources(5, SHARES)), 3, 0),
    "sources, bare, some ended": lambda: ended(Sources(5, SHARES), 1, 4),
}

FEW, SIZE = 9, 3  # so few that all sets can be listed


def rows(d=3, seed=2):
    return np.random.default_rng(seed).normal(size=(FEW, d)) * np.linspace(0.3, 2, FEW)[:, None]


def kernel():
    X = rows()
    return np.exp(-((X[:, None] - X) ** 2).sum(axis=2) / 2)


FAMILIES |= {
    "uniform subsets": lambda: Uniform(Subsets(FEW, SIZE)),
    "k-dpp": lambda: KDpp(rows(), SIZE, [0.1, 1.0, 10.0]),
    "k-dpp, uniform": lambda: with_uniform(KDpp(rows(), SIZE, [0.1, 1.0, 10.0])),
    "k-dpp, no ridge": lambda: with_uniform(KDpp(rows(), SIZE, [0.0, 1.0])),
    "k-dpp, more points than features": lambda: with_uniform(KDpp(rows(d=2), 4, [0.5])),
    "k-dpp, from kernel": lambda: with_uniform(KDpp.from_kernel(kernel(), SIZE, [0.0, 0.5])),
    "k-dpps, stacked": lambda: with_uniform(KDpp(rows(), SIZE, [0.1]), KDpp.from_kernel(kernel(), SIZE)),
}

# Reshuffled groups are not independent draws, so the chi-square of the contract does not apply to them.
RESHUFFLED = {
    "reshuffled": lambda: with_uniform(Groups(LABELS, replacement=False)),
    "reshuffled, bare": lambda: Groups(LABELS, replacement=False),
    "reshuffled, sources": lambda: with_uniform(Groups(LABELS, replacement=False, target=SOURCES)),
    "reshuffled, resplit": lambda: with_uniform(Groups(LABELS, replacement=False, resplit="norms")),
    "reshuffled, resplit, bare": lambda: Groups(LABELS, replacement=False, resplit="norms"),
}

LEARNERS = {
    "barrier newton": BarrierNewton,
    "barrier newton, window": lambda: BarrierNewton(window=50),
    "ons": ONS,
    "ons, pgd": lambda: ONS(projection="pgd", refactor=7),
    "ogd": OGD,
    "ogd, fixed step": lambda: OGD(step_size=0.01),
    "leader": lambda: Leader(window=25),
    "neyman": lambda: Neyman([0.2, 0.3, 0.5]),
    "nested neyman": lambda: Neyman([0.2, 0.3, 0.5], parents=["a", "b", "b"]),
    "fixed": Fixed,
    "cautious": Cautious,
    "cautious, nearly": lambda: Cautious(off_below=1.0, on_above=1.01, window=2),
    "cautious leader": lambda: Cautious(Leader(window=25), off_below=1.0, on_above=1.01, window=2),
}
