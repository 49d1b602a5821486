"""Compiled loops that draw subsets of points, listed in ascending order."""

from varmix._core.validation import AnyArray, FloatArray, IntArray
from varmix._kernels.jit import kernel
from varmix._kernels.random import seed_state, uniform


@kernel
def insert_point(points: IntArray, count: int, point: int) -> bool:
    """Insert `point` into the first `count` points, in order; return False if it is there already."""
    place = count
    while place > 0 and points[place - 1] > point:
        place -= 1
    if place > 0 and points[place - 1] == point:
        return False
    for i in range(count, place, -1):
        points[i] = points[i - 1]
    points[place] = point
    return True


@kernel
def fill_uniformly(points: IntArray, count: int, n: int, state: AnyArray) -> None:
    """Fill a set that has `count` points with points drawn uniformly from the others.

    It draws the rank among the other points and steps over the points below, so it needs one random number per point
    and no rejections.
    """
    for have in range(count, points.shape[0]):
        rest = n - have
        point = min(int(uniform(state) * rest), rest - 1)
        place = 0
        while place < have and points[place] <= point:
            point += 1
            place += 1
        for i in range(have, place, -1):
            points[i] = points[i - 1]
        points[place] = point


@kernel
def draw_subsets(uniforms: FloatArray, n: int, atoms: IntArray) -> None:
    """Draw every row uniformly among the subsets of n points, using two uniforms for all of them."""
    state = seed_state(uniforms)
    for r in range(atoms.shape[0]):
        fill_uniformly(atoms[r], 0, n, state)
