"""Parts of tasks in which networks learn from reward: choices one after the other, and their loss."""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from popsim._checks import check_positive_int, check_time_step
from popsim.environment import AbstractEnvironment, Observation
from popsim.loss import Loss
from popsim.losses import Entropy, PolicyGradient, ValueRegression
from popsim.randomness import seed_key
from popsim.schedules import LinearSchedule
from popsim.task import AbstractTask
from popsim.trial import Trial
from popsim.windows import Timeline

__all__ = ["reward_loss"]


def reward_loss(
    *, discount: float = 0.9, value: float = 0.05, entropy: float = 1.0, last_batch: int = 1500
) -> Loss:
    """Return a loss for learning from reward: policy gradient, regression of the critic, and entropy.

    A policy without a critic takes the first and the last term only: drop the other by making the loss from
    `popsim.losses`. By these weights three networks of 48 units learn a bandit with two arms in 1500 batches
    of 64 trials.

    **Arguments:**

    - `discount`: how much a reward counts one time step earlier, from 0 to 1.
    - `value`: the weight of the regression.
    - `entropy`: the weight of the entropy in the first batch, from which it falls linearly to zero.
    - `last_batch`: the batch at which it is zero.
    """
    falling: Any = LinearSchedule(entropy, 0.0, last_batch=last_batch)
    learning = PolicyGradient(discount=discount) + value * ValueRegression(discount=discount)
    return learning + falling * Entropy()


class AbstractChoices(AbstractTask):
    """A task of choices one after the other, to each of which an environment pays a reward.

    Trials have no inputs and no targets. A time step is one choice, so that `dt` only names the unit of time
    constants. The validation trials are drawn as those of training, from fixed keys.

    A subclass supplies the fields, and `draw`.
    """

    loss: eqx.AbstractVar[Loss]
    n_choices: eqx.AbstractVar[int]
    n_validation_trials: eqx.AbstractVar[int]
    dt: eqx.AbstractVar[float]

    def __check_init__(self):
        check_positive_int("n_choices", self.n_choices)
        check_positive_int("n_validation_trials", self.n_validation_trials)
        check_time_step(self.dt)

    @abc.abstractmethod
    def draw(self, *, key: Key[Array, ""]) -> tuple[AbstractEnvironment, dict[str, Array]]:
        """Draw the environment of a trial, and its conditions."""

    @property
    def n_steps(self) -> int:
        """The number of time steps of a trial."""
        return self.n_choices

    def trial(self, *, batch: int | Int[Array, ""], key: Key[Array, ""]) -> Trial:
        environment, conditions = self.draw(key=key)
        timeline = Timeline(self.dt, self.n_steps, epochs={"choices": jnp.array([0, self.n_steps])})
        return Trial((), (), (), timeline, conditions=conditions, environment=environment)

    def validation_trials(self) -> Trial:
        keys = jax.random.split(seed_key(0), self.n_validation_trials)
        return jax.vmap(lambda key: self.trial(batch=0, key=key))(keys)


def pick(values: Float[Array, " action"], action: Int[Array, ""]) -> Float[Array, ""]:
    """Return the value of an action, or zero for an action that has none."""
    # Not values[action]: a gather is slow for all trials at once.
    return jnp.sum(jnp.where(jnp.arange(values.shape[0]) == action, values, 0.0))


def last_choice(
    n_actions: int, action: Int[Array, ""] | None = None, reward: Float[Array, ""] | None = None
) -> Observation:
    """Return what a network sees of its last choice: the action (one-hot) and the reward; zeros at first."""
    if action is None or reward is None:
        return {"last action": jnp.zeros(n_actions), "last reward": jnp.zeros(1)}
    return {"last action": jax.nn.one_hot(action, n_actions), "last reward": reward[None]}
