"""What terms of losses measure, by numpy."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from relay import DT

from popsim.trial import TrialAtStep


def sum_of_costs(term, states, trial, model):
    """The value of a term by the costs of its time steps; None if these have none."""

    def cost(state, step):
        return term.step_cost(state, TrialAtStep(trial, step), model)

    costs = jax.vmap(cost)(states, jnp.arange(trial.timeline.n_steps))
    return None if costs is None else jnp.sum(costs)


@eqx.filter_jit
def value_of(term, states, trial, model):
    """The value of a term, compiled: by itself each of its operations would be."""
    return term(states, trial, model)


@eqx.filter_jit
def values_and_steps(terms, states, trial, model):
    """The values of terms, and the sums of the costs of their time steps, by one program."""
    return [(term(states, trial, model), sum_of_costs(term, states, trial, model)) for term in terms]


def off(states, trial, name="position"):
    """How far the cursor is off in position or velocity."""
    return np.asarray(getattr(states.cursor, name)) - np.asarray(getattr(trial.targets, name))


def length(vectors):
    return np.sqrt(np.sum(np.asarray(vectors) ** 2, axis=-1))


def huber(vectors, delta):
    r = length(vectors)
    return np.where(r <= delta, r**2 / 2, delta * (r - delta / 2))


def beside_the_line(states, trial):
    """From the line start-target to the cursor, by angles."""
    line = np.asarray(trial.targets.position[-1] - trial.init.position)
    moved = np.asarray(states.cursor.position - trial.init.position)
    angle = np.arctan2(*moved.T[::-1]) - np.arctan2(*line[::-1])
    return length(moved) * np.sin(angle)


def accelerations(states, trial):
    velocity = np.vstack([trial.init.velocity, states.hand.velocity])
    return (velocity[1:] - velocity[:-1]) / DT


def jerks(states, trial):
    acceleration = np.vstack([np.zeros(2), accelerations(states, trial)])
    return (acceleration[1:] - acceleration[:-1]) / DT


def changes(values):
    return np.diff(np.asarray(values), axis=0) / DT


def final_state(states, trial):
    x, v = off(states, trial)[-1], off(states, trial, "velocity")[-1]
    return x @ x + 0.3**2 * v @ v


def start(states, trial):
    return np.asarray(states.cursor.position) - np.asarray(trial.init.position)
