"""Agents in the place of networks, and trials as episodes: steps, observations and rewards."""

import dataclasses
import functools
import itertools
from collections.abc import Mapping
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray, PyTree

from popsim._compiled import jit
from popsim._shared.checks import kind_of
from popsim._shared.other_draws import refuse_other_draws
from popsim.environment import Box, Discrete
from popsim.interaction import observation_to_come
from popsim.loss import Loss
from popsim.model import initial_state
from popsim.models.network_model import NetworkModel
from popsim.models.sensorimotor_loop import SensorimotorLoop
from popsim.network_input import inputs_by_name, network_input
from popsim.networks import AbstractNetwork
from popsim.networks.building import as_sizes
from popsim.plants import AbstractPlant, MusculoskeletalPlant
from popsim.policies import AbstractPolicy, Action
from popsim.randomness import as_key, key_stream, seed_key
from popsim.schedules import LAST_BATCH
from popsim.senses import SensoryChannel, n_network_inputs, network_input_names
from popsim.task import AbstractTask
from popsim.trial import OutputTarget, StepInput, Trial, TrialAtStep

__all__ = [
    "Agent",
    "with_agent",
    "agent_loop",
    "agent_network_model",
    "default_limits",
    "StepRewards",
    "Episode",
    "begin_episode",
    "advance_episode",
]

AgentModel = SensorimotorLoop | NetworkModel
ModelType = TypeVar("ModelType", bound=SensorimotorLoop | NetworkModel)
TOLERANCE = 1e-4


class GivenChoice(AbstractPolicy):
    """The choice, one of `n`, that the output is the number of: it is sure."""

    n: int = eqx.field(static=True)
    critic: bool = eqx.field(static=True, default=False, init=False)

    @property
    def n_outputs(self) -> int:
        return 1

    @property
    def actions(self) -> Discrete:
        return Discrete(self.n)

    def act(self, output: Float[Array, " output"], *, key: Key[Array, ""]) -> Action:
        return Action(self.best(output), jnp.zeros_like(output[0]), jnp.zeros_like(output[0]))

    def log_probability(self, output: Float[Array, " output"], action: Any) -> Float[Array, ""]:
        return jnp.where(self.best(output) == action, 0.0, -jnp.inf)

    def best(self, output: Float[Array, " output"]) -> Int[Array, ""]:
        return output[0].astype(int)

    def greedy(self) -> "GivenChoice":
        return self


class Agent(AbstractNetwork):
    """A placeholder network with one silent unit, whose output is `action` for any input.

    The action is a command of the plant, outputs, or the number of a choice. Loss terms on hidden units are
    therefore zero, and interventions on units have no effect.

    **Arguments:**

    - `n_inputs`, `n_outputs`: the sizes.
    """

    n_inputs: int = eqx.field(static=True)
    n_outputs: int = eqx.field(static=True)
    action: Float[Array, " output"]

    def __init__(self, n_inputs: int, n_outputs: int):
        self.n_inputs, _, self.n_outputs = as_sizes(n_inputs, 1, n_outputs)
        self.action = jnp.zeros(n_outputs)

    def init(self, *, key: Key[Array, ""]) -> Float[Array, " hidden"]:
        return jnp.zeros(1, self.action.dtype)

    def step(
        self, inputs: Float[Array, " inputs"], hidden: Float[Array, " hidden"], *, key: Key[Array, ""]
    ) -> Float[Array, " hidden"]:
        return hidden

    def read_out(self, hidden: Float[Array, " hidden"]) -> Float[Array, " output"]:
        return self.action


def with_agent(model: ModelType) -> ModelType:
    """Return a model with its network replaced by an `Agent`, which decides for the policy as well."""
    n_outputs, policy = model.network.n_outputs, model.policy
    if policy is not None:
        n_outputs, policy = _outputs_and_policy(policy.actions)  # without the critic
    return dataclasses.replace(model, network=Agent(model.network.n_inputs, n_outputs), policy=policy)


def _outputs_and_policy(actions: Discrete | Box) -> tuple[int, GivenChoice | None]:
    """Return the number of outputs of an agent with these actions, and its policy if they are choices."""
    return (1, GivenChoice(actions.n)) if isinstance(actions, Discrete) else (actions.n, None)


def agent_loop(
    task: AbstractTask, plant: AbstractPlant, channels: Mapping[str, SensoryChannel], **settings: Any
) -> SensorimotorLoop:
    """Build a `SensorimotorLoop` with an `Agent` as its network.

    **Arguments:**

    - `task`: the task; the agent receives its inputs besides the feedback, and the loop has its time step.
    - `plant`, `channels`: the plant, and the sensory channels by name.
    - `settings`: other arguments of `SensorimotorLoop`, such as `motor_noise` and `scaling`.
    """
    trials = task.validation_trials()
    agent = Agent(n_network_inputs(trials, plant, channels), plant.n_commands)
    return SensorimotorLoop(agent, plant, dict(channels), **settings, dt=trials.timeline.dt)


def agent_network_model(task: AbstractTask) -> NetworkModel:
    """Build a `NetworkModel` with an `Agent` as its network, for a task without a plant.

    Its output is the action of the environment of the trials or, without one, the outputs that the task asks
    for.
    """
    trials = task.validation_trials()
    actions = None if trials.environment is None else trials.environment.actions
    targets = trials.targets.values if isinstance(trials.targets, OutputTarget) else trials.targets
    policy = None
    if isinstance(actions, Discrete | Box):
        n_outputs, policy = _outputs_and_policy(actions)
    elif actions is None and eqx.is_array(targets) and targets.ndim == 3:
        n_outputs = targets.shape[-1]
    else:
        raise ValueError(
            "`task` must have outputs as its targets, or an environment that takes choices or vectors, or be "
            "given with the model of a body (`agent_loop`), "
            f"got {kind_of(targets if actions is None else trials.environment)}."
        )
    agent = Agent(n_network_inputs(trials), n_outputs)
    return NetworkModel(agent, policy=policy, dt=trials.timeline.dt)


def default_limits(model: AgentModel) -> tuple[float, float]:
    """Return default bounds of actions: 0 and 1 for excitations, -10 and 10 for torques (N m) and forces (N).

    For outputs without a plant they are -5 and 5, because a logit of 5 is a probability of .993.
    """
    if isinstance(model, NetworkModel):
        return -5.0, 5.0
    return (0.0, 1.0) if isinstance(model.plant, MusculoskeletalPlant) else (-10.0, 10.0)


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

    def check_stepwise(self, state: PyTree[Array], trial: Trial, model: AgentModel) -> None:
        """Raise `ValueError` unless all terms are paid step by step, as they are where no states are kept.

        `state` is the recorded state at the start of the trial.
        """
        paid = self.costs(state, TrialAtStep(trial, jnp.zeros((), int)), model)
        if at_end := [term.name for term in self.loss.terms if term.name not in paid]:
            raise ValueError(
                f"`keeps_states` must be True where terms are paid at the last step, {at_end}, got False."
            )

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
    - `keeps_states`: whether the states of all steps are kept; needed for terms that are paid at the last
        step.
    - `key`: the key of its noise.
    """
    key = as_key(key)
    state, states = initial_state(model, trial, key=key), None
    if keeps_states:
        n_steps = trial.timeline.n_steps
        states = jax.tree.map(lambda leaf: jnp.tile(leaf, (n_steps, *[1] * leaf.ndim)), model.record(state))
    elif rewards is not None:
        rewards.check_stepwise(model.record(state), trial, model)
    step, false = jnp.zeros((), int), jnp.zeros((), bool)
    costs = {term.name: jnp.zeros(()) for term in (() if rewards is None else rewards.loss.terms)}
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
    copies = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], (episode, action))
    return jax.tree.map(lambda leaf: leaf[0], advance_episodes(model, rewards, *copies))


def advance_episodes(
    model: AgentModel, rewards: StepRewards | None, episodes: Episode, actions: Float[Array, "copy output"]
) -> tuple[Episode, Float[Array, "copy observation"], Float[Array, " copy"]]:
    """Return what `advance_episode` does of copies that are stacked."""
    step = functools.partial(_step_episode, model, rewards)
    episodes, reward = jax.vmap(step)(episodes, actions)
    if rewards is not None and episodes.states is not None:
        # The losses of whole trials are computed only where one is over, by a branch for all copies.
        costs, reward = jax.lax.cond(
            jnp.any(episodes.is_over),
            lambda: jax.vmap(functools.partial(_pay_rest, model, rewards))(episodes, reward),
            lambda: (episodes.costs, reward),
        )
        episodes = dataclasses.replace(episodes, costs=costs)
    return episodes, jax.vmap(functools.partial(observation, model))(episodes), reward


def _step_episode(
    model: AgentModel, rewards: StepRewards | None, episode: Episode, action: Float[Array, " output"]
) -> tuple[Episode, Float[Array, ""]]:
    """Return the episode after a time step, and its reward without the terms that are paid at the end."""
    trial, step, costs, states = episode.trial, episode.step, episode.costs, episode.states
    acting = eqx.tree_at(lambda agent_model: agent_model.network.action, model, action)
    state = run_step(acting, episode)
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


def _pay_rest(
    model: AgentModel, rewards: StepRewards, episode: Episode, reward: Float[Array, ""]
) -> tuple[dict[str, Float[Array, ""]], Float[Array, ""]]:
    """Return costs and reward of a step with the terms that are paid at the end, if the episode is over."""
    rest = rewards.final_costs(episode.states, episode.trial, model)
    due = {name: jnp.where(episode.is_over, cost, 0.0) for name, cost in rest.items()}
    costs = episode.costs | {name: episode.costs[name] + cost for name, cost in due.items()}
    return costs, reward - sum(due.values(), jnp.zeros(()))


def observation(model: AgentModel, episode: Episode) -> Float[Array, " observation"]:
    """Return the input that the replaced network would receive at the next time step.

    After the last time step, the inputs of the trial remain those of the last one.
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
    with refuse_other_draws("`step` of `model`", model, episode.trial.environment):
        return model.step(_step_input(episode), episode.state, key=key)


def _step_input(episode: Episode) -> StepInput:
    trial = episode.trial
    step = jnp.minimum(episode.step, trial.timeline.n_steps - 1)
    active = {name: schedule.active[step] for name, schedule in trial.interventions.items()}
    return trial.at_step(jax.tree.map(lambda leaf: leaf[step], trial.inputs), active)


def stepwise_terms(
    rewards: StepRewards, model: AgentModel, trials: Trial, actions: Float[Array, "trial time output"]
) -> tuple[str, ...]:
    """Return the names of the loss terms that are paid step by step; refuse costs that do not add up."""
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
            return _step_episode(model, None, episode, action)

        def of_step(state: PyTree[Array], step: Int[Array, ""]) -> dict[str, Float[Array, ""]]:
            return rewards.costs(state, TrialAtStep(trial, step), model)

        begun, _ = begin_episode(model, None, trial, key=seed_key(1))
        states = jax.lax.scan(advance, begun, of_steps)[0].states
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
