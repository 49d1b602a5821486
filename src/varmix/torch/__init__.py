"""PyTorch: loaders whose batches are drawn by a mixture, per-example norms for their feedback, many processes."""

try:
    import torch  # noqa: F401
except ModuleNotFoundError:
    raise ModuleNotFoundError(
        "varmix.torch needs torch, which is missing. Install it with: pip install 'varmix[torch]'"
    ) from None

__all__: list[str] = []
