"""A changing environment: perceptual decisions whose answers change without notice, and its best player."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from popsim._checks import as_float_array, check_fraction, check_positive, is_traced
from popsim._plain_values import plain_number
from popsim.distributions import AbstractDistribution, Choice, as_distribution
from popsim.environment import AbstractEnvironment, Discrete, Observation, Outcome
from popsim.loss import Loss
from popsim.randomness import key_stream
from popsim.tasks._known_tasks import check_known_task, values_of_choice
from popsim.tasks.choices.decisions import check_coherence
from popsim.tasks.rewards.choice_parts import AbstractChoices, last_choice, reward_loss
from popsim.tasks.rewards.players import AbstractPlayer, Received, choice_of
from popsim.tasks.trial_parts import check_drawn, sign_or_coin

__all__ = [
    "ChangingEnvironment",
    "ChangingEnvironmentObserver",
    "ChangingTargets",
    "reward_in_changing_environment",
]

N_BELIEFS, N_SURENESS = 1001, 100
"""The numbers of probabilities of the context, and of the direction, in the dynamic programme."""


class ChangingTargets(AbstractEnvironment):
    """Noisy evidence of a direction before each choice, and two targets for each direction, one in use.

    Action 2 k + d is the target of the direction d (0 left, 1 right) in context k. It pays 1 if both are
    right, else 0: after 0 one does not know which was wrong. After each choice the context may change.

    It shows "evidence" (1) of the direction of the choice to come, "last action" (4, one-hot) and "last
    reward". It records "context", "direction" and "coherence" of the choice. In a session the context, and
    what is shown, continue from one trial to the next.

    **Arguments:**

    - `coherence`: the distribution of the coherence, whose sign is the direction.
    - `noise_std`: the standard deviation of the evidence.
    - `second_context`: whether the second context is in use at first.
    - `hazard_rate`: the probability that the context changes, after each choice.
    """

    coherence: AbstractDistribution
    noise_std: Float[Array, "*axes"]
    second_context: Any
    hazard_rate: Float[Array, "*axes"]

    @property
    def actions(self) -> Discrete:
        return Discrete(4)

    def init(self, *, key: Key[Array, ""]) -> tuple[dict[str, Any], Observation]:
        context = jnp.asarray(self.second_context).astype(int)
        return self._next_choice(context, last_choice(4), key=key)

    def resume(self, state: dict[str, Any], *, key: Key[Array, ""]) -> tuple[dict[str, Any], Observation]:
        return state, state["shown"]

    def step(
        self, state: dict[str, Any], action: Int[Array, ""], *, key: Key[Array, ""]
    ) -> tuple[dict[str, Any], Outcome]:
        context, direction = state["context"], state["direction"]
        reward = (action == 2 * context + direction).astype(self.noise_std.dtype)
        changes = jax.random.bernoulli(key_stream(key, "change"), self.hazard_rate)
        seen = last_choice(4, action, reward)
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
        state = {
            "context": context,
            "direction": sign_or_coin(coherence, key=key_stream(key, "coin")),
            "coherence": coherence,
            "shown": shown,
        }
        return state, shown


def _coherences() -> Choice:
    """Return the coherences of NeuroGym's task in both directions, zero as often as each size."""
    sizes = jnp.array([0.0, 0.064, 0.128, 0.256, 0.512])
    return Choice(jnp.concatenate([-sizes[::-1], sizes]))


class ChangingEnvironment(AbstractChoices):
    """Left or right, in which of two contexts: the direction is seen with noise, the context is not shown.

    The task of Purcell & Kiani 2016, PNAS 113:E4531, with the coherences of NeuroGym's `ChangingEnvironment`
    (compared with the abstract and a figure). There a context lasts from 2 to 15 trials, by a truncated
    geometric distribution; here it may change after any choice, with a constant probability. Each context has
    a target for each direction, and only the right target of the context in use is paid. Whether the
    direction or the context was wrong must be inferred, from how clear the direction was. The environment is
    a `ChangingTargets`.

    - Inputs and targets: none. The environment shows "evidence" (1) of the direction, "last action" (4),
        one-hot, and "last reward". Actions: left and right in the first context, left and right in the
        second.
    - Epoch "choices". Conditions: "hazard rate"; "first context", 0 or 1.

    `popsim.tasks.ChangingEnvironmentObserver` knows all numbers and takes what is most probably paid. With
    these numbers it is the best player, whose mean reward `popsim.tasks.reward_in_changing_environment`
    computes: .692 of a choice; chance is .25.

    **Arguments:**

    - `n_choices`: the number of choices in a trial.
    - `coherence`: the distribution of the coherence, from -1 to 1; a negative one is left. At zero the
        direction is random.
    - `noise_std`: the standard deviation of the evidence of one choice, as of a stimulus of s seconds with
        noise of sigma: sigma / s^0.5.
    - `hazard_rate`: the probability that the context changes after a choice; a number or a distribution.
    - `n_validation_trials`: the number of validation trials.
    - `dt`: the time step, of one choice, in seconds.
    - `loss`: the loss to train with.
    """

    loss: Loss = eqx.field(kw_only=True, default_factory=lambda: reward_loss(discount=0.5))
    n_choices: int = eqx.field(static=True, converter=plain_number, kw_only=True, default=100)
    coherence: AbstractDistribution = eqx.field(
        kw_only=True, converter=as_distribution, default_factory=_coherences
    )
    noise_std: Float[Array, ""] = eqx.field(kw_only=True, converter=as_float_array, default=0.1)
    hazard_rate: AbstractDistribution = eqx.field(kw_only=True, converter=as_distribution, default=0.1)
    n_validation_trials: int = eqx.field(static=True, converter=plain_number, kw_only=True, default=100)
    dt: float = eqx.field(static=True, converter=plain_number, kw_only=True, default=0.1)

    def __check_init__(self):
        check_drawn("coherence", self.coherence, check_coherence)
        check_positive("noise_std", self.noise_std)
        check_drawn("hazard_rate", self.hazard_rate, check_fraction)

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
    probability h: P becomes (1 - h) P + h (1 - P).

    **Arguments:**

    - `task`: the `ChangingEnvironment`, whose coherence is a `Choice` and whose hazard rate is a number.
    """

    task: ChangingEnvironment
    reads = ("evidence", "last action", "last reward")

    def __check_init__(self):
        check_known_task(self.task, ChangingEnvironment)
        values_of_choice(self.task, "coherence")
        _hazard_of(self.task)

    def init(self) -> tuple[Float[Array, ""], Float[Array, ""]]:
        return jnp.array(0.5), jnp.array(0.5)

    def choose(
        self, received: Received, state: tuple[Array, Array], *, key: Key[Array, ""]
    ) -> tuple[Int[Array, ""], tuple[Array, Array]]:
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
        right = _right_of_evidence(received["evidence"], self.task)[0]
        context = choice_of(second - 0.5, key=key_stream(key, "context"))
        direction = choice_of(right - 0.5, key=key_stream(key, "direction"))
        return 2 * context + direction, (second, jnp.maximum(right, 1 - right))


def _right_of_evidence(evidence: Float[Array, " value"], task: ChangingEnvironment) -> Float[Array, " value"]:
    """Return the probability that the direction is right, given the evidence."""
    values = values_of_choice(task, "coherence")
    log_odds = (values * evidence[:, None] - values**2 / 2) / task.noise_std**2
    return jax.nn.softmax(log_odds, axis=-1) @ ((jnp.sign(values) + 1) / 2)


def _hazard_of(task: ChangingEnvironment) -> Float[Array, ""]:
    low, high = task.hazard_rate.bounds()
    if not is_traced(low) and float(low) != float(high):
        raise ValueError(f"`hazard_rate` of `task` must be one number, got from {low} to {high}.")
    return low


def reward_in_changing_environment(task: ChangingEnvironment) -> float:
    """Return the mean reward of a choice in a `ChangingEnvironment`, of the best player.

    By dynamic programming over the choices from the last one back, over the probability P that a context is
    in use, on a grid, and over how sure the direction is. A player may choose either context; the less
    probable one pays less now, and may tell more.

    **Arguments:**

    - `task`: the task, whose coherence is a `Choice` and whose hazard rate is a number.
    """
    check_known_task(task, ChangingEnvironment)
    hazard = float(_hazard_of(task))
    sureness, shares = _distribution_of_sureness(task)
    grid = np.linspace(0.0, 1.0, N_BELIEFS)
    value = np.zeros(N_BELIEFS)

    def following(belief: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        return np.interp((1 - hazard) * belief + hazard * (1 - belief), grid, value)

    def worth(chosen: Float[np.ndarray, " belief"]) -> Float[np.ndarray, "belief sureness"]:
        """Return the value of choosing a context of the given probabilities."""
        paid = chosen[:, None] * sureness
        unpaid = 1 - paid
        later = (chosen[:, None] - paid) / np.where(unpaid > 0, unpaid, 1.0)
        return paid * (1 + following(np.ones_like(paid))) + unpaid * following(later)

    for _ in range(task.n_choices):
        probable, improbable = worth(np.maximum(grid, 1 - grid)), worth(np.minimum(grid, 1 - grid))
        value = np.maximum(probable, improbable) @ shares
    return float(np.interp(0.5, grid, value)) / task.n_choices


def _distribution_of_sureness(
    task: ChangingEnvironment,
) -> tuple[Float[np.ndarray, " sureness"], Float[np.ndarray, " sureness"]]:
    """Return probabilities of the more probable direction, and how frequent each is."""
    values, std = np.asarray(values_of_choice(task, "coherence"), float), float(task.noise_std)
    noise = np.linspace(-6.0, 6.0, 2001)
    evidence = (values[:, None] + std * noise).ravel()
    right = np.asarray(_right_of_evidence(jnp.asarray(evidence, float), task), float)
    sureness = np.clip(np.maximum(right, 1 - right), 0.5, 1.0)
    density = np.tile(np.exp(-(noise**2) / 2), values.size)
    # One number, their mean, stands for all that are almost equal.
    place = (N_SURENESS * np.sqrt(2 * (1 - sureness))).astype(int)
    shares = np.bincount(place, density)
    means = np.bincount(place, density * sureness)[shares > 0] / shares[shares > 0]
    return means, shares[shares > 0] / density.sum()
