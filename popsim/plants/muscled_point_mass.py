"""A mass in the plane that four muscles pull."""

from collections.abc import Callable

import diffrax
import numpy as np
from jax.typing import ArrayLike

from popsim.muscles import AbstractMuscle, ReluMuscle
from popsim.muscles.paths import PointMassPlacement, StraightPath
from popsim.plants.muscled import Muscled
from popsim.plants.point_mass import PointMass

CORNERS = ((1.0, 1.0), (-1.0, 1.0), (-1.0, -1.0), (1.0, -1.0))


def muscled_point_mass(
    muscle: Callable[..., AbstractMuscle] = ReluMuscle,
    *,
    mass: ArrayLike = 1.0,
    damping: ArrayLike = 0.0,
    max_isometric_force: ArrayLike = 20.0,
    tendon_length: ArrayLike = 0.0,
    anchor_distance: float = 2.0,
    solver: diffrax.AbstractSolver | None = None,
    n_substeps: int = 2,
    **options,
) -> Muscled:
    """A point mass that four muscles pull towards the corners of a square around the origin.

    After MotorNet's `ReluPointMass24`, whose muscles are 25 times as strong.

    **Arguments:**

    - `muscle`: the law of the muscles.
    - `mass`, `damping`: of the point mass, in kg and N s/m.
    - `max_isometric_force`: of each muscle, in N.
    - `tendon_length`: of each muscle, in m.
    - `anchor_distance`: how far the corners are from the origin along each axis, in m. At the origin each
        muscle has its optimal length.
    - `solver`, `n_substeps`: how the equation is integrated, see `Muscled`.
    - `options`: other parameters of the law.
    """
    corners = anchor_distance * np.array(CORNERS)
    path = StraightPath(PointMassPlacement(), [[(0, corner), (1, np.zeros(2))] for corner in corners])
    muscles = muscle(
        max_isometric_force=np.broadcast_to(np.asarray(max_isometric_force, float), 4),
        optimal_length=np.full(4, np.sqrt(2) * anchor_distance) - np.asarray(tendon_length),
        tendon_length=np.broadcast_to(np.asarray(tendon_length, float), 4),
        **options,
    )
    return Muscled(
        PointMass(mass, damping=damping),
        path,
        muscles,
        muscle_names=("upper right", "upper left", "lower left", "lower right"),
        solver=solver,
        n_substeps=n_substeps,
    )
