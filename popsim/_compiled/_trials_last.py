"""Functions of one trial, run for all trials at once, trials on the last axis.

`jax.vmap` puts the trials first: a time step then works on arrays (trial, feature) of short rows. With the
trials last, each operation on the features of a trial works on long rows, one for each feature. The function
is traced for one trial, and its operations run one by one on arrays with one axis more; what has no rule here
goes through `jax.vmap`. The random draws of a loop that do not depend on its state, such as the noise of all
time steps, run before the loop. Gradients of a loop store matrix products and transcendental functions, and
repeat elementwise sums and products, which takes less time than to write and read them.
"""

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, PyTree

from popsim._compiled import _operations, _threefry

_ALONG_AXES_NAMES = """
    argmax argmin concatenate cumlogsumexp cummax cummin cumprod cumsum reduce_and reduce_max reduce_min
    reduce_or reduce_prod reduce_sum reduce_xor rev sort split squeeze
"""
FEW_PRODUCTS = 64
MANY_PRODUCTS = 256


class Value(eqx.Module):
    """An array of one trial, or of all trials if it `has_trials`: then with the trials on its last axis."""

    array: Any
    has_trials: bool = eqx.field(static=True, default=True)


Rule = Callable[..., list[Value] | None]
RULES: dict[str, Rule] = {}


def map_trials(function: Callable[..., PyTree[Array]], *stacked: PyTree[Array]) -> PyTree[Array]:
    """Return `jax.vmap(function)(*stacked)`, equal to rounding."""
    leaves, structure = jax.tree.flatten(stacked)
    n_trials = leaves[0].shape[0]
    # The trace is of one trial: its program knows no trial axis, which `run` adds to each operation.
    of_trial = [jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype) for leaf in leaves]
    program, struct = jax.make_jaxpr(
        lambda *leaves: function(*jax.tree.unflatten(structure, leaves)), return_shape=True
    )(*of_trial)
    inputs = [Value(jnp.moveaxis(leaf, 0, -1)) for leaf in leaves]
    try:
        results = run(_operations.operations_of(program), inputs, n_trials)
    except _operations.UnknownOperation as unknown:
        if program.effects and unknown.__cause__ is not None:
            raise unknown.__cause__ from None
        raise
    arrays = [jnp.moveaxis(all_trials(result, n_trials), -1, 0) for result in results]
    return jax.tree.unflatten(jax.tree.structure(struct), arrays)


def run(operations: _operations.Operations, inputs: Sequence[Value], n_trials: int) -> list[Value]:
    """Return the outputs of operations for all trials."""
    values: dict[_operations.Variable, Value] = dict(zip(operations.inputs, inputs, strict=True))

    def read(place: _operations.Variable | _operations.TracedConstant) -> Value:
        return Value(place.value, False) if isinstance(place, _operations.TracedConstant) else values[place]

    needed = {place for operation in operations.operations for place in operation.inputs}
    needed.update(operations.outputs)
    for operation in operations.operations:
        received = [read(place) for place in operation.inputs]
        equation, name = operation.equation, operation.equation.primitive.name
        try:
            is_needed = [place in needed for place in operation.outputs]
            outputs = _run_equation(equation, received, n_trials, is_needed)
        except _operations.UNKNOWN_TO_ENGINE as error:
            raise _operations.UnknownOperation(f"the operation {name!r}") from error
        values.update(zip(operation.outputs, outputs, strict=True))
    return [read(place) for place in operations.outputs]


def _run_equation(
    equation: Any, inputs: Sequence[Value], n_trials: int, needed: Sequence[bool]
) -> list[Value]:
    outputs, name = None, equation.primitive.name
    if name == "scan":
        outputs = _scan(equation, inputs, n_trials, needed)
    elif name in _operations.RECOMPUTED:
        outputs = _run_checkpoint(equation, inputs, n_trials)
    elif name in RULES and any(value.has_trials for value in inputs):
        outputs = RULES[name](equation, inputs, n_trials)
    return _vmap_equation(equation, inputs) if outputs is None else outputs


def all_trials(value: Value, n_trials: int) -> Array:
    """Return the array of a value for all trials."""
    if value.has_trials:
        return value.array
    array = jnp.asarray(value.array)
    return jnp.broadcast_to(array[..., None], (*array.shape, n_trials))


def _vmap_equation(equation: Any, inputs: Sequence[Value]) -> list[Value]:
    """Run an equation as it is, under `jax.vmap` if an input has trials."""
    axes = [-1 if value.has_trials else None for value in inputs]
    # Equinox's errors, which begin so, concern all trials.
    has_trials = any(axes) and not equation.primitive.name.startswith("unvmap_")
    bind_equation = functools.partial(_operations.bind, equation)
    if any(axes):
        bind_equation = jax.vmap(bind_equation, in_axes=axes, out_axes=-1 if has_trials else None)
    return [Value(array, has_trials) for array in bind_equation(*(value.array for value in inputs))]


def _elementwise(equation: Any, inputs: Sequence[Value], n_trials: int) -> list[Value]:
    """Operations on arrays that broadcast: of one shape, or with axes of length 1, or scalars."""
    shape = equation.outvars[0].aval.shape
    takes_scalars = equation.primitive.name not in ("select_n", "clamp")

    def aligned(value: Value) -> Any:
        array, n_axes = value.array, jnp.ndim(value.array) - value.has_trials
        is_scalar = n_axes == 0 and not value.has_trials
        if (value.has_trials and n_axes == len(shape)) or (is_scalar and takes_scalars):
            return array
        array = jnp.asarray(array)
        of_trial, trials = (array.shape[:-1], array.shape[-1:]) if value.has_trials else (array.shape, (1,))
        array = lax.reshape(array, (*(of_trial or (1,) * len(shape)), *trials))
        return jnp.broadcast_to(array, (*(shape if takes_scalars else of_trial or shape), n_trials))

    return [Value(array) for array in _operations.bind(equation, *map(aligned, inputs))]


def _axis_operation(equation: Any, inputs: Sequence[Value], n_trials: int) -> list[Value]:
    """Operations on arrays along axes that they name."""
    arrays = (all_trials(value, n_trials) for value in inputs)
    return [Value(array) for array in _operations.bind(equation, *arrays)]


def _broadcast_in_dim(equation: Any, inputs: Sequence[Value], n_trials: int) -> list[Value]:
    shape, axes = equation.params["shape"], equation.params["broadcast_dimensions"]
    return [Value(lax.broadcast_in_dim(inputs[0].array, (*shape, n_trials), (*axes, len(shape))))]


def _reshape(equation: Any, inputs: Sequence[Value], n_trials: int) -> list[Value] | None:
    if equation.params["dimensions"] is not None:
        return None
    return [Value(lax.reshape(inputs[0].array, (*equation.params["new_sizes"], n_trials)))]


def _transpose(equation: Any, inputs: Sequence[Value], n_trials: int) -> list[Value]:
    order = equation.params["permutation"]
    return [Value(lax.transpose(inputs[0].array, (*order, len(order))))]


def _slice(equation: Any, inputs: Sequence[Value], n_trials: int) -> list[Value]:
    params = equation.params
    starts, limits = (*params["start_indices"], 0), (*params["limit_indices"], n_trials)
    strides = params["strides"]
    return [Value(lax.slice(inputs[0].array, starts, limits, None if strides is None else (*strides, 1)))]


def _dynamic_slice(equation: Any, inputs: Sequence[Value], n_trials: int) -> list[Value] | None:
    starts = _start_indices(inputs[1:])
    if starts is None:
        return None
    sizes = (*equation.params["slice_sizes"], n_trials)
    return [Value(lax.dynamic_slice(inputs[0].array, starts, sizes))]


def _dynamic_update_slice(equation: Any, inputs: Sequence[Value], n_trials: int) -> list[Value] | None:
    starts = _start_indices(inputs[2:])
    if starts is None:
        return None
    array, part = (all_trials(value, n_trials) for value in inputs[:2])
    return [Value(lax.dynamic_update_slice(array, part, starts))]


def _start_indices(starts: Sequence[Value]) -> list[Any] | None:
    """Return the indices of a slice; None if they differ between trials."""
    if not starts or any(start.has_trials for start in starts):
        return None
    return [*(start.array for start in starts), jnp.zeros((), jnp.result_type(starts[0].array))]


def _dot_general(equation: Any, inputs: Sequence[Value], n_trials: int) -> list[Value] | None:
    """A weight matrix times the vectors of all trials is one product of matrices; a few numbers need none."""
    lhs, rhs = inputs
    (left_summed, right_summed), (left_batch, _) = equation.params["dimension_numbers"]
    if _operations.n_products(equation) <= FEW_PRODUCTS and jnp.issubdtype(
        equation.outvars[0].aval.dtype, jnp.inexact
    ):
        return [Value(_few_products(equation, inputs, n_trials))]
    # Each trial has a matrix of its own: a batched product, for which `jax.vmap` has the rule.
    if left_batch or (lhs.has_trials and rhs.has_trials):
        return None
    how = {key: equation.params[key] for key in ("precision", "preferred_element_type")}
    if rhs.has_trials:
        return [Value(lax.dot_general(lhs.array, rhs.array, ((left_summed, right_summed), ((), ())), **how))]
    if isinstance(how["precision"], tuple):
        how["precision"] = how["precision"][::-1]
    product = lax.dot_general(rhs.array, lhs.array, ((right_summed, left_summed), ((), ())), **how)
    n_right = equation.invars[1].aval.ndim - len(right_summed)
    return [Value(jnp.moveaxis(product, range(n_right), range(-1 - n_right, -1)))]


def _few_products(equation: Any, inputs: Sequence[Value], n_trials: int) -> Array:
    """Return a product of arrays so small that calling a product of matrices would cost more."""
    out, factors = equation.outvars[0].aval, []
    for value, variable, summed, batch in zip(
        inputs, equation.invars, *equation.params["dimension_numbers"], strict=True
    ):
        shape = variable.aval.shape
        free = [axis for axis in range(len(shape)) if axis not in (*summed, *batch)]
        array = jnp.asarray(value.array, out.dtype)
        array = array if value.has_trials else array[..., None]
        sizes = [math.prod(shape[axis] for axis in axes) for axes in (batch, free, summed)]
        ordered = lax.transpose(array, (*batch, *free, *summed, len(shape)))
        factors.append(lax.reshape(ordered, (*sizes, array.shape[-1])))
    products = factors[0][:, :, None] * factors[1][:, None]
    return lax.reshape(jnp.sum(products, axis=3), (*out.shape, n_trials))


def _random(equation: Any, inputs: Sequence[Value], n_trials: int) -> list[Value] | None:
    name, params = equation.primitive.name, equation.params
    keys, *data = (all_trials(value, n_trials) for value in inputs)
    if not _threefry.has_default_keys(keys) or params.get("bit_width", 32) != 32:
        return None
    if name == "random_fold_in":
        return [Value(_threefry.fold_in(keys, *data))]
    draw = _threefry.bits if name == "random_bits" else _threefry.split
    return [Value(draw(keys, params["shape"]))]


def _run_checkpoint(equation: Any, inputs: Sequence[Value], n_trials: int) -> list[Value]:
    """The operations of a function under `jax.checkpoint`, under it as well."""
    body = _operations.operations_of(equation.params["jaxpr"])
    options = {name: equation.params[name] for name in ("prevent_cse", "policy")}
    return jax.checkpoint(lambda inputs: run(body, inputs, n_trials), **options)(list(inputs))


def _scan(
    equation: Any, inputs: Sequence[Value], n_trials: int, needed: Sequence[bool]
) -> list[Value] | None:
    """A loop over time; the draws that do not depend on its state run for all time steps before it."""
    params = equation.params
    n_constants, n_state = _operations.sizes_of_scan(params)
    constants, sequences = inputs[:n_constants], list(inputs[n_constants + n_state :])
    # A state that is alike in all trials at first may differ after a step, and a loop cannot change its
    # shapes.
    start = [Value(all_trials(value, n_trials)) for value in inputs[n_constants : n_constants + n_state]]
    body = _operations.operations_of(params["jaxpr"])
    equations = [operation.equation for operation in body.operations]
    is_recomputed = len(equations) == 1 and equations[0].primitive.name in _operations.RECOMPUTED
    if is_recomputed:
        # A body under `remat` is a single operation. It is opened, to find its draws, and closed again below.
        body = _operations.operations_of(
            params["jaxpr"], inlined=_operations.INLINED | _operations.RECOMPUTED
        )
    by_trial = {place for place, value in zip(body.inputs, inputs, strict=True) if value.has_trials}
    by_trial.update(body.inputs[n_constants : n_constants + n_state])
    if _operations.most_products(body, by_trial) > MANY_PRODUCTS:
        # Each trial has a matrix of its own, as with fast weights. To multiply it, it would be transposed
        # twice in each step, which takes longer than all that the trials on the last axis save.
        return None
    record_places = itertools.compress(body.outputs[n_state:], needed[n_state:])
    # What nobody reads is not computed in each step, nor stacked over time.
    body = body.restrict_to((*body.outputs[:n_state], *record_places))
    draws, body = _operations.split_draws(body, body.inputs[n_constants : n_constants + n_state])

    def draw(sequences: list[Value]) -> list[Value]:
        return run(draws, (*constants, *start, *sequences), n_trials)

    def step(state: list[Value], received: list[Value]) -> tuple[list[Value], list[Value]]:
        outputs = run(body, (*constants, *state, *received), n_trials)
        return [Value(all_trials(value, n_trials)) for value in outputs[:n_state]], outputs[n_state:]

    # One operation over all time steps, in place of one in every turn of the loop.
    draws_of_steps = jax.vmap(draw, axis_size=params["length"])(sequences) if draws.outputs else []
    if is_recomputed:
        step = jax.checkpoint(step, prevent_cse=False, policy=equations[0].params["policy"])
    elif _operations.can_repeat(params["jaxpr"]):
        # The loop itself keeps XLA from merging what is repeated with the forward pass; `prevent_cse` would
        # foil other optimizations.
        step = jax.checkpoint(step, prevent_cse=False, policy=_is_stored)
    options = {name: params[name] for name in ("length", "reverse", "unroll")}
    final_state, stacked_records = lax.scan(step, start, sequences + draws_of_steps, **options)
    records = iter(stacked_records)
    return final_state + [
        next(records) if is_needed else Value(None, False) for is_needed in needed[n_state:]
    ]


def _is_stored(primitive: Any, *avals: Any, **params: Any) -> bool:
    return primitive.name not in _operations.CHEAP


RULES.update(
    dict.fromkeys(_operations.ELEMENTWISE, _elementwise)
    | dict.fromkeys(_ALONG_AXES_NAMES.split(), _axis_operation)
    | {
        "broadcast_in_dim": _broadcast_in_dim,
        "dot_general": _dot_general,
        "dynamic_slice": _dynamic_slice,
        "dynamic_update_slice": _dynamic_update_slice,
        "random_bits": _random,
        "random_fold_in": _random,
        "random_split": _random,
        "reshape": _reshape,
        "slice": _slice,
        "transpose": _transpose,
    }
)
