"""Interventions: what the world, or the experimenter, does to a model in the course of a trial."""

import abc
import dataclasses
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key, PyTree

from popsim.loop_state import LoopState
from popsim.trial import InterventionSchedule

Stage = Literal["sense", "think", "act", "move"]


class AbstractIntervention(eqx.Module):
    """Changes the state of a `SensorimotorLoop` after one of its stages.

    The loop holds the intervention; a trial that schedules it under the same `name` says with which
    parameters and at which steps it acts. In trials that do not schedule it, it adds no operation. A
    subclass supplies `name`, `follows` (the stage that it acts after) and `apply`.

    !!! example

        ```python
        >>> import dataclasses, equinox as eqx, popsim
        >>> class Silence(popsim.AbstractIntervention):
        ...     "Silence the units that the parameters mark."
        ...     name: str = eqx.field(static=True, default="silence")
        ...     follows: str = eqx.field(static=True, default="think")
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


class CurlField(AbstractIntervention):
    """A velocity-dependent force on the hand at right angles to its movement: F = b (v_y, -v_x).

    With b > 0 it pushes the hand to its right, so that an uncontrolled hand goes round clockwise. Its
    parameter is b, in N s/m. A pure curl field after Thoroughman & Shadmehr 2000, Nature 407:742-747
    (cited from memory). The force is that of the velocity at the start of the step.
    """

    name: str = eqx.field(static=True, default="curl field")
    follows: Stage = eqx.field(static=True, default="act")

    def apply(self, parameters: Float[Array, ""], state: LoopState, *, key: Key[Array, ""]) -> LoopState:
        v_x, v_y = state.hand.velocity
        force = state.external_force + parameters * jnp.stack([v_y, -v_x])
        return dataclasses.replace(state, external_force=force)


def intervene(
    interventions: tuple[AbstractIntervention, ...],
    stage: Stage,
    scheduled: dict[str, InterventionSchedule],
    state: LoopState,
    *,
    keys: dict[str, Key[Array, ""]],
) -> LoopState:
    """Apply the scheduled interventions that follow `stage`, in their order, where they are active."""
    for intervention in interventions:
        if intervention.follows != stage or intervention.name not in scheduled:
            continue
        schedule = scheduled[intervention.name]
        changed = intervention.apply(schedule.parameters, state, key=keys[intervention.name])
        state = _where(schedule.active, changed, state)
    return state


def _where(condition: Bool[Array, ""], then: LoopState, otherwise: LoopState) -> LoopState:
    return jax.tree.map(
        lambda new, old: old if new is old else jnp.where(condition, new, old), then, otherwise
    )
