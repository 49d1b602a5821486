"""Estimators: what scikit-learn users reach for, and groups that are found in the data.

model = varmix.estimators.MixtureSGDClassifier().fit(X, y)
family = varmix.auto(X, y)
"""

try:
    import sklearn as _sklearn  # noqa: F401 - only to say it once if it is missing
except ImportError:
    from lab.commands import install as _install

    raise ModuleNotFoundError(
        f"varmix.estimators (and varmix.auto) need scikit-learn, which is missing. "
        f"Install varmix with its extra sklearn: {_install('sklearn')}"
    ) from None

from varmix.estimators._auto_groups import auto
from varmix.estimators._auto_groups import auto_labels
from varmix.estimators._classifier import MixtureSGDClassifier
from varmix.estimators._kmeans import MixtureKMeans
from varmix.estimators._regressor import MixtureSGDRegressor

__all__ = ["MixtureKMeans", "MixtureSGDClassifier", "MixtureSGDRegressor", "auto", "auto_labels"]
