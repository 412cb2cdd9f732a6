"""The conditions of validation trials: what a distribution may draw, and all combinations."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from popsim.distributions import AbstractDistribution, Choice, Constant, Uniform
from popsim.trial import Trial


def typical_values(distribution: AbstractDistribution, n: int = 5) -> Float[Array, "value ..."]:
    """Values that stand for a distribution, always the same.

    All values of a `Choice`, the value of a `Constant`, `n` values evenly over a `Uniform`; of any other
    distribution `n` draws.
    """
    match distribution:
        case Choice():
            return distribution.values
        case Constant():
            return distribution.value[None]
        case Uniform():
            return jnp.linspace(distribution.low, distribution.high, n)
    keys = jax.random.split(jax.random.key(0), n)
    return jax.vmap(lambda key: distribution.sample(key=key))(keys)


def all_combinations(*sizes: int) -> tuple[Int[Array, " combination"], ...]:
    """The indices of all combinations of as many things as there are `sizes`; the last one runs fastest."""
    return tuple(jnp.asarray(index.ravel()) for index in np.indices(sizes))


def trials_of_conditions(trial: Callable[..., Trial], *conditions: Array, shared: tuple = ()) -> Trial:
    """One trial of each condition, stacked, each with noise of its own that is always the same.

    **Arguments:**

    - `trial`: makes a trial, `trial(*shared, *conditions, key=...)`: a method of a task, so that it is
        compiled once.
    - `conditions`: its arguments, on a leading axis.
    - `shared`: arguments before these that are the same in all trials, such as the timeline.
    """
    keys = jax.random.split(jax.random.key(0), conditions[0].shape[0])
    return _stacked(trial, shared, conditions, keys)


@eqx.filter_jit
def _stacked(
    trial: Callable[..., Trial], shared: tuple, conditions: tuple[Array, ...], keys: Key[Array, " trial"]
) -> Trial:
    return jax.vmap(lambda given, key: trial(*shared, *given, key=key))(conditions, keys)
