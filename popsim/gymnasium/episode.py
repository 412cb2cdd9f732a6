"""Trials as episodes: steps, observations and rewards."""

import dataclasses
import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray, PyTree

from popsim._compiled import jit
from popsim._shared.other_draws import drawing_from_key
from popsim.gymnasium.agent import AgentModel, with_action
from popsim.interaction import observation_to_come
from popsim.loss import Loss
from popsim.model import initial_state
from popsim.models.sensorimotor_loop import SensorimotorLoop
from popsim.network_input import inputs_by_name, network_input
from popsim.randomness import as_key, key_stream, seed_key
from popsim.schedules import LAST_BATCH
from popsim.senses import network_input_names
from popsim.trial import StepInput, Trial, TrialAtStep

__all__ = ["StepRewards", "Episode", "begin_episode", "advance_episode"]

TOLERANCE = 1e-4


class StepRewards(eqx.Module):
    """Rewards whose sum over a trial is minus its loss.

    A loss term that is a sum over time steps is paid step by step, by its `AbstractLossTerm.step_cost`. All
    other terms (such as a choice from the mean output, a jerk, or a `popsim.FunctionTerm`) are paid at the
    last step.

    **Arguments:**

    - `loss`: the loss; scheduled weights have their final value.
    """

    loss: Loss

    def costs(
        self, state: PyTree[Array], trial_at_step: TrialAtStep, model: AgentModel
    ) -> dict[str, Float[Array, ""]]:
        """Return the weighted cost of a step by each term that is paid step by step, by name.

        Arguments are those of `AbstractLossTerm.step_cost`.
        """
        weights: dict = self.loss.at_batch(LAST_BATCH).weights
        costs = {term.name: term.step_cost(state, trial_at_step, model) for term in self.loss.terms}
        return {name: weights[name] * cost for name, cost in costs.items() if cost is not None}

    def final_costs(
        self, states: PyTree[Array], trial: Trial, model: AgentModel
    ) -> dict[str, Float[Array, ""]]:
        """Return the weighted values of the terms that are paid at the last step, by name.

        Arguments are those of a loss term.
        """
        last = jnp.asarray(trial.timeline.n_steps - 1)
        paid = self.costs(jax.tree.map(lambda leaf: leaf[-1], states), TrialAtStep(trial, last), model)
        terms: dict = self.loss(states, trial, model).terms
        return {name: value for name, value in terms.items() if name not in paid}


class Episode(eqx.Module):
    """A trial in progress.

    - `trial`, `key`: the trial, and the key of its noise. With the same actions, `simulate` gives the same.
    - `step`: the number of completed steps.
    - `state`: the state of the model.
    - `states`: the recorded states so far; later time steps contain the initial one. None where they are not
        kept.
    - `costs`: by name, what each loss term has cost so far: minus the sum of the rewards.
    - `is_over`: whether the trial has ended, by its length or by its environment.
    """

    trial: Trial
    key: Key[Array, "*copy"]
    step: Int[Array, "*copy"]
    state: PyTree[Array]
    states: PyTree[Array]
    costs: dict[str, Float[Array, "*copy"]]
    is_over: Bool[Array, "*copy"]


@jit
def begin_episode(
    model: AgentModel,
    rewards: StepRewards | None,
    trial: Trial,
    *,
    keeps_states: bool = True,
    key: PRNGKeyArray,
) -> tuple[Episode, Float[Array, " observation"]]:
    """Start a trial and return the episode and the first observation.

    **Arguments:**

    - `model`: a model with an `Agent`, with or without a plant.
    - `rewards`: the rewards; None for those of the environment of the trial.
    - `trial`: one trial.
    - `keeps_states`: whether the states of all steps are kept, which terms paid at the last step need.
    - `key`: the key of its noise.
    """
    key = as_key(key)
    state, states = initial_state(model, trial, key=key), None
    if keeps_states:
        n_steps = trial.timeline.n_steps
        states = jax.tree.map(lambda leaf: jnp.tile(leaf, (n_steps, *[1] * leaf.ndim)), model.record(state))
    step, false = jnp.zeros((), int), jnp.zeros((), bool)
    terms = () if rewards is None else rewards.loss.terms
    costs = {term.name: jnp.zeros(()) for term in terms}
    episode = Episode(trial, key, step, state, states, costs, false)
    return episode, observation(model, episode)


@jit
def advance_episode(
    model: AgentModel, rewards: StepRewards | None, episode: Episode, action: Float[Array, " output"]
) -> tuple[Episode, Float[Array, " observation"], Float[Array, ""]]:
    """Run one time step and return the new episode, the next observation and the reward.

    **Arguments:**

    - `model`, `rewards`: as for `begin_episode`.
    - `episode`: the episode, which is not over.
    - `action`: commands of the plant, outputs, or the number of a choice.
    """
    episode, reward = step_episode(model, rewards, episode, action)
    if rewards is not None:
        # The loss of the whole trial is computed at the last step only.
        rest = jax.lax.cond(
            episode.is_over,
            lambda: rewards.final_costs(episode.states, episode.trial, model),
            lambda: no_final_costs(model, rewards, episode),
        )
        reward = reward - sum(rest.values(), jnp.zeros(()))
        episode = dataclasses.replace(episode, costs=episode.costs | rest)
    return episode, observation(model, episode), reward


def step_episode(
    model: AgentModel, rewards: StepRewards | None, episode: Episode, action: Float[Array, " output"]
) -> tuple[Episode, Float[Array, ""]]:
    """Return the episode after a time step, and its reward without the terms that are paid at the end."""
    trial, step, costs, states = episode.trial, episode.step, episode.costs, episode.states
    state = run_step(with_action(model, action), episode)
    recorded = model.record(state)
    if states is not None:
        states = jax.tree.map(lambda all_, now: all_.at[step].set(now), states, recorded)
    reward = jnp.zeros(()) if state.interaction is None else state.interaction.reward
    if rewards is not None:
        # The model without the action, so that loss terms on weights do not depend on what the agent does.
        added = rewards.costs(recorded, TrialAtStep(trial, step), model)
        costs = costs | {name: costs[name] + cost for name, cost in added.items()}
        reward = -sum(added.values(), jnp.zeros(()))
    step = step + 1
    is_over = step == trial.timeline.n_steps
    if state.interaction is not None:
        is_over = is_over | state.interaction.upcoming.is_over
    return Episode(trial, episode.key, step, state, states, costs, is_over), reward


def no_final_costs(model: AgentModel, rewards: StepRewards, episode: Episode) -> dict[str, Float[Array, ""]]:
    """Return zeros in place of `StepRewards.final_costs`."""
    costs = jax.eval_shape(rewards.final_costs, episode.states, episode.trial, model)
    return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), costs)


def observation(model: AgentModel, episode: Episode) -> Float[Array, " observation"]:
    """Return the input that the replaced network would receive at the next time step.

    These are the inputs of the trial with what its environment shows, and then the feedback, delayed and with
    noise; both are sorted by name and scaled. After the last time step, the inputs remain those of the last
    one.
    """
    inputs = inputs_by_name(_step_input(episode).inputs)
    shown = observation_to_come(episode.state.interaction)
    if not isinstance(model, SensorimotorLoop):
        return network_input({**inputs, **shown}, {}, {})
    direct = {name: values for name, values in shown.items() if name not in model.channels}
    # The feedback of a step does not depend on its action, and XLA removes the rest of the step.
    feedback = run_step(model, episode).feedback
    return network_input({**inputs, **direct}, feedback, model.scaling)


def run_step(model: AgentModel, episode: Episode) -> PyTree[Array]:
    """Return the state of a model after one more time step, with the key that the step has in `simulate`."""
    key = jax.random.fold_in(key_stream(episode.key, "steps"), episode.step)
    with drawing_from_key("`step` of `model`", model, episode.trial.environment):
        return model.step(_step_input(episode), episode.state, key=key)


def _step_input(episode: Episode) -> StepInput:
    trial = episode.trial
    step = jnp.minimum(episode.step, trial.timeline.n_steps - 1)
    active = {name: schedule.active[step] for name, schedule in trial.interventions.items()}
    return trial.at_step(jax.tree.map(lambda leaf: leaf[step], trial.inputs), active)


def stepwise_terms(
    rewards: StepRewards, model: AgentModel, trials: Trial, actions: Float[Array, "trial time output"]
) -> tuple[str, ...]:
    """Return the names of the loss terms that are paid step by step.

    Raise `ValueError` unless each term is finite in these trials with these actions, and the sum of its step
    costs, if it has any.
    """
    terms, costs = _costs_of_trials(rewards, model, trials, actions)
    for name, values in terms.items():
        each = np.asarray(costs.get(name, values[:, None]))  # [trial, time]
        for value, paid in zip(np.asarray(values), each, strict=True):
            if not np.isfinite(value):
                raise ValueError(f"`loss` must be finite, got {value} of its term {name!r}.")
            if abs(paid.sum() - value) > TOLERANCE * np.abs(paid).sum():
                raise ValueError(
                    f"`step_cost` of the term {name!r} must add up to its value {value}, got {paid.sum()}."
                )
    return tuple(term.name for term in rewards.loss.terms if term.name in costs)


@jit
def _costs_of_trials(
    rewards: StepRewards, model: AgentModel, trials: Trial, actions: Float[Array, "trial time output"]
) -> tuple[dict[str, Float[Array, " trial"]], dict[str, Float[Array, "trial time"]]]:
    """Return each loss term of trials with given actions, and its costs of the steps."""

    def of_trial(trial: Trial, of_steps: Float[Array, "time output"]):
        def advance(episode: Episode, action: Float[Array, " output"]):
            return step_episode(model, None, episode, action)

        def of_step(state: PyTree[Array], step: Int[Array, ""]) -> dict[str, Float[Array, ""]]:
            return rewards.costs(state, TrialAtStep(trial, step), model)

        states = jax.lax.scan(advance, begin_episode(model, None, trial, key=seed_key(1))[0], of_steps)[
            0
        ].states
        terms: dict = rewards.loss(states, trial, model).terms
        return terms, jax.vmap(of_step)(states, jnp.arange(trial.timeline.n_steps))

    return jax.vmap(of_trial)(trials, actions)


def observation_layout(model: AgentModel, trial: Trial) -> dict[str, slice]:
    """Return the slice of each part of an observation by name, in the order of `network_input_names`."""
    stacked = jax.tree.map(lambda leaf: leaf[None], trial)
    body = model if isinstance(model, SensorimotorLoop) else None
    sizes = network_input_names(stacked, body and body.plant, body and body.channels)
    ends = itertools.accumulate(sizes.values())
    return {name: slice(end - size, end) for (name, size), end in zip(sizes.items(), ends, strict=True)}
