"""Queries on traced programs: whether something is traced, and what a program does."""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import equinox as eqx
import jax
import jax.core
import jax.extend.core
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal
from jax.interpreters import partial_eval
from jax.typing import ArrayLike
from jaxtyping import Array, PyTree

from popsim._compiled._operations import RANDOM

__all__ = [
    "memoize_in_trace",
    "ignores_key",
    "is_traced",
    "is_tracing",
    "trace_function",
    "has_equal_traces",
]


def is_traced(*trees: Any) -> bool:
    """Return whether JAX is tracing a leaf of the PyTrees, which then has no value."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(trees))


def is_tracing() -> bool:
    """Return whether operations are being traced rather than computed, as under `jit` and `vmap`."""
    return jax.extend.core.get_opaque_trace_state() != _untraced_state()


@functools.cache
def _untraced_state() -> Any:
    """Return the state in which nothing is traced, that of a new thread."""
    # The state belongs to a thread, and this call may be within a trace: a new thread is in none.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(jax.extend.core.get_opaque_trace_state).result()


def memoize_in_trace(
    function: Callable[[ArrayLike], Array], first: Mapping[float, Array]
) -> Callable[[ArrayLike], Array]:
    """Return a function that is evaluated once for each Python number, within the trace of this call.

    Elsewhere, as in the loop of an implicit solver, and for arrays it is evaluated at each call: what one
    trace computes cannot be used in another.

    **Arguments:**

    - `function`: of a number to an array.
    - `first`: results that need no evaluation, by number.
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
    """Trace a function; return its program, as a function of arguments like these, and the result's shapes.

    A call of the program does not run the function again.
    """
    # From shapes, so that no value, and no tracer of an enclosing trace, becomes a constant of the program.
    shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), arguments)
    traced, out = jax.make_jaxpr(function, return_shape=True)(*shapes)
    program = jax.extend.core.jaxpr_as_fun(traced)

    def call(*arguments: PyTree) -> PyTree:
        return jax.tree.unflatten(jax.tree.structure(out), program(*jax.tree.leaves(arguments)))

    return call, out


def ignores_key(function: Callable[..., PyTree[Array]], key: Array, *arguments: PyTree) -> bool:
    """Return whether the program of a function draws random numbers for its result, and not from `key`.

    **Arguments:**

    - `function`: of the key and the other arguments, to a PyTree of arrays.
    - `key`, `arguments`: what it is traced with.
    """
    closed, _, _ = eqx.filter_make_jaxpr(function)(key, *arguments)
    # Without what the result does not need: a key that is split and dropped is not used.
    needed, used = partial_eval.dce_jaxpr(closed.jaxpr, [True] * len(closed.jaxpr.outvars))
    return _draws(needed) and not used[0]


def _draws(jaxpr: Any) -> bool:
    """Return whether a program draws random numbers."""
    return any(
        operation.primitive.name in DRAWS
        or any(map(_draws, jax.extend.core.jaxprs_in_params(operation.params)))
        for operation in jaxpr.eqns
    )


DRAWS = RANDOM - {"random_fold_in", "random_split"} | {"rng_uniform"}


def has_equal_traces(function: Callable[..., Any], *arguments: Any) -> bool:
    """Return whether a function that is traced twice gives equal operations, constants and static results."""
    known: dict[int, list[Any]] = {}  # inner programs, which JAX keeps for functions that are traced again

    def trace() -> tuple[ClosedJaxpr, list[Any]]:
        # A new lambda each time, as JAX returns the trace that it remembers for a function it has seen.
        closed, _, static = eqx.filter_make_jaxpr(lambda *received: function(*received))(*arguments)
        return closed, [*map(_bits, _static_values(static))]

    (first, first_static), (second, second_static) = trace(), trace()
    return first_static == second_static and _program_values(first, known) == _program_values(second, known)


def _static_values(node: Any) -> Iterator[Any]:
    """Yield the non-array leaves, and the static fields of modules, in the result of a function."""
    if isinstance(node, eqx.Module):
        for field in dataclasses.fields(node):
            yield from _static_values(getattr(node, field.name, None))
        return
    children = jax.tree.leaves(node, is_leaf=lambda inner: inner is not node)
    for child in children:
        yield from [child] if child is node else _static_values(child)


def _program_values(program: ClosedJaxpr | Jaxpr, known: dict[int, list[Any]]) -> list[Any]:
    """Return the operations of a program, with their inputs, outputs and constants, as values to compare.

    `known` are the values of programs by their ids; these programs must stay alive as long.
    """
    if id(program) in known:
        return known[id(program)]
    jaxpr, consts = (program.jaxpr, program.consts) if isinstance(program, ClosedJaxpr) else (program, ())
    places: dict[Any, int] = {}

    def place(variable: Any) -> Any:
        is_number = isinstance(variable, Literal)
        # Variables count by the order in which they appear: as objects they differ between any two traces.
        return _bits(variable.val) if is_number else places.setdefault(variable, len(places))

    values = [*map(_bits, consts), *map(place, (*jaxpr.constvars, *jaxpr.invars))]
    for operation in jaxpr.eqns:
        values += [operation.primitive.name, *map(place, operation.invars)]
        values += [(place(variable), variable.aval) for variable in operation.outvars]
        for part in jax.tree.leaves(operation.params, is_leaf=lambda node: isinstance(node, ClosedJaxpr)):
            is_program = isinstance(part, ClosedJaxpr | Jaxpr)
            values.append(_program_values(part, known) if is_program else _bits(part))
    known[id(program)] = values = [*values, *map(place, jaxpr.outvars)]
    return values


def _bits(value: Any) -> Any:
    """Return the bits of an array or a number; None for anything else, or if it is traced."""
    is_number = isinstance(value, float | int | complex) or hasattr(value, "__array__")
    if not is_number or isinstance(value, jax.core.Tracer):
        return None
    is_key = jnp.issubdtype(getattr(value, "dtype", float), jax.dtypes.prng_key)
    with jax.ensure_compile_time_eval():  # else the data of a known key would be traced
        array = np.asarray(jax.random.key_data(value) if is_key else value)
    return array.shape, array.dtype, array.tobytes()
