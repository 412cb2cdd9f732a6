"""The exchange between a network and the environment of a trial."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from popsim._shared.checks import check_castable, check_like, kind_of
from popsim._shared.other_draws import guard_tracing
from popsim.environment import AbstractEnvironment, Box, Observation, Outcome
from popsim.hand import HandState
from popsim.model import AbstractModel, Unrecorded
from popsim.policies import AbstractPolicy
from popsim.randomness import key_stream, seed_key
from popsim.trial import Trial

__all__ = ["Interaction"]


class Upcoming(Unrecorded):
    """What an environment holds for the next time step: its state, what it shows, whether the trial ended."""

    state: PyTree[Array]
    observation: Observation
    is_over: Bool[Array, ""]


class Interaction(eqx.Module):
    """What passed between a network and the environment of its trial at a time step.

    - `received`: what the environment showed, and the network received, at this step, by name. A sensory
        channel of the same name delivers it later; see `states.feedback`.
    - `action`: what it did: a whole number, a vector, or the `HandState` after the step.
    - `log_probability`, `entropy`: of the action, in nats; zero without a policy.
    - `value`: the estimate of the critic; None without one.
    - `reward`: what the action was paid; zero after the trial has ended.
    - `active`: whether the trial had not ended before this step.
    - `record`: what else the environment recorded; None if it records nothing.
    - `upcoming`: what the environment holds for the next step; not recorded.
    """

    received: dict[str, Float[Array, "*axes _"]]
    action: Int[Array, "*axes"] | Float[Array, "*axes numbers"] | HandState
    log_probability: Float[Array, "*axes"]
    entropy: Float[Array, "*axes"]
    value: Float[Array, "*axes"] | None
    reward: Float[Array, "*axes"]
    active: Bool[Array, "*axes"]
    record: PyTree[Array]
    upcoming: Upcoming | None


def start_interaction(
    environment: AbstractEnvironment, action: Any, value: Float[Array, ""] | None, *, key: Key[Array, ""]
) -> Interaction:
    """Return the interaction before the first step; what a step will fill, in the scan, is zero here."""
    key = key_stream(key, "environment")
    name = type(environment).__name__
    state, observation = begin_environment(environment, key=key)

    def first_step(state: PyTree[Array]) -> tuple[PyTree[Array], Outcome]:
        with guard_tracing(f"`step` of {name}", "(state, action, *, key)", environment):
            after, outcome = environment.step(state, action, key=key)
        _check_step(name, state, observation, after, outcome)
        return after, outcome

    while True:
        after, outcome = eqx.filter_eval_shape(first_step, state)
        begun = (state, observation)
        state, observation = _promoted(begun, (after, outcome.observation))
        if _types(begun) == _types((state, observation)):  # which later steps keep
            break
    zero, false = jnp.zeros(()), jnp.zeros((), bool)
    return Interaction(
        received=jax.tree.map(jnp.zeros_like, observation),
        action=jax.tree.map(jnp.zeros_like, action),
        log_probability=zero,
        entropy=zero,
        value=None if value is None else jnp.zeros_like(value),
        reward=zero,
        active=false,
        record=jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), outcome.record),
        upcoming=Upcoming(state, observation, false),
    )


def _types(tree: PyTree[Array]) -> list[Any]:
    return [jnp.result_type(leaf) for leaf in jax.tree.leaves(tree)]


def _promoted(tree: PyTree[Array], other: PyTree) -> PyTree[Array]:
    """Return arrays in types that hold those of another tree, too: a count may begin as the integer 0."""
    with jax.numpy_dtype_promotion("standard"):
        return jax.tree.map(lambda *leaves: jnp.asarray(leaves[0], jnp.result_type(*leaves)), tree, other)


def _with_types(name: str, tree: PyTree[Array], like: PyTree[Array]) -> PyTree[Array]:
    """Return what a method returned in the types that are held, which must cut no numbers."""

    def cast(path: Any, leaf: Any, held: Any) -> Array:
        where = f"{name}, at {jax.tree_util.keystr(path)}," if path else name
        check_castable(where, jnp.result_type(leaf), held.dtype)
        return jnp.asarray(leaf, held.dtype)

    return jax.tree.map_with_path(cast, tree, like)


def begin_environment(
    environment: AbstractEnvironment, *, key: Key[Array, ""]
) -> tuple[PyTree[Array], Observation]:
    """Return the first state and observation; raise `ValueError` if they are not what `init` must return."""
    name = f"`init` of {type(environment).__name__}"
    with guard_tracing(name, "(*, key)", environment):
        state, observation = environment.init(key=key)
        _check_observation(name, observation)
    return state, observation


def _check_observation(name: str, observation: Any) -> None:
    expected = f'{name} must return a state, and a dict of vectors such as {{"reward": jnp.zeros(1)}}'
    for key, values in observation.items():
        if not isinstance(key, str) or jnp.ndim(values) != 1:
            raise ValueError(f"{expected}, got {key!r} of shape {jnp.shape(values)}.")


def _check_step(name: str, state: Any, observation: Observation, after: Any, outcome: Any) -> None:
    """Raise `ValueError` unless what `step` of an environment returns continues what `init` began."""
    step = f"`step` of {name}"
    if not isinstance(outcome, Outcome):
        raise ValueError(f"{step} must return a state and an Outcome, got {kind_of(outcome)}.")
    check_like(step, "the state of `init`", state, after)
    check_like(step, "the observation of `init`", observation, outcome.observation)
    if not jnp.issubdtype(kind := jnp.result_type(outcome.done), bool):
        raise ValueError(f"{step} must return True or False as `done`, as in `count >= 10`, got {kind}.")
    for part in ("reward", "done"):
        if jnp.shape(getattr(outcome, part)) != ():
            raise ValueError(
                f"{step} must return one number as `{part}`, got shape {jnp.shape(getattr(outcome, part))}."
            )


def act(
    policy: AbstractPolicy, output: Float[Array, " output"], interaction: Interaction, *, key: Key[Array, ""]
) -> tuple[Any, Interaction]:
    """Return the action that a policy draws, and the interaction with its probability."""
    drawn = policy.act(output, key=key_stream(key, "policy"))
    acting = dataclasses.replace(
        interaction,
        log_probability=drawn.log_probability,
        entropy=drawn.entropy,
        value=policy.value(output),
    )
    return drawn.value, acting


def respond(
    environment: AbstractEnvironment, interaction: Interaction, action: Any, *, key: Key[Array, ""]
) -> Interaction:
    """Return the interaction of a time step, after the environment has answered to an action."""
    before, actions = interaction.upcoming, environment.actions
    assert before is not None
    if isinstance(actions, Box):
        action = jnp.clip(action, actions.low, actions.high)
    state, outcome = environment.step(before.state, action, key=key_stream(key, "environment"))
    name, active = f"`step` of {type(environment).__name__}", ~before.is_over

    def unless_over(new: PyTree[Array], old: PyTree[Array]) -> PyTree[Array]:
        # After the end nothing changes, whatever an environment computes then.
        return jax.tree.map(lambda x, y: jnp.where(before.is_over, y, x), _with_types(name, new, old), old)

    reward = jnp.asarray(outcome.reward, interaction.reward.dtype)
    return dataclasses.replace(
        interaction,
        received=before.observation,
        action=action,
        reward=jnp.where(active, reward, 0.0),
        active=active,
        record=unless_over(outcome.record, interaction.record),
        upcoming=Upcoming(
            unless_over(state, before.state),
            unless_over(outcome.observation, before.observation),
            before.is_over | outcome.done,
        ),
    )


def resume_interaction(
    environment: AbstractEnvironment, fresh: Interaction, ended: Interaction, *, key: Key[Array, ""]
) -> Interaction:
    """Return the interaction before the first step of a trial of a session; it continues the one before."""
    assert fresh.upcoming is not None and ended.upcoming is not None
    name = f"`resume` of {type(environment).__name__}"
    with guard_tracing(name, "(state, *, key)", environment):
        state, observation = environment.resume(ended.upcoming.state, key=key_stream(key, "environment"))
    check_like(name, "the state of `init`", fresh.upcoming.state, state)
    check_like(name, "the observation of `init`", fresh.upcoming.observation, observation)
    state = _with_types(name, state, fresh.upcoming.state)
    observation = _with_types(name, observation, fresh.upcoming.observation)
    return dataclasses.replace(fresh, upcoming=Upcoming(state, observation, fresh.upcoming.is_over))


def check_has_environment(policy: AbstractPolicy | None, trial: Trial) -> None:
    """Raise `ValueError` if a model has a policy, and a trial no environment to act on."""
    if policy is not None and trial.environment is None:
        raise ValueError("`policy` must be None for trials without an environment, got a policy.")


def showing(observation: Observation) -> Interaction:
    """Return an interaction with an observation to come, and nothing else."""
    zero, false = jnp.zeros(()), jnp.zeros((), bool)
    upcoming = Upcoming((), observation, false)
    return Interaction({}, jnp.zeros(1), zero, zero, None, zero, false, None, upcoming)


def check_contract(model: AbstractModel, trials: Trial) -> None:
    """Raise `ValueError` if the environment of stacked trials breaks its contract, from shapes alone."""
    first = eqx.filter_eval_shape(lambda trials: jax.tree.map(lambda leaf: leaf[0], trials), trials)
    eqx.filter_eval_shape(lambda trial: model.init(trial, key=seed_key(0)), first)


def observation_to_come(interaction: Interaction | None) -> Observation:
    """Return what the network receives from the environment at the next step; nothing without one."""
    return {} if interaction is None or interaction.upcoming is None else interaction.upcoming.observation


def active_steps(states: Any) -> Bool[Array, "*time"] | None:
    """Return whether each step belongs to the trial, which an environment may end; None without one."""
    interaction = getattr(states, "interaction", None)
    return None if interaction is None else interaction.active


def last_active_step(states: Any) -> Int[Array, ""] | int:
    """Return the index of the last time step of a trial that counts."""
    active = active_steps(states)
    return -1 if active is None else jnp.sum(active) - 1
