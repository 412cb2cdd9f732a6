"""How much each time step of a trial counts in a loss."""

import abc

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from popsim.checks import check_non_negative
from popsim.timeline import Timeline


class AbstractTimeProfile(eqx.Module):
    """The weight of every time step. A subclass supplies `__call__`.

    !!! example

        ```python
        >>> import jax.numpy as jnp, popsim
        >>> class InEpoch(popsim.losses.AbstractTimeProfile):
        ...     epoch: str
        ...     def __call__(self, timeline):
        ...         return timeline.in_epoch(self.epoch).astype(float)
        >>> timeline = popsim.Timeline(dt=0.01, n_steps=4, epochs={"hold": jnp.array([2, 4])})
        >>> InEpoch("hold")(timeline).tolist()
        [0.0, 0.0, 1.0, 1.0]

        ```
    """

    @abc.abstractmethod
    def __call__(self, timeline: Timeline) -> Float[Array, " time"]:
        """The weights of the time steps of a trial."""


class PowerProfile(AbstractTimeProfile):
    """Weights (t / T)^exponent for t = 1 … T: late errors count most, as late ones cannot be mended.

    **Raises:** `ValueError` if `exponent` is negative.
    """

    exponent: float = eqx.field(static=True, default=6.0)

    def __check_init__(self):
        check_non_negative("exponent", self.exponent)

    def __call__(self, timeline: Timeline) -> Float[Array, " time"]:
        return jnp.linspace(1 / timeline.n_steps, 1.0, timeline.n_steps) ** self.exponent


class FinalStep(AbstractTimeProfile):
    """One at the last time step, zero before."""

    def __call__(self, timeline: Timeline) -> Float[Array, " time"]:
        return jnp.zeros(timeline.n_steps).at[-1].set(1.0)
