"""A mass held in the hand."""

from typing import ClassVar

import equinox as eqx
from jaxtyping import Array, Float

from popsim.interventions.parameter import check_parameter
from popsim.parameters import Constants


class LoadMass(eqx.Module):
    """A mass held in the hand; its parameter is m, in kg.

    The force on the hand is -m a, a the acceleration that the hand has with the mass in it: see
    `popsim.plants.Load.hand_mass`. It is not part of `external_force`, which holds the forces on hand and
    mass together. A mass that is taken up in the course of a trial moves with the hand at once.

    The plant must be an `AbstractSkeleton`, or muscles on one; `SensorimotorLoop.check` refuses a body that
    the mass would not slow, such as one whose velocity, not its acceleration, is the force.
    """

    constants: ClassVar[Constants] = "all"
    name: str = eqx.field(static=True, default="load mass")

    def mass(self, parameters: Float[Array, ""]) -> Float[Array, ""]:
        """The mass, in kg.

        **Raises:** `ValueError` if `parameters` is not one number.
        """
        check_parameter(self.name, parameters, ())
        return parameters
