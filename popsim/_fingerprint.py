"""Fingerprints of values and functions."""

import ast
import dataclasses
import functools
import hashlib
import inspect
import sys
import textwrap
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

PLAIN = (type(None), bool, int, float, complex, str, bytes)
OF_DATACLASSES = (
    "__annotate_func__",
    "__eq__",
    "__hash__",
    "__replace__",
    "__repr__",
)  # differ between versions of Python


@dataclasses.dataclass(frozen=True)
class _Source:
    """A placeholder for the source text of a function, read only where it counts."""

    code: types.CodeType
    module: str | None


def fingerprint(value: Any) -> str:
    """Return the SHA-256 of the parts of a value, the same in every process and every version of Python.

    Arrays count by dtype, shape and bits; modules, dataclasses and containers by their parts. Functions count
    by name, defaults and closure, so that `adam(1e-3)` and `adam(1e-2)` differ, but not by their code (see
    `source_fingerprint`). Functions and classes of popsim count by their public name, whatever file they are
    in. Other objects count by type, attributes, and the functions of classes that are not installed, such as
    those of a script. For a function that is not installed, the global numbers, strings, arrays and functions
    that it names count too; global lists and dictionaries do not, because functions cache results in them.

    **Arguments:**

    - `value`: a PyTree, an optimizer, a function, or a combination of them.

    **Returns:** 64 hexadecimal digits.
    """
    return _digest(part for part in _parts(value, ()) if not isinstance(part, _Source))


def source_fingerprint(value: Any) -> str:
    """Return the SHA-256 of the source of the functions in a value, without comments and docstrings.

    A lambda, whose source is the whole statement around it, and a function without available source, such as
    one typed at a prompt, count by their compiled code, which differs between versions of Python; those of
    packages do not.

    **Arguments:**

    - `value`: see `fingerprint`.

    **Returns:** 64 hexadecimal digits.
    """
    return _digest(_text(part).encode() for part in _parts(value, ()) if isinstance(part, _Source))


def source_of_class(kind: type) -> str:
    """Return the SHA-256 of the source of the functions that a class has from classes not installed."""
    functions = _own_functions(kind)
    return _digest(_text(_Source(function.__code__, function.__module__)).encode() for function in functions)


def _text(part: _Source) -> str:
    text = _source(part.code)
    has_source = text and part.code.co_name != "<lambda>"
    return text if has_source or is_installed(part.module) else _code_text(part.code)


def _code_text(code: types.CodeType) -> str:
    """Return compiled code as a text, the same in every process."""
    constants = [
        _code_text(value) if isinstance(value, types.CodeType) else value for value in code.co_consts
    ]
    texts = [repr(sorted(value, key=repr) if isinstance(value, frozenset) else value) for value in constants]
    return f"{code.co_code.hex()} {code.co_names} {code.co_varnames} {texts}"


def _digest(parts: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()


def _parts(value: Any, within: tuple[int, ...]) -> Iterator[bytes | _Source]:
    """Yield the parts of a value; `within` are the ids of the enclosing objects, to end cycles."""
    if id(value) in within:
        yield f"around {within[::-1].index(id(value))}".encode()
        return
    around = (*within, id(value))
    if isinstance(value, (jax.Array, np.ndarray, np.generic)):
        yield from _array_parts(value)
        return
    if not isinstance(value, type) and callable(wrapped := _wrapped_function(value)):
        yield from _all_parts((wrapped,), around)
        return
    yield _name(type(value)).encode()
    if isinstance(value, PLAIN):
        yield repr(value).encode()
    elif isinstance(value, (type, types.ModuleType, types.BuiltinFunctionType)):
        yield _name(value).encode()
    elif isinstance(value, functools.partial):
        yield from _all_parts((value.func, value.args, value.keywords), around)
    elif isinstance(value, types.MethodType):
        yield from _all_parts((value.__func__, value.__self__), around)
    elif isinstance(value, types.FunctionType):
        yield from _function_parts(value, around)
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


def _wrapped_function(value: Any) -> Any:
    """Return the function wrapped by `jax.jit` and the like, whose own type differs between versions."""
    plain_kinds = (types.FunctionType, types.MethodType, types.ModuleType, functools.partial)
    is_users = not is_installed(type(value).__module__)  # its attributes count
    if isinstance(value, plain_kinds) or dataclasses.is_dataclass(value) or is_users:
        return None
    return getattr(value, "__wrapped__", None)


def _all_parts(values: Any, within: tuple[int, ...]) -> Iterator[bytes | _Source]:
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


def _function_parts(function: types.FunctionType, within: tuple[int, ...]) -> Iterator[bytes | _Source]:
    yield _name(function).encode()
    yield _Source(function.__code__, function.__module__)
    enclosed = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    yield from _all_parts((function.__defaults__, function.__kwdefaults__, enclosed), within)
    if not is_installed(function.__module__):
        named = _names_in(function.__code__) & function.__globals__.keys()
        values = {name: function.__globals__[name] for name in sorted(named)}
        counted = {name: value for name, value in values.items() if _is_constant(value)}
        yield from _parts(counted, within)


def _source(code: types.CodeType) -> str:
    """Return the normalised source of a function, or its raw lines if they are not a whole statement."""
    try:
        text = textwrap.dedent(inspect.getsource(code))
    except (OSError, TypeError):
        return ""
    try:
        tree = ast.parse(text)
    except SyntaxError:  # e.g. a lambda in a call over several lines
        return text
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:]
    return ast.unparse(tree)


def _names_in(code: types.CodeType) -> set[str]:
    """Return the names used by a function and its inner functions."""
    inner = [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return {*code.co_names}.union(*map(_names_in, inner))


def _is_constant(value: Any) -> bool:
    """Return whether a global variable is a number, string, array or function, or a tuple of these."""
    if isinstance(value, tuple):
        return all(map(_is_constant, value))
    return isinstance(value, (*PLAIN, jax.Array, np.ndarray, np.generic, types.FunctionType))


def _cell_parts(cell: types.CellType, within: tuple[int, ...]) -> Iterator[bytes | _Source]:
    try:
        enclosed = cell.cell_contents
    except ValueError:  # not filled yet
        return
    yield from _parts(enclosed, within)


def _object_parts(value: Any, within: tuple[int, ...]) -> Iterator[bytes | _Source]:
    """Yield the functions of a class that is not installed, and the attributes or else the pickled form."""
    yield from _all_parts(_own_functions(type(value)), within)
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
        attributes = {name: getattr(value, name, None) for name in names}
    elif getattr(value, "__dict__", None):
        attributes = vars(value)
    else:
        attributes = {"copy": _reduction(value), "__name__": getattr(value, "__name__", None)}
    yield from _parts(attributes, within)


def _reduction(value: Any) -> Any:
    try:
        return value.__reduce_ex__(2)
    except TypeError:
        return None


def _own_functions(kind: type) -> list[types.FunctionType]:
    """Return the functions that a class has from classes that are not installed."""
    functions = []
    for base in kind.__mro__:
        if is_installed(base.__module__):
            continue
        for name in sorted(vars(base)):
            function = inspect.unwrap(inspect.getattr_static(base, name), stop=inspect.isfunction)
            if inspect.isfunction(function) and not name.startswith("__init") and name not in OF_DATACLASSES:
                functions.append(function)
    return functions


def is_installed(module: str | None) -> bool:
    """Return whether a module belongs to Python, a package or popsim, rather than to the user."""
    module = module or ""
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    package = module.partition(".")[0]
    return package in {*sys.stdlib_module_names, "popsim"} - {"__main__"} or "site-packages" in file


def public_module(module: str) -> str:
    """Return the module by which something is known: popsim for all of its modules, which may move."""
    package = module.partition(".")[0]
    return package if package == "popsim" else module


def _name(value: Any) -> str:
    module = public_module(getattr(value, "__module__", None) or "")
    return f"{module}.{getattr(value, '__qualname__', getattr(value, '__name__', ''))}"
