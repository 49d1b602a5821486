"""n-step returns: pending transitions, in a ring of n places per environment."""

from varmix._core.validation import BoolArray
from varmix._core.validation import FloatArray
from varmix._core.validation import IntArray
from varmix._kernels.jit import kernel


@kernel
def push(
    environments: IntArray,
    rewards: FloatArray,
    ended: BoolArray,
    powers: FloatArray,
    returns: FloatArray,
    head: IntArray,
    count: IntArray,
    newest: IntArray,
    ready: IntArray,
) -> int:
    """Add one transition of each of m environments, reward all that are pending there, and list those that are done.

    `powers` (n + 1,) are those of the discount.  The rings are in `returns` (environments * n,), the oldest of each at
    its `head`, `count` of them.  `newest` (m,) gets the places of the new ones.  `ready` (3, m * n) gets the row, place
    and number of steps of the transitions that are done, by row and then the oldest first; their number is given.
    """
    n, found = len(powers) - 1, 0
    for row in range(len(environments)):
        environment = environments[row]
        base, first = environment * n, head[environment]
        pending = count[environment] + 1
        newest[row] = base + (first + pending - 1) % n
        returns[newest[row]] = 0.0
        gone = pending if ended[row] else int(pending == n)
        for position in range(pending):
            place = base + (first + position) % n
            steps = pending - position
            returns[place] += powers[steps - 1] * rewards[row]
            if position < gone:
                ready[0, found], ready[1, found], ready[2, found] = row, place, steps
                found += 1
        head[environment], count[environment] = (first + gone) % n, pending - gone
    return found
