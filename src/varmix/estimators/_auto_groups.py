"""Groups found in data: classes, cut into bins by the lengths of the rows."""

import math
import warnings
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn.exceptions import ConvergenceWarning

from varmix._core.validation import AnyArray, FloatArray, IntArray, as_real, as_vector, unknown_choice
from varmix._kernels.rows import write_lengths
from varmix.components import Groups
from varmix.components._labels import encode_labels
from varmix.solvers._linear import Csr, as_rows

GROUP_KINDS = ("auto", "labels", "clusters", "norms")
TASKS = ("classification", "regression")
# Shares of a group below each cut. Each cut halves the part above the last one: six bins for lengths, three for
# targets.
DYADIC_SHARES = tuple(1.0 - 0.5**level for level in range(1, 6))
TENTH_SHARES = tuple(level / 10 for level in range(1, 10))
MIN_POINTS_PER_GROUP = 32  # smaller bins join a neighbour: a mixture learns too little from them
MAX_CLASSES, MAX_GROUPS = 64, 128  # more components are learned too slowly to pay
MAX_CLUSTERS, MAX_POINTS_TO_CLUSTER = 16, 20_000


def auto(
    X: ArrayLike | Csr,
    y: ArrayLike | None = None,
    *,
    kind: str = "auto",
    task: str | None = None,
    replacement: bool = False,
    resplit: str | None = None,
    rng: int | np.random.Generator | None = None,
) -> Groups:
    """Find groups in data, and return them as a family for `varmix.Sampler` or `varmix.vrm`.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Features. Only the lengths of the rows matter, except for "clusters".
    y : array-like of shape (n_samples,), optional
        Classes or targets. Default: None, groups without a target.
    kind : {"auto", "labels", "norms", "clusters"}, default "auto"
        What the points of a group have in common.

        - "auto": their class, and about the length of their row. Every class is cut into at most six bins by length:
          the lower half, the next quarter, the next eighth, and so on. For regression the distance of the target from
          its median replaces the class, in three such bins. Without `y` only the length counts.
        - "labels": their class.
        - "norms": the decile of the length of their row.
        - "clusters": one of at most 16 clusters, found by scikit-learn's k-means from at most 20,000 points.
    task : {"classification", "regression"}, optional
        Whether `y` holds classes or numbers. Default: classification if `y` holds strings, booleans or at most 64
        distinct whole numbers.
    replacement : bool, default False
        Whether to draw from groups with replacement, see `varmix.Groups`. False is the reshuffled mixture.
    resplit : {"norms"}, optional
        "norms" splits every group by the latest norms of its points, see `varmix.Groups`. Default: None, no splits.
    rng : int or numpy.random.Generator, optional
        Seed or generator for "clusters". Default: None, a new seed.

    Returns
    -------
    Groups
        The family. `auto_labels` returns the labels alone.

    Notes
    -----
    The gradient of a linear model is a slope times a row. The class or the target predicts the slope, and the length
    of the row is known. In measurements on eight data sets, "auto" left the smallest excess loss of all kinds.

    Rows whose lengths agree to about five digits stay together, so the order of the points does not matter. Bins of
    fewer than 32 points join a neighbour in the same class. If there are more than 64 classes, the rarest are merged
    into one. If there are many classes, each gets fewer bins.

    Examples
    --------
    >>> import varmix
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.standard_cauchy((1000, 3)), np.arange(1000) % 2
    >>> family = varmix.auto(X, y)
    >>> family.labels.tolist()
    [0, 1, 2, 3, 6, 7, 8, 9]
    >>> (1000 * family.masses).round().tolist()
    [250.0, 125.0, 63.0, 62.0, 250.0, 125.0, 63.0, 62.0]
    >>> sampler = varmix.Sampler(family, rng=0)
    """
    labels = auto_labels(X, y, kind=kind, task=task, rng=rng)
    options: dict[str, Any] = {} if resplit is None else {"resplit": resplit}
    return Groups(labels, replacement=replacement, **options)


def auto_labels(
    X: ArrayLike | Csr,
    y: ArrayLike | None = None,
    *,
    kind: str = "auto",
    task: str | None = None,
    rng: int | np.random.Generator | None = None,
) -> IntArray:
    """Return the labels of the groups that `auto` finds.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Features.
    y : array-like of shape (n_samples,), optional
        Classes or targets. Default: None, groups without a target.
    kind : {"auto", "labels", "norms", "clusters"}, default "auto"
        What the points of a group have in common, see `auto`.
    task : {"classification", "regression"}, optional
        Whether `y` holds classes or numbers. Default: classification if `y` holds strings, booleans or at most 64
        distinct whole numbers.
    rng : int or numpy.random.Generator, optional
        Seed or generator for "clusters". Default: None, a new seed.

    Returns
    -------
    array of shape (n_samples,)
        One label per point. For "auto" it is `class * bins + bin`.

    Raises
    ------
    ValueError
        If `kind` or `task` is unknown, if X or y is invalid, or if `kind` is "labels" and y holds no classes.

    Examples
    --------
    >>> auto_labels([[1.0], [2.0], [3.0]], ["a", "b", "a"], kind="labels")
    array([0, 1, 0])
    """
    if kind not in GROUP_KINDS:
        raise ValueError(unknown_choice("kind of groups", kind, GROUP_KINDS))
    if task is not None and task not in TASKS:
        raise ValueError(unknown_choice("task", task, TASKS))
    if issparse(X):
        X = X.tocsr()  # type: ignore[union-attr]
    rows, (n, _) = as_rows(X)
    if kind == "clusters":
        return _find_clusters(X, n, rng)
    if kind == "labels":
        return _encode_classes(y, n, task)
    norms = np.empty(n)
    write_lengths(rows, 0.0, norms)
    norms = round_values(norms)
    if kind == "norms":
        return cut_into_bins(np.zeros(n, dtype=np.int64), norms, TENTH_SHARES)
    outer = _label_targets(y, n, task)
    inner = DYADIC_SHARES[: max(MAX_GROUPS // (int(outer.max()) + 1), 1) - 1]
    return cut_into_bins(outer, norms, inner)


def _find_clusters(X: ArrayLike | Csr, n: int, rng: int | np.random.Generator | None) -> IntArray:
    """Return the cluster of every point; the clusters are found from some of them."""
    from sklearn.cluster import MiniBatchKMeans  # imported here, because it takes a second

    generator = np.random.default_rng(rng)
    rows: Any = X if issparse(X) else as_real(cast(ArrayLike, X), "X")
    sample = rows
    if n > MAX_POINTS_TO_CLUSTER:
        sample = rows[np.sort(generator.choice(n, MAX_POINTS_TO_CLUSTER, replace=False))]
    count = min(MAX_CLUSTERS, max(n // MIN_POINTS_PER_GROUP, 1))
    means = MiniBatchKMeans(count, n_init=1, random_state=int(generator.integers(2**31)))
    with warnings.catch_warnings():  # some clusters stay empty if there are few distinct points, which is harmless
        warnings.simplefilter("ignore", ConvergenceWarning)
        return np.asarray(means.fit(sample).predict(rows), dtype=np.int64)


def _encode_classes(y: ArrayLike | None, n: int, task: str | None) -> IntArray:
    """Return classes as whole numbers from zero on."""
    if y is None or not _are_classes(y, task):
        given = "there is no y" if y is None else "y holds numbers to be predicted"
        raise ValueError(f'Groups by labels need classes, and {given}. Use kind="auto" or kind="norms".')
    values: AnyArray = np.asarray(y)
    if values.shape != (n,):
        raise ValueError(f"y must be one per point, shape ({n},), got shape {values.shape}.")
    if values.dtype.kind == "f":
        if not np.isfinite(values).all():
            raise ValueError("y must be finite. Drop or fill the points with a missing class.")
        values = np.unique(values, return_inverse=True)[1]
    return encode_labels(values)[1].astype(np.int64)


def _are_classes(y: ArrayLike, task: str | None) -> bool:
    """Return whether y holds classes: `task` decides, or the values of y if `task` is None."""
    if task is not None:
        return task == "classification"
    values = np.asarray(y)
    if values.dtype.kind not in "fiu":
        return True
    if values.dtype.kind == "f" and not (np.isfinite(values).all() and (values == np.floor(values)).all()):
        return False
    return len(np.unique(values)) <= MAX_CLASSES


def _label_targets(y: ArrayLike | None, n: int, task: str | None) -> IntArray:
    """Return the class of every point, or the bin of its target."""
    if y is None:
        return np.zeros(n, dtype=np.int64)
    if _are_classes(y, task):
        return _merge_rarest(_encode_classes(y, n, task))
    targets = as_vector(y, "y", n)
    far = round_values(np.abs(targets - np.median(targets)))
    return cut_into_bins(np.zeros(n, dtype=np.int64), far, DYADIC_SHARES[:2])


def _merge_rarest(classes: IntArray) -> IntArray:
    """Merge the rarest classes into one if there are too many."""
    counts = np.bincount(classes)
    if len(counts) <= MAX_CLASSES:
        return classes
    rank = np.empty(len(counts), dtype=np.int64)
    rank[np.argsort(-counts, kind="stable")] = np.arange(len(counts))
    return np.asarray(np.minimum(rank, MAX_CLASSES - 1)[classes])


def round_values(values: FloatArray) -> FloatArray:
    """Round numbers to 16 bits, so that numbers that differ only by rounding errors become equal.

    Examples
    --------
    >>> bool(round_values(np.array([1 / 3])) == round_values(np.array([1 / 3 + 1e-9])))
    True
    """
    mantissa, exponent = np.frexp(values)
    return np.asarray(np.ldexp(np.round(mantissa * 65536.0), exponent))


def cut_into_bins(groups: IntArray, values: FloatArray, shares: Sequence[float]) -> IntArray:
    """Cut every group (0, 1, ...) into bins by value, merge small bins, and return `group * bins + bin`."""
    return merge_small_bins(nest_bins(groups, values, shares), len(shares) + 1, MIN_POINTS_PER_GROUP)


def nest_bins(groups: IntArray, values: FloatArray, shares: Sequence[float]) -> IntArray:
    """Cut every group where the given shares of its points lie below, and return `group * bins + bin`.

    The number of smaller values in the group decides the bin, so equal values stay together in the bin of the first of
    them.

    Examples
    --------
    >>> nest_bins(np.zeros(8, dtype=int), np.array([1.0, 2, 3, 4, 5, 6, 7, 8]), (0.5, 0.75))
    array([0, 0, 0, 0, 1, 1, 2, 2])
    >>> nest_bins(np.zeros(4, dtype=int), np.ones(4), (0.5, 0.75))
    array([0, 0, 0, 0])
    """
    labels = groups * (len(shares) + 1)
    for members in _split_members(groups):
        inside = values[members]
        places = sorted({math.ceil(share * len(inside)) - 1 for share in shares})
        if places:
            bounds = np.partition(inside, places)[[math.ceil(share * len(inside)) - 1 for share in shares]]
            labels[members] += np.searchsorted(bounds, inside)
    return labels


def _split_members(groups: IntArray) -> list[IntArray]:
    """Return the points of every group."""
    order = np.argsort(groups, kind="stable")
    ends = np.flatnonzero(np.diff(groups[order])) + 1
    return np.split(order, ends)


def merge_small_bins(labels: IntArray, bins: int, least: int) -> IntArray:
    """Merge every bin of fewer than `least` points with the next lower one of its group.

    The lowest bin joins the next higher one. A group that is small as a whole becomes one bin, and never joins
    another group.

    Examples
    --------
    >>> merge_small_bins(np.array([0, 0, 1, 2, 3, 3, 4]), bins=3, least=2)
    array([0, 0, 1, 1, 3, 3, 3])
    """
    counts = np.bincount(labels, minlength=-(-(int(labels.max()) + 1) // bins) * bins)
    target = np.arange(len(counts))
    for first in range(0, len(counts), bins):
        filled = [label for label in range(first, first + bins) if counts[label]]
        for lower, label in reversed(list(pairwise(filled))):
            if counts[label] < least:
                _join_bin(label, lower, counts, target)
        filled = [label for label in filled if counts[label]]
        if len(filled) > 1 and counts[filled[0]] < least:
            _join_bin(filled[0], filled[1], counts, target)
    return np.asarray(target[labels])


def _join_bin(label: int, other: int, counts: IntArray, target: IntArray) -> None:
    """Move all points of a bin to another one."""
    target[target == label] = other
    counts[other] += counts[label]
    counts[label] = 0
