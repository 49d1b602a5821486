"""Pages whose code is there to be pasted run as they stand, and print what they say they print."""

import contextlib
import io
import os
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("README.md", "docs/index.md", "docs/quickstart.md")
# A block of Python, and the block of its output if there is one right behind it.
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```\n(.*?)^```\n)?", re.DOTALL | re.MULTILINE)
NUMBER = re.compile(r"\d+(?:\.\d+)?")


def blocks(page):
    return BLOCK.findall((ROOT / page).read_text())


@pytest.mark.parametrize("page", PAGES)
def test_code_runs_as_it_stands_and_prints_what_the_page_says(page, tmp_path, monkeypatch):
    pytest.importorskip("sklearn")
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    assert blocks(page)
    names = {}
    for code, expected in blocks(page):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, page, "exec"), names)
        # Words to the letter; numbers to one in fifty, since rounding differs between machines.
        assert NUMBER.sub("#", printed.getvalue()) == NUMBER.sub("#", expected)
        found, said = (list(map(float, NUMBER.findall(text))) for text in (printed.getvalue(), expected))
        assert found == pytest.approx(said, rel=0.02, abs=0.011)


@pytest.mark.parametrize("page", PAGES)
def test_code_that_prints_has_its_output_behind_it(page):
    for code, output in blocks(page):
        assert bool(output) == ("print(" in code)
        assert "..." not in output


def test_the_readme_is_short_and_its_loop_too():
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) <= 120
    (code, _) = blocks("README.md")[0]
    loop = code.partition("sampler = ")[2].splitlines()
    assert len(loop) <= 10


def test_pictures_of_pages_are_there():
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "docs/results").glob("*.md")):
        for picture in re.findall(r"!\[[^\]]+\]\(([^)]+)\)", page.read_text()):
            assert os.path.getsize(page.parent / picture) > 5000, f"{page}: {picture}"
