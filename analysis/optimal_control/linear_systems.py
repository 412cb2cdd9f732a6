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

from popsim._shared.checks import check_time_step, n_steps_in
from popsim.hand import Load
from popsim.networks import NetworkState
from popsim.noise import GaussianNoise, NoNoise
from popsim.plants import AbstractPlant, advance
from popsim.senses import SensoryChannel
from popsim.states import LoopState

__all__ = ["LinearSystem", "linear_system"]

Vector = Float[Array, " state"]
Matrix = Float[np.ndarray, "rows columns"]


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


def loop_state(plant: AbstractPlant, body: PyTree[Array], command: Array) -> LoopState:
    """Return the state of a loop whose network is not known: a body, and the command that moved it."""
    at_rest = LoopState.at_rest(body, plant.hand(body), NetworkState(None, command))
    return dataclasses.replace(at_rest, command=command)


class Senses(eqx.Module):
    """A body with what its senses will deliver: z' = A z + B u, y = H z, of z = (x, 1, features on the way).

    Features wait in z in the order of channels, the youngest first. `noise` holds the variances of y.
    """

    A: Float[np.ndarray, "all all"]
    B: Float[np.ndarray, "all command"]
    H: Float[np.ndarray, "feature all"]
    noise: Float[np.ndarray, " feature"]


def add_senses(system: LinearSystem, channels: Mapping[str, SensoryChannel]) -> Senses:
    """Return a linear system with its channels, linear about the operating point, and sorted by name."""
    n, m = system.B.shape
    with jax.enable_x64(True):
        at, restore = ravel_pytree(system.state)

        def sense(name: str) -> tuple[Matrix, Matrix]:
            channel = channels[name]
            if channel.senses_inputs:
                raise ValueError(
                    f"`channels[{name!r}]` must sense the body, got {channel.sense}, which takes inputs."
                )

            def features(state: Vector) -> Array:
                return channel.sense(loop_state(system.plant, restore(state), system.command), system.plant)

            slope, value = jax.jacfwd(features)(at), features(at)
            return np.asarray(slope), np.asarray(value - slope @ at)[:, None]

        sensed = {name: np.hstack(sense(name)) for name in sorted(channels)}
    n_back = {name: _delay_steps(name, channels[name], system.dt) for name in sensed}
    n_all = n + 1 + sum(n_back[name] * len(rows) for name, rows in sensed.items())
    A, B = np.zeros((n_all, n_all)), np.zeros((n_all, m))
    A[:n, :n], A[:n, n], A[n, n], B[:n] = system.A, system.c, 1.0, system.B
    delivered, variances, start = [], [], n + 1
    for name, rows in sensed.items():
        now, n_features = np.pad(rows, ((0, 0), (0, n_all - n - 1))), len(rows)
        for _ in range(n_back[name]):
            A[start : start + n_features] = now
            now = np.eye(n_features, n_all, k=start)
            start += n_features
        delivered.append(now)
        variances.append(_variances(name, channels[name], n_features))
    return Senses(A, B, np.vstack(delivered), np.concatenate(variances))


def _delay_steps(name: str, channel: SensoryChannel, dt: float) -> int:
    delay = channel.delay if channel.own_delay is None else float(channel.own_delay)
    return n_steps_in(f"channels[{name!r}].delay", delay, dt)


def _variances(name: str, channel: SensoryChannel, n_features: int) -> Float[np.ndarray, " feature"]:
    if type(channel.noise) not in (NoNoise, GaussianNoise):
        raise ValueError(
            f"`channels[{name!r}].noise` must be NoNoise or GaussianNoise, got {channel.noise!r}."
        )
    std = channel.noise.std if isinstance(channel.noise, GaussianNoise) else 0.0
    return np.broadcast_to(np.asarray(std, float) ** 2, n_features)
