"""Losses on actions and rewards: reinforcement learning by policy gradients."""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from popsim._shared.checks import as_float_array, check_fraction, check_instance, is_traced, kind_of
from popsim.distributions import weigh
from popsim.environment import Discrete
from popsim.interaction import Interaction
from popsim.loss import AbstractLossTerm
from popsim.losses.output import (
    check_one_hot,
    check_output_target,
    counts_of_choices,
    counts_of_steps,
    known_target,
)
from popsim.losses.profiles import Scalar, TimeCourse
from popsim.model import AbstractModel
from popsim.policies import AbstractPolicy
from popsim.trial import Trial, n_trials

__all__ = ["ChoiceLikelihood", "Entropy", "PolicyGradient", "ValueRegression", "returns"]


def returns(
    rewards: TimeCourse,
    discount: Scalar | float,
    values: TimeCourse | None = None,
    *,
    trace: Scalar | float = 1.0,
) -> TimeCourse:
    """Return the λ-returns G_t = r_t + γ ((1 - λ) V_{t+1} + λ G_{t+1}); after the last step V and G are zero.

    Sutton & Barto 2018, Reinforcement Learning, 2nd edition, section 12.1. G_t - V_t is the generalised
    advantage estimate of Schulman et al. 2016, ICLR, arXiv:1506.02438, equation 16.

    **Arguments:**

    - `rewards`: r.
    - `discount`: γ.
    - `values`: V, the estimates of a critic; None for zero, which needs λ = 1.
    - `trace`: λ; 1 for the discounted sum of the rewards to come.
    """
    next_values = jnp.zeros_like(rewards) if values is None else jnp.append(values[1:], 0.0)

    def accumulate(next_return, at_step):
        reward, value = at_step
        total = reward + discount * ((1 - trace) * value + trace * next_return)
        return total, total

    _, totals = jax.lax.scan(accumulate, jnp.zeros((), rewards.dtype), (rewards, next_values), reverse=True)
    return totals


def _interaction(term: str, states: Any) -> Interaction:
    interaction = getattr(states, "interaction", None)
    if not isinstance(interaction, Interaction):
        raise ValueError(
            f"`trial` must have an environment for the term {term!r}, got states without an interaction: "
            f"{kind_of(states)}."
        )
    return interaction


def _values_in_session(interaction: Interaction, discount: Scalar) -> TimeCourse | None:
    """Return the estimates of the critic, those after the end of a trial from the beginning of the next.

    At a step after the end of a trial, k steps before the next trial begins, V is γ^k times that of the first
    step of the next: no loss counts such steps, so that the critic learns nothing for them.
    """
    if interaction.value is None:
        return None

    def fill(next_value, at_step):
        is_active, value = at_step
        value = jnp.where(is_active, value, discount * next_value)
        return value, value

    at_steps = (interaction.active, interaction.value)
    _, values = jax.lax.scan(fill, jnp.zeros_like(interaction.value[0]), at_steps, reverse=True)
    return values


class AbstractReturnTerm(AbstractLossTerm):
    """Base class of terms that depend on the λ-return, with its discount γ and its trace λ.

    In a session that carries hidden state or environment, returns run through its trials, unless
    `cut_credit`: what a later trial pays is credited to the actions of this one. It is discounted at each
    time step between them, those after the end of a trial included. The value is still that of each trial.
    """

    discount: Float[Array, ""] = eqx.field(converter=as_float_array, default=0.95, kw_only=True)
    gae_lambda: Float[Array, ""] = eqx.field(converter=as_float_array, default=1.0, kw_only=True)
    cut_credit: bool = eqx.field(static=True, default=False, kw_only=True)

    def __check_init__(self):
        check_fraction("discount", self.discount)
        check_fraction("gae_lambda", self.gae_lambda)
        check_instance("cut_credit", self.cut_credit, bool, "True or False")

    @abc.abstractmethod
    def cost(self, interaction: Interaction, values: TimeCourse | None) -> Scalar:
        """Return the sum over the steps of a trial or session; V is None without a critic."""

    def __call__(self, states: Any, trial: Trial, model: AbstractModel) -> Scalar:
        interaction = _interaction(self.name, states)
        value = interaction.value  # zero after the end of the trial
        return self.cost(interaction, None if value is None else jnp.where(interaction.active, value, 0.0))

    def over_session(self, states: Any, session: Trial, model: AbstractModel) -> Float[Array, "*trials"]:
        joined = session.session
        assert joined is not None
        if self.cut_credit or not joined.carry:
            return super().over_session(states, session, model)
        interaction = _interaction(self.name, states)
        values = _values_in_session(interaction, self.discount)
        return self.cost(interaction, values) / n_trials(joined.trials)


class PolicyGradient(AbstractReturnTerm):
    """Minus the sum of the rewards, with the gradient of the policy: the loss of reinforcement learning.

    The gradient is that of -Σ_t A_t log π(a_t), where π(a_t) is the probability of the action. The advantage
    A_t is the λ-return of `popsim.losses.returns` minus the estimate of the critic, and has no gradient.
    Without a critic it is the return itself (REINFORCE; Williams 1992, Mach Learn 8:229-256), and the trace
    must be 1. With a critic it is the generalised advantage estimate (Schulman et al. 2016, ICLR,
    arXiv:1506.02438).

    Where rewards also depend on weights through a differentiable environment or body, that part of the
    gradient is left out. Without a policy, or with `Deterministic`, no action has a probability, and this
    term has no gradient: use it with `EvolutionStrategies`, or a cost that has one.

    **Arguments:**

    - `discount`: γ, from 0 to 1: how much a reward counts one step earlier.
    - `gae_lambda`: λ, from 0 (least variance, biased by the critic) to 1 (unbiased).
    - `cut_credit`: whether a reward counts only for actions of its own trial. By default it counts for those
        of earlier trials, too, in a session through which the hidden state or the environment continues;
        `cut_gradient` of the session cuts derivatives, not this.
    """

    name: str = eqx.field(static=True, default="minus reward", kw_only=True)

    def cost(self, interaction: Interaction, values: TimeCourse | None) -> Scalar:
        rewards, values = jax.lax.stop_gradient((interaction.reward, values))
        if values is None and not is_traced(self.gae_lambda) and float(self.gae_lambda) != 1:
            raise ValueError(
                "`gae_lambda` must be 1 for a policy without a critic, as with critic=False, got "
                f"{float(self.gae_lambda):g}."
            )
        advantage = returns(rewards, self.discount, values, trace=self.gae_lambda)
        advantage = advantage if values is None else advantage - values
        log_probability = jnp.where(interaction.active, interaction.log_probability, 0.0)
        surrogate = -jnp.sum(jax.lax.stop_gradient(advantage) * log_probability)
        # The value is minus the reward, which curves and selections should show; the gradient is the
        # surrogate's.
        return surrogate - jax.lax.stop_gradient(surrogate) - jnp.sum(rewards)


class ValueRegression(AbstractReturnTerm):
    """Σ_t (V_t - G_t)² / 2 over the time steps until the trial ends, for the estimates V of the critic.

    G is the λ-return of `popsim.losses.returns`, and has no gradient.

    **Arguments:**

    - `discount`, `gae_lambda`, `cut_credit`: as for `PolicyGradient`; use the same.
    """

    name: str = eqx.field(static=True, default="value regression", kw_only=True)

    def cost(self, interaction: Interaction, values: TimeCourse | None) -> Scalar:
        if values is None:
            raise ValueError(
                f"`policy` of the model must have a critic for the term {self.name!r}, as with critic=True; "
                "where a policy only plays, give the task a loss without it, `loss=1.0 * PolicyGradient()`."
            )
        targets = returns(interaction.reward, self.discount, values, trace=self.gae_lambda)
        errors = jnp.where(interaction.active, values - jax.lax.stop_gradient(targets), 0.0)
        return 0.5 * jnp.sum(errors**2)


class Entropy(AbstractLossTerm):
    """Minus the sum of the entropies of the actions, in nats, until the trial ends.

    A positive weight keeps a policy from deciding too early; let it fall by a `LinearSchedule`.
    """

    name: str = eqx.field(static=True, default="minus entropy", kw_only=True)

    def __call__(self, states: Any, trial: Trial, model: AbstractModel) -> Scalar:
        interaction = _interaction(self.name, states)
        return -jnp.sum(jnp.where(interaction.active, interaction.entropy, 0.0))


class ChoiceLikelihood(AbstractLossTerm):
    """-Σ_t c_t log π(a*_t) / Σ_t c_t, in nats: how improbable a policy finds given actions a*.

    It fits a policy to recorded choices, if the environment shows the recorded history whatever the action: a
    network otherwise sees the consequences of its own actions. c are the counts of the `OutputTarget` of the
    trial, and its values are one-hot choices, or vectors of numbers for a policy with continuous actions.
    Steps after the end of the trial do not count.
    """

    name: str = eqx.field(static=True, default="choice likelihood", kw_only=True)

    def check(self, trials: Trial, model: AbstractModel | None) -> None:
        target, policy = known_target(trials.targets), getattr(model, "policy", None)
        if target is not None and isinstance(policy, AbstractPolicy) and isinstance(policy.actions, Discrete):
            check_one_hot("targets", *target)

    def trial_weights(self, trials: Trial) -> Float[Array, " trial"]:
        return jax.vmap(lambda trial: jnp.sum(trial.targets.counts))(trials)

    def __call__(self, states: Any, trial: Trial, model: AbstractModel) -> Scalar:
        policy = getattr(model, "policy", None)
        if not isinstance(policy, AbstractPolicy):
            raise ValueError(f"`model` must have a policy for the term {self.name!r}, got {kind_of(policy)}.")
        interaction, targets = _interaction(self.name, states), check_output_target(trial.targets)
        if targets.values.shape[-1] != policy.actions.n:
            raise ValueError(
                f"`targets.values` of a trial must be of the {policy.actions.n} numbers of the actions, "
                f"got shape {targets.values.shape}."
            )
        is_choice = isinstance(policy.actions, Discrete)
        actions = jnp.argmax(targets.values, axis=-1) if is_choice else targets.values
        log_probability = jax.vmap(policy.log_probability)(states.network.output, actions)
        counts = counts_of_choices(targets) if is_choice else counts_of_steps(targets)
        counts = jnp.where(interaction.active, counts, 0.0)
        total = jnp.sum(counts)
        return -jnp.sum(weigh(counts, log_probability)) / jnp.where(total == 0, 1.0, total)
