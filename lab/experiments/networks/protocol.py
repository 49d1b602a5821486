"""The runs: every arm looks for its own best step on some seeds, and is measured on others."""

from collections.abc import Iterable, Sequence
from functools import partial

from lab.experiments.networks.tasks import AGAIN, LARGER, RESHUFFLING, TASKS, Task, at_hand
from lab.reproduce.experiment import Mode
from lab.reproduce.records import Config, Record, Result
from lab.step_search import search_step

FIRST_TUNING_SEED = 900  # of the seeds that steps are chosen on
FIRST_REPORTED_SEED = (
    200  # first of those that are reported: smaller ones were looked at before the arms were what they are now
)
COARSE_EXPONENTS = (-1.0, 0.0, 1.0)  # steps to begin with, as powers of two of the task's own
MAX_EXPONENT = 6.0
find_step = partial(search_step, start=COARSE_EXPONENTS, distances=(1.0,), limit=MAX_EXPONENT)  # to an octave

Key = tuple[str, str, float]
"""Task, arm, epochs."""


def plan(mode: Mode) -> list[Config]:
    """One search for the best step per task, arm and length of run; in quick mode nothing: a few runs tell nothing."""
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
    """Give the lengths of the runs of an arm, in epochs."""
    return [task.epochs / 2, task.epochs] if arm in task.halved else [task.epochs]


def then(mode: Mode, records: Sequence[Record]) -> list[Config]:
    """Every arm on every test seed, at its best step; before anything is known, at some step."""
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
    """Give the exponents of the steps that were found."""
    return {make_key(r.config): r.result["best"] for r in records if r.config["part"] == "tune"}


def make_key(config: Config) -> Key:
    """Give what a run is compared by."""
    return config["task"], config["arm"], config["epochs"]


def run(config: Config) -> Result:
    """Search the step of an arm, or run it at a step that was found."""
    from lab.experiments.networks import training as runs  # it imports PyTorch, which plans and findings do without

    return runs.tune_step(config) if config["part"] == "tune" else runs.run_test(config)


def seconds(config: Config) -> float:
    """So much an epoch as the task says, more for larger batches; a search tries some four steps."""
    task = TASKS[config["task"]]
    each = task.seconds * config["epochs"] * (2.5 if config["arm"] == LARGER else 1.0)
    return float(each * (4 * config["seeds"] if config["part"] == "tune" else 1.3) + 1.0)
