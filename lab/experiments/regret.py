"""Regret of learners against the best fixed mixture, on problems that a generator makes."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np

from lab.arrays import FloatArray
from lab.reproduce.experiment import Experiment, Mode
from lab.reproduce.findings import Claim, Findings, Picture, Verdict
from lab.reproduce.records import Config, Record, Result
from varmix import vrm
from varmix.components import Dense
from varmix.hindsight import best_mixture
from varmix.learners import OGD, ONS, BarrierNewton, Evidence, Learner
from varmix.theory import full_information, partial_information, theorem_1_bound

Mixtures = Literal["blob", "hot", "rand"]
Losses = Literal["stationary", "switching", "adaptive", "rare", "shrinking"]
PHASES = 5


@dataclass(frozen=True)
class Problem:
    """A point of the grid."""

    k: int
    c: float
    mixtures: Mixtures
    losses: Losses
    rounds: int
    seed: int = 0
    n: int = 500


class Costs(NamedTuple):
    """What was paid, and what uniform sampling and the best fixed mixture would have paid."""

    paid: float
    uniform: float
    best: float


def make_ratios(problem: Problem, rng: np.random.Generator) -> FloatArray:
    """Give the ratios (n, k - 1) of the components.

    *blob*: one block of points per component, 1e-7 elsewhere.  *hot*: each uniform on n / c random points.  *rand*:
    gamma(0.3) variates capped at c / n.
    """
    n, k, c = problem.n, problem.k - 1, problem.c
    if problem.mixtures == "blob":
        block = np.arange(n) * k // n
        table = np.where(block[:, None] == np.arange(k), 1.0, 1e-7)
    elif problem.mixtures == "hot":
        table = np.zeros((n, k))
        for j in range(k):
            table[rng.choice(n, size=max(round(n / c), 1), replace=False), j] = 1.0
    else:
        table = rng.gamma(0.3, size=(n, k))
        for _ in range(100):  # capping takes mass away, which normalising gives back, until both hold
            table = np.minimum(table / table.mean(axis=0), c)
    return np.asarray(table / table.mean(axis=0))


def make_bounds(ratios: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Give the bounds B of a hidden target: a rough power of a random mixture's density, at most one."""
    density = ratios @ rng.dirichlet(np.full(ratios.shape[1], 0.3))
    rough = density**0.75 * rng.uniform(0.3, 1.7, size=len(density)) + 0.02
    return np.asarray(np.minimum(1.0, rough / np.quantile(rough, 0.999)))


def make_losses(
    problem: Problem, ratios: FloatArray, rng: np.random.Generator
) -> Callable[[int, FloatArray], FloatArray]:
    """Give the squared losses of round t, as a function of t and of the mixture's density."""
    bounds = [make_bounds(ratios, rng) for _ in range(PHASES)]
    B, n, T = bounds[0], problem.n, problem.rounds

    def stationary(t: int, density: FloatArray) -> FloatArray:
        return B * rng.random(n)

    def switching(t: int, density: FloatArray) -> FloatArray:
        return bounds[t * PHASES // T] * rng.random(n)

    def adaptive(t: int, density: FloatArray) -> FloatArray:
        squares: FloatArray = 0.05 * B
        squares[np.argpartition(density, n // 20)[: n // 20]] = 1.0
        return squares

    def rare(t: int, density: FloatArray) -> FloatArray:
        return np.where((rng.random(n) < 0.02) & (B > 0.3), 1.0, 1e-3)

    def shrinking(t: int, density: FloatArray) -> FloatArray:
        return np.asarray(B * rng.random(n) / np.sqrt(1 + t / 10))

    families = (stationary, switching, adaptive, rare, shrinking)
    return {family.__name__: family for family in families}[problem.losses]


def play_problem(problem: Problem, learner: Learner[Any] | None = None, *, full: bool = False) -> Costs:
    """Run a sampler through a problem, on draws or (`full`) on censuses; the default learner if none is given."""
    rng = np.random.default_rng([problem.seed, problem.k, problem.rounds, round(10 * problem.c)])
    ratios = make_ratios(problem, rng)
    losses = make_losses(problem, ratios, rng)
    sampler = vrm(Dense(ratios=ratios), learner=learner, rng=rng)
    table = sampler.draw_all().ratios
    total = np.zeros(problem.n)
    paid = 0.0
    for t in range(problem.rounds):
        density = table @ sampler.mixture
        squares = losses(t, density)
        paid += float((squares / density).mean())
        total += squares
        draw = sampler.draw_all() if full else sampler.draw(1)
        sampler.update(draw, np.sqrt(squares[draw.indices]))
    best = best_mixture(Evidence(table, total))
    return Costs(paid, float(total.mean()), best.cost)


if TYPE_CHECKING:
    from matplotlib.figure import Figure


def list_problems(
    rounds: int, ks: Iterable[int] = (2, 5, 20, 100), cs: Iterable[float] = (1.5, 10.0, 50.0), seed: int = 0
) -> Iterator[Problem]:
    """Give all problems with these numbers of components and these largest ratios."""
    for k, mixtures, losses in product(ks, get_args(Mixtures), get_args(Losses)):
        for c in [k - 1.0] if mixtures == "blob" else cs:
            yield Problem(k, c, mixtures, losses, rounds, seed)


class Summary(NamedTuple):
    """Geometric mean and worst of C/F, and worst of C/U."""

    geometric: float
    worst: float
    uniform_worst: float


# What the defaults must keep to after so many rounds.
COST_LIMITS = {3000: Summary(1.06, float("inf"), 1.25), 30_000: Summary(1.03, 1.2, 1.06)}


def within_limits(rounds: int, summary: Summary) -> bool:
    """Whether a summary keeps to the limits for so many rounds."""
    return all(value <= limit for value, limit in zip(summary, COST_LIMITS[rounds], strict=True))


def summarise_costs(costs: Iterable[Costs]) -> Summary:
    """Give C/F as geometric mean and worst case, and the worst C/U."""
    table = np.array(list(costs))
    against_best, against_uniform = table[:, 0] / table[:, 2], table[:, 0] / table[:, 1]
    return Summary(float(np.exp(np.log(against_best).mean())), float(against_best.max()), float(against_uniform.max()))


def theorem_1_share(problem: Problem) -> float:
    """Give the regret of Algorithm 1 with the theory's settings as a share of Theorem 1's bound."""
    costs = play_problem(problem, full_information(problem.rounds, problem.k).ons(), full=True)
    return (costs.paid - costs.best) / theorem_1_bound(problem.rounds, problem.k)


# The learners of the growth part: a learner for so many rounds and components, and whether it sees all losses.
ARMS: dict[str, tuple[Callable[[int, int], Learner[Any]], bool]] = {
    "Algorithm 1, theory's settings, full information": (lambda T, k: full_information(T, k).ons(), True),
    "default learner, full information": (lambda T, k: BarrierNewton(), True),
    "Algorithm 2, theory's settings": (lambda T, k: partial_information(T, k, c=10.0).ons(), False),
    "default learner": (lambda T, k: BarrierNewton(), False),
    "ONS, authors' settings": (lambda T, k: ONS(), False),
    "OGD": (lambda T, k: OGD(), False),
}
THEORY, PARTIAL, DEFAULT = (
    "Algorithm 1, theory's settings, full information",
    "Algorithm 2, theory's settings",
    "default learner",
)
GROWTH_LOSSES: tuple[Losses, ...] = ("stationary", "switching", "adaptive", "rare")


def plan(mode: Mode) -> list[Config]:
    """The growth of the regret up to 10,000 or 100,000 rounds, and a corner of the grid or all of it.

    Seed 13 of the grid was not looked at while the default learner was chosen.
    """
    quick = mode == "quick"
    rounds, seeds = ((100, 1000, 10_000), (21,)) if quick else ((100, 1000, 10_000, 100_000), (21, 22, 23))
    growth = [
        {"part": "growth", "arm": arm, **asdict(Problem(7, 10.0, "hot", losses, T, seed))}
        for T, seed, losses, arm in product(rounds, seeds, GROWTH_LOSSES, ARMS)
        if not (quick and T == 10_000 and losses in ("switching", "rare"))
    ]
    corner = list_problems(1000, ks=(2, 5), cs=(10.0,), seed=13)
    problems = list(corner) if quick else [*list_problems(3000, seed=13), *list_problems(30_000, seed=13)]
    return growth + [{"part": "grid", "arm": DEFAULT, **asdict(problem)} for problem in problems]


def run(config: Config) -> Result:
    """Play one problem with one learner."""
    problem = Problem(**{name: value for name, value in config.items() if name not in ("part", "arm")})
    make, full = ARMS[config["arm"]]
    return play_problem(problem, make(problem.rounds, problem.k), full=full)._asdict()


def seconds(config: Config) -> float:
    """Rounds times what one takes: 45 us, more with many components or full information."""
    return float(config["rounds"] * (45e-6 + 2e-7 * config["k"] ** 1.5 + 40e-6 * ARMS[config["arm"]][1]) + 0.1)


def findings(records: Sequence[Record]) -> Findings:
    """Compare the regret with its bounds, and the defaults with their limits."""
    growth = [record for record in records if record.config["part"] == "growth"]
    played = [record for record in records if record.config["part"] == "grid"]
    lengths = sorted({record.config["rounds"] for record in played})
    claims = _growth_claims(growth)
    claims += [_grid_claim(T, [r for r in played if r.config["rounds"] == T]) for T in lengths]
    picture = Picture(
        "regret",
        "Regret against the number of rounds T, mean over the seeds, one panel per kind of losses, with the bound of "
        "Theorem 1 for full information. The bound holds with orders of magnitude to spare; how the learners scale is "
        "what separates them.",
        "Four panels of regret curves on logarithmic axes; all lie far below the dashed bound.",
        lambda: _draw_figure(growth),
    )
    return Findings(
        experiment="regret",
        title="Sections 3 and 4: regret",
        claims=claims,
        pictures=[picture] if growth else [],
        notes=[
            "Losses: stationary; switching, with five new targets; adaptive, largest where the present mixture samples "
            "least; rare, one with probability 0.02 on some points. Costs are exact, in units of f / n^2."
        ],
    )


def _growth_claims(records: list[Record]) -> list[Claim]:
    claims = []
    theory = [r for r in records if r.config["arm"] == THEORY]
    if theory:
        shares = [_compute_regret(r) / theorem_1_bound(r.config["rounds"], r.config["k"]) for r in theory]
        claims.append(
            Claim(
                "Theorem 1: with full information the regret is at most 5 L k^(1/2) T^(2/3) log^(1/3) T.",
                f"At most {max(shares):.2%} of the bound in every run.",
                "holds" if max(shares) <= 1 else "does not hold",
                _describe_settings(theory),
            )
        )
    parts = {arm: [r for r in records if r.config["arm"] == arm] for arm in (PARTIAL, DEFAULT)}
    if all(parts.values()):
        terms = {arm: _terms_of_theorem_2(rows) for arm, rows in parts.items()}
        ends = [f"{arm}: {max(early):.3f} and {max(late):.4f}" for arm, (early, late) in terms.items()]
        claims.append(
            Claim(
                "Theorem 2: with partial information the expected regret is at most k^(3/8) c^(1/5) L T^(4/5) up to "
                "constants and logarithms.",
                f"Regret over that term, largest among the shortest and among the longest runs. {'; '.join(ends)}.",
                "measured",
                _describe_settings([r for rows in parts.values() for r in rows]),
            )
        )
    mine = [r for r in records if r.config["arm"] == DEFAULT and r.config["losses"] in ("stationary", "adaptive")]
    if mine:
        claims.append(_long_run_claim(mine))
    return claims


def _terms_of_theorem_2(records: list[Record]) -> tuple[list[float], list[float]]:
    """Give regret over k^(3/8) c^(1/5) T^(4/5) in the shortest and in the longest runs."""
    shortest, longest = min(r.config["rounds"] for r in records), max(r.config["rounds"] for r in records)

    def terms(T: int) -> list[float]:
        mine = [r for r in records if r.config["rounds"] == T]
        return [_compute_regret(r) / (r.config["k"] ** 0.375 * r.config["c"] ** 0.2 * T**0.8) for r in mine]

    return terms(shortest), terms(longest)


def _long_run_claim(records: list[Record]) -> Claim:
    longest = max(r.config["rounds"] for r in records)
    steady = [r for r in records if r.config["rounds"] == longest]
    most = max(_compute_regret(r) / r.result["best"] for r in steady)
    verdict: Verdict = "holds" if most <= 0.01 else "does not hold"
    return Claim(
        "The default learner's regret is at most 1 % of the best cost after 100,000 rounds.",
        f"At most {most:.2%} after {longest:,} rounds of stationary and adaptive losses.",
        verdict if longest >= 100_000 else "measured",
        _describe_settings(steady),
        beyond=True,
    )


def _describe_settings(records: list[Record]) -> str:
    rounds = [r.config["rounds"] for r in records]
    losses = ", ".join(dict.fromkeys(r.config["losses"] for r in records))
    span = " to ".join(f"{T:,}" for T in sorted({min(rounds), max(rounds)}))
    return f"k = 7, c = 10, {len(records)} runs, T = {span}, losses {losses}"


def _grid_claim(rounds: int, records: list[Record]) -> Claim:
    summary = summarise_costs(Costs(**r.result) for r in records)
    verdict: Verdict = "measured"
    if rounds in COST_LIMITS:
        verdict = "holds" if within_limits(rounds, summary) else "does not hold"
    limits = COST_LIMITS.get(rounds)
    asked = "close to the best fixed mixture, hardly worse than uniform"
    if limits:
        worst = f" and {limits.worst} at worst" if limits.worst < np.inf else ""
        asked = (
            f"cost at most {limits.geometric} of the best fixed mixture's on average{worst}, at most "
            f"{limits.uniform_worst} of uniform's at worst"
        )
    return Claim(
        f"The defaults need no tuning: {asked}, after {rounds:,} rounds.",
        f"Against the best fixed mixture {summary.geometric:.3f} (geometric mean), {summary.worst:.3f} at worst; "
        f"against uniform {summary.uniform_worst:.3f} at worst.",
        verdict,
        f"{len(records)} problems, k = {', '.join(map(str, sorted({r.config['k'] for r in records})))}, seed 13",
        beyond=True,
    )


def _compute_regret(record: Record) -> float:
    return float(record.result["paid"] - record.result["best"])


def _draw_figure(records: list[Record]) -> "Figure":
    from lab.plots import COLORS, DASHES, make_panels

    figure, axes = make_panels(2, 2, width=4.2)
    for panel, losses in zip(axes, GROWTH_LOSSES, strict=True):
        for index, arm in enumerate(ARMS):
            mine = [r for r in records if r.config["losses"] == losses and r.config["arm"] == arm]
            T = sorted({r.config["rounds"] for r in mine})
            values = [np.mean([_compute_regret(r) for r in mine if r.config["rounds"] == t]) for t in T]
            panel.plot(
                T, np.maximum(values, 1e-2), color=COLORS[index], linestyle=DASHES[index], marker="o", ms=3, label=arm
            )
        T = sorted({r.config["rounds"] for r in records})
        panel.plot(T, [theorem_1_bound(t, 7) for t in T], color="black", linewidth=1, label="Theorem 1's bound")
        panel.set(title=losses, xscale="log", yscale="log", xlabel="T", ylabel="regret")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


EXPERIMENT = Experiment("regret", plan, run, seconds, findings)
