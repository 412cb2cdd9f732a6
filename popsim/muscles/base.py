"""Abstract muscle models, and the simplest concrete one."""

import abc
from typing import ClassVar, TypeVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from popsim._shared.checks import as_float_array
from popsim.muscles.activation import (
    AbstractActivation,
    FirstOrderActivation,
    Muscles,
    check_parameters,
    join,
)
from popsim.parameters import Constants

__all__ = ["AbstractMuscle", "AbstractRigidTendonMuscle", "ReluMuscle"]

MuscleType = TypeVar("MuscleType", bound="AbstractMuscle")


class AbstractMuscle(eqx.Module):
    """A muscle model, of one muscle or of all muscles of a plant.

    Every number of a model is an array, a scalar or of shape (muscles,), so that it may differ between the
    members of an ensemble. All are constants (see `popsim.is_parameter`), trained only if the array itself is
    selected. Models are vectorised over muscles, and must be finite, with finite gradients, at any activation
    from zero to one and any length and velocity.

    The plant supplies the length (m) and velocity (m/s, lengthening positive) of the musculotendon, from its
    `AbstractMusclePath`, and the activation, advanced by `activation.advance`. An internal state (a fibre on
    a compliant tendon) is integrated together with the plant. Models with a rigid tendon should subclass
    `AbstractRigidTendonMuscle`, which requires only the force.

    **Fields:**

    - `max_isometric_force`: in N.
    - `optimal_length`: the fibre length of maximal force, in m.
    - `activation`: the activation dynamics.

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
        >>> activation = muscles.activation.advance(0.1, jnp.zeros(2), jnp.array([0.5, 1.0]))
        >>> force = muscles.force(None, activation, jnp.full(2, 0.1), jnp.array([-1.0, 1.0]))
        >>> bool(force[1] > force[0] > 100)
        True

        ```
    """

    constants: ClassVar[Constants] = "all"
    max_isometric_force: eqx.AbstractVar[Float[Array, "..."]]
    optimal_length: eqx.AbstractVar[Float[Array, "..."]]
    activation: eqx.AbstractVar[AbstractActivation]

    @abc.abstractmethod
    def init(self, activation: Muscles, length: Muscles) -> PyTree[Array]:
        """Return the internal state in equilibrium at rest.

        **Arguments:**

        - `activation`: from zero to one.
        - `length`: of the musculotendon, in m.

        **Returns:** a PyTree of arrays; None for a muscle without a state.
        """

    @abc.abstractmethod
    def rate(
        self, state: PyTree[Array], activation: Muscles, length: Muscles, velocity: Muscles
    ) -> PyTree[Array]:
        """Return d state / dt, with the structure of `state`. Arguments as for `force`."""

    @abc.abstractmethod
    def force(self, state: PyTree[Array], activation: Muscles, length: Muscles, velocity: Muscles) -> Muscles:
        """Return the muscle force in N, zero or more.

        **Arguments:**

        - `state`: the internal state.
        - `activation`: from zero to one.
        - `length`: of the musculotendon, in m.
        - `velocity`: d length / dt, in m/s.
        """

    @abc.abstractmethod
    def fibre(
        self, state: PyTree[Array], activation: Muscles, length: Muscles, velocity: Muscles
    ) -> tuple[Muscles, Muscles]:
        """Return fibre length in optimal lengths, and fibre velocity in optimal lengths per second."""

    def with_muscle(self: MuscleType, other: "AbstractMuscle") -> MuscleType:
        """Return these muscles followed by those of `other`.

        **Arguments:**

        - `other`: one or several muscles of the same class. In both models, scalar parameters only mean one
            muscle.
        """
        return join(self, other)


class AbstractRigidTendonMuscle(AbstractMuscle):
    """A muscle on a rigid tendon. It has no state, and its fibre has the velocity of the musculotendon.

    The fibre length is that of the musculotendon minus the tendon, but at least zero. A subclass supplies
    `force_share`.

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
    def force_share(self, activation: Muscles, length: Muscles, velocity: Muscles) -> Muscles:
        """Return the force as a fraction of the maximal isometric force, zero or more.

        **Arguments:**

        - `activation`: from zero to one.
        - `length`: of the fibre, in optimal lengths.
        - `velocity`: of the fibre, in optimal lengths per second.
        """

    def init(self, activation: Muscles, length: Muscles) -> None:
        return None

    def rate(self, state: None, activation: Muscles, length: Muscles, velocity: Muscles) -> None:
        return None

    def force(self, state: None, activation: Muscles, length: Muscles, velocity: Muscles) -> Muscles:
        fibre_length, fibre_velocity = self.fibre(state, activation, length, velocity)
        return self.max_isometric_force * self.force_share(activation, fibre_length, fibre_velocity)

    def fibre(
        self, state: None, activation: Muscles, length: Muscles, velocity: Muscles
    ) -> tuple[Muscles, Muscles]:
        fibre_length = jnp.maximum(length - self.tendon_length, 0.0)
        return fibre_length / self.optimal_length, velocity / self.optimal_length


class AbstractRigidTendonLaw(AbstractRigidTendonMuscle):
    """The fields that popsim's own laws share; those of a user's law come in the order of its class."""

    max_isometric_force: Float[Array, "..."] = eqx.field(converter=as_float_array)
    optimal_length: Float[Array, "..."] = eqx.field(converter=as_float_array)
    tendon_length: Float[Array, "..."] = eqx.field(converter=as_float_array, default=0.0, kw_only=True)

    def __check_init__(self):
        lengths = {"positive": ("max_isometric_force", "optimal_length"), "non_negative": ("tendon_length",)}
        check_parameters(self, **lengths)


class ReluMuscle(AbstractRigidTendonLaw):
    """force = max_isometric_force activation, at any length and velocity.

    **Arguments:**

    - `max_isometric_force`: in N.
    - `optimal_length`, `tendon_length`: in m. They only affect the output of `fibre`, which by default is
        length (m) and velocity (m/s) of the musculotendon.
    - `activation`: by default with `lowest` 0.
    """

    optimal_length: Float[Array, "..."] = eqx.field(converter=as_float_array, default=1.0)
    activation: AbstractActivation = eqx.field(default_factory=FirstOrderActivation, kw_only=True)

    def force_share(self, activation: Muscles, length: Muscles, velocity: Muscles) -> Muscles:
        return activation
