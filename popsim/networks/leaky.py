"""The base class of leaky rate networks."""

import abc
from collections.abc import Callable
from typing import TypedDict, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from popsim._shared import checks
from popsim._shared.argument_shapes import OneOrEach, check_one_number, check_one_or_each
from popsim._shared.plain_values import plain_number
from popsim.model import Unrecorded
from popsim.networks import building
from popsim.networks.base import Hidden, Inputs, Units
from popsim.networks.plasticity import AbstractPlasticity
from popsim.noise import AbstractNoise, GaussianNoise, NoNoise
from popsim.parameters import LearnedByArgument, is_parameter, replace_fields
from popsim.randomness import key_stream

__all__ = ["AbstractLeakyNetwork", "LeakyState"]

LeakyType = TypeVar("LeakyType", bound="AbstractLeakyNetwork")


class UnrecordedState(Unrecorded):
    """The state of a plasticity that simulations do not keep."""

    state: PyTree[Array]


class LeakyState(eqx.Module):
    """The hidden state of a leaky network whose synapses have a state of their own.

    - `activation`: x, the argument of the nonlinearity.
    - `synapses`: the state of the plasticity, or the rates on their way between areas; None where simulations
        do not keep it.
    """

    activation: Float[Array, "*axes unit"]
    synapses: PyTree[Array]


def activation_of(hidden: Hidden) -> Float[Array, "*axes unit"]:
    """Return the activations x of a hidden state."""
    return hidden.activation if isinstance(hidden, LeakyState) else hidden


class LeakyOptions(TypedDict, total=False):
    """The options of leaky networks, as `LeakyRNN` describes them."""

    tau: OneOrEach
    train_tau: bool
    dt: float
    nonlinearity: Callable[[Array], Array]
    noise_std: OneOrEach
    input_noise_std: OneOrEach
    plasticity: AbstractPlasticity | None
    output_fn: Callable[[Array], Array] | None
    output_bias: OneOrEach


class AbstractLeakyNetwork(building.AbstractRateNetwork):
    """Base class of leaky rate networks: tau dx/dt = -x + (what units send) + W_in u + b + noise.

    A subclass supplies `recurrent_input`. See `LeakyRNN` for the arguments, and for the Euler step and its
    noise. The hidden state is x, or a `LeakyState` where the network has `plasticity`.

    !!! example

        ```python
        >>> import jax, jax.numpy as jnp, popsim
        >>> class Ring(popsim.networks.AbstractLeakyNetwork):
        ...     "Each unit sends to its neighbour."
        ...     def recurrent_input(self, rates):
        ...         return jnp.roll(rates, 1)
        >>> ring = Ring(1, 8, 2, tau=0.1, key=jax.random.key(0))
        >>> ring.step(jnp.ones(1), jnp.zeros(8), key=jax.random.key(1)).shape
        (8,)

        ```
    """

    tau: Float[Array, "*axes"]  # s
    noise: AbstractNoise
    input_noise: AbstractNoise
    plasticity: AbstractPlasticity | None
    nonlinearity: Callable[[Array], Array] = eqx.field(static=True, kw_only=True)
    dt: float = eqx.field(static=True, converter=plain_number, kw_only=True)
    train_tau: bool = eqx.field(static=True, default=False, kw_only=True)

    def __init__(
        self,
        n_inputs: checks.WholeNumber,
        n_units: checks.WholeNumber,
        n_outputs: checks.WholeNumber,
        *,
        tau: OneOrEach = 0.05,
        train_tau: bool = False,
        dt: float = 0.01,
        nonlinearity: Callable[[Array], Array] = jnp.tanh,
        noise_std: OneOrEach = 0.0,
        input_noise_std: OneOrEach = 0.0,
        plasticity: AbstractPlasticity | None = None,
        output_fn: Callable[[Array], Array] | None = None,
        output_bias: OneOrEach = 0.0,
        key: Key[Array, ""],
    ):
        sizes = _, n_units, _ = building.as_sizes(n_inputs, n_units, n_outputs)
        self._set_units(sizes, noise_std, output_fn, output_bias, key)
        self.input_weights = building.gaussian_weights("input", (n_units, sizes[0]), key=key)
        self.input_noise = building.noise_of("input_noise_std", input_noise_std, sizes[0], "inputs")
        check_one_or_each("tau", tau, n_units, "units")
        check_one_number("dt", dt)
        checks.check_time_step(dt)
        checks.check_time_constant("tau", tau, dt)
        self.nonlinearity, self.dt, self.train_tau = nonlinearity, dt, train_tau
        self.bias = jnp.zeros(n_units)
        self.tau = jnp.asarray(tau, self.bias.dtype)
        self.plasticity = plasticity
        if plasticity is not None:
            plasticity.init(n_units)
            plasticity.check_dt(dt)

    @property
    def learned_by_argument(self) -> LearnedByArgument:
        """The fields that an argument says are learned."""
        return {"tau": "train_tau=True"} if self.train_tau else {}

    @property
    def constants(self) -> tuple[str, ...]:
        """The fields that are not learned, besides the noise: the time constant, unless `train_tau`."""
        return () if self.train_tau else ("tau",)

    @abc.abstractmethod
    def recurrent_input(self, rates: Units) -> Units:
        """Return what units receive from one another at rates r = f(x)."""

    def received_input(self, inputs: Inputs) -> Units:
        """Return what units receive from the inputs, without their bias."""
        return self.input_weights @ inputs

    def init(self, *, key: Key[Array, ""]) -> Hidden:
        start = jnp.zeros_like(self.bias)
        synapses = self.init_synapses(self.nonlinearity(start))
        return start if synapses is None else LeakyState(start, synapses)

    def step(self, inputs: Inputs, hidden: Hidden, *, key: Key[Array, ""]) -> Hidden:
        activation = activation_of(hidden)
        synapses = hidden.synapses if isinstance(hidden, LeakyState) else None
        received, synapses = self.step_synapses(synapses, self.nonlinearity(activation))
        drive = received + self.received_input(inputs) + self.bias
        leak = self.dt / self.tau
        noise = self.noise(jnp.zeros_like(activation), key=key)
        new_activation = activation + leak * (drive - activation) + jnp.sqrt(2 * leak) * noise
        if not isinstance(self.input_noise, NoNoise):
            noise = self.input_noise(jnp.zeros_like(inputs), key=key_stream(key, "input noise"))
            # A step keeps (1 - leak)^2 of the variance; this adds what is missing.
            new_activation += jnp.sqrt(leak * (2 - leak)) * self.received_input(noise)
        return new_activation if synapses is None else LeakyState(new_activation, synapses)

    def init_synapses(self, rates: Units) -> PyTree[Array]:
        """Return the state of the synapses at the start of a trial; None if they have none."""
        return None if self.plasticity is None else self._keep(self.plasticity.init(rates.size))

    def step_synapses(self, synapses: PyTree[Array], rates: Units) -> tuple[Units, PyTree[Array]]:
        """Return what units receive from one another at this step, and the state of the synapses."""
        if self.plasticity is None:
            return self.recurrent_input(rates), None
        state = synapses.state if isinstance(synapses, UnrecordedState) else synapses
        state = self.plasticity.step(state, rates, dt=self.dt)
        if not self.plasticity.trains_through:
            state = jax.lax.stop_gradient(state)
        return self.plasticity.transmit(state, self.recurrent_input, rates), self._keep(state)

    def _keep(self, state: PyTree[Array]) -> PyTree[Array]:
        """Return the state of the plasticity, marked if it is not recorded."""
        assert self.plasticity is not None
        return state if self.plasticity.is_recorded else UnrecordedState(state)

    def activity(self, hidden: Hidden) -> Units:
        """Return the activations x."""
        return super().activity(activation_of(hidden))

    def with_activity(self, hidden: Hidden, rates: Units) -> Hidden:
        is_leaky = isinstance(hidden, LeakyState)
        return LeakyState(rates, hidden.synapses) if is_leaky else super().with_activity(hidden, rates)

    def rates(self, hidden: Hidden) -> Float[Array, "*axes unit"]:
        """Return the rates f(x)."""
        return self.nonlinearity(activation_of(hidden))

    def check_dt(self, dt: float) -> None:
        checks.check_same_dt(dt, self.dt, "network", f"To move the network there: network.with_dt({dt}).")
        if not is_parameter(self).tau:  # which training may move below it
            checks.check_time_constant("tau", self.tau, dt)
        if self.plasticity is not None:
            self.plasticity.check_dt(dt)

    def with_dt(self: LeakyType, dt: float) -> LeakyType:
        """Return the network for another time step (s), of one model or of an ensemble.

        With the leak a = dt / tau, an uncoupled unit keeps the fraction (1 - a)^(t / dt) of its activation
        for a time t, and fluctuates with variance s^2 / (1 - a / 2) for `noise_std` s (the stationary
        variance of a first-order autoregression; Box & Jenkins, Time Series Analysis, section 3.2). Both are
        kept exactly: a' = 1 - (1 - a)^(dt' / dt), tau' = dt' / a', s'^2 = s^2 (1 - a' / 2) / (1 - a / 2). So
        are its fluctuations by the noise of inputs, whose standard deviation does not depend on dt, and
        the fixed points of the coupled network; how it moves between them differs in the order of dt.
        """
        checks.check_time_step(dt)
        checks.check_time_constant("tau", self.tau, self.dt)
        if self.plasticity is not None:
            if not self.plasticity.has_dt:
                raise ValueError(
                    f"`plasticity` must have a time step in its equation to be moved to dt = {dt} s, got "
                    f"{checks.kind_of(self.plasticity)}: what it learned holds for the dt at which it was "
                    "trained."
                )
            self.plasticity.check_dt(dt)
        if self.bias.ndim > 1:
            return eqx.filter_vmap(lambda network: network.with_dt(dt))(self)
        if type(self.noise) not in (GaussianNoise, NoNoise):
            raise ValueError(
                f"`noise` must be Gaussian to be moved to another dt, got {checks.kind_of(self.noise)}."
            )
        leak = self.dt / self.tau
        moved = 1 - (1 - leak) ** (dt / self.dt)
        noise = self.noise
        if isinstance(noise, GaussianNoise):
            noise = GaussianNoise(noise.std * jnp.sqrt((1 - moved / 2) / (1 - leak / 2)))
        return replace_fields(self, tau=dt / moved, noise=noise, dt=plain_number(dt))
