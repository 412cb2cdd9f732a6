"""The values of terms of losses, and the sums of the costs of their time steps."""

import equinox as eqx
import jax
import jax.numpy as jnp

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
