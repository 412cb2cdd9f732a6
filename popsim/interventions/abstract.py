"""The contracts of what the world, or the experimenter, does to a model in the course of a trial."""

import abc
from typing import ClassVar, Literal

import equinox as eqx
from jaxtyping import Array, Float, Key, PyTree

from popsim.hand import HandState
from popsim.parameters import Constants

Stage = Literal["sense", "think", "act", "move"]


class AbstractIntervention(eqx.Module):
    """Changes the state of a model after one of the stages of its step.

    The stages are those of a `SensorimotorLoop`, of which a `NetworkModel` has the first two. For forces
    that depend on the hand see `AbstractForceField`. A force that an intervention after "sense", "think" or
    "act" adds to `external_force` is held over the step.

    The model holds the intervention; a trial that schedules it under the same `name` says with which
    parameters and at which steps it acts. In trials that do not schedule it, it adds no operation. The state
    that a trial starts from is before the first step: no intervention acts on it. A subclass supplies
    `name`, `follows` (the stage that it acts after) and `apply`; it may extend `prepare`.

    !!! example

        ```python
        >>> import dataclasses, equinox as eqx, popsim
        >>> class Damp(popsim.AbstractIntervention):
        ...     "Make the command smaller by the factor that is its parameter."
        ...     name: str = eqx.field(static=True, default="damp")
        ...     follows: popsim.interventions.Stage = eqx.field(static=True, default="act")
        ...     def apply(self, parameters, state, *, key):
        ...         return dataclasses.replace(state, command=parameters * state.command)
        >>> Damp().follows
        'act'

        ```
    """

    constants: ClassVar[Constants] = "all"
    name: eqx.AbstractVar[str]
    follows: eqx.AbstractVar[Stage]

    @abc.abstractmethod
    def apply(self, parameters: PyTree[Array], state: PyTree[Array], *, key: Key[Array, ""]) -> PyTree[Array]:
        """The changed state, of the same structure.

        **Arguments:**

        - `parameters`: those of the trial.
        - `state`: the state after the stage: a `LoopState`, or the state of a `NetworkModel`.
        - `key`: for random interventions.
        """

    def prepare(self, parameters: PyTree[Array], state: PyTree[Array]) -> PyTree[Array]:
        """The state that a trial starts from, with room for what the intervention keeps in it.

        Called for trials that schedule the intervention. Extend it to fill fields that are None in other
        trials, such as `LoopState.unit_input`. By default the state stays as it is.
        """
        return state


class AbstractForceField(eqx.Module):
    """A force of the world on the hand that depends on where the hand is and how it moves.

    It acts while the body moves: the plant's solver evaluates it at every stage of every substep. Held by
    the loop and scheduled by trials as an `AbstractIntervention` is. A subclass supplies `name` and
    `force`.

    !!! example

        ```python
        >>> import equinox as eqx, jax.numpy as jnp, popsim
        >>> class Spring(popsim.AbstractForceField):
        ...     "Pulls the hand to the origin; its parameter is the stiffness in N/m."
        ...     name: str = eqx.field(static=True, default="spring")
        ...     def force(self, parameters, hand):
        ...         return -parameters * hand.position
        >>> hand = popsim.HandState(jnp.array([0.1, 0.0]), jnp.zeros(2))
        >>> Spring().force(jnp.array(10.0), hand).tolist()
        [-1.0, -0.0]

        ```
    """

    constants: ClassVar[Constants] = "all"
    name: eqx.AbstractVar[str]

    @abc.abstractmethod
    def force(self, parameters: PyTree[Array], hand: HandState) -> Float[Array, " space"]:
        """The force on the hand, in N.

        **Arguments:**

        - `parameters`: those of the trial.
        - `hand`: where it is (m) and how it moves (m/s).
        """


class AbstractTorqueField(eqx.Module):
    """A generalised force of the world on the coordinates of a body: torques on the joints of an arm.

    It acts while the body moves, and is held and scheduled, as an `AbstractForceField`. A subclass supplies
    `name` and `torque`.

    !!! example

        ```python
        >>> import equinox as eqx, jax.numpy as jnp, popsim
        >>> class Splint(popsim.AbstractTorqueField):
        ...     "Brakes all joints; its parameter is the damping in N m s/rad."
        ...     name: str = eqx.field(static=True, default="splint")
        ...     def torque(self, parameters, coordinates, velocities):
        ...         return -parameters * velocities
        >>> Splint().torque(jnp.array(2.0), jnp.zeros(2), jnp.array([1.0, 0.5])).tolist()
        [-2.0, -1.0]

        ```
    """

    constants: ClassVar[Constants] = "all"
    name: eqx.AbstractVar[str]

    @abc.abstractmethod
    def torque(
        self,
        parameters: PyTree[Array],
        coordinates: Float[Array, " coordinates"],
        velocities: Float[Array, " coordinates"],
    ) -> Float[Array, " coordinates"]:
        """The generalised force, in N m for joints.

        **Arguments:**

        - `parameters`: those of the trial.
        - `coordinates`, `velocities`: of the body, for an arm in rad and rad/s.
        """
