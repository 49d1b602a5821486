"""Norms from what a training step computes anyway: its losses, or its logits."""

import torch
from torch.nn.functional import softmax

from varmix.torch.norms._precision import as_single_or_double


def losses(values: torch.Tensor) -> torch.Tensor:
    """Return per-example losses as norms: detached, and averaged over the positions of a sequence or an image.

    These are the crudest norms. A loss says how wrong an example is, not how much it would change the parameters.

    Parameters
    ----------
    values : torch.Tensor
        Losses (m,) or (m, ...), from a loss with `reduction="none"`.

    Returns
    -------
    torch.Tensor
        One number per example, (m,).

    Raises
    ------
    ValueError
        If `values` is a scalar, the mean or the sum of the losses.

    Examples
    --------
    >>> losses(torch.tensor([[1.0, 3.0], [0.0, 1.0]], requires_grad=True))
    tensor([2.0000, 0.5000])
    """
    if values.dim() == 0:
        raise ValueError("losses must be one per example, got a scalar. Pass reduction='none' to the loss.")
    return as_single_or_double(values).reshape(len(values), -1).mean(1)


def last_layer(
    logits: torch.Tensor,
    targets: torch.Tensor,
    *,
    loss: str = "cross_entropy",
    features: torch.Tensor | None = None,
    ignore_index: int = -100,
) -> torch.Tensor:
    """Return the norms of the gradients of the losses with respect to the logits, without a backward pass.

    For cross entropy they are `|softmax(z) - onehot(y)|`. Up to a factor that hardly differs between examples they
    bound the norms of whole gradients [1]_. The loss of an example is the mean over its positions, or over its outputs
    if each of them has a loss.

    Parameters
    ----------
    logits : torch.Tensor
        Outputs of the model: (m, C) or (m, C, ...) for cross entropy, (m,) or (m, ...) for the other losses.
    targets : torch.Tensor
        For cross entropy classes (m, ...), or probabilities in the shape of the logits that sum to one over classes.
        For the other losses values in the shape of the logits.
    loss : {"cross_entropy", "binary", "squared"}, default "cross_entropy"
        `"binary"` is the loss of single logits, as in `binary_cross_entropy_with_logits`, also for several labels per
        example. `"squared"` is `(z - y)^2`, as in `mse_loss`.
    features : torch.Tensor of shape (m, d), optional
        Input h of a last layer that is linear with a bias. Then the result is the exact gradient norm of this layer,
        `|dz| sqrt(|h|^2 + 1)`. Default: None.
    ignore_index : int, default -100
        Positions of this class have no loss. An example without other positions has norm zero.

    Returns
    -------
    torch.Tensor
        One norm per example, (m,), detached.

    Raises
    ------
    ValueError
        If the shapes or types do not fit, or probabilities do not sum to one.

    References
    ----------
    .. [1] Katharopoulos and Fleuret, "Not all samples are created equal: deep learning with importance sampling", ICML
       2018.

    Examples
    --------
    >>> logits = torch.tensor([[2.0, 0.0], [2.0, 0.0]])
    >>> last_layer(logits, torch.tensor([0, 1]))
    tensor([0.1686, 1.2456])
    >>> last_layer(torch.tensor([0.0, 3.0]), torch.tensor([2.0, 3.0]), loss="squared")
    tensor([4., 0.])
    """
    if loss not in ("cross_entropy", "binary", "squared"):
        raise ValueError(f"loss must be 'cross_entropy', 'binary' or 'squared', got {loss!r}. For others use ghost.")
    _check_shapes(logits, targets, loss)
    z, counted = as_single_or_double(logits), torch.ones(1, 1, device=logits.device)
    if loss == "squared":
        sizes = 2 * (z - targets)
    elif loss == "binary":
        y = targets.to(z.dtype)
        sizes = (1 - y) * z.sigmoid() - y * (-z).sigmoid()  # sigmoid(z) - y without cancellation
    elif targets.is_floating_point():
        _check_probabilities(targets)
        sizes = _from_probabilities(z, as_single_or_double(targets))
    else:
        counted = (targets != ignore_index).reshape(len(z), -1)
        sizes = _from_classes(z, targets.long().masked_fill(targets == ignore_index, 0))
    sizes = sizes.detach().reshape(len(z), -1)
    positions = counted.expand_as(sizes).sum(1)
    norms = torch.linalg.vector_norm(sizes * counted, dim=1) / positions.clamp_min(1)
    return norms if features is None else norms * _measure_features(features, logits, loss)


def _from_classes(z: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
    """Return `|softmax(z) - onehot(y)|` at every position, accurate also where the right class has nearly all mass."""
    others = softmax(z, 1).scatter(1, classes.unsqueeze(1), 0.0)
    missing = others.sum(1, keepdim=True)  # 1 - p_y without cancellation
    shares = others / missing.clamp_min(torch.finfo(z.dtype).tiny)
    return missing.squeeze(1) * (1 + shares.square().sum(1)).sqrt()


def _from_probabilities(z: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.linalg.vector_norm(softmax(z, 1) * y.sum(1, keepdim=True) - y, dim=1)


def _measure_features(features: torch.Tensor, logits: torch.Tensor, loss: str) -> torch.Tensor:
    if features.dim() != 2 or len(features) != len(logits) or logits.dim() > 2:
        raise ValueError(
            f"features must be one row per example, with logits at one position: got features {tuple(features.shape)} "
            f"for logits {tuple(logits.shape)}. For sequences use ghost on the last layer."
        )
    return (as_single_or_double(features).square().sum(1) + 1).sqrt()


def _check_probabilities(targets: torch.Tensor) -> None:
    """Raise `ValueError` if the probabilities of an example do not sum to one, up to rounding in half precision."""
    off = (as_single_or_double(targets).sum(1) - 1).abs().reshape(len(targets), -1)
    wrong = ~(off <= max(0.02, 8 * torch.finfo(targets.dtype).eps)).all(1)  # also where a sum is not a number
    if bool(wrong.any()):
        row = int(wrong.nonzero()[0, 0])
        total = as_single_or_double(targets[row]).sum(0).flatten()[int(off[row].nan_to_num(torch.inf).argmax())]
        raise ValueError(
            f"Floating-point targets of loss='cross_entropy' are class probabilities, which sum to one; those of row "
            f"{row} sum to {total:.6g}. For several labels per example pass loss='binary'; for class numbers pass "
            f"integers; otherwise divide each row by its sum."
        )


def _check_shapes(logits: torch.Tensor, targets: torch.Tensor, loss: str) -> None:
    if not (isinstance(logits, torch.Tensor) and isinstance(targets, torch.Tensor)):
        raise TypeError(
            f"logits and targets must be tensors, got {type(logits).__name__} and {type(targets).__name__}."
        )
    shape, allowed = tuple(logits.shape), [tuple(logits.shape)]
    if loss == "cross_entropy":
        allowed = [shape] if targets.is_floating_point() else [shape[:1] + shape[2:]]
    if logits.dim() < 1 + (loss == "cross_entropy") or not logits.is_floating_point():
        raise ValueError(
            f"logits for loss={loss!r} must be real, with the example as first dimension"
            f"{' and the class as second' if loss == 'cross_entropy' else ''}: got {shape} of {logits.dtype}."
        )
    if tuple(targets.shape) not in allowed:
        raise ValueError(
            f"targets {tuple(targets.shape)} of {targets.dtype} do not fit logits {shape}: loss={loss!r} takes "
            f"{allowed[0]}. Classes are integers, probabilities are floating point."
        )
