"""Players: what tasks with an environment are compared with, such as ideal observers and chance."""

import abc
import dataclasses
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree

from popsim._compiled import jit
from popsim._shared import checks
from popsim._shared.checks import kind_of, short_repr
from popsim._shared.plain_values import plain_number
from popsim.environment import Discrete
from popsim.interaction import Interaction, observation_to_come, respond, start_interaction
from popsim.network_input import inputs_by_name
from popsim.randomness import as_key, folded_key, key_stream
from popsim.tasks import _fields as fields
from popsim.tasks._fields import Scalar
from popsim.tasks.rewards.bandits import DriftingBandit
from popsim.tasks.trial_parts import sign_or_coin
from popsim.trial import Trial, check_trials, n_trials

__all__ = [
    "AbstractPlayer",
    "GreedyBandit",
    "KalmanBandit",
    "RandomPlayer",
    "ReversalObserver",
    "ThompsonSampling",
    "play",
]

Received = dict[str, PyTree[Array]]
BANDIT = ("last action", "last reward")
"""What the bandits show."""


class AbstractPlayer(eqx.Module):
    """Base class of players, which know the rules of a task and choose without learning them.

    A player sees what a network sees: the inputs of the trial and what its environment shows, by name.
    Subclasses implement `choose`, and `init` if they remember; `play` plays. A subclass that sets `reads` to
    the names that it needs plays no trials that show it others, of which it would know nothing, but for
    "fixation".

    !!! example

        ```python
        >>> import jax, jax.numpy as jnp
        >>> from popsim import tasks
        >>> class StaysWithReward(tasks.AbstractPlayer):
        ...     def init(self):
        ...         return jnp.array(0)
        ...     def choose(self, received, state, *, key):
        ...         action = jnp.where(received["last reward"][0] > 0, state, 1 - state)
        ...         return action, action
        >>> trials = tasks.BernoulliBandit(n_choices=20).validation_trials()
        >>> interaction = tasks.play(StaysWithReward(), trials, key=jax.random.key(0))
        >>> interaction.reward.shape
        (100, 20)

        ```
    """

    reads: ClassVar[tuple[str, ...]] = ()

    def init(self) -> PyTree[Array]:
        """Return what the player knows at the start of a trial; nothing by default."""
        return ()

    @abc.abstractmethod
    def choose(self, received: Received, state: Any, *, key: Key[Array, ""]) -> tuple[Int[Array, ""], Any]:
        """Return the action at a time step, and what the player knows then, in the form of `state`.

        What it received are the inputs of the trial at this step, and what the environment shows.
        """


def play(player: AbstractPlayer, trials: Trial, *, key: Key[Array, ""]) -> Interaction:
    """Let a player play stacked trials, and return the interaction, as in the states of a model.

    The trials are stacked, and their environment takes discrete actions. Trial i depends only on `key` and i.
    """
    check_trials("trials", trials)
    if trials.environment is None or not isinstance(trials.environment.actions, Discrete):
        raise ValueError(
            "`trials` must have an environment with discrete actions, "
            f"got one of {kind_of(trials.environment)}."
        )
    return _play(player, trials, as_key(key))


@jit
def _play(player: AbstractPlayer, trials: Trial, key: Key[Array, ""]) -> Interaction:
    keys = jax.vmap(lambda index: folded_key(key, index))(jnp.arange(n_trials(trials)))
    return jax.vmap(lambda trial, key: _play_trial(player, trial, key))(trials, keys)


def _play_trial(player: AbstractPlayer, trial: Trial, key: Key[Array, ""]) -> Interaction:
    environment = trial.environment
    assert environment is not None
    start = start_interaction(environment, jnp.array(0), None, key=key)

    def step(before: tuple[Interaction, Any], at_step: tuple[Any, Int[Array, ""]]):
        interaction, state = before
        inputs, index = at_step
        step_key = folded_key(key, index)
        received = inputs_by_name(inputs) | observation_to_come(interaction)
        shown = received.keys() - ({"fixation"} - {*player.reads})
        if player.reads and shown != {*player.reads}:
            raise ValueError(
                f"`trials` must show {', '.join(map(repr, player.reads))}, and nothing else, to "
                f"{type(player).__name__}, which knows nothing of other tasks, got {sorted(received)}."
            )
        action, state = player.choose(received, state, key=key_stream(step_key, "policy"))
        interaction = respond(environment, interaction, action, key=step_key)
        return (interaction, state), dataclasses.replace(interaction, upcoming=None)

    steps = (trial.inputs, jnp.arange(trial.timeline.n_steps))
    return jax.lax.scan(step, (start, player.init()), steps)[1]


class RandomPlayer(AbstractPlayer):
    """Takes each of `n_actions` actions equally often: chance."""

    n_actions: int = eqx.field(static=True, converter=plain_number)

    def __check_init__(self):
        checks.check_positive_int("n_actions", self.n_actions)

    def choose(self, received: Received, state: Any, *, key: Key[Array, ""]) -> tuple[Int[Array, ""], Any]:
        return jax.random.randint(key, (), 0, self.n_actions), state


Counts = tuple[Float[Array, " arms"], Float[Array, " arms"]]


class AbstractCountingPlayer(AbstractPlayer):
    """A player of a `BernoulliBandit` that counts the rewards, and the choices without one, of each arm."""

    n_arms: int = eqx.field(static=True, converter=plain_number)
    reads = BANDIT

    def __check_init__(self):
        checks.check_positive_int("n_arms", self.n_arms)

    @abc.abstractmethod
    def appeal(
        self, rewards: Float[Array, " arms"], failures: Float[Array, " arms"], *, key: Key[Array, ""]
    ) -> Float[Array, " arms"]:
        """Return a number for each arm, of which the highest is chosen."""

    def init(self) -> Counts:
        return jnp.zeros(self.n_arms), jnp.zeros(self.n_arms)

    def choose(self, received: Received, state: Any, *, key: Key[Array, ""]) -> tuple[Int[Array, ""], Any]:
        chosen, reward = (received[name] for name in self.reads)
        rewards, failures = state[0] + chosen * reward, state[1] + chosen * (1 - reward)
        return jnp.argmax(self.appeal(rewards, failures, key=key)), (rewards, failures)


class ThompsonSampling(AbstractCountingPlayer):
    """Chooses each arm of a `BernoulliBandit` with the probability that it is the best.

    Thompson 1933, Biometrika 25:285: it draws the probability of each arm from its posterior distribution,
    Beta(1 + rewards, 1 + failures) if all probabilities were equally likely, and takes the highest.
    """

    def appeal(
        self, rewards: Float[Array, " arms"], failures: Float[Array, " arms"], *, key: Key[Array, ""]
    ) -> Float[Array, " arms"]:
        return jax.random.beta(key, 1 + rewards, 1 + failures)


class GreedyBandit(AbstractCountingPlayer):
    """Chooses the arm of a `BernoulliBandit` with the highest expected reward, so that it never explores.

    The expected reward is (1 + rewards) / (2 + choices). Between equal arms it draws one.
    """

    def appeal(
        self, rewards: Float[Array, " arms"], failures: Float[Array, " arms"], *, key: Key[Array, ""]
    ) -> Float[Array, " arms"]:
        expected = (1 + rewards) / (2 + rewards + failures)
        equal = expected >= jnp.max(expected) - 1e-6
        return jnp.where(equal, jax.random.uniform(key, expected.shape, expected.dtype), -1.0)


class KalmanBandit(AbstractPlayer):
    """Knows the random walk of a `DriftingBandit`, and tracks the means of its arms by a Kalman filter.

    The mean and variance of each arm are the posterior ones (Daw et al. 2006, Nature 441:876). If it
    `explores`, it draws a mean from each posterior, and takes the highest; else the highest posterior mean.
    """

    reads = BANDIT
    task: DriftingBandit
    explores: bool = eqx.field(static=True, default=True, kw_only=True)

    def init(self) -> Counts:
        n_arms = self.task.n_arms
        variance = self.task.stationary_std**2
        return jnp.full(n_arms, self.task.center), jnp.full(n_arms, variance)

    def choose(self, received: Received, state: Any, *, key: Key[Array, ""]) -> tuple[Int[Array, ""], Any]:
        task, (means, variances) = self.task, state
        chosen, reward = (received[name] for name in self.reads)
        total = variances + task.noise_std**2
        gain = chosen * jnp.where(total > 0, variances / jnp.where(total > 0, total, 1.0), 0.0)
        means = means + gain * (reward - means)
        variances = (1 - gain) * variances
        # Before the first choice nothing has drifted.
        has_drifted = jnp.sum(chosen)
        decay = jnp.where(has_drifted > 0, task.decay, 1.0)
        means = decay * means + (1 - decay) * task.center
        variances = decay**2 * variances + has_drifted * task.drift_std**2
        draw = jax.random.normal(key, means.shape, means.dtype)
        drawn = means + jnp.sqrt(variances) * draw if self.explores else means
        return jnp.argmax(drawn), (means, variances)


class ReversalObserver(fields.DocumentedModule, AbstractPlayer):
    """Knows the hazard rate and the probabilities of `ReversalLearning`, and chooses what is probably good.

    Its state is L, the log odds that the second arm is good. A reward of the second arm, or its absence from
    the first, adds log(p / (1 - p)), and the opposite subtracts it. Then a reversal may happen, with
    probability h: the probability P of L becomes (1 - h) P + h (1 - P).
    """

    reward_probability: Scalar = fields.fraction(
        "p, of the good arm, at least 1/2: it would be the worse one otherwise"
    )
    hazard_rate: Scalar = fields.fraction("h, the probability of a reversal after a choice")
    reads = BANDIT

    def __check_init__(self):
        check_good_is_better("reward_probability", self.reward_probability)

    def init(self) -> Float[Array, ""]:
        return jnp.zeros(())

    def choose(self, received: Received, state: Any, *, key: Key[Array, ""]) -> tuple[Int[Array, ""], Any]:
        first, second = received["last action"]
        log_odds = belief_after(
            state, second - first, received["last reward"][0], self.reward_probability, self.hazard_rate
        )
        return sign_or_coin(log_odds, key=key), log_odds


def check_good_is_better(name: str, reward_probability: Array) -> None:
    """Raise `ValueError` unless what is called good pays at least as often as the other."""
    if checks.violates(lambda probability: probability >= 0.5, *jax.tree.leaves(reward_probability)):
        raise ValueError(
            f"`{name}` must be at least 0.5, as the good one pays less often than the other otherwise, got "
            f"{short_repr(reward_probability)}."
        )


def belief_after(
    log_odds: Float[Array, ""],
    sign: Float[Array, ""],
    reward: Float[Array, ""],
    reward_probability: Float[Array, ""],
    hazard_rate: Float[Array, ""],
) -> Float[Array, ""]:
    """Return the log odds that the second of two is good, after a reward of one (`sign`) and a reversal."""
    evidence = jnp.log(reward_probability) - jnp.log1p(-reward_probability)
    after = log_odds + sign * jnp.where(reward > 0, evidence, -evidence)
    # log(((1 - h) e^L + h) / (h e^L + 1 - h)), whose size that of L gives: of a probability near one too
    # little is left in single precision.
    size, stays, changes = jnp.abs(after), jnp.log1p(-hazard_rate), jnp.log(hazard_rate)
    moved = jnp.logaddexp(stays, changes - size) - jnp.logaddexp(changes, stays - size)
    return jnp.where(sign == 0, log_odds, jnp.sign(after) * moved)
