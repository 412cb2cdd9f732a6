"""Interventions: what the world, or the experimenter, does to a model in the course of a trial."""

import abc
from collections.abc import Callable
from typing import Literal, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key, PyTree

from popsim.hand import HandState
from popsim.loop_state import LoopState
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


class CurlField(AbstractForceField):
    """A force at right angles to the movement of the hand in the plane: F = b (v_y, -v_x).

    With b > 0 it pushes the hand to its right, so that an uncontrolled hand goes round clockwise. Its
    parameter is b, in N s/m. A pure curl field after Thoroughman & Shadmehr 2000, Nature 407:742-747
    (cited from memory).

    **Raises:** `ValueError` if the hand does not move in a plane.
    """

    name: str = eqx.field(static=True, default="curl field")

    def force(self, parameters: Float[Array, ""], hand: HandState) -> Float[Array, " space"]:
        if hand.velocity.shape != (2,):
            raise ValueError(f"`hand` must move in a plane, got {hand.velocity.shape[0]} axes.")
        v_x, v_y = hand.velocity
        return parameters * jnp.stack([v_y, -v_x])


Intervention = AbstractIntervention | AbstractForceField


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


def load_on_hand(
    interventions: tuple[Intervention, ...],
    scheduled: dict[str, InterventionSchedule],
    constant: Float[Array, " space"],
) -> Callable[[HandState], Float[Array, " space"]]:
    """The force on the hand (N) as a function of the hand: `constant`, and the active force fields."""
    fields = [
        (field, scheduled[field.name])
        for field in interventions
        if isinstance(field, AbstractForceField) and field.name in scheduled
    ]

    def load(hand: HandState) -> Float[Array, " space"]:
        total = constant
        for field, schedule in fields:
            total = jnp.where(schedule.active, total + field.force(schedule.parameters, hand), total)
        return total

    return load


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
