"""Coordinate descent over any sampler, by single coordinates or blocks of them."""

from typing import Literal, Unpack

import numpy as np
from numpy.typing import ArrayLike

from varmix._core.validation import AnyArray, FloatArray, IntArray, as_array, as_vector, read_only
from varmix._kernels import rows as by_row
from varmix._kernels.rows import Rows
from varmix._sampler import Sampler, Source
from varmix.components._labels import encode_labels
from varmix.solvers import _kernels as kernels
from varmix.solvers._linear import Linear
from varmix.solvers._loop import EPOCHS_PER_REFRESH, LoopOptions, Method, Result, make_start, optimise
from varmix.solvers._problems import Problem, mean_gradient
from varmix.solvers.schedules import Schedule


class BlockLayout:
    """Which coordinates belong to each atom: a single one, or all that share a label.

    Examples
    --------
    >>> layout = BlockLayout(4, ["b", "a", "b", "b"])
    >>> layout.start.tolist(), layout.members.tolist()
    ([0, 1, 4], [1, 0, 2, 3])
    """

    def __init__(self, dim: int, blocks: ArrayLike | None = None) -> None:
        self.atoms_name = "coordinates" if blocks is None else "blocks of coordinates"
        labels = np.arange(dim) if blocks is None else as_array(blocks, "blocks")
        if labels.shape != (dim,):
            raise ValueError(f"blocks must be one label per coordinate: expected shape ({dim},), got {labels.shape}.")
        _, codes = encode_labels(labels)
        self.sizes: IntArray = np.bincount(codes).astype(np.int64)
        self.start: IntArray = np.concatenate([[0], np.cumsum(self.sizes)]).astype(np.int64)
        self.members: IntArray = np.argsort(codes, kind="stable").astype(np.int64)

    def __len__(self) -> int:
        return len(self.sizes)

    def coordinates_of(self, b: int) -> IntArray:
        """Return the coordinates of block b."""
        return self.members[self.start[b] : self.start[b + 1]]


def copy_columns(problem: Linear) -> Rows:
    """Return a transposed copy of X, with a last row of ones if there is an intercept.

    Examples
    --------
    >>> copy_columns(Linear([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], [1.0, 1.0, -1.0])).dense
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


def compute_block_constants(problem: Linear, columns: Rows, start: IntArray, members: IntArray) -> FloatArray:
    """Return the Lipschitz constant of F's gradient in each block: curvature |C^1/2 X_B|^2 / n + l2.

    C holds the sample weights. The norm is the spectral norm, from the eigenvalues of a matrix of the block's size.
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
    # An intercept alone in its block has no penalty. In a larger block the penalty only shortens its steps.
    free = problem.intercept & (np.diff(start) == 1) & (members[start[:-1]] == problem.features)
    return problem.curvature * squares / problem.n + np.where(free, 0.0, problem.l2)


def coordinate_descent(
    problem: Problem,
    sampler: Sampler | Source,
    *,
    step: float | Schedule | Literal["lipschitz"],
    blocks: ArrayLike | None = None,
    lipschitz: ArrayLike | None = None,
    start: ArrayLike | None = None,
    batch: int = 1,
    **options: Unpack[LoopOptions],
) -> Result:
    """Minimise along one coordinate, or one block of coordinates, at a time.

    The sampler draws coordinates instead of points, and learns from the absolute partial derivatives of F, or from the
    lengths of the blocks' gradients. The penalty is part of F here.

    With a number or a schedule as `step`, a batch moves theta by the unbiased estimate of the gradient of F: the mean
    of weight * number of atoms * partial derivative, each along its own coordinate. With "lipschitz", a drawn
    coordinate moves by 1/L_j times its partial derivative, and the coordinates of a batch move one after the other.
    Such steps need no weights, because each of them decreases F.

    For `Linear`, a draw only reads the columns of its coordinates: the solver keeps a transposed copy of X and the
    margins of all points. For any other problem, every batch computes the full gradient over all points. The trace
    counts partial derivatives; a full gradient counts as dim. `tol` compares F at the beginning of each epoch.

    Parameters
    ----------
    problem : Problem
        Problem to minimise.
    sampler : Sampler, Family or array-like of shape (number of atoms,)
        Source of the coordinates: a sampler or a family over `Points(problem.dim)`, or over
        `Points(blocks)`, or one label per atom. `Groups` of coordinates draw single coordinates.
    step : float, Schedule or "lipschitz"
        Length of the steps: a number, a schedule of `varmix.solvers.schedules`, or the rule 1/L_j.
    blocks : array-like of shape (dim,), optional
        One label per coordinate. Coordinates with the same label move together; block b has the b-th label in sorted
        order. Default: single coordinates.
    lipschitz : array-like of shape (number of atoms,), optional
        The constants L_j for `step="lipschitz"`. Default: the constants that `Linear` computes.
    start : array-like of shape (dim,), optional
        Starting point. Default: zeros.
    batch : int, default 1
        Number of coordinates or blocks in a batch.
    **options
        `epochs` and the other options of `varmix.solvers.optimise`. An epoch has as many draws as there are coordinates
        or blocks.

    Returns
    -------
    Result
        The last iterate, the trace and the sampler.

    Raises
    ------
    TypeError
        If `lipschitz` is passed with another step, or an argument is of the wrong type.
    ValueError
        If `step` is another string, or the constants L_j are not known or negative.

    References
    ----------
    Nesterov: Efficiency of coordinate descent methods on huge-scale optimization problems, 2012.

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
    theta, layout = make_start(start, problem), BlockLayout(problem.dim, blocks)
    linear = isinstance(problem, Linear)
    method = (CompiledCoordinates if linear else Coordinates)(problem, theta, layout, batch)
    if isinstance(step, str):
        if step != "lipschitz":
            raise ValueError(f"step must be a number, a schedule or 'lipschitz', got {step!r}.")
        method.use_lipschitz(lipschitz)
        step = 1.0
    elif lipschitz is not None:
        raise TypeError("lipschitz is only for step='lipschitz': with another step leave it out.")
    return optimise(problem, sampler, method, step=step, batch=batch, **options)


class Coordinates(Method):
    """Coordinate descent over any problem: compute the full gradient and use the part that was drawn."""

    def __init__(self, problem: Problem, theta: FloatArray, layout: BlockLayout, batch: int) -> None:
        super().__init__(problem, theta)
        self.layout, self.batch = layout, batch
        self.atoms, self.atoms_name = len(layout), layout.atoms_name
        self.inverses = np.empty(0)
        self.objective = np.nan

    def use_lipschitz(self, constants: ArrayLike | None) -> None:
        """Switch to steps of 1/L_j, with the problem's own constants by default."""
        values = self.compute_constants() if constants is None else as_vector(constants, "lipschitz", self.atoms)
        if values.min() < 0:
            raise ValueError(f"lipschitz must not be negative; the smallest is {values.min():.3g}.")
        # A constant of zero means a constant partial derivative: zero, or F has no minimum. Such atoms never move.
        self.inverses = np.divide(1.0, values, out=np.zeros(self.atoms), where=values > 0)

    def compute_constants(self) -> FloatArray:
        """Return the Lipschitz constants of the atoms; raise `ValueError` because only linear problems know them."""
        raise ValueError(
            f"{self.problem!r} does not know the Lipschitz constants of its partial derivatives. Pass lipschitz=, one "
            f"constant per coordinate or block, or pass a number or a schedule as step."
        )

    def begin_epoch(self, epoch: int) -> int:
        """Compute F for the tolerance. It takes no gradient."""
        self.objective = self.problem.objective(self.theta)
        return 0

    def count_evaluations(self, points: IntArray) -> int:
        """Return dim per full gradient: one gradient per batch, or one per draw if coordinates move one by one."""
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
                inside = self.layout.coordinates_of(b)
                norms[slot] = np.linalg.norm(gradient[inside])
                length = self.inverses[b] if exact else weights[slot] * self.atoms / batch
                theta[inside] -= steps[first // batch] * length * gradient[inside]
            self.theta = theta
        return norms, self.objective * len(points)


class CompiledCoordinates(Coordinates):
    """Coordinate descent over linear problems, with the margins of all points."""

    compiled = True
    problem: Linear

    def __init__(self, problem: Problem, theta: FloatArray, layout: BlockLayout, batch: int) -> None:
        super().__init__(problem, theta, layout, batch)
        self.columns = copy_columns(self.problem)
        self.penalties = problem.penalty(np.ones(problem.dim))

    def compute_constants(self) -> FloatArray:
        """Return the largest curvature of F in each block."""
        if not self.problem.curvature:
            raise ValueError(
                "The gradient of the hinge jumps, so it has no Lipschitz constants. Pass a number or a schedule."
            )
        return compute_block_constants(self.problem, self.columns, self.layout.start, self.layout.members)

    def begin_epoch(self, epoch: int) -> int:
        """Compute F from the margins. From time to time, compute the margins again to remove rounding errors."""
        p = self.problem
        if (epoch - 1) % EPOCHS_PER_REFRESH == 0:
            self.margins = p.margins(self.theta)
        values, self.slopes = np.empty(p.n), np.empty(p.n)
        kernels.write_values_and_slopes(p.code, self.margins, p.y, values, self.slopes)
        if len(p.costs):
            values, self.slopes = values * p.costs, self.slopes * p.costs
        self.objective = float(values.mean() + 0.5 * self.theta @ (self.penalties * self.theta))
        return 0

    def count_evaluations(self, points: IntArray) -> int:
        """Return one partial derivative per coordinate of each drawn block."""
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
