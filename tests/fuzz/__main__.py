"""Fuzz saved states: `make fuzz N=20000 SEED=0`, or one case again with `make fuzz CASE='families/groups/17'`."""

import argparse
import re
import sys
import time

from fuzz.catalogue import KINDS, Job
from fuzz.runner import fuzz, run


def main():
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=20_000, help="how many cases, of all kinds together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", nargs="*", choices=KINDS, help="all that are installed if none")
    parser.add_argument("--case", help="one case again: KIND/TARGET/NUMBER")
    arguments = parser.parse_args()
    if arguments.case:
        return again(arguments.case, arguments.seed)
    return everything(arguments)


def again(case, seed):
    """Run one case, and tell all about it."""
    kind, target, number = case.split("/")
    number = int(number) if number.isdigit() else 0
    results = dict(run([Job(kind, target, number, number + 1)], seed))
    for name, verdict in results.items():
        print(f"{name}: {verdict.outcome}\n  {verdict.mutation}\n  {verdict.detail}")
    return int(any(verdict.failed for verdict in results.values()))


def everything(arguments):
    """Run cases of all kinds; print the failures, alike ones together, and a line for every kind."""
    start = time.monotonic()
    reports = fuzz(arguments.cases, arguments.seed, arguments.kinds)
    for kind, report in reports.items():
        for alike in grouped(report.failures):
            verdict = next(iter(alike.values()))
            print(f"\n{kind}: {verdict.outcome}, {len(alike)} times; the first: {verdict.detail}")
            for case, failure in alike.items():
                print(f"    CASE='{case}'  {failure.mutation}")
    for kind, report in reports.items():
        counts = report.counts
        print(
            f"{kind:<12} {report.cases:>7,} cases: {counts['accepted']:>6,} accepted, {counts['refused']:>7,} refused, "
            f"{counts['failed']:>5,} failed"
        )
    failed = sum(len(report.failures) for report in reports.values())
    total = sum(report.cases for report in reports.values())
    print(f"{total:,} cases in {time.monotonic() - start:.0f} s, {failed:,} failed")
    if failed:
        print(f"Run one again with: make fuzz SEED={arguments.seed} CASE='...'")
    return int(failed > 0)


def grouped(failures):
    """Return failures in lists of those that look alike: the same outcome, from the same line of varmix."""
    groups = {}
    for case, verdict in failures.items():
        words, _, place = verdict.detail.rpartition(" at varmix/")
        words = place if words else re.sub(r"/\S+|[-+.\d]+|'[^']*'", "", verdict.detail)[:60]
        groups.setdefault((verdict.outcome, words), {})[case] = verdict
    return sorted(groups.values(), key=len, reverse=True)


if __name__ == "__main__":
    sys.exit(main())
