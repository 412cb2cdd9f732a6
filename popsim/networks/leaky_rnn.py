"""Leaky recurrent networks, optionally with balanced excitation and inhibition."""

from collections.abc import Callable, Mapping
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, ScalarLike

from popsim._shared.argument_shapes import OneOrEach, check_one_or_each
from popsim._shared.checks import WholeNumber, check_non_negative
from popsim._shared.plain_values import plain_number
from popsim.networks.base import (
    RATE_AXES,
    Projection,
    as_sizes,
    linear_readout,
    noise_of_inputs,
    noise_of_units,
    prepare_readout,
)
from popsim.networks.initial_weights import dale_weights
from popsim.networks.leaky import AbstractLeakyNetwork, check_leaky, check_plasticity, recurrent_projection
from popsim.networks.plasticity import AbstractPlasticity
from popsim.noise import AbstractNoise
from popsim.randomness import key_stream

__all__ = ["LeakyRNN"]


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
    - `input_noise_std`: of noise on the inputs, one for all inputs or one per input; 0 draws no random
        numbers. Units receive it through W_in, and share it where they share inputs. It is scaled so that an
        uncoupled unit with weights w fluctuates by exactly sqrt(sum_k w_k^2 input_noise_std_k^2) at any dt.
    - `gain`: the standard deviation of W_rec times sqrt(n_units); above 1 the network is chaotic before
        training (Sompolinsky, Crisanti & Sommers 1988). With `signs`, the spectral radius of W_rec.
    - `signs`: +1 for each excitatory and -1 for each inhibitory unit, for balanced W_rec that obeys Dale's
        law, see `dale_weights`; None for unconstrained weights. To keep the law during training, use
        `popsim.training.constraints.DalesLaw`.
    - `density`: with `signs`, the fraction of connections that are present.
    - `plasticity`: of the recurrent synapses within a trial, such as a `ShortTermPlasticity`; None for none.
    - `output_fn`, `output_bias`: of the readout, as of a `GRUNetwork`.
    - `key`: for the initial weights.
    """

    parameter_axes: ClassVar[Mapping[str, tuple[str, ...]]] = RATE_AXES
    recurrent_weights: Float[Array, "*members units units"]  # [post, pre]
    input_weights: Float[Array, "*members units inputs"]
    bias: Float[Array, "*members units"]
    readout: eqx.nn.Linear
    tau: Float[Array, "*axes"]  # s
    noise: AbstractNoise
    input_noise: AbstractNoise
    plasticity: AbstractPlasticity | None
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
        input_noise_std: OneOrEach = 0.0,
        gain: ScalarLike = 0.9,
        signs: OneOrEach | None = None,
        density: float = 1.0,
        train_tau: bool = False,
        plasticity: AbstractPlasticity | None = None,
        output_fn: Callable[[Array], Array] | None = None,
        output_bias: OneOrEach = 0.0,
        key: Key[Array, ""],
    ):
        n_inputs, n_units, n_outputs = as_sizes(n_inputs, n_units, n_outputs)
        check_leaky(n_units, tau, dt, nonlinearity)
        check_one_or_each("gain", gain)
        check_non_negative("gain", gain)
        self.noise = noise_of_units(noise_std, n_units)
        self.input_noise = noise_of_inputs(input_noise_std, n_inputs)
        self.output_fn, output_bias = prepare_readout(output_fn, output_bias, n_outputs)
        normal = jax.random.normal
        self.recurrent_weights = _recurrent_weights(
            n_units, gain, signs, density, key_stream(key, "recurrent")
        )
        self.input_weights = normal(key_stream(key, "input"), (n_units, n_inputs)) / n_inputs**0.5
        self.bias = jnp.zeros(n_units)
        self.readout = linear_readout(n_units, n_outputs, output_bias, key=key_stream(key, "readout"))
        self.tau = jnp.asarray(tau, self.bias.dtype)
        self.plasticity = check_plasticity(plasticity, n_units, dt)
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
        recurrent = recurrent_projection(lambda network: network.recurrent_weights)
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
