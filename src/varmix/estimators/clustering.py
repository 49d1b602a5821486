"""The parts of minibatch k-means, for training loops of your own.

seeding = plus_plus(X, 100, rng=0)
descent = Descent(X, seeding.centers, batch=100)
descent.run(by_seeding(seeding, rng=0), steps=500)
inertia(X, descent.centers)
"""

from varmix.estimators._kmeans import Descent
from varmix.estimators._seeding import Seeding, SwitchAfter, by_seeding, cells, inertia, labels, plus_plus, seeded

__all__ = ["Descent", "Seeding", "SwitchAfter", "by_seeding", "cells", "inertia", "labels", "plus_plus", "seeded"]
