"""A traced function as a list of operations, and the part of a loop's body that can run before the loop."""

import dataclasses
import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal

INLINED = {"jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr", "core_call": "call_jaxpr"}
RECOMPUTED = {"remat2": "jaxpr", "remat": "jaxpr", "checkpoint": "jaxpr"}
RANDOM = frozenset(
    ["random_bits", "random_fold_in", "random_gamma", "random_split", "rng_bit_generator", "threefry2x32"]
)
CONTROL_FLOW = frozenset(["cond", "while", "scan", "pure_callback", "io_callback"])
_ELEMENTWISE_NAMES = """
    abs acos acosh add add_any and asin asinh atan atan2 atanh bessel_i0e bessel_i1e cbrt ceil clamp
    clz conj convert_element_type copy copy_p cos cosh digamma div eq erf erf_inv erfc exp exp2
    expm1 floor ge gt igamma igammac imag integer_pow is_finite le lgamma log log1p logistic lt max
    min mul name ne neg nextafter not or population_count pow real reduce_precision
    regularized_incomplete_beta rem round rsqrt select_n shift_left shift_right_arithmetic
    shift_right_logical sign sin sinh sqrt square stop_gradient sub tan tanh xor zeta
"""
ELEMENTWISE = frozenset(_ELEMENTWISE_NAMES.split())
"""The operations whose result at an index depends on their operands at that index only."""
_CHEAP_NAMES = """
    abs add add_any and broadcast_in_dim clamp concatenate convert_element_type copy copy_p eq ge gt
    integer_pow iota le lt max min mul ne neg not or pad reshape rev select_n sign square squeeze sub
    transpose xor
"""
CHEAP = frozenset(_CHEAP_NAMES.split())
"""The operations that cost less to repeat than their results to write and read."""


# What other names, parameters or conventions of a primitive raise; not errors of a program that runs.
UNKNOWN_TO_ENGINE = (AssertionError, AttributeError, LookupError, NotImplementedError, TypeError, ValueError)


class UnknownOperation(Exception):
    """An operation that the engine cannot run on other arrays than it was traced with."""


class Variable:
    """A value that an operation makes or receives, known when the operations run."""


@dataclasses.dataclass(frozen=True, eq=False)
class TracedConstant:
    """A value known when the function was traced."""

    value: Any


@dataclasses.dataclass(frozen=True)
class Operation:
    """An equation of a program, and the values that it receives and makes."""

    equation: JaxprEqn
    inputs: tuple[Variable | TracedConstant, ...]
    outputs: tuple[Variable, ...]


@dataclasses.dataclass(frozen=True)
class Operations:
    """A traced function: its inputs, the operations that its outputs need, and its outputs."""

    inputs: tuple[Variable, ...]
    operations: tuple[Operation, ...]
    outputs: tuple[Variable | TracedConstant, ...]

    def restrict_to(self, outputs: Iterable[Variable | TracedConstant]) -> "Operations":
        """Return the part that makes some of the values, with the same inputs."""
        outputs = tuple(outputs)
        needed, operations = set(outputs), []
        # Backwards, so that all users of a value are known before the operation that makes it is judged.
        for operation in reversed(self.operations):
            if operation.equation.effects or not needed.isdisjoint(operation.outputs):
                needed.update(operation.inputs)
                operations.append(operation)
        return Operations(self.inputs, tuple(reversed(operations)), outputs)


def can_repeat(program: ClosedJaxpr | Jaxpr) -> bool:
    """Return whether a program may be repeated in part: without effects, branches, loops and checkpoints."""
    for equation in _as_closed(program).jaxpr.eqns:
        name = equation.primitive.name
        if equation.effects or name in (*CONTROL_FLOW, *RECOMPUTED):
            return False
        if name.startswith(("custom_jvp", "custom_vjp")) and _derivative_has_effects(equation):
            return False
        if not all(map(can_repeat, _inner_programs(equation))):
            return False
    return True


def _derivative_has_effects(equation: Any) -> bool:
    """Whether the derivative that a user gave to a function has effects, which are seen only there."""
    structs = [jax.ShapeDtypeStruct(variable.aval.shape, variable.aval.dtype) for variable in equation.invars]
    # A program shows a custom derivative as a function that is yet to be traced; only its trace has effects.
    forward = jax.make_jaxpr(lambda *arrays: jax.vjp(functools.partial(bind, equation), *arrays)[0])
    return bool(forward(*structs).effects)


def bind(equation: JaxprEqn, *arrays: Any) -> list[Any]:
    """Return the results of an operation, as it is, for other arrays."""
    primitive = equation.primitive
    params = primitive.get_bind_params(equation.params)
    functions, params = params if isinstance(params, tuple) else ((), params)  # depends on the version of JAX
    results = primitive.bind(*functions, *arrays, **params)
    return results if primitive.multiple_results else [results]


def sizes_of_scan(params: Mapping[str, Any]) -> tuple[int, int]:
    """Return how many constants, and how many parts of its state, a loop over time has."""
    if "num_consts" in params:
        return params["num_consts"], params["num_carry"]
    constants, state, _ = params["ft_in"].unpack()  # from JAX 0.12
    return len(list(constants)), len(list(state))


def _inner_programs(equation: JaxprEqn) -> list[ClosedJaxpr | Jaxpr]:
    leaves = jax.tree.leaves(list(equation.params.values()))
    return [leaf for leaf in leaves if isinstance(leaf, ClosedJaxpr | Jaxpr)]


def operations_of(program: ClosedJaxpr | Jaxpr, *, inlined: Mapping[str, str] = INLINED) -> Operations:
    """Return the operations of a program."""
    operations: list[Operation] = []
    inputs = tuple(Variable() for _ in _as_closed(program).jaxpr.invars)
    outputs = _append(operations, program, inputs, inlined)
    return Operations(inputs, tuple(operations), outputs).restrict_to(outputs)


def _as_closed(program: ClosedJaxpr | Jaxpr) -> ClosedJaxpr:
    return program if isinstance(program, ClosedJaxpr) else ClosedJaxpr(program, ())


def _append(
    operations: list[Operation],
    program: ClosedJaxpr | Jaxpr,
    inputs: Sequence[Variable | TracedConstant],
    inlined: Mapping[str, str],
) -> tuple[Variable | TracedConstant, ...]:
    """Append the operations of a program that receives `inputs`; return its outputs."""
    closed = _as_closed(program)
    places: dict[Any, Variable | TracedConstant] = dict(zip(closed.jaxpr.invars, inputs, strict=True))
    places.update(zip(closed.jaxpr.constvars, map(TracedConstant, closed.consts), strict=True))

    def place(variable: Any) -> Variable | TracedConstant:
        return TracedConstant(variable.val) if isinstance(variable, Literal) else places[variable]

    for equation in closed.jaxpr.eqns:
        received = tuple(map(place, equation.invars))
        name = equation.primitive.name
        if name not in inlined:
            outputs = tuple(Variable() for _ in equation.outvars)
            operations.append(Operation(equation, received, outputs))
        elif (inner := equation.params.get(inlined[name])) is None:
            raise UnknownOperation(f"the operation {name!r} without the parameter {inlined[name]!r}")
        else:
            outputs = _append(operations, inner, received, inlined)
        places.update(zip(equation.outvars, outputs, strict=True))
    return tuple(map(place, closed.jaxpr.outvars))


def n_products(equation: Any) -> int:
    """Return how many numbers a product of arrays multiplies with one another."""
    (_, right_summed), (_, right_batch) = equation.params["dimension_numbers"]
    left_shape, right_shape = (variable.aval.shape for variable in equation.invars)
    return math.prod(left_shape) * math.prod(
        size for axis, size in enumerate(right_shape) if axis not in (*right_summed, *right_batch)
    )


def most_products(body: Operations, inputs: Iterable[Variable]) -> int:
    """Return `n_products` of the largest product in a body whose factors depend on some of its inputs."""
    depends: set[Variable | TracedConstant] = set(inputs)
    most = 0
    for operation in body.operations:
        if not depends.isdisjoint(operation.inputs):
            depends.update(operation.outputs)
        if operation.equation.primitive.name == "dot_general" and depends.issuperset(operation.inputs):
            most = max(most, n_products(operation.equation))
    return most


def split_draws(body: Operations, state: Iterable[Variable]) -> tuple[Operations, Operations]:
    """Divide the body of a loop into its random draws that do not depend on the state, and the rest.

    The draws come with what is computed from them alone; the rest receives it after its own inputs.
    """
    depends: set[Variable | TracedConstant] = set(state)
    from_draws: set[Variable | TracedConstant] = set()
    for operation in body.operations:
        name = operation.equation.primitive.name
        stays = operation.equation.effects or name in CONTROL_FLOW
        # What has effects must happen once in each turn, so it counts as if it depended on the state.
        if stays or not depends.isdisjoint(operation.inputs):
            depends.update(operation.outputs)
        elif name in RANDOM or not from_draws.isdisjoint(operation.inputs):
            from_draws.update(operation.outputs)
    operations = [operation for operation in body.operations if from_draws.isdisjoint(operation.outputs)]
    used = {place for operation in operations for place in operation.inputs} | set(body.outputs)
    draw_outputs = tuple(
        place for operation in body.operations for place in operation.outputs if place in from_draws & used
    )
    remaining = Operations((*body.inputs, *draw_outputs), tuple(operations), body.outputs)
    return body.restrict_to(draw_outputs), remaining.restrict_to(body.outputs)
