"""Sampling: from the parameters of an estimator to a sampler, and the watch over whether it pays."""

from copy import deepcopy
from typing import Any

import numpy as np

from varmix import _presets as presets
from varmix._core.validation import FloatArray, unknown_choice
from varmix._sampler import Sampler, as_family
from varmix.components import Components
from varmix.components._base import is_family
from varmix.estimators._auto_groups import GROUP_KINDS, auto_labels
from varmix.literature import vrb
from varmix.meter import REPLACED, RESHUFFLED, GainMeter, Interval
from varmix.solvers import Linear

SAMPLING_NAMES = ("mixture", "shuffle", "uniform", "importance", "vrb")
# The meter is asked from a tenth of the epochs on, and not before it has seen so many draws; at three tenths the
# estimate decides where its interval does not.
EARLIEST_DECISION_SHARE, LATEST_DECISION_SHARE, MIN_DRAWS_TO_DECIDE = 0.1, 0.3, 4096


def build_sampler(
    sampling: str,
    components: Any,  # noqa: ANN401 - a name, labels or a family
    resplit: str | None,
    X: Any,  # noqa: ANN401
    problem: Linear,
    seed: int,
) -> Sampler:
    """Give the sampler of a name."""
    if sampling == "shuffle":
        return presets.uniform(problem.n, replacement=False, rng=seed)
    if sampling == "uniform":
        return presets.uniform(problem.n, rng=seed)
    if sampling == "vrb":
        return vrb(problem.n, rng=seed)
    if sampling == "importance":
        scores = problem.lipschitz
        return presets.importance(scores if scores.max() > 0 else np.ones(problem.n), rng=seed)
    return presets.vrm(_build_family(components, resplit, X, problem, seed), rng=seed)


def _build_family(components: Any, resplit: Any, X: Any, problem: Linear, seed: int) -> Components:  # noqa: ANN401
    source = components
    if isinstance(components, str):
        task = "regression" if problem.loss == "squared" else "classification"
        source = auto_labels(X, problem.y, kind=components, task=task, rng=seed)
    family = as_family(source, resplit=resplit)
    if family.space.n != problem.n:
        raise ValueError(f"components are over {family.space.n} points, but X has {problem.n} rows.")
    return deepcopy(family) if family is source else family  # fitting must not move the cursors of a parameter


def check_sampling(sampling: object, components: Any, resplit: object) -> None:  # noqa: ANN401
    """Refuse parameters that mean nothing, before any work is done."""
    if not isinstance(sampling, str) or sampling not in SAMPLING_NAMES:
        raise ValueError(unknown_choice("sampling", str(sampling), SAMPLING_NAMES))
    if isinstance(components, str) and components not in GROUP_KINDS:
        raise ValueError(unknown_choice("kind of components", components, GROUP_KINDS))
    if not isinstance(components, str):
        as_family(components)
    if resplit is not None and not (isinstance(resplit, str) and resplit == "norms"):
        raise ValueError(f'resplit must be None or "norms", got {resplit!r}.')
    if resplit is not None and is_family(components):
        raise ValueError(
            "resplit is for groups that fit builds. Give it to the family instead: Groups(..., resplit=...)."
        )


class FallbackMonitor:
    """Sees every epoch of a run: keeps the losses, and changes to plain shuffling where the mixture does not pay.

    Below a gain of 1.25 plain shuffling is the better choice; of a family with replacement, which has to make up for
    what shuffling gives for nothing, below 3.5.  The meter is asked at the end of every epoch, from where
    a tenth of the epochs and 4,096 draws are done, until its interval lies on one side of that; when three tenths are
    done the estimate decides.  (The gain of a whole run can be read off its first tenth to third.)
    """

    def __init__(self, sampling: str, sampler: Sampler, epochs: int, fallback: bool, seed: int, verbose: int) -> None:
        self.sampling, self.sampler, self.epochs, self.verbose = sampling, sampler, epochs, verbose
        self.losses: list[float] = []
        self.reason: str | None = None
        self._undecided, self._seed = fallback and sampling == "mixture", seed
        self._gain: Interval | None = None
        self._least = RESHUFFLED[0] if sampler.reshuffled else REPLACED[1]

    def __call__(self, epoch: int, loss: float, meter: GainMeter) -> Sampler | None:
        """Note the loss, and decide when it is time."""
        self.losses.append(loss)
        if self.verbose:
            print(f"epoch {epoch}/{self.epochs}: loss {loss:.6g}, gain {self.gain(meter).value:.3g} ({self.sampling})")
        if (
            not self._undecided
            or epoch < EARLIEST_DECISION_SHARE * self.epochs
            or meter.draws < MIN_DRAWS_TO_DECIDE
            or epoch == self.epochs
        ):
            return None
        gain, least = meter.gain, self._least
        if gain.low < least <= gain.high and epoch < LATEST_DECISION_SHARE * self.epochs:
            return None
        self._undecided = False
        if gain.value >= least:
            return None
        self._gain, self.sampling = gain, "shuffle"
        self.reason = (
            f"After {epoch} of {self.epochs} epochs the gain over uniform sampling was {gain}, below "
            f"{least}, where plain shuffling is the better choice; it was used from there on."
        )
        return presets.uniform(self.sampler.components.space.n, replacement=False, rng=self._seed)

    def gain(self, meter: GainMeter) -> Interval:
        """Give the gain, of the draws that were made by the mixture."""
        return meter.gain if self._gain is None else self._gain

    @property
    def mixture(self) -> FloatArray:
        """What the mixture learned."""
        return self.sampler.mixture
