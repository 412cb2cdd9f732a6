"""Choices that an environment pays, one after the other: bandits, which may drift or reverse."""

import abc
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from popsim._shared import checks
from popsim.environment import AbstractEnvironment, Discrete, Observation, Outcome
from popsim.loss import Loss
from popsim.losses import Entropy, PolicyGradient, ValueRegression
from popsim.randomness import key_stream, seed_key
from popsim.schedules import LinearSchedule
from popsim.tasks import _fields as fields
from popsim.tasks._fields import FRACTION, Drawn, Scalar
from popsim.tasks.trial_parts import AbstractCheckedTask
from popsim.trial import Trial
from popsim.windows import Timeline

__all__ = [
    "reward_loss",
    "BanditEnvironment",
    "BernoulliBandit",
    "DriftingBandit",
    "DriftingEnvironment",
    "ReversalEnvironment",
    "ReversalLearning",
]


def reward_loss(
    *, discount: float = 0.9, value: float = 0.05, entropy: float = 1.0, last_batch: int = 1500
) -> Loss:
    """Return a loss for learning from reward: policy gradient, regression of the critic, and entropy.

    **Arguments:**

    - `discount`: how much a reward counts one time step earlier, from 0 to 1.
    - `value`, `entropy`: the weights of the regression, and of the entropy in the first batch, from which it
        falls linearly to zero at `last_batch`.
    """
    falling: Any = LinearSchedule(entropy, 0.0, last_batch=last_batch)
    learning = PolicyGradient(discount=discount) + value * ValueRegression(discount=discount)
    return learning + falling * Entropy()


class AbstractChoices(AbstractCheckedTask):
    """A task of choices one after the other, each in a time step, for which an environment pays."""

    loss: Loss = fields.default_loss(default_factory=reward_loss)
    n_choices: int = fields.count("choices in a trial", default=100)
    n_validation_trials: int = fields.count("validation trials", default=100)
    dt: float = fields.time_step("the time step, of one choice, in seconds", default=0.1)

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


class AbstractContinuedEnvironment(AbstractEnvironment):
    """An environment whose state, and what is shown, continue from one trial of a session to the next."""

    def resume(self, state: dict[str, Any], *, key: Key[Array, ""]) -> tuple[dict[str, Any], Observation]:
        return state, state["shown"]


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


class BanditEnvironment(AbstractEnvironment):
    """Arms of which each pays 1 with a probability of its own, else 0.

    It shows "last action" (one-hot) and "last reward". It records "regret", by how much the best arm has a
    higher probability than the chosen one.
    """

    probabilities: Float[Array, "*axes arms"]

    @property
    def actions(self) -> Discrete:
        return Discrete(self.probabilities.shape[-1])

    def init(self, *, key: Key[Array, ""]) -> tuple[tuple[()], Observation]:
        return (), last_choice(self.actions.n)

    def step(self, state: Any, action: Int[Array, ""], *, key: Key[Array, ""]) -> tuple[Any, Outcome]:
        probability = pick(self.probabilities, action)
        reward = jax.random.bernoulli(key, probability).astype(probability.dtype)
        shown = last_choice(self.actions.n, action, reward)
        regret = jnp.max(self.probabilities) - probability
        return state, Outcome(shown, reward, jnp.array(False), {"regret": regret})


class DriftingEnvironment(AbstractContinuedEnvironment):
    """Arms whose mean rewards follow independent decaying random walks.

    After each choice the mean of every arm becomes λ μ + (1 - λ) θ + ν, with ν normal with mean zero and
    standard deviation σ_d. An arm pays its mean plus normal noise of standard deviation σ_o. It shows "last
    action" (one-hot) and "last reward". It records "regret", the highest mean minus that of the chosen arm,
    and "means". In a session the walks, and what is shown, continue from one trial to the next.
    """

    means: Float[Array, "*axes arms"]  # μ at the first choice
    decay: Float[Array, "*axes"]  # λ
    center: Float[Array, "*axes"]  # θ
    drift_std: Float[Array, "*axes"]  # σ_d
    noise_std: Float[Array, "*axes"]  # σ_o

    @property
    def actions(self) -> Discrete:
        return Discrete(self.means.shape[-1])

    def init(self, *, key: Key[Array, ""]) -> tuple[dict[str, Any], Observation]:
        shown = last_choice(self.actions.n)
        return {"means": self.means, "shown": shown}, shown

    def step(self, state: Any, action: Int[Array, ""], *, key: Key[Array, ""]) -> tuple[Any, Outcome]:
        means = state["means"]
        mean = pick(means, action)
        noise = jax.random.normal(key_stream(key, "reward"), (), means.dtype)
        reward = mean + self.noise_std * noise
        drift = self.drift_std * jax.random.normal(key_stream(key, "drift"), means.shape, means.dtype)
        later = self.decay * means + (1 - self.decay) * self.center + drift
        record = {"regret": jnp.max(means) - mean, "means": means}
        shown = last_choice(self.actions.n, action, reward)
        return {"means": later, "shown": shown}, Outcome(shown, reward, jnp.array(False), record)


class ReversalEnvironment(AbstractContinuedEnvironment):
    """Two arms, a good one and a bad one, which are exchanged at a constant rate.

    The good arm pays 1 with probability p, the bad one with probability 1 - p, else 0. It shows "last
    action" (one-hot) and "last reward". It records "good arm", and "regret", 2 p - 1 for the bad arm. In a
    session the good arm, and what is shown, continue from one trial to the next.
    """

    second_is_good: Bool[Array, "*axes"]  # at the first choice
    reward_probability: Float[Array, "*axes"]  # p
    hazard_rate: Float[Array, "*axes"]  # the probability of reversal after a choice

    @property
    def actions(self) -> Discrete:
        return Discrete(2)

    def init(self, *, key: Key[Array, ""]) -> tuple[dict[str, Any], Observation]:
        shown = last_choice(2)
        return {"second is good": self.second_is_good, "shown": shown}, shown

    def step(self, state: Any, action: Int[Array, ""], *, key: Key[Array, ""]) -> tuple[Any, Outcome]:
        good_arm = state["second is good"].astype(int)
        better, worse = self.reward_probability, 1 - self.reward_probability
        probability = jnp.where(action == good_arm, better, worse)
        reward = jax.random.bernoulli(key_stream(key, "reward"), probability).astype(better.dtype)
        reverses = jax.random.bernoulli(key_stream(key, "reversal"), self.hazard_rate)
        record = {"regret": better - probability, "good arm": good_arm}
        shown = last_choice(2, action, reward)
        after = {"second is good": state["second is good"] ^ reverses, "shown": shown}
        return after, Outcome(shown, reward, jnp.array(False), record)


class BernoulliBandit(AbstractChoices):
    """A bandit: choose the arm that pays most often, without knowing which.

    Each trial draws the probability of each arm, and has `n_choices` choices, so that a network learns within
    the trial (as in Wang et al. 2018, Nat Neurosci 21:860). The environment is a `BanditEnvironment`.

    - Inputs and targets: none. The environment shows "last action" (`n_arms`), one-hot, and "last reward".
    - Conditions: "probabilities" of the arms; "best arm", from 0.

    With two arms and uniform probabilities the regret of 100 choices is 2.78 for
    `popsim.tasks.ThompsonSampling`, 2.70 for `popsim.tasks.GreedyBandit` and 1/6 per choice, 16.7, for a
    `popsim.tasks.RandomPlayer` (means of 40,000 bandits).
    """

    n_arms: int = fields.count("arms", default=2)
    probability: Drawn = fields.drawn(
        "the probability of reward of each arm", default=(0.0, 1.0), check=FRACTION
    )

    def draw(self, *, key: Key[Array, ""]) -> tuple[BanditEnvironment, dict[str, Array]]:
        keys = jax.random.split(key_stream(key, "arms"), self.n_arms)
        probabilities = jax.vmap(lambda key: self.probability.sample(key=key))(keys)
        conditions = {"probabilities": probabilities, "best arm": jnp.argmax(probabilities)}
        return BanditEnvironment(probabilities), conditions


def check_decay(name: str, value: Any) -> None:
    """Raise `ValueError` unless the fraction that a walk keeps is below 1: without decay it has no bound."""
    checks.check_fraction(name, value)
    if checks.violates(lambda value: value < 1, *jax.tree.leaves(value)):
        raise ValueError(f"`{name}` must be below 1, as a walk without decay has no bound, got 1.")


class DriftingBandit(AbstractChoices):
    """A bandit whose arms slowly become better and worse, so that exploring never ends.

    The task of Daw, O'Doherty, Dayan, Seymour & Dolan 2006, Nature 441:876, with its numbers as stated in
    the supplementary methods, in units of 100 points: λ = .9836, θ = 50, σ_d = 2.8, σ_o = 4 points, four
    arms. There rewards are rounded to whole points from 1 to 100; here they are not. Means begin where a
    long walk would be, with standard deviation σ_d / (1 - λ²)^0.5. The environment is a
    `DriftingEnvironment`.

    - Inputs and targets: none. The environment shows "last action" (`n_arms`), one-hot, and "last reward".
    - Conditions: "first best arm", from 0: the best at the first choice.

    `popsim.tasks.KalmanBandit` is the observer that knows the walk.
    """

    n_arms: int = fields.count("arms", default=4)
    n_choices: int = fields.count("choices in a trial", default=150)
    decay: Scalar = fields.number(
        "λ, the fraction of its distance from θ that a mean keeps, from 0 to below 1",
        default=0.9836,
        check=check_decay,
    )
    center: Scalar = fields.number("θ, to which means decay", default=0.5)
    drift_std: Scalar = fields.non_negative("the standard deviation σ_d of a step of the walk", default=0.028)
    noise_std: Scalar = fields.non_negative("the standard deviation σ_o of rewards", default=0.04)

    @property
    def stationary_std(self) -> Float[Array, ""]:
        """The standard deviation of the means of arms after a long walk."""
        return self.drift_std / jnp.sqrt(1 - self.decay**2)

    def draw(self, *, key: Key[Array, ""]) -> tuple[DriftingEnvironment, dict[str, Array]]:
        away = jax.random.normal(key_stream(key, "arms"), (self.n_arms,), self.center.dtype)
        means = self.center + self.stationary_std * away
        environment = DriftingEnvironment(means, self.decay, self.center, self.drift_std, self.noise_std)
        return environment, {"first best arm": jnp.argmax(means)}


class ReversalLearning(AbstractChoices):
    """Reversal learning: of two arms one is good, until they are exchanged without notice.

    A reversal may follow any choice, with a probability that does not depend on the past, the hazard rate.
    The environment is a `ReversalEnvironment`. As its two probabilities add up to 1, either arm tells equally
    much about which one is good, so that `popsim.tasks.ReversalObserver` is the best player.

    - Inputs and targets: none. The environment shows "last action" (2), one-hot, and "last reward".
    - Conditions: "hazard rate"; "first good arm", 0 or 1.
    """

    reward_probability: Scalar = fields.fraction(
        "the probability of reward of the good arm; the bad one has 1 minus it", default=0.8
    )
    hazard_rate: Drawn = fields.drawn(
        "the probability of reversal after a choice", default=0.05, check=FRACTION
    )

    def draw(self, *, key: Key[Array, ""]) -> tuple[ReversalEnvironment, dict[str, Array]]:
        hazard_rate = self.hazard_rate.sample(key=key_stream(key, "hazard rate"))
        second_is_good = jax.random.bernoulli(key_stream(key, "good arm"))
        environment = ReversalEnvironment(second_is_good, self.reward_probability, hazard_rate)
        return environment, {"hazard rate": hazard_rate, "first good arm": second_is_good.astype(int)}
