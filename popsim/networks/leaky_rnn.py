"""Leaky recurrent networks, optionally with balanced excitation and inhibition."""

import abc
from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, ScalarLike

from popsim._argument_shapes import OneOrEach, check_number, check_one_or_each
from popsim._checks import (
    WholeNumber,
    check_non_negative,
    check_positive,
    check_same_dt,
    is_traced,
    kind_of,
    short_repr,
)
from popsim._plain_values import plain_number
from popsim.networks.base import (
    AbstractNetwork,
    Projection,
    as_sizes,
    check_function,
    linear_readout,
    prepare_readout,
    replace_fields,
)
from popsim.networks.cell import noise_of_units
from popsim.noise import AbstractNoise, GaussianNoise, NoNoise
from popsim.randomness import as_key, key_stream

__all__ = ["AbstractLeakyNetwork", "LeakyRNN", "dale_weights"]


LeakyType = TypeVar("LeakyType", bound="AbstractLeakyNetwork")

FEWEST_BALANCED = 4
"""The smallest number of units of which balanced weights are drawn, see `dale_weights`."""


def dale_weights(
    signs: OneOrEach,
    spectral_radius: ScalarLike = 0.9,
    *,
    density: float = 1.0,
    key: Key[Array, ""],
) -> Float[Array, "units units"]:
    """Draw balanced random weights W[post, pre] that obey Dale's law.

    Projecting unconstrained weights onto the law removes half of each sign and leaves an unbalanced mean,
    whose eigenvalue lies far outside the others. Here the magnitudes are half-normal; all units have the same
    number of excitatory inputs and the same number of inhibitory ones, chosen at random; inhibition is scaled
    so that each row sums to zero, which leaves no outlier (after Rajan & Abbott 2006, Phys Rev Lett
    97:188104; tests check that drawn weights follow the circle law and that no eigenvalue lies outside the
    circle); then the weights are scaled to the spectral radius. Song, Yang & Wang 2016, PLoS Comput Biol
    12:e1004792, do the same, but in their code, pycog, a row sums to zero in expectation only.

    The spectral radius is computed from the eigenvalues, in O(units^3) operations. That of few units may be
    small before it is scaled, and the weights then large: with two units they reached 2,000 times the
    spectral radius in 4,000 draws, with three 70 times, so that at least four are needed. In 40,000 draws
    they reached 28 times with four units, and 11 times with five (counted with NumPy; tests repeat it).

    **Arguments:**

    - `signs`: +1 or -1 for each unit, with both present: `popsim.training.constraints.dale_signs`.
    - `spectral_radius`: the largest |eigenvalue| of the weights.
    - `density`: the fraction of the excitatory, and of the inhibitory, units that project to a unit, rounded
        to whole units, and at least two of each kind if there are that many.
    - `key`: for drawing the weights.
    """
    values = None if is_traced(signs) else np.asarray(signs)
    if values is None or values.ndim != 1 or set(values.tolist()) != {-1, 1}:
        raise ValueError(f"`signs` must be +1 and -1, one for each unit and both of them, got {signs}.")
    check_one_or_each("spectral_radius", spectral_radius)
    check_number("density", density)
    check_non_negative("spectral_radius", spectral_radius)
    if not 0 < density <= 1:
        raise ValueError(f"`density` must be above 0 and at most 1, got {density}.")
    if len(values) < FEWEST_BALANCED:
        raise ValueError(
            f"`signs` must be of at least {FEWEST_BALANCED} units, got {len(values)}: the spectral radius of "
            "fewer may be near zero, and weights that are scaled by it have no bound."
        )
    key = as_key(key)
    n_units = len(values)
    sizes = jnp.abs(jax.random.normal(key_stream(key, "sizes"), (n_units, n_units)))
    order = jax.random.uniform(key_stream(key, "connections"), (n_units, n_units))
    excitatory, inhibitory = (_choose_connections(sizes, order, values == sign, density) for sign in (1, -1))
    # Scaled by row: a mean that is not zero in each row adds an eigenvalue far outside of the others.
    sums = [jnp.sum(part, axis=1, keepdims=True) for part in (excitatory, inhibitory)]
    weights = excitatory - inhibitory * (sums[0] / sums[1])
    radius = jnp.max(jnp.abs(jnp.linalg.eigvals(weights)))
    return weights * spectral_radius / radius


def _choose_connections(
    sizes: Float[Array, "units units"],
    order: Float[Array, "units units"],
    is_of_kind: np.ndarray,
    density: float,
) -> Float[Array, "units units"]:
    """Keep the same number of connections from units of one kind in each row, and set the rest to zero."""
    count = int(is_of_kind.sum())
    n_inputs = min(count, max(2, round(density * count)))
    # Sorting twice gives the rank of each entry in its row. Units of the other kind rank last.
    ranks = jnp.argsort(jnp.argsort(jnp.where(is_of_kind, order, jnp.inf), axis=1), axis=1)
    return jnp.where(ranks < n_inputs, sizes, 0)


class AbstractLeakyNetwork(AbstractNetwork):
    """Base class of leaky rate networks: tau dx/dt = -x + (what units send) + W_in u + b + noise.

    A subclass supplies `recurrent_input`. See `LeakyRNN` for the Euler step and its noise.
    """

    input_weights: eqx.AbstractVar[Float[Array, "*members units inputs"]]
    bias: eqx.AbstractVar[Float[Array, "*members units"]]
    readout: eqx.AbstractVar[eqx.nn.Linear]
    tau: eqx.AbstractVar[Float[Array, "*axes"]]  # s
    noise: eqx.AbstractVar[AbstractNoise]
    nonlinearity: eqx.AbstractVar[Callable[[Array], Array]]
    output_fn: eqx.AbstractVar[Callable[[Array], Array] | None]
    dt: eqx.AbstractVar[float]

    @abc.abstractmethod
    def recurrent_input(self, rates: Float[Array, " unit"]) -> Float[Array, " unit"]:
        """Return what units receive from one another.

        **Arguments:**

        - `rates`: r = f(x).
        """

    def init(self, *, key: Key[Array, ""]) -> Float[Array, " hidden"]:
        return jnp.zeros_like(self.bias)

    def step(
        self, inputs: Float[Array, " inputs"], hidden: Float[Array, " hidden"], *, key: Key[Array, ""]
    ) -> Float[Array, " hidden"]:
        rates = self.nonlinearity(hidden)
        drive = self.recurrent_input(rates) + self.input_weights @ inputs + self.bias
        leak = self.dt / self.tau
        noise = self.noise(jnp.zeros_like(hidden), key=key)
        return hidden + leak * (drive - hidden) + jnp.sqrt(2 * leak) * noise

    def read_out(self, hidden: Float[Array, " hidden"]) -> Float[Array, " output"]:
        """Return the readout of the rates f(x)."""
        output = self.readout(self.nonlinearity(hidden))
        return output if self.output_fn is None else self.output_fn(output)

    def projections(self) -> dict[str, Projection]:
        """Return the input weights and the readout. The activity of a unit is its rate f(x)."""
        received = Projection(
            where=lambda network: network.input_weights,
            pre=lambda network, step: step.received,
            post=lambda network, step: network.nonlinearity(step.after),
            where_bias=lambda network: network.bias,
        )
        readout = Projection(
            where=lambda network: network.readout.weight,
            pre=lambda network, step: network.nonlinearity(step.after),
            post=lambda network, step: network.read_out(step.after),
            where_bias=lambda network: network.readout.bias,
        )
        return {"input": received, "readout": readout}

    def check_dt(self, dt: float) -> None:
        check_same_dt(dt, self.dt, "network", f"To move the network there: network.with_dt({dt}).")

    def with_dt(self: LeakyType, dt: float) -> LeakyType:
        """Return the network for another time step (s), of one model or of an ensemble.

        With the leak a = dt / tau, an uncoupled unit keeps the fraction (1 - a)^(t / dt) of its activation
        for a time t, and fluctuates with variance s^2 / (1 - a / 2) for `noise_std` s (the stationary
        variance of a first-order autoregression; Box & Jenkins, Time Series Analysis, section 3.2). Both are
        kept exactly: a' = 1 - (1 - a)^(dt' / dt), tau' = dt' / a', s'^2 = s^2 (1 - a' / 2) / (1 - a / 2). So
        are the fixed points of the coupled network; how it moves between them differs in the order of dt.
        """
        check_number("dt", dt)
        check_positive("dt", dt)
        if not is_traced(self.tau) and np.any(np.asarray(self.tau) < self.dt * (1 - 1e-6)):
            raise ValueError(
                f"`tau` must be at least dt = {self.dt} s to be moved, got {short_repr(self.tau)} s."
            )
        if self.bias.ndim > 1:
            return eqx.filter_vmap(lambda network: network.with_dt(dt))(self)
        if type(self.noise) not in (GaussianNoise, NoNoise):
            raise ValueError(
                f"`noise` must be Gaussian to be moved to another dt, got {kind_of(self.noise)}."
            )
        leak = self.dt / self.tau
        moved = 1 - (1 - leak) ** (dt / self.dt)
        noise = self.noise
        if isinstance(noise, GaussianNoise):
            noise = GaussianNoise(noise.std * jnp.sqrt((1 - moved / 2) / (1 - leak / 2)))
        return replace_fields(self, tau=dt / moved, noise=noise, dt=plain_number(dt))


def check_leaky(n_units: int, tau: OneOrEach, dt: float, nonlinearity: Any) -> None:
    """Check the arguments that leaky networks share."""
    check_one_or_each("tau", tau, n_units, "units")
    check_positive("tau", tau)
    check_number("dt", dt)
    check_positive("dt", dt)
    check_function("nonlinearity", nonlinearity, "jnp.tanh")
    if not is_traced(tau) and np.any(dt > np.asarray(tau)):
        raise ValueError(f"`dt` must not exceed tau = {short_repr(tau)} s, got {dt} s.")


class LeakyRNN(AbstractLeakyNetwork):
    """A leaky rate network with independent noise on each unit and a linear readout of the rates.

    The dynamics are tau dx/dt = -x + W_rec r + W_in u + b + noise, with r = f(x), integrated by Euler steps x
    += (dt / tau) (-x + ...). The noise of a step has standard deviation `noise_std` sqrt(2 dt / tau), so that
    an uncoupled unit fluctuates by about `noise_std` at any dt (Song, Yang & Wang 2016, PLoS Comput Biol
    12:e1004792; checked against their code, pycog).

    `hidden` holds the activations x. A trial starts with x = 0.

    **Arguments:**

    - `n_inputs`, `n_units`, `n_outputs`: the sizes.
    - `tau`: the time constant in seconds, one for all units or one per unit; may differ between members.
    - `train_tau`: whether `tau` is trained rather than a constant (see `popsim.is_parameter`). Training does
        not keep it above `dt`.
    - `dt`: the time step in seconds, that of the trials.
    - `nonlinearity`: f, from activation to rate.
    - `noise_std`: see above, one for all units or one per unit; 0 draws no random numbers.
    - `gain`: the standard deviation of W_rec times sqrt(n_units); above 1 the network is chaotic before
        training (Sompolinsky, Crisanti & Sommers 1988). With `signs`, the spectral radius of W_rec.
    - `signs`: +1 for each excitatory and -1 for each inhibitory unit, for balanced W_rec that obeys Dale's
        law, see `dale_weights`; None for unconstrained weights. To keep the law during training, use
        `popsim.training.constraints.DalesLaw`.
    - `density`: with `signs`, the fraction of connections that are present.
    - `output_fn`, `output_bias`: of the readout, as of a `GRUNetwork`.
    - `key`: for the initial weights.
    """

    recurrent_weights: Float[Array, "*members units units"]  # [post, pre]
    input_weights: Float[Array, "*members units inputs"]
    bias: Float[Array, "*members units"]
    readout: eqx.nn.Linear
    tau: Float[Array, "*axes"]  # s
    noise: AbstractNoise
    nonlinearity: Callable[[Array], Array] = eqx.field(static=True)
    output_fn: Callable[[Array], Array] | None = eqx.field(static=True)
    dt: float = eqx.field(static=True, converter=plain_number)
    train_tau: bool = eqx.field(static=True)
    n_inputs: int = eqx.field(static=True, converter=plain_number)
    n_outputs: int = eqx.field(static=True, converter=plain_number)

    def __init__(
        self,
        n_inputs: WholeNumber,
        n_units: WholeNumber,
        n_outputs: WholeNumber,
        *,
        tau: OneOrEach = 0.05,
        dt: float = 0.01,
        nonlinearity: Callable[[Array], Array] = jnp.tanh,
        noise_std: OneOrEach = 0.0,
        gain: ScalarLike = 0.9,
        signs: OneOrEach | None = None,
        density: float = 1.0,
        train_tau: bool = False,
        output_fn: Callable[[Array], Array] | None = None,
        output_bias: OneOrEach = 0.0,
        key: Key[Array, ""],
    ):
        n_inputs, n_units, n_outputs = as_sizes(n_inputs, n_units, n_outputs)
        check_leaky(n_units, tau, dt, nonlinearity)
        check_one_or_each("gain", gain)
        check_non_negative("gain", gain)
        self.noise = noise_of_units(noise_std, n_units)
        self.output_fn, output_bias = prepare_readout(output_fn, output_bias, n_outputs)
        normal = jax.random.normal
        self.recurrent_weights = _recurrent_weights(
            n_units, gain, signs, density, key_stream(key, "recurrent")
        )
        self.input_weights = normal(key_stream(key, "input"), (n_units, n_inputs)) / n_inputs**0.5
        self.bias = jnp.zeros(n_units)
        self.readout = linear_readout(n_units, n_outputs, output_bias, key=key_stream(key, "readout"))
        self.tau = jnp.asarray(tau, self.bias.dtype)
        self.nonlinearity = nonlinearity
        self.dt = dt
        self.train_tau = train_tau
        self.n_inputs = n_inputs
        self.n_outputs = n_outputs

    @property
    def constants(self) -> tuple[str, ...]:
        """The fields that are not learned, besides the noise: the time constant, unless `train_tau`."""
        return () if self.train_tau else ("tau",)

    def recurrent_input(self, rates: Float[Array, " unit"]) -> Float[Array, " unit"]:
        return self.recurrent_weights @ rates

    def projections(self) -> dict[str, Projection]:
        """Return the recurrent and input weights and the readout. The activity of a unit is its rate f(x)."""
        recurrent = Projection(
            where=lambda network: network.recurrent_weights,
            pre=lambda network, step: network.nonlinearity(step.before),
            post=lambda network, step: network.nonlinearity(step.after),
            where_bias=lambda network: network.bias,
        )
        return {"recurrent": recurrent, **super().projections()}


def _recurrent_weights(
    n_units: int, gain: ScalarLike, signs: OneOrEach | None, density: float, key: Key[Array, ""]
) -> Float[Array, "units units"]:
    if signs is None:
        if density != 1:
            raise ValueError(f"`density` needs `signs`, got {density} and None.")
        return gain * jax.random.normal(key, (n_units, n_units)) / n_units**0.5
    if np.shape(signs) != (n_units,):
        raise ValueError(f"`signs` must be one for each of {n_units} units, got shape {np.shape(signs)}.")
    return dale_weights(signs, gain, density=density, key=key)
