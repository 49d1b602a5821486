"""The runs of section 6.4: the paper's learner is tuned on some seedings, then all arms run on others."""

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from lab.arrays import FloatArray
from lab.experiments.kmeans.arms import ARMS, Published, Start, make_paper_components, make_start
from lab.experiments.kmeans.course import BATCH_SIZE, MARKED_ITERATIONS, MOMENT_ITERATION, run_course, take_steps
from lab.experiments.kmeans.data import SETS, at_hand, find_smallest, load_points, split_points
from lab.reproduce.experiment import Mode
from lab.reproduce.records import Config, Record, Result
from varmix import allocate, vrm
from varmix.estimators.clustering import Descent, mean_squared_distance

CLUSTER_COUNT = 100
SEEDING_COUNTS, RUN_COUNTS = {"quick": 8, "full": 10}, {"quick": 1, "full": 10}
LAST_ITERATIONS = {"quick": 500, "full": MARKED_ITERATIONS[-1]}
TUNING_SEEDINGS = {"quick": (900,), "full": (900, 901, 902)}  # seedings that are not reported
TUNING_RUNS = {"quick": 1, "full": 5}  # per tuning seeding
BETAS, GAMMAS = (0.01, 0.1, 1.0, 10.0), (0.01, 0.1, 0.3)
RECORDED_FIELDS = ("errors", "seconds", "moment", "ideal", "gain")
ASSUMED_SETTINGS = Published(beta=1.0, gamma=0.1)  # before tuning, to estimate how long runs will take


def plan(mode: Mode) -> list[Config]:
    """Plan one search for beta and gamma per set; in quick mode for the smallest set only."""
    sets = at_hand() if mode == "full" else [find_smallest()]
    return [
        {"part": "tune", "data": name, "seedings": list(TUNING_SEEDINGS[mode]), "runs": TUNING_RUNS[mode]}
        for name in sets
    ]


def then(mode: Mode, records: Sequence[Record]) -> list[Config]:
    """Plan one run per seeding, which makes all arms in turn."""
    found = {r.config["data"]: r.result["best"] for r in records if r.config["part"] == "tune"}
    assumed = {"beta": ASSUMED_SETTINGS.beta, "gamma": ASSUMED_SETTINGS.gamma}
    sets = found if records else {config["data"]: assumed for config in plan(mode)}
    return [
        {
            "part": "test",
            "data": name,
            "seeding": seeding,
            "runs": RUN_COUNTS[mode],
            "last": LAST_ITERATIONS[mode],
            **best,
        }
        for name, best in sets.items()
        for seeding in range(SEEDING_COUNTS[mode])
    ]


def run(config: Config) -> Result:
    """Search beta and gamma for a set, or run all arms from one seeding."""
    if config["part"] == "tune":
        return _tune_settings(config)
    return _test_arms(config)


def _tune_settings(config: Config) -> Result:
    """Choose beta and gamma by the loss on an inner test part after some iterations, relative to the seeding."""
    scores: dict[tuple[float, float], list[float]] = {pair: [] for pair in product(BETAS, GAMMAS)}
    for seeding in config["seedings"]:
        rng = np.random.default_rng([seeding, 64])
        train, _ = split_points(load_points(config["data"]), rng)
        inner, held = split_points(train, rng)
        at = make_start(inner, CLUSTER_COUNT, rng, ASSUMED_SETTINGS)
        before = mean_squared_distance(held, at.seeding.centers)
        for seed in range(config["runs"]):
            family = make_paper_components(at, seed)
            for pair, found in scores.items():
                learner = Published(*pair).learner(at.scale)
                sampler = vrm(family, learner=learner, allocate=allocate.independent, rng=seed)
                descent = Descent(inner, at.seeding.centers, batch=BATCH_SIZE)
                take_steps(descent, sampler, MOMENT_ITERATION, each_batch=True)
                found.append(mean_squared_distance(held, descent.centers) / before)
    means = {pair: float(np.mean(found)) for pair, found in scores.items()}
    beta, gamma = min(means, key=lambda pair: means[pair])
    tried = {f"beta {b:g}, gamma {g:g}": mean for (b, g), mean in means.items()}
    return {"best": {"beta": beta, "gamma": gamma}, "tried": tried}


def _test_arms(config: Config) -> Result:
    """Run all arms in turn, several times, and batch k-means once."""
    rng = np.random.default_rng([config["seeding"], 64])
    train, test = split_points(load_points(config["data"]), rng)
    at = make_start(train, CLUSTER_COUNT, rng, Published(config["beta"], config["gamma"]))
    marks = [mark for mark in MARKED_ITERATIONS if mark <= config["last"]]
    batch, rounds = _run_batch_kmeans(at)
    goal = mean_squared_distance(test, batch)
    for arm in ARMS:
        run_course(at, arm, 0, marks[:2])  # compile before the clock runs
    arms: dict[str, dict[str, list[Any]]] = {arm: {name: [] for name in RECORDED_FIELDS} for arm in ARMS}
    for number in range(config["runs"]):
        for arm in ARMS:
            done = run_course(at, arm, 1000 * config["seeding"] + number, marks)
            arms[arm]["errors"].append([mean_squared_distance(test, centers) / goal - 1 for centers in done.centers])
            arms[arm]["seconds"].append(done.seconds.tolist())
            for name in RECORDED_FIELDS[2:]:
                arms[arm][name].append(getattr(done, name))
    c = [make_paper_components(at, 1000 * config["seeding"] + number).c for number in range(config["runs"])]
    return {
        "marks": marks,
        "arms": arms,
        "batch": {"inertia": goal, "rounds": rounds},
        "c": float(np.mean(c)),
        "seeding_seconds": at.seconds,
    }


def _run_batch_kmeans(at: Start) -> tuple[FloatArray, int]:
    """Return the centres of batch k-means from the same seeding, and its number of rounds."""
    from sklearn.cluster import KMeans

    done = KMeans(CLUSTER_COUNT, init=at.seeding.centers, n_init=1).fit(at.X)
    return np.asarray(done.cluster_centers_), int(done.n_iter_)


def seconds(config: Config) -> float:
    """Estimate the seconds of a run; most of them are evaluations on the test part, and batch k-means."""
    n, d = SETS[config["data"]].shape
    look = 0.2 * n * CLUSTER_COUNT * (1e-9 + 7e-11 * d)
    if config["part"] == "tune":
        tried = config["runs"] * len(BETAS) * len(GAMMAS)
        return float(len(config["seedings"]) * (10 * look + tried * (1.2e-4 * MOMENT_ITERATION + look)))
    walks = len(ARMS) * config["runs"]
    return float(800 * look + walks * (1.3e-4 * config["last"] + 40 * look))
