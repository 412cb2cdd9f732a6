"""Torques of the world on the joints."""

import equinox as eqx
from jaxtyping import Array, Float

from popsim.interventions.abstract import AbstractTorqueField
from popsim.interventions.parameter import check_parameter


class JointTorque(AbstractTorqueField):
    """Torques on the joints that stay the same; the parameter holds them, in N m."""

    name: str = eqx.field(static=True, default="joint torque")

    def torque(
        self,
        parameters: Float[Array, " coordinates"],
        coordinates: Float[Array, " coordinates"],
        velocities: Float[Array, " coordinates"],
    ) -> Float[Array, " coordinates"]:
        check_parameter(self.name, parameters, coordinates.shape)
        return parameters
