"""Interventions: what the world, or the experimenter, does to a model in the course of a trial."""

import abc
from typing import Literal, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key, PyTree

from popsim.hand import HandState
from popsim.loop_state import LoopState
from popsim.plants import Load
from popsim.trial import InterventionSchedule

Stage = Literal["sense", "think", "act", "move"]


class AbstractIntervention(eqx.Module):
    """Changes the state of a `SensorimotorLoop` after one of its stages.

    For forces that depend on the hand see `AbstractForceField`. A force that an intervention after
    "sense", "think" or "act" adds to `external_force` is held over the step.

    The loop holds the intervention; a trial that schedules it under the same `name` says with which
    parameters and at which steps it acts. In trials that do not schedule it, it adds no operation. A
    subclass supplies `name`, `follows` (the stage that it acts after) and `apply`.

    !!! example

        ```python
        >>> import dataclasses, equinox as eqx, popsim
        >>> class Silence(popsim.AbstractIntervention):
        ...     "Silence the units that the parameters mark."
        ...     name: str = eqx.field(static=True, default="silence")
        ...     follows: popsim.interventions.Stage = eqx.field(static=True, default="think")
        ...     def apply(self, parameters, state, *, key):
        ...         hidden = state.network.hidden * (1 - parameters)
        ...         network = popsim.networks.NetworkState(hidden, state.network.output)
        ...         return dataclasses.replace(state, network=network)
        >>> Silence().follows
        'think'

        ```
    """

    name: eqx.AbstractVar[str]
    follows: eqx.AbstractVar[Stage]

    @abc.abstractmethod
    def apply(self, parameters: PyTree[Array], state: LoopState, *, key: Key[Array, ""]) -> LoopState:
        """The changed state.

        **Arguments:**

        - `parameters`: those of the trial.
        - `state`: the state after the stage.
        - `key`: for random interventions.
        """


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
    """

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


Intervention = AbstractIntervention | AbstractForceField | AbstractTorqueField


def check_interventions(interventions: tuple[Intervention, ...]) -> None:
    """Raise `ValueError` if two interventions have one name, or one follows a stage that there is not."""
    names = [intervention.name for intervention in interventions]
    if len(set(names)) < len(names):
        raise ValueError(f"`interventions` must have different names, got {names}.")
    for intervention in interventions:
        if isinstance(intervention, AbstractIntervention) and intervention.follows not in get_args(Stage):
            raise ValueError(
                f"`follows` of the intervention {intervention.name!r} must be one of {get_args(Stage)}, "
                f"got {intervention.follows!r}."
            )


def load_of_world(
    interventions: tuple[Intervention, ...],
    scheduled: dict[str, InterventionSchedule],
    constant: Float[Array, " space"],
) -> Load:
    """The forces of the world on a body: on its hand `constant` (N), and the active fields."""
    held = [(field, scheduled[field.name]) for field in interventions if field.name in scheduled]
    on_hand = [(field, when) for field, when in held if isinstance(field, AbstractForceField)]
    on_joints = [(field, when) for field, when in held if isinstance(field, AbstractTorqueField)]

    def force(hand: HandState) -> Float[Array, " space"]:
        total = constant
        for field, when in on_hand:
            total = jnp.where(when.active, total + field.force(when.parameters, hand), total)
        return total

    def torque(
        coordinates: Float[Array, " coordinates"], velocities: Float[Array, " coordinates"]
    ) -> Float[Array, " coordinates"]:
        total = jnp.zeros_like(coordinates)
        for field, when in on_joints:
            given = field.torque(when.parameters, coordinates, velocities)
            total = jnp.where(when.active, total + given, total)
        return total

    return Load(force, torque if on_joints else None)


def intervene(
    interventions: tuple[Intervention, ...],
    stage: Stage,
    scheduled: dict[str, InterventionSchedule],
    state: LoopState,
    *,
    keys: dict[str, Key[Array, ""]],
) -> LoopState:
    """Apply the scheduled interventions that follow `stage`, in their order, where they are active."""
    for intervention in interventions:
        if not isinstance(intervention, AbstractIntervention) or intervention.name not in scheduled:
            continue
        if intervention.follows != stage:
            continue
        schedule = scheduled[intervention.name]
        changed = intervention.apply(schedule.parameters, state, key=keys[intervention.name])
        state = _where(schedule.active, changed, state)
    return state


def _where(condition: Bool[Array, ""], then: LoopState, otherwise: LoopState) -> LoopState:
    return jax.tree.map(
        lambda new, old: old if new is old else jnp.where(condition, new, old), then, otherwise
    )
