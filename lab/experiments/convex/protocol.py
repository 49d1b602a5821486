"""The runs: the best step of every arm is searched on some seeds, and the arm is measured on others."""

import math
from collections.abc import Iterable, Sequence
from functools import partial

from lab.experiments.convex.arms import AGAIN, ARMS, CROSS, DEFAULT, MIXTURE, ONCE, RESHUFFLING
from lab.experiments.convex.tasks import (
    BUNDLED_TASKS,
    LISTED_TASKS,
    TASKS,
    at_hand,
    compute_step_unit,
    find_minimum,
    load_problem,
)
from lab.reproduce.experiment import Mode
from lab.reproduce.records import Config, Record, Result
from lab.statistics import geometric_mean
from lab.step_search import drop_infinite, record_search, search_step
from varmix import solvers
from varmix.solvers.schedules import LinearDecay

BATCH_SIZES = (32, 1)
TUNING_SEEDS, TEST_SEEDS = range(900, 904), range(12)
BUNDLED_TEST_SEEDS = range(24)  # small problems are cheap, and their runs differ more
BASELINE_TEST_SEEDS = range(36)  # of both arms of reshuffling, because all arms are compared with them
# Least squares with batches of one has its best steps at the edge of stability, where a few runs diverge: four seeds
# may not show that.
EDGE_SEEDS = range(900, 912)
COARSE_EXPONENTS = (-4.0, -2.0, 0.0, 2.0, 4.0)  # first steps to try, as powers of two
# Finds the best step to half an octave.
find_step = partial(search_step, start=COARSE_EXPONENTS, distances=(1.0, 0.5), limit=12.0)
SMALLEST_EXCESS = 1e-15  # a lower excess is rounding error
EARLY_RUN_SHARE = 0.3  # part of a run after which the meter is read: the gain over the last half epoch
# Shorter runs show how many draws reach the final excess of reshuffling: parts of the number of epochs.
EPOCH_SHARES = (0.2, 0.4, 0.6, 0.8)
SHORTENED_ARMS = (MIXTURE, CROSS)
OTHER_GROUP_ARMS = ("mixture of labels", "mixture of norms", "mixture of clusters")
LISTED_ONLY_ARMS = (*OTHER_GROUP_ARMS, "static importance", "VRB", "VRM, independent")
QUICK_ARMS = ("uniform", RESHUFFLING, AGAIN, ONCE, MIXTURE, DEFAULT)

Key = tuple[str, int, str, int]
"""Task, batch, arm, epochs."""


def plan(mode: Mode) -> list[Config]:
    """Plan one step search per task, batch, arm and length of run."""
    return [
        {"part": "tune", "task": task, "batch": batch, "arm": arm, "epochs": epochs}
        for task, batch, arm, epochs in _list_keys(mode)
        if arm != AGAIN
    ]


def _list_keys(mode: Mode) -> list[Key]:
    tasks = at_hand() if mode == "full" else BUNDLED_TASKS
    arms = ARMS if mode == "full" else QUICK_ARMS
    batches = BATCH_SIZES if mode == "full" else (32,)
    return [
        (task, batch, arm, epochs)
        for task in tasks
        for batch in batches
        for arm in arms
        if _is_included(task, batch, arm)
        for epochs in _list_lengths(task, batch, arm, mode)
    ]


def _is_included(task: str, batch: int, arm: str) -> bool:
    if arm == "mixture of labels" and TASKS[task].positive is None:
        return False
    if task not in LISTED_TASKS:
        return batch == 32 and arm not in LISTED_ONLY_ARMS
    return batch == 32 or arm not in OTHER_GROUP_ARMS


def _list_lengths(task: str, batch: int, arm: str, mode: Mode) -> list[int]:
    full = TASKS[task].epochs
    if mode == "quick" or batch != 32 or arm not in SHORTENED_ARMS or task not in LISTED_TASKS:
        return [full]
    return [*(round(part * full) for part in EPOCH_SHARES), full]


def then(mode: Mode, records: Sequence[Record]) -> list[Config]:
    """Plan every arm on every test seed at its best step. Without records use any step: only the count matters."""
    best, assumed = best_steps(records), None if records else 0.0
    runs: list[Config] = []
    for task, batch, arm, epochs in _list_keys(mode):
        step = best.get((task, batch, RESHUFFLING if arm == AGAIN else arm, epochs), assumed)
        if step is not None:
            same = {"part": "test", "task": task, "batch": batch, "arm": arm, "epochs": epochs, "step": step}
            runs += [{**same, "seed": seed} for seed in _choose_test_seeds(task, batch, arm)]
    return runs


def _choose_test_seeds(task: str, batch: int, arm: str) -> range:
    if batch == 32 and arm in (RESHUFFLING, AGAIN):
        return BASELINE_TEST_SEEDS
    return BUNDLED_TEST_SEEDS if TASKS[task].bundled else TEST_SEEDS


def best_steps(records: Iterable[Record]) -> dict[Key, float]:
    """Return the exponents of the steps that were found."""
    tuned = [r for r in records if r.config["part"] == "tune"]
    return {make_key(r.config): r.result["best"] for r in tuned}


def make_key(config: Config) -> Key:
    """Return task, batch, arm and epochs of a run."""
    return config["task"], config["batch"], config["arm"], config["epochs"]


def run(config: Config) -> Result:
    """Search the step of an arm, or run the arm at the step that was found."""
    if config["part"] == "tune":
        return _tune_step(config)
    return _test_step(config)


def _tune_step(config: Config) -> Result:
    edge = TASKS[config["task"]].positive is None and config["batch"] == 1
    seeds = EDGE_SEEDS if edge else TUNING_SEEDS

    def score(exponent: float) -> float:
        ends = [_run_arm(config, exponent, seed, evaluations_per_epoch=0)[0] for seed in seeds]
        return math.inf if math.inf in ends else geometric_mean(ends).value

    return record_search(*find_step(score))


def _run_arm(config: Config, exponent: float, seed: int, evaluations_per_epoch: int) -> tuple[float, solvers.Result]:
    """Run an arm and return its final excess, infinite if it diverged, and the result."""
    task = config["task"]
    p, sampler = load_problem(task), ARMS[config["arm"]](task, seed)
    step = LinearDecay(2.0**exponent * compute_step_unit(p))
    done = solvers.sgd(
        p,
        sampler,
        epochs=config["epochs"],
        batch=config["batch"],
        step=step,
        evaluations_per_epoch=evaluations_per_epoch,
    )
    if done.stopped == "diverged":
        return math.inf, done
    return max(p.objective(done.theta) - find_minimum(task), SMALLEST_EXCESS), done


def _test_step(config: Config) -> Result:
    end, result = _run_arm(config, config["step"], config["seed"], evaluations_per_epoch=2)
    floor = find_minimum(config["task"])
    gains, evaluations = result.trace.gains, result.trace.evaluations
    early = next(
        (gain for gain, e in zip(gains, evaluations, strict=True) if e >= EARLY_RUN_SHARE * evaluations[-1]), gains[-1]
    )
    return {
        "excess": drop_infinite(end),
        "evaluations": evaluations,
        "excesses": [drop_infinite(max(loss - floor, SMALLEST_EXCESS)) for loss in result.trace.losses],
        "early_gain": early,
        "gain": result.meter.gain.value,
        "seconds": result.trace.seconds[-1],
    }


def seconds(config: Config) -> float:
    """Estimate the seconds of a run: 0.3 us a draw, more for long rows and many groups; a search makes 40 runs."""
    rows, columns = TASKS[config["task"]].shape
    each = 2e-7 + 3e-9 * min(columns, 120) + (1e-7 if "cross" in config["arm"] else 0.0)
    return float(config["epochs"] * (rows * each + 4e-4) * (40 if config["part"] == "tune" else 1))
