"""A network of spiking units."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, ScalarLike

from popsim._shared import checks
from popsim._shared.argument_shapes import OneOrEach, check_one_number, check_one_or_each
from popsim._shared.plain_values import plain_number
from popsim.networks import building
from popsim.networks.base import Inputs, Projection, Units
from popsim.networks.registry import register_network
from popsim.noise import AbstractNoise

__all__ = ["SpikingRNN", "SpikingState", "Triangular"]


class Triangular(eqx.Module):
    """Spikes [x > 0], with the derivative `height` max(0, 1 - |x|) in place of that of a step.

    The pseudo-derivative of Bellec et al. 2020, Nat Commun 11:3625 (compared with their code), where x is how
    far the voltage is above the threshold, in thresholds.
    """

    height: float = eqx.field(static=True, default=0.3)

    def __check_init__(self):
        checks.check_positive("height", self.height)

    def __call__(self, above: Float[Array, " unit"]) -> Float[Array, " unit"]:
        # The second term is zero, and has the derivative `slope`.
        slope = jax.lax.stop_gradient(self.height * jnp.maximum(0.0, 1 - jnp.abs(above)))
        return (above > 0).astype(above.dtype) + slope * (above - jax.lax.stop_gradient(above))


class SpikingState(eqx.Module):
    """The hidden state of a `SpikingRNN`.

    - `voltage`: v, in thresholds.
    - `spike`: 1 where a unit spikes in this time step, else 0.
    - `filtered`: the spikes so far, each of which decays with `tau_out`.
    - `waits`: how many more time steps a unit cannot spike.
    - `adaptation`: how many spikes raise the threshold, each of which decays with `tau_adaptation`; None
        without adaptation.
    """

    voltage: Float[Array, "*axes unit"]
    spike: Float[Array, "*axes unit"]
    filtered: Float[Array, "*axes unit"]
    waits: Float[Array, "*axes unit"]
    adaptation: Float[Array, "*axes unit"] | None


class SpikingRNN(building.AbstractRateNetwork, building.RecurrentWeights):
    """Leaky integrate-and-fire units, with or without adaptation, and a readout of their filtered spikes.

    Between spikes tau dv/dt = -v + V u + b, exact for inputs that are constant over a time step. A spike of
    unit j moves the voltage of unit i by W_ij one step later. A unit spikes at v > 1 + β a, where a is the
    sum of its past spikes, each decayed by exp(-t / tau_adaptation); it loses a voltage of 1, and cannot
    spike again for the refractory time. The readout takes the sum of past spikes, each decayed by exp(-t /
    tau_out). Bellec et al. 2020, Nat Commun 11:3625 (compared with their code); tests compare spikes with
    NumPy. Reset and refractory time have no derivatives, and spikes that of `surrogate`.

    Its activity is its spikes, 0 or 1 at each time step. A trial starts with all at zero.

    **Arguments:**

    - `n_inputs`, `n_units`, `n_outputs`: the sizes.
    - `tau`, `tau_out`, `tau_adaptation`: the time constants of voltage, readout and adaptation, in seconds.
    - `refractory`: the least time from spike to spike, in seconds, rounded to time steps; at least one step.
    - `adaptation`: β, by how much of the threshold a spike raises it, one for all units or one per unit; None
        for none.
    - `surrogate`: from how far voltages are above the threshold to spikes, with a derivative; None for
        `Triangular(0.3)`.
    - `noise_std`: the standard deviation of the voltage of a unit that receives nothing and does not spike.
    - `gain`: the standard deviation of W times sqrt(n_units). At first units do not act on themselves.
    - `input_gain`: the standard deviation of V times sqrt(n_inputs).
    - `dt`: the time step in seconds, that of the trials.
    - `output_fn`, `output_bias`: of the readout, as of a `GRUNetwork`.
    - `key`: for the initial weights.
    """

    recurrent_field: ClassVar[str | None] = "recurrent_weights"
    parameter_axes: ClassVar[Mapping[str, tuple[str, ...]]] = building.RECURRENT_AXES
    constants: ClassVar[tuple[str, ...]] = ("tau", "tau_out", "tau_adaptation", "adaptation")
    noise: AbstractNoise
    tau: Float[Array, "*members"]
    tau_out: Float[Array, "*members"]
    tau_adaptation: Float[Array, "*members"]
    adaptation: Float[Array, "*members units"] | None
    n_refractory: int = eqx.field(static=True)
    surrogate: Callable[[Units], Units]
    dt: float = eqx.field(static=True, converter=plain_number)

    def __init__(
        self,
        n_inputs: checks.WholeNumber,
        n_units: checks.WholeNumber,
        n_outputs: checks.WholeNumber,
        *,
        tau: ScalarLike = 0.02,
        tau_out: ScalarLike = 0.02,
        refractory: float = 0.002,
        adaptation: OneOrEach | None = None,
        tau_adaptation: ScalarLike = 0.2,
        surrogate: Callable[[Units], Units] | None = None,
        noise_std: OneOrEach = 0.0,
        gain: ScalarLike = 1.0,
        input_gain: ScalarLike = 2.0,
        dt: float = 0.001,
        output_fn: Callable[[Array], Array] | None = None,
        output_bias: OneOrEach = 0.0,
        key: Key[Array, ""],
    ):
        sizes = n_inputs, n_units, _ = building.as_sizes(n_inputs, n_units, n_outputs)
        self._set_units(sizes, noise_std, output_fn, output_bias, key)
        checks.check_time_step(dt)
        times = {"tau": tau, "tau_out": tau_out, "tau_adaptation": tau_adaptation}
        for name, value in times.items():
            check_one_number(name, value)
            checks.check_time_constant(name, value, dt)
        checks.check_non_negative("refractory", refractory)
        for name, value in (("gain", gain), ("input_gain", input_gain)):
            building.check_gain(name, value)
        if adaptation is not None:
            check_one_or_each("adaptation", adaptation, n_units, "units")
            checks.check_non_negative("adaptation", adaptation)
        weights = building.gaussian_weights("recurrent", (n_units, n_units), gain, key=key)
        self.recurrent_weights = weights * (1 - jnp.eye(n_units))
        self.input_weights = building.gaussian_weights("input", (n_units, n_inputs), input_gain, key=key)
        self.bias = jnp.zeros(n_units)
        self.tau, self.tau_out, self.tau_adaptation = map(checks.as_float_array, times.values())
        self.adaptation = (
            None if adaptation is None else jnp.broadcast_to(jnp.asarray(adaptation, float), n_units)
        )
        self.n_refractory, self.surrogate, self.dt = round(refractory / dt), surrogate or Triangular(), dt

    def init(self, *, key: Key[Array, ""]) -> SpikingState:
        zeros = jnp.zeros_like(self.bias)
        return SpikingState(zeros, zeros, zeros, zeros, None if self.adaptation is None else zeros)

    def step(self, inputs: Inputs, hidden: SpikingState, *, key: Key[Array, ""]) -> SpikingState:
        keep, keep_out = jnp.exp(-self.dt / self.tau), jnp.exp(-self.dt / self.tau_out)
        drive = self.input_weights @ inputs + self.bias
        noise = jnp.sqrt(1 - keep**2) * self.noise(jnp.zeros_like(drive), key=key)
        reset = jax.lax.stop_gradient(hidden.spike)
        received = self.recurrent_weights @ hidden.spike
        voltage = keep * hidden.voltage + (1 - keep) * drive + received + noise - reset
        threshold, adaptation = 1.0, None
        if self.adaptation is not None and hidden.adaptation is not None:
            adaptation = jnp.exp(-self.dt / self.tau_adaptation) * hidden.adaptation + hidden.spike
            threshold = 1 + self.adaptation * adaptation
        may_spike = jax.lax.stop_gradient(hidden.waits) <= 0
        spike = jnp.where(may_spike, self.surrogate(voltage - threshold), 0.0)
        waits = jnp.where(spike > 0, max(self.n_refractory - 1.0, 0.0), jnp.maximum(hidden.waits - 1, 0.0))
        filtered = keep_out * hidden.filtered + spike
        return SpikingState(voltage, spike, filtered, jax.lax.stop_gradient(waits), adaptation)

    def rates(self, hidden: SpikingState) -> Float[Array, "*axes unit"]:
        """Return the filtered spikes, which the readout takes: about `tau_out` times the rate in spikes/s."""
        return hidden.filtered

    def activity(self, hidden: SpikingState) -> Units:
        """Return the spikes."""
        return hidden.spike

    def with_activity(self, hidden: SpikingState, rates: Units) -> SpikingState:
        """Return the state with other spikes at this step, which are in `filtered` in their place."""
        filtered = hidden.filtered - hidden.spike + rates
        return eqx.tree_at(lambda state: (state.spike, state.filtered), hidden, (rates, filtered))

    def projections(self) -> dict[str, Projection]:
        """Return the recurrent weights, which spikes pass, the input weights, and the readout."""
        projections = super().projections()
        passed = dataclasses.replace(
            projections["recurrent"], pre=lambda network, step: network.activity(step.before)
        )
        return projections | {"recurrent": passed}

    def check_dt(self, dt: float) -> None:
        checks.check_same_dt(dt, self.dt, "network")

    def with_dt(self, dt: float) -> "SpikingRNN":
        """Refuse to move: at another time step spikes fall elsewhere."""
        raise ValueError(
            f"`network` must have no spikes to be moved to dt = {dt} s, got a SpikingRNN with dt = {self.dt}."
        )


@register_network("spiking")
def _spiking(*sizes: int, tau=0.1, dt, noise_std=0.0, output_fn=None, output_bias=0.0, key) -> SpikingRNN:
    """Leaky integrate-and-fire units; with the time constant of experiments for voltage and readout."""
    readout = {"output_fn": output_fn, "output_bias": output_bias}
    return SpikingRNN(*sizes, tau=tau, tau_out=tau, dt=dt, noise_std=noise_std, **readout, key=key)
