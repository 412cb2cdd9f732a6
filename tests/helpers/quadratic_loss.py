"""Models whose loss is a quadratic function of their weights."""

import equinox as eqx
import jax
import jax.numpy as jnp

import popsim


class Constant(popsim.AbstractModel):
    """Puts out its own weights."""

    weights: jax.Array
    n_units: int = eqx.field(static=True, default=2)

    def init(self, trial, *, key):
        return jnp.zeros(self.n_units)

    def step(self, step_input, state, *, key):
        return self.weights


def squares(states, trial, model):
    return jnp.sum((states - trial.targets) ** 2)


class Nearness(popsim.AbstractTask):
    """Be near (1, 1): the loss is the squared distance times its weight."""

    loss: popsim.Loss

    def trial(self, *, batch, key):
        return popsim.Trial((), jnp.zeros((1, 1)), jnp.ones((1, 2)), popsim.Timeline(dt=1.0, n_steps=1))

    def validation_trials(self):
        return jax.tree.map(lambda leaf: leaf[None], self.trial(batch=0, key=jax.random.key(0)))


def nearness(weight):
    """The task; the weight may differ between members."""
    return Nearness(weight * popsim.FunctionTerm("squares", squares))
