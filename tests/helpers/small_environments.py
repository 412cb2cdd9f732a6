"""Environments whose answers are known: a count of steps, arms that pay, and a target that stays."""

import jax
import jax.numpy as jnp

import popsim
from popsim.environment import AbstractEnvironment, Box, Discrete, HandMovement, Outcome
from popsim.policies import Categorical

N_STEPS = 6


class Counter(AbstractEnvironment):
    """Shows how many steps are done, pays the action, and ends after `last` steps."""

    last: jax.Array
    actions = Discrete(2)

    def init(self, *, key):
        return jnp.zeros(()), {"count": jnp.zeros(1)}

    def step(self, state, action, *, key):
        count = state + 1
        record = {"drawn": jax.random.uniform(key)}
        reward = action.astype(float)
        return count, Outcome({"count": count[None]}, reward, count >= self.last, record)

    def resume(self, state, *, key):
        return state, {"count": state[None]}


class Echo(AbstractEnvironment):
    """Shows the last action, of two numbers, and pays minus its square."""

    scale: jax.Array
    actions = Box(2, low=-1.0, high=1.0)

    def init(self, *, key):
        return (), {"last": jnp.zeros(2)}

    def step(self, state, action, *, key):
        return state, Outcome({"last": action}, -self.scale * jnp.sum(action**2), jnp.asarray(False))


class Follow(AbstractEnvironment):
    """A target that the hand should reach; the trial ends when it is within 1 cm."""

    target: popsim.HandState
    actions = HandMovement()

    def init(self, *, key):
        return (), {"goal": self.target.position}

    def step(self, state, action, *, key):
        away = jnp.sum((action.position - self.target.position) ** 2)
        record = {"target": self.target}
        return state, Outcome({"goal": self.target.position}, -away, away < 1e-4, record)


def trial_with(environment, *, n_steps=N_STEPS, **parts):
    """A trial without inputs and targets, of 10 ms steps."""
    timeline = popsim.Timeline(dt=0.01, n_steps=n_steps, epochs={"trial": jnp.array([0, n_steps])})
    parts = {"init": (), "inputs": (), "targets": (), **parts}
    return popsim.Trial(timeline=timeline, environment=environment, **parts)


class CounterTask(popsim.AbstractTask):
    loss: popsim.Loss

    def trial(self, *, batch, key):
        return trial_with(Counter(jnp.asarray(4.0)))

    def validation_trials(self):
        return jax.vmap(lambda last: trial_with(Counter(last)))(jnp.array([4.0, 5.0]))


def build(key, *, critic=True, n_inputs=1):
    policy = Categorical(2, critic=critic)
    network = popsim.networks.GRUNetwork(n_inputs, 4, policy.n_outputs, key=key)
    return popsim.NetworkModel(network, policy=policy, dt=0.01)
