"""Many copies of a task as one vector environment of Gymnasium."""

from collections.abc import Sequence
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from jaxtyping import Array, Bool, Float, Int, UInt32

from popsim._compiled import jit
from popsim._shared.checks import check_positive_int
from popsim.gymnasium import env
from popsim.gymnasium.episode import AgentModel, Episode, advance_episodes
from popsim.loss import Loss
from popsim.schedules import LAST_BATCH
from popsim.task import AbstractTask

__all__ = ["TaskVectorEnv", "make_vector_env"]

Numbers = Float[np.ndarray, "copy ..."]
Flags = Bool[np.ndarray, " copy"]


# Not a `FunctionalJaxVectorEnv` of Gymnasium: in 1.4 its state is one array, and in a step in which a copy is
# reset the others stay where they are.
class TaskVectorEnv(VectorEnv[np.ndarray, Any, np.ndarray]):
    """Copies of a `TaskEnv` that are stepped together, by one compiled program.

    Copy i does what a `TaskEnv` with the seed `seed + i` does, as in a `gymnasium.vector.SyncVectorEnv`, with
    actions, observations, rewards and `info` stacked.

    The autoreset mode, `metadata["autoreset_mode"]`, is `AutoresetMode.SAME_STEP`: the step that ends the
    trial of a copy also begins its next one, so that no step is without an action. It returns the first
    observation of the next trial; the last one of the trial that ended is in `info["final_obs"]`, and its
    `info`, with the loss, in `info["final_info"]`.

    ```python
    envs = TaskVectorEnv(task, agent_loop(task, plant, channels), num_envs=64)
    observations, infos = envs.reset(seed=0)
    observations, rewards, terminations, truncations, infos = envs.step(envs.action_space.sample())
    ```

    **Arguments:**

    - `task`, `model`, `loss`, `limits`, `batch`: as for `TaskEnv`.
    - `num_envs`: the number of copies.
    """

    metadata: dict[str, Any] = {"render_modes": [], "autoreset_mode": AutoresetMode.SAME_STEP}

    def __init__(
        self,
        task: AbstractTask,
        model: AgentModel | None = None,
        *,
        num_envs: int,
        loss: Loss | None = None,
        limits: tuple[float, float] | None = None,
        batch: int = LAST_BATCH,
    ):
        check_positive_int("num_envs", num_envs)
        self.num_envs = int(num_envs)
        self._setting, self.single_action_space = env.agent_task(task, model, loss, limits, batch)
        self.single_observation_space, self.layout = env.observation_space(self._setting)
        self.stepwise_terms = self._setting.stepwise_terms
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self._episodes: Episode | None = None
        self._next_seeds = np.zeros(self.num_envs, np.uint32)
        self._copies = [gymnasium.Env[Any, Any]() for _ in range(self.num_envs)]  # which hold the generators

    @property
    def np_random(self) -> tuple[np.random.Generator, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The random generator of each copy."""
        return tuple(copy.np_random for copy in self._copies)

    @property
    def np_random_seed(self) -> tuple[int, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The seed of each copy."""
        return tuple(copy.np_random_seed for copy in self._copies)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Float[np.ndarray, "copy observation"], dict[str, Any]]:
        """Start a trial in each copy and return the first observations and `info`.

        **Arguments:**

        - `seed`: that of the first copy, those of the others being the next whole numbers; or one for each
            copy. None to continue the current random sequence.
        - `options`: `{"trial": i}` for validation trial i, one for all copies or one for each.
        """
        index = env.validation_index(self._setting, options, self.num_envs)
        if isinstance(seed, Sequence | np.ndarray):
            seeds = [*seed]
        else:
            seeds = [None if seed is None else seed + copy for copy in range(self.num_envs)]
        if len(seeds) != self.num_envs:
            raise ValueError(f"`seed` must be one for each of {self.num_envs} copies, got {seed!r}.")
        for copy, number in zip(self._copies, seeds, strict=True):
            copy.reset(seed=number)
        # A copy that continues its sequence has drawn its seed already, when its last trial began.
        begins = np.array([number is not None or self._episodes is None for number in seeds])
        trial_seeds = self._draw_seeds(begins)
        everywhere = np.ones(self.num_envs, bool)
        self._next_seeds = self._draw_seeds(everywhere)
        self._episodes, observed, info = _begin_episodes(self._setting, *jax.device_put((trial_seeds, index)))
        return np.array(observed), _stacked_info(info, everywhere)

    def _draw_seeds(self, drawn: Flags) -> np.ndarray:
        """Return the seed of the next trial of each copy, drawn anew where `drawn`."""
        seeds = self._next_seeds.copy()
        for copy in np.flatnonzero(drawn):
            seeds[copy] = self._copies[copy].np_random.integers(2**32)
        return seeds

    def step(self, actions: Any) -> tuple[Numbers, Numbers, Flags, Flags, dict[str, Any]]:
        """Run one time step of each copy; copies whose trial is over by it begin their next one.

        **Returns:** observations, rewards, terminations, truncations (always False) and `info`.

        **Raises:** `ValueError` if `actions` are not of the action space, apart from its bounds;
        `gymnasium.error.ResetNeeded` before the first `reset`.
        """
        space: Any = self.single_action_space
        outputs = env.agent_outputs(space, actions, self.num_envs)
        if self._episodes is None:
            raise gymnasium.error.ResetNeeded("Call `envs.reset()` before `envs.step(actions)`.")
        begun, ended = _advance_episodes(
            self._setting, self._episodes, *jax.device_put((outputs, self._next_seeds))
        )
        self._episodes, observed, info = begun
        last_observed, last_info, reward, is_over = jax.tree.map(np.array, ended)
        info = _stacked_info(info, np.ones(self.num_envs, bool))
        if is_over.any():
            self._next_seeds = self._draw_seeds(is_over)
            final = np.full(self.num_envs, None, object)
            for copy in np.flatnonzero(is_over):
                final[copy] = last_observed[copy].copy()
            info |= {"final_obs": final, "_final_obs": is_over.copy()}
            info |= {"final_info": _stacked_info(last_info, is_over), "_final_info": is_over.copy()}
        return np.array(observed), reward.astype(float), is_over, np.zeros_like(is_over), info


def _stacked_info(info: dict[str, Any], has: Flags) -> dict[str, Any]:
    """Return `info` as vector environments give it: each value, and, by `_name`, which copies have it."""
    stacked: dict[str, Any] = {}
    for name, value in info.items():
        stacked[f"_{name}"] = has.copy()
        if isinstance(value, dict):
            stacked[name] = _stacked_info(value, has)
        else:
            stacked[name] = np.array(value)
            stacked[name][~has] = 0  # as Gymnasium fills what copies do not have
    return stacked


@jit
def _begin_episodes(
    setting: env.AgentTask, seeds: UInt32[Array, " copy"], index: Int[Array, " copy"] | None
) -> env.Begun:
    return jax.vmap(lambda *of_copy: env.begin(setting, *of_copy, keeps_states=False))(seeds, index)


@jit
def _advance_episodes(
    setting: env.AgentTask,
    episodes: Episode,
    actions: Float[Array, "copy outputs"],
    seeds: UInt32[Array, " copy"],
) -> tuple[env.Begun, tuple[Array, dict[str, Any], Array, Array]]:
    """Run one time step of each copy, and start a new random trial in each that is over by it.

    **Returns:** what copies have now, and the observation, `info`, reward and end of the step before that.
    """
    after, observed, reward = advance_episodes(setting.model, setting.rewards, episodes, actions)
    # A branch for all copies: in most steps none is over, and no trial is drawn.
    any_over = jnp.any(after.is_over)
    info = jax.vmap(env.episode_info)(after)
    unchanged = after, observed, info

    def begin_anew() -> env.Begun:
        fresh = _begin_episodes(setting, seeds, None)
        return jax.tree.map(lambda new, old: jax.vmap(jnp.where)(after.is_over, new, old), fresh, unchanged)

    final_info = info if setting.rewards is None else info | {"loss": after.costs}
    begun = jax.lax.cond(any_over, begin_anew, lambda: unchanged)
    return begun, (observed, final_info, reward, after.is_over)


def make_vector_env(*, task: str, num_envs: int = 1, **settings: Any) -> TaskVectorEnv:
    """Build copies of the environment of a registered task, `num_envs`; other arguments as for `make_env`."""
    return TaskVectorEnv(**env.registered_arguments(task, settings), num_envs=num_envs)
