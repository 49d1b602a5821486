"""The HTML report of a run: self-contained pages that need no network."""

from lab.report.page import write

__all__ = ["write"]
