"""Trials as episodes: steps, observations and rewards."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray, PyTree

from popsim._compiled import jit
from popsim.gymnasium.agent import AgentModel, act_out, acting
from popsim.hand import HandState
from popsim.loss import AbstractLossTerm, Loss
from popsim.model import initial_state
from popsim.models.sensorimotor_loop import SensorimotorLoop
from popsim.network_input import inputs_by_name, network_input
from popsim.per_member import check_of_one_member
from popsim.randomness import as_key, key_stream, seed_key
from popsim.schedules import LAST_BATCH
from popsim.states import LoopState
from popsim.trial import OutputTarget, StepInput, Trial

__all__ = ["StepRewards", "Episode", "begin_episode", "advance_episode"]

TOLERANCE = 1e-4


class StepRewards(eqx.Module):
    """Rewards whose sum over a trial is minus its loss.

    A loss term that is a sum over time steps, L(s) = sum_t c_t(s_t) with recorded states s_t, is paid step by
    step: c_t(s_t) = L(r with r_t replaced by s_t) - L(r) + L(r) / T. The reference states r are at the target
    and without effort, so that L(r) is zero for errors and efforts, and c_t is the contribution of step t. If
    L(r) is not zero, it does not depend on the actions, so dividing it between the steps does not change the
    ranking of policies. All other terms (such as a choice from the mean output, or a jerk) cannot be divided
    between steps, and are paid at the last one.

    **Arguments:**

    - `loss`: the loss; scheduled weights have their final value.
    - `each_step`: the names of the terms paid step by step, from `terms_paid_each_step`.
    """

    loss: Loss
    each_step: tuple[str, ...] = eqx.field(static=True)

    def reward(
        self,
        step: Int[Array, ""],
        states: PyTree[Array],
        reference: PyTree[Array],
        trial: Trial,
        model: AgentModel,
        paid: Float[Array, ""],
    ) -> Float[Array, ""]:
        """Return the reward of a step; at the last one, minus the loss not yet paid.

        **Arguments:**

        - `step`: the index of the step.
        - `states`: the recorded states up to this step, and anything after it, with a leading time axis.
        - `reference`: the `reference_states` of the trial.
        - `trial`, `model`: as for a loss term.
        - `paid`: the sum of the rewards so far.
        """
        n_steps = trial.timeline.n_steps
        at_step = jax.tree.map(lambda leaf, ideal: ideal.at[step].set(leaf[step]), states, reference)
        cost, weights = jnp.zeros_like(paid), self.loss.at_batch(LAST_BATCH).weights
        for term in self.loss.terms:
            if term.name in self.each_step:
                ideal = term(reference, trial, model)
                weight: Any = weights[term.name]
                cost += weight * (term(at_step, trial, model) - ideal + ideal / n_steps)
        last_reward = -self.loss(states, trial, model).total - paid
        return jnp.where(step == n_steps - 1, last_reward, -cost)


def reference_states(model: AgentModel, state: PyTree[Array], trial: Trial) -> PyTree[Array]:
    """Return recorded states that stay at the initial state, except that hand or output are at the target.

    **Arguments:**

    - `model`: the model.
    - `state`: the state before the first step.
    - `trial`: one trial.
    """
    n_steps = trial.timeline.n_steps
    states = jax.tree.map(lambda leaf: jnp.tile(leaf, (n_steps, *[1] * leaf.ndim)), model.record(state))
    if isinstance(states, LoopState) and isinstance(trial.targets, HandState):
        return dataclasses.replace(states, hand=trial.targets, cursor=trial.targets)
    target = trial.targets.values if isinstance(trial.targets, OutputTarget) else trial.targets
    if eqx.is_array(target) and target.shape == states.network.output.shape:
        return eqx.tree_at(lambda tree: tree.network.output, states, target)
    return states


def terms_paid_each_step(
    loss: Loss, model: AgentModel, trials: Trial, limits: tuple[float, float], *, key: PRNGKeyArray
) -> tuple[str, ...]:
    """Return the names of the loss terms that are sums over time steps, determined by a numerical test.

    Each trial is simulated twice with random actions; then the two trajectories swap a random half of their
    time steps. The total of a sum over time steps does not change.

    **Arguments:**

    - `loss`: the loss.
    - `model`: a model with an `Agent`, with or without a plant.
    - `trials`: stacked trials.
    - `limits`: bounds of the uniform random actions.
    - `key`: the key of the random actions.
    """
    check_of_one_member("loss", loss)
    names = []
    for term in loss.terms:
        try:
            before, after = _exchange_steps(term, model, trials, limits, as_key(key))
        except AttributeError as error:
            raise ValueError(
                f"`loss` must be about what an agent does: its term {term.name!r} asks for something "
                f"that an agent from outside has not ({error})."
            ) from error
        if not bool(jnp.all(jnp.isfinite(before))):
            raise ValueError(f"`loss` must be finite, got {before} of its term {term.name!r}.")
        scale = jnp.sum(jnp.abs(before), axis=0) + jnp.sum(jnp.abs(after), axis=0)
        off = jnp.abs(jnp.sum(before, axis=0) - jnp.sum(after, axis=0))
        if bool(jnp.all(off <= TOLERANCE * scale)):
            names.append(term.name)
    return tuple(names)


@jit
def _exchange_steps(
    term: AbstractLossTerm, model: AgentModel, trials: Trial, limits: tuple[float, float], key: Key[Array, ""]
) -> tuple[Float[Array, "course trial"], Float[Array, "course trial"]]:
    """Return a loss term of two trajectories of each trial, before and after they swap time steps."""
    n_outputs = model.network.n_outputs

    def of_trial(trial, key):
        shape = (trial.timeline.n_steps, n_outputs)
        courses = [
            act_out(
                model,
                trial,
                jax.random.uniform(
                    key_stream(course_key, "actions"), shape, minval=limits[0], maxval=limits[1]
                ),
                key=course_key,
            )
            for course_key in jax.random.split(key)
        ]
        is_first = jax.random.bernoulli(key_stream(key, "exchange"), 0.5, (shape[0],))
        mixed = [_mix(is_first, *courses), _mix(is_first, *courses[::-1])]
        before, after = (
            jnp.stack([term(states, trial, model) for states in two]) for two in (courses, mixed)
        )
        return before, after

    keys = jax.random.split(key, jax.tree.leaves(trials)[0].shape[0])
    return jax.vmap(of_trial, out_axes=1)(trials, keys)


def _mix(is_first: Bool[Array, " time"], first: PyTree[Array], second: PyTree[Array]) -> PyTree[Array]:
    """Return the states of `first` where `is_first` is True, and those of `second` elsewhere."""
    return jax.tree.map(
        lambda x, y: jnp.where(is_first.reshape(-1, *[1] * (x.ndim - 1)), x, y), first, second
    )


class Episode(eqx.Module):
    """A trial in progress.

    - `trial`, `key`: the trial, and the key of its noise. With the same actions, `simulate` gives the same.
    - `step`: the number of completed steps.
    - `state`: the state of the model.
    - `states`: the recorded states so far; later time steps contain `reference`.
    - `reference`: see `popsim.gymnasium.episode.reference_states`.
    - `paid`: the sum of the rewards so far.
    """

    trial: Trial
    key: Key[Array, ""]
    step: Int[Array, ""]
    state: PyTree[Array]
    states: PyTree[Array]
    reference: PyTree[Array]
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
    reference = reference_states(model, state, trial)
    episode = Episode(trial, key, jnp.zeros((), int), state, reference, reference, jnp.zeros(()))
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
    state = _step_model(acting(model, action), episode)
    states = jax.tree.map(
        lambda all_, now: all_.at[episode.step].set(now), episode.states, model.record(state)
    )
    # The model without the action, so that loss terms on weights do not depend on what the agent does.
    reward = rewards.reward(episode.step, states, episode.reference, episode.trial, model, episode.paid)
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
