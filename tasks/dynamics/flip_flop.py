"""The flip-flop task."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from popsim._checks import as_float_array, check_fraction, check_positive_int
from popsim._plain_values import plain_number
from popsim.loss import Loss
from popsim.losses import OutputError
from popsim.randomness import key_stream
from popsim.tasks.trial_parts import AbstractFixedTimes, trials_of_conditions
from popsim.trial import OutputTarget, Trial
from popsim.windows import Timeline

__all__ = ["FlipFlop"]

MOST_BITS = 10


class FlipFlop(AbstractFixedTimes):
    """Each output holds the sign of the last pulse on its channel.

    The task of Sussillo & Barak 2013, Neural Comput 25:626, as in the example of FixedPointFinder.

    - Inputs: "pulses" (`n_bits`), each +1 or -1 with equal probability. A pulse lasts one time step and is
        drawn independently on each channel. The first time step has a pulse on every channel.
    - Targets: `n_bits` outputs, the sign of the last pulse on each channel, including the current time
        step. All time steps count.
    - Epoch "memory", the whole trial. No events.
    - Conditions: "first bits" (`n_bits`, 0 or 1), the first pulses.

    There is one validation trial for each of the 2^n initial states.

    **Arguments:**

    - `n_bits`: the number of channels, up to 10.
    - `pulse_probability`: the probability of a pulse per channel and time step.
    - `duration`, `dt`: the duration of a trial and the time step of the model, in seconds.
    - `loss`: the loss to train with.
    """

    loss: Loss = eqx.field(kw_only=True, default_factory=lambda: 1.0 * OutputError())
    n_bits: int = eqx.field(static=True, converter=plain_number, kw_only=True, default=3)
    pulse_probability: Float[Array, ""] = eqx.field(kw_only=True, converter=as_float_array, default=0.06)
    duration: float = eqx.field(static=True, converter=plain_number, kw_only=True, default=1.0)
    dt: float = eqx.field(static=True, converter=plain_number, kw_only=True, default=0.01)

    def __check_init__(self):
        check_positive_int("n_bits", self.n_bits)
        if self.n_bits > MOST_BITS:
            raise ValueError(f"`n_bits` must be at most {MOST_BITS}, got {self.n_bits}.")
        check_fraction("pulse_probability", self.pulse_probability)

    def trial(self, *, batch: int | Int[Array, ""], key: Key[Array, ""]) -> Trial:
        first_bits = jax.random.bernoulli(key_stream(key, "first bits"), shape=(self.n_bits,)).astype(int)
        return self._trial(first_bits, key=key)

    def validation_trials(self) -> Trial:
        states = jnp.arange(2**self.n_bits)
        return trials_of_conditions(self._trial, (states[:, None] >> jnp.arange(self.n_bits)) & 1)

    def _trial(self, first_bits: Int[Array, " bits"], *, key: Key[Array, ""]) -> Trial:
        shape = (self.n_steps, self.n_bits)
        is_pulse = jax.random.bernoulli(key_stream(key, "pulses"), self.pulse_probability, shape)
        signs = jax.random.rademacher(key_stream(key, "signs"), shape, float)
        pulses = jnp.where(is_pulse, signs, 0.0).at[0].set(jnp.where(first_bits == 1, 1.0, -1.0))
        return Trial(
            init=(),
            inputs={"pulses": pulses},
            targets=OutputTarget(_last_nonzero(pulses), jnp.ones(self.n_steps), is_choice=False),
            timeline=Timeline(self.dt, self.n_steps, epochs={"memory": jnp.array([0, self.n_steps])}),
            conditions={"first bits": first_bits},
        )


def _last_nonzero(pulses: Float[Array, "time bits"]) -> Float[Array, "time bits"]:
    """Return the last nonzero value up to each time step; the first time step must be nonzero."""
    steps = jnp.arange(pulses.shape[0])[:, None]
    last = jax.lax.cummax(jnp.where(pulses != 0, steps, 0), axis=0)
    return jnp.take_along_axis(pulses, last, axis=0)
