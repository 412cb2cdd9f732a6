"""A wave whose frequency is given."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from popsim._argument_shapes import check_fields
from popsim._checks import as_float_array, check_non_negative, check_positive, is_traced, short_repr
from popsim._plain_values import plain_number
from popsim.distributions import AbstractDistribution, Uniform, as_distribution
from popsim.loss import Loss
from popsim.losses import OutputError
from popsim.per_member import has_per_member
from popsim.randomness import key_stream
from popsim.tasks.trial_parts import AbstractFixedTimes, check_drawn, nominal_values, trials_of_conditions
from popsim.trial import OutputTarget, Trial
from popsim.windows import Timeline

__all__ = ["SineGeneration"]


class SineGeneration(AbstractFixedTimes):
    """A sine wave whose frequency is set by a constant input.

    After the sine wave generator of Sussillo & Barak 2013, Neural Comput 25:626, with other frequencies (not
    compared with the paper).

    - Inputs: "frequency" (1), the frequency in Hz, constant.
    - Targets: one output, A sin(2 pi f t), with t = 0 at the start and t = dt at the first time step. All
        time steps count.
    - Epoch "oscillation", the whole trial. No events.
    - Conditions: "frequency" (Hz).

    The validation trials have five frequencies over the range, or all of a `Choice`.

    **Arguments:**

    - `frequency`: the distribution of f, in Hz.
    - `amplitude`: the amplitude A.
    - `duration`, `dt`: the duration of a trial and the time step of the model, in seconds.
    - `loss`: the loss to train with.
    """

    loss: Loss = eqx.field(kw_only=True, default_factory=lambda: 1.0 * OutputError())
    frequency: AbstractDistribution = eqx.field(
        kw_only=True, converter=as_distribution, default_factory=lambda: Uniform(0.5, 1.5)
    )
    amplitude: Float[Array, ""] = eqx.field(kw_only=True, converter=as_float_array, default=1.0)
    duration: float = eqx.field(static=True, converter=plain_number, kw_only=True, default=2.0)
    dt: float = eqx.field(static=True, converter=plain_number, kw_only=True, default=0.02)

    def __check_init__(self):
        check_fields(self)
        check_non_negative("amplitude", self.amplitude)
        if has_per_member(self.frequency):
            return
        check_drawn("frequency", self.frequency, check_positive)
        _, high = self.frequency.bounds()
        if not is_traced(high) and float(high) * self.dt > 0.5:
            raise ValueError(
                f"`frequency` must be at most {0.5 / self.dt:.4g} Hz, two steps a period, "
                f"got {short_repr(high)} Hz."
            )

    def trial(self, *, batch: int | Int[Array, ""], key: Key[Array, ""]) -> Trial:
        return self._trial(self.frequency.sample(key=key_stream(key, "frequency")), key=key)

    def validation_trials(self) -> Trial:
        return trials_of_conditions(self._trial, nominal_values(self.frequency))

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
