"""Why held-out losses on MNIST are a tie: noise, what less of it does, and what it cannot do."""

from collections.abc import Sequence

from lab.reproduce.findings import Claim
from lab.reproduce.findings import Verdict
from lab.experiments.networks.table import ENOUGH
from lab.experiments.networks.table import Table
from lab.experiments.networks.tasks import ALWAYS_CROSS
from lab.experiments.networks.tasks import ALWAYS_ON
from lab.experiments.networks.tasks import BASELINES
from lab.experiments.networks.tasks import LARGER
from lab.experiments.networks.tasks import MIXTURES
from lab.experiments.networks.tasks import MNIST
from lab.experiments.networks.tasks import RARE
from lab.experiments.networks.wording import listing
from lab.experiments.networks.wording import number
from lab.experiments.networks.wording import settings
from lab.experiments.networks.wording import text
from varmix.meter import QUIET

LIMIT = 1.1  # upper bound of a ratio of losses that counts as not worse
MATTERS = 0.9  # a ratio of losses from which on nobody would care
TWICE = 2.0  # the training loss: a held-out loss above that wants more points, not less noise


def claims(table: Table, tasks: Sequence[str]) -> list[Claim]:
    """Give the claims about noise, and about batches with a quarter of it where there are any."""
    found = [_noise(table, tasks)]
    return [*found, _told(table, tasks), _foretold(table, tasks)] if _larger(table) else found


def enough(table: Table) -> bool:
    """Whether both mixtures and both arms of reshuffling have runs enough on all of MNIST to be judged."""
    return all(table.seeds(task, arm) >= ENOUGH for task in MNIST for arm in (*BASELINES, *MIXTURES))


def _larger(table: Table) -> list[str]:
    """Give the tasks with larger batches: less noise by brute force, and what that cannot do no sampling can."""
    return [task for task in (*MNIST, RARE) if table.seeds(task, LARGER)]


def _noise(table: Table, tasks: Sequence[str]) -> Claim:
    found = {task: table.noise(task, *BASELINES) for task in tasks}
    quiet = [task for task, noise in found.items() if noise and noise[-1] < QUIET]
    verdict: Verdict = "holds" if len(quiet) == len(tasks) else "holds in part" if quiet else "does not hold"
    said = {task: f"{number(noise[0])} and {number(noise[-1])}" for task, noise in found.items() if noise}
    return Claim(
        f"The noise check alone tells why: on MNIST the noise of a batch is below {QUIET} of the squared gradient, "
        "where the meter says that less of it hardly shows.",
        f"In the first and in the last fifth of reshuffling's runs: {listing(said)}.",
        verdict if enough(table) else "too few runs",
        f"{settings(table, tasks, BASELINES)}; pairs of successive steps, two of five",
        beyond=True,
    )


def _told(table: Table, tasks: Sequence[str]) -> Claim:
    """Noise says whether less of it lowers the training loss; the held-out loss has to be near enough to follow."""
    known = _larger(table)
    said, right = {}, []
    for task in known:
        held, train = (table.relative(task, LARGER, what) for what in ("test", "train"))
        noise, gap = table.noise(task, *BASELINES), table.gap(task)
        if held is None or train is None or gap is None or not noise:
            continue
        loud, near = noise[-1] >= QUIET, gap < TWICE
        right.append((train.high < 1) == loud and (held.high < 1) == (loud and near))
        said[task] = (
            f"noise {number(noise[-1])}, held-out loss {gap:.2g} times the training loss; with a quarter of the noise "
            f"training {text(train)}, held-out {text(held)}"
        )
    verdict: Verdict = "holds" if all(right) else "holds in part" if any(right) else "does not hold"
    return Claim(
        f"The noise check tells why where the held-out loss is looked at beside it. Noise above {QUIET}: less of it, "
        f"by batches of four times the size, lowers the training loss for sure. The held-out loss is lower for sure "
        f"only where it was less than {TWICE:g} times the training loss; elsewhere points are missing.",
        f"{listing(said)}." if said else "",
        verdict if len(right) > len(MNIST) and _enough_larger(table) else "too few runs",
        f"{settings(table, known, (LARGER,))}; as many steps, four times the gradients",
        beyond=True,
    )


def _enough_larger(table: Table) -> bool:
    return enough(table) and all(table.seeds(task, LARGER) >= ENOUGH for task in (*MNIST, RARE))


def _foretold(table: Table, tasks: Sequence[str]) -> Claim:
    """Why it is a tie: little noise to take away, or none that held-out points would notice."""
    found = {(task, arm): table.expected(task, arm) for task in (*tasks, RARE) for arm in ALWAYS_ON}
    known = {pair: value for pair, value in found.items() if value is not None}
    right = [MATTERS <= value <= LIMIT for (task, _), value in known.items() if task != RARE]
    right += [known[RARE, ALWAYS_CROSS] < MATTERS] if (RARE, ALWAYS_CROSS) in known else []
    verdict: Verdict = "holds" if all(right) else "holds in part" if any(right) else "does not hold"
    rows: dict[str, list[str]] = {}
    for (task, arm), value in known.items():
        rows.setdefault(task, []).append(f"{arm} {value:.3g}, observed {text(table.relative(task, arm, 'test'))}")
    return Claim(
        f"Gain and larger batches tell why instead, for mixtures that are always on: with the gain G, and L the "
        f"held-out loss with a quarter of the noise, L^(log G / log 4) is within {MATTERS} to {LIMIT} on MNIST for "
        f"both, and below {MATTERS} for the one with cross refresh where it pays.",
        f"{listing({task: ', '.join(said) for task, said in rows.items()})}." if rows else "",
        verdict if _enough_larger(table) else "too few runs",
        f"{settings(table, [*tasks, RARE], (LARGER, *ALWAYS_ON))}; the gain over the last three fifths of a run",
        beyond=True,
    )
