"""Programs in processes of their own, and what they compile."""

import os
import subprocess
import sys
from pathlib import Path

import varmix

SOURCE = str(Path(varmix.__file__).parents[1])

# Prints every kernel that a use compiles, or loads, for types that warming up has not met.
PROBE = """
import sys
from numba.core.dispatcher import Dispatcher
from varmix._warmup import AREAS

def list_signatures():
    modules = [module for name, module in list(sys.modules.items()) if name.startswith("varmix")]
    kernels = {id(each): each for module in modules for each in vars(module).values() if isinstance(each, Dispatcher)}
    return {(each.py_func.__qualname__, str(types)) for each in kernels.values() for types in each.signatures}

AREAS[area]()
known = list_signatures()
exec(USE)
for name, types in sorted(list_signatures() - known):
    print(name, types)
"""


def run(code, **settings):
    environment = {**os.environ, "PYTHONPATH": SOURCE, **settings}
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300, check=False
    )


def find_compiled(area, use):
    """Return a line for every kernel that a use needs beyond what warming up an area has compiled."""
    done = run(f"area, USE = {area!r}, {use!r}\n{PROBE}")
    assert done.returncode == 0, done.stderr
    return done.stdout
