"""Sources of streams that several test files share."""

import random


class Counting:
    """A source with its own state; every epoch has another order, which depends on that state only."""

    def __init__(self, n, seed=0):
        self.n, self.seed, self.epochs, self.position, self.asked = n, seed, -1, 0, 0
        self._loaded = False

    def __iter__(self):
        if self._loaded:
            self._loaded = False
        else:
            self.epochs, self.position = self.epochs + 1, 0
        order = list(range(self.n))
        random.Random(self.seed + self.epochs).shuffle(order)
        while self.position < self.n:
            self.position += 1
            yield self.epochs * 1000 + order[self.position - 1]

    def state_dict(self):
        self.asked += 1
        return {"epochs": self.epochs, "position": self.position}

    def load_state_dict(self, state):
        self.epochs, self.position, self._loaded = state["epochs"], state["position"], True


class Shuffled:
    """A source without a state that shuffles by the number that `set_epoch` sets."""

    def __init__(self, n):
        self.n, self.epoch = n, 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __iter__(self):
        order = list(range(self.n))
        random.Random(self.epoch).shuffle(order)
        return iter(order)


class Keyed:
    """Samples (key, 0), (key, 1), ...: they show whether one is lost or comes twice."""

    def __init__(self, key, n):
        self.key, self.n = key, n

    def __iter__(self):
        return ((self.key, i) for i in range(self.n))


def loudness(batch):
    """Return norms that differ between sources and between samples."""
    keys, numbers = batch
    return (1 + 3.0 * (keys % 3)) * (1 + 0.1 * (numbers % 7))


def went(interleave, steps):
    """Return batches, weights and mixtures of this many steps, fewer if the stream ends."""
    seen = []
    for _, (batch, draw) in zip(range(steps), interleave, strict=False):
        interleave.update(draw, loudness(batch))
        seen.append(([part.tolist() for part in batch], draw.weights.tolist(), interleave.mixture.tolist()))
    return seen
