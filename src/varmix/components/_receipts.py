"""Receipts in saved states: how a receipt is saved, and how a saved one is checked."""

from collections.abc import Mapping

import numpy as np

from varmix._core.draw import Draw, Ledger, Rows, check_id, seal_draw
from varmix._core.spaces import Points
from varmix._core.state import CheckpointError, describe_value, read_array, read_count, require_entries
from varmix._core.validation import FloatArray, IntArray, State
from varmix.components._base import Family

RECEIPT_FIELDS = {"indices", "weights", "density", "rows", "serial", "sampler_id"}
# Weights become tensors of single precision.
MIN_WEIGHT, MAX_WEIGHT = float(np.finfo(np.float32).tiny), float(np.finfo(np.float32).max)
MAX_ROUNDING_ERROR = 1e-6


def save_receipt(draw: Draw) -> State:
    """Return a receipt as arrays and plain values.

    Where components are disjoint groups, `rows` holds the group of each slot: it determines the ratios.
    Otherwise `rows` holds the ratios themselves.

    Examples
    --------
    >>> import varmix
    >>> draw = varmix.Sampler([0, 0, 1], rng=0).draw(2)
    >>> sorted(save_receipt(draw))
    ['density', 'indices', 'rows', 'sampler_id', 'serial', 'weights']
    """
    arrays = {name: getattr(draw, name).copy() for name in ("indices", "weights", "density")}
    rows = draw.ratios if draw.groups is None else draw.groups
    return {**arrays, "rows": rows.copy(), "serial": draw.serial, "sampler_id": draw.sampler_id}


class ReceiptReader:
    """Reads the receipts of a saved state, and rejects those that its sampler cannot have drawn.

    Kernels use the numbers of a receipt as indices, so every number is checked before a receipt is built.

    Parameters
    ----------
    family : Family
        The family that drew the receipts, over points.
    ledger : Ledger
        The ledger of the sampler in the same state.

    Examples
    --------
    >>> import varmix
    >>> sampler = varmix.Sampler([0, 0, 1], rng=0)
    >>> saved = save_receipt(sampler.draw(2))
    >>> reader = ReceiptReader(sampler.components, Ledger.loaded(sampler.state_dict()))
    >>> len(reader.read(saved, least=2, most=2))
    2
    """

    def __init__(self, family: Family, ledger: Ledger) -> None:
        self._family, self._ledger = family, ledger

    def read(self, saved: object, least: int, most: int) -> Draw:
        """Return the saved receipt of `least` to `most` slots.

        Raises
        ------
        CheckpointError
            If the receipt is damaged, has another number of slots, or its sampler cannot have drawn it.
        """
        require_entries(saved, RECEIPT_FIELDS, "a receipt")
        assert isinstance(saved, Mapping)
        serial, sampler_id = read_count(saved, "serial"), check_id(saved["sampler_id"])
        try:
            self._ledger.check(serial, sampler_id)
        except ValueError as error:
            raise CheckpointError(f"Saved receipt {serial} is not one of the saved sampler: {error}") from error
        if not isinstance(saved["indices"], np.ndarray) or not least <= saved["indices"].size <= most:
            raise CheckpointError(
                f"Saved receipt {serial} must have {least}..{most} slots, got {describe_value(saved['indices'])}."
            )
        indices = self._read_points(saved)
        weights, density = (
            read_array(saved, name, np.float64, (len(indices),), MIN_WEIGHT, MAX_WEIGHT)
            for name in ("weights", "density")
        )
        rows, groups = self._read_rows(saved, indices, density)
        return seal_draw(indices, weights, rows, density, serial, sampler_id, groups)

    def _read_points(self, saved: Mapping[str, object]) -> IntArray:
        space = self._family.space
        indices = read_array(saved, "indices", np.int64, (None,), 0, space.n - 1)
        if isinstance(space, Points) and space.target is not None and not space.target[indices].all():
            raise CheckpointError("Saved indices hold a point of target zero, which is never drawn.")
        return indices

    def _read_rows(
        self, saved: Mapping[str, object], indices: IntArray, density: FloatArray
    ) -> tuple[Rows | FloatArray, IntArray | None]:
        """Return the ratios, or for disjoint groups the function from groups to ratios and the groups."""
        rows, group_rows = saved["rows"], self._family.group_rows
        if group_rows is not None and isinstance(rows, np.ndarray) and rows.ndim == 1:
            return group_rows, self._read_groups(saved, indices, density)
        ratios = read_array(saved, "rows", np.float64, (len(indices), self._family.k), least=0)
        if (ratios > (1.0 + MAX_ROUNDING_ERROR) / self._target(indices)[:, None]).any():
            raise CheckpointError("Saved rows hold a ratio that is larger than that of a law which draws nothing else.")
        check_density(density, ratios.min(axis=1), ratios.max(axis=1))
        return ratios, None

    def _read_groups(self, saved: Mapping[str, object], indices: IntArray, density: FloatArray) -> IntArray:
        """Return the group of each slot."""
        family, m = self._family, len(indices)
        masses, parents = family.masses, family.parents
        assert masses is not None  # lanes are groups where groups determine the ratios
        groups = read_array(saved, "rows", np.int64, (m,), 0, len(masses) - 1)
        own = family.groups_of(indices)
        # With resplit a point may have moved to another sub-group since, but not to another label.
        if not np.array_equal(*((own, groups) if parents is None else (parents[own], parents[groups]))):
            raise CheckpointError("Saved indices hold a point that is not of the group that it was drawn from.")
        check_density(density, np.zeros(m), 1.0 / masses[groups])
        return groups

    def _target(self, indices: IntArray) -> FloatArray:
        space = self._family.space
        if not isinstance(space, Points) or space.target is None:
            return np.full(len(indices), 1.0 / space.n)
        return space.target[indices]


def check_density(density: FloatArray, low: FloatArray, high: FloatArray) -> None:
    """Raise `CheckpointError` unless each density lies between the smallest and the largest ratio of its slot.

    A density is a weighted mean of the ratios of its slot, by the mixture that drew it.

    Examples
    --------
    >>> check_density(np.array([1.5]), low=np.array([1.0]), high=np.array([2.0]))
    """
    inside = (density >= (1.0 - MAX_ROUNDING_ERROR) * low) & (density <= (1.0 + MAX_ROUNDING_ERROR) * high)
    if not inside.all():
        raise CheckpointError("Saved density must lie between the smallest and the largest ratio of its point.")
