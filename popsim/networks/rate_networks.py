"""Networks of rate units: leaky ones, those whose recurrent weights have a low rank, and plain ones."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Unpack

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, ScalarLike

from popsim._shared.argument_shapes import OneOrEach
from popsim._shared.checks import WholeNumber, check_non_negative, check_positive_int, is_traced
from popsim.networks import building
from popsim.networks.base import Inputs, Units
from popsim.networks.initial_weights import dale_weights
from popsim.networks.leaky import AbstractLeakyNetwork, LeakyOptions
from popsim.networks.plasticity import ShortTermPlasticity
from popsim.networks.registry import register_leaky, register_network
from popsim.noise import AbstractNoise
from popsim.randomness import key_stream

__all__ = ["FeedbackRNN", "LeakyRNN", "LowRankRNN", "VanillaRNN"]


class LeakyRNN(AbstractLeakyNetwork, building.RecurrentWeights):
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
        numbers. Units receive it through W_in, and share it where they share inputs. It is scaled so
        that an uncoupled unit with weights w fluctuates by exactly sqrt(sum_k w_k^2 input_noise_std_k^2) at
        any dt.
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

    recurrent_field: ClassVar[str | None] = "recurrent_weights"
    parameter_axes: ClassVar[Mapping[str, tuple[str, ...]]] = building.RECURRENT_AXES

    def __init__(
        self,
        n_inputs: WholeNumber,
        n_units: WholeNumber,
        n_outputs: WholeNumber,
        *,
        gain: ScalarLike = 0.9,
        signs: OneOrEach | None = None,
        density: float = 1.0,
        key: Key[Array, ""],
        **options: Unpack[LeakyOptions],
    ):
        super().__init__(n_inputs, n_units, n_outputs, key=key, **options)
        building.check_gain("gain", gain)
        units = self.bias.shape
        if signs is None:
            if density != 1:
                raise ValueError(f"`density` needs `signs`, got {density} and None.")
            self.recurrent_weights = building.gaussian_weights("recurrent", units * 2, gain, key=key)
            return
        if np.shape(signs) != units:
            raise ValueError(f"`signs` must be one for each of {n_units} units, got shape {np.shape(signs)}.")
        stream = key_stream(key, "recurrent")
        self.recurrent_weights = dale_weights(signs, gain, density=density, key=stream)

    def recurrent_input(self, rates: Units) -> Units:
        return self.recurrent_weights @ rates


register_leaky("tanh", LeakyRNN, "Leaky units with tanh rates and a linear readout.")


class FeedbackRNN(LeakyRNN):
    """A `LeakyRNN` whose output comes back to its units, which receive W_rec r + W_fb y at each step.

    The network of FORCE (Sussillo & Abbott 2009, Neuron 63:544-557, fig. 1A; see
    `popsim.training.rules.FORCE`). Trials start at random, as activity of gain above 1 would not start from
    zero, and the readout starts at zero. The weights W_fb, uniform from -1 to 1, are not learned.

    **Arguments:**

    - `n_inputs`, `n_units`, `n_outputs`: the sizes.
    - `start_std`: the standard deviation of the activations at the start of a trial.
    - `gain`, `options`, `key`: as of `LeakyRNN`.
    """

    feedback_weights: Float[Array, "*members units outputs"]
    start_std: float = eqx.field(static=True)

    def __init__(
        self,
        n_inputs: WholeNumber,
        n_units: WholeNumber,
        n_outputs: WholeNumber,
        *,
        gain: ScalarLike = 1.5,
        start_std: float = 0.5,
        key: Key[Array, ""],
        **options: Unpack[LeakyOptions],
    ):
        super().__init__(n_inputs, n_units, n_outputs, gain=gain, key=key, **options)
        check_non_negative("start_std", start_std)
        self.readout = jax.tree.map(jnp.zeros_like, self.readout)
        shape = self.readout.weight.shape[::-1]
        self.feedback_weights = jax.random.uniform(key_stream(key, "feedback"), shape, minval=-1.0)
        self.start_std = start_std

    @property
    def constants(self) -> tuple[str, ...]:
        return ("feedback_weights", *super().constants)

    def init(self, *, key: Key[Array, ""]) -> Units:
        return self.start_std * jax.random.normal(key, self.bias.shape, self.bias.dtype)

    def recurrent_input(self, rates: Units) -> Units:
        return super().recurrent_input(rates) + self.feedback_weights @ self._output_for(rates)


def _short_term(n_inputs: int, n_units: int, n_outputs: int, **options: Any) -> LeakyRNN:
    # Weights act through u x, which is .15 and .45 at rest: a gain that makes up for it on average.
    options |= {"plasticity": ShortTermPlasticity.alternating(n_units), "gain": 3.0}
    return LeakyRNN(n_inputs, n_units, n_outputs, nonlinearity=jax.nn.relu, **options)


register_leaky("short-term", _short_term, "Leaky units with facilitating and depressing synapses.")


class _Modes(eqx.Module):
    """The recurrent weights of a `LowRankRNN`; a base class for the reason of `RecurrentWeights`."""

    left: Float[Array, "*members units rank"]  # m
    right: Float[Array, "*members units rank"]  # n
    random_weights: Float[Array, "*members units units"] | None  # g χ, [post, pre]


class LowRankRNN(AbstractLeakyNetwork, _Modes):
    """A `LeakyRNN` with W_rec = m n^T / N + g χ: a part of low rank, and a random part that is not trained.

    m and n have a column for each of `rank` modes, and N is the number of units. The entries of χ have
    variance 1 / N. So the connectivity of Mastrogiuseppe & Ostojic 2018, Neuron 99:609-623, is the sum of a
    random part and one of low rank. A step takes 2 N `rank` products for the latter in place of N².

    **Arguments:**

    - `n_inputs`, `n_units`, `n_outputs`: the sizes.
    - `rank`: the number of modes, at most the number of units.
    - `random_gain`: g; 0 for no random part.
    - `options`: `tau`, `train_tau`, `dt`, `nonlinearity`, `noise_std`, `input_noise_std`, `plasticity`,
        `output_fn`, `output_bias`, as of a `LeakyRNN`.
    - `key`: for the initial weights. Entries of m and n are drawn from a standard normal distribution.
    """

    parameter_axes: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "left": ("unit", "mode"),
        "right": ("unit", "mode"),
        **building.RATE_AXES,
    }

    def __init__(
        self,
        n_inputs: WholeNumber,
        n_units: WholeNumber,
        n_outputs: WholeNumber,
        *,
        rank: WholeNumber = 2,
        random_gain: ScalarLike = 0.0,
        key: Key[Array, ""],
        **options: Unpack[LeakyOptions],
    ):
        super().__init__(n_inputs, n_units, n_outputs, key=key, **options)
        check_positive_int("rank", rank)
        building.check_gain("random_gain", random_gain)
        units, shape = self.bias.shape, (len(self.bias), int(rank))
        self.left, self.right = (
            jax.random.normal(key_stream(key, name), shape) for name in ("left", "right")
        )
        self.random_weights = None
        if is_traced(random_gain) or random_gain != 0:
            self.random_weights = building.gaussian_weights("random", units * 2, random_gain, key=key)

    @property
    def constants(self) -> tuple[str, ...]:
        return ("random_weights", *super().constants)

    @property
    def recurrent_weights(self) -> Float[Array, "*members units units"]:
        """W_rec, [post, pre]."""
        weights = self.left @ jnp.swapaxes(self.right, -1, -2) / self.left.shape[-2]
        return weights if self.random_weights is None else weights + self.random_weights

    def recurrent_input(self, rates: Units) -> Units:
        received = self.left @ (self.right.T @ rates) / len(rates)
        return received if self.random_weights is None else received + self.random_weights @ rates


register_leaky("low-rank", LowRankRNN, "Leaky units with tanh rates and recurrent weights of rank two.")


@register_network("vanilla")
class VanillaRNN(building.AbstractRateNetwork, building.RecurrentWeights):
    """A layer of units h' = f(W_rec h + W_in u + b) with a linear readout (Elman 1990, Cogn Sci 14:179-211).

    A `LeakyRNN` with dt = tau has the same dynamics, in other variables: its `hidden` is the argument of f. A
    trial starts with all units at zero.

    **Arguments:**

    - `n_inputs`, `n_units`, `n_outputs`: the sizes.
    - `nonlinearity`: f.
    - `noise_std`: the standard deviation of noise on the units after each step, one for all units or one per
        unit; 0 draws no random numbers.
    - `gain`: the standard deviation of W_rec times sqrt(n_units).
    - `output_fn`, `output_bias`: of the readout, as of a `GRUNetwork`.
    - `key`: for the initial weights.
    """

    recurrent_field: ClassVar[str | None] = "recurrent_weights"
    parameter_axes: ClassVar[Mapping[str, tuple[str, ...]]] = building.RECURRENT_AXES
    noise: AbstractNoise
    nonlinearity: Callable[[Array], Array] = eqx.field(static=True)

    def __init__(
        self,
        n_inputs: WholeNumber,
        n_units: WholeNumber,
        n_outputs: WholeNumber,
        *,
        nonlinearity: Callable[[Array], Array] = jnp.tanh,
        noise_std: OneOrEach = 0.0,
        gain: ScalarLike = 0.9,
        output_fn: Callable[[Array], Array] | None = None,
        output_bias: OneOrEach = 0.0,
        key: Key[Array, ""],
    ):
        sizes = n_inputs, n_units, _ = building.as_sizes(n_inputs, n_units, n_outputs)
        self._set_units(sizes, noise_std, output_fn, output_bias, key)
        building.check_gain("gain", gain)
        self.recurrent_weights = building.gaussian_weights("recurrent", (n_units, n_units), gain, key=key)
        self.input_weights = building.gaussian_weights("input", (n_units, n_inputs), key=key)
        self.bias = jnp.zeros(n_units)
        self.nonlinearity = nonlinearity

    def init(self, *, key: Key[Array, ""]) -> Units:
        return jnp.zeros_like(self.bias)

    def step(self, inputs: Inputs, hidden: Units, *, key: Key[Array, ""]) -> Units:
        drive = self.recurrent_weights @ hidden + self.input_weights @ inputs + self.bias
        return self.noise(self.nonlinearity(drive), key=key)
