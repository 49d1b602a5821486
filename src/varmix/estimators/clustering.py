"""The parts of minibatch k-means, for training loops of your own.

seeding = plus_plus(X, 100, rng=0)
descent = Descent(X, seeding.centers, batch=100)
descent.run(make_seeding_sampler(seeding, rng=0), steps=500)
mean_squared_distance(X, descent.centers)
"""

from varmix.estimators._kmeans import Descent
from varmix.estimators._seeding import (
    Seeding,
    SwitchAfter,
    assign_labels,
    find_nearest_centers,
    make_cell_sampler,
    make_seeding_sampler,
    mean_squared_distance,
    plus_plus,
)

__all__ = [
    "Descent",
    "Seeding",
    "SwitchAfter",
    "assign_labels",
    "find_nearest_centers",
    "make_cell_sampler",
    "make_seeding_sampler",
    "mean_squared_distance",
    "plus_plus",
]
