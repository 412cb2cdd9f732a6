"""Functions of one trial, run for all trials at once, trials on the last axis.

`jax.vmap` puts the trials first: a time step then works on arrays (trial, feature) of short rows. With the
trials last, each operation on the features of a trial works on long rows, one for each feature. The function
is traced for one trial, and its operations run one by one on arrays with one axis more; what has no rule here
goes through `jax.vmap`. The random draws of a loop that do not depend on its state, such as the noise of all
time steps, run before the loop.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, PyTree

from popsim._operations import (
    INLINED,
    RECOMPUTED,
    Known,
    Operations,
    Place,
    operations_of,
    split_draws,
    traced,
)

ELEMENTWISE = """
    abs acos acosh add add_any and asin asinh atan atan2 atanh bessel_i0e bessel_i1e cbrt ceil clamp
    clz conj convert_element_type copy copy_p cos cosh digamma div eq erf erf_inv erfc exp exp2
    expm1 floor ge gt igamma igammac imag integer_pow is_finite le lgamma log log1p logistic lt max
    min mul name ne neg nextafter not or population_count pow real reduce_precision
    regularized_incomplete_beta rem round rsqrt select_n shift_left shift_right_arithmetic
    shift_right_logical sign sin sinh sqrt square stop_gradient sub tan tanh xor zeta
"""
ALONG_AXES = """
    argmax argmin cumlogsumexp cummax cummin cumprod cumsum reduce_and reduce_max reduce_min
    reduce_or reduce_prod reduce_sum reduce_xor rev split squeeze
"""
FEW_PRODUCTS = 64


class Value(NamedTuple):
    """An array of one trial, or of all trials if it `has_trials`: then with the trials on its last axis."""

    array: Any
    has_trials: bool


Rule = Callable[..., list[Value] | None]
RULES: dict[str, Rule] = {}


def map_trials(function: Callable[..., PyTree[Array]], *stacked: PyTree[Array]) -> PyTree[Array]:
    """Return `jax.vmap(function)(*stacked)`, equal to rounding.

    Derivatives of both modes, and `jax.vmap` over members, go through it.

    **Arguments:**

    - `function`: a function of one trial: arrays and PyTrees of them.
    - `stacked`: its arguments, with the trials on the first axis of each array.
    """
    leaves, structure = jax.tree.flatten(stacked)
    n_trials = leaves[0].shape[0]
    one = [jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype) for leaf in leaves]
    operations, struct = traced(lambda *own: function(*jax.tree.unflatten(structure, own)), *one)
    given = [Value(jnp.moveaxis(leaf, 0, -1), True) for leaf in leaves]
    results = run(operations, given, n_trials)
    arrays = [jnp.moveaxis(with_trials(result, n_trials), -1, 0) for result in results]
    return jax.tree.unflatten(jax.tree.structure(struct), arrays)


def run(operations: Operations, given: Sequence[Value], n_trials: int) -> list[Value]:
    """Return the outputs of operations for all trials."""
    values: dict[Place, Value] = dict(zip(operations.inputs, given, strict=True))

    def read(place: Place | Known) -> Value:
        return Value(place.value, False) if isinstance(place, Known) else values[place]

    needed = {place for operation in operations.operations for place in operation.inputs}
    needed.update(operations.outputs)
    for operation in operations.operations:
        inputs = [read(place) for place in operation.inputs]
        equation, name = operation.equation, operation.equation.primitive.name
        made = None
        if name == "scan":
            made = _scan(equation, inputs, n_trials, [place in needed for place in operation.outputs])
        elif name in RECOMPUTED:
            made = _recomputed(equation, inputs, n_trials)
        elif any(value.has_trials for value in inputs):
            made = _by_rule(name, equation, inputs, n_trials)
        made = _by_vmap(equation, inputs) if made is None else made
        values.update(zip(operation.outputs, made, strict=True))
    return [read(place) for place in operations.outputs]


def with_trials(value: Value, n_trials: int) -> Array:
    """Return the array of a value with an axis of trials."""
    if value.has_trials:
        return value.array
    array = jnp.asarray(value.array)
    return jnp.broadcast_to(array[..., None], (*array.shape, n_trials))


def _by_vmap(equation: Any, inputs: Sequence[Value]) -> list[Value]:
    """Run an equation as it is, under `jax.vmap` if an input has trials."""
    primitive = equation.primitive
    params = primitive.get_bind_params(equation.params)
    functions, params = params if isinstance(params, tuple) else ((), params)  # depends on the version of JAX

    def bind(*arrays: Any) -> Any:
        made = primitive.bind(*functions, *arrays, **params)
        return made if primitive.multiple_results else [made]

    axes = [-1 if value.has_trials else None for value in inputs]
    has_trials = any(value.has_trials for value in inputs)
    mapped = jax.vmap(bind, in_axes=axes, out_axes=-1) if has_trials else bind
    return [Value(array, has_trials) for array in mapped(*(value.array for value in inputs))]


def _by_rule(name: str, equation: Any, inputs: list[Value], n_trials: int) -> list[Value] | None:
    """Run an equation by its rule; None if it has none for these inputs."""
    return RULES[name](equation, inputs, n_trials) if name in RULES else None


def _bound(equation: Any, *arrays: Any, **changed: Any) -> list[Value]:
    made = equation.primitive.bind(*arrays, **{**equation.params, **changed})
    return [Value(array, True) for array in (made if equation.primitive.multiple_results else [made])]


def _elementwise(equation: Any, inputs: Sequence[Value], n_trials: int) -> list[Value]:
    """Operations on arrays that broadcast: of one shape, or with axes of length 1, or scalars."""
    shape = equation.outvars[0].aval.shape
    takes_scalars = equation.primitive.name not in ("select_n", "clamp")

    def aligned(value: Value) -> Any:
        array, n_axes = value.array, jnp.ndim(value.array) - value.has_trials
        if (value.has_trials and n_axes == len(shape)) or (
            n_axes == 0 and not value.has_trials and takes_scalars
        ):
            return array
        array = jnp.asarray(array)
        own, trials = (array.shape[:-1], array.shape[-1:]) if value.has_trials else (array.shape, (1,))
        array = lax.reshape(array, (*(own or (1,) * len(shape)), *trials))
        return jnp.broadcast_to(array, (*(shape if takes_scalars else own or shape), n_trials))

    return _bound(equation, *map(aligned, inputs))


def _leading_axes(equation: Any, inputs: Sequence[Value], n_trials: int) -> list[Value]:
    """Operations on one array along axes that they name."""
    return _bound(equation, inputs[0].array)


def _broadcast_in_dim(equation: Any, inputs: Sequence[Value], n_trials: int) -> list[Value]:
    params = equation.params
    shape, axes = params["shape"], params["broadcast_dimensions"]
    return [Value(lax.broadcast_in_dim(inputs[0].array, (*shape, n_trials), (*axes, len(shape))), True)]


def _reshape(equation: Any, inputs: Sequence[Value], n_trials: int) -> list[Value] | None:
    if equation.params["dimensions"] is not None:
        return None
    return [Value(lax.reshape(inputs[0].array, (*equation.params["new_sizes"], n_trials)), True)]


def _transpose(equation: Any, inputs: Sequence[Value], n_trials: int) -> list[Value]:
    order = equation.params["permutation"]
    return [Value(lax.transpose(inputs[0].array, (*order, len(order))), True)]


def _slice(equation: Any, inputs: Sequence[Value], n_trials: int) -> list[Value]:
    params = equation.params
    strides = params["strides"]
    return [
        Value(
            lax.slice(
                inputs[0].array,
                (*params["start_indices"], 0),
                (*params["limit_indices"], n_trials),
                None if strides is None else (*strides, 1),
            ),
            True,
        )
    ]


def _concatenate(equation: Any, inputs: Sequence[Value], n_trials: int) -> list[Value]:
    arrays = [with_trials(value, n_trials) for value in inputs]
    return [Value(lax.concatenate(arrays, equation.params["dimension"]), True)]


def _dynamic_slice(equation: Any, inputs: Sequence[Value], n_trials: int) -> list[Value] | None:
    operand, *starts = inputs
    at = _starts(starts)
    if at is None:
        return None
    return [Value(lax.dynamic_slice(operand.array, at, (*equation.params["slice_sizes"], n_trials)), True)]


def _starts(starts: Sequence[Value]) -> list[Any] | None:
    if not starts or any(start.has_trials for start in starts):
        return None
    return [*(start.array for start in starts), jnp.zeros((), jnp.result_type(starts[0].array))]


def _dynamic_update_slice(equation: Any, inputs: Sequence[Value], n_trials: int) -> list[Value] | None:
    operand, update, *starts = inputs
    at = _starts(starts)
    if at is None:
        return None
    whole, part = with_trials(operand, n_trials), with_trials(update, n_trials)
    return [Value(lax.dynamic_update_slice(whole, part, at), True)]


def _dot_general(equation: Any, inputs: Sequence[Value], n_trials: int) -> list[Value] | None:
    """A weight matrix times the vectors of all trials is one product of matrices; a few numbers need none."""
    left, right = inputs
    (left_summed, right_summed), (left_batch, right_batch) = equation.params["dimension_numbers"]
    left_shape, right_shape = (var.aval.shape for var in equation.invars)
    n_products = math.prod(left_shape) * math.prod(
        size for axis, size in enumerate(right_shape) if axis not in (*right_summed, *right_batch)
    )
    if n_products <= FEW_PRODUCTS:
        return [Value(_few_products(equation, left, right, n_trials), True)]
    if left_batch or (left.has_trials and right.has_trials):
        return None
    how = {key: equation.params[key] for key in ("precision", "preferred_element_type")}
    if right.has_trials:
        made = lax.dot_general(left.array, right.array, ((left_summed, right_summed), ((), ())), **how)
        return [Value(made, True)]
    if isinstance(how["precision"], tuple):
        how["precision"] = how["precision"][::-1]
    made = lax.dot_general(right.array, left.array, ((right_summed, left_summed), ((), ())), **how)
    n_right = len(right_shape) - len(right_summed)
    return [Value(jnp.moveaxis(made, range(n_right), range(-1 - n_right, -1)), True)]


def _few_products(equation: Any, left: Value, right: Value, n_trials: int) -> Array:
    """Return the sum of products of arrays so small that a call of a product of matrices would cost more."""
    summed, batch = equation.params["dimension_numbers"]
    out = equation.outvars[0].aval
    numbers = ([], [])
    for side, (value, variable) in enumerate(zip((left, right), equation.invars, strict=True)):
        shape = variable.aval.shape
        free = [axis for axis in range(len(shape)) if axis not in (*summed[side], *batch[side])]
        array = jnp.asarray(value.array, out.dtype)
        array = array if value.has_trials else array[..., None]
        order = (*batch[side], *free, *summed[side], len(shape))
        sizes = [math.prod(shape[axis] for axis in axes) for axes in (batch[side], free, summed[side])]
        array = lax.reshape(lax.transpose(array, order), (*sizes, array.shape[-1]))
        numbers[side].append(array[:, :, None] if side == 0 else array[:, None])
    products = numbers[0][0] * numbers[1][0]
    return lax.reshape(jnp.sum(products, axis=3), (*out.shape, n_trials))


def _sort(equation: Any, inputs: Sequence[Value], n_trials: int) -> list[Value]:
    return _bound(equation, *(with_trials(value, n_trials) for value in inputs))


def _recomputed(equation: Any, inputs: Sequence[Value], n_trials: int) -> list[Value]:
    """The operations of a function under `jax.checkpoint`, under it as well."""
    has_trials: list[bool] = []
    body = operations_of(equation.params["jaxpr"])

    def recomputed(*arrays: Any) -> list[Any]:
        given = [Value(array, value.has_trials) for array, value in zip(arrays, inputs, strict=True)]
        made = run(body, given, n_trials)
        has_trials[:] = [value.has_trials for value in made]
        return [value.array for value in made]

    options = {name: equation.params[name] for name in ("prevent_cse", "policy")}
    arrays = jax.checkpoint(recomputed, **options)(*(value.array for value in inputs))
    return [Value(*each) for each in zip(arrays, has_trials, strict=True)]


def _scan(equation: Any, inputs: Sequence[Value], n_trials: int, needed: Sequence[bool]) -> list[Value]:
    """A loop over time; the draws that do not depend on its state run for all time steps before it."""
    params = equation.params
    n_constants, n_state = params["num_consts"], params["num_carry"]
    constants, state, sequences = (
        inputs[:n_constants],
        inputs[n_constants : n_constants + n_state],
        inputs[n_constants + n_state :],
    )
    body = operations_of(params["jaxpr"])
    whole = [each.equation for each in body.operations]
    recomputes = len(whole) == 1 and whole[0].primitive.name in RECOMPUTED
    if recomputes:
        body = operations_of(params["jaxpr"], inlined=INLINED | RECOMPUTED)
    kept = [
        place for place, is_needed in zip(body.outputs[n_state:], needed[n_state:], strict=True) if is_needed
    ]
    body = body.giving((*body.outputs[:n_state], *kept))
    draws, body = split_draws(body, body.inputs[n_constants : n_constants + n_state])
    has_trials: dict[str, list[bool]] = {}

    def step(name: str, part: Operations, given: Sequence[Value]) -> list[Value]:
        made = run(part, given, n_trials)
        has_trials[name] = [value.has_trials for value in made]
        return made

    def of_sequences(arrays: Sequence[Any]) -> list[Value]:
        return [Value(array, value.has_trials) for array, value in zip(arrays, sequences, strict=True)]

    def draw(arrays: Sequence[Any]) -> list[Any]:
        made = step("draws", draws, (*constants, *state, *of_sequences(arrays)))
        return [value.array for value in made]

    def advance(carry: Sequence[Array], arrays: tuple[Sequence[Any], Sequence[Any]]) -> tuple[Any, Any]:
        drawn = [Value(*each) for each in zip(arrays[1], has_trials.get("draws", ()), strict=True)]
        held = [Value(array, True) for array in carry]
        made = step("body", body, (*constants, *held, *of_sequences(arrays[0]), *drawn))
        return [with_trials(value, n_trials) for value in made[:n_state]], [
            value.array for value in made[n_state:]
        ]

    given = [value.array for value in sequences]
    drawn = jax.vmap(draw, axis_size=params["length"])(given) if draws.outputs else []
    start = [with_trials(value, n_trials) for value in state]
    if recomputes:
        advance = jax.checkpoint(advance, prevent_cse=False, policy=whole[0].params["policy"])
    options = {"length": params["length"], "reverse": params["reverse"], "unroll": params["unroll"]}
    last, made = lax.scan(advance, start, (given, drawn), **options)
    records = iter(zip(made, has_trials["body"][n_state:], strict=True))
    return [Value(array, True) for array in last] + [
        Value(*next(records)) if is_needed else Value(None, False) for is_needed in needed[n_state:]
    ]


RULES.update(
    dict.fromkeys(ELEMENTWISE.split(), _elementwise)
    | dict.fromkeys(ALONG_AXES.split(), _leading_axes)
    | {
        "broadcast_in_dim": _broadcast_in_dim,
        "concatenate": _concatenate,
        "dot_general": _dot_general,
        "dynamic_slice": _dynamic_slice,
        "dynamic_update_slice": _dynamic_update_slice,
        "reshape": _reshape,
        "slice": _slice,
        "sort": _sort,
        "transpose": _transpose,
    }
)
