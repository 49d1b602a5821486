"""What is said of VRM's mixture in section 6.3: which setting it finds, how soon, and what the draws cost then."""

import math

import numpy as np

from lab.arrays import BoolArray, FloatArray
from lab.experiments.cartpole.protocol import COMPONENTS, EVEN, SINGLES, STRONGEST, VRM
from lab.experiments.cartpole.table import ENOUGH, Table
from lab.reproduce.findings import Claim, Verdict
from lab.statistics import mean, median, share
from varmix.meter import Interval

EARLY = 20  # episodes
LEADING = 0.9  # share of the runs, at least
FROM, TO, MOMENT = 10, 100, 0.40  # episodes, and the second moment against uniform's, at most
CLOSE, NEAR = 1.05, 0.85  # times the best component's, and at what share of the looks, at least
STRONG = np.array([alpha == STRONGEST for _, alpha in SINGLES.values()] + [False])


def claims(table: Table) -> list[Claim]:
    """Give the claims about the mixture that the runs allow."""
    found = [_found(table), _moment(table), _near(table)] if table.results(VRM) else []
    return [claim for claim in found if claim is not None]


def judged(table: Table, met: bool) -> Verdict:
    """Judge what is asked; too few seeds say nothing."""
    if len(table.results(VRM)) < ENOUGH:
        return "too few runs"
    return "holds" if met else "does not hold"


def _found(table: Table) -> Claim | None:
    if table.episodes < EARLY:
        return None
    mixtures = table.mixtures()
    settings, everything = _leads(mixtures[:, :, :-1]), _leads(mixtures)
    among, overall = _share(settings[:, EARLY - 1]), _share(everything[:, EARLY - 1])
    verdict = judged(table, min(among.value, overall.value) >= LEADING)
    if verdict == "does not hold" and max(among.value, overall.value) >= LEADING:
        verdict = "holds in part"
    weights = mixtures[:, -1].mean(axis=0)
    most = int(weights.argmax())
    return Claim(
        "VRM successfully identifies the mixture component corresponding to the best hyperparameter setting in early "
        f"stages and assigns the largest mixture weight to it (asked: alpha {STRONGEST:g} leads by episode {EARLY} in "
        f"{LEADING:.0%} of the runs).",
        f"After episode {EARLY} a component with alpha {STRONGEST:g} has the largest weight among the nine settings in "
        f"{among} of the runs, with uniform counted too in {overall}. It has the lead of all for the first time in "
        f"episode {_first(everything)} (median) and at the end in {_share(everything[:, -1])}. Largest at the end on "
        f"average: {COMPONENTS[most]}, {weights[most]:.2f}.",
        verdict,
        f"{len(mixtures)} seeds; exact binomial intervals",
    )


def _leads(mixtures: FloatArray) -> BoolArray:
    """Whether one of the components with the strongest alpha has the largest weight: runs, episodes."""
    return np.asarray(STRONG[mixtures.argmax(axis=2)])


def _share(leads: BoolArray) -> Interval:
    return share(int(leads.sum()), len(leads))


def _first(leads: BoolArray) -> Interval:
    """Give the median of the first episode with the lead; what never led counts as infinitely late."""
    return median([float(row.argmax()) + 1 if row.any() else math.inf for row in leads])


def _moment(table: Table) -> Claim | None:
    looks = np.array(table.looks())
    within = (looks >= FROM) & (looks <= TO)
    if not within.any():
        return None

    def over(arm: str, what: str) -> Interval:
        """Give the mean over runs of the geometric mean over looks."""
        return mean(np.exp(np.log(table.moments(arm, what)[:, within]).mean(axis=1)).tolist())

    mine = over(VRM, "mixture")
    even = f", with the fixed mixture {over(EVEN, 'mixture')} on its own" if table.results(EVEN) else ""
    return Claim(
        f"Second moment of the weighted errors over episodes {FROM} to {TO}, against uniform draws on the same "
        f"buffers: at most {MOMENT:.2f}.",
        f"With VRM {mine}{even}. The best mixture at every moment would have {over(VRM, 'best').value:.3g}, and no law "
        f"can have less than {over(VRM, 'ideal').value:.3g}.",
        judged(table, mine.value <= MOMENT),
        f"{len(table.results(VRM))} seeds; {int(within.sum())} looks at all of the buffer, geometric mean of a run",
        beyond=True,
    )


def _near(table: Table) -> Claim | None:
    looks = np.array(table.looks())
    if not len(looks):
        return None
    close = _close(table, VRM)
    mine, early = mean(close.mean(axis=1).tolist()), close[:, looks <= EARLY].mean()
    late = f", after it at {close[:, looks > EARLY].mean():.1%}" if looks[-1] > EARLY else ""
    even = f" The fixed mixture: {_close(table, EVEN).mean():.1%}." if table.results(EVEN) else ""
    return Claim(
        f"Within {CLOSE - 1:.0%} of the best single component in hindsight, or better, at {NEAR:.0%} of the looks at "
        "least.",
        f"VRM: at a share of {mine}; up to episode {EARLY} at {early:.1%} of the looks{late}.{even}",
        judged(table, mine.value >= NEAR),
        f"{len(close)} seeds, {len(looks)} looks each; best by the exact second moment of that moment, uniform among "
        "them",
        beyond=True,
    )


def _close(table: Table, arm: str) -> BoolArray:
    return np.asarray(table.moments(arm) <= CLOSE * table.moments(arm, "components").min(axis=2))
