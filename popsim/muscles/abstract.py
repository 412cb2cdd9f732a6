"""The contract of a muscle: how activation, length and velocity make force."""

import abc
from typing import ClassVar, TypeVar

import equinox as eqx
from jaxtyping import Array, Float, PyTree

from popsim.muscles.activation import FirstOrderActivation
from popsim.muscles.parameters import join
from popsim.parameters import Constants

MuscleType = TypeVar("MuscleType", bound="AbstractMuscle")


class AbstractMuscle(eqx.Module):
    """A law of muscle force, of one muscle or of all muscles of a body.

    A subclass supplies what is abstract below. Every number of a law is an array, so that it may differ
    between the members of an ensemble, or be trained where it is picked by itself (all are constants, see
    `popsim.is_parameter`): one number for all muscles, or one for each. Laws are vectorised over muscles,
    and finite, with finite gradients, at any activation from zero to one and any length and velocity.

    The body gives the length (m) and velocity (m/s, lengthening positive) of the musculotendon, from its
    `AbstractMusclePath`, and an activation that it advances by `activation.after`. A muscle with a state
    of its own (a fibre on a compliant tendon) has it integrated together with the body. For most muscles,
    on a rigid tendon, `AbstractRigidTendonMuscle` leaves only the force to be supplied.

    **Fields:**

    - `max_isometric_force`: in N.
    - `optimal_length`: the length of the fibre at which it is strongest, in m.
    - `activation`: how the activation follows the excitation.

    !!! example

        ```python
        >>> import equinox as eqx, jax.numpy as jnp, popsim
        >>> class DampedMuscle(popsim.muscles.AbstractMuscle):
        ...     "Force by activation, less what a damper takes."
        ...     max_isometric_force: jnp.ndarray
        ...     optimal_length: jnp.ndarray
        ...     damping: jnp.ndarray
        ...     activation: popsim.muscles.FirstOrderActivation = popsim.muscles.FirstOrderActivation()
        ...     def init(self, activation, length):
        ...         return None
        ...     def rate(self, state, activation, length, velocity):
        ...         return None
        ...     def force(self, state, activation, length, velocity):
        ...         pull = self.max_isometric_force * activation + self.damping * velocity
        ...         return jnp.maximum(pull, 0.0)
        ...     def fibre(self, state, activation, length, velocity):
        ...         return length / self.optimal_length, velocity / self.optimal_length
        >>> muscles = DampedMuscle(jnp.array([400.0, 600.0]), jnp.array(0.1), jnp.array(50.0))
        >>> activation = muscles.activation.after(0.1, jnp.zeros(2), jnp.array([0.5, 1.0]))
        >>> force = muscles.force(None, activation, jnp.full(2, 0.1), jnp.array([-1.0, 1.0]))
        >>> bool(force[1] > force[0] > 100)
        True

        ```
    """

    constants: ClassVar[Constants] = "all"
    max_isometric_force: eqx.AbstractVar[Float[Array, "..."]]
    optimal_length: eqx.AbstractVar[Float[Array, "..."]]
    activation: eqx.AbstractVar[FirstOrderActivation]

    @abc.abstractmethod
    def init(self, activation: Float[Array, " muscles"], length: Float[Array, " muscles"]) -> PyTree[Array]:
        """The inner state in equilibrium at rest.

        **Arguments:**

        - `activation`: from zero to one.
        - `length`: of the musculotendon, in m.

        **Returns:** any PyTree of arrays; None for a muscle without a state.
        """

    @abc.abstractmethod
    def rate(
        self,
        state: PyTree[Array],
        activation: Float[Array, " muscles"],
        length: Float[Array, " muscles"],
        velocity: Float[Array, " muscles"],
    ) -> PyTree[Array]:
        """d state / dt, of the structure of `state`. The arguments are those of `force`."""

    @abc.abstractmethod
    def force(
        self,
        state: PyTree[Array],
        activation: Float[Array, " muscles"],
        length: Float[Array, " muscles"],
        velocity: Float[Array, " muscles"],
    ) -> Float[Array, " muscles"]:
        """The pull of the muscle in N, never negative.

        **Arguments:**

        - `state`: the inner state.
        - `activation`: from zero to one.
        - `length`: of the musculotendon, in m.
        - `velocity`: d length / dt, in m/s.
        """

    @abc.abstractmethod
    def fibre(
        self,
        state: PyTree[Array],
        activation: Float[Array, " muscles"],
        length: Float[Array, " muscles"],
        velocity: Float[Array, " muscles"],
    ) -> tuple[Float[Array, " muscles"], Float[Array, " muscles"]]:
        """Length of the fibre in optimal lengths, and its velocity in optimal lengths per second."""

    def with_muscle(self: MuscleType, other: "AbstractMuscle") -> MuscleType:
        """These muscles, and after them those of `other`.

        **Arguments:**

        - `other`: one muscle of the same law, or several. Here and there, a law of which every
            parameter is one number stands for one muscle.

        **Raises:** `ValueError` if `other` is of another law.
        """
        return join(self, other)
