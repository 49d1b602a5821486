"""Coordinate descent, by coordinates or blocks, over any sampler."""

from typing import Literal, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike

from varmix._core.validation import AnyArray, FloatArray, IntArray, as_array, as_vector, read_only
from varmix._kernels import rows as by_row
from varmix._kernels.rows import Rows
from varmix._sampler import Sampler, Source
from varmix.components._labels import encode_labels
from varmix.solvers import _kernels as kernels
from varmix.solvers._kernels import values_and_slopes
from varmix.solvers._linear import Linear
from varmix.solvers._loop import AfterEpoch, Callback, Result, optimise, starting_point
from varmix.solvers._problems import Problem, mean_gradient
from varmix.solvers.schedules import Schedule


class BlockLayout:
    """Which coordinates each atom holds: one, or those with one label.

    Examples
    --------
    >>> layout = BlockLayout(4, ["b", "a", "b", "b"])
    >>> layout.start.tolist(), layout.members.tolist()
    ([0, 1, 4], [1, 0, 2, 3])
    """

    def __init__(self, dim: int, blocks: ArrayLike | None = None) -> None:
        self.what = "coordinates" if blocks is None else "blocks of coordinates"
        labels = np.arange(dim) if blocks is None else as_array(blocks, "blocks")
        if labels.shape != (dim,):
            raise ValueError(f"blocks must be one label per coordinate: expected shape ({dim},), got {labels.shape}.")
        _, codes = encode_labels(labels)
        self.sizes: IntArray = np.bincount(codes).astype(np.int64)
        self.start: IntArray = np.concatenate([[0], np.cumsum(self.sizes)]).astype(np.int64)
        self.members: IntArray = np.argsort(codes, kind="stable").astype(np.int64)

    def __len__(self) -> int:
        return len(self.sizes)

    def inside(self, b: int) -> IntArray:
        """Give the coordinates of block b."""
        return self.members[self.start[b] : self.start[b + 1]]


def columns_of(problem: Linear) -> Rows:
    """Give the columns as rows: a copy of X in the other order, with ones behind it for an intercept.

    Examples
    --------
    >>> columns_of(Linear([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], [1.0, 1.0, -1.0])).dense
    array([[1., 3., 5.],
           [2., 4., 6.]])
    """
    rows, n, d, dim = problem.rows, problem.n, problem.features, problem.dim
    if not len(rows.indptr):
        dense = np.ones((dim, n), dtype=rows.dense.dtype)
        dense[:d] = rows.dense.T
        return Rows(read_only(dense), rows.data, rows.indices, rows.indptr)
    size = len(rows.data)
    ones = n if problem.intercept else 0
    starts, points = np.zeros(dim + 1, dtype=np.int64), np.empty(size + ones, dtype=np.int64)
    data: AnyArray = np.empty(size + ones, dtype=rows.data.dtype)
    kernels.transpose_rows(rows, n, starts[: d + 1], points, data)
    if problem.intercept:
        starts[-1] = size + n
        points[size:], data[size:] = np.arange(n), 1.0
    return Rows(rows.dense, *map(read_only, (data, points, starts)))


def block_lipschitz(problem: Linear, columns: Rows, start: IntArray, members: IntArray) -> FloatArray:
    """Give how fast the gradient of F inside each block can change: curvature |C^1/2 X_B|^2 / n + l2.

    The norm is the spectral one, from the eigenvalues of a matrix of the block's size; a block of one is a column.
    """
    squares = np.empty(problem.dim)
    kernels.write_squares(columns, problem.costs, squares)
    squares = squares[members[start[:-1]]]
    for b in np.flatnonzero(np.diff(start) > 1):
        inside = members[start[b] : start[b + 1]]
        block = np.zeros((len(inside), problem.n))
        by_row.scaled_rows(columns, inside, np.ones(len(inside)), block)
        weighted = block * problem.costs if len(problem.costs) else block
        squares[b] = np.linalg.eigvalsh(weighted @ block.T)[-1]
    # An intercept alone in its block has no penalty; elsewhere counting one only shortens its steps.
    free = problem.intercept & (np.diff(start) == 1) & (members[start[:-1]] == problem.features)
    return problem.curvature * squares / problem.n + np.where(free, 0.0, problem.l2)


EPOCHS_PER_REFRESH = 16  # epochs after which margins are computed anew: until then rounding is far below 1e-12


class Options(TypedDict, total=False):
    """What coordinate descent takes as all solvers do; see `varmix.solvers.optimise`."""

    epochs: int
    tol: float | None
    patience: int
    evaluations_per_epoch: int
    batches_per_update: int | None
    progress: bool
    callback: Callback | None
    after_epoch: AfterEpoch | None
    rng: int | np.random.Generator | None


def coordinate_descent(
    problem: Problem,
    sampler: Sampler | Source,
    *,
    step: float | Schedule | Literal["lipschitz"],
    blocks: ArrayLike | None = None,
    lipschitz: ArrayLike | None = None,
    start: ArrayLike | None = None,
    batch: int = 1,
    **options: Unpack[Options],
) -> Result:
    """Move one coordinate (or block) at a time, along the partial derivative of F, penalty included.

    With a number or a schedule as `step`, the step is the unbiased estimate of the gradient of F: a batch moves by
    the mean of weight * number of atoms * partial derivative, each along its own coordinate.  With "lipschitz", each
    coordinate moves by 1/L_j of its partial derivative (Nesterov, 2012): no weight is needed, because every step
    decreases F whichever coordinate is drawn; those of a batch move one after the other.  The sampler learns from the
    absolute partial derivatives, or the lengths of the blocks' gradients.

    For `Linear` a draw costs its columns: a copy of X in the other order and the margins of all points are kept.  Any
    other problem computes the whole gradient for every batch, from all points.  Evaluations are partial derivatives
    (the whole gradient: dim of them); an epoch is as many draws as there are atoms; `tol` looks at F where an epoch
    begins.

    Parameters
    ----------
    problem
        What to minimise.
    sampler
        Where the coordinates come from, over `Points(problem.dim)`, or `Points(number of blocks)`.  `Groups` of
        coordinates draw single coordinates.
    step
        A number, a schedule, or "lipschitz".
    blocks
        (dim,) one label per coordinate; block b holds the coordinates with the b-th label in sorted order.
    lipschitz
        The constants L, one per atom, for "lipschitz"; `Linear` knows its own.
    start
        Where to start; zeros unless told.
    batch
        Atoms in a batch.
    options
        As in `varmix.solvers.optimise`.

    Examples
    --------
    >>> import varmix
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 4)) * [1.0, 1.0, 2.0, 8.0]
    >>> problem = Linear(X, X @ [1.0, 0.0, -1.0, 2.0], loss="squared", l2=0.01)
    >>> sampler = varmix.vrm(varmix.Groups([0, 1, 2, 3]), rng=0)
    >>> result = coordinate_descent(problem, sampler, step="lipschitz", epochs=40)
    >>> bool(np.linalg.norm(problem.full_gradient(result.theta)) < 1e-8)
    True
    """
    theta, layout = starting_point(start, problem), BlockLayout(problem.dim, blocks)
    linear = isinstance(problem, Linear)
    method = (CompiledCoordinates if linear else Coordinates)(problem, theta, layout, batch)
    if isinstance(step, str):
        if step != "lipschitz":
            raise ValueError(f"step must be a number, a schedule or 'lipschitz', got {step!r}.")
        method.use_lipschitz(lipschitz)
        step = 1.0
    elif lipschitz is not None:
        raise TypeError("lipschitz holds the constants of step='lipschitz': with another step leave it out.")
    return optimise(problem, sampler, method, step=step, batch=batch, **options)


class Coordinates:
    """For any problem: the whole gradient, of which the drawn part is used."""

    compiled = False

    def __init__(self, problem: Problem, theta: FloatArray, layout: BlockLayout, batch: int) -> None:
        self.problem, self.theta, self.layout, self.batch = problem, theta, layout, batch
        self.atoms, self.what = len(layout), layout.what
        self.inverses = np.empty(0)
        self.objective = np.nan

    def use_lipschitz(self, constants: ArrayLike | None) -> None:
        """Take exact steps from now on."""
        values = self.constants() if constants is None else as_vector(constants, "lipschitz", self.atoms)
        if values.min() < 0:
            raise ValueError(f"lipschitz must not be negative; the least is {values.min():.3g}.")
        # Where the constant is zero the partial derivative never changes: it is zero, or F has no minimum.
        self.inverses = np.divide(1.0, values, out=np.zeros(self.atoms), where=values > 0)

    def constants(self) -> FloatArray:
        """Give the constants of the blocks, where they are known."""
        raise ValueError(
            f"{self.problem!r} does not know how fast its partial derivatives change. Give lipschitz=, one constant "
            f"per atom, or a number or a schedule as step."
        )

    def begin_epoch(self, epoch: int) -> int:
        """Compute F, for the tolerance; that takes no gradient."""
        self.objective = self.problem.objective(self.theta)
        return 0

    def spent(self, points: IntArray) -> int:
        """Every gradient is whole: one a batch, or one a draw where those of a batch move one after the other."""
        return self.problem.dim * (len(points) if len(self.inverses) else len(points) // self.batch)

    def run(self, points: IntArray, weights: FloatArray, steps: FloatArray) -> tuple[FloatArray, float]:
        """Take a step per batch."""
        batch, norms = len(points) // len(steps), np.empty(len(points))
        exact = len(self.inverses) > 0
        together = 1 if exact else batch
        for first in range(0, len(points), together):
            gradient = mean_gradient(self.problem, self.theta) + self.problem.penalty(self.theta)
            theta = self.theta.copy()
            for slot in range(first, first + together):
                b = points[slot]
                inside = self.layout.inside(b)
                norms[slot] = np.linalg.norm(gradient[inside])
                length = self.inverses[b] if exact else weights[slot] * self.atoms / batch
                theta[inside] -= steps[first // batch] * length * gradient[inside]
            self.theta = theta
        return norms, self.objective * len(points)


class CompiledCoordinates(Coordinates):
    """For linear problems, with the margins of all points."""

    compiled = True
    problem: Linear

    def __init__(self, problem: Problem, theta: FloatArray, layout: BlockLayout, batch: int) -> None:
        super().__init__(problem, theta, layout, batch)
        self.columns = columns_of(self.problem)
        self.penalties = problem.penalty(np.ones(problem.dim))

    def constants(self) -> FloatArray:
        """Give the largest curvature inside each block."""
        if not self.problem.curvature:
            raise ValueError("The gradient of the hinge jumps, so that no step of length 1/L is safe. Use a schedule.")
        return block_lipschitz(self.problem, self.columns, self.layout.start, self.layout.members)

    def begin_epoch(self, epoch: int) -> int:
        """Compute F from the margins, and now and then those anew."""
        p = self.problem
        if (epoch - 1) % EPOCHS_PER_REFRESH == 0:
            self.margins = p.margins(self.theta)
        values, self.slopes = np.empty(p.n), np.empty(p.n)
        values_and_slopes(p.code, self.margins, p.y, values, self.slopes)
        if len(p.costs):
            values, self.slopes = values * p.costs, self.slopes * p.costs
        self.objective = float(values.mean() + 0.5 * self.theta @ (self.penalties * self.theta))
        return 0

    def spent(self, points: IntArray) -> int:
        """A partial derivative for every coordinate of a drawn block."""
        return int(self.layout.sizes[points].sum())

    def run(self, points: IntArray, weights: FloatArray, steps: FloatArray) -> tuple[FloatArray, float]:
        """Take a step per batch, in one compiled call."""
        p, norms = self.problem, np.empty(len(points))
        kernels.descend_blocks(
            self.columns,
            p.y,
            p.costs,
            p.code,
            self.penalties,
            self.layout.start,
            self.layout.members,
            points,
            weights,
            steps,
            self.inverses,
            self.margins,
            self.slopes,
            self.theta,
            norms,
        )
        return norms, self.objective * len(points)
