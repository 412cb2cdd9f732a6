"""Trials as episodes: steps, observations and rewards."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PRNGKeyArray, PyTree

from popsim._checks import short_repr
from popsim._compiled import jit
from popsim.gymnasium.agent import AgentModel, replay_actions, with_action
from popsim.loss import AbstractLossTerm, Loss
from popsim.model import initial_state
from popsim.models.sensorimotor_loop import SensorimotorLoop
from popsim.network_input import inputs_by_name, network_input
from popsim.per_member import check_of_one_member
from popsim.randomness import as_key, key_stream, seed_key
from popsim.schedules import LAST_BATCH
from popsim.trial import StepInput, Trial, TrialAtStep, n_trials

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

    def reward(
        self,
        step: Int[Array, ""],
        states: PyTree[Array],
        trial: Trial,
        model: AgentModel,
        paid: Float[Array, ""],
    ) -> Float[Array, ""]:
        """Return the reward of a step; at the last one, minus the loss not yet paid.

        **Arguments:**

        - `step`: the index of the step.
        - `states`: the recorded states up to this step, and anything after it, with a leading time axis.
        - `trial`, `model`: as for a loss term.
        - `paid`: the sum of the rewards so far.
        """
        state = jax.tree.map(lambda leaf: leaf[step], states)
        cost = sum(self.costs(state, TrialAtStep(trial, step), model).values(), jnp.zeros_like(paid))
        last_reward = -self.loss(states, trial, model).total - paid
        return jnp.where(step == trial.timeline.n_steps - 1, last_reward, -cost)


def check_loss(
    loss: Loss, model: AgentModel, trials: Trial, limits: tuple[float, float], *, key: PRNGKeyArray
) -> tuple[str, ...]:
    """Raise `ValueError` unless each term of a loss is defined for an agent with random actions, finite, and
    the sum of its step costs.

    **Arguments:**

    - `loss`: the loss.
    - `model`: a model with an `Agent`, with or without a plant.
    - `trials`: stacked trials.
    - `limits`: bounds of the uniform random actions.
    - `key`: the key of the random actions.

    **Returns:** the names of the terms that are paid step by step.
    """
    check_of_one_member("loss", loss)
    names = []
    for term in loss.terms:
        try:
            values, costs = _term_of_random_actions(term, model, trials, limits, as_key(key))
        except AttributeError as error:
            raise ValueError(
                f"`loss` must be about what an agent does: its term {term.name!r} asks for something "
                f"that an agent from outside has not ({error})."
            ) from error
        if not bool(jnp.all(jnp.isfinite(values))):
            raise ValueError(f"`loss` must be finite, got {values} of its term {term.name!r}.")
        if costs is None:
            continue
        names.append(term.name)
        tolerance = TOLERANCE * (jnp.abs(values) + jnp.sum(jnp.abs(costs), axis=1))
        if not bool(jnp.all(jnp.abs(jnp.sum(costs, axis=1) - values) <= tolerance)):
            raise ValueError(
                f"`step_cost` of the term {term.name!r} must add up to its values {short_repr(values)}, "
                f"got {short_repr(jnp.sum(costs, axis=1))}."
            )
    return tuple(names)


@jit
def _term_of_random_actions(
    term: AbstractLossTerm, model: AgentModel, trials: Trial, limits: tuple[float, float], key: Key[Array, ""]
) -> tuple[Float[Array, " trial"], Float[Array, "trial time"] | None]:
    """Return a loss term of each trial, and its cost at each time step."""
    low, high = limits

    def of_trial(trial, key):
        n_steps = trial.timeline.n_steps
        shape = (n_steps, model.network.n_outputs)
        actions = jax.random.uniform(key_stream(key, "actions"), shape, minval=low, maxval=high)
        states = replay_actions(model, trial, actions, key=key)

        def at_step(state, step):
            return term.step_cost(state, TrialAtStep(trial, step), model)

        return term(states, trial, model), jax.vmap(at_step)(states, jnp.arange(n_steps))

    return jax.vmap(of_trial)(trials, jax.random.split(key, n_trials(trials)))


class Episode(eqx.Module):
    """A trial in progress.

    - `trial`, `key`: the trial, and the key of its noise. With the same actions, `simulate` gives the same.
    - `step`: the number of completed steps.
    - `state`: the state of the model.
    - `states`: the recorded states so far; later time steps contain the initial one.
    - `paid`: the sum of the rewards so far.
    """

    trial: Trial
    key: Key[Array, ""]
    step: Int[Array, ""]
    state: PyTree[Array]
    states: PyTree[Array]
    paid: Float[Array, ""]


@jit
def begin_episode(
    model: AgentModel, trial: Trial, *, key: PRNGKeyArray
) -> tuple[Episode, Float[Array, " observation"]]:
    """Start a trial and return the episode and the first observation.

    **Arguments:**

    - `model`: a model with an `Agent`, with or without a plant.
    - `trial`: one trial.
    - `key`: the key of its noise.
    """
    key = as_key(key)
    state = initial_state(model, trial, key=key)
    n_steps = trial.timeline.n_steps
    states = jax.tree.map(lambda leaf: jnp.tile(leaf, (n_steps, *[1] * leaf.ndim)), model.record(state))
    episode = Episode(trial, key, jnp.zeros((), int), state, states, jnp.zeros(()))
    return episode, observation(model, episode)


@jit
def advance_episode(
    model: AgentModel, rewards: StepRewards, episode: Episode, action: Float[Array, " output"]
) -> tuple[Episode, Float[Array, " observation"], Float[Array, ""]]:
    """Run one time step and return the new episode, the next observation and the reward.

    **Arguments:**

    - `model`: as for `begin_episode`.
    - `rewards`: the rewards.
    - `episode`: the episode, with at least one step left.
    - `action`: commands of the plant, or outputs.
    """
    state = _step_model(with_action(model, action), episode)
    states = jax.tree.map(
        lambda all_, now: all_.at[episode.step].set(now), episode.states, model.record(state)
    )
    # The model without the action, so that loss terms on weights do not depend on what the agent does.
    reward = rewards.reward(episode.step, states, episode.trial, model, episode.paid)
    episode = dataclasses.replace(
        episode, step=episode.step + 1, state=state, states=states, paid=episode.paid + reward
    )
    return episode, observation(model, episode), reward


def observation(model: AgentModel, episode: Episode) -> Float[Array, " observation"]:
    """Return the input that the replaced network would receive at the next time step.

    These are the inputs of the trial, then the feedback, delayed and with noise; each is sorted by name and
    scaled. After the last time step, the inputs remain those of the last one.
    """
    if not isinstance(model, SensorimotorLoop):
        return network_input(_step_input(episode).inputs, {}, {})
    # The feedback of a step does not depend on its action, and XLA removes the rest of the step.
    return network_input(_step_input(episode).inputs, _step_model(model, episode).feedback, model.scaling)


def _step_model(model: AgentModel, episode: Episode) -> PyTree[Array]:
    key = jax.random.fold_in(key_stream(episode.key, "steps"), episode.step)
    return model.step(_step_input(episode), episode.state, key=key)


def _step_input(episode: Episode) -> StepInput:
    trial = episode.trial
    step = jnp.minimum(episode.step, trial.timeline.n_steps - 1)
    active = {name: schedule.active[step] for name, schedule in trial.interventions.items()}
    return trial.at_step(jax.tree.map(lambda leaf: leaf[step], trial.inputs), active)


def observation_layout(model: AgentModel, trial: Trial) -> dict[str, slice]:
    """Return the slice of each trial input and each channel in an observation, by name.

    **Arguments:**

    - `model`: as for `begin_episode`.
    - `trial`: one trial.
    """
    inputs = inputs_by_name(jax.tree.map(lambda leaf: leaf[0], trial.inputs))
    sizes = {name: sum(leaf.size for leaf in jax.tree.leaves(inputs[name])) for name in sorted(inputs)}
    if isinstance(model, SensorimotorLoop):
        start = jax.eval_shape(lambda: model.init(trial, key=seed_key(0)))
        sizes |= {name: start.feedback[name].size for name in sorted(start.feedback)}
    ends = list(jnp.cumsum(jnp.array(list(sizes.values()))).tolist())
    return {name: slice(end - size, end) for (name, size), end in zip(sizes.items(), ends, strict=True)}
