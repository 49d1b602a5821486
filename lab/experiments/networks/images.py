"""Claims about images, and why a lower variance does or does not help there."""

from collections.abc import Mapping, Sequence

from lab.experiments.networks.comparison import MIN_SEEDS, Loss, NetworkComparison
from lab.experiments.networks.tasks import (
    AGAIN,
    ALWAYS_CROSS,
    ALWAYS_ON,
    BASELINES,
    LARGER,
    MIXTURES,
    MNIST_TASKS,
    RARE,
)
from lab.experiments.networks.wording import (
    describe_settings,
    format_interval,
    format_noise,
    format_range,
    join_pairs,
    tabulate,
)
from lab.reproduce.findings import Claim, Details, Verdict
from lab.statistics import CONFIDENCE_LEVEL, combine_ratios, widen_interval
from varmix.meter import QUIET, Interval

MAX_LOSS_RATIO = 1.1  # highest upper bound of a ratio of losses that counts as not worse
MIN_TIE_RATIO = 0.9  # ratios from here to `MAX_LOSS_RATIO` count as ties
MAX_LOSS_GAP = 2.0  # held-out over training loss; above it more points help, and less noise does not


def has_enough_seeds(comparison: NetworkComparison) -> bool:
    """Return whether both mixtures and both arms of reshuffling have enough runs on all MNIST tasks to judge them."""
    return all(comparison.count(task, arm) >= MIN_SEEDS for task in MNIST_TASKS for arm in (*BASELINES, *MIXTURES))


def _find_larger(comparison: NetworkComparison) -> list[str]:
    """Return the tasks with runs of larger batches: where these change nothing, no sampling can."""
    return [task for task in (*MNIST_TASKS, RARE) if comparison.count(task, LARGER)]


def _judge_noise(comparison: NetworkComparison, tasks: Sequence[str]) -> Claim:
    found = {task: comparison.noise(task, *BASELINES) for task in tasks}
    quiet = [task for task, noise in found.items() if noise and noise[-1] < QUIET]
    verdict: Verdict = "holds" if len(quiet) == len(tasks) else "holds in part" if quiet else "does not hold"
    known = {task: noise for task, noise in found.items() if noise}
    return Claim(
        "MNIST: too little noise to matter",
        f"On MNIST the noise of a batch is below {QUIET} of the squared gradient, so less of it hardly shows.",
        f"{len(quiet)} of {len(tasks)} networks",
        verdict if has_enough_seeds(comparison) else "too few runs",
        f"{describe_settings(comparison, tasks, BASELINES)}; pairs of successive steps, two of five",
        beyond=True,
        details=tabulate(
            {
                "noise, first fifth": {task: format_noise(noise[0]) for task, noise in known.items()},
                "noise, last fifth": {task: format_noise(noise[-1]) for task, noise in known.items()},
            }
        ),
        note="Asked of the noise check alone, at the end of reshuffling's runs.",
    )


def _judge_noise_check(comparison: NetworkComparison) -> Claim:
    """Judge whether noise predicts what larger batches do to the training loss and to a held-out loss near it."""
    known = _find_larger(comparison)
    rows, right = [], []
    for task in known:
        held, train = (comparison.relative(task, LARGER, what) for what in ("test", "train"))
        noise, gap = comparison.noise(task, *BASELINES), comparison.gap(task)
        if held is None or train is None or gap is None or not noise:
            continue
        loud, near = noise[-1] >= QUIET, gap < MAX_LOSS_GAP
        right.append((train.high < 1) == loud and (held.high < 1) == (loud and near))
        rows.append((task, format_noise(noise[-1]), f"{gap:.2g}", format_interval(train), format_interval(held)))
    verdict: Verdict = "holds" if all(right) else "holds in part" if any(right) else "does not hold"
    return Claim(
        "Noise tells if larger batches help",
        f"Noise above {QUIET}: a quarter of it lowers training loss for sure; held-out loss only if below "
        f"{MAX_LOSS_GAP:g} times that.",
        f"{sum(right)} of {len(right)} tasks",
        verdict if len(right) > len(MNIST_TASKS) and _enough_larger(comparison) else "too few runs",
        f"{describe_settings(comparison, known, (LARGER,))}; as many steps, four times the gradients",
        beyond=True,
        details=Details(
            ("task", "noise, last fifth", "held-out / training loss", "training, batch x 4", "held-out, batch x 4"),
            rows,
        ),
        note="Batches of four times the size have a quarter of the noise; their losses are beside reshuffling's. The "
        f"factor of {MAX_LOSS_GAP:g} was read off earlier runs, on seeds 100 to 131.",
    )


def _enough_larger(comparison: NetworkComparison) -> bool:
    return has_enough_seeds(comparison) and all(
        comparison.count(task, LARGER) >= MIN_SEEDS for task in (*MNIST_TASKS, RARE)
    )


def _judge_prediction(comparison: NetworkComparison, tasks: Sequence[str]) -> Claim:
    """Judge whether gain and larger batches predict where mixtures tie with reshuffling and where they pay."""
    found = {(task, arm): comparison.expected(task, arm) for task in (*tasks, RARE) for arm in ALWAYS_ON}
    known = {pair: value for pair, value in found.items() if value is not None}
    right = [MIN_TIE_RATIO <= value <= MAX_LOSS_RATIO for (task, _), value in known.items() if task != RARE]
    right += [known[RARE, ALWAYS_CROSS] < MIN_TIE_RATIO] if (RARE, ALWAYS_CROSS) in known else []
    verdict: Verdict = "holds" if all(right) else "holds in part" if any(right) else "does not hold"
    columns: dict[str, dict[str, str]] = {}
    for (task, arm), value in known.items():
        columns.setdefault(f"{arm}: predicted", {})[task] = f"{value:.3g}"
        columns.setdefault(f"{arm}: observed", {})[task] = format_interval(comparison.relative(task, arm, "test"))
    return Claim(
        "Gain predicts where it pays",
        f"The predicted ratio L^log4(G) is {MIN_TIE_RATIO} to {MAX_LOSS_RATIO} on MNIST, and below {MIN_TIE_RATIO} "
        "where the mixture pays.",
        f"{sum(right)} of {len(right)} predicted",
        verdict if _enough_larger(comparison) else "too few runs",
        f"{describe_settings(comparison, [*tasks, RARE], (LARGER, *ALWAYS_ON))}; mixtures that are always on",
        beyond=True,
        details=tabulate(columns, "task"),
        note="G is the gain over the last three fifths of a run, L the held-out loss with a quarter of the noise, "
        f"beside reshuffling's, and log4 the logarithm to the base of four. On '{RARE}' the mixture with resplit by "
        "norms is asked for.",
    )


MIN_PLAYED_GAIN = 1.01  # uniform draws have a gain of one


def judge_images(comparison: NetworkComparison) -> list[Claim]:
    """Return the claims about MNIST that the runs allow."""
    tasks = [name for name in MNIST_TASKS if name in comparison.tasks]
    if not tasks:
        return []
    found = [
        _not_worse(comparison, tasks),
        _judge_noise(comparison, tasks),
        *([_judge_noise_check(comparison), _judge_prediction(comparison, tasks)] if _find_larger(comparison) else []),
        _report_training(comparison, tasks),
        _report_gains(comparison, tasks),
        _report_always_on(comparison, tasks),
    ]
    return [claim for claim in found if claim is not None]


Ratios = Mapping[tuple[str, str], Interval]
"""Losses relative to reshuffling, by task and arm."""


def _compare_losses(
    comparison: NetworkComparison, tasks: Sequence[str], what: Loss, arms: Sequence[str] = MIXTURES
) -> Ratios:
    found = {(task, arm): comparison.relative(task, arm, what) for task in tasks for arm in arms}
    return {pair: interval for pair, interval in found.items() if interval is not None}


def _list_columns(found: Ratios, suffix: str = "", *, means: bool = False) -> dict[str, dict[str, str]]:
    """Return one column per arm, with the mean over tasks as last row if `means`."""
    rows: dict[str, dict[str, Interval]] = {}
    for (task, arm), interval in found.items():
        rows.setdefault(f"{arm}{suffix}", {})[task] = interval
    columns = {}
    for arm, row in rows.items():
        columns[arm] = {task: format_interval(interval) for task, interval in row.items()}
        if means:
            columns[arm] |= {"geometric mean": format_interval(combine_ratios(list(row.values())))}
    return columns


def _not_worse(comparison: NetworkComparison, tasks: Sequence[str]) -> Claim | None:
    found = _compare_losses(comparison, tasks, "test")
    if not found:
        return None
    fine, alone, worse = _find_fine(found), _find_worse_alone(found), _find_worse(found)
    # An arm that is surely worse does not count as "not worse", even within the limit. Intervals are widened, because
    # one of many arms seems worse by chance alone.
    verdict: Verdict = "holds in part" if fine else "does not hold"
    if len(fine) == len(found) and not worse:
        verdict = "holds"
    return Claim(
        "MNIST: not worse than reshuffling",
        f"Balanced or not, the held-out loss is at most {MAX_LOSS_RATIO} times reshuffling's by its upper bound.",
        f"{len(fine)} of {len(found)} within {MAX_LOSS_RATIO}x",
        verdict if has_enough_seeds(comparison) else "too few runs",
        describe_settings(comparison, tasks, MIXTURES),
        beyond=True,
        details=tabulate(_list_columns(found, means=True)),
        note=f"{_describe_chance(comparison, tasks)}Worse for sure, all looked at together: {join_pairs(worse)}. Lower "
        "bounds above one, each for itself, of which chance alone makes "
        f"{(1 - CONFIDENCE_LEVEL) / 2 * len(found):.1g}: {join_pairs(alone)}. {_describe_played(comparison, found)}",
    )


def _find_fine(found: Ratios) -> list[tuple[str, str]]:
    return [pair for pair, interval in found.items() if interval.high <= MAX_LOSS_RATIO]


def _find_worse_alone(found: Ratios) -> list[tuple[str, str]]:
    return [pair for pair, interval in found.items() if interval.low > 1]


def _find_worse(found: Ratios) -> list[tuple[str, str]]:
    return [pair for pair in _find_worse_alone(found) if widen_interval(found[pair], len(found)).low > 1]


def _describe_played(comparison: NetworkComparison, found: Ratios) -> str:
    """Describe the losses of the pairs whose mixture was used for at least a part of the run."""
    played = {pair: interval for pair, interval in found.items() if comparison.gain(*pair) >= MIN_PLAYED_GAIN}
    return (
        f"Where the mixture does not stand aside from beginning to end, and has a gain above {MIN_PLAYED_GAIN}: "
        f"{len(_find_fine(played))} of {len(played)} within."
    )


def _describe_chance(comparison: NetworkComparison, tasks: Sequence[str]) -> str:
    """Describe how often reshuffling passes the same check against itself."""
    found = [interval for task in tasks if (interval := comparison.relative(task, AGAIN, "test")) is not None]
    fine = sum(interval.high <= MAX_LOSS_RATIO for interval in found)
    return (
        f"Of reshuffling beside itself, with half the runs to compare with, {fine} of {len(found)} are within. "
        if found
        else ""
    )


def _report_training(comparison: NetworkComparison, tasks: Sequence[str]) -> Claim | None:
    found = _compare_losses(comparison, tasks, "train")
    if not found:
        return None
    return Claim(
        "MNIST: training loss",
        "Training loss of the same runs beside that of reshuffling.",
        format_range(found.values()),
        "measured",
        describe_settings(comparison, tasks, MIXTURES),
        beyond=True,
        details=tabulate(_list_columns(found)),
    )


def _report_gains(comparison: NetworkComparison, tasks: Sequence[str]) -> Claim | None:
    found = {(task, arm): comparison.sooner(task, arm) for arm in MIXTURES for task in tasks}
    known = {pair: interval for pair, interval in found.items() if interval is not None}
    if not known:
        return None
    columns: dict[str, dict[str, str]] = {}
    for (task, arm), interval in known.items():
        columns.setdefault(f"{arm}: gain", {})[task] = f"{comparison.gain(task, arm):.3g}"
        columns.setdefault(f"{arm}: times fewer", {})[task] = format_interval(interval)
    return Claim(
        "MNIST: gradients saved",
        "How many times fewer gradients reach the training loss that reshuffling ends with; 0 is never.",
        format_range(known.values()),
        "measured",
        f"{describe_settings(comparison, tasks, MIXTURES)}; within a run, of mean curves, bootstrap over seeds",
        beyond=True,
        details=tabulate(columns),
        note="The gain is that over the last three fifths of a run.",
    )


def _report_always_on(comparison: NetworkComparison, tasks: Sequence[str]) -> Claim | None:
    """Report the losses of mixtures that are used from the first batch on."""
    held, train = (_compare_losses(comparison, tasks, what, ALWAYS_ON) for what in ("test", "train"))
    if not held:
        return None
    return Claim(
        "MNIST: mixtures that are always on",
        "From the first batch on, in even batches (`learner=varmix.learners.BarrierNewton()`): losses beside "
        "reshuffling's.",
        f"{len(_find_fine(held))} of {len(held)} within {MAX_LOSS_RATIO}x",
        "measured",
        describe_settings(comparison, tasks, ALWAYS_ON),
        beyond=True,
        details=tabulate(
            _list_columns(held, ": held-out", means=True) | _list_columns(train, ": training", means=True)
        ),
        note="The number counts upper bounds of held-out losses. Worse for sure there, all looked at together: "
        f"{join_pairs(_find_worse(held))}.",
    )
