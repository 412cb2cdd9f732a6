"""Losses on the Jacobians of a network along its trajectories."""

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree

from popsim._shared.checks import check_positive, check_positive_int, kind_of
from popsim._shared.plain_values import plain_number
from popsim.loss import AbstractLossTerm
from popsim.losses.profiles import AbstractSumOfSquares
from popsim.model import AbstractModel
from popsim.networks import AbstractLeakyNetwork, AbstractNetwork
from popsim.networks.composed import AbstractNetworkWrapper
from popsim.networks.leaky import activation_of
from popsim.noise import without_noise
from popsim.randomness import seed_key
from popsim.trial import Trial

__all__ = ["RecurrentSensitivity", "VanishingGradient"]


class _Steps(eqx.Module):
    """What the network received at each time step but the first, and the hidden state before."""

    before: PyTree[Float[Array, "step ..."]]
    received: Float[Array, "step inputs"]
    unit_input: Float[Array, "step unit"] | None

    @classmethod
    def from_trial(cls, states: Any, trial: Trial, model: Any) -> "_Steps":
        current = getattr(states, "unit_input", None)
        received = model.network_inputs(states, trial)[1:]
        before = jax.tree.map(lambda leaf: leaf[:-1], states.network.hidden)
        return cls(before, received, None if current is None else current[1:])


def _check_recorded(term: str, states: Any, network: AbstractNetwork) -> None:
    """Raise `ValueError` if a part of the hidden state was not recorded, so that no step starts from it."""
    at_start = jax.eval_shape(network.init, key=seed_key(0))
    if jax.tree.structure(states.network.hidden) != jax.tree.structure(at_start):
        raise ValueError(
            f"`model` must have a network that records all of its hidden state for the term {term!r}, by "
            f"`is_recorded=True` of its plasticity, got {jax.tree.structure(states.network.hidden)} of "
            f"{type(network).__name__}."
        )


def _advance(network: AbstractNetwork, step: _Steps, hidden: PyTree[Array]) -> PyTree[Array]:
    """Return the hidden state after one of the steps, from another hidden state before it."""
    return network.with_unit_input(step.unit_input).step(step.received, hidden, key=seed_key(0))


class RecurrentSensitivity(AbstractSumOfSquares):
    """Sum over time of w_t |J_t|², the squared Frobenius norm of the Jacobian of the recurrence.

    It favours smooth dynamics, in which nearby states stay near. For a leaky network, such as a `LeakyRNN`,
    J_t = W diag(f'(x_t)) is the Jacobian of what units receive from one another, by their activations: the
    leak is not penalised, nor are delays or a plasticity of the synapses. For other networks J_t is that of a
    time step, dh_{t+1} / dh_t, of all arrays of the hidden state as one vector. It is evaluated at the states
    that the network visits, from the second step on.

    After Sussillo, Churchland, Kaufman & Shenoy 2015, Nat Neurosci 18:1025-1033, but a sum and no mean over
    times and conditions; W diag(f') is as in packages that follow them, muSim and (in TensorFlow) MotorNet.

    **Arguments:**

    - `n_directions`: number of random directions v whose mean of |J_t v|² estimates |J_t|². They have entries
        of ±1, differ between time steps and are the same in all trials. The default is the exact norm, which
        takes as many directions as there are units.
    """

    looks_back = True
    n_directions: int | None = eqx.field(static=True, default=None, kw_only=True)
    name: str = eqx.field(static=True, default="recurrent sensitivity", kw_only=True)

    def __check_init__(self):
        if self.n_directions is not None:
            check_positive_int("n_directions", self.n_directions)

    def signal(self, states: Any, trial: Trial, model: Any) -> Float[Array, "time features"]:
        network = without_noise(model.network)
        if (leaky := _leaky_network(network)) is None:
            _check_recorded(self.name, states, network)
        steps = _Steps.from_trial(states, trial, model)
        visited = steps.before if leaky is None else activation_of(steps.before)
        vectors = jax.vmap(lambda hidden: ravel_pytree(hidden)[0])(visited)
        n_steps, size = vectors.shape
        directions = self._directions(n_steps, size, vectors.dtype)

        def at_step(step: _Steps, vectors: Float[Array, "direction size"]) -> Float[Array, " features"]:
            recurrence, start = _recurrence(network, leaky, step)
            _, push = jax.linearize(recurrence, start)
            return jax.vmap(push)(vectors).ravel()

        in_axis = None if self.n_directions is None else 0
        pushed = jax.vmap(at_step, in_axes=(0, in_axis))(steps, directions)
        return jnp.concatenate([jnp.zeros_like(pushed[:1]), pushed])

    def _directions(self, n_steps: int, size: int, dtype: Any) -> Float[Array, "*step direction size"]:
        """Return directions whose J v together have the squared length |J|², exactly or on average."""
        if self.n_directions is None:
            return jnp.eye(size, dtype=dtype)
        shape = (n_steps, self.n_directions, size)
        return jax.random.rademacher(seed_key(0), shape, dtype) / self.n_directions**0.5


def _leaky_network(network: AbstractNetwork) -> AbstractLeakyNetwork | None:
    """Return the leaky network inside wrappers, or None if there is none."""
    while isinstance(network, AbstractNetworkWrapper):
        network = network.network
    return network if isinstance(network, AbstractLeakyNetwork) else None


def _recurrence(
    network: AbstractNetwork, leaky: AbstractLeakyNetwork | None, step: _Steps
) -> tuple[Callable[[Array], Array], Float[Array, " size"]]:
    """Return the function of a vector whose Jacobian is penalised, and where."""
    if leaky is not None:
        return lambda x: leaky.recurrent_input(leaky.nonlinearity(x)), activation_of(step.before)
    start, as_hidden = ravel_pytree(step.before)
    return lambda vector: ravel_pytree(_advance(network, step, as_hidden(vector)))[0], start


class VanishingGradient(AbstractLossTerm):
    """How much the gradient of an error grows or shrinks from one time step to the one before.

    Ω is the mean over time steps of (|δ_{t+1} J_t|² / |δ_{t+1}|² - 1)², where J_t = dh_{t+1} / dh_t, and δ_t
    is the gradient of the error by h_t, through all later steps. Steps at which |δ_{t+1}|² is below `bound`
    do not count. The gradient of Ω, like that of the authors, takes h and δ as given: it reaches the weights
    by J_t alone.

    Pascanu, Mikolov & Bengio 2013, ICML, equation 9, as in their code and in pycog (Song, Yang & Wang 2016,
    PLoS Comput Biol 12:e1004792), which square the lengths and divide by the number of steps. pycog takes f'
    one step later in J_t, and the mean over the steps of all trials instead of those of each.

    The arrays of a hidden state count as one vector. There must be no body. Interventions that change the
    units after a step are not part of J_t.

    **Arguments:**

    - `error`: the term whose gradient is meant, such as `OutputError()`.
    - `bound`: in squared units of the error, for hidden states of unit 1.
    """

    error: AbstractLossTerm
    bound: float = eqx.field(static=True, converter=plain_number, default=1e-20, kw_only=True)
    name: str = eqx.field(static=True, default="vanishing gradient", kw_only=True)

    def __check_init__(self):
        check_positive("bound", self.bound)

    def check(self, trials: Trial, model: AbstractModel | None) -> None:
        self.error.check(trials, model)

    def __call__(self, states: Any, trial: Trial, model: Any) -> Float[Array, ""]:
        network = without_noise(model.network)
        if getattr(model, "plant", None) is not None:
            raise ValueError(
                f"`model` must have no body for the term {self.name!r}, because errors also flow through it, "
                f"got {kind_of(model)}."
            )
        _check_recorded(self.name, states, network)
        states = jax.lax.stop_gradient(states)
        steps = jax.lax.stop_gradient(_Steps.from_trial(states, trial, model))
        gradients = jax.lax.stop_gradient(self._gradients(states, trial, model, steps))
        later = jax.tree.map(lambda leaf: leaf[1:], gradients)
        earlier = jax.vmap(lambda step, gradient: _pull(network, step, gradient))(steps, later)
        numerator, denominator = jax.vmap(_squared_length)(earlier), jax.vmap(_squared_length)(later)
        counts = denominator >= self.bound
        ratio = jnp.where(counts, numerator / jnp.where(counts, denominator, 1), 1)
        return jnp.sum((ratio - 1) ** 2) / jnp.maximum(jnp.sum(counts.astype(ratio.dtype)), 1)

    def _gradients(
        self, states: Any, trial: Trial, model: Any, steps: _Steps
    ) -> PyTree[Float[Array, "time ..."]]:
        """Return the gradient of the error by each hidden state, through all that follows from it."""
        network = without_noise(model.network)

        def error_of(hidden, output):
            network_state = dataclasses.replace(states.network, hidden=hidden, output=output)
            return self.error(dataclasses.replace(states, network=network_state), trial, model)

        hidden = states.network.hidden
        by_hidden, by_output = jax.grad(error_of, argnums=(0, 1))(hidden, states.network.output)

        def through_readout(hidden, gradient):
            return jax.vjp(network.read_out, hidden)[1](gradient)[0]

        direct = jax.tree.map(jnp.add, by_hidden, jax.vmap(through_readout)(hidden, by_output))

        def backward(later, at_step):
            step, gradient = at_step
            total = jax.tree.map(jnp.add, gradient, _pull(network, step, later))
            return total, total

        last = jax.tree.map(lambda leaf: leaf[-1], direct)
        others = jax.tree.map(lambda leaf: leaf[:-1], direct)
        _, earlier = jax.lax.scan(backward, last, (steps, others), reverse=True)
        return jax.tree.map(lambda leaf, end: jnp.concatenate([leaf, end[None]]), earlier, last)


def _squared_length(gradient: PyTree[Array]) -> Float[Array, ""]:
    return sum((jnp.sum(leaf**2) for leaf in jax.tree.leaves(gradient)), jnp.zeros(()))


def _pull(network: AbstractNetwork, step: _Steps, gradient: PyTree[Array]) -> PyTree[Array]:
    """Return the gradient by the hidden state before a step, from that by the state after it."""
    return jax.vjp(lambda hidden: _advance(network, step, hidden), step.before)[1](gradient)[0]
