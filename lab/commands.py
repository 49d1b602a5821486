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
    """Return the command that adds an extra to this environment, from the checkout that varmix was installed from.

    varmix is on no index, so there is no name to install it by.  Where the checkout is not known, or is gone, the
    command is one to type in another checkout, and says so.
    """
    pip = "pip" if _found("pip") else f"{_shown(Path(sys.executable))} -m pip"
    folder, editable = _origin()
    if folder is None or not (folder / "pyproject.toml").is_file():
        return f"{pip} install '.[{extra}]' in a checkout of varmix"
    shown = _shown(folder)
    if not shown.startswith((".", os.sep)):
        shown = os.path.join(".", shown)  # pip looks for a name without a separator on the index
    return f"{pip} install {'--editable ' if editable else ''}'{shown}[{extra}]'"


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
