"""Tasks as Gymnasium environments."""

from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from popsim._compiled import jit
from popsim._shared.checks import as_float_array, is_int
from popsim.gymnasium.agent import AgentModel
from popsim.gymnasium.agent_task import (
    AgentTask,
    agent_outputs,
    agent_task,
    check_validation_index,
    episode_info,
    observation_space,
)
from popsim.gymnasium.episode import Episode, advance_episode, begin_episode
from popsim.loss import Loss
from popsim.randomness import seed_key
from popsim.schedules import LAST_BATCH
from popsim.task import AbstractTask
from popsim.trial import n_trials

__all__ = ["TaskEnv"]

Step = tuple[Float[np.ndarray, " observation"], float, bool, bool, dict[str, Any]]


class TaskEnv(gymnasium.Env[np.ndarray, Any]):
    """A task as a reinforcement-learning environment: an episode is a trial, a step is a time step.

    - *Actions* are the commands of the plant in their unit (N m, N, excitations), or, without a plant, the
      outputs. They are clipped to `limits`. (`gymnasium.wrappers.RescaleAction(env, -1.0, 1.0)` makes them of
      order one.)
    - *Observations* are the input of the replaced network as one vector: the inputs of the trial, what its
      environment shows, and the feedback, delayed and with noise. `layout` maps each of them to its slice.
    - *Rewards* sum to minus the loss of the trial; see `popsim.gymnasium.StepRewards`. Loss terms on hidden
      units are zero.
    - An episode *terminates* at the end of the trial, whose length the task determines.
    - In trials with an environment (`Trial.environment`), the rewards and the end of the trial are those of
      the environment, and so are the actions: a whole number of `Discrete`, or a vector of `Box` within its
      bounds, or within `limits` where it has none. For an environment that takes the movement of a body they
      are the commands.
    - `info` contains "step" (the number of completed steps), "target" (of the last step; at reset, of the
      first), "hand" (m, with a plant), "conditions" by name, and after the last step "loss", terms by name.
      "target" is absent without targets, and "loss" where an environment pays.

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
        self._episode: Episode | None = None

    @property
    def stepwise_terms(self) -> tuple[str, ...]:
        """The names of the loss terms paid at each time step; the others are paid at the last one.

        Empty where the environment of the trials pays.
        """
        return self._setting.stepwise_terms

    @property
    def n_validation_trials(self) -> int:
        """The number of validation trials of the task."""
        return n_trials(self._setting.validation_trials)

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
        index = check_validation_index(self._setting, options)
        self._episode, observed, info = _begin(
            self._setting, key, None if index is None else jnp.asarray(index, int)
        )
        self._is_over = False
        return np.array(observed, np.float32), jax.tree.map(np.array, info) | {"step": 0}

    def step(self, action: Any) -> Step:
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


@jit
def _begin(
    setting: AgentTask, key: Key[Array, ""], index: Int[Array, ""] | None
) -> tuple[Episode, Float[Array, " observation"], dict[str, Any]]:
    if index is None:
        trial = setting.draw(key)
    else:
        trial = jax.tree.map(lambda leaf: leaf[index], setting.validation_trials)
    episode, observed = begin_episode(setting.model, setting.rewards, trial, key=key)
    return episode, observed, episode_info(episode)


@jit
def _advance(
    setting: AgentTask, episode: Episode, action: Float[Array, " output"]
) -> tuple[Episode, Float[Array, " observation"], Float[Array, ""], dict[str, Any]]:
    episode, observed, reward = advance_episode(setting.model, setting.rewards, episode, action)
    return episode, observed, reward, episode_info(episode)
