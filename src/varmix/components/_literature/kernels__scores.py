"""Scores that feedback changes: sums of squared norms, and exponential weights."""

import math

from varmix._core.validation import FloatArray
from varmix._core.validation import IntArray
from varmix._kernels.jit import kernel


@kernel
def add_squares(
    squares: FloatArray, atoms: IntArray, norms: FloatArray, density: FloatArray, masses: FloatArray
) -> float:
    """Add l^2 / (d mass) to the sum of every drawn atom, as often as it was drawn; give the total of l^2 / d."""
    total: float = 0.0
    uniform = masses.shape[0] == 0
    for r in range(atoms.shape[0]):
        value = norms[r] * norms[r] / density[r]
        squares[atoms[r]] += value if uniform else value / masses[atoms[r]]
        total += value
    return total


@kernel
def root_scores(
    squares: FloatArray, gamma: FloatArray, level: float, masses: FloatArray, atoms: IntArray, out: FloatArray
) -> None:
    """Write mass sqrt(squares + gamma), with one gamma for all (`level`) where `gamma` is empty."""
    for r in range(atoms.shape[0]):
        i = atoms[r]
        root = math.sqrt(squares[i] + (level if gamma.shape[0] == 0 else gamma[i]))
        out[r] = root if masses.shape[0] == 0 else masses[i] * root


@kernel
def exponential_scores(logs: FloatArray, offset: float, masses: FloatArray, atoms: IntArray, out: FloatArray) -> None:
    """Write mass exp(log - offset)."""
    for r in range(atoms.shape[0]):
        i = atoms[r]
        weight = math.exp(logs[i] - offset)
        out[r] = weight if masses.shape[0] == 0 else masses[i] * weight
