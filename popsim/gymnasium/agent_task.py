"""What environments of Gymnasium have in common: a task and a model for an agent, and their spaces."""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from jaxtyping import Array, Float, Int, Key

from popsim._shared.other_draws import drawing_from_key
from popsim.environment import AbstractEnvironment, Box, Discrete
from popsim.evaluation import check_trials_of
from popsim.gymnasium.agent import (
    AgentModel,
    agent_network_model,
    default_limits,
    with_agent,
)
from popsim.gymnasium.episode import Episode, StepRewards, observation_layout, stepwise_terms
from popsim.hand import HandState
from popsim.loss import Loss
from popsim.per_member import check_of_one_member
from popsim.randomness import key_stream, seed_key
from popsim.states import LoopState
from popsim.task import AbstractTask, build_validation_trials
from popsim.trial import OutputTarget, Trial, n_trials

__all__ = ["AgentTask"]

N_TRIED = 3  # trials in which the costs of steps are compared with the loss


class AgentTask(eqx.Module):
    """A task, and the model in which an agent performs it; arguments are those of `TaskEnv`.

    - `task`, `model`, `batch`: the task, the model with an `Agent`, and the training batch of its trials.
    - `validation_trials`: those of the task.
    - `rewards`: the rewards; None where the environment of the trials pays.
    - `stepwise_terms`: the names of the loss terms that are paid at each time step.
    """

    task: AbstractTask
    model: AgentModel
    batch: Int[Array, ""]
    validation_trials: Trial
    rewards: StepRewards | None
    stepwise_terms: tuple[str, ...] = eqx.field(static=True)

    @property
    def pays_at_end(self) -> bool:
        """Whether some loss terms are paid at the last step, from all states of the trial."""
        return self.rewards is not None and len(self.stepwise_terms) < len(self.rewards.loss.terms)

    def draw(self, key: Key[Array, ""]) -> Trial:
        """Return the random trial of a key."""
        with drawing_from_key("`trial` of `task`", self.task.trial):
            return self.task.trial(batch=self.batch, key=key_stream(key, "specification"))


def agent_task(
    task: AbstractTask,
    model: AgentModel | None,
    loss: Loss | None,
    limits: tuple[float, float] | None,
    batch: int,
) -> tuple[AgentTask, spaces.Box | spaces.Discrete]:
    """Return what the arguments of `TaskEnv` describe, checked, and the space of actions."""
    check_of_one_member("task", task)
    model = agent_network_model(task) if model is None else with_agent(model)
    validation_trials = build_validation_trials(task)
    if validation_trials.session is not None:
        raise ValueError("`task` must have single trials: an episode is a trial, got one with sessions.")
    check_trials_of(model, validation_trials)
    environment = validation_trials.environment
    actions = _action_space(model, environment, limits)
    at_batch = jnp.asarray(batch)
    if environment is not None:
        if loss is not None:
            raise ValueError("`loss` must be None where the environment of the trials pays, got a loss.")
        return AgentTask(task, model, at_batch, validation_trials, None, ()), actions
    assert isinstance(actions, spaces.Box)
    rewards = StepRewards((task.loss if loss is None else loss).at_batch(batch))
    check_of_one_member("loss", rewards.loss)
    rewards.loss.check(validation_trials, model)
    tried = np.linspace(0, n_trials(validation_trials) - 1, N_TRIED).astype(int)
    trials = jax.tree.map(lambda leaf: leaf[tried], validation_trials)
    shape = (N_TRIED, trials.timeline.n_steps, *actions.shape)
    drawn = jax.random.uniform(seed_key(0), shape, minval=actions.low, maxval=actions.high)
    stepwise = stepwise_terms(rewards, model, trials, drawn)
    return AgentTask(task, model, at_batch, validation_trials, rewards, stepwise), actions


def _action_space(
    model: AgentModel, environment: AbstractEnvironment | None, limits: tuple[float, float] | None
) -> spaces.Box | spaces.Discrete:
    """Return the space of actions: that of the environment, else commands or outputs within limits."""
    actions = None if environment is None else environment.actions
    if isinstance(actions, Discrete):
        if limits is not None:
            raise ValueError(f"`limits` must be None for actions that are choices, got {limits}.")
        return spaces.Discrete(actions.n)
    low, high = (float(limit) for limit in (default_limits(model) if limits is None else limits))
    if not -math.inf < low < high < math.inf:
        raise ValueError(f"`limits` must be two finite numbers, the lower one first, got {limits}.")
    if isinstance(actions, Box):
        low, high = (
            limit if bound is None else bound for limit, bound in ((low, actions.low), (high, actions.high))
        )
        if low >= high:
            raise ValueError(
                f"`limits` must leave room within the bounds of the environment, {actions}, got {limits}."
            )
    return spaces.Box(low, high, (model.network.n_outputs,), np.float32)


def observation_space(setting: AgentTask) -> tuple[spaces.Box, dict[str, slice]]:
    """Return the space of observations, and the slice of each part of them by name."""
    first = jax.tree.map(lambda leaf: leaf[0], setting.validation_trials)
    space = spaces.Box(-np.inf, np.inf, (setting.model.network.n_inputs,), np.float32)
    return space, observation_layout(setting.model, first)


def agent_outputs(
    space: spaces.Box | spaces.Discrete, actions: Any, *copies: int
) -> Float[np.ndarray, "*copies outputs"]:
    """Return actions as outputs of agents, clipped to the space; raise `ValueError` if they are none."""
    numbers = np.asarray(actions)
    name = "actions" if copies else "action"
    if isinstance(space, spaces.Discrete):
        is_index = numbers.shape == copies and numbers.dtype.kind in "iu"
        if not (is_index and np.all((numbers >= 0) & (numbers < space.n))):
            each = f" for each of {copies[0]} copies" if copies else ""
            raise ValueError(f"`{name}` must be a whole number from 0 to {space.n - 1}{each}, got {actions}.")
        return numbers[..., None].astype(np.float32)
    shape = (*copies, *space.shape)
    if numbers.shape != shape or numbers.dtype.kind not in "iuf" or not np.all(np.isfinite(numbers)):
        what = f"{shape[0]} finite numbers" if not copies else f"finite numbers of shape {shape}"
        raise ValueError(f"`{name}` must be {what}, got {actions}.")
    return np.clip(numbers.astype(np.float32), space.low, space.high)


def check_validation_index(setting: AgentTask, options: dict[str, Any] | None) -> Any:
    """Return what `options` of `reset` has as "trial", None if nothing; raise `ValueError` for all else."""
    options = dict(options or {})
    index, count = options.pop("trial", None), n_trials(setting.validation_trials)
    if options:
        raise ValueError(f'`options` must be {{"trial": i}} or none, got {sorted(options)}.')
    if index is not None and not np.all((np.asarray(index) >= 0) & (np.asarray(index) < count)):
        raise ValueError(f'`options["trial"]` must be from 0 to {count - 1}, got {index}.')
    return index


def _flat_targets(trial: Trial) -> Float[Array, "time features"] | None:
    """Return target positions or target outputs, else all targets in one array; None without any."""
    targets = trial.targets
    if isinstance(targets, HandState):
        return targets.position
    if isinstance(targets, OutputTarget):
        return targets.values
    leaves = [leaf.reshape(trial.timeline.n_steps, -1) for leaf in jax.tree.leaves(targets)]
    return jnp.concatenate(leaves, axis=1) if leaves else None


def episode_info(episode: Episode) -> dict[str, Any]:
    """Return the `info` of `TaskEnv`, except for losses."""
    targets, state = _flat_targets(episode.trial), episode.state
    info: dict[str, Any] = {"step": episode.step}
    if targets is not None:
        info["target"] = targets[jnp.maximum(episode.step - 1, 0)]
    if isinstance(state, LoopState):
        info["hand"] = state.hand.position
    info["conditions"] = episode.trial.conditions
    return info
