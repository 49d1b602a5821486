"""Principal components, for data sets of pixels."""

import numpy as np

from lab.arrays import AnyArray, FloatArray


def whiten_components(X: AnyArray, count: int) -> FloatArray:
    """Give the first `count` principal components, each with variance one; needs scikit-learn.

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
