"""A small DQN agent for CartPole."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from lab.arrays import FloatArray
from varmix.rl import Batch

Vector: TypeAlias = NDArray[np.float32]
Tensor: TypeAlias = Any


class Network:
    """A multilayer perceptron with rectified hidden layers, in single precision.

    Parameters
    ----------
    sizes
        Numbers of features, of units in each hidden layer, and of outputs.
    rng
        Generator of the initial values: uniform up to one over the root of a layer's inputs, as is usual.
    """

    def __init__(self, sizes: Sequence[int], rng: np.random.Generator) -> None:
        shapes = list(pairwise(sizes))
        values = [rng.uniform(-1, 1, (ins + 1) * outs) / np.sqrt(ins) for ins, outs in shapes]
        self.sizes = tuple(sizes)
        self.flat: Tensor = torch.from_numpy(np.concatenate(values).astype(np.float32))
        self.flat.grad = torch.zeros_like(self.flat)
        self.layers, gradients = _cut_views(self.flat, shapes), _cut_views(self.flat.grad, shapes)
        self._arrays = [(W.numpy(), b.numpy()) for W, b in self.layers]
        for parameter, gradient in zip(sum(self.layers, ()), sum(gradients, ()), strict=True):
            parameter.requires_grad_()
            parameter.grad = gradient  # `backward` adds to it in place

    def __call__(self, x: Tensor) -> Tensor:
        """Return the outputs (rows, outputs) of features (rows, features), for `backward`."""
        for W, b in self.layers[:-1]:
            x = torch.addmm(b, x, W).relu_()
        W, b = self.layers[-1]
        return torch.addmm(b, x, W)

    def plain(self, x: Vector) -> Vector:
        """Return the outputs of one or many rows of features by NumPy, where no gradient is needed."""
        for W, b in self._arrays[:-1]:
            x = x @ W
            x += b
            np.maximum(x, 0.0, out=x)
        W, b = self._arrays[-1]
        return np.asarray(x @ W + b)

    def copy(self) -> "Network":
        """Return a copy with its own parameters."""
        twin = Network(self.sizes, np.random.default_rng(0))
        twin.flat.copy_(self.flat)
        return twin


def _cut_views(flat: Tensor, shapes: Sequence[tuple[int, int]]) -> list[tuple[Tensor, Tensor]]:
    """Return views of a vector as the matrix and the bias of every layer."""
    found, place = [], 0
    for ins, outs in shapes:
        end = place + ins * outs
        found.append((flat[place:end].view(ins, outs), flat[end : end + outs]))
        place = end + outs
    return found


@dataclass(frozen=True)
class Settings:
    """Settings of the agent, the same for all arms; chosen with uniform replay on seeds 900 to 907.

    The chance of a random action falls from one to `least_chance`, by half every `half_life` steps.
    """

    hidden: tuple[int, ...] = (64, 64)
    discount: float = 0.99
    step: float = 1e-3
    soft: float = 0.01
    clip: float = 10.0
    batch: int = 64
    capacity: int = 20_000
    warm_up: int = 64
    half_life: float = 1000.0
    least_chance: float = 0.02

    def chance(self, steps: int) -> float:
        """Return the chance of a random action after so many steps."""
        return float(max(self.least_chance, 0.5 ** (steps / self.half_life)))


class Agent:
    """A DQN agent with two networks: one learns and acts, the other follows it slowly and estimates future rewards.

    The temporal difference error of a transition is

        delta = Q(s, a) - ( reward + discount * Q'(s', argmax_b Q(s', b)) )

    with Q' the slow network, and a step goes down the gradient of the mean of weight * delta^2.
    """

    def __init__(self, features: int, actions: int, settings: Settings, rng: np.random.Generator) -> None:
        self.settings = settings
        self.online = Network([features, *settings.hidden, actions], rng)
        self.slow = self.online.copy()
        self._adam = torch.optim.Adam([self.online.flat], settings.step, fused=True)

    def act(self, observation: Vector) -> int:
        """Return the action with the highest estimated value."""
        return int(self.online.plain(observation).argmax())

    def learn(self, batch: Batch, weights: FloatArray) -> FloatArray:
        """Take one step, let the slow network follow, and return the errors from before the step."""
        values = self.online(torch.from_numpy(batch.observations)).gather(1, torch.from_numpy(batch.actions)[:, None])
        errors = values.detach().numpy()[:, 0] - self._goals(batch)
        slopes = (2.0 / len(weights) * weights * errors).astype(np.float32)  # of the mean of weight * delta^2
        self.online.flat.grad.zero_()
        values.backward(torch.from_numpy(slopes[:, None]))
        self._clip()
        self._adam.step()
        self.slow.flat.lerp_(self.online.flat, self.settings.soft)
        return np.asarray(errors, dtype=np.float64)

    def errors(self, batch: Batch) -> FloatArray:
        """Return the temporal difference errors of a batch without learning from them."""
        values = self.online.plain(batch.observations)[np.arange(len(batch.actions)), batch.actions]
        return np.asarray(values - self._goals(batch), dtype=np.float64)

    def _goals(self, batch: Batch) -> Vector:
        """Return rewards plus the slow network's discounted values of the next actions of the online network."""
        best = self.online.plain(batch.next_observations).argmax(1)
        value = self.slow.plain(batch.next_observations)[np.arange(len(best)), best]
        return np.asarray(batch.rewards + batch.discounts * value)

    def _clip(self) -> None:
        """Clip the gradient to the largest allowed length: weighted squares are not bounded otherwise."""
        length = float(torch.linalg.vector_norm(self.online.flat.grad))
        if length > self.settings.clip:
            self.online.flat.grad.mul_(self.settings.clip / length)
