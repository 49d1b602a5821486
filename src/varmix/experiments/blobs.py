"""Blobs, section 6.1: a linear SVM on six Gaussian blobs, where only the two middle ones hold support vectors.

    varmix reproduce blobs

Five epochs of online gradient descent with step 0.01 / sqrt(t) on 10,000 points; the feedback is the norm of the hinge
loss's gradient, zeros included.  The mixture should find the middle blobs by itself, and accuracy should stay high
sooner.  The first time that an accuracy is hit shows nothing, because plain sampling hits it by luck and loses it
again; what counts is from when on it is *sustained*.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from varmix.arrays import FloatArray, IntArray
from varmix.components import Groups
from varmix.experiments.experiment import Experiment, Mode
from varmix.experiments.findings import Claim, Evolution, Findings, Picture, Verdict
from varmix.experiments.records import Config, Record, Result
from varmix.experiments.statistics import mean, times_sooner
from varmix.learners import ONS
from varmix.meter import GainMeter
from varmix.presets import uniform, vrm
from varmix.sampler import Sampler

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLOBS = 6
MIDDLE = (2, 3)
HEIGHT = 30.0  # of the row above the origin
LEVEL = 0.99  # the accuracy to be sustained
LOOK = 25  # iterations between two looks at the accuracy
FIGURE_AT = 10_000  # iterations after which the paper shows the mixture
NAMES = (*(f"blob {j + 1}" for j in range(BLOBS)), "uniform")

ARMS: dict[str, Callable[["Blobs", int], Sampler]] = {
    "mixture": lambda data, seed: vrm(Groups(data.blob), rng=seed),
    "authors' ONS": lambda data, seed: vrm(Groups(data.blob), learner=ONS(), rng=seed),
    "uniform": lambda data, seed: uniform(len(data.X), rng=seed),
    "uniform again": lambda data, seed: uniform(len(data.X), rng=seed + 1_000_000),
    "reshuffling": lambda data, seed: uniform(len(data.X), rng=seed, replacement=False),
}


@dataclass(frozen=True)
class Blobs:
    """Points (n, 2) with a constant feature behind them, labels -1 or 1, and the blob of each point."""

    X: FloatArray
    y: FloatArray
    blob: IntArray


def make_blobs(n: int = 10_000, rng: int = 0) -> Blobs:
    """Give six balanced, well-separated blobs from left to right; the left three are negative.

    The paper does not print their places.  Here they lie in a row away from the origin, so that the tilt of the
    separating line and its offset have to be told apart; in a row through the origin any ten steps separate them.
    """
    generator = np.random.default_rng([rng, 1])  # not the stream that a sampler with this seed draws from
    blob = np.arange(n) * BLOBS // n
    centers = np.column_stack([np.linspace(-5.0, 5.0, BLOBS), HEIGHT + np.tile([0.5, -0.5], BLOBS // 2)])
    points = centers[blob] + 0.25 * generator.normal(size=(n, 2))
    return Blobs(np.column_stack([points, np.ones(n)]), np.where(blob < BLOBS // 2, -1.0, 1.0), blob)


@dataclass
class Run:
    """A finished run: the separating direction, what the meter says, and what was seen at every look."""

    theta: FloatArray
    meter: GainMeter
    accuracies: FloatArray
    mixtures: FloatArray


def train(data: Blobs, sampler: Sampler, epochs: int = 5) -> Run:
    """Run online gradient descent on the hinge loss with one draw a step."""
    X, y = data.X, data.y
    lengths = np.linalg.norm(X, axis=1)
    lengths /= lengths.max()  # the authors' settings are for losses of at most one; the default learner does not mind
    theta, meter = np.zeros(X.shape[1]), GainMeter()
    accuracies, mixtures = [], []
    for t in range(1, epochs * len(X) + 1):
        draw = sampler.draw(1)
        i = draw.indices[0]
        active = y[i] * (X[i] @ theta) < 1.0
        if active:
            theta += 0.01 / np.sqrt(t) * draw.weights[0] * y[i] * X[i]
        norms = np.array([lengths[i] if active else 0.0])
        meter.update(draw, norms)
        sampler.update(draw, norms)
        if t % LOOK == 0:
            accuracies.append(accuracy(data, theta))
            mixtures.append(sampler.mixture)
    return Run(theta, meter, np.array(accuracies), np.array(mixtures))


def accuracy(data: Blobs, theta: FloatArray) -> float:
    """Give the share of points on the right side."""
    return float(np.mean(np.sign(data.X @ theta) == data.y))


def hinge(data: Blobs, theta: FloatArray) -> float:
    """Give the mean hinge loss."""
    return float(np.maximum(0.0, 1.0 - data.y * (data.X @ theta)).mean())


def lasting(accuracies: FloatArray) -> FloatArray:
    """Give the least accuracy from every look on: what is never lost again."""
    return np.asarray(np.minimum.accumulate(accuracies[::-1])[::-1])


def sustained(accuracies: FloatArray, level: float = LEVEL) -> int | None:
    """Give the iteration of the first look from which on the accuracy never falls below `level` again.

    Examples
    --------
    >>> sustained(np.array([0.5, 0.995, 0.6, 0.99, 1.0]))
    100
    """
    below = np.flatnonzero(accuracies < level)
    first = 0 if len(below) == 0 else int(below[-1]) + 1
    return None if first == len(accuracies) else LOOK * (first + 1)


def plan(mode: Mode) -> list[Config]:
    """Every arm on every seed: 4 seeds, or 40."""
    seeds = range(4 if mode == "quick" else 40)
    return [{"arm": arm, "seed": seed, "n": 10_000, "epochs": 5} for seed in seeds for arm in ARMS]


def run(config: Config) -> Result:
    """Train one arm on one data set."""
    data = make_blobs(config["n"], rng=config["seed"])
    sampler = ARMS[config["arm"]](data, config["seed"])
    done = train(data, sampler, config["epochs"])
    looks = _some_looks(len(done.accuracies))
    in_figure = min(FIGURE_AT // LOOK, len(done.mixtures)) - 1
    learns = sampler.components.k > 1
    return {
        "sustained": sustained(done.accuracies),
        "accuracy": accuracy(data, done.theta),
        "hinge": hinge(data, done.theta),
        "gain": done.meter.gain.value,
        "mixture": done.mixtures[-1].tolist() if learns else None,
        "mixture_in_figure": done.mixtures[in_figure].tolist() if learns else None,
        "iterations": (LOOK * (looks + 1)).tolist(),
        "kept": lasting(done.accuracies)[looks].tolist(),
        "mixtures": np.round(done.mixtures[looks], 5).tolist() if learns else None,
    }


def _some_looks(count: int) -> IntArray:
    """Give about a hundred looks, close together at the start."""
    return np.unique(np.geomspace(1, count, 100).round().astype(np.int64)) - 1


def findings(records: Sequence[Record]) -> Findings:
    """Compare the arms."""
    arms = {arm: [r for r in records if r.config["arm"] == arm] for arm in ARMS}
    finished = {arm: rows for arm, rows in arms.items() if rows}
    mixed = finished.get("mixture", [])
    return Findings(
        experiment="blobs",
        title="Section 6.1: SVM on blobs",
        claims=_claims(arms),
        pictures=[
            Picture(
                "blobs",
                "Left, the six blobs with their labels; middle, the same points with the weight that the mixture gives "
                f"their blob after {FIGURE_AT:,} iterations. Right, the accuracy that is never lost again, mean and "
                "95 % band: only the middle blobs hold support vectors, and drawing them more often settles the "
                "separating line sooner.",
                "Three panels: six blobs in two colours, the two middle blobs dark and the others pale, and accuracy "
                "curves of all arms rising to one.",
                lambda: _figure(finished),
            )
        ],
        evolutions=[_evolution(mixed)] if mixed else [],
        notes=[
            "The seed makes the data and the draws. 'uniform again' repeats uniform sampling with other draws: how far "
            "it is from 'uniform' is how far chance alone goes."
        ],
    )


def _claims(arms: dict[str, list[Record]]) -> list[Claim]:
    seeds = len(arms["mixture"])
    settings = f"{seeds} seeds, n = 10,000, 5 epochs, step 0.01/sqrt(t)"
    claims = []
    if seeds:
        weights = [sum(r.result["mixture"][j] for j in MIDDLE) for r in arms["mixture"]]
        in_figure = [sum(r.result["mixture_in_figure"][j] for j in MIDDLE) for r in arms["mixture"]]
        found: Verdict = "holds" if min(weights) > 0.5 else "does not hold"
        measured = (
            f"Weight on the two middle blobs at the end {mean(weights)}, least {min(weights):.2f}; "
            f"after {FIGURE_AT:,} iterations {mean(in_figure)}."
        )
        claims.append(Claim("The mixture finds the two middle blobs.", measured, found, settings))
    return claims + [_speed_up(arm, arms, settings) for arm in SAID if arms[arm] and arms["uniform"]]


SAID = {
    "mixture": "VRM achieves a certain level of accuracy faster than uniform sampling (here: the default learner).",
    "authors' ONS": "The same, with the paper's learner and the authors' settings (norms of at most one).",
    "reshuffling": "Plain reshuffling against uniform draws with replacement.",
    "uniform again": "Uniform draws against themselves: how far chance alone goes.",
}


def _speed_up(arm: str, arms: dict[str, list[Record]], settings: str) -> Claim:
    mine, theirs = ({r.config["seed"]: r.result["sustained"] for r in arms[name]} for name in (arm, "uniform"))
    seeds = sorted(set(mine) & set(theirs))
    end = max(r.result["iterations"][-1] for r in arms[arm])
    faster = times_sooner([mine[seed] for seed in seeds], [theirs[seed] for seed in seeds], end)
    beyond = arm in ("reshuffling", "uniform again")
    verdict: Verdict = "holds" if faster.low > 1 else "does not hold" if faster.high < 1 else "too few runs"
    never = sum(mine[seed] is None for seed in seeds)
    missed = f"; {never} of {len(seeds)} runs never did" if never else ""
    return Claim(
        SAID[arm],
        f"Accuracy {LEVEL} sustained {faster} times sooner than with uniform draws{missed}.",
        "measured" if beyond else verdict,
        f"{settings}; median of {len(seeds)} pairs",
        beyond,
    )


def _evolution(records: list[Record]) -> Evolution:
    average = np.mean([r.result["mixtures"] for r in records], axis=0)
    return Evolution(
        "blobs-mixture",
        f"The mixture on the blobs, mean of {len(records)} seeds",
        "iterations",
        "weight",
        records[0].result["iterations"],
        {name: average[:, j].tolist() for j, name in enumerate(NAMES)},
    )


def _figure(arms: dict[str, list[Record]]) -> "Figure":
    from varmix.experiments.plots import COLORS, lines, panels

    figure, (left, middle, right) = panels(3)
    data = make_blobs()
    some = np.random.default_rng(0).choice(len(data.X), 2000, replace=False)
    points, positive = data.X[some, :2], data.y[some] > 0
    for side, color, marker, name in ((positive, COLORS[2], "o", "positive"), (~positive, COLORS[3], "^", "negative")):
        left.scatter(points[side, 0], points[side, 1], s=4, c=color, marker=marker, linewidths=0, label=name)
    left.legend(markerscale=2.5, loc="upper center", ncols=2)
    left.set(title="data", xlabel="$x_1$", ylabel="$x_2$", ylim=(HEIGHT - 2, HEIGHT + 2.5))
    if "mixture" in arms:
        weights = np.mean([r.result["mixture_in_figure"] for r in arms["mixture"]], axis=0)
        shade = np.minimum(0.08 + 0.92 * weights[:BLOBS] / weights[:BLOBS].max(), 1.0)
        middle.scatter(points[:, 0], points[:, 1], s=4, c=COLORS[0], alpha=shade[data.blob[some]], linewidths=0)
        for j in range(BLOBS):
            x, y = points[data.blob[some] == j].mean(axis=0)
            above = y > HEIGHT
            middle.annotate(f"{weights[j]:.2f}", (x, y + (0.9 if above else -1.2)), ha="center")
    middle.set(title=f"mixture weight after {FIGURE_AT:,} iterations", xlabel="$x_1$", ylim=(HEIGHT - 2, HEIGHT + 2.5))
    for index, (arm, rows) in enumerate((arm, rows) for arm, rows in arms.items() if arm != "uniform again"):
        lines(right, rows[0].result["iterations"], [r.result["kept"] for r in rows], arm, index)
    right.set(title="accuracy kept from here on", xlabel="iterations", xscale="log", ylim=(0.45, 1.01))
    right.legend(loc="lower right")
    return figure


EXPERIMENT = Experiment("blobs", plan, run, lambda config: 1.6, findings)
