"""Queries on traced programs: whether something is traced, and what a program does."""

import functools
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import equinox as eqx
import jax
import jax.core
import jax.extend.core
from jax.interpreters import partial_eval
from jax.typing import ArrayLike
from jaxtyping import Array, PyTree

from popsim._compiled._operations import RANDOM

__all__ = ["memoize_in_trace", "ignores_key", "is_traced", "is_tracing", "trace_function"]


def is_traced(*trees: Any) -> bool:
    """Return whether JAX is tracing a leaf of the PyTrees, which then has no value."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(trees))


def is_tracing() -> bool:
    """Return whether operations are being traced rather than computed, as under `jit` and `vmap`."""
    return jax.extend.core.get_opaque_trace_state() != _untraced_state()


@functools.cache
def _untraced_state() -> Any:
    # The state belongs to a thread, and this call may be within a trace: a new thread is in none.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(jax.extend.core.get_opaque_trace_state).result()


def memoize_in_trace(
    function: Callable[[ArrayLike], Array], first: Mapping[float, Array]
) -> Callable[[ArrayLike], Array]:
    """Return a function that is evaluated once for each Python number, within the trace of this call.

    Elsewhere, as in the loop of an implicit solver, and for arrays it is evaluated at each call: what one
    trace computes cannot be used in another. `first` holds results that need no evaluation.
    """
    results = dict(first)
    trace = jax.extend.core.get_opaque_trace_state()

    def evaluate(number: ArrayLike) -> Array:
        is_elsewhere = jax.extend.core.get_opaque_trace_state() != trace
        if is_elsewhere or not isinstance(number, float):
            return function(number)
        if number not in results:
            results[number] = function(number)
        return results[number]

    return evaluate


def trace_function(
    function: Callable[..., PyTree], *arguments: PyTree
) -> tuple[Callable[..., PyTree], PyTree]:
    """Return the program of a function, as a function of arguments like these, and the result's shapes."""
    # From shapes, so that no value, and no tracer of an enclosing trace, becomes a constant of the program.
    shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), arguments)
    traced, out = jax.make_jaxpr(function, return_shape=True)(*shapes)
    program = jax.extend.core.jaxpr_as_fun(traced)

    def call(*arguments: PyTree) -> PyTree:
        return jax.tree.unflatten(jax.tree.structure(out), program(*jax.tree.leaves(arguments)))

    return call, out


def ignores_key(function: Callable[..., PyTree[Array]], key: Array, *arguments: PyTree) -> bool:
    """Return whether the program of a function draws random numbers for its result, and not from `key`."""
    closed, _, _ = eqx.filter_make_jaxpr(function)(key, *arguments)
    # Without what the result does not need: a key that is split and dropped is not used.
    needed, used = partial_eval.dce_jaxpr(closed.jaxpr, [True] * len(closed.jaxpr.outvars))
    return _draws(needed) and not used[0]


def _draws(jaxpr: Any) -> bool:
    return any(
        operation.primitive.name in DRAWS
        or any(map(_draws, jax.extend.core.jaxprs_in_params(operation.params)))
        for operation in jaxpr.eqns
    )


DRAWS = RANDOM - {"random_fold_in", "random_split"} | {"rng_uniform"}
