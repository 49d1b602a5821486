"""Principal components of data sets with many features, such as pixels."""

import numpy as np

from lab.arrays import AnyArray, FloatArray


def whiten_components(X: AnyArray, count: int) -> FloatArray:
    """Return the first `count` principal components, scaled to variance one. Needs scikit-learn.

    Examples
    --------
    >>> pixels = np.random.default_rng(0).integers(0, 255, size=(100, 20))
    >>> components = whiten_components(pixels, 3)
    >>> components.shape, components.var(axis=0, ddof=1).round(6).tolist()
    ((100, 3), [1.0, 1.0, 1.0])
    """
    from sklearn.decomposition import PCA

    made = PCA(count, whiten=True, random_state=0).fit_transform(np.asarray(X, dtype=np.float64))
    return np.ascontiguousarray(made)
