"""Environments whose answers are known, two for each kind of action, and small tasks that have them."""

import equinox as eqx
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


class Lottery(AbstractEnvironment):
    """Three arms; the third wins `prize` and ends the trial, the others win 1 with their probability."""

    probabilities: jax.Array
    prize: jax.Array
    actions = Discrete(3)

    def init(self, *, key):
        return jnp.zeros((), int), {"won": jnp.zeros(1), "chosen": jnp.zeros(3)}

    def step(self, state, action, *, key):
        is_last = action == 2
        wins = jax.random.bernoulli(key, jnp.append(self.probabilities, 1.0)[action])
        reward = jnp.where(is_last, self.prize, wins.astype(float))
        shown = {"won": reward[None], "chosen": jax.nn.one_hot(action, 3)}
        return state + 1, Outcome(shown, reward, is_last)


class Steering(AbstractEnvironment):
    """A point in the plane that moves by the action, and is paid for being close to the goal."""

    goal: jax.Array
    actions = Box(2, low=-0.5)

    def init(self, *, key):
        start = jax.random.normal(key, (2,))
        return start, {"place": start}

    def step(self, state, action, *, key):
        place = state + action
        return place, Outcome({"place": place}, -jnp.sum((place - self.goal) ** 2), jnp.array(False))


class Catch(AbstractEnvironment):
    """A target that moves with constant velocity; the trial ends when the cursor is within 1 cm of it."""

    start: jax.Array
    velocity: jax.Array
    actions = HandMovement()

    def init(self, *, key):
        return self.start, {"prey": self.start}

    def step(self, state, action, *, key):
        prey = state + 0.01 * self.velocity
        distance = jnp.sqrt(jnp.sum((action.position - prey) ** 2))
        return prey, Outcome({"prey": prey}, -distance, distance < 0.01, record={"target": prey})


def trial_with(environment, *, n_steps=N_STEPS, dt=0.01, **parts):
    """A trial without inputs and targets, by default of 10 ms steps."""
    timeline = popsim.Timeline(dt=dt, n_steps=n_steps, epochs={"trial": jnp.array([0, n_steps])})
    parts = {"init": (), "inputs": (), "targets": (), **parts}
    return popsim.Trial(timeline=timeline, environment=environment, **parts)


class CounterTask(popsim.AbstractTask):
    loss: popsim.Loss

    def trial(self, *, batch, key):
        return trial_with(Counter(jnp.asarray(4.0)))

    def validation_trials(self):
        return jax.vmap(lambda last: trial_with(Counter(last)))(jnp.array([4.0, 5.0]))


UNUSED = popsim.FunctionTerm("unused", lambda states, trial, model: jnp.zeros(()))


class AnsweringTask(popsim.AbstractTask):
    """A task without a body: a lottery or a steering with an array of each trial's own, and a clock."""

    kind: type[AbstractEnvironment] = eqx.field(static=True)
    loss: popsim.Loss = eqx.field(default_factory=lambda: 1.0 * UNUSED)

    def trial(self, *, batch, key):
        return self.of(jax.random.uniform(key, (2,)))

    def validation_trials(self):
        return jax.vmap(self.of)(jnp.array([[0.0, 1.0], [1.0, 0.0]]))

    def of(self, values):
        environment = Lottery(values, jnp.array(5.0)) if self.kind is Lottery else Steering(values)
        parts = {"inputs": {"clock": jnp.linspace(0.0, 1.0, 12)[:, None]}, "conditions": {"first": values[0]}}
        return trial_with(environment, n_steps=12, dt=0.1, **parts)


class CatchTask(popsim.AbstractTask):
    """Catch a target with the hand; its shadow is an input of the trial."""

    workspace: popsim.Workspace
    loss: popsim.Loss = eqx.field(default_factory=lambda: 1.0 * UNUSED)

    def trial(self, *, batch, key):
        start, prey = (self.workspace.sample(key=popsim.key_stream(key, name)) for name in ("hand", "prey"))
        return self.of(start, prey)

    def validation_trials(self):
        at = jnp.stack([self.workspace.center, self.workspace.low])
        return jax.vmap(self.of)(at, at + jnp.array([0.02, 0.0]))

    def of(self, start, prey):
        parts = {"init": popsim.HandState(start, jnp.zeros(2)), "inputs": {"shadow": jnp.tile(prey, (30, 1))}}
        return trial_with(Catch(prey, jnp.array([0.1, 0.0])), n_steps=30, **parts)


def build(key, *, critic=True, n_inputs=1):
    policy = Categorical(2, critic=critic)
    network = popsim.networks.GRUNetwork(n_inputs, 4, policy.n_outputs, key=key)
    return popsim.NetworkModel(network, policy=policy, dt=0.01)
