"""A short text that tells whether two values are the same."""

import dataclasses
import functools
import hashlib
import inspect
import sys
import types
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

PLAIN = (type(None), bool, int, float, complex, str, bytes)


def fingerprint(value: Any) -> str:
    """The SHA-256 of what a value is made of, the same in every process.

    Arrays count by dtype, shape and bits; modules, dataclasses and containers by their parts; functions by
    name, instructions, defaults and what they enclose, so that `adam(1e-3)` and `adam(1e-2)` differ; other
    objects by type, attributes, and the functions of classes that are not installed, such as those of a
    script. Instructions are those of one version of Python. Global variables do not count.

    **Arguments:**

    - `value`: a PyTree, an optimizer, a function, or a combination of them.

    **Returns:** 64 hexadecimal digits.
    """
    digest = hashlib.sha256()
    for part in _parts(value, ()):
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()


def _parts(value: Any, within: tuple[int, ...]) -> Iterator[bytes]:
    """What a value is made of; `within` are the objects around it, so that circles end."""
    if id(value) in within:
        yield f"around {within[::-1].index(id(value))}".encode()
        return
    around = (*within, id(value))
    yield _name(type(value)).encode()
    if isinstance(value, PLAIN):
        yield repr(value).encode()
    elif isinstance(value, (jax.Array, np.ndarray, np.generic)):
        yield from _array_parts(value)
    elif isinstance(value, (type, types.ModuleType, types.BuiltinFunctionType)):
        yield _name(value).encode()
    elif isinstance(value, functools.partial):
        yield from _all_parts((value.func, value.args, value.keywords), around)
    elif isinstance(value, types.MethodType):
        yield from _all_parts((value.__func__, value.__self__), around)
    elif isinstance(value, types.FunctionType):
        yield from _function_parts(value, around)
    elif isinstance(value, types.CodeType):
        yield from _code_parts(value, around)
    elif isinstance(value, types.CellType):
        yield from _cell_parts(value, around)
    elif isinstance(value, Mapping):
        for key in sorted(value, key=repr):
            yield from _all_parts((key, value[key]), around)
    elif isinstance(value, (set, frozenset)):
        yield from _all_parts(sorted(value, key=repr), around)
    elif isinstance(value, (tuple, list, range)):
        yield from _all_parts(value, around)
    else:
        yield from _object_parts(value, around)


def _all_parts(values: Any, within: tuple[int, ...]) -> Iterator[bytes]:
    for value in values:
        yield from _parts(value, within)
    yield b"end"


def _array_parts(array: Any) -> Iterator[bytes]:
    if isinstance(array, jax.Array) and jnp.issubdtype(array.dtype, jax.dtypes.prng_key):
        yield str(jax.random.key_impl(array)).encode()
        array = jax.random.key_data(array)
    array = np.asarray(array)
    yield f"{array.dtype} {array.shape}".encode()
    yield array.tobytes()


def _function_parts(function: types.FunctionType, within: tuple[int, ...]) -> Iterator[bytes]:
    yield _name(function).encode()
    around = (function.__code__, function.__defaults__, function.__kwdefaults__, function.__closure__)
    yield from _all_parts(around, within)


def _code_parts(code: types.CodeType, within: tuple[int, ...]) -> Iterator[bytes]:
    yield code.co_code
    constants = tuple(constant for constant in code.co_consts if constant is not Ellipsis)
    yield from _all_parts((constants, code.co_names, code.co_varnames), within)


def _cell_parts(cell: types.CellType, within: tuple[int, ...]) -> Iterator[bytes]:
    try:
        enclosed = cell.cell_contents
    except ValueError:  # not filled yet
        return
    yield from _parts(enclosed, within)


def _object_parts(value: Any, within: tuple[int, ...]) -> Iterator[bytes]:
    """Of an object its attributes, and the functions of its class unless that is installed; of what wraps
    a function, such as `jax.jit`, the function; of what has no attributes, how it would be copied."""
    yield from _all_parts(_own_functions(type(value)), within)
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
        attributes = {name: getattr(value, name, None) for name in names}
    elif hasattr(value, "__wrapped__"):
        attributes = {"__wrapped__": value.__wrapped__}
    elif getattr(value, "__dict__", None):
        attributes = vars(value)
    else:
        attributes = {"copy": _copied(value), "__name__": getattr(value, "__name__", None)}
    yield from _parts(attributes, within)


def _copied(value: Any) -> Any:
    try:
        return value.__reduce_ex__(2)
    except TypeError:
        return None


def _own_functions(kind: type) -> list[types.FunctionType]:
    """The functions that a class has from its user: a class of Python, of a package or of popsim has none."""
    functions = []
    for base in kind.__mro__:
        module = sys.modules.get(base.__module__)
        file = getattr(module, "__file__", None) or ""
        package = base.__module__.partition(".")[0]
        if package in {*sys.stdlib_module_names, "popsim"} - {"__main__"} or "site-packages" in file:
            continue
        for name in sorted(vars(base)):
            function = inspect.unwrap(inspect.getattr_static(base, name), stop=inspect.isfunction)
            if inspect.isfunction(function) and not name.startswith("__init") and name != "__hash__":
                functions.append(function)
    return functions


def _name(thing: Any) -> str:
    module = getattr(thing, "__module__", None) or ""
    return f"{module}.{getattr(thing, '__qualname__', getattr(thing, '__name__', ''))}"
