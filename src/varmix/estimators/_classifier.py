"""MixtureSGDClassifier: linear classification."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets, unique_labels

from varmix._core.validation import AnyArray, FloatArray, rollback_on_error
from varmix.estimators._sgd import MixtureSGD


def _has_probabilities(model: "MixtureSGDClassifier") -> bool:
    if model.loss != "log_loss":
        raise AttributeError(f'Probabilities need loss="log_loss", and this classifier has loss={model.loss!r}.')
    return True


class MixtureSGDClassifier(ClassifierMixin, MixtureSGD):  # type: ignore[misc]
    """Linear support vector machine or logistic regression by SGD, with batches from the reshuffled mixture.

    It minimises `mean(sample_weight * loss) + alpha/2 |coef|^2`, one class against the rest where there are more than
    two.  Names are those of scikit-learn's `SGDClassifier`, but it has no other penalty and fewer losses and rates:

    * Missing parameters: `penalty`, `l1_ratio`, `shuffle`, `epsilon`, `n_jobs`, `early_stopping`,
      `validation_fraction`, `class_weight`, `average`.
    * Missing arguments of fit: `coef_init`, `intercept_init`.
    * Missing methods: `densify`, `sparsify`.
    * Other defaults: `max_iter`, `tol`, `learning_rate`, `eta0`.
    * New parameters: `batch_size`, `sampling`, `components`, `resplit`, `fallback`.

    Parameters
    ----------
    loss
        "hinge" or "log_loss".
    alpha
        Weight of the penalty.
    fit_intercept
        Whether to fit an intercept, which is not penalised.
    max_iter
        Epochs; None takes 20, or more where these would be fewer than 2,000 steps, up to 500.
    tol
        Stop when the loss of an epoch, as drawn, was not lower by `tol` than the best for `n_iter_no_change` epochs;
        None runs all epochs, as the linear decay wants it.
    n_iter_no_change
        See `tol`.
    verbose
        Whether to print a line for every epoch.
    random_state
        Seed, RandomState or None.
    learning_rate
        Length of step t = 1, ..., T: "linear" `eta0 (1 - (t - 1) / T)`; "optimal" `eta0 / (1 + alpha eta0 t)`;
        "invscaling" `eta0 / t^power_t`; "constant" `eta0`.  "auto" is linear in `fit` and optimal in `partial_fit`.
    eta0
        The first step; None finds it from the data (`eta0_`).
    power_t
        See `learning_rate`.
    warm_start
        Whether `fit` starts from the coefficients of the last one.
    batch_size
        Points in a batch.
    sampling
        Where batches come from: "mixture", the reshuffled mixture over `components`; "shuffle", plain reshuffling;
        "uniform", "importance" (by Lipschitz constants) and "vrb", all three with replacement.
    components
        What the mixture is of: a kind of groups of `varmix.auto` ("auto", "labels", "clusters", "norms"), an array of
        labels (n,), or a family.
    resplit
        None, or "norms": cut the groups after every epoch by the norms last seen.
    fallback
        Whether to change to plain shuffling where the gain, a tenth into the run, is below 1.25 (3.5 for a family
        with replacement).

    Attributes
    ----------
    classes_, coef_, intercept_, n_features_in_, feature_names_in_
        As of `SGDClassifier`.
    n_iter_, t_
        Epochs of the last call, and steps so far plus one.
    eta0_
        The first step.
    sampling_, fallback_
        What drew in the end, and why that is not what was asked for (else None).
    mixture_, gain_
        What the mixture learned, and the gain over uniform sampling with its 95 % interval.
    loss_curve_
        Mean loss of every epoch, as drawn.  With more than two classes, this and the four before (and `eta0_`) are
        lists, one entry per class.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(2000, weights=[0.95], random_state=0)
    >>> model = MixtureSGDClassifier(loss="log_loss", random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.95
    True
    >>> model.sampling_
    'mixture'
    """

    losses = {"hinge": "hinge", "log_loss": "logistic"}  # noqa: RUF012

    def __init__(
        self,
        loss: str = "hinge",
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
        power_t: float = 0.5,
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
            X, targets = self._check_rows(X, reset=True, y=y)
            check_classification_targets(targets)
            costs = self._check_costs(sample_weight, X)
            classes = unique_labels(targets)
            if len(classes) < 2:
                raise ValueError(f"A classifier needs at least two classes, and y has one class only: {classes[0]!r}.")
            warm = self.warm_start and np.array_equal(getattr(self, "classes_", ()), classes)
            warm = warm and self.coef_.shape[1] == X.shape[1]
            self.classes_ = classes
            self._fit_all(X, targets, costs, warm, None)
        return self

    def partial_fit(
        self,
        X: Any,  # noqa: ANN401
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Make one epoch over these points, from where the last call ended.

        Coefficients and the number of steps go on.  Groups and mixture are those of these points, from anew.

        Parameters
        ----------
        X, y, sample_weight
            Points.
        classes
            All classes there will ever be; needed in the first call.
        """
        self._check_parameters(partial=True)
        first = not hasattr(self, "classes_")
        if first and classes is None:
            raise ValueError("classes must be passed on the first call to partial_fit: all classes there will ever be.")
        with rollback_on_error(self):
            X, targets = self._check_rows(X, reset=first, y=y)
            check_classification_targets(targets)
            if classes is not None:
                named = unique_labels(np.asarray(classes))
                if not first and not np.array_equal(self.classes_, named):
                    raise ValueError(f"classes is not what it was in an earlier call: {named} is not {self.classes_}.")
                if len(named) < 2:
                    raise ValueError(
                        f"A classifier needs at least two classes, and there is one class only: {named[0]!r}."
                    )
            known = named if first else self.classes_
            if not np.isin(targets, known).all():
                raise ValueError(f"y has classes that are not among {known}. Name all of them in the first call.")
            costs = self._check_costs(sample_weight, X)
            self.classes_ = known
            self._fit_all(X, targets, costs, not first, 0.0 if first else self.t_ - 1.0)
        return self

    def _fit_all(
        self,
        X: Any,  # noqa: ANN401
        y: AnyArray,
        costs: FloatArray | None,
        warm: bool,
        done: float | None,
    ) -> None:
        positive = self.classes_[1:] if len(self.classes_) == 2 else self.classes_
        etas = np.atleast_1d(self.eta0_) if done else np.full(len(positive), None)
        fits = []
        for row, (c, seed) in enumerate(zip(positive, self._seeds(len(positive)), strict=True)):
            start = self._start(row) if warm else None
            fits.append(self._run(X, np.where(y == c, 1.0, -1.0), costs, seed, start, done, etas[row]))
        self._keep(fits, X.dtype, done or 0.0)

    def decision_function(self, X: Any) -> FloatArray:  # noqa: ANN401
        """Give the margins: (n,) for two classes, (n, classes) for more."""
        margins = self._margins(X)
        return margins.ravel() if margins.shape[1] == 1 else margins

    def predict(self, X: Any) -> AnyArray:  # noqa: ANN401
        """Give the class of the largest margin."""
        margins = self.decision_function(X)
        chosen = (margins > 0).astype(np.int64) if margins.ndim == 1 else margins.argmax(axis=1)
        return np.asarray(self.classes_[chosen])

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> FloatArray:  # noqa: ANN401
        """Give the probabilities of the classes; of more than two, each against the rest, scaled to sum one."""
        margins = self._margins(X)
        with np.errstate(over="ignore"):
            likely = 1.0 / (1.0 + np.exp(-margins))
        if margins.shape[1] == 1:
            return np.hstack([1.0 - likely, likely])
        total = likely.sum(axis=1, keepdims=True)
        return np.asarray(np.where(total > 0, likely / np.where(total > 0, total, 1.0), 1.0 / likely.shape[1]))

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> FloatArray:  # noqa: ANN401
        """Give the logarithms of the probabilities."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))
