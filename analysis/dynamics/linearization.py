"""Networks as discrete-time maps with constant inputs by name, and their linearization."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Complex, Float, Inexact, PyTree

from popsim._compiled import jit
from popsim._shared.checks import check_positive, check_same_dt, check_time_step
from popsim.analysis._arrays import AnyArray, as_numbers, finite_float64, for_each_member, sign_factors
from popsim.ensemble import member, n_members
from popsim.model import AbstractModel
from popsim.network_input import network_input
from popsim.networks import AbstractNetwork
from popsim.noise import without_noise
from popsim.randomness import seed_key
from popsim.trial import Trial

__all__ = [
    "received_inputs",
    "network_dynamics",
    "state_jacobians",
    "input_jacobians",
    "Modes",
    "modes",
    "time_constants",
    "frequencies",
]

Inputs = Mapping[str, Float[AnyArray, "..."]] | Float[AnyArray, "*member inputs"]
"""Constant inputs by name, each one vector for all members or one per member. A single vector without a name
is for networks of one number, and for other `dynamics`."""
Constants = dict[str, Float[Array, "member _"]] | Float[Array, "member inputs"]


def received_inputs(
    ensemble: AbstractModel, states: PyTree, trials: Trial
) -> dict[str, Float[np.ndarray, "member trial time _"]]:
    """Return the inputs of each member's network at each time step by name: of the trial, and the senses.

    Numbers are scaled, as received: those of one time step may be the `inputs` of `find_fixed_points`.

    **Arguments:**

    - `states`: states of an evaluation in these trials, `run.evaluate(ensemble, trials=trials).states`.

    **Returns:** the inputs by name, in the order of `popsim.senses.network_input_names`.
    """
    leading_axes, count = {len(leaf) for leaf in jax.tree.leaves(states)}, n_members(ensemble)
    if leading_axes != {count}:
        raise ValueError(f"`states` must be of {count} members, got leading axes of {sorted(leading_axes)}.")
    sizes = member(ensemble, 0).input_sizes(trials)
    ensemble.trained_inputs.check(sizes)
    received = np.asarray(_inputs_of_members(ensemble, states, trials), np.float64)
    ends = np.cumsum(list(sizes.values()))[:-1]
    return dict(zip(sizes, np.split(received, ends, axis=-1), strict=True))


@jit
def _inputs_of_members(
    ensemble: Any, states: PyTree[Array], trials: Trial
) -> Float[Array, "member trial time inputs"]:
    def map_member(model, states_of_member):
        return jax.vmap(model.network_inputs)(states_of_member, trials)

    return eqx.filter_vmap(map_member)(ensemble, states)


def composed_inputs(model: eqx.Module, inputs: Mapping[str, Array] | Array) -> Float[Array, " inputs"]:
    """Return the input vector of a network, in the order in which its model composes it."""
    if not isinstance(inputs, Mapping):
        if inputs.shape == (1,):
            return inputs
        raise ValueError(
            "`inputs` must be by name, such as {'target': vector}, because models compose them in an order "
            "of their own (popsim.senses.network_input_names lists the names), "
            f"got an array of shape {inputs.shape}."
        )
    if isinstance(model, AbstractNetwork) and len(inputs) != 1:
        raise ValueError(
            "`inputs` of a network by itself, which knows of no order, must have one name: for several, such "
            f"as {', '.join(map(repr, inputs))}, give the model that composes them, a NetworkModel or a "
            "SensorimotorLoop."
        )
    channels = getattr(model, "channels", {})
    if not inputs or not all(name in inputs for name in channels):
        raise ValueError(
            f"`inputs` must have the inputs of the trial and the senses {list(channels)} by name, "
            f"got {list(inputs)}."
        )
    if isinstance(model, AbstractModel):
        model.trained_inputs.check({name: vector.size for name, vector in inputs.items()})
    feedback = {name: inputs[name] for name in channels}
    return network_input({name: inputs[name] for name in inputs if name not in channels}, feedback, {})


Dynamics = Callable[..., Array]
"""One time step of one model: `dynamics(model, state)` or `dynamics(model, state, inputs)` returns the next
state. States are vectors."""
States = Float[AnyArray, "member point state"]


def network_dynamics(
    model: eqx.Module,
    hidden: Float[Array, " hidden"],
    inputs: Mapping[str, Float[Array, " _"]] | Float[Array, " inputs"] | None = None,
) -> Float[Array, " hidden"]:
    """Advance the units of a network by one time step, without noise.

    **Arguments:**

    - `model`: a network of popsim, or a model with one as `model.network`, such as a `NetworkModel` or a
        `SensorimotorLoop`, of which the body is left out.
    - `hidden`: activity of the units before the step; of a PyTree, `jax.flatten_util.ravel_pytree` of it.
    - `inputs`: what the network receives, by the name of the trial's input or of the sense, as listed by
        `popsim.senses.network_input_names`; for a network by itself, under one name of your choice. The
        default is zeros.
    """
    network = model if isinstance(model, AbstractNetwork) else getattr(model, "network", None)
    if not isinstance(network, AbstractNetwork):
        raise ValueError(
            "`ensemble` must be networks or models with one, for others say their `dynamics`; "
            f"got {type(model).__name__}."
        )
    start = jax.eval_shape(network.init, key=seed_key(0))
    shapes = [leaf.shape for leaf in jax.tree.leaves(start)]
    size = sum(leaf.size for leaf in jax.tree.leaves(start))
    if hidden.shape != (size,):
        parts = "" if len(shapes) == 1 else f", all numbers of the shapes {shapes} in one vector"
        raise ValueError(f"`hidden` must be {size} units{parts}, got shape {hidden.shape}.")
    received = jnp.zeros(network.n_inputs, hidden.dtype) if inputs is None else composed_inputs(model, inputs)
    if received.shape != (network.n_inputs,):
        raise ValueError(
            f"`inputs` must be {network.n_inputs} numbers, got {jax.tree.map(jnp.shape, inputs)}."
        )
    quiet = without_noise(network)
    if jax.tree.structure(start) == jax.tree.structure(hidden):
        return quiet.step(received, hidden, key=seed_key(0))
    _, unravel = ravel_pytree(jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, hidden.dtype), start))
    return ravel_pytree(quiet.step(received, unravel(hidden), key=seed_key(0)))[0]


def check_dt_of(ensemble: Any, dynamics: Dynamics, dt: float) -> None:
    """Raise `ValueError` unless `dt` is above zero and, where the dynamics are a network's, its time step."""
    check_positive("dt", dt)
    is_network = dynamics is network_dynamics
    if is_network and isinstance(ensemble, AbstractNetwork):
        ensemble.check_dt(dt)
    elif is_network and (model_dt := getattr(ensemble, "dt", None)) is not None:
        check_same_dt(dt, model_dt, "model")
    check_time_step(dt)


def one_step(dynamics: Dynamics, model: Any, state: Array, inputs: Any) -> Array:
    """Return the next state, passing inputs to `dynamics` only if there are any."""
    return dynamics(model, state) if inputs is None else dynamics(model, state, inputs)


def to_double_precision(
    dynamics: Dynamics, ensemble: eqx.Module, name: str, states: AnyArray, inputs: Inputs | None
) -> tuple[Any, Float[Array, "member point state"], Constants | None]:
    """Check the ensemble, its states and its inputs, and convert them to double precision."""
    count = n_members(ensemble)
    checked = finite_float64(name, states, f"member={count} point state")

    def vectors_of_members(called: str, vectors: AnyArray) -> Float[Array, "member inputs"]:
        return jnp.asarray(for_each_member(called, vectors, count, "inputs"))

    if isinstance(inputs, Mapping):
        constant = {key: vectors_of_members(f"inputs[{key!r}]", vector) for key, vector in inputs.items()}
    else:
        constant = None if inputs is None else vectors_of_members("inputs", inputs)
    double, starts = jax.tree.map(_as_float64, ensemble), jnp.asarray(checked)

    def step_first(models, states, received):
        first = jax.tree.map(lambda vectors: vectors[0], received)
        return one_step(dynamics, member(models, 0), states[0, 0], first)

    following = eqx.filter_eval_shape(step_first, double, starts, constant)
    if getattr(following, "shape", None) != checked.shape[2:]:
        raise ValueError(
            f"`dynamics` must return a state of shape {checked.shape[2:]}, like that given, got {following}."
        )
    return double, starts, constant


def _as_float64(leaf: Any) -> Any:
    is_floating = eqx.is_array(leaf) and jnp.issubdtype(leaf.dtype, jnp.floating)
    return jnp.asarray(np.asarray(leaf, np.float64)) if is_floating else leaf


def map_members(function: Callable[..., Any], ensemble: Any, *arrays: Any) -> Any:
    """Apply `function(model, *arrays)` to the members in sequence, within a compiled program."""
    stacked, shared = eqx.partition(ensemble, eqx.is_array)
    return jax.lax.map(
        lambda slices: function(eqx.combine(slices[0], shared), *slices[1:]), (stacked, *arrays)
    )


def state_jacobians(
    ensemble: eqx.Module,
    states: States,
    *,
    inputs: Inputs | None = None,
    dynamics: Dynamics = network_dynamics,
) -> Float[np.ndarray, "member point state state"]:
    """Return the Jacobian A of one time step by the state: dh(t + 1) = A dh(t); A[i, j] = d step_i / d h_j.

    **Arguments:**

    - `ensemble`, `inputs`, `dynamics`: as for `find_fixed_points`.
    - `states`: points of differentiation, the same number per member.
    """
    return _differentiate(0, ensemble, states, inputs, dynamics)


def input_jacobians(
    ensemble: eqx.Module, states: States, inputs: Inputs, *, dynamics: Dynamics = network_dynamics
) -> dict[str, Float[np.ndarray, "member point state _"]] | Float[np.ndarray, "member point state inputs"]:
    """Return the Jacobian B of one time step by the inputs: dh(t + 1) = A dh(t) + B du(t).

    **Arguments:**

    - `ensemble`, `dynamics`: as for `find_fixed_points`.
    - `states`: points of differentiation, the same number per member.
    - `inputs`: inputs at these points, as for `find_fixed_points`.

    **Returns:** B by the names of the inputs, or of the vector without a name.
    """
    return _differentiate(1, ensemble, states, inputs, dynamics)


def _differentiate(
    by: int, ensemble: eqx.Module, states: AnyArray, inputs: Inputs | None, dynamics: Dynamics
) -> Any:
    with jax.enable_x64(True):
        arrays = to_double_precision(dynamics, ensemble, "states", states, inputs)
        return jax.tree.map(np.asarray, _jacobians(by, dynamics, *arrays))


@jit
def _jacobians(by: int, dynamics: Dynamics, ensemble: Any, states: Array, inputs: Constants | None) -> Any:
    def map_member(model, points, received):
        def differentiate(state):
            return jax.jacfwd(lambda *x: one_step(dynamics, model, *x), argnums=by)(state, received)

        return jax.vmap(differentiate)(points)

    return map_members(map_member, ensemble, states, inputs)


class Modes(NamedTuple):
    """The modes of dh(t + 1) = A dh(t), in order of decreasing absolute eigenvalue.

    - `eigenvalue`: factor of each mode per time step.
    - `direction`: right eigenvectors v of length one, in columns. The sum of v |v|^2 is real and positive.
    - `selection`: left eigenvectors, in rows, with selection @ direction = 1: the amount of each mode in a
        state; on a line attractor, the selection vector of Mante et al. 2013, Nature 503:78.
    """

    eigenvalue: Complex[np.ndarray, "*axes mode"]
    direction: Complex[np.ndarray, "*axes state mode"]
    selection: Complex[np.ndarray, "*axes mode state"]


def modes(jacobian: Float[AnyArray, "*axes state state"]) -> Modes:
    """Return the eigenvalues and eigenvectors of Jacobians, such as `FixedPoints.jacobian`."""
    matrices = finite_float64("jacobian", jacobian, "... state state")
    eigenvalue, direction = np.linalg.eig(matrices)
    order = np.argsort(-np.abs(eigenvalue), axis=-1, kind="stable")
    eigenvalue = np.take_along_axis(eigenvalue, order, axis=-1).astype(complex)
    direction = np.take_along_axis(direction, order[..., None, :], axis=-1).astype(complex)
    if np.any(np.linalg.matrix_rank(direction) < matrices.shape[-1]):
        raise ValueError("`jacobian` must have as many independent eigenvectors as dimensions.")
    direction = direction * sign_factors(direction, axis=-2)
    return Modes(eigenvalue, direction, np.linalg.inv(direction))


def time_constants(
    eigenvalues: Inexact[AnyArray, "*axes mode"], *, dt: float
) -> Float[np.ndarray, "*axes mode"]:
    """Return the times in which modes decay to 1/e: tau = -dt / ln |eigenvalue|, in s.

    Negative for a mode that grows by e in that time, infinite for a constant one.
    """
    check_time_step(dt)
    with np.errstate(divide="ignore"):
        rate = -np.log(np.abs(as_numbers("eigenvalues", eigenvalues, np.complex128)))
        return dt / np.where(rate == 0, 0.0, rate)


def frequencies(
    eigenvalues: Inexact[AnyArray, "*axes mode"], *, dt: float
) -> Float[np.ndarray, "*axes mode"]:
    """Return the frequencies of modes in Hz, |angle of the eigenvalue| / (2 pi dt); 0 if real and positive.

    **Arguments:** as for `time_constants`.
    """
    check_time_step(dt)
    return np.abs(np.angle(as_numbers("eigenvalues", eigenvalues, np.complex128))) / (2 * np.pi * dt)
