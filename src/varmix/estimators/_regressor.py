"""MixtureSGDRegressor: linear regression."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin

from varmix._core.validation import FloatArray, rollback_on_error
from varmix.estimators._sgd import MixtureSGD


class MixtureSGDRegressor(RegressorMixin, MixtureSGD):  # type: ignore[misc]
    """Linear least squares by SGD, with batches from the reshuffled mixture.

    It minimises `mean(sample_weight * (y - x.coef - intercept)^2) / 2 + alpha/2 |coef|^2`, as `SGDRegressor` does.
    Attributes are those of `MixtureSGDClassifier`, except those of classes.  Beside `SGDRegressor`:

    * Missing parameters: `penalty`, `l1_ratio`, `shuffle`, `epsilon`, `early_stopping`, `validation_fraction`,
      `average`.
    * Missing arguments of fit: `coef_init`, `intercept_init`.
    * Missing methods: `densify`, `sparsify`.
    * Other defaults: `max_iter`, `tol`, `learning_rate`, `eta0`.
    * New parameters: `batch_size`, `sampling`, `components`, `resplit`, `fallback`.

    Parameters
    ----------
    loss
        "squared_error".
    alpha, fit_intercept, max_iter, tol, n_iter_no_change, verbose, random_state
        As of `MixtureSGDClassifier`.
    learning_rate, eta0, power_t, warm_start, batch_size, sampling, components, resplit, fallback
        As of `MixtureSGDClassifier`.  `components="labels"` has no meaning here; "auto" are groups by the distance of
        the target from its median and by the length of the row.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 3))
    >>> y = X @ [1.0, -2.0, 0.5] + 3.0 + 0.1 * rng.standard_cauchy(2000).clip(-50, 50)
    >>> model = MixtureSGDRegressor(random_state=0).fit(X, y)
    >>> bool(np.allclose(model.coef_, [1.0, -2.0, 0.5], atol=0.1))
    True
    """

    losses = {"squared_error": "squared"}  # noqa: RUF012

    def __init__(
        self,
        loss: str = "squared_error",
        *,
        alpha: float = 1e-4,
        fit_intercept: bool = True,
        max_iter: int | None = None,
        tol: float | None = None,
        n_iter_no_change: int = 5,
        verbose: int = 0,
        random_state: Any = None,  # noqa: ANN401
        learning_rate: str = "auto",
        eta0: float | None = None,
        power_t: float = 0.25,
        warm_start: bool = False,
        batch_size: int = 32,
        sampling: str = "mixture",
        components: Any = "auto",  # noqa: ANN401
        resplit: str | None = None,
        fallback: bool = True,
    ) -> None:
        self.loss = loss
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.n_iter_no_change = n_iter_no_change
        self.verbose = verbose
        self.random_state = random_state
        self.learning_rate = learning_rate
        self.eta0 = eta0
        self.power_t = power_t
        self.warm_start = warm_start
        self.batch_size = batch_size
        self.sampling = sampling
        self.components = components
        self.resplit = resplit
        self.fallback = fallback

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:  # noqa: ANN401
        """Fit to all epochs."""
        self._check_parameters(partial=False)
        with rollback_on_error(self):
            X, targets = self._check_rows(X, reset=True, y=y, y_numeric=True)
            costs = self._check_costs(sample_weight, X)
            warm = self.warm_start and getattr(self, "coef_", np.empty(0)).shape == (X.shape[1],)
            self._fit_one(X, targets, costs, warm, None)
        return self

    def partial_fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:  # noqa: ANN401
        """Make one epoch over these points, from where the last call ended.

        Coefficients and the number of steps go on.  Groups and mixture are those of these points, from anew.
        """
        self._check_parameters(partial=True)
        first = not hasattr(self, "coef_")
        with rollback_on_error(self):
            X, targets = self._check_rows(X, reset=first, y=y, y_numeric=True)
            costs = self._check_costs(sample_weight, X)
            self._fit_one(X, targets, costs, not first, 0.0 if first else self.t_ - 1.0)
        return self

    def _fit_one(
        self,
        X: Any,  # noqa: ANN401
        y: FloatArray,
        costs: FloatArray | None,
        warm: bool,
        done: float | None,
    ) -> None:
        start, eta = self._start(0) if warm else None, self.eta0_ if done else None
        fit = self._run(X, np.asarray(y, dtype=np.float64), costs, self._seeds(1)[0], start, done, eta)
        self._keep([fit], X.dtype, done or 0.0)
        self.coef_ = self.coef_[0]

    def predict(self, X: Any) -> FloatArray:  # noqa: ANN401
        """Give the values of the linear function."""
        return self._margins(X).ravel()
