"""Noise on signals, and its removal from models."""

import abc
from typing import Any, ClassVar, TypeVar

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, Key

from popsim._shared.argument_shapes import check_one_or_each
from popsim._shared.checks import as_float_array, check_non_negative
from popsim.parameters import Constants
from popsim.randomness import as_key

__all__ = ["AbstractNoise", "NoNoise", "GaussianNoise", "MotorNoise", "without_noise"]

ModelType = TypeVar("ModelType", bound=eqx.Module)
Signal = Float[Array, " features"]


class AbstractNoise(eqx.Module):
    """Base class of noise added to a signal, independent at each time step. Subclasses implement `__call__`.

    Its arrays are constants (`popsim.is_parameter`), since training would remove the noise; an array is
    trained only where it is selected explicitly.

    !!! example

        ```python
        >>> import jax, jax.numpy as jnp, popsim
        >>> class UniformNoise(popsim.noise.AbstractNoise):
        ...     half_width: float
        ...     def __call__(self, signal, *, key):
        ...         return signal + jax.random.uniform(key, signal.shape, signal.dtype,
        ...                                            -self.half_width, self.half_width)
        >>> noisy = UniformNoise(0.1)(jnp.zeros(3), key=jax.random.key(0))
        >>> bool(jnp.all(jnp.abs(noisy) < 0.1))
        True

        ```
    """

    constants: ClassVar[Constants] = "all"

    @abc.abstractmethod
    def __call__(self, signal: Signal, *, key: Key[Array, ""]) -> Signal:
        """Return the signal with noise added, in the unit of the signal."""


class NoNoise(AbstractNoise):
    """The absence of noise: the signal is returned unchanged."""

    def __call__(self, signal: Signal, *, key: Key[Array, ""]) -> Signal:
        return signal


class GaussianNoise(AbstractNoise):
    """Normally distributed noise, independent between features.

    **Arguments:**

    - `std`: the standard deviation in the unit of the signal; one for all features, or one per feature.
    """

    std: Float[Array, "*features"] = eqx.field(converter=as_float_array)

    def __check_init__(self):
        check_one_or_each("std", self.std, len(self.std) if np.ndim(self.std) == 1 else None, "features")
        check_non_negative("std", self.std)

    def __call__(self, signal: Signal, *, key: Key[Array, ""]) -> Signal:
        return signal + self.std * jax.random.normal(as_key(key), signal.shape, signal.dtype)


class MotorNoise(AbstractNoise):
    """Signal-dependent and constant noise on the command u: u + k u e1 + s e2, with e1, e2 standard normal.

    Signal-dependent noise, with a standard deviation proportional to the command, after Harris & Wolpert
    1998, Nature 394:780-784, as given by Hamilton & Wolpert 2002, J Neurophysiol 87:2434-2440.

    **Arguments:**

    - `signal_dependent`: k, the standard deviation as a fraction of the command.
    - `constant`: s, the standard deviation at zero command, in the unit of the command.
    """

    signal_dependent: Float[Array, ""] = eqx.field(converter=as_float_array)
    constant: Float[Array, ""] = eqx.field(converter=as_float_array)

    def __check_init__(self):
        for name in ("signal_dependent", "constant"):
            check_one_or_each(name, getattr(self, name))
        check_non_negative("signal_dependent", self.signal_dependent)
        check_non_negative("constant", self.constant)

    def __call__(self, signal: Signal, *, key: Key[Array, ""]) -> Signal:
        multiplicative, additive = jax.random.normal(as_key(key), (2, *signal.shape), signal.dtype)
        return signal + self.signal_dependent * signal * multiplicative + self.constant * additive


def without_noise(model: ModelType) -> ModelType:
    """Replace every noise in a model by `NoNoise`, so that its simulation does not depend on the key."""
    return jax.tree.map(
        lambda node: NoNoise() if isinstance(node, AbstractNoise) else node,
        model,
        is_leaf=lambda node: isinstance(node, AbstractNoise),
    )


def with_zero_noise(model: ModelType) -> ModelType:
    """Return `without_noise(model)` in the structure of `model`, so that both run in one compiled program."""

    def silent(node: Any) -> Any:
        if type(node) in (GaussianNoise, MotorNoise):  # a subclass may do anything
            return jax.tree.map(lambda leaf: jax.device_put(np.zeros(leaf.shape, leaf.dtype)), node)
        return without_noise(node) if isinstance(node, AbstractNoise) else node

    return jax.tree.map(silent, model, is_leaf=lambda node: isinstance(node, AbstractNoise))
