"""Losses on the Jacobians of a network along its trajectories."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from popsim._argument_shapes import check_fields
from popsim._checks import check_positive, check_positive_int, kind_of
from popsim._plain_values import plain_number
from popsim.loss import AbstractLossTerm
from popsim.losses.profiles import AbstractSumOfSquares
from popsim.model import AbstractModel
from popsim.networks import AbstractLeakyNetwork, AbstractNetwork
from popsim.networks.wrapper import AbstractNetworkWrapper
from popsim.noise import without_noise
from popsim.randomness import seed_key
from popsim.trial import Trial

__all__ = ["RecurrentSensitivity", "VanishingGradient"]


class _Steps(eqx.Module):
    """What the network received at each time step but the first, and the hidden state before."""

    before: Float[Array, "step unit"]
    received: Float[Array, "step inputs"]
    unit_input: Float[Array, "step unit"] | None

    @classmethod
    def of_trial(cls, hidden: Float[Array, "time unit"], states: Any, trial: Trial, model: Any) -> "_Steps":
        current = getattr(states, "unit_input", None)
        received = model.network_inputs(states, trial)[1:]
        return cls(hidden[:-1], received, None if current is None else current[1:])


def _network_of(term: str, model: Any) -> AbstractNetwork:
    """Return the network of a model, without noise."""
    network = getattr(model, "network", None)
    if not isinstance(network, AbstractNetwork) or not hasattr(model, "network_inputs"):
        raise ValueError(
            f"`model` must have a network, as a NetworkModel or a SensorimotorLoop, for the term {term!r}, "
            f"got {kind_of(model)}."
        )
    return without_noise(network)


def _hidden_of(term: str, states: Any, network: AbstractNetwork) -> Float[Array, "time unit"]:
    """Return the hidden state of the network, which must be one array."""
    hidden = states.network.hidden
    if not isinstance(hidden, jax.Array | np.ndarray):
        raise ValueError(
            f"`model` must have a network whose hidden state is one array for the term {term!r}, "
            f"got {jax.tree.structure(hidden)} of {type(network).__name__}."
        )
    return jnp.asarray(hidden)


def _leaky_within(network: AbstractNetwork) -> AbstractLeakyNetwork | None:
    """Return the leaky network that a network is, or wraps; None if there is none."""
    while isinstance(network, AbstractNetworkWrapper):
        network = network.network
    return network if isinstance(network, AbstractLeakyNetwork) else None


def _advance(network: AbstractNetwork, step: _Steps, hidden: Float[Array, " unit"]) -> Float[Array, " unit"]:
    """Return the hidden state after one of the steps, from another hidden state before it."""
    return network.with_unit_input(step.unit_input).step(step.received, hidden, key=seed_key(0))


class RecurrentSensitivity(AbstractSumOfSquares):
    """Sum over time of w_t |J_t|², the squared Frobenius norm of the Jacobian of the recurrence.

    It favours smooth dynamics, in which nearby states stay near. For a leaky network, such as a `LeakyRNN`,
    J_t = W diag(f'(x_t)) is the Jacobian of what units receive from one another, by their activations: the
    leak is not penalised, nor are delays or a plasticity of the synapses. For other networks J_t is that of a
    time step, dh_{t+1} / dh_t. It is evaluated at the states that the network visits, from the second step
    on.

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

    def signal(self, states: Any, trial: Trial, model: AbstractModel) -> Float[Array, "time features"]:
        network = _network_of(self.name, model)
        leaky = _leaky_within(network)
        if leaky is None:
            hidden = _hidden_of(self.name, states, network)
        else:
            hidden = jax.vmap(leaky.activity)(states.network.hidden)
        steps = _Steps.of_trial(hidden, states, trial, model)
        n_steps, n_units = steps.before.shape
        directions = self._directions(n_steps, n_units, steps.before.dtype)

        def at_step(step: _Steps, of_step: Float[Array, "direction unit"]) -> Float[Array, " features"]:
            recurrence = _recurrence(network, step)
            _, push = jax.linearize(recurrence, step.before)
            return jax.vmap(push)(of_step).ravel()

        in_axis = None if self.n_directions is None else 0
        pushed = jax.vmap(at_step, in_axes=(0, in_axis))(steps, directions)
        return jnp.concatenate([jnp.zeros_like(pushed[:1]), pushed])

    def _directions(self, n_steps: int, n_units: int, dtype: Any) -> Float[Array, "*step direction unit"]:
        """Return directions whose J v together have the squared length |J|², exactly or on average."""
        if self.n_directions is None:
            return jnp.eye(n_units, dtype=dtype)
        shape = (n_steps, self.n_directions, n_units)
        return jax.random.rademacher(seed_key(0), shape, dtype) / self.n_directions**0.5


def _recurrence(network: AbstractNetwork, step: _Steps) -> Callable[[Array], Array]:
    """Return the function of the hidden state whose Jacobian is penalised."""
    leaky = _leaky_within(network)
    if leaky is not None:
        return lambda activation: leaky.recurrent_input(leaky.nonlinearity(activation))
    return lambda hidden: _advance(network, step, hidden)


class VanishingGradient(AbstractLossTerm):
    """How much the gradient of an error grows or shrinks from one time step to the one before.

    Ω is the mean over time steps of (|δ_{t+1} J_t|² / |δ_{t+1}|² - 1)², where J_t = dh_{t+1} / dh_t, and δ_t
    is the gradient of the error by h_t, through all later steps. Steps at which |δ_{t+1}|² is below `bound`
    do not count. The gradient of Ω, like that of the authors, takes h and δ as given: it reaches the weights
    by J_t alone.

    Pascanu, Mikolov & Bengio 2013, ICML, equation 9, as in their code and in pycog (Song, Yang & Wang 2016,
    PLoS Comput Biol 12:e1004792), which square the lengths and divide by the number of steps. pycog takes f'
    one step later in J_t, and the mean over the steps of all trials instead of those of each.

    The network must have a hidden state that is one array, and no body. Interventions that change the units
    after a step are not part of J_t.

    **Arguments:**

    - `error`: the term whose gradient is meant, such as `OutputError()`.
    - `bound`: in squared units of the error, for hidden states of unit 1.
    """

    error: AbstractLossTerm
    bound: float = eqx.field(static=True, converter=plain_number, default=1e-20, kw_only=True)
    name: str = eqx.field(static=True, default="vanishing gradient", kw_only=True)

    def __check_init__(self):
        check_fields(self)
        check_positive("bound", self.bound)

    def __call__(self, states: Any, trial: Trial, model: AbstractModel) -> Float[Array, ""]:
        network = _network_of(self.name, model)
        if getattr(model, "plant", None) is not None:
            raise ValueError(
                f"`model` must have no body for the term {self.name!r}, because errors also flow through it, "
                f"got {kind_of(model)}."
            )
        states = jax.lax.stop_gradient(states)
        hidden = _hidden_of(self.name, states, network)
        steps = jax.lax.stop_gradient(_Steps.of_trial(hidden, states, trial, model))
        later = jax.lax.stop_gradient(self._gradients(states, trial, model, steps)[1:])
        earlier = jax.vmap(lambda step, gradient: _pull(network, step, gradient))(steps, later)
        before, after = (jnp.sum(gradient**2, axis=1) for gradient in (earlier, later))
        counts = after >= self.bound
        ratio = jnp.where(counts, before / jnp.where(counts, after, 1), 1)
        return jnp.sum((ratio - 1) ** 2) / jnp.maximum(jnp.sum(counts.astype(after.dtype)), 1)

    def _gradients(self, states: Any, trial: Trial, model: Any, steps: _Steps) -> Float[Array, "time unit"]:
        """Return the gradient of the error by each hidden state, through all that follows from it."""
        network = without_noise(model.network)

        def error_of(hidden, output):
            places = lambda of: (of.network.hidden, of.network.output)  # noqa: E731
            return self.error(eqx.tree_at(places, states, (hidden, output)), trial, model)

        hidden = states.network.hidden
        by_hidden, by_output = jax.grad(error_of, argnums=(0, 1))(hidden, states.network.output)

        def through_readout(hidden, gradient):
            return jax.vjp(network.read_out, hidden)[1](gradient)[0]

        direct = by_hidden + jax.vmap(through_readout)(hidden, by_output)

        def backward(later, at_step):
            step, gradient = at_step
            total = gradient + _pull(network, step, later)
            return total, total

        _, earlier = jax.lax.scan(backward, direct[-1], (steps, direct[:-1]), reverse=True)
        return jnp.concatenate([earlier, direct[-1:]])


def _pull(network: AbstractNetwork, step: _Steps, gradient: Float[Array, " unit"]) -> Float[Array, " unit"]:
    """Return the gradient by the hidden state before a step, from that by the state after it."""
    return jax.vjp(lambda hidden: _advance(network, step, hidden), step.before)[1](gradient)[0]
