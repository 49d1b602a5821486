"""The runs: the best step of every arm is searched on some seeds, and the arm is measured on others."""

from collections.abc import Iterable, Sequence
from functools import partial

from lab.experiments.networks.tasks import AGAIN, LARGER, RESHUFFLING, TASKS, Task, at_hand
from lab.reproduce.experiment import Mode
from lab.reproduce.records import Config, Record, Result
from lab.step_search import search_step

FIRST_TUNING_SEED = 900  # of the seeds that steps are chosen on
FIRST_REPORTED_SEED = 200  # smaller seeds were used while the arms were still being changed
COARSE_EXPONENTS = (-1.0, 0.0, 1.0)  # first steps to try, as powers of two times the task's own step
MAX_EXPONENT = 6.0
# Finds the best step to an octave.
find_step = partial(search_step, start=COARSE_EXPONENTS, distances=(1.0,), limit=MAX_EXPONENT)

Key = tuple[str, str, float]
"""Task, arm, epochs."""


def plan(mode: Mode) -> list[Config]:
    """Plan one step search per task, arm and length of run; nothing in quick mode, because a few runs show nothing."""
    if mode == "quick":
        return []
    return [
        {"part": "tune", "task": task, "arm": arm, "epochs": epochs, "seeds": TASKS[task].tuning}
        for task, arm, epochs in _list_keys()
        if arm != AGAIN
    ]


def _list_keys() -> list[Key]:
    return [
        (name, arm, epochs)
        for name in at_hand()
        for arm in TASKS[name].arms
        for epochs in list_lengths(TASKS[name], arm)
    ]


def list_lengths(task: Task, arm: str) -> list[float]:
    """Return the lengths of the runs of an arm, in epochs."""
    return [task.epochs / 2, task.epochs] if arm in task.halved else [task.epochs]


def then(mode: Mode, records: Sequence[Record]) -> list[Config]:
    """Plan every arm on every test seed at its best step. Without records use any step: only the count matters."""
    if mode == "quick":
        return []
    best, assumed = best_steps(records), None if records else 0.0
    runs: list[Config] = []
    for task, arm, epochs in _list_keys():
        step = best.get((task, RESHUFFLING if arm == AGAIN else arm, epochs), assumed)
        if step is not None:
            same = {"part": "test", "task": task, "arm": arm, "epochs": epochs, "step": step}
            runs += [
                {**same, "seed": seed} for seed in range(FIRST_REPORTED_SEED, FIRST_REPORTED_SEED + TASKS[task].seeds)
            ]
    return runs


def best_steps(records: Iterable[Record]) -> dict[Key, float]:
    """Return the exponents of the steps that were found."""
    return {make_key(r.config): r.result["best"] for r in records if r.config["part"] == "tune"}


def make_key(config: Config) -> Key:
    """Return task, arm and epochs of a run."""
    return config["task"], config["arm"], config["epochs"]


def run(config: Config) -> Result:
    """Search the step of an arm, or run the arm at the step that was found."""
    from lab.experiments.networks import training as runs  # imports PyTorch, which plans and findings do not need

    return runs.tune_step(config) if config["part"] == "tune" else runs.run_test(config)


def seconds(config: Config) -> float:
    """Estimate the seconds of a run. Larger batches take longer, and a search tries about four steps."""
    task = TASKS[config["task"]]
    each = task.seconds * config["epochs"] * (2.5 if config["arm"] == LARGER else 1.0)
    return float(each * (4 * config["seeds"] if config["part"] == "tune" else 1.3) + 1.0)
