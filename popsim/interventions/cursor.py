"""Visual perturbations: the cursor is rotated, scaled or shifted relative to the hand."""

import abc
import dataclasses

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from popsim._shared.argument_shapes import check_of_one_model
from popsim._shared.checks import as_float_array, check_finite, warn_of_unit
from popsim.hand import HandState
from popsim.intervention import AbstractIntervention, Stage, check_parameter, name_of_parameters
from popsim.states import LoopState

__all__ = ["CursorRotation", "CursorGain", "CursorShift"]

Number = Float[Array, ""]
Vector = Float[Array, " space"]


class AbstractCursorMap(AbstractIntervention):
    """A linear map of the cursor's displacement from a center, and of its velocity."""

    center: Float[Array, "*members space"] | None = eqx.field(converter=as_float_array, default=None)
    after_stage: Stage = eqx.field(static=True, default="move", kw_only=True)

    def __check_init__(self):
        if self.center is not None:
            check_of_one_model("center", self.center)
            check_finite("center", self.center)

    @abc.abstractmethod
    def map_vector(self, parameters: Number, vector: Vector) -> Vector:
        """Return the map of a displacement (m) or a velocity (m/s)."""

    def prepare(self, parameters: Number, state: LoopState) -> LoopState:
        if self.center is not None:
            return state
        return dataclasses.replace(state, start=state.hand.position)

    def apply(self, parameters: Number, state: LoopState, *, key: Key[Array, ""]) -> LoopState:
        check_parameter(self.name, parameters, ())
        center = state.start if self.center is None else self.center
        if center is None or center.shape != state.hand.position.shape:
            raise ValueError(
                f"`center` of {self.name!r} must have shape {state.hand.position.shape}, "
                f"got {None if center is None else center.shape}."
            )
        position = center + self.map_vector(parameters, state.cursor.position - center)
        velocity = self.map_vector(parameters, state.cursor.velocity)
        return dataclasses.replace(state, cursor=HandState(position, velocity))


class CursorRotation(AbstractCursorMap):
    """A counter-clockwise rotation of the position and velocity of the cursor about a center, in the plane.

    The parameter is the angle, in rad. Visuomotor rotation after Krakauer et al. 2000, J Neurosci
    20:8916-8924. At the start of the trial the cursor is at the hand.

    **Arguments:**

    - `center`: the center of rotation, in m; None for the position of the hand at the start of the trial.
    """

    name: str = eqx.field(static=True, default="cursor rotation")

    def check(self, parameters: Float[Array, "*trial"]) -> None:
        warn_of_unit(name_of_parameters(self), parameters, "angle")

    def map_vector(self, parameters: Number, vector: Vector) -> Vector:
        if vector.shape != (2,):
            raise ValueError(f"`hand` must move in a plane, got {vector.shape[0]} axes.")
        cos, sin = jnp.cos(parameters), jnp.sin(parameters)
        x, y = vector
        return jnp.stack([cos * x - sin * y, sin * x + cos * y])


class CursorGain(AbstractCursorMap):
    """A scaling of the cursor's displacement from a center, and of its velocity, by the parameter, a number.

    `center` is as in `CursorRotation`.
    """

    name: str = eqx.field(static=True, default="cursor gain")

    def map_vector(self, parameters: Number, vector: Vector) -> Vector:
        return parameters * vector


class CursorShift(AbstractIntervention):
    """A shift of the cursor by the parameter, a displacement in m; the velocity is unchanged."""

    name: str = eqx.field(static=True, default="cursor shift")
    after_stage: Stage = eqx.field(static=True, default="move")

    def apply(self, parameters: Vector, state: LoopState, *, key: Key[Array, ""]) -> LoopState:
        check_parameter(self.name, parameters, state.cursor.position.shape)
        moved = HandState(state.cursor.position + parameters, state.cursor.velocity)
        return dataclasses.replace(state, cursor=moved)
