"""The runs of section 6.3: every arm on every seed, 200 episodes each."""

from lab.experiments.cartpole.protocol import ARMS
from lab.experiments.cartpole.protocol import UNIFORM
from lab.experiments.cartpole.protocol import VRM
from lab.reproduce.experiment import Mode
from lab.reproduce.records import Config
from lab.reproduce.records import Result

SEEDS, EPISODES = {"quick": 1, "full": 50}, {"quick": 40, "full": 200}


def plan(mode: Mode) -> list[Config]:
    """All arms on 50 seeds; in quick mode two arms on one, and fewer episodes.

    Seeds 900 to 907 are those that the agent's settings were chosen on.
    """
    arms = ARMS if mode == "full" else (UNIFORM, VRM)
    return [{"arm": arm, "seed": seed, "episodes": EPISODES[mode]} for seed in range(SEEDS[mode]) for arm in arms]


def run(config: Config) -> Result:
    """Play, and write down rewards, mixtures and costs."""
    from lab.experiments.cartpole import training__runs as runs  # it imports PyTorch, which plans and findings do without

    return runs.run(config)


def seconds(config: Config) -> float:
    """About 0.7 ms a step; how many steps there are depends on how well it learns."""
    return float(3.0 + 0.7e-3 * config["episodes"] * (40 if config["episodes"] < 100 else 220))
