"""Elementwise functions, with derivatives whose factors are computed in the forward pass."""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import ClosedJaxpr, Literal, Primitive, jaxpr_as_fun
from jax.interpreters import ad, batching, mlir
from jaxtyping import Array, PyTree

from popsim._compiled._operations import ELEMENTWISE, INLINED, bind

CALLS = {**INLINED, "custom_jvp_call": "call_jaxpr"}


def apply(function: Callable[..., PyTree[Array]], args: tuple[Any, ...]) -> PyTree[Array]:
    """Return `function(*args)`, with the derivatives of `popsim._compiled.elementwise`, where JAX traces."""
    arrays, static = eqx.partition(args, eqx.is_array)
    leaves, structure = jax.tree.flatten(arrays)

    def flat(*leaves: Array) -> PyTree[Array]:
        return function(*eqx.combine(jax.tree.unflatten(structure, leaves), static))

    program, struct = jax.make_jaxpr(flat, return_shape=True)(*leaves)
    shape = np.broadcast_shapes(*(leaf.shape for leaf in leaves))
    results = {leaf.shape for leaf in jax.tree.leaves(struct)}
    # A sum or a loop in it: its derivative is not one factor for each index.
    if results != {shape} or not _is_elementwise(program.jaxpr, shape):
        values = jaxpr_as_fun(program)(*leaves)
    else:
        values = elementwise_p.bind(*program.consts, *leaves, program=program.jaxpr)
    return jax.tree.unflatten(jax.tree.structure(struct), values)


def _is_elementwise(program: Any, shape: tuple[int, ...]) -> bool:
    """Return whether every operation is elementwise, on scalars and arrays of one shape."""
    variable_groups = [program.invars, program.constvars, *(operation.outvars for operation in program.eqns)]
    if any(variable.aval.shape not in ((), shape) for group in variable_groups for variable in group):
        return False
    for operation in program.eqns:
        name = operation.primitive.name
        if name in CALLS:
            if not _is_elementwise(operation.params[CALLS[name]].jaxpr, shape):
                return False
        elif name not in ELEMENTWISE and name != "broadcast_in_dim":
            return False
    return True


elementwise_p = Primitive("elementwise")
"""Run a program, traced for arrays of one shape, on arrays of any shapes that broadcast together."""
elementwise_p.multiple_results = True


def _run(*operands: Any, program: Any) -> list[Any]:
    shape = jnp.broadcast_shapes(*map(jnp.shape, operands))
    return [jnp.broadcast_to(result, shape) for result in _results(program, operands)]


def _results(program: Any, operands: Sequence[Any]) -> list[Any]:
    """Return the results of the operations, each of the shape to which its own operands broadcast."""
    values = dict(zip([*program.constvars, *program.invars], operands, strict=True))

    def read(variable: Any) -> Any:
        return variable.val if isinstance(variable, Literal) else values[variable]

    for operation in program.eqns:
        inputs, name = [read(variable) for variable in operation.invars], operation.primitive.name
        if name == "broadcast_in_dim":
            outputs = inputs
        elif name in CALLS:
            inner = operation.params[CALLS[name]]
            outputs = _results(inner.jaxpr, [*inner.consts, *inputs])
        else:
            outputs = bind(operation, *jnp.broadcast_arrays(*inputs))
        values.update(zip(operation.outvars, outputs, strict=True))
    return [read(variable) for variable in program.outvars]


def _shapes(*operands: Any, program: Any) -> list[ShapedArray]:
    shape = jnp.broadcast_shapes(*(operand.shape for operand in operands))
    return [ShapedArray(shape, variable.aval.dtype) for variable in program.outvars]


def _differentiate(primals: Sequence[Any], tangents: Sequence[Any], *, program: Any) -> tuple[Any, Any]:
    """Run a longer program, which makes the factors too, and multiply them by the tangents."""
    places = [place for place, tangent in enumerate(tangents) if not isinstance(tangent, ad.Zero)]
    n_results = len(program.outvars)

    def with_factors(*operands: Array) -> list[Array]:
        values = list(_call_program(program, operands))
        for place in places:
            operand = operands[place]

            def of_operand(operand: Array, place: int = place) -> list[Array]:
                return _call_program(program, (*operands[:place], operand, *operands[place + 1 :]))

            # At each index, a tangent of one gives the derivative there: nothing crosses between indices.
            values += jax.jvp(of_operand, (operand,), (jnp.ones_like(operand),))[1]
        return values

    avals = [variable.aval for variable in (*program.constvars, *program.invars)]
    longer = jax.make_jaxpr(with_factors)(*(jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in avals))
    # The longer program is elementwise as well, so that second derivatives come here again.
    outputs = elementwise_p.bind(*longer.consts, *primals, program=longer.jaxpr)
    results, factors = outputs[:n_results], outputs[n_results:]
    zero = _zero_results(longer.jaxpr)[n_results:]
    changes = [ad.Zero(jax.typeof(result).to_tangent_aval()) for result in results]
    for index, (factor, is_zero) in enumerate(zip(factors, zero, strict=True)):
        # A zero factor that is known stays symbolic: no product, and nothing to store for the backward pass.
        if not is_zero:
            change = factor * tangents[places[index // n_results]]
            total = changes[index % n_results]
            changes[index % n_results] = change if isinstance(total, ad.Zero) else total + change
    return results, changes


def _call_program(program: Any, operands: Sequence[Any]) -> list[Array]:
    n_constants = len(program.constvars)
    return jaxpr_as_fun(ClosedJaxpr(program, operands[:n_constants]))(*operands[n_constants:])


def _zero_results(program: Any) -> list[bool]:
    """Return which results of a program are zero for any operands."""
    filled = {
        operation.outvars[0]: operation.invars[0]
        for operation in program.eqns
        if operation.primitive.name == "broadcast_in_dim"
    }
    sources = [
        variable if isinstance(variable, Literal) else filled.get(variable) for variable in program.outvars
    ]
    return [isinstance(source, Literal) and not source.val for source in sources]


def _batch(operands: Sequence[Any], axes: Sequence[Any], *, program: Any) -> tuple[Any, Any]:
    """Keep a batch that is on the last axis there; otherwise put it on the first."""
    mapped = [axis is not None for axis in axes]
    n_axes = max(jnp.ndim(operand) - is_mapped for operand, is_mapped in zip(operands, mapped, strict=True))
    is_last = all(axis == jnp.ndim(x) - 1 for x, axis, yes in zip(operands, axes, mapped, strict=True) if yes)

    def aligned(operand: Any, axis: Any, is_mapped: bool) -> Any:
        if is_last:
            return operand if is_mapped or not jnp.ndim(operand) else jnp.expand_dims(operand, -1)
        if not is_mapped:
            return operand
        first = jnp.moveaxis(operand, axis, 0)
        return jnp.expand_dims(first, tuple(range(1, n_axes + 2 - first.ndim)))

    results = elementwise_p.bind(*map(aligned, operands, axes, mapped), program=program)
    return results, [n_axes if is_last else 0] * len(results)


elementwise_p.def_impl(_run)
elementwise_p.def_abstract_eval(_shapes)
ad.primitive_jvps[elementwise_p] = _differentiate
batching.primitive_batchers[elementwise_p] = _batch
mlir.register_lowering(elementwise_p, mlir.lower_fun(_run, multiple_results=True))
