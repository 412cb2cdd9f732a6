"""The contract of a muscle whose tendon does not stretch."""

import abc

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from popsim.muscles.abstract import AbstractMuscle


class AbstractRigidTendonMuscle(AbstractMuscle):
    """A muscle on a rigid tendon: it has no state, and its fibre moves as its musculotendon does.

    The fibre is as long as the musculotendon without the tendon, and never shorter than nothing. A
    subclass supplies `force_share`.

    **Fields:**

    - `tendon_length`: in m.

    !!! example

        ```python
        >>> import equinox as eqx, jax.numpy as jnp, popsim
        >>> class LinearMuscle(popsim.muscles.AbstractRigidTendonMuscle):
        ...     "Weaker by a tenth for each optimal length per second of shortening."
        ...     max_isometric_force: jnp.ndarray
        ...     optimal_length: jnp.ndarray
        ...     tendon_length: jnp.ndarray
        ...     activation: popsim.muscles.FirstOrderActivation = popsim.muscles.FirstOrderActivation()
        ...     def force_share(self, activation, length, velocity):
        ...         return activation * jnp.clip(1 + velocity / 10, 0.0, 1.5)
        >>> muscle = LinearMuscle(jnp.array(500.0), jnp.array(0.1), jnp.array(0.2))
        >>> force = muscle.force(None, jnp.ones(2), jnp.full(2, 0.3), jnp.array([0.0, -0.5]))
        >>> bool(jnp.allclose(force, jnp.array([500.0, 250.0])))
        True

        ```
    """

    tendon_length: eqx.AbstractVar[Float[Array, "..."]]

    @abc.abstractmethod
    def force_share(
        self,
        activation: Float[Array, " muscles"],
        length: Float[Array, " muscles"],
        velocity: Float[Array, " muscles"],
    ) -> Float[Array, " muscles"]:
        """The force as a share of the maximal isometric force, zero or more.

        **Arguments:**

        - `activation`: from zero to one.
        - `length`: of the fibre, in optimal lengths.
        - `velocity`: of the fibre, in optimal lengths per second.
        """

    def init(self, activation: Float[Array, " muscles"], length: Float[Array, " muscles"]) -> None:
        return None

    def rate(
        self,
        state: None,
        activation: Float[Array, " muscles"],
        length: Float[Array, " muscles"],
        velocity: Float[Array, " muscles"],
    ) -> None:
        return None

    def force(
        self,
        state: None,
        activation: Float[Array, " muscles"],
        length: Float[Array, " muscles"],
        velocity: Float[Array, " muscles"],
    ) -> Float[Array, " muscles"]:
        fibre_length, fibre_velocity = self.fibre(state, activation, length, velocity)
        return self.max_isometric_force * self.force_share(activation, fibre_length, fibre_velocity)

    def fibre(
        self,
        state: None,
        activation: Float[Array, " muscles"],
        length: Float[Array, " muscles"],
        velocity: Float[Array, " muscles"],
    ) -> tuple[Float[Array, " muscles"], Float[Array, " muscles"]]:
        fibre_length = jnp.maximum(length - self.tendon_length, 0.0)
        return fibre_length / self.optimal_length, velocity / self.optimal_length
