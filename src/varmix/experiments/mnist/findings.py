"""What the runs show."""

from varmix.experiments.findings import Findings


def findings(records):
    return Findings("mnist", "", [])
