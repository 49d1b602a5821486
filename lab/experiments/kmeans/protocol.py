"""The runs of section 6.4: the paper's learner is tuned on some seedings, and all arms run on others."""

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from lab.arrays import FloatArray
from lab.experiments.kmeans.arms import ARMS, Published, Start, papers, start
from lab.experiments.kmeans.course import BATCH, MARKS, MOMENT_AT, descend, step
from lab.experiments.kmeans.data import SETS, at_hand, points, smallest, split
from lab.reproduce.experiment import Mode
from lab.reproduce.records import Config, Record, Result
from varmix import allocate, vrm
from varmix.estimators.clustering import Descent, inertia

CLUSTERS = 100
SEEDINGS, RUNS = {"quick": 2, "full": 10}, {"quick": 2, "full": 10}
LAST = {"quick": 500, "full": MARKS[-1]}
TUNING = {"quick": (900,), "full": (900, 901, 902)}  # seedings, of which none is shown
TRIES = {"quick": 2, "full": 5}  # runs from each of these
BETAS, GAMMAS = (0.01, 0.1, 1.0, 10.0), (0.01, 0.1, 0.3)
RECORDED = ("errors", "seconds", "moment", "ideal", "gain")
ASSUMED = Published(beta=1.0, gamma=0.1)  # before anything is tuned, to tell how long it will take


def plan(mode: Mode) -> list[Config]:
    """One search for beta and gamma per set; in quick mode of the smallest set only."""
    sets = at_hand() if mode == "full" else [smallest()]
    return [{"part": "tune", "data": name, "seedings": list(TUNING[mode]), "runs": TRIES[mode]} for name in sets]


def then(mode: Mode, records: Sequence[Record]) -> list[Config]:
    """All arms on every seeding, side by side."""
    found = {r.config["data"]: r.result["best"] for r in records if r.config["part"] == "tune"}
    assumed = {"beta": ASSUMED.beta, "gamma": ASSUMED.gamma}
    sets = found if records else {config["data"]: assumed for config in plan(mode)}
    return [
        {"part": "test", "data": name, "seeding": seeding, "runs": RUNS[mode], "last": LAST[mode], **best}
        for name, best in sets.items()
        for seeding in range(SEEDINGS[mode])
    ]


def run(config: Config) -> Result:
    """Search beta and gamma for a set, or run all arms from one seeding."""
    if config["part"] == "tune":
        return _tune(config)
    return _test(config)


def _tune(config: Config) -> Result:
    """Score beta and gamma by the loss on an inner test part after some iterations, beside that of the seeding."""
    scores: dict[tuple[float, float], list[float]] = {pair: [] for pair in product(BETAS, GAMMAS)}
    for seeding in config["seedings"]:
        rng = np.random.default_rng([seeding, 64])
        train, _ = split(points(config["data"]), rng)
        inner, held = split(train, rng)
        at = start(inner, CLUSTERS, rng, ASSUMED)
        before = inertia(held, at.seeding.centers)
        for seed in range(config["runs"]):
            family = papers(at, seed)
            for pair, found in scores.items():
                learner = Published(*pair).learner(at.scale)
                sampler = vrm(family, learner=learner, allocate=allocate.independent, rng=seed)
                descent = Descent(inner, at.seeding.centers, batch=BATCH)
                step(descent, sampler, MOMENT_AT, each_batch=True)
                found.append(inertia(held, descent.centers) / before)
    means = {pair: float(np.mean(found)) for pair, found in scores.items()}
    beta, gamma = min(means, key=lambda pair: means[pair])
    tried = {f"beta {b:g}, gamma {g:g}": mean for (b, g), mean in means.items()}
    return {"best": {"beta": beta, "gamma": gamma}, "tried": tried}


def _test(config: Config) -> Result:
    """Run every arm some times, in turns, and batch k-means once."""
    rng = np.random.default_rng([config["seeding"], 64])
    train, test = split(points(config["data"]), rng)
    at = start(train, CLUSTERS, rng, Published(config["beta"], config["gamma"]))
    marks = [mark for mark in MARKS if mark <= config["last"]]
    batch, rounds = _batch(at)
    goal = inertia(test, batch)
    for arm in ARMS:
        descend(at, arm, 0, marks[:2])  # what is compiled is compiled now
    arms: dict[str, dict[str, list[Any]]] = {arm: {name: [] for name in RECORDED} for arm in ARMS}
    for number in range(config["runs"]):
        for arm in ARMS:
            done = descend(at, arm, 1000 * config["seeding"] + number, marks)
            arms[arm]["errors"].append([inertia(test, centers) / goal - 1 for centers in done.centers])
            arms[arm]["seconds"].append(done.seconds.tolist())
            for name in RECORDED[2:]:
                arms[arm][name].append(getattr(done, name))
    c = [papers(at, 1000 * config["seeding"] + number).c for number in range(config["runs"])]
    return {
        "marks": marks,
        "arms": arms,
        "batch": {"inertia": goal, "rounds": rounds},
        "c": float(np.mean(c)),
        "seeding_seconds": at.seconds,
    }


def _batch(at: Start) -> tuple[FloatArray, int]:
    """Give the centres of batch k-means from the same seeding, and how many rounds it took."""
    from sklearn.cluster import KMeans

    done = KMeans(CLUSTERS, init=at.seeding.centers, n_init=1).fit(at.X)
    return np.asarray(done.cluster_centers_), int(done.n_iter_)


def seconds(config: Config) -> float:
    """Give about how long it takes; most of it are looks at the test part, and batch k-means."""
    n, d = SETS[config["data"]].shape
    look = 0.2 * n * CLUSTERS * (1e-9 + 7e-11 * d)
    if config["part"] == "tune":
        tried = config["runs"] * len(BETAS) * len(GAMMAS)
        return float(len(config["seedings"]) * (10 * look + tried * (1.2e-4 * MOMENT_AT + look)))
    walks = len(ARMS) * config["runs"]
    return float(800 * look + walks * (1.3e-4 * config["last"] + 40 * look))
