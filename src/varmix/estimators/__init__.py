"""Estimators: what scikit-learn users reach for, and groups that are found in the data.

model = varmix.estimators.MixtureSGDClassifier().fit(X, y)
family = varmix.auto(X, y)
"""

try:
    import sklearn as _sklearn  # noqa: F401 - only to say it once if it is missing
except ImportError:
    from varmix._core.validation import missing_extra as _missing_extra

    raise _missing_extra("varmix.estimators", "scikit-learn", "sklearn") from None

from varmix.estimators._auto_groups import auto, auto_labels
from varmix.estimators._classifier import MixtureSGDClassifier
from varmix.estimators._kmeans import MixtureKMeans
from varmix.estimators._regressor import MixtureSGDRegressor

__all__ = ["MixtureKMeans", "MixtureSGDClassifier", "MixtureSGDRegressor", "auto", "auto_labels"]
