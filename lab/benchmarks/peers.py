"""Peers: packages to compare with. All of them are optional."""

from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

from lab.commands import format_install


@dataclass(frozen=True)
class Peer:
    """A package to compare with: its name, the module to import, and the extra that installs it."""

    name: str
    module: str
    extra: str

    @property
    def present(self) -> bool:
        """Whether the package can be imported. A broken installation counts as missing."""
        try:
            import_module(self.module)
        except (ImportError, OSError):
            return False
        return True

    @property
    def version(self) -> str:
        """Installed version."""
        try:
            return version(self.name)
        except PackageNotFoundError:
            return "unknown"

    @property
    def absence(self) -> str:
        """Message for a missing package, with the command that installs it."""
        return f"{self.name} is not installed and is left out. Install it with: {format_install(self.extra)}"


TORCH = Peer("torch", "torch.utils.data", "torch")
DPPY = Peer("dppy", "dppy.finite_dpps", "bench")
CPPRB = Peer("cpprb", "cpprb", "bench")
SKLEARN = Peer("scikit-learn", "sklearn.linear_model", "sklearn")
CLUSTERING = Peer("scikit-learn", "sklearn.cluster", "sklearn")
