"""How programs are compiled, and arrays that are made without compiling any."""

import functools
import os
from collections.abc import Callable, Mapping
from typing import Any, Literal, ParamSpec, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array, PyTree

from popsim._compiled._programs import MOST_PROGRAMS, NestedPrograms, Programs, static_numbers
from popsim._compiled.choice import is_plain_jax
from popsim._compiled.traces import is_traced, is_tracing

__all__ = ["as_array", "jit", "jit_low_memory", "jit_fast_compile", "to_numpy"]

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

# Without the newer fusion emitters XLA holds half the memory while it compiles; what it makes runs as fast.
LOW_MEMORY = {"xla_cpu_use_fusion_emitters": False}
# Level 0 compiles in half the time of level 1, but such programs run 2.4 to 3.4 times slower.
FAST_COMPILE = {**LOW_MEMORY, "xla_backend_optimization_level": 1}


def jit(
    function: Callable[Arguments, Result], donate: Literal["none", "all-except-first"] = "none"
) -> Callable[Arguments, Result]:
    """Compile a function like `equinox.filter_jit`, to shared programs, see `Programs`."""
    return _jit(function, {}, donate)


def jit_low_memory(
    function: Callable[Arguments, Result], donate: Literal["none", "all-except-first"] = "none"
) -> Callable[Arguments, Result]:
    """Compile a function like `jit`, on a CPU in half the memory, to a program as fast."""
    return _jit(function, LOW_MEMORY, donate)


def jit_fast_compile(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Compile a function like `jit`, on a CPU in less time, to a slower program that runs a few times."""
    return _jit(function, FAST_COMPILE)


def _jit(
    function: Callable[Arguments, Result], options: Mapping[str, Any], donate: str = "none"
) -> Callable[Arguments, Result]:
    """Compile a function with options of XLA on a CPU, but for what the user sets in `XLA_FLAGS`."""
    nested = NestedPrograms(function)
    filter_jit: Any = eqx.filter_jit

    @functools.cache  # made at the first call, as the backend is not chosen before
    def programs() -> Programs:
        return Programs(function, compiler_options(options), donates_rest=donate != "none")

    @functools.lru_cache(MOST_PROGRAMS)
    def ordinary(is_plain: bool, numbers: tuple[str, ...]) -> Any:
        @functools.wraps(function)
        def separate_function(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
            # A function of its own: JAX keeps its programs apart from those of the other engine, and of
            # numbers that compare equal, such as 1 and 1.0.
            return function(*args, **kwargs)

        return filter_jit(separate_function, donate=donate, compiler_options=compiler_options(options))

    def ordinary_now(numbers: tuple[str, ...]) -> Any:
        return ordinary(is_plain_jax(), numbers)

    @functools.wraps(function)
    def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        if is_tracing():
            return nested.call(args, kwargs)
        return programs().call(ordinary_now, args, kwargs)

    def lower(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Any:
        return ordinary_now(static_numbers(*jax.tree.flatten((args, kwargs)))).lower(*args, **kwargs)

    compiled: Any = call
    compiled.lower = lower
    return compiled


def compiler_options(options: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the options on a CPU that the user has not set and that this XLA has; None if there are none."""
    if jax.default_backend() != "cpu":
        return None
    flags = os.environ.get("XLA_FLAGS", "").lstrip()
    if flags and not flags.startswith("-"):  # the name of a file of flags
        return None
    return {
        name: value for name, value in options.items() if name not in flags and _is_known(name, value)
    } or None


@functools.cache
def _is_known(name: str, value: Any) -> bool:
    """Return whether XLA knows an option; its options for a CPU come and go between versions."""
    try:
        jax.jit(lambda: 0, compiler_options={name: value}).lower().compile()
    except jax.errors.JaxRuntimeError:
        return False
    return True


def as_array(value: Any, dtype: DTypeLike) -> Array:
    """Return `jnp.asarray(value, dtype)`, without a compiled program where nothing is traced."""
    if isinstance(value, jax.Array) or is_tracing() or np.asarray(value).dtype.kind not in "biuf":
        return jnp.asarray(value, dtype)
    array = np.array(value, jax.dtypes.canonicalize_dtype(dtype))
    if array.dtype.kind in "iu" and not np.array_equal(array, value):
        raise OverflowError(f"{value} does not fit into {array.dtype}.")
    return jax.device_put(array)


def to_numpy(tree: PyTree) -> PyTree:
    """Return a PyTree with the arrays that have known values as NumPy arrays; random keys stay."""

    def to_known(leaf: Any) -> Any:
        is_known = isinstance(leaf, jax.Array) and not is_traced(leaf)
        return np.asarray(leaf) if is_known and not jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf

    return jax.tree.map(to_known, tree)
