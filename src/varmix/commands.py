"""Commands as they can be typed here: a virtual environment need not be active, and varmix may come from a folder."""

import json
import os
import shutil
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import unquote, urlparse


def program() -> str:
    """Give the command `varmix`, by its path where that is not what the shell would find."""
    return "varmix" if _found("varmix") else _shown(Path(sys.executable).parent / "varmix")


def install(extra: str) -> str:
    """Give the command that adds an extra to this environment, from where varmix was installed."""
    pip = "pip" if _found("pip") else f"{_shown(Path(sys.executable))} -m pip"
    folder, editable = _origin()
    package = "varmix" if folder is None else _shown(folder)
    return f"{pip} install {'--editable ' if editable else ''}'{package}[{extra}]'"


def _found(name: str) -> bool:
    """Whether the shell finds this environment's own command."""
    path = shutil.which(name)
    return path is not None and Path(path).parent == Path(sys.executable).parent


def _shown(path: Path) -> str:
    """Give a path as one would type it: from here, if it lies below."""
    here = Path.cwd()
    return os.path.relpath(path, here) if path.is_relative_to(here) else str(path)


def _origin() -> tuple[Path | None, bool]:
    """Give the folder that varmix was installed from, if it was one, and whether it is used in place."""
    try:
        said = distribution("varmix").read_text("direct_url.json")
    except PackageNotFoundError:
        return None, False
    origin = json.loads(said or "{}")
    url = urlparse(origin.get("url", ""))
    if url.scheme != "file" or "dir_info" not in origin:
        return None, False
    return Path(unquote(url.path)), bool(origin["dir_info"].get("editable", False))
