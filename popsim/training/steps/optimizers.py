"""Optimizers whose hyperparameters may differ per member."""

import functools
import inspect
import types
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.typing import DTypeLike
from jaxtyping import Array, Float, Int, PyTree, ScalarLike

from popsim._compiled import jit_fast_compile
from popsim._shared.argument_shapes import check_one_number
from popsim._shared.checks import check_positive
from popsim._shared.plain_values import plain_value
from popsim.per_member import PerMember, ScaledLearningRate, is_per_member, without_member_axes

__all__ = ["inject_hyperparams", "adam", "cosine_decay", "sgd"]

MOST_OPTIMIZERS = 64


def inject_hyperparams(
    inner_factory: Callable[..., optax.GradientTransformation],
    static_args: str | Iterable[str] = (),
    hyperparam_dtype: DTypeLike | None = None,
) -> Callable[..., optax.GradientTransformationExtraArgs]:
    """Return `optax.inject_hyperparams` of a factory, with hyperparameters that may differ per member.

    `inject_hyperparams(optax.adamw)(1e-3, weight_decay=PerMember([0.0, 1e-4]))`; also
    `PerMember([1e-3, 3e-3]) * schedule`. The state of each member holds the hyperparameters of its last
    update. The optimizer is then for ensembles, see `TrainState.initial_ensemble`.

    **Arguments:**

    - `inner_factory`: builds an optimizer from hyperparameters, such as `optax.adamw`.
    - `static_args`: the names of its parameters that are functions but not schedules.
    - `hyperparam_dtype`: the dtype of the hyperparameters; by default that of the parameters.

    **Returns:** a function with the arguments of `inner_factory`.
    """
    static = {static_args} if isinstance(static_args, str) else set(static_args)
    dtype = None if hyperparam_dtype is None else jnp.dtype(hyperparam_dtype)
    inject = optax.inject_hyperparams(inner_factory, static, dtype)
    signature = inspect.signature(inner_factory)

    @functools.wraps(inner_factory)
    def build(*args: Any, **kwargs: Any) -> optax.GradientTransformationExtraArgs:
        bound = signature.bind(*args, **kwargs)
        by_member = {}
        for name, value in bound.arguments.items():
            if isinstance(value, np.generic):  # which optax would take for a constant
                value = bound.arguments[name] = plain_value(name, value)
            scale = value.scale if isinstance(value, ScaledLearningRate) else value
            if not isinstance(scale, PerMember):
                continue
            if name in static:
                raise ValueError(f"`{name}` cannot differ between members: it is one of `static_args`.")
            by_member[name] = scale
            bound.arguments[name] = _placeholder(value)
        optimizer = inject(*bound.args, **bound.kwargs)
        return _with_values_of_members(optimizer, by_member) if by_member else optimizer

    return build


def init_optimizer(optimizer: optax.GradientTransformation, params: PyTree[Array]) -> PyTree:
    """Return the initial optimizer state of one model."""
    with jax.numpy_dtype_promotion("standard"):  # optax fails under "strict"
        opt_state = optimizer.init(params)
    for name in _hyperparams_by_member(opt_state):
        raise ValueError(
            f"`{name}` of the optimizer must be one number or schedule for a single model, got one for each "
            "member of an ensemble."
        )
    return opt_state


def init_optimizer_of_members(
    optimizer: optax.GradientTransformation, params: PyTree[Array], n_members: int
) -> PyTree[Array]:
    """Return the initial optimizer state of an ensemble, with a leading member axis."""
    with jax.numpy_dtype_promotion("standard"):
        states = _states_of_members(optimizer.init, params)
    for name, value in _hyperparams_by_member(states).items():
        count = value.values.shape[1]
        if count != n_members:
            raise ValueError(
                f"`{name}` of the optimizer must have a value for each of {n_members} members, got {count}."
            )
    # Under vmap, the state of every member holds the same values of all members: take the first.
    return without_member_axes(states)


@jit_fast_compile
def _states_of_members(init: Callable[[PyTree[Array]], PyTree], params: PyTree[Array]) -> PyTree[Array]:
    return jax.vmap(init)(params)


class _ScaledScheduleState(NamedTuple):
    n_updates: Int[Array, ""]
    scale: Any


class _StatefulScaledSchedule:
    """A schedule times a number kept in the state, as a stateful schedule of optax."""

    def __init__(self, schedule: Callable[[Any], Any]):
        self.schedule = schedule

    def init(self) -> _ScaledScheduleState:
        return _ScaledScheduleState(jnp.zeros([], jnp.int32), 1.0)

    def update(self, state: _ScaledScheduleState, **extra_args: Any) -> _ScaledScheduleState:
        return state._replace(n_updates=optax.safe_increment(state.n_updates))

    def __call__(self, state: _ScaledScheduleState, **extra_args: Any) -> Any:
        return self.schedule(state.n_updates) * state.scale


def _placeholder(value: PerMember | ScaledLearningRate) -> Any:
    """Return the placeholder for optax, until the state holds the values of the members."""
    if isinstance(value, ScaledLearningRate):
        return _StatefulScaledSchedule(value.schedule)
    first = np.asarray(value.values)[:1]
    return first.reshape(first.shape[1:])  # as numpy: optax converts it to the parameters' dtype


def _with_values_of_members(
    optimizer: optax.GradientTransformationExtraArgs, by_member: dict[str, PerMember]
) -> optax.GradientTransformationExtraArgs:
    """Return the optimizer with an initial state that holds the values of all members, in optax's dtype."""

    def init(params: PyTree) -> Any:
        state: Any = optimizer.init(params)
        hyperparams, schedule_states = dict(state.hyperparams), dict(state.hyperparams_states)
        for name, value in by_member.items():
            initial = hyperparams[name]
            hyperparams[name] = PerMember(value.values.astype(initial.dtype))
            if name in schedule_states:
                schedule_states[name] = schedule_states[name]._replace(scale=hyperparams[name])
                hyperparams[name] *= initial
        return state._replace(hyperparams=hyperparams, hyperparams_states=schedule_states)

    def update(updates: PyTree, state: Any, params: PyTree = None, **extra_args: Any) -> tuple[PyTree, Any]:
        for name in _hyperparams_by_member(state):
            raise ValueError(
                f"`{name}` of the optimizer differs between members: get the optimizer's state from "
                "`TrainState.initial_ensemble`, and update under `jax.vmap`."
            )
        return optimizer.update(updates, state, params, **extra_args)

    return optax.GradientTransformationExtraArgs(init, update)


def _hyperparams_by_member(opt_state: PyTree) -> dict[str, PerMember]:
    """Return by name the hyperparameters with the values of all members still in the state."""
    nodes = jax.tree.leaves_with_path(opt_state, is_leaf=is_per_member)
    return {_innermost_name(path): node for path, node in nodes if is_per_member(node)}


def injected_hyperparameters(
    optimizer: optax.GradientTransformation, opt_state: PyTree, one_member: PyTree
) -> tuple[dict[str, int], set[str]]:
    """Return the injected hyperparameters that an ensemble may change, and which of them differ by member."""
    indices, scheduled, scaled = {}, set(), {}
    for index, (path, leaf) in enumerate(jax.tree.leaves_with_path(opt_state)):
        fields = [getattr(step, "name", None) for step in path]
        if "hyperparams_states" in fields:
            scheduled.add(name := _innermost_name(path))
            scaled |= {name: index} if fields[-1] == "scale" else {}
        elif "hyperparams" in fields and jnp.issubdtype(leaf.dtype, jnp.floating):
            indices[_innermost_name(path)] = index
    with jax.numpy_dtype_promotion("standard"):
        of_members = set(_hyperparams_by_member(jax.eval_shape(optimizer.init, one_member)))
    unscheduled = {name: index for name, index in indices.items() if name not in scheduled}
    return unscheduled | {name: index for name, index in scaled.items() if name in of_members}, of_members


def _innermost_name(path: tuple) -> str:
    return next(step.key for step in reversed(path) if isinstance(step, jax.tree_util.DictKey))


ScheduleOrRate = float | PerMember | ScaledLearningRate | optax.Schedule


def cosine_decay(
    learning_rate: ScalarLike | PerMember, n_batches: int
) -> optax.Schedule | ScaledLearningRate:
    """Return a learning rate that falls to zero along half a cosine (Loshchilov & Hutter 2017,
    arXiv 1608.03983, equation 5).

    The initial rate may be a `PerMember`; after `n_batches` batches it is zero.
    """
    check_positive("learning_rate", learning_rate)
    check_positive("n_batches", n_batches)
    if isinstance(learning_rate, PerMember):
        return learning_rate * cosine_decay(1.0, n_batches)
    if isinstance(learning_rate, float | int) and isinstance(n_batches, int):
        return _cosine_decay(learning_rate, n_batches)
    return optax.cosine_decay_schedule(learning_rate, n_batches)


_cosine_decay = functools.lru_cache(MOST_OPTIMIZERS, typed=True)(optax.cosine_decay_schedule)


def adam(
    learning_rate: ScheduleOrRate, *, clip_norm: float | PerMember | None = None
) -> optax.GradientTransformationExtraArgs:
    """Adam (Kingma & Ba 2015, arXiv 1412.6980), after clipping the global norm of the gradient.

    **Arguments:**

    - `learning_rate`: a number or an optax schedule; per member, `PerMember` or `PerMember` times a schedule.
    - `clip_norm`: the largest global norm of a member's gradient, which may be a `PerMember`; None for no
        clipping.
    """
    return _with_clipping(optax.adam, learning_rate, clip_norm)


def sgd(
    learning_rate: ScheduleOrRate, *, clip_norm: float | PerMember | None = None
) -> optax.GradientTransformationExtraArgs:
    """Plain stochastic gradient descent; arguments and errors as for `adam`."""
    return _with_clipping(optax.sgd, learning_rate, clip_norm)


def _with_clipping(
    optimizer: Callable[..., optax.GradientTransformation],
    learning_rate: ScheduleOrRate,
    clip_norm: float | PerMember | None,
) -> optax.GradientTransformationExtraArgs:
    if isinstance(learning_rate, ScaledLearningRate):
        check_positive("learning_rate", learning_rate.scale)
    elif not callable(learning_rate):
        check_one_number("learning_rate", learning_rate)
        check_positive("learning_rate", learning_rate)
    if clip_norm is not None:
        check_one_number("clip_norm", clip_norm)
        check_positive("clip_norm", clip_norm)
    hashable = float | int | types.FunctionType | None
    if isinstance(learning_rate, hashable) and isinstance(clip_norm, hashable):
        return _shared_chain(optimizer, learning_rate, clip_norm)
    return _chain(optimizer, learning_rate, clip_norm)


def _chain(
    optimizer: Callable[..., optax.GradientTransformation],
    learning_rate: ScheduleOrRate,
    clip_norm: float | PerMember | None,
) -> optax.GradientTransformationExtraArgs:
    injected = inject_hyperparams(optimizer)(learning_rate=learning_rate)
    return optax.chain(injected) if clip_norm is None else optax.chain(_clip(clip_norm), injected)


# A training with an optimizer that is the same object is not traced again.
_shared_chain = functools.lru_cache(MOST_OPTIMIZERS, typed=True)(_chain)


def _clip(clip_norm: float | PerMember) -> optax.GradientTransformation:
    if isinstance(clip_norm, PerMember):
        return inject_hyperparams(optax.clip_by_global_norm)(max_norm=clip_norm)
    return optax.clip_by_global_norm(clip_norm)


def learning_rate_of(opt_state: PyTree) -> Float[Array, "*member"]:
    """Return the learning rate of the last update if the optimizer state holds it, else NaN."""
    rates = [
        value
        for path, value in optax.tree_utils.tree_get_all_with_path(opt_state, "learning_rate")
        if hasattr(value, "dtype") and not any(getattr(p, "name", "") == "hyperparams_states" for p in path)
    ]
    return jnp.asarray(rates[0], jnp.result_type(float)) if rates else jnp.asarray(jnp.nan)
