"""Small tasks whose trials answer: an environment of each kind of action."""

import equinox as eqx
import jax
import jax.numpy as jnp

import popsim
from popsim.environment import AbstractEnvironment, Box, Discrete, HandMovement, Outcome

UNUSED = popsim.FunctionTerm("unused", lambda states, trial, model: jnp.zeros(()))


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


class AnsweringTask(popsim.AbstractTask):
    """A task without a body: the `environment` with one array of each trial's own, and a clock as input."""

    kind: type[AbstractEnvironment] = eqx.field(static=True)
    n_steps: int = eqx.field(static=True, default=12)
    has_inputs: bool = eqx.field(static=True, default=True)
    loss: popsim.Loss = eqx.field(default_factory=lambda: 1.0 * UNUSED)

    def trial(self, *, batch, key):
        return self.of(jax.random.uniform(key, (2,)))

    def validation_trials(self):
        return jax.vmap(self.of)(jnp.array([[0.0, 1.0], [1.0, 0.0]]))

    def of(self, values):
        environment = Lottery(values, jnp.array(5.0)) if self.kind is Lottery else Steering(values)
        timeline = popsim.Timeline(0.1, self.n_steps, epochs={"choices": jnp.array([0, self.n_steps])})
        inputs = {"clock": jnp.linspace(0.0, 1.0, self.n_steps)[:, None]} if self.has_inputs else ()
        conditions = {"first": values[0]}
        return popsim.Trial((), inputs, (), timeline, conditions=conditions, environment=environment)


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
        timeline = popsim.Timeline(0.01, 30, epochs={"hunt": jnp.array([0, 30])})
        inputs = {"shadow": jnp.broadcast_to(prey, (30, 2))}
        hand = popsim.HandState(start, jnp.zeros(2))
        return popsim.Trial(hand, inputs, (), timeline, environment=Catch(prey, jnp.array([0.1, 0.0])))
