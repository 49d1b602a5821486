"""The architecture page describes the tree that there is."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_page_lists_every_folder_with_code_and_no_other():
    page = (ROOT / "docs" / "architecture.md").read_text()
    tree = page.split("## The tree")[1].split("\n## ")[0]
    listed = re.findall(r"^\| `([^`]+)` \|", tree, re.MULTILINE)
    there = {
        path.parent.relative_to(ROOT).as_posix()
        for root in ("src/varmix", "lab")
        for path in (ROOT / root).rglob("*.py")
    }
    assert sorted(listed) == sorted(there)
