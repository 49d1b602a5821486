"""What is said of VRM's mixture in section 6.3: which setting it finds, how soon, and what the draws cost then."""

import math

import numpy as np

from lab.arrays import BoolArray, FloatArray
from lab.experiments.cartpole.protocol import COMPONENTS, EVEN, SINGLES, STRONGEST_ALPHA, VRM
from lab.experiments.cartpole.table import MIN_SEEDS, Table
from lab.reproduce.findings import Claim, Verdict
from lab.statistics import estimate_share, mean, median
from varmix.meter import Interval

EARLY_EPISODES = 20  # episodes
MIN_LEADING_SHARE = 0.9  # share of the runs, at least
MOMENT_FROM_EPISODE, MOMENT_TO_EPISODE, MAX_MOMENT = (
    10,
    100,
    0.40,
)  # episodes, and the second moment against uniform's, at most
MAX_CLOSE_RATIO, MIN_CLOSE_SHARE = 1.05, 0.85  # times the best component's, and at what share of the looks, at least
STRONG_COMPONENTS = np.array([alpha == STRONGEST_ALPHA for _, alpha in SINGLES.values()] + [False])


def judge_mixture(table: Table) -> list[Claim]:
    """Give the claims about the mixture that the runs allow."""
    found = [_judge_selection(table), _judge_moment(table), _judge_closeness(table)] if table.results(VRM) else []
    return [claim for claim in found if claim is not None]


def judge_runs(table: Table, met: bool) -> Verdict:
    """Judge what is asked; too few seeds say nothing."""
    if len(table.results(VRM)) < MIN_SEEDS:
        return "too few runs"
    return "holds" if met else "does not hold"


def _judge_selection(table: Table) -> Claim | None:
    if table.episodes < EARLY_EPISODES:
        return None
    mixtures = table.mixtures()
    settings, everything = _find_leads(mixtures[:, :, :-1]), _find_leads(mixtures)
    among, overall = (
        _estimate_lead_share(settings[:, EARLY_EPISODES - 1]),
        _estimate_lead_share(everything[:, EARLY_EPISODES - 1]),
    )
    verdict = judge_runs(table, min(among.value, overall.value) >= MIN_LEADING_SHARE)
    if verdict == "does not hold" and max(among.value, overall.value) >= MIN_LEADING_SHARE:
        verdict = "holds in part"
    weights = mixtures[:, -1].mean(axis=0)
    most = int(weights.argmax())
    return Claim(
        "VRM successfully identifies the mixture component corresponding to the best hyperparameter setting in early "
        f"stages and assigns the largest mixture weight to it (asked: alpha {STRONGEST_ALPHA:g} leads by episode "
        f"{EARLY_EPISODES} in "
        f"{MIN_LEADING_SHARE:.0%} of the runs).",
        f"After episode {EARLY_EPISODES} a component with alpha {STRONGEST_ALPHA:g} has the largest weight among "
        f"the nine settings in "
        f"{among} of the runs, with uniform counted too in {overall}. It has the lead of all for the first time in "
        f"episode {_find_first_lead(everything)} (median) and at the end in "
        f"{_estimate_lead_share(everything[:, -1])}. Largest at the end on "
        f"average: {COMPONENTS[most]}, {weights[most]:.2f}.",
        verdict,
        f"{len(mixtures)} seeds; exact binomial intervals",
    )


def _find_leads(mixtures: FloatArray) -> BoolArray:
    """Whether one of the components with the strongest alpha has the largest weight: runs, episodes."""
    return np.asarray(STRONG_COMPONENTS[mixtures.argmax(axis=2)])


def _estimate_lead_share(leads: BoolArray) -> Interval:
    return estimate_share(int(leads.sum()), len(leads))


def _find_first_lead(leads: BoolArray) -> Interval:
    """Give the median of the first episode with the lead; what never led counts as infinitely late."""
    return median([float(row.argmax()) + 1 if row.any() else math.inf for row in leads])


def _judge_moment(table: Table) -> Claim | None:
    looks = np.array(table.looks())
    within = (looks >= MOMENT_FROM_EPISODE) & (looks <= MOMENT_TO_EPISODE)
    if not within.any():
        return None

    def over(arm: str, what: str) -> Interval:
        """Give the mean over runs of the geometric mean over looks."""
        return mean(np.exp(np.log(table.moments(arm, what)[:, within]).mean(axis=1)).tolist())

    mine = over(VRM, "mixture")
    even = f", with the fixed mixture {over(EVEN, 'mixture')} on its own" if table.results(EVEN) else ""
    return Claim(
        f"Second moment of the weighted errors over episodes {MOMENT_FROM_EPISODE} to {MOMENT_TO_EPISODE}, against "
        f"uniform draws on the same "
        f"buffers: at most {MAX_MOMENT:.2f}.",
        f"With VRM {mine}{even}. The best mixture at every moment would have {over(VRM, 'best').value:.3g}, and no law "
        f"can have less than {over(VRM, 'ideal').value:.3g}.",
        judge_runs(table, mine.value <= MAX_MOMENT),
        f"{len(table.results(VRM))} seeds; {int(within.sum())} looks at all of the buffer, geometric mean of a run",
        beyond=True,
    )


def _judge_closeness(table: Table) -> Claim | None:
    looks = np.array(table.looks())
    if not len(looks):
        return None
    close = _is_close(table, VRM)
    mine, early = mean(close.mean(axis=1).tolist()), close[:, looks <= EARLY_EPISODES].mean()
    late = f", after it at {close[:, looks > EARLY_EPISODES].mean():.1%}" if looks[-1] > EARLY_EPISODES else ""
    even = f" The fixed mixture: {_is_close(table, EVEN).mean():.1%}." if table.results(EVEN) else ""
    return Claim(
        f"Within {MAX_CLOSE_RATIO - 1:.0%} of the best single component in hindsight, or better, at "
        f"{MIN_CLOSE_SHARE:.0%} of the looks at "
        "least.",
        f"VRM: at a share of {mine}; up to episode {EARLY_EPISODES} at {early:.1%} of the looks{late}.{even}",
        judge_runs(table, mine.value >= MIN_CLOSE_SHARE),
        f"{len(close)} seeds, {len(looks)} looks each; best by the exact second moment of that moment, uniform among "
        "them",
        beyond=True,
    )


def _is_close(table: Table, arm: str) -> BoolArray:
    return np.asarray(table.moments(arm) <= MAX_CLOSE_RATIO * table.moments(arm, "components").min(axis=2))
