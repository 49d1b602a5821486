"""Claims about VRM's mixture in section 6.3: which setting it finds and how early, and its second moment."""

import math

import numpy as np

from lab.arrays import BoolArray, FloatArray
from lab.experiments.cartpole.comparison import CASE, MIN_SEEDS, CartPoleComparison
from lab.experiments.cartpole.protocol import COMPONENTS, EVEN, SINGLES, STRONGEST_ALPHA, VRM
from lab.reproduce.findings import Claim, Details, Verdict, format_number
from lab.statistics import estimate_share, mean, median
from varmix.meter import Interval

EARLY_EPISODES = 20
MIN_LEADING_SHARE = 0.9  # of the runs
MOMENT_FROM_EPISODE, MOMENT_TO_EPISODE = 10, 100
MAX_MOMENT = 0.40  # relative to uniform draws
MAX_CLOSE_RATIO, MIN_CLOSE_SHARE = 1.05, 0.85  # second moment over the best component's, and share of the looks
STRONG_COMPONENTS = np.array([alpha == STRONGEST_ALPHA for _, alpha in SINGLES.values()] + [False])


def judge_mixture(comparison: CartPoleComparison) -> list[Claim]:
    """Return the claims about the mixture that the runs allow."""
    found = (
        [_judge_selection(comparison), _judge_moment(comparison), _judge_closeness(comparison)]
        if comparison.results(VRM)
        else []
    )
    return [claim for claim in found if claim is not None]


def judge_runs(comparison: CartPoleComparison, met: bool, *, long_enough: bool) -> Verdict:
    """Return the verdict on whether a claim is met; "too few runs" for few seeds or short runs."""
    if comparison.count(CASE, VRM) < MIN_SEEDS or not long_enough:
        return "too few runs"
    return "holds" if met else "does not hold"


def _judge_selection(comparison: CartPoleComparison) -> Claim | None:
    if comparison.episodes < EARLY_EPISODES:
        return None
    mixtures = comparison.mixtures()
    settings, everything = _find_leads(mixtures[:, :, :-1]), _find_leads(mixtures)
    early = [leads[:, EARLY_EPISODES - 1] for leads in (settings, everything)]
    among, overall = map(_estimate_lead_share, early)
    verdict = judge_runs(comparison, min(among.value, overall.value) >= MIN_LEADING_SHARE, long_enough=True)
    if verdict == "does not hold" and max(among.value, overall.value) >= MIN_LEADING_SHARE:
        verdict = "holds in part"
    weights = mixtures[:, -1].mean(axis=0)
    most = int(weights.argmax())
    last = f"after episode {comparison.episodes}"
    return Claim(
        f"Replay: best setting by episode {EARLY_EPISODES}",
        "VRM identifies the component of the best hyperparameter setting in early stages and assigns the largest "
        "mixture weight to it.",
        f"{min(int(leads.sum()) for leads in early)} of {len(mixtures)} runs",
        verdict,
        f"{len(mixtures)} seeds; asked: alpha {STRONGEST_ALPHA:g} leads in {MIN_LEADING_SHARE:.0%} of the runs; exact "
        "binomial intervals",
        details=Details(
            (f"components with alpha {STRONGEST_ALPHA:g}", "number"),
            [
                (f"lead the nine settings after episode {EARLY_EPISODES}: share of runs", f"{among}"),
                (f"lead all ten, uniform too, after episode {EARLY_EPISODES}: share of runs", f"{overall}"),
                (f"lead all ten, uniform too, {last}: share of runs", f"{_estimate_lead_share(everything[:, -1])}"),
                ("first episode with the lead of all, median", f"{_find_first_lead(everything)}"),
                (f"largest weight of all {last}, on average", f"{COMPONENTS[most]}: {weights[most]:.2f}"),
            ],
        ),
        note="The number counts runs in which one of them leads all others, uniform among these or not, whichever is "
        "rarer.",
    )


def _find_leads(mixtures: FloatArray) -> BoolArray:
    """Return whether a component with the strongest alpha has the largest weight: runs, episodes."""
    return np.asarray(STRONG_COMPONENTS[mixtures.argmax(axis=2)])


def _estimate_lead_share(leads: BoolArray) -> Interval:
    return estimate_share(int(leads.sum()), len(leads))


def _find_first_lead(leads: BoolArray) -> Interval:
    """Return the median of the first episode with the lead; a run that never has it counts as infinitely late."""
    return median([float(row.argmax()) + 1 if row.any() else math.inf for row in leads])


def _judge_moment(comparison: CartPoleComparison) -> Claim | None:
    looks = np.array(comparison.looks())
    within = (looks >= MOMENT_FROM_EPISODE) & (looks <= MOMENT_TO_EPISODE)
    if not within.any():
        return None

    def over(arm: str, what: str) -> Interval:
        """Return the mean over runs of the geometric mean over looks."""
        return mean(np.exp(np.log(comparison.moments(arm, what)[:, within]).mean(axis=1)).tolist())

    mine = over(VRM, "mixture")
    even = [("fixed mixture, on its own buffers", f"{over(EVEN, 'mixture')}")] if comparison.results(EVEN) else []
    return Claim(
        "Replay: VRM cuts the variance",
        f"Second moment of the weighted errors over episodes {MOMENT_FROM_EPISODE} to {MOMENT_TO_EPISODE}, beside "
        f"uniform draws: at most {MAX_MOMENT:.2f}.",
        format_number(mine, "{value}x {bounds}"),
        judge_runs(comparison, mine.value <= MAX_MOMENT, long_enough=int(looks[-1]) >= MOMENT_TO_EPISODE),
        f"{comparison.count(CASE, VRM)} seeds; {int(within.sum())} looks at all of the buffer, geometric mean of a run",
        beyond=True,
        details=Details(
            ("draws", "second moment beside uniform's"),
            [
                (VRM, f"{mine}"),
                *even,
                ("best mixture at every moment", f"{over(VRM, 'best').value:.3g}"),
                ("least of any law", f"{over(VRM, 'ideal').value:.3g}"),
            ],
        ),
    )


def _judge_closeness(comparison: CartPoleComparison) -> Claim | None:
    looks = np.array(comparison.looks())
    if not len(looks):
        return None
    close = _is_close(comparison, VRM)
    mine, early = mean(close.mean(axis=1).tolist()), close[:, looks <= EARLY_EPISODES].mean()
    rows = [(f"{VRM}, all looks", f"{mine}"), (f"{VRM}, up to episode {EARLY_EPISODES}", f"{early:.1%}")]
    if looks[-1] > EARLY_EPISODES:
        rows.append((f"{VRM}, after episode {EARLY_EPISODES}", f"{close[:, looks > EARLY_EPISODES].mean():.1%}"))
    if comparison.results(EVEN):
        rows.append(("fixed mixture, all looks", f"{_is_close(comparison, EVEN).mean():.1%}"))
    return Claim(
        "Replay: near the best component",
        f"Within {MAX_CLOSE_RATIO - 1:.0%} of the best single component in hindsight, at {MIN_CLOSE_SHARE:.0%} of the "
        "looks at least.",
        format_number(mine, "share {value} {bounds}"),
        judge_runs(comparison, mine.value >= MIN_CLOSE_SHARE, long_enough=comparison.is_full_length),
        f"{len(close)} seeds, {len(looks)} looks each; best by the exact second moment of that moment",
        beyond=True,
        details=Details(("mixture", "share of the looks"), rows),
        note="Uniform is among the components. VRM may be better than all of them.",
    )


def _is_close(comparison: CartPoleComparison, arm: str) -> BoolArray:
    return np.asarray(comparison.moments(arm) <= MAX_CLOSE_RATIO * comparison.moments(arm, "components").min(axis=2))
