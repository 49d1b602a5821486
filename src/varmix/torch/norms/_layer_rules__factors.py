"""Factors: a per-example gradient of a matrix as a sum of outer products, and its squared norm.

A layer that is linear in its matrix gives example i the gradient `sum_t left_it right_it'`: `left` is the gradient of
the output at position t, `right` the input there.  The squared norm needs no gradient, only inner products,

    |gradient_i|^2 = sum_ts (left_it . left_is) (right_it . right_is),

the "ghost norm", as cheap as positions are few.  Where they are many, writing the gradient out is cheaper.
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import torch


class Factors(NamedTuple):
    """What one use of a matrix, in blocks of (rows, cols), leaves: pairs of vectors for each example and position.

    The left vectors of an embedding have a one at the row that is looked up, and are kept as the numbers of the rows.
    """

    left: torch.Tensor  # (m, groups, T, rows), or rows (m, T)
    right: torch.Tensor  # (m, groups, T, cols)
    rows: int

    @property
    def ids(self) -> bool:
        """Whether the left vectors are numbers of rows."""
        return bool(self.left.dim() == 2)

    @property
    def positions(self) -> int:
        """How many outer products make up a gradient."""
        return int(self.right.shape[2])


Part: TypeAlias = Factors | torch.Tensor  # a tensor is the gradient itself, (m, ...)


def squares(parts: Sequence[Part]) -> torch.Tensor:
    """Give the squared norms (m,) of the sums of all parts, which are uses of one parameter.

    Examples
    --------
    >>> left, right = torch.ones(1, 1, 2, 3), torch.ones(1, 1, 2, 4)  # every entry of the gradient is 1 + 1
    >>> squares([Factors(left, right, rows=3)]), squares([torch.full((1, 12), 2.0)])
    (tensor([48.]), tensor([48.]))
    """
    factors = [part for part in parts if isinstance(part, Factors)]
    if len(factors) < len(parts) or direct_is_cheaper(factors):
        return direct(parts)
    return ghost(factors)


def direct_is_cheaper(factors: Sequence[Factors]) -> bool:
    """Whether the gradient has fewer entries than there are pairs of positions, or cannot be put together by pairs."""
    positions = sum(use.positions for use in factors)
    groups, cols = factors[0].right.shape[1], factors[0].right.shape[3]
    alike = all(use.right.shape[1] == groups for use in factors)
    return not alike or positions**2 > factors[0].rows * cols


def direct(parts: Sequence[Part]) -> torch.Tensor:
    """Write the gradients out, add them up and square them."""
    total = sum(gradient(part) if isinstance(part, Factors) else part.flatten(1) for part in parts)
    return torch.as_tensor(total).square().sum(1)


def gradient(use: Factors) -> torch.Tensor:
    """Give the gradients (m, entries) that the factors stand for."""
    if not use.ids:
        return (use.left.transpose(-1, -2) @ use.right).flatten(1)
    m, cols = len(use.left), use.right.shape[-1]
    places = use.left + use.rows * torch.arange(m, device=use.left.device)[:, None]
    written = use.right.new_zeros(m * use.rows, cols)
    return written.index_add_(0, places.flatten(), use.right.reshape(-1, cols)).view(m, -1)


def ghost(factors: Sequence[Factors]) -> torch.Tensor:
    """Add up inner products over all pairs of positions, of one use or of two."""
    kinds = [_joined([use for use in factors if use.ids is ids]) for ids in (False, True)]
    dense, rows = kinds
    total = sum(_products(kind, kind) for kind in kinds if kind is not None)
    if dense is not None and rows is not None:
        total = total + 2 * _products(dense, rows)
    return torch.as_tensor(total).clamp_min(0.0)  # rounding can leave a little less than nothing


def _joined(uses: Sequence[Factors]) -> Factors | None:
    """Give uses of one kind as a single one, with the positions of all."""
    if len(uses) < 2:
        return uses[0] if uses else None
    left = torch.cat([use.left for use in uses], -1 if uses[0].ids else 2)
    return Factors(left, torch.cat([use.right for use in uses], 2), uses[0].rows)


def _products(a: Factors, b: Factors) -> torch.Tensor:
    return (_lefts(a, b) * (a.right @ b.right.transpose(-1, -2))).sum((1, 2, 3))


def _lefts(a: Factors, b: Factors) -> torch.Tensor:
    """Give the inner products of left vectors: equality of rows, a look-up, or a product of matrices."""
    if a.ids:
        return a.left[:, None, :, None] == b.left[:, None, None, :]
    if b.ids:
        return a.left.gather(-1, b.left[:, None, None, :].expand(-1, 1, a.positions, -1))
    return a.left @ b.left.transpose(-1, -2)
