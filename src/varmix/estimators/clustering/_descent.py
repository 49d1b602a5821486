"""Minibatch descent on the centers, and the sampler that switches when its set-up has paid."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from varmix._core.validation import AnyArray, FloatArray, IntArray, as_count
from varmix._sampler import Sampler
from varmix.components._labels import choose_dtype
from varmix.estimators.clustering import _kernels as kernels
from varmix.estimators.clustering._seeding import Seeding, as_centers, as_costs, as_finite, read_rows, shift_of
from varmix.meter import GainMeter
from varmix.solvers._linear import Csr, unchecked_rows
from varmix.solvers._loop import check_space


class SwitchAfter:
    """A sampler for the first steps, and another from then on, which is made when its time has come.

    Setting a sampler up is a look at all points, and a short run has not the time for that.

    Parameters
    ----------
    first
        What draws the first batches.
    then
        Makes what draws the others.
    after
        Steps of the first.

    Examples
    --------
    >>> import varmix
    >>> relay = SwitchAfter(varmix.uniform(10, rng=0), lambda: varmix.uniform(10, replacement=False, rng=0), after=3)
    >>> relay.at(2) is relay.first, relay.at(3) is relay.first, relay.at(9) is relay.at(3)
    (True, False, True)
    """

    def __init__(self, first: Sampler, then: Callable[[], Sampler], after: int) -> None:
        self.first, self.then, self.after = first, then, after
        self._made: Sampler | None = None

    def at(self, steps: int) -> Sampler:
        """Give the sampler of the batch after so many steps."""
        if self._made is None and steps >= self.after:
            self._made = self.then()
        return self.first if self._made is None else self._made

    @property
    def mixture(self) -> FloatArray:
        """The mixture of the sampler that draws at present."""
        return (self.first if self._made is None else self._made).mixture


# Batches drawn with one mixture: some at first, then an eighth of those so far, as there is most to learn early on, and
# so many draws at most, beside which the calls around the compiled steps cost little.
MIN_BATCHES_PER_ROUND, ROUND_PART, MAX_DRAWS_PER_ROUND = 4, 8, 1024


class Descent:
    """Minibatch k-means (Sculley, 2010) with importance weights.

    A step assigns the points of a batch to their nearest centres.  With w the importance weight of a point times its
    sample weight, `counts[c] += sum w` and `c += sum w (x - c) / counts[c]`: every centre is the weighted mean of all
    that it was ever given.  What the sampler learns from is the sample weight times the distance to the nearest centre,
    which is the norm of the gradient of k-means' cost in the centres.

    Several steps run in one compiled call, over batches of one receipt, whose feedback is given afterwards.

    Parameters
    ----------
    X
        (n, d) array, or a SciPy CSR matrix; it is not copied.
    centers
        (K, d) where to begin.
    batch
        Points in a batch.
    sample_weight
        (n,) weights of the points.
    remember
        Whether to keep the nearest centre of every point, and its distance, as they were when it last came.

    Attributes
    ----------
    centers
        (K, d), in the precision of X.
    counts
        (K,) sums of weights that every centre was given.
    meter
        What sampling gained.
    steps
        Steps so far.
    inertia
        Weighted mean squared distance of the last batches, as drawn, before their steps; not a number at first.
    losses
        The same, for every batch of the last receipt.

    Examples
    --------
    >>> import varmix
    >>> X = np.random.default_rng(0).normal(size=(1000, 2)) + 9.0 * (np.arange(1000) % 2)[:, None]
    >>> descent = Descent(X, X[:2], batch=50)
    >>> descent.run(varmix.uniform(1000, rng=0), steps=100)
    >>> (descent.centers + 1.0).round().tolist(), descent.steps
    ([[1.0, 1.0], [10.0, 10.0]], 100)
    """

    def __init__(
        self,
        X: ArrayLike | Csr,
        centers: ArrayLike,
        *,
        batch: int,
        sample_weight: ArrayLike | None = None,
        remember: bool = False,
    ) -> None:
        self._rows, (self._n, d) = unchecked_rows(X)
        middles = as_centers(centers, self._rows, d)
        self._shift = shift_of(self._rows, middles)
        self._centers: AnyArray = middles - self._shift if len(self._shift) else middles.copy()
        self._costs = as_costs(sample_weight, self._n)
        self.batch = as_count(batch, "batch")
        self.counts = np.zeros(len(middles))
        self.meter = GainMeter()
        self.steps = 0
        self.inertia = float("nan")
        self.losses = np.empty(0)
        self._last = np.empty(0, dtype=np.int64)
        known = self._n if remember else 0
        self._nearest = np.zeros(known, dtype=choose_dtype(len(middles)))
        self._distances = np.zeros(known, dtype=np.float32)

    @property
    def centers(self) -> AnyArray:
        """A copy of the centres as they are now."""
        return self._centers + self._shift if len(self._shift) else self._centers.copy()

    def remembered(self) -> Seeding:
        """Give the nearest centre of every point, and its distance, as they were when it last came: in a pass, all."""
        return Seeding(self.centers, self._nearest, self._distances)

    def run(self, sampler: Sampler | SwitchAfter, steps: int) -> None:
        """Take so many steps with the batches that a sampler over `Points(n)` draws."""
        end = self.steps + as_count(steps, "steps", least=0)
        check_space(sampler.first if isinstance(sampler, SwitchAfter) else sampler, self._n, "points")
        while self.steps < end:
            self.round(sampler, end - self.steps)

    def round(self, sampler: Sampler | SwitchAfter, most: int) -> None:
        """Take the steps of one receipt, `most` of them at most, and give its feedback."""
        count = max(
            min(max(self.steps // ROUND_PART, MIN_BATCHES_PER_ROUND), MAX_DRAWS_PER_ROUND // self.batch, most), 1
        )
        if isinstance(sampler, SwitchAfter):
            sampler = sampler.at(self.steps)
        draw = sampler.draw(self.batch, count)
        norms = self.step(draw.indices, draw.weights, count)
        self.meter.update(draw, norms)
        sampler.update(draw, norms)

    def step(self, points: IntArray, weights: FloatArray, count: int = 1) -> FloatArray:
        """Take `count` steps over consecutive batches of points, with these weights; give the norms of the points.

        Points and weights are not checked.  Points that are not finite are refused, and the centres are as they were.
        """
        norms, losses = np.empty(len(points)), np.empty(count)
        centers, counts = self._centers.copy(), self.counts.copy()
        moving = centers, counts, norms, losses, self._nearest, self._distances
        kernels.move_centers(self._rows, self._shift, self._costs, points, weights, *moving)
        as_finite(float(losses.sum()))
        self._centers, self.counts = centers, counts
        self.steps += count
        self.losses, self.inertia = losses, float(losses.mean())
        self._last = points[-(len(points) // count) :]
        return norms

    def reassign(self, ratio: float, rng: np.random.Generator) -> int:
        """Put centres with a count below `ratio` of the largest on points of the last batch; give how many.

        At most half as many as the batch has points, those with the least counts; they then count as much as the least
        of the others, or they would be the first to be put elsewhere again.  It is the rule of `MiniBatchKMeans`.
        """
        low = self.counts < ratio * self.counts.max()
        most = len(self._last) // 2
        if low.sum() > most:
            low[np.argsort(self.counts, kind="stable")[most:]] = False
        number = int(low.sum())
        if number:
            chosen = rng.choice(self._last, number, replace=False)
            rows = read_rows(self._rows, chosen, self._centers.shape[1])
            self._centers[low] = rows - self._shift if len(self._shift) else rows
            self.counts[low] = self.counts[~low].min()
        return number
