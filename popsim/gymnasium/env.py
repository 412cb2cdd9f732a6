"""Tasks as Gymnasium environments."""

import math
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from jaxtyping import Array, Float, Int, Key

from popsim._checks import as_float_array, is_int
from popsim._compiled import jit
from popsim.gymnasium.agent import AgentModel, agent_network_model, default_limits, with_agent
from popsim.gymnasium.episode import (
    Episode,
    StepRewards,
    advance_episode,
    begin_episode,
    check_loss,
    observation_layout,
)
from popsim.hand import HandState
from popsim.loss import Loss
from popsim.per_member import check_of_one_member
from popsim.randomness import key_stream, seed_key, trial_keys
from popsim.schedules import LAST_BATCH
from popsim.states import LoopState
from popsim.task import AbstractTask
from popsim.trial import OutputTarget, Trial, n_trials

__all__ = ["TaskEnv"]

Step = tuple[Float[np.ndarray, " observation"], float, bool, bool, dict[str, Any]]
N_TRIED = 8


class TaskEnv(gymnasium.Env[np.ndarray, np.ndarray]):
    """A task as a reinforcement-learning environment: an episode is a trial, a step is a time step.

    - *Actions* are the commands of the plant in their unit (N m, N, excitations), or, without a plant, the
      outputs. They are clipped to `limits`. (`gymnasium.wrappers.RescaleAction(env, -1.0, 1.0)` makes them of
      order one.)
    - *Observations* are the input of the replaced network as one vector: the inputs of the trial, and the
      feedback, delayed and with noise. `layout` maps each of them to its slice.
    - *Rewards* sum to minus the loss of the trial; see `popsim.gymnasium.StepRewards`. Loss terms on hidden
      units are zero.
    - An episode *terminates* at the end of the trial, whose length the task determines.
    - `info` contains "step" (the number of completed steps), "target" (of the last step; at reset, of the
      first), "hand" (m, with a plant), "conditions" by name, and after the last step "loss", terms by name.

    The seed of `reset(seed=...)` determines the trial, its noise and all later trials.
    `reset(options={"trial": i})` runs validation trial i instead of a random trial.

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
    - `loss`: the loss that defines the rewards; by default that of the task.
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
        check_of_one_member("task", task)
        self._task = task
        self._model = agent_network_model(task) if model is None else with_agent(model)
        self._validation_trials = task.validation_trials()
        self._model.check(self._validation_trials)
        limits = default_limits(self._model) if limits is None else limits
        low, high = (float(limit) for limit in limits)
        if not -math.inf < low < high < math.inf:
            raise ValueError(f"`limits` must be two finite numbers, the lower one first, got {limits}.")
        self._batch = jnp.asarray(batch)
        self._rewards = StepRewards((task.loss if loss is None else loss).at_batch(batch))
        keys = trial_keys(seed_key(0), N_TRIED, member_id=None)
        trials = jax.vmap(lambda key: task.trial(batch=self._batch, key=key))(keys)
        self._paid_each_step = check_loss(
            self._rewards.loss, self._model, trials, (low, high), key=seed_key(1)
        )
        self._episode: Episode | None = None
        first = jax.tree.map(lambda leaf: leaf[0], self._validation_trials)
        self.layout = observation_layout(self._model, first)
        size = self._model.network.n_inputs
        self.observation_space = spaces.Box(-np.inf, np.inf, (size,), np.float32)
        self.action_space = spaces.Box(low, high, (self._model.network.n_outputs,), np.float32)

    @property
    def stepwise_terms(self) -> tuple[str, ...]:
        """The names of the loss terms paid at each time step; the others are paid at the last one."""
        return self._paid_each_step

    @property
    def n_validation_trials(self) -> int:
        """The number of validation trials of the task."""
        return n_trials(self._validation_trials)

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
        if seed is not None and not is_int(seed):
            raise ValueError(f"`seed` must be a whole number, got {seed!r}.")
        super().reset(seed=seed)
        key = seed_key(int(self.np_random.integers(2**32)))
        trial = self._trial_of(dict(options or {}), key)
        self._episode, observed = begin_episode(self._model, trial, key=key)
        self._conditions = {name: np.asarray(value) for name, value in trial.conditions.items()}
        self._targets = _flat_targets(trial)
        self._n_done = 0
        return np.array(observed, np.float32), self._info()

    def _trial_of(self, options: dict[str, Any], key: Key[Array, ""]) -> Trial:
        index = options.pop("trial", None)
        if options:
            raise ValueError(f'`options` must be {{"trial": i}} or none, got {sorted(options)}.')
        if index is None:
            return _draw(self._task, self._batch, key)
        if not 0 <= index < self.n_validation_trials:
            raise ValueError(
                f'`options["trial"]` must be from 0 to {self.n_validation_trials - 1}, got {index}.'
            )
        return jax.tree.map(lambda leaf: leaf[index], self._validation_trials)

    def step(self, action: Float[np.ndarray, " action"]) -> Step:
        """Run one time step and return observation, reward, terminated, truncated (always False) and `info`.

        **Raises:** `ValueError` if `action` does not have one finite number per command;
        `gymnasium.error.ResetNeeded` if no trial is running.
        """
        space: Any = self.action_space
        numbers = np.asarray(action, np.float32)
        if numbers.shape != space.shape or not np.all(np.isfinite(numbers)):
            raise ValueError(f"`action` must be {space.shape[0]} finite numbers, got {action}.")
        n_steps = self.episode.trial.timeline.n_steps
        if self._n_done == n_steps:
            raise gymnasium.error.ResetNeeded("The trial is over: call `env.reset()`.")
        command = as_float_array(np.clip(numbers, space.low, space.high))
        self._episode, observed, reward = advance_episode(self._model, self._rewards, self.episode, command)
        self._n_done += 1
        over = self._n_done == n_steps
        return np.array(observed, np.float32), float(reward), over, False, self._info()

    def _info(self) -> dict[str, Any]:
        """Return the `info` of this step; all arrays are copies."""
        episode = self.episode
        info: dict[str, Any] = {"step": self._n_done}
        info["target"] = np.array(self._targets[max(self._n_done - 1, 0)])
        if isinstance(episode.state, LoopState):
            info["hand"] = np.array(episode.state.hand.position)
        info["conditions"] = {name: np.array(value) for name, value in self._conditions.items()}
        if self._n_done == episode.trial.timeline.n_steps:
            losses = _losses(self._rewards.loss, episode, self._model)
            info["loss"] = {name: float(value) for name, value in losses.items()}
        return info


@jit
def _draw(task: AbstractTask, batch: Int[Array, ""], key: Key[Array, ""]) -> Trial:
    return task.trial(batch=batch, key=key_stream(key, "specification"))


@jit
def _losses(loss: Loss, episode: Episode, model: AgentModel) -> dict[str, Float[Array, ""]]:
    terms: dict = loss(episode.states, episode.trial, model).terms
    return terms


def _flat_targets(trial: Trial) -> Float[np.ndarray, "time features"]:
    """Return target positions or target outputs; concatenate all targets if there are neither."""
    targets = trial.targets
    if isinstance(targets, HandState):
        return np.asarray(targets.position)
    if isinstance(targets, OutputTarget):
        return np.asarray(targets.values)
    leaves = [np.asarray(leaf).reshape(trial.timeline.n_steps, -1) for leaf in jax.tree.leaves(targets)]
    return np.concatenate(leaves, axis=1) if leaves else np.zeros((trial.timeline.n_steps, 0))
