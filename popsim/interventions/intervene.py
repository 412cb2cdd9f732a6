"""What the scheduled interventions do to the state of a model."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Key, PyTree

from popsim.interventions.abstract import AbstractIntervention, Stage
from popsim.interventions.scheduled import Intervention
from popsim.randomness import key_stream
from popsim.trial import InterventionSchedule


def prepare(
    interventions: tuple[Intervention, ...],
    scheduled: dict[str, InterventionSchedule],
    state: PyTree[Array],
) -> PyTree[Array]:
    """The state that a trial starts from, with room for what the scheduled interventions keep in it."""
    for intervention in interventions:
        if isinstance(intervention, AbstractIntervention) and intervention.name in scheduled:
            state = intervention.prepare(scheduled[intervention.name].parameters, state)
    return state


def intervene(
    interventions: tuple[Intervention, ...],
    stage: Stage,
    scheduled: dict[str, InterventionSchedule],
    state: PyTree[Array],
    *,
    key: Key[Array, ""],
) -> PyTree[Array]:
    """Apply the scheduled interventions that follow `stage`, in their order, where they are active.

    `key` is that of the time step; each intervention draws from a stream of its own name.
    """
    for intervention in interventions:
        if not isinstance(intervention, AbstractIntervention) or intervention.name not in scheduled:
            continue
        if intervention.follows != stage:
            continue
        schedule = scheduled[intervention.name]
        own_key = key_stream(key, f"intervention {intervention.name}")
        changed = intervention.apply(schedule.parameters, state, key=own_key)
        state = _where(schedule.active, changed, state)
    return state


def _where(condition: Bool[Array, ""], then: PyTree[Array], otherwise: PyTree[Array]) -> PyTree[Array]:
    return jax.tree.map(
        lambda new, old: old if new is old else jnp.where(condition, new, old), then, otherwise
    )
