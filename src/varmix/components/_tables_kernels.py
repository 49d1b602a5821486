"""Compiled loops that draw from tables: cumulative sums with guides.

The guide cuts [0, 1) into equal cells and stores the first index of each cell. A draw is one look-up and a search among
the few indices of its cell, for any number of atoms.
"""

import math

import numpy as np

from varmix._core.validation import AnyArray, FloatArray, IntArray
from varmix._kernels.allocate import spread_slots
from varmix._kernels.cost import weigh_draws
from varmix._kernels.jit import kernel


@kernel
def accumulate_sums(ratios: AnyArray, target: FloatArray, cumulative: FloatArray, largest: FloatArray) -> None:
    """Write the running sums of ratio times target and the largest ratios; an empty target is uniform."""
    columns = ratios.shape[1]
    n = ratios.shape[0]
    total = np.zeros(columns)
    uniform = target.shape[0] == 0
    largest[:] = 0.0
    for i in range(n):
        mass = 1.0 / n if uniform else target[i]
        for j in range(columns):
            ratio = float(ratios[i, j])
            total[j] += ratio * mass
            largest[j] = max(largest[j], ratio if mass > 0.0 else 0.0)
            cumulative[j, i] = total[j]


@kernel
def finish_sums(cumulative: FloatArray, guide: AnyArray, totals: FloatArray) -> None:
    """Scale running sums to end at one; write their guides and the sums before scaling.

    The first index of a cell is the number of sums at or below its lower edge. Counting has no branch to mispredict,
    unlike a walk from cell to cell.
    """
    n = cumulative.shape[1]
    cells = guide.shape[1] - 1
    for j in range(cumulative.shape[0]):
        total = cumulative[j, n - 1]
        totals[j] = total
        scale = 1.0 / total
        guide[j] = 0
        for i in range(n):
            # Exactly one after the last atom with mass, so that no atom without mass is ever drawn.
            value = 1.0 if cumulative[j, i] >= total else min(cumulative[j, i] * scale, 1.0)
            value = value if value >= 0.0 else 0.0
            cumulative[j, i] = value
            guide[j, math.ceil(value * cells)] += 1
        count = 0
        for cell in range(cells + 1):
            count += guide[j, cell]
            guide[j, cell] = min(count, n - 1)


@kernel
def look_up(cumulative: FloatArray, guide: AnyArray, lane: int, u: float) -> int:
    """Return the first index whose cumulative sum is above `u`."""
    cells = guide.shape[1] - 1
    cell = min(max(int(u * cells), 0), cells - 1)
    low = guide[lane, cell]
    high = guide[lane, cell + 1]
    while low < high:
        middle = (low + high) // 2
        if cumulative[lane, middle] > u:
            high = middle
        else:
            low = middle + 1
    return int(low)


@kernel
def draw_table(
    lanes: IntArray, uniforms: FloatArray, cumulative: FloatArray, guide: AnyArray, n: int, atoms: IntArray
) -> None:
    """Draw one atom per lane; a lane beyond the table is uniform on n atoms."""
    for r in range(lanes.shape[0]):
        if lanes[r] < cumulative.shape[0]:
            atoms[r] = look_up(cumulative, guide, lanes[r], uniforms[r])
        else:
            atoms[r] = min(max(int(uniforms[r] * n), 0), n - 1)


@kernel
def draw_rows(
    lanes: IntArray,
    uniforms: FloatArray,
    cumulative: FloatArray,
    guide: AnyArray,
    table: AnyArray,
    scale: FloatArray,
    atoms: IntArray,
    out: FloatArray,
) -> None:
    """Draw one atom per lane and write its ratios: `draw_table` and `gather_rows` in one call."""
    draw_table(lanes, uniforms, cumulative, guide, table.shape[0], atoms)
    gather_rows(table, scale, atoms, out)


@kernel
def gather_rows(table: AnyArray, scale: FloatArray, atoms: IntArray, out: FloatArray) -> None:
    """Write the scaled rows `atoms` of `table`; columns beyond it (the uniform component) are one."""
    columns = table.shape[1]
    for r in range(atoms.shape[0]):
        row = atoms[r]
        for j in range(columns):
            out[r, j] = table[row, j] * scale[j]
        for j in range(columns, out.shape[1]):
            out[r, j] = 1.0


@kernel
def store_block(
    block: FloatArray, target: FloatArray, given_ratios: bool, start: int, table: AnyArray, sums: FloatArray
) -> int:
    """Store a block of probabilities or ratios as ratios and add its mass to `sums`; return the first bad row, or -1.

    A row is bad if an entry is negative or not finite, has mass on an atom with target zero, or has a ratio beyond
    float32. An empty target is uniform.
    """
    uniform = target.shape[0] == 0
    n = table.shape[0]
    for i in range(block.shape[0]):
        mass = 1.0 / n if uniform else target[start + i]
        to_ratio = 1.0 if given_ratios else (float(n) if uniform else 1.0 / mass)
        to_mass = mass if given_ratios else 1.0
        for j in range(block.shape[1]):
            value = block[i, j]
            ratio = value * to_ratio if value > 0.0 else 0.0
            if not (value >= 0.0 and ratio < 1e38) or (value > 0.0 and mass == 0.0):
                return i
            table[start + i, j] = ratio
            sums[j] += value * to_mass
    return -1


@kernel
def draw_stratified(
    mixture: FloatArray,
    uniforms: FloatArray,
    cumulative: FloatArray,
    guide: AnyArray,
    table: AnyArray,
    scale: FloatArray,
    atoms: IntArray,
    ratios: FloatArray,
    density: FloatArray,
    weights: FloatArray,
) -> None:
    """Allocate slots, draw, gather ratios and weigh in one call: separate calls take longer than the work.

    The first half of the uniforms is for the slots, the second for the atoms.
    """
    m = atoms.shape[0]
    lanes = np.empty(m, dtype=np.int64)
    spread_slots(mixture, uniforms[:m], lanes)
    draw_rows(lanes, uniforms[m:], cumulative, guide, table, scale, atoms, ratios)
    weigh_draws(ratios, mixture, density, weights)
