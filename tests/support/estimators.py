"""Data with a few long rows, and the two estimators over them, for tests of estimators."""

import numpy as np

from varmix.estimators import MixtureSGDClassifier, MixtureSGDRegressor
from varmix.solvers import Linear

RNG = np.random.default_rng(0)
N = 1500
SCALES = np.where(np.arange(N) < 60, 5.0, 0.5)[:, None]  # few long rows
X = RNG.normal(size=(N, 4)) * SCALES
TRUE = np.array([1.0, -2.0, 0.5, 0.0])
MARGINS = X @ TRUE + 0.3
Y = (MARGINS + RNG.logistic(size=N) > 0).astype(int)
T = MARGINS + RNG.normal(size=N) * SCALES[:, 0]
SAMPLINGS = ["mixture", "shuffle", "uniform", "importance", "vrb"]


def classifier(**options):
    return MixtureSGDClassifier(**{"loss": "log_loss", "random_state": 0, "alpha": 0.01} | options)


def regressor(**options):
    return MixtureSGDRegressor(**{"random_state": 0, "alpha": 0.01} | options)


def objective(model, X=X, y=Y, costs=None):
    squared = isinstance(model, MixtureSGDRegressor)
    loss = "squared" if squared else model.losses[model.loss]
    problem = Linear(X, y if squared else 2.0 * y - 1, loss=loss, l2=model.alpha, intercept=True, costs=costs)
    return problem.objective(np.append(model.coef_.ravel(), model.intercept_))
