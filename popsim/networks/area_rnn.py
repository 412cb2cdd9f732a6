"""Leaky networks of several areas."""

from collections.abc import Mapping
from typing import Any, ClassVar, Unpack

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, PyTree, ScalarLike

from popsim._shared.checks import WholeNumber, check_instance, check_positive_int, n_steps_in
from popsim._shared.plain_values import step_at
from popsim.model import DelayBuffer
from popsim.networks import building
from popsim.networks.areas import Areas, Sparse
from popsim.networks.base import Hidden, Inputs, Output, Projection, Units
from popsim.networks.leaky import AbstractLeakyNetwork, LeakyOptions
from popsim.networks.registry import register_leaky
from popsim.randomness import key_stream

__all__ = ["AreaRNN"]


class _Strengths(eqx.Module):
    """The recurrent weights of an `AreaRNN`; a base class for the reason of `RecurrentWeights`."""

    strengths: Float[Array, "*members units units"]  # [post, pre]


class AreaRNN(AbstractLeakyNetwork, _Strengths):
    """A `LeakyRNN` of several areas, with the connections, delays and signs of an `Areas`.

    ```python
    inputs = popsim.senses.network_input_names(task.validation_trials(), plant, channels)
    network = popsim.networks.AreaRNN(areas, inputs, plant.n_commands, dt=0.01, key=key)
    ```

    What is not connected has a weight of zero, which no training changes. With excitatory and inhibitory
    units, `strengths` holds the magnitudes, and a unit keeps its sign whatever training makes of them:
    `recurrent_weights` are sign times |strength| (as in PsychRNN, Ehrlich et al. 2021, eNeuro 8).

    The groups of units are the areas, and with signs their excitatory and inhibitory units, such as "M1" and
    "M1 excitatory": give these names as `units` of losses and interventions. The connections are drawn for
    each member of an ensemble.

    **Arguments:**

    - `areas`: the plan.
    - `inputs`: how many numbers each input has, in order: `popsim.senses.network_input_names` returns that.
    - `n_outputs`: the number of outputs.
    - `gain`: of the recurrent weights: without signs, the standard deviation of those onto a unit times the
        square root of their number; with signs, the spectral radius.
    - `options`: `tau`, `train_tau`, `dt`, `nonlinearity`, `noise_std`, `input_noise_std`, `plasticity`,
        `output_fn`, `output_bias`, as of a `LeakyRNN`. Delays and plasticity exclude each other.
    - `key`: for the connections and the initial weights.
    """

    recurrent_field: ClassVar[str | None] = "strengths"
    parameter_axes: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "strengths": ("unit", "presynaptic_unit"),
        **building.RATE_AXES,
    }
    present: Bool[Array, "*members units units"]
    receives: Bool[Array, "*members units inputs"]
    is_read_out: Bool[Array, "*members units"]
    signs: Float[Array, "*members units"] | None
    sizes: tuple[tuple[str, int], ...] = eqx.field(static=True)
    n_excitatory: tuple[int, ...] | None = eqx.field(static=True)
    delays: tuple[tuple[str, str, float], ...] = eqx.field(static=True)  # from, to, s

    def __init__(
        self,
        areas: Areas,
        inputs: Mapping[str, int],
        n_outputs: WholeNumber,
        *,
        gain: ScalarLike = 0.9,
        key: Key[Array, ""],
        **options: Unpack[LeakyOptions],
    ):
        check_instance("areas", areas, Areas, "an Areas")
        for name, size in inputs.items():
            check_positive_int(f"inputs[{name!r}]", size)
        super().__init__(sum(inputs.values()), areas.n_units, n_outputs, key=key, **options)
        self.delays = tuple((*pair, float(delay)) for pair, delay in areas.delays.items() if delay > 0)
        if self.delays and self.plasticity is not None:
            raise ValueError("`plasticity` must be None for areas with delays.")
        check_delays(self.delays, self.dt)
        building.check_gain("gain", gain)
        self.present = areas.draw_present(key=key_stream(key, "connections"))
        weights = areas.draw_weights(self.present, gain, key=key_stream(key, "recurrent"))
        signs = areas.signs
        self.strengths = weights if signs is None else jnp.abs(weights)
        self.signs = None if signs is None else jnp.asarray(signs, weights.dtype)
        receives = areas.receives(inputs)
        normal = jax.random.normal(key_stream(key, "input"), receives.shape)
        n_received = np.maximum(1, receives.sum(axis=1, keepdims=True))
        self.input_weights = jnp.where(receives, normal / n_received**0.5, 0)
        self.receives, self.is_read_out = jnp.asarray(receives), jnp.asarray(areas.is_read_out())
        self.sizes = tuple(areas.sizes.items())
        counts = areas.n_excitatory
        self.n_excitatory = None if counts is None else tuple(counts[area] for area in areas.sizes)

    @property
    def constants(self) -> tuple[str, ...]:
        return ("signs", *super().constants)

    @property
    def recurrent_weights(self) -> Float[Array, "*members units units"]:
        """The weights with their signs, [post, pre]; zero where there is no connection."""
        if self.signs is None:
            return jnp.where(self.present, self.strengths, 0)
        return jnp.where(self.present, self.signs[..., None, :] * jnp.abs(self.strengths), 0)

    def recurrent_input(self, rates: Units) -> Units:
        return self.recurrent_weights @ rates

    def received_input(self, inputs: Inputs) -> Units:
        return jnp.where(self.receives, self.input_weights, 0) @ inputs

    def read_out(self, hidden: Hidden) -> Output:
        """Return the readout of the rates f(x) of the areas that are read out."""
        return self._output_for(jnp.where(self.is_read_out, self.rates(hidden), 0))

    def init_synapses(self, rates: Units) -> PyTree[Array]:
        if not self.delays:
            return super().init_synapses(rates)
        return DelayBuffer.filled(rates, max(step_at(delay, self.dt) for _, _, delay in self.delays))

    def step_synapses(self, synapses: PyTree[Array], rates: Units) -> tuple[Units, PyTree[Array]]:
        if not self.delays:
            return super().step_synapses(synapses, rates)
        weights, units = self.recurrent_weights, self.unit_groups()
        received, buffer = jnp.zeros_like(rates), synapses
        for source, target, delay in self.delays:
            rows, columns = (slice(group[0], group[-1] + 1) for group in (units[target], units[source]))
            sent, buffer = synapses.push(rates, step_at(delay, self.dt))
            received = received.at[rows].add(weights[rows, columns] @ sent[columns])
            weights = weights.at[rows, columns].set(0)  # what is left has no delay
        return received + weights @ rates, buffer

    def unit_groups(self) -> dict[str, Int[np.ndarray, " unit"]]:
        """Return the units of each area, and of its excitatory and inhibitory ones."""
        groups: dict[str, Int[np.ndarray, " unit"]] = {}
        offset = 0
        for i, (area, size) in enumerate(self.sizes):
            groups[area] = offset + np.arange(size)
            if self.n_excitatory is not None:
                parts = np.split(groups[area], [self.n_excitatory[i]])
                groups[f"{area} excitatory"], groups[f"{area} inhibitory"] = parts
            offset += size
        return groups

    def projections(self) -> dict[str, Projection]:
        """Return the input weights and the readout, and the recurrent weights without signs and delays."""
        projections = super().projections()
        if self.signs is not None or self.delays:
            del projections["recurrent"]
        return projections

    def with_dt(self, dt: float) -> "AreaRNN":
        """Return the network for another time step (s), of which its delays must be multiples."""
        check_delays(self.delays, dt)
        return super().with_dt(dt)


def check_delays(delays: tuple[tuple[str, str, float], ...], dt: float) -> None:
    """Raise `ValueError` unless delays (from, to, seconds) are whole numbers of time steps."""
    for source, target, delay in delays:
        n_steps_in(f"delays[{(source, target)}]", delay, dt)


def _two_areas(n_inputs: int, n_units: int, n_outputs: int, **options: Any) -> AreaRNN:
    """Build two areas of half the units each: the first receives the inputs, the second is read out."""
    sizes = {"first": n_units - n_units // 2, "second": n_units // 2}
    connections = {("first", "second"): Sparse(0.1), ("second", "first"): Sparse(0.05)}
    areas = Areas(sizes, connections=connections, inputs={"first": ["inputs"]}, outputs="second")
    return AreaRNN(areas, {"inputs": n_inputs}, n_outputs, **options)


register_leaky("two-areas", _two_areas, "Two areas of leaky units with sparse connections between them.")
