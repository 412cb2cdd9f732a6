"""Leaky networks whose recurrent weights have a low rank."""

from collections.abc import Callable, Mapping
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, ScalarLike

from popsim._shared.argument_shapes import OneOrEach, check_one_or_each
from popsim._shared.checks import WholeNumber, check_non_negative, check_positive_int, is_traced
from popsim._shared.plain_values import plain_number
from popsim.networks.base import (
    READOUT_AXES,
    as_sizes,
    linear_readout,
    noise_of_inputs,
    noise_of_units,
    prepare_readout,
)
from popsim.networks.leaky import AbstractLeakyNetwork, check_leaky, check_plasticity
from popsim.networks.plasticity import AbstractPlasticity
from popsim.noise import AbstractNoise
from popsim.randomness import key_stream

__all__ = ["LowRankRNN"]


class LowRankRNN(AbstractLeakyNetwork):
    """A `LeakyRNN` with W_rec = m n^T / N + g χ: a part of low rank, and a random part that is not trained.

    m and n have a column for each of `rank` modes, and N is the number of units. The entries of χ have
    variance 1 / N. So the connectivity of Mastrogiuseppe & Ostojic 2018, Neuron 99:609-623, is the sum of a
    random part and one of low rank. A step takes 2 N `rank` products for the latter in place of N².

    **Arguments:**

    - `n_inputs`, `n_units`, `n_outputs`: the sizes.
    - `rank`: the number of modes, at most the number of units.
    - `random_gain`: g; 0 for no random part.
    - `tau`, `train_tau`, `dt`, `nonlinearity`, `noise_std`, `input_noise_std`, `plasticity`, `output_fn`,
        `output_bias`: as of a `LeakyRNN`.
    - `key`: for the initial weights. Entries of m and n are drawn from a standard normal distribution.
    """

    parameter_axes: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "left": ("unit", "mode"),
        "right": ("unit", "mode"),
        "input_weights": ("unit", "input"),
        "bias": ("unit",),
        **READOUT_AXES,
    }
    left: Float[Array, "*members units rank"]  # m
    right: Float[Array, "*members units rank"]  # n
    random_weights: Float[Array, "*members units units"] | None  # g χ, [post, pre]
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
        rank: WholeNumber = 2,
        random_gain: ScalarLike = 0.0,
        tau: OneOrEach = 0.05,
        dt: float = 0.01,
        nonlinearity: Callable[[Array], Array] = jnp.tanh,
        noise_std: OneOrEach = 0.0,
        input_noise_std: OneOrEach = 0.0,
        train_tau: bool = False,
        plasticity: AbstractPlasticity | None = None,
        output_fn: Callable[[Array], Array] | None = None,
        output_bias: OneOrEach = 0.0,
        key: Key[Array, ""],
    ):
        n_inputs, n_units, n_outputs = as_sizes(n_inputs, n_units, n_outputs)
        check_positive_int("rank", rank)
        if rank > n_units:
            raise ValueError(f"`rank` must be at most the number of units, {n_units}, got {rank}.")
        check_one_or_each("random_gain", random_gain)
        check_non_negative("random_gain", random_gain)
        check_leaky(n_units, tau, dt, nonlinearity)
        self.noise = noise_of_units(noise_std, n_units)
        self.input_noise = noise_of_inputs(input_noise_std, n_inputs)
        self.output_fn, output_bias = prepare_readout(output_fn, output_bias, n_outputs)
        normal, modes = jax.random.normal, (n_units, int(rank))
        self.left, self.right = (normal(key_stream(key, name), modes) for name in ("left", "right"))
        self.random_weights = None
        if is_traced(random_gain) or random_gain != 0:
            random = normal(key_stream(key, "random"), (n_units, n_units))
            self.random_weights = random_gain * random / n_units**0.5
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
        """The fields that are not learned, besides the noise: g χ, and tau unless `train_tau`."""
        return ("random_weights",) if self.train_tau else ("random_weights", "tau")

    @property
    def recurrent_weights(self) -> Float[Array, "*members units units"]:
        """W_rec, [post, pre]."""
        weights = self.left @ jnp.swapaxes(self.right, -1, -2) / self.left.shape[-2]
        return weights if self.random_weights is None else weights + self.random_weights

    def recurrent_input(self, rates: Float[Array, " unit"]) -> Float[Array, " unit"]:
        received = self.left @ (self.right.T @ rates) / len(rates)
        return received if self.random_weights is None else received + self.random_weights @ rates
