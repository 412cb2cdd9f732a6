"""Many copies of a task as one vector environment of Gymnasium."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from jaxtyping import Array, Bool, Float, Int, Key, UInt32

from popsim._compiled import jit
from popsim._shared.checks import check_positive_int, is_int
from popsim.gymnasium.agent import AgentModel
from popsim.gymnasium.agent_task import (
    AgentTask,
    agent_outputs,
    agent_task,
    check_validation_index,
    episode_info,
    observation_space,
)
from popsim.gymnasium.episode import Episode, begin_episode, no_final_costs, observation, step_episode
from popsim.loss import Loss
from popsim.randomness import seed_key
from popsim.schedules import LAST_BATCH
from popsim.task import AbstractTask
from popsim.trial import Trial

__all__ = ["TaskVectorEnv"]

VectorStep = tuple[
    Float[np.ndarray, "copy observation"],
    Float[np.ndarray, " copy"],
    Bool[np.ndarray, " copy"],
    Bool[np.ndarray, " copy"],
    dict[str, Any],
]


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
        self._setting, self.single_action_space = agent_task(task, model, loss, limits, batch)
        self.single_observation_space, self.layout = observation_space(self._setting)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self._episodes: Episode | None = None
        self._generators: list[np.random.Generator] = []
        self._seeds: tuple[int, ...] = ()

    @property
    def stepwise_terms(self) -> tuple[str, ...]:
        """As `TaskEnv.stepwise_terms`."""
        return self._setting.stepwise_terms

    @property
    def np_random(self) -> tuple[np.random.Generator, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The random generator of each copy; empty before the first `reset`."""
        return tuple(self._generators)

    @property
    def np_random_seed(self) -> tuple[int, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The seed of each copy; empty before the first `reset`."""
        return self._seeds

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Float[np.ndarray, "copy observation"], dict[str, Any]]:
        """Start a trial in each copy and return the first observations and `info`.

        **Arguments:**

        - `seed`: that of the first copy, those of the others being the next whole numbers; or one for each
            copy. None to continue the current random sequence.
        - `options`: `{"trial": i}` for validation trial i, one for all copies or one for each.
        """
        is_new = self._seed_generators(seed)
        index = check_validation_index(self._setting, options)
        if index is not None:
            if np.shape(index) not in ((), (self.num_envs,)):
                raise ValueError(f'`options["trial"]` must be one or {self.num_envs} numbers, got {index}.')
            index = jnp.asarray(np.broadcast_to(index, self.num_envs))
        # A copy that continues its sequence has drawn its seed already, when its last trial began.
        seeds = jnp.asarray(self._draw_seeds(is_new))
        self._next_seeds = self._draw_seeds(np.ones(self.num_envs, bool))
        self._episodes, observed, info = _begin_episodes(self._setting, seeds, index)
        return np.array(observed), _stacked_info(info, np.ones(self.num_envs, bool))

    def _seed_generators(self, seed: Any) -> Bool[np.ndarray, " copy"]:
        """Seed the generators, and return whether each is new."""
        if seed is None or is_int(seed):
            seeds = [None if seed is None else int(seed) + copy for copy in range(self.num_envs)]
        else:
            seeds = [*seed] if isinstance(seed, Sequence | np.ndarray) else []
        if len(seeds) != self.num_envs or not all(one is None or is_int(one) for one in seeds):
            raise ValueError(
                f"`seed` must be a whole number, or one for each of {self.num_envs} copies, got {seed!r}."
            )
        generators, is_new = [], np.array([one is not None or not self._generators for one in seeds])
        for copy, one in enumerate(seeds):
            if not is_new[copy]:  # continues its sequence
                generators.append((self._generators[copy], self._seeds[copy]))
            else:
                generators.append(seeding.np_random(None if one is None else int(one)))
        self._generators = [generator for generator, _ in generators]
        self._seeds = tuple(int(one) for _, one in generators)
        return is_new

    def _draw_seeds(self, drawn: Bool[np.ndarray, " copy"]) -> np.ndarray:
        """Return the seed of the next trial of each copy, drawn anew where `drawn`."""
        seeds = np.zeros(self.num_envs, np.uint32) if np.all(drawn) else self._next_seeds.copy()
        for copy in np.flatnonzero(drawn):
            seeds[copy] = self._generators[copy].integers(2**32)
        return seeds

    def step(self, actions: Any) -> VectorStep:
        """Run one time step of each copy; copies whose trial is over by it begin their next one.

        **Returns:** observations, rewards, terminations, truncations (always False) and `info`.

        **Raises:** `ValueError` if `actions` are not of the action space, apart from its bounds;
        `gymnasium.error.ResetNeeded` before the first `reset`.
        """
        space: Any = self.single_action_space
        outputs = agent_outputs(space, actions, self.num_envs)
        if self._episodes is None:
            raise gymnasium.error.ResetNeeded("Call `envs.reset()` before `envs.step(actions)`.")
        self._episodes, advance = _advance_episodes(
            self._setting, self._episodes, jax.device_put(outputs), jax.device_put(self._next_seeds)
        )
        is_over = np.array(advance.is_over)
        info = _stacked_info(advance.info, np.ones(self.num_envs, bool))
        if is_over.any():
            self._next_seeds = self._draw_seeds(is_over)
            final = np.asarray(advance.final_observation)
            last = np.full(self.num_envs, None, object)
            for copy in np.flatnonzero(is_over):
                last[copy] = final[copy].copy()
            info |= {"final_obs": last, "_final_obs": is_over.copy()}
            info |= {"final_info": _stacked_info(advance.final_info, is_over), "_final_info": is_over.copy()}
        reward = np.array(advance.reward, np.float64)
        return np.array(advance.observation), reward, is_over, np.zeros_like(is_over), info


def _stacked_info(info: dict[str, Any], has: Bool[np.ndarray, " copy"]) -> dict[str, Any]:
    """Return `info` as vector environments give it: each value, and, by `_name`, which copies have it."""
    stacked: dict[str, Any] = {}
    for name, value in info.items():
        stacked[name] = _stacked_info(value, has) if isinstance(value, dict) else _of_those(value, has)
        stacked[f"_{name}"] = has.copy()
    return stacked


def _of_those(value: Any, has: Bool[np.ndarray, " copy"]) -> np.ndarray:
    values = np.array(value)
    values[~has] = 0  # as Gymnasium fills what copies do not have
    return values


class _Advance(eqx.Module):
    """What a step returns besides the new episodes.

    - `observation`, `info`: of the new episodes: of a copy that is over, those of its next trial.
    - `final_observation`, `final_info`: after the step, before new trials begin.
    - `reward`: of the step.
    - `is_over`: whether the trial is over, and another has begun.
    """

    observation: Float[Array, "copy observation"]
    info: dict[str, Any]
    final_observation: Float[Array, "copy observation"]
    final_info: dict[str, Any]
    reward: Float[Array, " copy"]
    is_over: Bool[Array, " copy"]


@jit
def _begin_episodes(
    setting: AgentTask, seeds: UInt32[Array, " copy"], index: Int[Array, " copy"] | None
) -> tuple[Episode, Float[Array, "copy observation"], dict[str, Any]]:
    """Start a trial in each copy; return the episodes, the first observations, and `info`."""
    keys = jax.vmap(seed_key)(seeds)
    if index is None:
        trials = jax.vmap(setting.draw)(keys)
    else:
        trials = jax.tree.map(lambda leaf: leaf[index], setting.validation_trials)

    def begin(trial: Trial, key: Key[Array, ""]) -> tuple[Episode, Float[Array, " observation"], Any]:
        keeps = setting.pays_at_end
        started = begin_episode(setting.model, setting.rewards, trial, keeps_states=keeps, key=key)
        return (*started, episode_info(started[0]))

    return jax.vmap(begin)(trials, keys)


@jit
def _advance_episodes(
    setting: AgentTask,
    episodes: Episode,
    actions: Float[Array, "copy outputs"],
    seeds: UInt32[Array, " copy"],
) -> tuple[Episode, _Advance]:
    """Run one time step of each copy, and start a new random trial in each that is over by it."""
    model, rewards = setting.model, setting.rewards
    after, reward = jax.vmap(lambda episode, action: step_episode(model, rewards, episode, action))(
        episodes, actions
    )
    any_over = jnp.any(after.is_over)
    final_observation = jax.vmap(lambda episode: observation(model, episode))(after)
    final_info = info = jax.vmap(episode_info)(after)
    if rewards is not None:
        rest = {}
        if setting.pays_at_end:
            rest = jax.lax.cond(
                any_over,
                lambda: jax.vmap(lambda each: rewards.final_costs(each.states, each.trial, model))(after),
                lambda: jax.vmap(lambda each: no_final_costs(model, rewards, each))(after),
            )
        final_info = info | {"loss": after.costs | rest}
        reward = reward - jnp.where(after.is_over, sum(rest.values(), jnp.zeros_like(reward)), 0.0)
    ended = after, final_observation, info

    def begin_anew() -> tuple[Episode, Float[Array, "copy observation"], dict[str, Any]]:
        fresh = _begin_episodes(setting, seeds, None)
        return jax.tree.map(lambda new, old: jax.vmap(jnp.where)(after.is_over, new, old), fresh, ended)

    # A branch for all copies: in most steps none is over, and no trial is drawn.
    new, observed, info = jax.lax.cond(any_over, begin_anew, lambda: ended)
    return new, _Advance(observed, info, final_observation, final_info, reward, after.is_over)
