"""Draw the figures of the documentation with the examples on its pages.

Run it from a checkout after `pip install '.[plot]'`:

    python scripts/draw_docs_figures.py

It runs the examples of each page unchanged in an empty folder, and moves the figures that they save to `docs/`.
"""

import contextlib
import io
import os
import re
import shutil
import tempfile
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs"
FIGURES = {"quickstart.md": ("shares.png",)}  # figures that the examples of a page save
BLOCK = re.compile(r"^```python\n(.*?)^```\n", re.DOTALL | re.MULTILINE)


def draw_figures(page: Path, figures: tuple[str, ...]) -> None:
    """Run the Python blocks of a page in order, and move the figures that they save next to the page."""
    names: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        before = Path.cwd()
        os.chdir(folder)
        try:
            for code in BLOCK.findall(page.read_text()):
                exec(compile(code, str(page), "exec"), names)
        finally:
            os.chdir(before)
        for figure in figures:
            shutil.move(Path(folder) / figure, page.parent / figure)


if __name__ == "__main__":
    for page, figures in FIGURES.items():
        draw_figures(DOCS / page, figures)
        print("\n".join(f"docs/{figure}" for figure in figures))
