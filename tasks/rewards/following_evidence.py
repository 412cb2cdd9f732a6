"""Choices by noisy evidence, of which what one did decides the next: a staircase, and changing contexts."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from popsim._shared.checks import is_traced
from popsim.distributions import AbstractDistribution, Choice
from popsim.environment import Discrete, Observation, Outcome
from popsim.loss import Loss
from popsim.randomness import key_stream
from popsim.tasks import _fields as fields
from popsim.tasks._fields import FRACTION, Drawn, Number, Scalar
from popsim.tasks.rewards import bandits
from popsim.tasks.rewards.ideal_decisions import probability_of_right
from popsim.tasks.rewards.players import AbstractPlayer, Received
from popsim.tasks.trial_parts import sign_or_coin, values_of_choice

__all__ = [
    "Staircase",
    "StaircaseDecision",
    "StaircaseObserver",
    "ChangingEnvironment",
    "ChangingEnvironmentObserver",
    "ChangingTargets",
]


class Staircase(bandits.AbstractContinuedEnvironment):
    """Noisy evidence before each choice, weaker after correct choices and stronger after an error.

    Action 0 is left, action 1 right; a correct choice pays 1. After `n_correct` correct choices in a row the
    next coherence is one level weaker, after an error one level stronger, but never below the weakest level
    or above the strongest.

    It shows "evidence" (1) of the choice to come, "last action" (2, one-hot) and "last reward". It records
    "direction" (0 or 1, the correct one), "coherence", without its sign, and "level". In a session the
    staircase, and what is shown, continue from one trial to the next.
    """

    coherences: Float[Array, "*axes level"]  # from the weakest to the strongest
    noise_std: Float[Array, "*axes"]  # of the evidence
    first_level: Int[Array, "*axes"]
    n_correct: int = eqx.field(static=True)

    @property
    def actions(self) -> Discrete:
        return Discrete(2)

    def init(self, *, key: Key[Array, ""]) -> tuple[dict[str, Any], Observation]:
        return self._next_choice(self.first_level, jnp.array(0), bandits.last_choice(2), key=key)

    def step(self, state: Any, action: Int[Array, ""], *, key: Key[Array, ""]) -> tuple[Any, Outcome]:
        is_right = action == state["direction"]
        in_a_row = jnp.where(is_right, state["in a row"] + 1, 0)
        is_weaker = in_a_row == self.n_correct
        level = state["level"] + jnp.where(is_weaker, -1, jnp.where(is_right, 0, 1))
        level = jnp.clip(level, 0, self.coherences.shape[-1] - 1)
        reward = is_right.astype(self.noise_std.dtype)
        seen = bandits.last_choice(2, action, reward)
        after, shown = self._next_choice(level, jnp.where(is_weaker, 0, in_a_row), seen, key=key)
        record = {name: state[name] for name in ("direction", "coherence", "level")}
        return after, Outcome(shown, reward, jnp.array(False), record)

    def _next_choice(
        self, level: Int[Array, ""], in_a_row: Int[Array, ""], seen: Observation, *, key: Key[Array, ""]
    ) -> tuple[dict[str, Any], Observation]:
        """Draw the direction and the evidence of the next choice, and return the state and what is shown."""
        coherence = bandits.pick(self.coherences, level)
        direction = jax.random.bernoulli(key_stream(key, "direction")).astype(int)
        noise = jax.random.normal(key_stream(key, "noise"), (), coherence.dtype)
        evidence = jnp.where(direction == 1, coherence, -coherence) + self.noise_std * noise
        shown = {"evidence": evidence[None], **seen}
        state = {"level": level, "in a row": in_a_row, "direction": direction, "coherence": coherence}
        return state | {"shown": shown}, shown


class StaircaseDecision(bandits.AbstractChoices):
    """Left or right, by noisy evidence that becomes weaker after correct choices and stronger after errors.

    The transformed up-down method of Levitt 1971, J Acoust Soc Am 49:467: after `n_correct` correct choices
    in a row the evidence is weaker, after an error stronger, so that it stays about the level at which a
    choice is correct with probability 0.5^(1 / n_correct), .707 for two and .794 for three. The environment
    is a `Staircase`.

    - Inputs and targets: none. The environment shows "evidence" (1), "last action" (2), one-hot, and "last
        reward". Actions: left, right.
    - Conditions: "first coherence".

    `popsim.tasks.StaircaseObserver` reports the sign of the evidence, and is paid .769 of a choice with these
    numbers; a player that errs on purpose where it pays .782; chance is .5.
    """

    loss: Loss = fields.default_loss(default_factory=lambda: bandits.reward_loss(discount=0.0))
    n_choices: int = fields.count("choices in a trial", default=50)
    coherences: Float[Number, " level"] = fields.positive(
        "the levels of the evidence, from the weakest to the strongest",
        default=tuple(0.02 * 2**k for k in range(6)),
    )
    noise_std: Scalar = fields.positive("the standard deviation of the evidence of a choice", default=0.1)
    n_correct: int = fields.count("correct choices in a row after which the evidence is weaker", default=2)

    def __check_init__(self):
        levels = np.asarray(self.coherences)
        if levels.ndim != 1 or levels.size < 2 or np.any(np.diff(levels) <= 0):
            raise ValueError(
                f"`coherences` must be two or more, from the weakest to the strongest, got {levels.tolist()}."
            )

    def draw(self, *, key: Key[Array, ""]) -> tuple[Staircase, dict[str, Array]]:
        strongest = self.coherences.shape[-1] - 1
        environment = Staircase(self.coherences, self.noise_std, jnp.array(strongest), self.n_correct)
        return environment, {"first coherence": self.coherences[strongest]}


class StaircaseObserver(AbstractPlayer):
    """Reports the sign of the evidence of a `StaircaseDecision`."""

    reads = ("evidence", "last action", "last reward")

    def choose(self, received: Received, state: Any, *, key: Key[Array, ""]) -> tuple[Int[Array, ""], Any]:
        return sign_or_coin(received["evidence"][0], key=key), state


class ChangingTargets(bandits.AbstractContinuedEnvironment):
    """Noisy evidence of a direction before each choice, and two targets for each direction, one in use.

    Action 2 k + d is the target of the direction d (0 left, 1 right) in context k. It pays 1 if both are
    right, else 0: after 0 one does not know which was wrong. After each choice the context may change.

    It shows "evidence" (1) of the direction of the choice to come, "last action" (4, one-hot) and "last
    reward". It records "context", "direction" and "coherence" of the choice. In a session the context, and
    what is shown, continue from one trial to the next.
    """

    coherence: AbstractDistribution  # its sign is the direction
    noise_std: Float[Array, "*axes"]  # of the evidence
    second_context: Any  # whether it is in use at first
    hazard_rate: Float[Array, "*axes"]  # the probability of a change after a choice

    @property
    def actions(self) -> Discrete:
        return Discrete(4)

    def init(self, *, key: Key[Array, ""]) -> tuple[dict[str, Any], Observation]:
        context = jnp.asarray(self.second_context).astype(int)
        return self._next_choice(context, bandits.last_choice(4), key=key)

    def step(self, state: Any, action: Int[Array, ""], *, key: Key[Array, ""]) -> tuple[Any, Outcome]:
        context, direction = state["context"], state["direction"]
        reward = (action == 2 * context + direction).astype(self.noise_std.dtype)
        changes = jax.random.bernoulli(key_stream(key, "change"), self.hazard_rate)
        seen = bandits.last_choice(4, action, reward)
        after, shown = self._next_choice(jnp.where(changes, 1 - context, context), seen, key=key)
        record = {name: state[name] for name in ("context", "direction", "coherence")}
        return after, Outcome(shown, reward, jnp.array(False), record)

    def _next_choice(
        self, context: Int[Array, ""], seen: Observation, *, key: Key[Array, ""]
    ) -> tuple[dict[str, Any], Observation]:
        """Draw the evidence of the next choice, and return the state and what is shown."""
        coherence = self.coherence.sample(key=key_stream(key, "coherence"))
        noise = jax.random.normal(key_stream(key, "noise"), (), coherence.dtype)
        shown = {"evidence": (coherence + self.noise_std * noise)[None], **seen}
        direction = sign_or_coin(coherence, key=key_stream(key, "coin"))
        state = {"context": context, "direction": direction, "coherence": coherence, "shown": shown}
        return state, shown


def _coherences() -> Choice:
    """Return the coherences of NeuroGym's task in both directions, zero as often as each size."""
    sizes = jnp.array([0.0, 0.064, 0.128, 0.256, 0.512])
    return Choice(jnp.concatenate([-sizes[::-1], sizes]))


class ChangingEnvironment(bandits.AbstractChoices):
    """Left or right, in which of two contexts: the direction is seen with noise, the context is not shown.

    The task of Purcell & Kiani 2016, PNAS 113:E4531, with the coherences of NeuroGym's `ChangingEnvironment`
    (compared with the abstract and a figure). There a context lasts from 2 to 15 trials; here it may change
    after any choice. Each context has a target for each direction, and only the right target of the context
    in use is paid. The environment is a `ChangingTargets`.

    - Inputs and targets: none. The environment shows "evidence" (1) of the direction, "last action" (4),
        one-hot, and "last reward". Actions: left and right in the first context, left and right in the
        second.
    - Conditions: "hazard rate"; "first context", 0 or 1.

    With these numbers `popsim.tasks.ChangingEnvironmentObserver` is the best player, and is paid .692 of a
    choice; chance is .25.
    """

    loss: Loss = fields.default_loss(default_factory=lambda: bandits.reward_loss(discount=0.5))
    coherence: Drawn = fields.coherence(
        "; a negative one is left, and zero is a random direction", default=_coherences
    )
    noise_std: Scalar = fields.positive("the standard deviation of the evidence of a choice", default=0.1)
    hazard_rate: Drawn = fields.drawn(
        "the probability that the context changes after a choice", default=0.1, check=FRACTION
    )

    def draw(self, *, key: Key[Array, ""]) -> tuple[ChangingTargets, dict[str, Array]]:
        hazard_rate = self.hazard_rate.sample(key=key_stream(key, "hazard rate"))
        second = jax.random.bernoulli(key_stream(key, "context"))
        environment = ChangingTargets(self.coherence, self.noise_std, second, hazard_rate)
        return environment, {"hazard rate": hazard_rate, "first context": second.astype(int)}


class ChangingEnvironmentObserver(AbstractPlayer):
    """Knows the numbers of a `ChangingEnvironment`, and takes the target that is most probably paid.

    Its state is the probability P that the second context is in use. With q the probability that its
    direction was right, given the evidence, a reward says that the chosen context is in use; without one,
    the odds of the chosen context are multiplied by 1 - q: the clearer the direction was, the more an error
    speaks for a change, as in Purcell & Kiani 2016, PNAS 113:E4531. Then the context may change, with
    probability h: P becomes (1 - h) P + h (1 - P). Coherences are a `Choice`, the hazard rate is a number.
    """

    task: ChangingEnvironment
    reads = ("evidence", "last action", "last reward")

    def __check_init__(self):
        values_of_choice(self.task, "coherence")
        _hazard_of(self.task)

    def init(self) -> tuple[Float[Array, ""], Float[Array, ""]]:
        return jnp.array(0.5), jnp.array(0.5)

    def choose(self, received: Received, state: Any, *, key: Key[Array, ""]) -> tuple[Int[Array, ""], Any]:
        second, sureness = state
        action, reward = received["last action"], received["last reward"][0]
        in_second, in_first = action[2] + action[3], action[0] + action[1]
        kept = jnp.where(reward > 0, sureness, 1 - sureness)  # likelihood of the reward in that context
        other = jnp.where(reward > 0, 0.0, 1.0)
        likelihoods = in_second * jnp.stack([other, kept]) + in_first * jnp.stack([kept, other])
        joint = likelihoods * jnp.stack([1 - second, second])
        after = joint[1] / jnp.maximum(jnp.sum(joint), 1e-12)
        hazard = _hazard_of(self.task)
        changed = (1 - hazard) * after + hazard * (1 - after)
        second = jnp.where(in_first + in_second > 0, changed, second)
        values = values_of_choice(self.task, "coherence")
        right = probability_of_right(received["evidence"][0], jnp.ones(()), values, self.task.noise_std)
        context = sign_or_coin(second - 0.5, key=key_stream(key, "context"))
        direction = sign_or_coin(right - 0.5, key=key_stream(key, "direction"))
        return 2 * context + direction, (second, jnp.maximum(right, 1 - right))


def _hazard_of(task: ChangingEnvironment) -> Float[Array, ""]:
    low, high = task.hazard_rate.bounds()
    if not is_traced(low) and float(low) != float(high):
        raise ValueError(f"`hazard_rate` of `task` must be one number, got from {low} to {high}.")
    return low
