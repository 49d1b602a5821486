"""Estimators with scikit-learn's interface, and groups that are found in data.

model = varmix.estimators.MixtureSGDClassifier().fit(X, y)
family = varmix.auto(X, y)
"""

try:
    import sklearn as _sklearn  # noqa: F401 - so that one line says what is missing
except ImportError:
    from varmix._core.validation import missing_extra as _missing_extra

    raise _missing_extra("varmix.estimators", "scikit-learn", "sklearn") from None

from varmix.estimators._auto_groups import auto, auto_labels
from varmix.estimators._kmeans import MixtureKMeans
from varmix.estimators._sgd import MixtureSGDClassifier, MixtureSGDRegressor

__all__ = ["MixtureKMeans", "MixtureSGDClassifier", "MixtureSGDRegressor", "auto", "auto_labels"]
