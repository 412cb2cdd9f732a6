"""Initial weights: balanced ones that obey Dale's law, and other ways to draw the weights of a network."""

from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array, Bool, Float, Key, ScalarLike

from popsim._shared.argument_shapes import OneOrEach, check_number, check_one_or_each
from popsim._shared.checks import check_non_negative, is_traced, kind_of
from popsim.networks.base import check_network
from popsim.randomness import as_key, key_stream

__all__ = ["dale_weights", "draw_weights", "identity_weights", "per_gate", "spectral_weights"]

FEWEST_BALANCED = 4
"""The smallest number of units of which balanced weights are drawn, see `dale_weights`."""

Weights = Float[Array, "units units"]  # [post, pre]
Initializer = Callable[[Key[Array, ""], tuple[int, ...], DTypeLike], Array]
"""What draws an array from a key, a shape and a type, such as `jax.nn.initializers.orthogonal()`."""
NetworkType = TypeVar("NetworkType", bound=eqx.Module)


def draw_weights(
    network: NetworkType, where: Callable[[Any], Any], initializer: Initializer, *, key: Key[Array, ""]
) -> NetworkType:
    """Return a network with other initial values of one of its arrays.

    ```python
    network = draw_weights(
        network, lambda network: network.cell.weight_hh, per_gate(jax.nn.initializers.orthogonal()), key=key
    )
    ```

    The initialisers of `jax.nn.initializers` count the inputs of a unit along the last but one axis
    (`in_axis=-2`). Weights of popsim and Equinox are [post, pre]: where the fans matter, give `in_axis=-1,
    out_axis=-2`.

    **Arguments:**

    - `network`: a network of one member.
    - `where`: selects an array of floating-point numbers.
    - `initializer`: called with a key, the shape and the type of the array: one of `jax.nn.initializers`,
        `spectral_weights`, `identity_weights`, `per_gate` of any of them, or such a function.
    - `key`: for drawing.
    """
    check_network(network)
    weights = where(network)
    if not eqx.is_inexact_array(weights):
        raise ValueError(f"`where` must select an array of floating-point numbers, got {kind_of(weights)}.")
    new_weights = initializer(as_key(key), weights.shape, weights.dtype)
    if jnp.shape(new_weights) != weights.shape:
        raise ValueError(f"`initializer` must return shape {weights.shape}, got {kind_of(new_weights)}.")
    if not any(weights is leaf for leaf in jax.tree.leaves(network)):
        raise ValueError(
            f"`where` must select an array that is stored in the {type(network).__name__}, got "
            f"{kind_of(weights)} that is computed from others, such as `recurrent_weights` of low rank."
        )
    return eqx.tree_at(where, network, jnp.asarray(new_weights, weights.dtype))


def per_gate(initializer: Initializer) -> Initializer:
    """Return an initialiser that draws each gate of recurrent weights for itself.

    Weights of shape (k n, n) are k blocks of n x n, as in the cells of Equinox. One orthogonal matrix of the
    whole shape has no block that is orthogonal.

    **Arguments:**

    - `initializer`: draws a block.
    """

    def draw(key: Key[Array, ""], shape: tuple[int, ...], dtype: DTypeLike) -> Array:
        n_rows, n_units = shape
        keys = jax.random.split(key, n_rows // n_units)
        return jnp.concatenate([initializer(key, (n_units, n_units), dtype) for key in keys])

    return draw


def identity_weights(scale: ScalarLike = 1.0) -> Initializer:
    """Return an initialiser of `scale` times the identity (Le, Jaitly & Hinton 2015, arXiv 1504.00941).

    **Arguments:**

    - `scale`: the weight of each unit on itself.
    """
    check_one_or_each("scale", scale)
    return lambda key, shape, dtype: jnp.asarray(scale * jnp.eye(*shape, dtype=dtype))


def spectral_weights(radius: ScalarLike = 0.9) -> Initializer:
    """Return an initialiser of Gaussian square matrices with exactly this spectral radius.

    The largest |eigenvalue| of a Gaussian matrix of gain g is near g only for many units. It is computed
    here, in O(units^3) operations, and the matrix divided by it.

    **Arguments:**

    - `radius`: the largest |eigenvalue|.
    """
    check_one_or_each("radius", radius)
    check_non_negative("radius", radius)

    def draw(key: Key[Array, ""], shape: tuple[int, ...], dtype: DTypeLike) -> Array:
        return scale_to_radius(jax.random.normal(key, shape, dtype), radius)

    return draw


def dale_weights(
    signs: OneOrEach, spectral_radius: ScalarLike = 0.9, *, density: float = 1.0, key: Key[Array, ""]
) -> Weights:
    """Draw balanced random weights W[post, pre] that obey Dale's law.

    Projecting unconstrained weights onto the law removes half of each sign and leaves an unbalanced mean,
    whose eigenvalue lies far outside the others. Here the magnitudes are half-normal; all units have the same
    number of excitatory inputs and the same number of inhibitory ones, chosen at random; inhibition is scaled
    so that each row sums to zero, which leaves no outlier (after Rajan & Abbott 2006, Phys Rev Lett
    97:188104; tests check that drawn weights follow the circle law and that no eigenvalue lies outside the
    circle); then the weights are scaled to the spectral radius. Song, Yang & Wang 2016, PLoS Comput Biol
    12:e1004792, do the same, but in their code, pycog, a row sums to zero in expectation only.

    The spectral radius is computed from the eigenvalues, in O(units^3) operations. That of few units may be
    small before it is scaled, and the weights then large: with two units they reached 2,000 times the
    spectral radius in 4,000 draws, with three 70 times, so that at least four are needed. In 40,000 draws
    they reached 28 times with four units, and 11 times with five (counted with NumPy; tests repeat it).

    **Arguments:**

    - `signs`: +1 or -1 for each unit, with both present: `popsim.training.constraints.dale_signs`.
    - `spectral_radius`: the largest |eigenvalue| of the weights.
    - `density`: the fraction of the excitatory, and of the inhibitory, units that project to a unit, rounded
        to whole units, and at least two of each kind if there are that many.
    - `key`: for drawing the weights.
    """
    values = None if is_traced(signs) else np.asarray(signs)
    if values is None or values.ndim != 1 or set(values.tolist()) != {-1, 1}:
        raise ValueError(f"`signs` must be +1 and -1, one for each unit and both of them, got {signs}.")
    check_one_or_each("spectral_radius", spectral_radius)
    check_number("density", density)
    check_non_negative("spectral_radius", spectral_radius)
    if not 0 < density <= 1:
        raise ValueError(f"`density` must be above 0 and at most 1, got {density}.")
    if len(values) < FEWEST_BALANCED:
        raise ValueError(
            f"`signs` must be of at least {FEWEST_BALANCED} units, got {len(values)}: the spectral radius of "
            "fewer may be near zero, and weights that are scaled by it have no bound."
        )
    key = as_key(key)
    n_units = len(values)
    sizes = jnp.abs(jax.random.normal(key_stream(key, "sizes"), (n_units, n_units)))
    order = jax.random.uniform(key_stream(key, "connections"), (n_units, n_units))
    excitatory, inhibitory = (_choose_connections(sizes, order, values == sign, density) for sign in (1, -1))
    return scale_to_radius(balance(excitatory, inhibitory), spectral_radius)


def balance(excitatory: Weights, inhibitory: Weights) -> Weights:
    """Return excitatory minus inhibitory magnitudes, these scaled so that rows with both sum to zero."""
    # Scaled by row: a mean that is not zero in each row adds an eigenvalue far outside of the others.
    excited, inhibited = (jnp.sum(part, axis=1, keepdims=True) for part in (excitatory, inhibitory))
    has_both = (excited > 0) & (inhibited > 0)
    return excitatory - inhibitory * jnp.where(has_both, excited / jnp.where(has_both, inhibited, 1), 1)


def scale_to_radius(weights: Weights, spectral_radius: ScalarLike) -> Weights:
    """Return weights, whose spectral radius must not be zero, scaled to one."""
    return jnp.asarray(weights * spectral_radius / jnp.max(jnp.abs(jnp.linalg.eigvals(weights))))


def _choose_connections(sizes: Weights, order: Weights, is_of_kind: np.ndarray, density: float) -> Weights:
    """Keep the same number of connections from units of one kind in each row, and set the rest to zero."""
    count = int(is_of_kind.sum())
    n_inputs = min(count, max(2, round(density * count)))
    # Units of the other kind come last.
    return jnp.where(smallest_of_row(jnp.where(is_of_kind, order, jnp.inf), n_inputs), sizes, 0)


def smallest_of_row(values: Float[Array, "post pre"], count: ScalarLike) -> Bool[Array, "post pre"]:
    """Return which entries are among the `count` smallest of their row."""
    # Sorting twice gives the rank of each entry in its row.
    return jnp.argsort(jnp.argsort(values, axis=1), axis=1) < count
