"""Muscle paths with moment arms that are the same in every posture."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from popsim.muscles.parameters import join
from popsim.muscles.paths.abstract import AbstractMusclePath
from popsim.muscles.paths.tables import as_lengths, as_table, as_table_like, check_configuration


class ConstantMomentArmPath(AbstractMusclePath):
    """length = offset + sum over joints of moment_arm (configuration - reference).

    **Arguments:**

    - `offset`: the length at the reference, one for each muscle, in m.
    - `moment_arm`: d length / d angle, muscles x coordinates, in m/rad: positive where a greater angle makes
        the muscle longer. A table in which a positive moment arm means a positive torque has the other sign.
    - `reference`: the angles at which the length is `offset`, in rad; muscles x coordinates, or one for each
        coordinate.

    **Raises:** `ValueError` if a number is not finite or shapes disagree.
    """

    offset: Float[Array, "*members muscles"]
    moment_arm: Float[Array, "*members muscles coordinates"]
    reference: Float[Array, "*members muscles coordinates"]

    def __init__(self, offset: Any, moment_arm: Any, reference: Any = 0.0):
        self.offset = as_lengths("offset", offset)
        self.moment_arm = as_table("moment_arm", moment_arm, self.offset.shape[0])
        self.reference = as_table_like("reference", reference, self.moment_arm)

    def length(self, configuration: Float[Array, " coordinates"]) -> Float[Array, " muscles"]:
        check_configuration(configuration, self.moment_arm.shape[1])
        return self.offset + jnp.sum(self.moment_arm * (configuration - self.reference), axis=1)

    def with_muscle(self, other: AbstractMusclePath) -> "ConstantMomentArmPath":
        return join(self, other)
