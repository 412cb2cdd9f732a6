"""The gradient of a large batch from the gradients of its parts, in the memory of one part."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PRNGKeyArray, PyTree

from popsim.checks import check_positive_int
from popsim.randomness import as_key
from popsim.training.train_state import TrainState

LossFn = Callable[[PyTree, PyTree, Key[Array, ""]], tuple[Float[Array, ""], tuple[PyTree, PyTree]]]


def accumulate_gradients_loop(
    state: TrainState, batch: PyTree[Array], rng: PRNGKeyArray, num_minibatches: int, loss_fn: LossFn
) -> tuple[PyTree, PyTree, Sequence[Any]]:
    """Split a batch and accumulate over its parts, unrolled in the compiled program.

    **Arguments:**

    - `state`: whose `params` the gradient is taken of.
    - `batch`: arrays with a leading axis of examples.
    - `rng`: a key; each part gets one of its own.
    - `num_minibatches`: into how many equal parts the batch is split.
    - `loss_fn`: `loss_fn(params, minibatch, rng) -> (loss, (metrics, mutables))`; the loss is a mean over
        the examples of the minibatch, metrics are summed over minibatches, mutables are handed out.

    **Returns:** the mean of the gradients, the sum of the metrics, and the mutables of each part, in a
    list. For a loss that draws nothing from `rng` the gradient is that of the whole batch.

    **Raises:** `ValueError` if the batch does not divide into `num_minibatches` equal parts.
    """
    parts = split_batch(batch, num_minibatches)
    keys = jax.random.split(as_key(rng, "rng"), num_minibatches)
    gradients, metrics, mutables = [], [], []
    for index in range(num_minibatches):
        part = jax.tree.map(lambda leaf, i=index: leaf[i], parts)
        own_gradients, own_metrics, own_mutables = _part_gradients(loss_fn, state.params, part, keys[index])
        gradients.append(own_gradients)
        metrics.append(own_metrics)
        mutables.append(own_mutables)
    mean = jax.tree.map(lambda *leaves: sum(leaves) / num_minibatches, *gradients)
    return mean, jax.tree.map(lambda *leaves: sum(leaves), *metrics), mutables


def accumulate_gradients_scan(
    state: TrainState, batch: PyTree[Array], rng: PRNGKeyArray, num_minibatches: int, loss_fn: LossFn
) -> tuple[PyTree, PyTree, PyTree[Array]]:
    """`accumulate_gradients_loop` as a scan: compiled once whatever `num_minibatches`.

    The mutables are stacked on a leading axis; arguments and errors as there.
    """
    parts = split_batch(batch, num_minibatches)
    keys = jax.random.split(as_key(rng, "rng"), num_minibatches)

    def add_part(sums, part_and_key):
        *new, mutables = _part_gradients(loss_fn, state.params, *part_and_key)
        return jax.tree.map(jnp.add, sums, tuple(new)), mutables

    first = jax.tree.map(lambda leaf: leaf[0], parts)
    *shapes, _ = jax.eval_shape(
        lambda part, key: _part_gradients(loss_fn, state.params, part, key), first, keys[0]
    )
    zeros = jax.tree.map(lambda shape: jnp.zeros(shape.shape, shape.dtype), tuple(shapes))
    (gradients, metrics), mutables = jax.lax.scan(add_part, zeros, (parts, keys))
    return jax.tree.map(lambda leaf: leaf / num_minibatches, gradients), metrics, mutables


def accumulate_gradients(
    state: TrainState,
    batch: PyTree[Array],
    rng: PRNGKeyArray,
    num_minibatches: int,
    loss_fn: LossFn,
    use_scan: bool = False,
) -> tuple[PyTree, PyTree, Any]:
    """`accumulate_gradients_scan` if `use_scan`, else `accumulate_gradients_loop`; arguments as there."""
    accumulate = accumulate_gradients_scan if use_scan else accumulate_gradients_loop
    return accumulate(state, batch, rng, num_minibatches, loss_fn)


def split_batch(batch: PyTree[Array], num_minibatches: int) -> PyTree[Array]:
    """Arrays that lead with the part, then with its examples; raises as `accumulate_gradients_loop`."""
    check_positive_int("num_minibatches", num_minibatches)
    sizes = {leaf.shape[0] for leaf in jax.tree.leaves(batch)}
    if len(sizes) != 1 or sizes.copy().pop() % num_minibatches:
        raise ValueError(
            f"`batch` must divide into {num_minibatches} equal minibatches, got leading axes {sorted(sizes)}."
        )
    return jax.tree.map(lambda leaf: leaf.reshape(num_minibatches, -1, *leaf.shape[1:]), batch)


def _part_gradients(
    loss_fn: LossFn, params: PyTree, part: PyTree[Array], key: Key[Array, ""]
) -> tuple[PyTree, PyTree, PyTree]:
    gradients, (metrics, mutables) = jax.grad(loss_fn, has_aux=True)(params, part, key)
    return gradients, metrics, mutables
