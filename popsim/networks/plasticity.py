"""Plasticity within a trial: recurrent synapses whose strength moves with the activity of the units."""

import abc
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PyTree, ScalarLike

from popsim._shared import checks
from popsim._shared.argument_shapes import check_one_or_each
from popsim.networks.base import Units
from popsim.parameters import Constants
from popsim.randomness import key_stream

__all__ = ["AbstractPlasticity", "DifferentiablePlasticity", "FastWeights", "ShortTermPlasticity"]

Send = Callable[[Units], Units]
Weights = Float[Array, "unit unit"]  # [post, pre]


class AbstractPlasticity(eqx.Module):
    """Base class of plasticity within a trial, for the `plasticity` of a leaky network.

    A subclass supplies `init`, `step` and `transmit`. Two options of each, which it may give other defaults:

    - `is_recorded`: whether simulations keep its state. That of 100 units with a trace for each connection
        takes 40 kB a step and a trial.
    - `trains_through`: whether gradients flow through its state. If not, the state is a given input of each
        step, and what training changes is only how the network uses it.

    One whose `step` does not depend on `dt` sets the class variable `has_dt` to False: `with_dt` of its
    network is then refused.

    !!! example

        ```python
        >>> import jax, jax.numpy as jnp, popsim
        >>> class Fatigue(popsim.networks.AbstractPlasticity):
        ...     def init(self, n_units):
        ...         return jnp.zeros(n_units)
        ...     def step(self, state, rates, *, dt):
        ...         return state + dt * (rates**2 - state)
        ...     def transmit(self, state, send, rates):
        ...         return send(rates / (1 + state))
        >>> network = popsim.networks.LeakyRNN(3, 5, 2, plasticity=Fatigue(), key=jax.random.key(0))
        >>> hidden = network.init(key=jax.random.key(0))
        >>> network.step(jnp.ones(3), hidden, key=jax.random.key(0)).synapses.shape
        (5,)

        ```
    """

    has_dt: ClassVar[bool] = True
    is_recorded: bool = eqx.field(static=True, default=True, kw_only=True)
    trains_through: bool = eqx.field(static=True, default=True, kw_only=True)

    @abc.abstractmethod
    def init(self, n_units: int) -> PyTree[Array]:
        """Return the state at the start of a trial."""

    @abc.abstractmethod
    def step(self, state: PyTree[Array], rates: Units, *, dt: float) -> PyTree[Array]:
        """Return the state one time step later, of the same structure.

        **Arguments:**

        - `state`: the state before the step.
        - `rates`: the rates of the units before the step.
        - `dt`: the time step in seconds.
        """

    @abc.abstractmethod
    def transmit(self, state: PyTree[Array], send: Send, rates: Units) -> Units:
        """Return what the units receive from one another.

        **Arguments:**

        - `state`: the state after `step` of the same time step.
        - `send`: what the units would receive without plasticity, a linear function of rates.
        - `rates`: the rates of the units.
        """

    def check_dt(self, dt: float) -> None:  # noqa: B027
        """Check the time step of the network, in s, before anything is compiled; by default accept it.

        One whose `step` divides by a time constant refuses constants below the time step.
        """


class ShortTermPlasticity(AbstractPlasticity):
    """Facilitation and depression of all synapses of a presynaptic unit (Mongillo, Barak & Tsodyks 2008).

    A fraction x of the transmitter of unit j is available, and a fraction u of this is released:

    dx/dt = (1 - x) / tau_depression - u x r,
    du/dt = (U - u) / tau_facilitation + U (1 - u) r,

    and units receive sum_j W_ij u_j x_j r_j (Science 319:1543-1546). The Euler steps, the limits of x and u
    to [0, 1], and the values of `facilitating` and `depressing` are those of Masse et al. 2019, Nat Neurosci
    22:1159-1167; they were checked against the authors' code. Where a step would pass the value at which x
    or u stays and alternate around it, as at rates r above 1 / (dt u), it ends there. A trial starts with
    x = 1 and u = U. The rate r is in spikes/s, so that rates of at most one hardly move x and u: take a
    nonlinearity without an upper limit, such as `jax.nn.relu`, or set `rate_scale`.

    All arrays are constants.

    **Arguments:**

    - `release`: U, from 0 to 1; one for all units, or one for each.
    - `tau_facilitation`, `tau_depression`: time constants in seconds, at least a time step; one for all units
        or one for each.
    - `rate_scale`: r in spikes/s that belongs to a rate of one.
    - `is_recorded`, `trains_through`: see `AbstractPlasticity`. The state is a dict of "available" (x) and
        "released" (u), of shape (unit,).
    """

    constants: ClassVar[Constants] = "all"
    release: Float[Array, "*units"] = eqx.field(converter=checks.as_float_array)
    tau_facilitation: Float[Array, "*units"] = eqx.field(converter=checks.as_float_array)
    tau_depression: Float[Array, "*units"] = eqx.field(converter=checks.as_float_array)
    rate_scale: Float[Array, ""] = eqx.field(converter=checks.as_float_array, default=1.0)

    def __check_init__(self):
        for name in ("release", "tau_facilitation", "tau_depression"):
            values = getattr(self, name)
            check_one_or_each(name, values, len(values) if np.ndim(values) == 1 else None, "units")
        checks.check_fraction("release", self.release)
        check_one_or_each("rate_scale", self.rate_scale)
        for name in ("tau_facilitation", "tau_depression", "rate_scale"):
            checks.check_positive(name, getattr(self, name))

    @classmethod
    def facilitating(cls, **options: Any) -> "ShortTermPlasticity":
        """Return synapses that facilitate: U .15, recovery of u 1.5 s, of x .2 s (Masse et al. 2019)."""
        return cls(0.15, 1.5, 0.2, **options)

    @classmethod
    def depressing(cls, **options: Any) -> "ShortTermPlasticity":
        """Return synapses that depress: U .45, recovery of u .2 s, of x 1.5 s (Masse et al. 2019)."""
        return cls(0.45, 0.2, 1.5, **options)

    @classmethod
    def alternating(cls, n_units: checks.WholeNumber, **options: Any) -> "ShortTermPlasticity":
        """Return synapses that facilitate for every other unit from the first, and depress for the others.

        The networks of Masse et al. 2019 have both kinds in halves. The options of all three are
        `rate_scale`, `is_recorded` and `trains_through`.
        """
        facilitates = np.arange(n_units) % 2 == 0
        values = [(0.15, 0.45), (1.5, 0.2), (0.2, 1.5)]
        return cls(*(np.where(facilitates, *pair) for pair in values), **options)

    def init(self, n_units: int) -> dict[str, Units]:
        for name in ("release", "tau_facilitation", "tau_depression"):
            check_one_or_each(name, getattr(self, name), n_units, "units")
        released = jnp.broadcast_to(self.release, (n_units,))
        return {"available": jnp.ones_like(released), "released": released}

    def step(self, state: dict[str, Units], rates: Units, *, dt: float) -> dict[str, Units]:
        available, released = state["available"], state["released"]
        spikes = self.rate_scale * rates  # per second
        depletion = (1 - available) / self.tau_depression - released * available * spikes
        facilitation = (self.release - released) / self.tau_facilitation
        facilitation = facilitation + self.release * (1 - released) * spikes
        step_of_x = _longest_step(1 / self.tau_depression + released * spikes, dt)
        step_of_u = _longest_step(1 / self.tau_facilitation + self.release * spikes, dt)
        return {
            "available": jnp.clip(available + step_of_x * depletion, 0, 1),
            "released": jnp.clip(released + step_of_u * facilitation, 0, 1),
        }

    def transmit(self, state: dict[str, Units], send: Send, rates: Units) -> Units:
        return send(state["released"] * state["available"] * rates)

    def check_dt(self, dt: float) -> None:
        checks.check_time_constant("tau_facilitation", self.tau_facilitation, dt)
        checks.check_time_constant("tau_depression", self.tau_depression, dt)


def _longest_step(decay: Units, dt: float) -> Units:
    """Return dt, or the shorter time after which an Euler step of dx/dt = a - decay x is where x stays.

    No gradient flows through it, so that those of steps that are not shortened stay as they are.
    """
    return jax.lax.stop_gradient(dt / jnp.maximum(dt * decay, 1))


class FastWeights(AbstractPlasticity):
    """Weights that hold what the units did of late: A' = exp(-dt / tau) A + rate dt r r^T.

    Units receive (W + A) r. The decay and the outer product of the rates are those of Ba et al. 2016, arXiv
    1610.06258, equation 1, with lambda = exp(-dt / tau) and eta = rate dt; A is updated with the rates before
    it acts on them. They repeat the product with A several times between two inputs, with layer
    normalisation; here each time step has one product, so that what is to be recalled needs some steps.

    Both numbers are constants. A trial starts with A = 0.

    **Arguments:**

    - `tau`: the time constant of the decay in seconds, at least a time step.
    - `rate`: how fast weights grow, per second.
    - `is_recorded`, `trains_through`: see `AbstractPlasticity`. The state is A, [post, pre].
    """

    constants: ClassVar[Constants] = "all"
    tau: Float[Array, ""] = eqx.field(converter=checks.as_float_array)
    rate: Float[Array, ""] = eqx.field(converter=checks.as_float_array)
    is_recorded: bool = eqx.field(static=True, default=False, kw_only=True)

    def __check_init__(self):
        check_one_or_each("tau", self.tau)
        checks.check_positive("tau", self.tau)
        check_one_or_each("rate", self.rate)
        checks.check_non_negative("rate", self.rate)

    def init(self, n_units: int) -> Weights:
        return jnp.zeros((n_units, n_units))

    def step(self, state: Weights, rates: Units, *, dt: float) -> Weights:
        return jnp.exp(-dt / self.tau) * state + self.rate * dt * jnp.outer(rates, rates)

    def transmit(self, state: Weights, send: Send, rates: Units) -> Units:
        return send(rates) + state @ rates

    def check_dt(self, dt: float) -> None:
        # The sum would count in full what it forgets within a step.
        checks.check_time_constant("tau", self.tau, dt)


class HebbianTrace(eqx.Module):
    """The state of `DifferentiablePlasticity`: H, [post, pre], and the rates one step ago."""

    trace: Float[Array, "*axes unit unit"]
    rates: Float[Array, "*axes unit"]


class DifferentiablePlasticity(AbstractPlasticity):
    """A Hebbian trace H for each connection, and a trained strength alpha with which it acts.

    Units receive (W + alpha * H) r, with H_ij moved by r_i(t) r_j(t - 1):

    - plain: H' = (1 - eta) H + eta r(t) r(t - 1)^T (Miconi, Clune & Stanley 2018, arXiv 1804.02464), with a
        trained eta;
    - modulated: H' = H + m r(t) r(t - 1)^T, limited to [-2, 2], where m_i = f_i tanh(w r + b) + c_i is what
        the network makes of its own rates (Miconi et al. 2019, ICLR, arXiv 2002.10585), with trained w, b, f
        and c.

    Both were checked against the code that the authors published. Their equations have no dt: a step is a
    step of theirs, and `with_dt` of the network is refused. A trial starts with H = 0.

    **Arguments:**

    - `n_units`: the number of units.
    - `is_modulated`: which of the two.
    - `rate`: the initial eta, from 0 to 1.
    - `initial_std`: the standard deviation of the initial alpha.
    - `is_recorded`, `trains_through`: see `AbstractPlasticity`.
    - `key`: for the initial values.
    """

    has_dt: ClassVar[bool] = False
    strength: Float[Array, "*members unit unit"]
    rate: Float[Array, "*members"] | None
    modulator: eqx.nn.Linear | None
    fan_out: eqx.nn.Linear | None

    def __init__(
        self,
        n_units: checks.WholeNumber,
        *,
        is_modulated: bool = False,
        rate: ScalarLike = 0.01,
        initial_std: ScalarLike = 0.01,
        is_recorded: bool = False,
        trains_through: bool = True,
        key: Key[Array, ""],
    ):
        checks.check_positive_int("n_units", n_units)
        check_one_or_each("initial_std", initial_std)
        checks.check_non_negative("initial_std", initial_std)
        check_one_or_each("rate", rate)
        checks.check_fraction("rate", rate)
        n_units = int(n_units)
        normal = jax.random.normal(key_stream(key, "strength"), (n_units, n_units))
        self.strength = jnp.asarray(initial_std * normal)
        self.rate = None if is_modulated else jnp.asarray(rate, self.strength.dtype)
        self.modulator = self.fan_out = None
        if is_modulated:
            self.modulator = eqx.nn.Linear(n_units, "scalar", key=key_stream(key, "modulator"))
            self.fan_out = eqx.nn.Linear("scalar", n_units, key=key_stream(key, "fan out"))
        self.is_recorded = is_recorded
        self.trains_through = trains_through

    def init(self, n_units: int) -> HebbianTrace:
        zeros = jnp.zeros(n_units, self.strength.dtype)
        return HebbianTrace(jnp.zeros_like(self.strength), zeros)

    def step(self, state: HebbianTrace, rates: Units, *, dt: float) -> HebbianTrace:
        change = jnp.outer(rates, state.rates)
        if self.rate is not None:
            trace = (1 - self.rate) * state.trace + self.rate * change
        else:
            assert self.modulator is not None and self.fan_out is not None
            modulation = self.fan_out(jnp.tanh(self.modulator(rates)))
            trace = jnp.clip(state.trace + modulation[:, None] * change, -2, 2)
        return HebbianTrace(trace, rates)

    def transmit(self, state: HebbianTrace, send: Send, rates: Units) -> Units:
        return send(rates) + (self.strength * state.trace) @ rates
