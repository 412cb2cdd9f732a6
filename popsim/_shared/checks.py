"""Checks of arguments. Errors name the argument, the expected and the given value."""

import contextlib
import functools
import os
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike
from jaxtyping import PyTree

from popsim._compiled import as_array, is_traced, warn_outside
from popsim._shared.plain_values import Seconds, is_on_grid, nearest_times, step_at
from popsim._shared.text_checks import one_line
from popsim.per_member import PerMember

# What lies between the user and a warning, and what the user calls.
OWN_FRAMES = ("popsim", "equinox", "jaxtyping", "xarray", "contextlib", "functools")
CALLED_FRAMES = (*OWN_FRAMES, "jax", "jaxlib", "numpy", "diffrax", "optax", "beartype")


def warn_caller(message: str) -> None:
    """Warn, at the line of the user's code from which popsim was called."""
    warn_outside(message, OWN_FRAMES)


# Python's own filter forgets what was shown whenever warnings are caught, as while a program is compiled.
warn_caller_once = functools.cache(warn_caller)


LARGEST_INT = 2**31 - 1  # of JAX's default integers


def _values_of(value: Any) -> Any:
    return value.values if isinstance(value, PerMember) else value


def short_repr(value: Any) -> str:
    """Return a value for an error message, on one line of at most 200 characters; float32(.1) as 0.1."""
    value = _values_of(value)
    is_array = isinstance(value, jax.Array | np.ndarray | np.number)
    is_key = is_array and jnp.issubdtype(value.dtype, jax.dtypes.prng_key)
    if is_key or isinstance(value, eqx.Module) or is_traced(value):
        return kind_of(value)
    if not is_array:
        return one_line(repr(value))[:200]
    array = np.asarray(value)
    text = np.array2string(array, separator=", ", threshold=16, edgeitems=4) if array.ndim else array[()]
    return one_line(text)[:200]


def check_instance(name: str, value: object, kinds: type | tuple[type, ...], expected: str) -> None:
    """Raise `ValueError` unless the argument called `name` is an instance."""
    if not isinstance(value, kinds):
        raise ValueError(f"`{name}` must be {expected}, got {short_repr(value)}.")


WholeNumber = int | np.integer
"""A whole number of Python or NumPy."""


def is_int(value: object) -> bool:
    """Return whether a value is a whole number of Python or NumPy; True, False and durations are none."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64)


def is_number(value: object) -> bool:
    """Return whether a value is a number of Python or NumPy; True, False and durations are none."""
    return is_int(value) or isinstance(value, float | np.floating)


def is_numeric(dtype: Any) -> bool:
    """Return whether a type is that of real numbers or bools; to NumPy, durations are whole numbers."""
    return dtype == np.dtype(bool) or (jnp.issubdtype(dtype, jnp.number) and np.dtype(dtype).kind not in "mc")


def check_time_step(dt: Any) -> None:
    """Raise `ValueError` unless a time step is finite and above zero; warn once if it is above a second."""
    if isinstance(dt, PerMember):
        raise ValueError(f"`dt` must be the same for all members, got {short_repr(dt)}.")
    check_positive("dt", dt)
    if is_number(dt) and dt > 1:
        warn_caller_once(f"`dt` should be in seconds, got {dt:g} s: for {dt:g} ms give {dt / 1000:g}.")


def _check_of_integers(least: int, expected: str) -> Callable[[str, Any], None]:
    """Return a check by name that a value is an integer of 32 bits, at least `least`."""

    def check(name: str, value: Any) -> None:
        if not is_int(value) or value < least:
            raise ValueError(f"`{name}` must be {expected}, got {short_repr(value)}.")
        if value > LARGEST_INT:
            raise ValueError(f"`{name}` must be below 2**31, got {value}.")

    return check


check_positive_int = _check_of_integers(1, "a positive whole number")
check_non_negative_int = _check_of_integers(0, "a whole number from 0 on")


def as_parts(name: str, values: Any, kind: type | tuple[type, ...], expected: str) -> tuple[Any, ...]:
    """Return an argument that is a list of parts as a tuple."""
    if isinstance(values, (str, Mapping, kind)) or not isinstance(values, Iterable):
        raise ValueError(f"`{name}` must be a list of {expected}, got {short_repr(values)}.")
    parts = tuple(values)
    for part in parts:
        if not isinstance(part, kind):
            raise ValueError(f"`{name}` must be a list of {expected}, got {short_repr(part)} in it.")
    return parts


def _check_of_numbers(
    good: Callable[[np.ndarray], np.ndarray | np.bool_], expected: str
) -> Callable[[str, Any], None]:
    """Return a check by name of a number, an array or a `PerMember`; traced arrays are accepted."""

    def check(name: str, value: Any) -> None:
        values = _values_of(value)
        if is_traced(values):
            return
        numbers = np.empty(0, object)
        with contextlib.suppress(TypeError, ValueError):  # ragged lists have no dtype
            numbers = np.asarray(values)
        if not is_numeric(numbers.dtype):
            raise ValueError(f"`{name}` must be a number, {expected}, got {short_repr(value)}.")
        bad = numbers[~good(numbers)]
        if bad.size:
            raise ValueError(f"`{name}` must be {expected}, got {short_repr(bad.flat[0])}.")

    return check


check_numbers = _check_of_numbers(lambda x: ~np.isnan(x), "not NaN")
check_finite = _check_of_numbers(np.isfinite, "finite")
check_positive = _check_of_numbers(lambda x: np.isfinite(x) & (x > 0), "finite and above zero")
check_non_negative = _check_of_numbers(lambda x: np.isfinite(x) & (x >= 0), "finite and at least zero")
check_fraction = _check_of_numbers(lambda x: (x >= 0) & (x <= 1), "from zero to one")


def check_time_constant(name: str, value: Any, dt: float) -> None:
    """Raise `ValueError` unless a time constant, in s, is positive and no shorter than the time step."""
    check_positive(name, value)
    if violates(lambda tau: tau >= dt * (1 - 1e-6), _values_of(value)):  # equal, but for rounding
        raise ValueError(
            f"`dt` must not exceed {name} = {short_repr(value)} s, got {dt} s: a step would go past what the "
            "state decays to."
        )


QUANTITIES = {
    "angle": (2 * np.pi, "rad", "np.deg2rad converts degrees"),
    "delay": (1.0, "s", "divide milliseconds by 1000"),
    "duration": (3600.0, "s", "divide milliseconds by 1000"),
    "mass": (100.0, "kg", "divide grams by 1000"),
}
"""Kinds of quantities: the largest that fits a use, its unit, and what to do with numbers in another unit."""


def warn_of_unit(name: str, value: Any, kind: str) -> None:
    """Warn if a quantity is larger than fits any use, as numbers in another unit are."""
    if is_traced(values := _values_of(value)):
        return
    largest, unit, advice = QUANTITIES[kind]
    numbers = np.abs(np.asarray(values, float))
    beyond = np.isfinite(numbers) & (numbers > largest * (1 + 1e-6))
    if np.any(beyond):
        given = short_repr(np.asarray(values)[beyond].flat[0])
        warn_caller(
            f"`{name}` is in {unit}, and {given} {unit} is beyond any {kind} in use, {largest:.4g} {unit}: "
            f"{advice}."
        )


def as_float_array(value: ArrayLike | Sequence[Any] | PerMember | None) -> Any:
    """Convert numbers to the default floating-point type; what is none is left to the check of its name."""
    if isinstance(value, PerMember):
        return PerMember(as_float_array(value.values))
    if value is None or _is_of_other_kind(value):
        return value
    try:
        return as_array(value, jnp.result_type(float))
    except (TypeError, ValueError):
        return value


def _is_of_other_kind(value: Any) -> bool:
    """Whether a value is a duration, a date or complex, of which JAX takes the count or the real part."""
    if isinstance(value, list | tuple):
        return any(map(_is_of_other_kind, value))
    return getattr(getattr(value, "dtype", None), "kind", None) in ("m", "M", "c")


def n_steps_in(name: str, seconds: Seconds, dt: float) -> int:
    """Return the number of time steps in a time that must be zero or more, and a multiple of `dt`."""
    check_non_negative(name, seconds)
    return steps_of_delay(name, seconds, dt)


def steps_of_delay(name: str, seconds: Seconds, dt: float) -> int:
    """Return the number of time steps in a delay, which may be negative."""
    check_finite(name, seconds)
    if not is_on_grid(seconds, dt):
        raise ValueError(
            f"`{name}` must be a multiple of the time step dt = {dt} s, the nearest are "
            f"{nearest_times(seconds, dt)}, got {short_repr(seconds)} s."
        )
    return step_at(seconds, dt)


def steps_of_window(name: str, seconds: Seconds, dt: float) -> int:
    """Return the number of time steps in the duration of a window, rounded; zero for no time at all."""
    if seconds > 0 and (step_at(seconds, dt) == 0 or (seconds < dt and not is_on_grid(seconds, dt))):
        raise ValueError(f"`{name}` must be at least a time step, dt = {dt} s, got {short_repr(seconds)} s.")
    return step_at(seconds, dt)


def check_same_dt(dt: float, expected: float, owner: str, advice: str = "") -> None:
    """Raise `ValueError` unless a time step equals the expected one to within 1e-9 s."""
    if not abs(dt - expected) <= 1e-9:
        raise ValueError(f"`dt` must be that of the {owner}, {expected} s, got {dt} s. {advice}".rstrip())


def violates(condition: Callable[..., Any], *values: Any) -> bool:
    """Return whether a condition of arrays is false anywhere; False if one of them is traced."""
    return not is_traced(*values) and not np.all(condition(*map(np.asarray, values)))


TRACED_ERRORS = (
    jax.errors.ConcretizationTypeError,  # also raised by `if`
    jax.errors.NonConcreteBooleanIndexError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
)
MISTAKES = (AssertionError, AttributeError, LookupError, NameError, TypeError, ValueError)


@contextlib.contextmanager
def explain_traced_code(name: str) -> Iterator[None]:
    """Name the user's function in errors from needing the values of a traced array."""
    try:
        yield
    except TRACED_ERRORS as error:
        raise ValueError(
            f"{name} must compute with jax.numpy (jnp): it is compiled, when `if`, float(), int() and numpy "
            f"cannot see the numbers of an array{_place_of(error)}. Use jnp.where in place of `if`."
        ) from error


@contextlib.contextmanager
def explain_errors(name: str, arguments: str) -> Iterator[None]:
    """Name the user's function in errors that it raises, including those of `explain_traced_code`."""
    try:
        with explain_traced_code(name):
            yield
    except ValueError as error:
        if str(error).startswith(name):
            raise
        raise ValueError(f"{name}: {error}{_place_of(error)}") from error
    except MISTAKES as error:
        raise ValueError(
            f"{name}, called with {arguments}, raises {type(error).__name__}: {error}{_place_of(error)}"
        ) from error


def _place_of(error: Exception) -> str:
    """Return the user's line in which an error arose, in brackets; empty if there is none."""
    for frame, line in reversed([*traceback.walk_tb(error.__traceback__)]):
        if frame.f_globals.get("__name__", "").partition(".")[0] not in CALLED_FRAMES:
            return f" (line {line} of {frame.f_code.co_filename}, {frame.f_code.co_qualname})"
    return ""


def kind_of(value: Any) -> str:
    """Return what a value is, for error messages: "an array of shape (3, 2)", "a HandState"."""
    if isinstance(value, jax.Array | np.ndarray | jax.ShapeDtypeStruct):
        return f"an array of shape {value.shape}"
    name = type(value).__name__
    return f"{'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}"


def check_like(name: str, role: str, expected: PyTree, returned: PyTree) -> None:
    """Raise `ValueError` unless a method returned what has the structure and shapes of another PyTree."""
    like, got = map(_kind_and_shapes, (expected, returned))
    if like != got:
        raise ValueError(f"{name} must return what is like {role}, {like}, got {got}.")


def _kind_and_shapes(tree: PyTree) -> str:
    leaves = jax.tree.leaves_with_path(tree)
    shapes = ", ".join(f"{jax.tree_util.keystr(path)} {jnp.shape(leaf)}".strip() for path, leaf in leaves)
    is_array = isinstance(tree, jax.Array | np.ndarray | jax.ShapeDtypeStruct)
    return f"{'an array' if is_array else kind_of(tree)} of {shapes}"


def check_castable(name: str, source: Any, target: Any) -> None:
    """Raise `ValueError` if numbers of one dtype would be cut in another, as .7 as an integer."""
    kinds = (jnp.bool_, jnp.integer, jnp.floating, jnp.complexfloating)
    ranks = [[jnp.issubdtype(dtype, kind) for kind in kinds] for dtype in (source, target)]
    if source != target and (not all(map(any, ranks)) or ranks[0].index(True) > ranks[1].index(True)):
        raise ValueError(f"{name} must be of type {target}, got {source}, whose numbers would be cut to it.")


def concrete_value(function: Callable[..., Array | np.ndarray], *trees: Any) -> np.ndarray | None:
    """Return the value of a function of concrete arguments, even inside `jit`; None if they are traced."""
    if is_traced(*trees):
        return None
    with jax.ensure_compile_time_eval():
        return np.asarray(function(*trees))


def bytes_of(tree: PyTree) -> int:
    """Return the number of bytes of the arrays of a PyTree; shapes of arrays count like arrays."""
    arrays = eqx.filter(tree, lambda leaf: eqx.is_array(leaf) or isinstance(leaf, jax.ShapeDtypeStruct))
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(arrays))


@functools.cache
def memory_of_machine(root: Path = Path("/")) -> int | None:
    """Return the bytes of memory that this process may use, also in a container; None if it is unknown."""
    limits: list[int] = []
    with contextlib.suppress(AttributeError, ValueError, OSError):  # not every system has these names
        limits.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    groups: list[PurePosixPath] = []
    with contextlib.suppress(OSError):
        lines = (root / "proc/self/cgroup").read_text().splitlines()
        groups += [PurePosixPath(line.split(":", 2)[-1].strip("/")) for line in lines]
    for place in {place for group in groups for place in (group, *group.parents)}:
        for name in (f"{place}/memory.max", f"memory/{place}/memory.limit_in_bytes"):  # of both versions
            with contextlib.suppress(OSError, ValueError):  # "max", or not visible inside a container
                limits.append(int((root / "sys/fs/cgroup" / name).read_text()))
    return min((limit for limit in limits if limit > 0), default=None)
