"""Many copies of an episode at a time: steps, rewards, and new trials for copies that are over."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PyTree, UInt32

from popsim._compiled import jit
from popsim.gymnasium.agent import with_action
from popsim.gymnasium.agent_task import AgentTask, flat_targets
from popsim.gymnasium.episode import has_ended, observation, run_step, step_key
from popsim.model import initial_state
from popsim.randomness import seed_key
from popsim.states import LoopState
from popsim.trial import Trial, TrialAtStep

__all__ = ["Episodes", "Advance", "begin_episodes", "advance_episodes"]


class Episodes(eqx.Module):
    """Trials in progress; each array has a leading axis of copies.

    - `trial`, `key`, `step`, `state`: as in an `Episode`.
    - `states`: the recorded states so far; None unless a loss term needs them at the last step.
    - `costs`: by name, the sum so far of each loss term that is paid at each step.
    """

    trial: Trial
    key: Key[Array, "*copy"]
    step: Int[Array, "*copy"]
    state: PyTree[Array]
    states: PyTree[Array]
    costs: dict[str, Float[Array, "*copy"]]


class Advance(eqx.Module):
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
def begin_episodes(
    setting: AgentTask, seeds: UInt32[Array, " copy"], index: Int[Array, " copy"] | None
) -> tuple[Episodes, Float[Array, "copy observation"], dict[str, Any]]:
    """Start a trial in each copy; return the episodes, the first observations, and `info`.

    **Arguments:**

    - `setting`: the task and the model.
    - `seeds`: that of each copy, for the trial and its noise.
    - `index`: validation trials; None for random ones.
    """
    return _begin_all(setting, seeds, index)


def _begin_all(
    setting: AgentTask, seeds: UInt32[Array, " copy"], index: Int[Array, " copy"] | None
) -> tuple[Episodes, Float[Array, "copy observation"], dict[str, Any]]:
    keys = jax.vmap(seed_key)(seeds)
    if index is None:
        trials = jax.vmap(setting.draw)(keys)
    else:
        trials = jax.tree.map(lambda leaf: leaf[index], setting.validation_trials)
    return jax.vmap(lambda trial, key: _begin(setting, trial, key))(trials, keys)


def _begin(
    setting: AgentTask, trial: Trial, key: Key[Array, ""]
) -> tuple[Episodes, Float[Array, " observation"], dict[str, Any]]:
    state, step, states = initial_state(setting.model, trial, key=key), jnp.zeros((), int), None
    if setting.pays_at_end:
        recorded, n_steps = setting.model.record(state), trial.timeline.n_steps
        states = jax.tree.map(lambda leaf: jnp.tile(leaf, (n_steps, *[1] * leaf.ndim)), recorded)
    episode = Episodes(trial, key, step, state, states, dict.fromkeys(setting.stepwise_terms, jnp.zeros(())))
    return episode, _observe(setting, episode), _info(episode)


def _observe(setting: AgentTask, episode: Episodes) -> Float[Array, " observation"]:
    key = step_key(episode.key, episode.step)
    return observation(setting.model, episode.trial, episode.state, step=episode.step, key=key)


def _info(episode: Episodes) -> dict[str, Any]:
    """Return the `info` of `TaskEnv`, except for losses."""
    targets, state = flat_targets(episode.trial), episode.state
    info: dict[str, Any] = {"step": episode.step}
    if targets is not None:
        info["target"] = targets[jnp.maximum(episode.step - 1, 0)]
    if isinstance(state, LoopState):
        info["hand"] = state.hand.position
    info["conditions"] = episode.trial.conditions
    return info


@jit
def advance_episodes(
    setting: AgentTask,
    episodes: Episodes,
    actions: Float[Array, "copy outputs"],
    seeds: UInt32[Array, " copy"],
) -> tuple[Episodes, Advance]:
    """Run one time step of each copy, and start a new random trial in each that is over by it.

    **Arguments:**

    - `setting`: the task and the model.
    - `episodes`: the episodes, none of which is over.
    - `actions`: the outputs of the agents.
    - `seeds`: that of the next trial of each copy.
    """
    after, reward, is_over = jax.vmap(lambda episode, action: _advance(setting, episode, action))(
        episodes, actions
    )
    final_observation = jax.vmap(lambda episode: _observe(setting, episode))(after)
    final_info = jax.vmap(_info)(after)
    any_over = jnp.any(is_over)
    if setting.rewards is not None:
        final_info["loss"] = after.costs
    if setting.pays_at_end:
        rest = jax.lax.cond(any_over, lambda: _rest(setting, after), lambda: _no_rest(setting, after))
        final_info["loss"] = after.costs | rest
        reward = reward - jnp.where(is_over, sum(rest.values(), jnp.zeros_like(reward)), 0.0)
    info = {name: value for name, value in final_info.items() if name != "loss"}
    ended = after, final_observation, info

    def begin_anew() -> tuple[Episodes, Float[Array, "copy observation"], dict[str, Any]]:
        fresh = _begin_all(setting, seeds, None)
        return jax.tree.map(lambda new, old: jax.vmap(jnp.where)(is_over, new, old), fresh, ended)

    # A branch for all copies: in most steps none is over, and no trial is drawn.
    episodes, observed, info = jax.lax.cond(any_over, begin_anew, lambda: ended)
    return episodes, Advance(observed, info, final_observation, final_info, reward, is_over)


def _advance(
    setting: AgentTask, episode: Episodes, action: Float[Array, " outputs"]
) -> tuple[Episodes, Float[Array, ""], Bool[Array, ""]]:
    """Return the episode of one copy after a step, its reward so far known, and whether it is over."""
    trial, step, model = episode.trial, episode.step, setting.model
    acting, key = with_action(model, action), step_key(episode.key, step)
    state = run_step(acting, trial, episode.state, step=step, key=key)
    recorded, states, costs = model.record(state), episode.states, episode.costs
    if setting.rewards is None:
        reward = state.interaction.reward
    else:
        added = setting.rewards.costs(recorded, TrialAtStep(trial, step), model)
        costs = {name: costs[name] + cost for name, cost in added.items()}
        reward = -sum(added.values(), jnp.zeros(()))
    if states is not None:
        states = jax.tree.map(lambda all_, now: all_.at[step].set(now), states, recorded)
    step = step + 1
    after = Episodes(trial, episode.key, step, state, states, costs)
    return after, reward, has_ended(trial, state, step)


def _rest(setting: AgentTask, after: Episodes) -> dict[str, Float[Array, " copy"]]:
    """Return the loss terms that are paid at the last step."""
    assert setting.rewards is not None
    final_costs = setting.rewards.final_costs
    return jax.vmap(lambda states, trial: final_costs(states, trial, setting.model))(
        after.states, after.trial
    )


def _no_rest(setting: AgentTask, after: Episodes) -> dict[str, Float[Array, " copy"]]:
    return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(_rest, setting, after))
