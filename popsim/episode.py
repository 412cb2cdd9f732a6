"""A trial that an agent from outside does step by step: what an environment is made of."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PRNGKeyArray, PyTree

from popsim.agent import AgentModel, acting
from popsim.network_input import inputs_by_name, network_input
from popsim.randomness import as_key, key_stream
from popsim.sensorimotor_loop import SensorimotorLoop
from popsim.simulate import initial_state
from popsim.step_rewards import StepRewards, reference_states
from popsim.trial import StepInput, Trial


class Episode(eqx.Module):
    """A trial that is being done.

    - `trial`, `key`: the trial, and the key of its noise: with the same actions `simulate` would do the same.
    - `step`: how many steps are done.
    - `state`: of the model.
    - `states`: recorded so far; steps to come hold the reference.
    - `reference`: see `popsim.step_rewards.reference_states`.
    - `paid`: the sum of the rewards so far.
    """

    trial: Trial
    key: Key[Array, ""]
    step: Int[Array, ""]
    state: PyTree[Array]
    states: PyTree[Array]
    reference: PyTree[Array]
    paid: Float[Array, ""]


@eqx.filter_jit
def begin_episode(
    model: AgentModel, trial: Trial, *, key: PRNGKeyArray
) -> tuple[Episode, Float[Array, " observation"]]:
    """The start of a trial, and what the agent observes before its first action.

    **Arguments:**

    - `model`: an `Agent` in a loop, or alone.
    - `trial`: one trial.
    - `key`: for its noise.
    """
    key = as_key(key)
    state = initial_state(model, trial, key=key)
    reference = reference_states(model, state, trial)
    episode = Episode(trial, key, jnp.zeros((), int), state, reference, reference, jnp.zeros(()))
    return episode, observation(model, episode)


@eqx.filter_jit
def advance_episode(
    model: AgentModel, rewards: StepRewards, episode: Episode, action: Float[Array, " output"]
) -> tuple[Episode, Float[Array, " observation"], Float[Array, ""]]:
    """One time step: the episode after it, what the agent observes next, and the reward of the step.

    **Arguments:**

    - `model`: as in `begin_episode`.
    - `rewards`: what the reward is made of.
    - `episode`: the episode; at least one step is left of it.
    - `action`: commands of the body, or outputs.
    """
    state = _stepped(acting(model, action), episode)
    states = jax.tree.map(
        lambda all_, now: all_.at[episode.step].set(now), episode.states, model.record(state)
    )
    # Of the model without the action: what a loss says of weights is not about what the agent does.
    reward = rewards.reward(episode.step, states, episode.reference, episode.trial, model, episode.paid)
    episode = dataclasses.replace(
        episode, step=episode.step + 1, state=state, states=states, paid=episode.paid + reward
    )
    return episode, observation(model, episode), reward


def observation(model: AgentModel, episode: Episode) -> Float[Array, " observation"]:
    """What the network in the agent's place would receive at the step to come.

    That is the trial's inputs, and what each channel delivers then, delayed and with noise; scaled, in
    alphabetical order. After the last step the inputs are still those of the last one.
    """
    if not isinstance(model, SensorimotorLoop):
        return network_input(_step_input(episode).inputs, {}, {})
    # The feedback of a step does not depend on its action, and XLA leaves out the rest of it.
    return network_input(_step_input(episode).inputs, _stepped(model, episode).feedback, model.scaling)


def _stepped(model: AgentModel, episode: Episode) -> PyTree[Array]:
    key = jax.random.fold_in(key_stream(episode.key, "steps"), episode.step)
    return model.step(_step_input(episode), episode.state, key=key)


def _step_input(episode: Episode) -> StepInput:
    trial = episode.trial
    step = jnp.minimum(episode.step, trial.timeline.n_steps - 1)
    active = {name: schedule.active[step] for name, schedule in trial.interventions.items()}
    return trial.at_step(jax.tree.map(lambda leaf: leaf[step], trial.inputs), active)


def observation_layout(model: AgentModel, trial: Trial) -> dict[str, slice]:
    """Which numbers of an observation are which input of the trial, and which channel.

    **Arguments:**

    - `model`: as in `begin_episode`.
    - `trial`: one trial.
    """
    inputs = inputs_by_name(jax.tree.map(lambda leaf: leaf[0], trial.inputs))
    sizes = {name: sum(leaf.size for leaf in jax.tree.leaves(inputs[name])) for name in sorted(inputs)}
    if isinstance(model, SensorimotorLoop):
        start = jax.eval_shape(lambda: model.init(trial, key=jax.random.key(0)))
        sizes |= {name: start.feedback[name].size for name in sorted(start.feedback)}
    ends = list(jnp.cumsum(jnp.array(list(sizes.values()))).tolist())
    return {name: slice(end - size, end) for (name, size), end in zip(sizes.items(), ends, strict=True)}
