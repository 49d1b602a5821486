"""Peers: what people would use instead, each of them optional."""

from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

from lab.commands import format_install


@dataclass(frozen=True)
class Peer:
    """A package to compare with: its name, the module that is imported, and the extra that brings it."""

    name: str
    module: str
    extra: str

    @property
    def present(self) -> bool:
        """Whether it can be imported; what is installed but broken cannot."""
        try:
            import_module(self.module)
        except (ImportError, OSError):
            return False
        return True

    @property
    def version(self) -> str:
        """The version that is installed."""
        try:
            return version(self.name)
        except PackageNotFoundError:
            return "unknown"

    @property
    def absence(self) -> str:
        """What to say when it is missing."""
        return f"{self.name} is not installed, so nothing is compared with it: {format_install(self.extra)}"


TORCH = Peer("torch", "torch.utils.data", "torch")
DPPY = Peer("dppy", "dppy.finite_dpps", "bench")
CPPRB = Peer("cpprb", "cpprb", "bench")
SKLEARN = Peer("scikit-learn", "sklearn.linear_model", "sklearn")
CLUSTERING = Peer("scikit-learn", "sklearn.cluster", "sklearn")
