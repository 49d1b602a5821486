"""The regression of section 6.2 with a PyTorch step, for the time that it takes: sampler, set-up and autograd."""

import time

import numpy as np

from varmix._core.validation import FloatArray
from lab.experiments.kdpp.regression import ARMS
from lab.experiments.kdpp.regression import SIZE
from lab.experiments.kdpp.regression import Regression
from varmix.learners import Fixed


def timed_descent(data: Regression, arm: str, seed: int, step: float, iterations: int) -> tuple[FloatArray, FloatArray]:
    """Give the seconds since the start, set-up included, and the relative excess error, after every iteration.

    The errors are worked out afterwards, so that looking at them costs no arm anything.
    """
    import torch

    torch.set_num_threads(1)
    X, y = torch.from_numpy(data.X), torch.from_numpy(data.y)
    theta = torch.zeros(data.X.shape[1], dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.SGD([theta], lr=step)
    seconds, thetas = np.zeros(iterations + 1), np.zeros((iterations + 1, data.X.shape[1]))
    start = time.perf_counter()
    sampler = ARMS[arm](data, seed)
    learns = not isinstance(sampler.learner, Fixed)
    for t in range(1, iterations + 1):
        draw = sampler.draw(1)
        points = torch.tensor(draw.indices[0])
        rows = X[points]
        residual = rows @ theta - y[points]
        loss = (torch.tensor(draw.weights.reshape(-1)) * residual.square()).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.param_groups[0]["lr"] = step / t**0.5
        optimiser.step()
        if learns:
            sampler.update(draw, [2.0 / SIZE * float(torch.linalg.vector_norm(residual.detach() @ rows))])
        seconds[t] = time.perf_counter() - start
        thetas[t] = theta.detach().numpy()
        if not np.abs(thetas[t]).max() < 1e9:  # diverged: infinity from here on, as in `descend`
            thetas[t:], seconds[t:] = np.inf, seconds[t]
            break
    off = thetas - data.best
    with np.errstate(invalid="ignore"):
        excess = np.einsum("ti,ij,tj->t", off, data.A, off)
    return seconds, np.where(np.isfinite(excess), excess, np.inf) / excess[0]
