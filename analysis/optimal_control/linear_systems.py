"""The discrete linear system of a body, and its senses."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree

from popsim._shared.argument_shapes import check_one_or_each
from popsim._shared.checks import check_instance, check_time_step, n_steps_in
from popsim.hand import Load
from popsim.networks import NetworkState
from popsim.noise import AbstractNoise, GaussianNoise, MotorNoise, NoNoise
from popsim.plants import AbstractPlant, advance
from popsim.senses import SensoryChannel, channels_by_name
from popsim.states import LoopState

__all__ = ["LinearSystem", "linear_system"]

Vector = Float[Array, " state"]


class LinearSystem(eqx.Module):
    """The time step of a body about an operating point, x' = A x + B u + c, in SI units.

    - `A`, `B`, `c`: of the state x, as a vector, and the command u. c is zero for a linear body.
    - `plant`, `dt`: the body, and the time step (s).
    - `state`, `command`: the operating point.
    """

    A: Float[np.ndarray, "state state"]
    B: Float[np.ndarray, "state command"]
    c: Float[np.ndarray, " state"]
    plant: AbstractPlant
    state: PyTree[Array]
    command: Float[Array, " command"]
    dt: float = eqx.field(static=True)


def linear_system(
    plant: AbstractPlant, state: PyTree[Array], command: Float[Array | np.ndarray, " command"], *, dt: float
) -> LinearSystem:
    """Return the linear system of a body about an operating point, as its solver steps it.

    Activation of muscles and other filters of the body are part of its state. Delays and noise belong to the
    loop, and are arguments of `lqg`.

    **Arguments:**

    - `plant`: the body.
    - `state`: the operating point, such as `plant.rest_state(position)`.
    - `command`: the command there, such as `numpy.zeros(plant.n_commands)`.
    - `dt`: the time step, in seconds.
    """
    check_time_step(dt)
    check_one_body(plant)
    with jax.enable_x64(True):
        plant, state = as_double((plant, state))
        at, restore = ravel_pytree(state)
        at_command = jnp.asarray(command, float)
        step = step_function(plant, restore, dt)
        stepped, A, B, x, u = jax.device_get(
            jax.jit(lambda x, u: (step(x, u), *jax.jacfwd(step, (0, 1))(x, u), x, u))(at, at_command)
        )
    offset = stepped - A @ x - B @ u
    size = np.abs(A) @ np.abs(x) + np.abs(B) @ np.abs(u)
    offset = np.where(np.abs(offset) <= 1e-14 * size, 0.0, offset)
    return LinearSystem(A, B, offset, plant, state, at_command, dt)


def as_double(tree: PyTree) -> PyTree:
    """Return a PyTree with its floating-point arrays in double precision, where JAX has enabled it."""
    return jax.tree.map(lambda leaf: leaf.astype(float) if eqx.is_inexact_array(leaf) else leaf, tree)


def step_function(plant: AbstractPlant, restore: Callable[[Vector], Any], dt: float) -> Callable:
    """Return the time step of a body as a function of its state, as a vector, and a command."""

    def step(state: Vector, command: Array) -> Vector:
        return ravel_pytree(advance(plant, restore(state), command, Load(), dt=dt))[0]

    return step


def loop_state(plant: AbstractPlant, body: PyTree[Array], command: Array, noise: Any = 0.0) -> LoopState:
    """Return the state of a loop whose network is not known: a body, the command that moved it, its noise."""
    at_rest = LoopState.at_rest(body, plant.hand(body), NetworkState(None, command))
    return dataclasses.replace(at_rest, command=command + noise)


class DelayedSystem(eqx.Module):
    """A body with what its senses will deliver: z' = A z + B u, y = H z, z = (x, 1, features in transit).

    Delayed features wait in z in the order of channels, the youngest first. `noise` holds the variances of y.
    """

    A: Float[np.ndarray, "all all"]
    B: Float[np.ndarray, "all command"]
    H: Float[np.ndarray, "feature all"]
    noise: Float[np.ndarray, " feature"]


def add_senses(system: LinearSystem, channels: Mapping[str, SensoryChannel]) -> DelayedSystem:
    """Return a linear system with its channels, linear about the operating point, and sorted by name."""
    channels = channels_by_name(channels)
    n, m = system.B.shape
    sensed = {name: _linear_sense(system, name, channels[name]) for name in sorted(channels)}
    n_back = {name: _delay_steps(name, channels[name], system.dt) for name in sensed}
    n_all = n + 1 + sum(n_back[name] * len(rows) for name, rows in sensed.items())
    A, B = np.zeros((n_all, n_all)), np.zeros((n_all, m))
    A[:n, :n], A[:n, n], A[n, n], B[:n] = system.A, system.c, 1.0, system.B
    delivered, variances, start = [np.zeros((0, n_all))], [np.zeros(0)], n + 1
    for name, rows in sensed.items():
        now, n_features = np.pad(rows, ((0, 0), (0, n_all - n - 1))), len(rows)
        for _ in range(n_back[name]):
            A[start : start + n_features] = now
            now = np.eye(n_features, n_all, k=start)
            start += n_features
        delivered.append(now)
        variances.append(_variances(f"channels[{name!r}].noise", channels[name].noise, n_features)[0])
    return DelayedSystem(A, B, np.vstack(delivered), np.concatenate(variances))


def _linear_sense(
    system: LinearSystem, name: str, channel: SensoryChannel
) -> Float[np.ndarray, "feature state_and_1"]:
    """Return the features of a channel as a function of the state and 1."""
    if channel.senses_inputs:
        raise ValueError(
            f"`channels[{name!r}]` must sense the body, got {channel.sense}, which takes inputs."
        )
    with jax.enable_x64(True):
        at, restore = ravel_pytree(system.state)

        def features(state: Vector, command: Array) -> Array:
            return channel.sense(loop_state(system.plant, restore(state), command), system.plant)

        slope, by_command = jax.jacfwd(features, (0, 1))(at, system.command)
        if np.any(by_command):
            raise ValueError(f"`channels[{name!r}]` must sense the state of the body, got one of commands.")
        value = features(at, system.command)
        return np.hstack([np.asarray(slope), np.asarray(value - slope @ at)[:, None]])


def _delay_steps(name: str, channel: SensoryChannel, dt: float) -> int:
    delay = channel.delay if channel.own_delay is None else float(channel.own_delay)
    return n_steps_in(f"channels[{name!r}].delay", delay, dt)


def motor_variances(noise: AbstractNoise | None, n_commands: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the variance of each command: its constant part, and its factor of the command squared."""
    return _variances("motor_noise", NoNoise() if noise is None else noise, n_commands, MotorNoise)


def _variances(name: str, noise: AbstractNoise, n: int, *more: type) -> tuple[np.ndarray, np.ndarray]:
    if type(noise) not in (NoNoise, GaussianNoise, *more):
        known = ", ".join(kind.__name__ for kind in (NoNoise, GaussianNoise, *more))
        raise ValueError(f"`{name}` must be one of {known}, got {noise!r}.")
    stds = [getattr(noise, "std", getattr(noise, "constant", 0.0)), getattr(noise, "signal_dependent", 0.0)]
    for std in stds:
        check_one_or_each(name, std, n if isinstance(noise, GaussianNoise) else None)
    constant, dependent = (np.broadcast_to(np.asarray(std, float) ** 2, n) for std in stds)
    return constant, dependent


def check_one_body(plant: AbstractPlant) -> None:
    """Raise `ValueError` if a plant is that of an ensemble."""
    check_instance("plant", plant, AbstractPlant, "a body such as PointMass()")
    if plant.workspace.low.ndim != 1:
        raise ValueError(
            "`plant` must be one body, such as popsim.member(ensemble, 0).plant, got that of an ensemble."
        )
