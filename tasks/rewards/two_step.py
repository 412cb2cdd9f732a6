"""The two-step task, and agents that play it with and without a model of its transitions."""

import abc
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from popsim.environment import Discrete, Observation, Outcome
from popsim.randomness import key_stream
from popsim.tasks import _fields as fields
from popsim.tasks._fields import Scalar
from popsim.tasks.rewards.bandits import AbstractChoices, AbstractContinuedEnvironment, last_choice
from popsim.tasks.rewards.players import AbstractPlayer, Received, belief_after, check_good_is_better
from popsim.tasks.trial_parts import sign_or_coin

__all__ = ["ModelBasedAgent", "ModelFreeAgent", "TwoStepEnvironment", "TwoStepObserver", "TwoStepTask"]

FIRST_STAGE, N_STAGES = 0, 3
"""The place of the first stage in the observation "stage", and the number of places."""
SHOWN = ("stage", "last action", "last reward")


class TwoStepEnvironment(AbstractContinuedEnvironment):
    """Two actions that lead to two second stages, one of which pays more often.

    Choices take two time steps each. At the first stage, action i leads to second stage i with probability
    p, else to the other one. At the second stage any action is paid 1 or 0, and leads back to the first
    stage. Then the second stages may exchange their probabilities of reward.

    It shows "stage" (3, one-hot: the first stage, and the two second stages), "last action" (one-hot) and
    "last reward". It records "second stage" and "good stage" (0 or 1), "is common" (whether the last
    transition was the more frequent one), and "is choice" (whether this step was one of the first stage). In
    a session the stages, and what is shown, continue from one trial to the next.
    """

    second_is_good: Bool[Array, "*axes"]  # at first
    common_probability: Float[Array, "*axes"]  # p
    reward_probability: Float[Array, "*axes"]  # of the better stage; the other has 1 minus it
    hazard_rate: Float[Array, "*axes"]  # the probability of an exchange after a reward

    @property
    def actions(self) -> Discrete:
        return Discrete(2)

    def init(self, *, key: Key[Array, ""]) -> tuple[dict[str, Any], Observation]:
        zero = jnp.array(0)
        shown = {"stage": _shown_stage(jnp.array(False), zero), **last_choice(2)}
        state = {"is second": jnp.array(False), "stage": zero, "is common": jnp.array(False)}
        return state | {"good stage": self.second_is_good.astype(int), "shown": shown}, shown

    def step(self, state: Any, action: Int[Array, ""], *, key: Key[Array, ""]) -> tuple[Any, Outcome]:
        was_second, good = state["is second"], state["good stage"]
        is_common = jax.random.bernoulli(key_stream(key, "transition"), self.common_probability)
        is_common = jnp.where(was_second, state["is common"], is_common)
        stage = jnp.where(was_second, state["stage"], jnp.where(is_common, action, 1 - action))
        better = self.reward_probability
        probability = jnp.where(stage == good, better, 1 - better)
        is_paid = was_second & jax.random.bernoulli(key_stream(key, "reward"), probability)
        reverses = was_second & jax.random.bernoulli(key_stream(key, "reversal"), self.hazard_rate)
        reward = is_paid.astype(better.dtype)
        shown = {"stage": _shown_stage(~was_second, stage), **last_choice(2, action, reward)}
        after = {"is second": ~was_second, "stage": stage, "is common": is_common, "shown": shown}
        after |= {"good stage": jnp.where(reverses, 1 - good, good)}
        record = {"second stage": stage, "good stage": good, "is common": is_common, "is choice": ~was_second}
        return after, Outcome(shown, reward, jnp.array(False), record)


def _shown_stage(is_second: Bool[Array, ""], stage: Int[Array, ""]) -> Float[Array, "3"]:
    return jax.nn.one_hot(jnp.where(is_second, 1 + stage, FIRST_STAGE), N_STAGES)


class TwoStepTask(AbstractChoices):
    """The two-step task: an action leads to one of two stages, and only the stage decides the reward.

    The task of Daw, Gershman, Seymour, Dayan & Dolan 2011, Neuron 69:1204, in the form of Wang et al. 2018,
    Nat Neurosci 21:860, without actions at the second stage: transitions are common with probability .8, the
    better stage pays with .9 and the other with .1, and they are exchanged with .025 (compared with
    NeuroGym's `DawTwoStep`). The environment is a `TwoStepEnvironment`.

    - Inputs and targets: none. The environment shows "stage" (3), one-hot, "last action" (2), one-hot, and
        "last reward".
    - Conditions: "first good stage", 0 or 1.

    `popsim.tasks.TwoStepObserver` is the best player; `ModelBasedAgent` and `ModelFreeAgent` learn values.
    """

    common_probability: Scalar = fields.fraction("the probability of the common transition", default=0.8)
    reward_probability: Scalar = fields.fraction(
        "the probability of reward at the better stage; the other has 1 minus it", default=0.9
    )
    hazard_rate: Scalar = fields.fraction(
        "the probability of an exchange of the stages after a choice", default=0.025
    )
    n_choices: int = fields.count("choices in a trial, of two time steps each", default=100)
    dt: float = fields.time_step("the time step, half of a choice, in seconds", default=0.1)

    @property
    def n_steps(self) -> int:
        return 2 * self.n_choices

    def draw(self, *, key: Key[Array, ""]) -> tuple[TwoStepEnvironment, dict[str, Array]]:
        second_is_good = jax.random.bernoulli(key_stream(key, "good stage"))
        environment = TwoStepEnvironment(
            second_is_good, self.common_probability, self.reward_probability, self.hazard_rate
        )
        return environment, {"first good stage": second_is_good.astype(int)}


class TwoStepObserver(AbstractPlayer):
    """Knows all numbers of the `TwoStepTask`, and takes the action to the stage that is probably better.

    The best player, if the better stage pays with 1/2 or more; it updates the log odds of the stages as a
    `ReversalObserver` does.
    """

    task: TwoStepTask
    reads = SHOWN

    def __check_init__(self):
        check_good_is_better("task.reward_probability", self.task.reward_probability)

    def init(self) -> tuple[Float[Array, ""], Float[Array, ""]]:
        return jnp.zeros(()), jnp.zeros(())

    def choose(self, received: Received, state: Any, *, key: Key[Array, ""]) -> tuple[Int[Array, ""], Any]:
        log_odds, sign = state
        reward, task = received["last reward"][0], self.task
        log_odds = belief_after(log_odds, sign, reward, task.reward_probability, task.hazard_rate)
        # Where a rare transition is the common one, the other action leads to the better stage.
        toward = jnp.where(task.common_probability >= 0.5, log_odds, -log_odds)
        _, first, second = received["stage"]
        return sign_or_coin(toward, key=key), (log_odds, second - first)


class AbstractValueAgent(fields.DocumentedModule, AbstractPlayer):
    """An agent that learns the values of two options by a delta rule, and chooses by a softmax."""

    learning_rate: Scalar = fields.fraction("the fraction of an error that is learned", default=0.5)
    inverse_temperature: Scalar = fields.non_negative("beta of the softmax", default=5.0)
    reads = SHOWN

    @abc.abstractmethod
    def learned(self, action: Float[Array, "2"], stage: Float[Array, "2"]) -> Float[Array, "2"]:
        """Return which value learns from a reward, one-hot."""

    @abc.abstractmethod
    def action_values(self, values: Float[Array, "2"]) -> Float[Array, "2"]:
        """Return the values of the actions of the first stage."""

    def init(self) -> tuple[Array, Array, Array]:
        return jnp.full(2, 0.5), jnp.zeros(2), jnp.zeros(2)

    def choose(self, received: Received, state: Any, *, key: Key[Array, ""]) -> tuple[Int[Array, ""], Any]:
        values, action, stage = state
        is_first = received["stage"][FIRST_STAGE] > 0
        learned = self.learned(action, stage)  # zeros before the first reward
        taught = values + self.learning_rate * learned * (received["last reward"] - values)
        values = jnp.where(is_first, taught, values)
        # At the second stage the last action is the choice, whose reward comes at the next step.
        action = jnp.where(is_first, jnp.zeros(2), received["last action"])
        stage = received["stage"][1:]
        preferences = self.inverse_temperature * self.action_values(values)
        return jax.random.categorical(key, preferences), (values, action, stage)


class ModelFreeAgent(AbstractValueAgent):
    """Learns the values of the actions of a `TwoStepTask` from the rewards that follow them.

    The learner SARSA(1) of Daw et al. 2011, Neuron 69:1204, for a second stage without actions: the value
    of the chosen action moves toward the reward, whatever the stage between them.
    """

    def learned(self, action: Float[Array, "2"], stage: Float[Array, "2"]) -> Float[Array, "2"]:
        return action

    def action_values(self, values: Float[Array, "2"]) -> Float[Array, "2"]:
        return values


class ModelBasedAgent(AbstractValueAgent):
    """Learns the values of the stages of a `TwoStepTask`, and plans by the probabilities of transitions.

    The planner of Daw et al. 2011, Neuron 69:1204: the value of an action is the mean value of the stages to
    which it leads.
    """

    common_probability: Scalar = fields.fraction("the probability of the common transition", default=0.8)

    def learned(self, action: Float[Array, "2"], stage: Float[Array, "2"]) -> Float[Array, "2"]:
        return stage

    def action_values(self, values: Float[Array, "2"]) -> Float[Array, "2"]:
        return self.common_probability * values + (1 - self.common_probability) * values[::-1]
