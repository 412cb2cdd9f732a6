"""Put out a sine wave whose frequency the input tells."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from popsim.checks import as_float_array, check_non_negative, check_positive, is_traced, n_steps_in
from popsim.distributions import AbstractDistribution, Uniform, as_distribution
from popsim.loss import Loss
from popsim.losses import OutputError
from popsim.output_target import OutputTarget
from popsim.per_member import has_per_member
from popsim.randomness import key_stream
from popsim.task import AbstractTask
from popsim.tasks.conditions import trials_of_conditions, typical_values
from popsim.timeline import Timeline
from popsim.trial import Trial


class SineGeneration(AbstractTask):
    """A constant input tells the frequency of the sine wave that the output should be.

    Sussillo & Barak 2013, Neural Comput 25:626 (cited from memory; frequencies are not theirs).

    - Inputs: "frequency" (1), the frequency in Hz, throughout.
    - Targets: one output, A sin(2 pi f t), with t = 0 at the start and t = dt at the first step. All steps
        count.
    - Epoch "oscillation", the whole trial. No events.
    - Conditions: "frequency" (Hz).

    The validation trials are five frequencies over the range, or all of a `Choice`.

    **Arguments:**

    - `frequency`: its distribution, in Hz.
    - `amplitude`: A.
    - `duration`: of a trial, in seconds.
    - `dt`: the time step in seconds, that of the model.
    - `loss`: what counts as doing well.

    **Raises:** `ValueError` if a frequency is not positive or has fewer than two steps a period, `amplitude`
    is negative, or `duration` not a multiple of `dt` above zero.
    """

    loss: Loss = eqx.field(kw_only=True, default_factory=lambda: 1.0 * OutputError())
    frequency: AbstractDistribution = eqx.field(
        kw_only=True, converter=as_distribution, default_factory=lambda: Uniform(0.5, 1.5)
    )
    amplitude: Float[Array, ""] = eqx.field(kw_only=True, converter=as_float_array, default=1.0)
    duration: float = eqx.field(static=True, kw_only=True, default=2.0)
    dt: float = eqx.field(static=True, kw_only=True, default=0.02)

    def __check_init__(self):
        check_positive("dt", self.dt)
        check_positive("duration", self.duration)
        n_steps_in("duration", self.duration, self.dt)
        check_non_negative("amplitude", self.amplitude)
        if has_per_member(self.frequency):
            return
        low, high = self.frequency.bounds()
        check_positive("frequency", low)
        if not is_traced(high) and float(high) * self.dt > 0.5:
            raise ValueError(
                f"`frequency` must be at most {0.5 / self.dt:.4g} Hz, two steps a period, "
                f"got {float(high)} Hz."
            )

    @property
    def n_steps(self) -> int:
        """The number of time steps of a trial."""
        return n_steps_in("duration", self.duration, self.dt)

    def trial(self, *, batch: int | Int[Array, ""], key: Key[Array, ""]) -> Trial:
        return self._trial(self.frequency.sample(key=key_stream(key, "frequency")), key=key)

    def validation_trials(self) -> Trial:
        return trials_of_conditions(self._trial, typical_values(self.frequency))

    def _trial(self, frequency: Float[Array, ""], *, key: Key[Array, ""]) -> Trial:
        times = self.dt * jnp.arange(1.0, self.n_steps + 1)
        wave = self.amplitude * jnp.sin(2 * jnp.pi * frequency * times)
        return Trial(
            init=(),
            inputs={"frequency": jnp.broadcast_to(frequency, (self.n_steps, 1))},
            targets=OutputTarget(wave[:, None], jnp.ones(self.n_steps), is_choice=False),
            timeline=Timeline(self.dt, self.n_steps, epochs={"oscillation": jnp.array([0, self.n_steps])}),
            conditions={"frequency": frequency},
        )
