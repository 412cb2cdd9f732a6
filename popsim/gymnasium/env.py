"""Tasks as Gymnasium environments, and the ids of those of `popsim.tasks.TASKS`."""

from typing import Any

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from jaxtyping import Array, Float, Int, UInt32

from popsim._compiled import jit
from popsim._shared.checks import as_float_array
from popsim._shared.other_draws import refuse_other_draws
from popsim.environment import AbstractEnvironment, Box, Discrete
from popsim.evaluation import check_trials_of
from popsim.experiments import EXPERIMENTS
from popsim.experiments.motor_experiment import AbstractMotorExperiment
from popsim.gymnasium.episode import (
    AgentModel,
    Episode,
    StepRewards,
    advance_episode,
    agent_network_model,
    begin_episode,
    default_limits,
    observation_layout,
    stepwise_terms,
    with_agent,
)
from popsim.hand import HandState
from popsim.loss import Loss
from popsim.per_member import check_of_one_member
from popsim.randomness import key_stream, seed_key
from popsim.schedules import LAST_BATCH
from popsim.states import LoopState
from popsim.task import AbstractTask, build_validation_trials
from popsim.tasks.library import TASKS
from popsim.trial import OutputTarget, Trial, n_trials

__all__ = ["TaskEnv", "environment_id", "make_env", "register_environments"]

N_TRIED = 3  # trials in which the costs of steps are compared with the loss
Begun = tuple[Episode, Float[Array, "*copies observation"], dict[str, Any]]


class AgentTask(eqx.Module):
    """A task, and the model in which an agent performs it; arguments are those of `TaskEnv`.

    - `rewards`: the rewards; None where the environment of the trials pays.
    - `stepwise_terms`: the names of the loss terms that are paid at each time step.
    """

    task: AbstractTask
    model: AgentModel
    batch: Int[Array, ""]
    validation_trials: Trial
    rewards: StepRewards | None
    stepwise_terms: tuple[str, ...] = eqx.field(static=True)


@jit
def begin(
    setting: AgentTask, seed: UInt32[Array, ""], index: Int[Array, ""] | None, *, keeps_states: bool = True
) -> Begun:
    """Start the random trial of a seed, or a validation trial; return `info`, too."""
    key = seed_key(seed)
    if index is None:
        with refuse_other_draws("`trial` of `task`", setting.task.trial):
            trial = setting.task.trial(batch=setting.batch, key=key_stream(key, "specification"))
    else:
        trial = jax.tree.map(lambda leaf: leaf[index], setting.validation_trials)
    episode, observed = begin_episode(
        setting.model, setting.rewards, trial, keeps_states=keeps_states, key=key
    )
    return episode, observed, episode_info(episode)


@jit
def _advance(
    setting: AgentTask, episode: Episode, action: Float[Array, " output"]
) -> tuple[Episode, Float[Array, " observation"], Float[Array, ""], dict[str, Any]]:
    episode, observed, reward = advance_episode(setting.model, setting.rewards, episode, action)
    return episode, observed, reward, episode_info(episode)


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
    if environment is not None:
        if loss is not None:
            raise ValueError("`loss` must be None where the environment of the trials pays, got a loss.")
        return AgentTask(task, model, jnp.asarray(batch), validation_trials, None, ()), actions
    assert isinstance(actions, spaces.Box)
    rewards = StepRewards((task.loss if loss is None else loss).at_batch(batch))
    check_of_one_member("loss", rewards.loss)
    rewards.loss.check(validation_trials, model)
    tried = np.linspace(0, n_trials(validation_trials) - 1, N_TRIED).astype(int)
    trials = jax.tree.map(lambda leaf: leaf[tried], validation_trials)
    shape = (N_TRIED, trials.timeline.n_steps, *actions.shape)
    drawn = jax.random.uniform(seed_key(0), shape, minval=actions.low, maxval=actions.high)
    stepwise = stepwise_terms(rewards, model, trials, drawn)
    return AgentTask(task, model, jnp.asarray(batch), validation_trials, rewards, stepwise), actions


def _action_space(
    model: AgentModel, environment: AbstractEnvironment | None, limits: tuple[float, float] | None
) -> spaces.Box | spaces.Discrete:
    """Return the space of actions: that of the environment, else commands or outputs within limits."""
    actions = None if environment is None else environment.actions
    if isinstance(actions, Discrete):
        if limits is not None:
            raise ValueError(f"`limits` must be None for actions that are choices, got {limits}.")
        return spaces.Discrete(actions.n)
    low, high = default_limits(model) if limits is None else limits
    if isinstance(actions, Box):
        low = low if actions.low is None else actions.low
        high = high if actions.high is None else actions.high
    return spaces.Box(float(low), float(high), (model.network.n_outputs,), np.float32)


def observation_space(setting: AgentTask) -> tuple[spaces.Box, dict[str, slice]]:
    """Return the space of observations, and the slice of each part of them by name."""
    first = jax.tree.map(lambda leaf: leaf[0], setting.validation_trials)
    space = spaces.Box(-np.inf, np.inf, (setting.model.network.n_inputs,), np.float32)
    return space, observation_layout(setting.model, first)


def agent_outputs(
    space: spaces.Box | spaces.Discrete, actions: Any, *copies: int
) -> Float[np.ndarray, "*copies outputs"]:
    """Return actions as outputs of agents, clipped to the space; raise `ValueError` if they are none."""
    name = "actions" if copies else "action"
    if isinstance(space, spaces.Discrete):
        return _whole_numbers(name, actions, int(space.n), copies)[..., None].astype(np.float32)
    numbers, shape = np.asarray(actions), (*copies, *space.shape)
    if numbers.shape != shape or numbers.dtype.kind not in "iuf" or not np.all(np.isfinite(numbers)):
        raise ValueError(f"`{name}` must be finite numbers of shape {shape}, got {actions}.")
    return np.clip(numbers.astype(np.float32), space.low, space.high)


def validation_index(
    setting: AgentTask, options: dict[str, Any] | None, *copies: int
) -> Int[np.ndarray, "*copies"] | None:
    """Return the validation trial, or those of copies, that `options` of `reset` ask for; None if none."""
    options = dict(options or {})
    index = options.pop("trial", None)
    if options:
        raise ValueError(f'`options` must be {{"trial": i}} or none, got {sorted(options)}.')
    if index is None:
        return None
    each = np.broadcast_to(index, copies) if np.shape(index) == () else index
    return _whole_numbers('options["trial"]', each, n_trials(setting.validation_trials), copies)


def _whole_numbers(name: str, given: Any, count: int, copies: tuple[int, ...]) -> Int[np.ndarray, "*copies"]:
    numbers = np.asarray(given)
    is_index = numbers.shape == copies and numbers.dtype.kind in "iu"
    if not (is_index and np.all((numbers >= 0) & (numbers < count))):
        each = f" for each of {copies[0]} copies" if copies else ""
        raise ValueError(f"`{name}` must be a whole number from 0 to {count - 1}{each}, got {given}.")
    return numbers.astype(int)


def episode_info(episode: Episode) -> dict[str, Any]:
    """Return the `info` of `TaskEnv`, except for losses."""
    trial, state = episode.trial, episode.state
    info: dict[str, Any] = {"step": episode.step, "conditions": trial.conditions}
    match trial.targets:
        case HandState(position=values) | OutputTarget(values=values):
            targets = [values]
        case _:
            targets = [leaf.reshape(trial.timeline.n_steps, -1) for leaf in jax.tree.leaves(trial.targets)]
    if targets:
        info["target"] = jnp.concatenate(targets, axis=1)[jnp.maximum(episode.step - 1, 0)]
    if isinstance(state, LoopState):
        info["hand"] = state.hand.position
    return info


class TaskEnv(gymnasium.Env[np.ndarray, Any]):
    """A task as a reinforcement-learning environment: an episode is a trial, a step is a time step.

    - *Actions* are the commands of the plant in their unit (N m, N, excitations), or, without a plant, the
      outputs. They are clipped to `limits`. (`gymnasium.wrappers.RescaleAction(env, -1.0, 1.0)` makes them of
      order one.)
    - *Observations* are the input of the replaced network as one vector: the inputs of the trial, what its
      environment shows, and the feedback, delayed and with noise. `layout` maps each of them to its slice.
    - *Rewards* sum to minus the loss of the trial; see `popsim.gymnasium.StepRewards`. Loss terms on hidden
      units are zero. `stepwise_terms` are the names of those paid at each time step; the others are paid at
      the last one.
    - An episode *terminates* at the end of the trial, whose length the task determines.
    - In trials with an environment (`Trial.environment`), the rewards and the end of the trial are those of
      the environment, and so are the actions: a whole number of `Discrete`, or a vector of `Box` within its
      bounds, or within `limits` where it has none. For an environment that takes the movement of a body they
      are the commands.
    - `info` contains "step" (the number of completed steps), "target" (of the last step; at reset, of the
      first), "hand" (m, with a plant), "conditions" by name, and after the last step "loss", terms by name.
      "target" is absent without targets, and "loss" where an environment pays.

    The seed of `reset(seed=...)` determines the trial, its noise and all later trials.
    `reset(options={"trial": i})` runs validation trial i of `n_validation_trials` in place of a random one.

    ```python
    plant = popsim.plants.TwoLinkArm.arm26_skeleton()
    task = popsim.tasks.RandomReaches(plant.workspace)
    seen = popsim.SensoryChannel(popsim.vision, delay=0.07)
    env = TaskEnv(task, agent_loop(task, plant, {"vision": seen}))  # both from popsim.gymnasium
    observation, info = env.reset(seed=0)
    observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
    ```

    **Arguments:**

    - `task`: the task of one member.
    - `model`: a `SensorimotorLoop` whose network the agent replaces, from `popsim.gymnasium.agent_loop` or
        trained. None for a task without a plant.
    - `loss`: the loss that defines the rewards; by default that of the task. None where an environment pays.
    - `limits`: lower and upper bound of actions; by default 0 and 1 for muscles, -10 and 10 for other plants,
        -5 and 5 for outputs.
    - `batch`: the index of the training batch from which trials are drawn; by default after the end of all
        schedules.
    """

    metadata: dict[str, Any] = {"render_modes": []}

    def __init__(
        self,
        task: AbstractTask,
        model: AgentModel | None = None,
        *,
        loss: Loss | None = None,
        limits: tuple[float, float] | None = None,
        batch: int = LAST_BATCH,
    ):
        self._setting, self.action_space = agent_task(task, model, loss, limits, batch)
        self.observation_space, self.layout = observation_space(self._setting)
        self.stepwise_terms = self._setting.stepwise_terms
        self.n_validation_trials = n_trials(self._setting.validation_trials)
        self._episode: Episode | None = None

    @property
    def episode(self) -> Episode:
        """The current episode: the trial, and its recorded states so far.

        **Raises:** `gymnasium.error.ResetNeeded` before the first `reset`.
        """
        if self._episode is None:
            raise gymnasium.error.ResetNeeded("Call `env.reset()` before `env.step(action)`.")
        return self._episode

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Float[np.ndarray, " observation"], dict[str, Any]]:
        """Start a trial and return the first observation and `info`.

        **Arguments:**

        - `seed`: the seed of this and all later trials; None to continue the current random sequence.
        - `options`: `{"trial": i}` for validation trial i.
        """
        index = validation_index(self._setting, options)
        super().reset(seed=seed)
        trial_seed = np.asarray(self.np_random.integers(2**32), np.uint32)
        self._episode, observed, info = begin(self._setting, *jax.device_put((trial_seed, index)))
        self._is_over = False
        return np.array(observed, np.float32), jax.tree.map(np.array, info) | {"step": 0}

    def step(
        self, action: Any
    ) -> tuple[Float[np.ndarray, " observation"], float, bool, bool, dict[str, Any]]:
        """Run one time step and return observation, reward, terminated, truncated (always False) and `info`.

        **Raises:** `ValueError` if `action` is not of the action space, apart from its bounds;
        `gymnasium.error.ResetNeeded` if no trial is running.
        """
        space: Any = self.action_space
        outputs, episode = agent_outputs(space, action), self.episode
        if self._is_over:
            raise gymnasium.error.ResetNeeded("The trial is over: call `env.reset()`.")
        self._episode, observed, reward, info = _advance(self._setting, episode, as_float_array(outputs))
        self._is_over = bool(self._episode.is_over)
        info = jax.tree.map(np.array, info) | {"step": int(info["step"])}
        if self._is_over and self._setting.rewards is not None:
            info["loss"] = {name: float(cost) for name, cost in self._episode.costs.items()}
        return np.array(observed, np.float32), float(reward), self._is_over, False, info


def environment_id(name: str) -> str:
    """Return the id of a task of `popsim.tasks.TASKS`: "popsim/CenterOut-v0" for "center-out"."""
    return f"popsim/{''.join(word.capitalize() for word in name.split('-'))}-v0"


def register_environments() -> None:
    """Register every task of `popsim.tasks.TASKS` in Gymnasium.

    Importing `popsim.gymnasium` does so. Call it for tasks that `popsim.tasks.register_task` adds later.
    """
    for name in TASKS:
        if (env_id := environment_id(name)) not in gymnasium.registry:
            gymnasium.register(
                env_id,
                entry_point="popsim.gymnasium.env:make_env",
                vector_entry_point="popsim.gymnasium.vector_env:make_vector_env",
                kwargs={"task": name},
            )


def make_env(*, task: str, **settings: Any) -> TaskEnv:
    """Build the environment of a registered task.

    **Arguments:**

    - `task`: its name in `popsim.tasks.TASKS`.
    - `settings`: `loss`, `limits` and `batch` of `TaskEnv`; others are those of its experiment where it has a
        body, such as `plant="arm26"`, else arguments of the task.
    """
    return TaskEnv(**registered_arguments(task, settings))


def registered_arguments(name: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of `TaskEnv`; the model is that of the experiment where the task has a body."""
    given = {option: settings.pop(option) for option in ("loss", "limits", "batch") if option in settings}
    if not issubclass(EXPERIMENTS[name], AbstractMotorExperiment):
        return {"task": TASKS[name](**settings), **given}
    experiment: Any = EXPERIMENTS[name](**settings)
    return {"task": experiment.build_task(), "model": experiment.build_model(key=seed_key(0)), **given}
