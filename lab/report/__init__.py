"""The report: what a run has to show, as pages that need nothing beside themselves."""

from lab.report.page import write

__all__ = ["write"]
