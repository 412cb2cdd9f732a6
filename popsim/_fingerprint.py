"""What a value computes: its parts, those of closures and of the user's globals, and digests of them."""

import ast
import dataclasses
import functools
import hashlib
import inspect
import textwrap
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from popsim._user_code import is_installed

ARRAYS = (jax.Array, np.ndarray, np.generic)
PLAIN = (type(None), bool, int, float, complex, str, bytes)
# They differ between versions of Python.
OF_DATACLASSES = frozenset(["__annotate_func__", "__eq__", "__hash__", "__replace__", "__repr__"])


# What a value consists of: bytes, functions whose source counts, and a path with the value that is there.
_Part = bytes | types.FunctionType | tuple[str, Any]


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
    return _digest(part for part in _parts(value, ()) if isinstance(part, bytes))


def source_fingerprint(value: Any) -> str:
    """Return the SHA-256 of the source of the functions in a value, without comments and docstrings.

    A lambda, whose source is the whole statement around it, and a function without available source, such as
    one typed at a prompt, count by their compiled code, which differs between versions of Python; those of
    packages do not.

    **Arguments:**

    - `value`: see `fingerprint`.

    **Returns:** 64 hexadecimal digits.
    """
    return _digest_of_sources(part for part in _parts(value, ()) if isinstance(part, types.FunctionType))


def named_parts(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield path and value of each part that is not within a function or an object without fields.

    Mappings, tuples and lists are not parts themselves.

    **Arguments:**

    - `name`: the name of the value, with which paths begin.
    - `value`: see `fingerprint`.
    """
    return (part for part in _parts(value, (), name) if isinstance(part, tuple))


def code_of(part: Any) -> dict[str, str] | None:
    """Return the module of a part and the SHA-256 of its source; None if its value is all that counts.

    The source of packages is empty, as their versions identify it; that of a dataclass is that of its class.
    """
    module = getattr(part, "__module__", None) or type(part).__module__
    if isinstance(part, (*ARRAYS, *PLAIN)) or (is_instance_of_dataclass(part) and is_installed(module)):
        return None
    if is_installed(module):
        return {"module": _public_module(module), "source": ""}
    if is_instance_of_dataclass(part):
        return {"module": module, "source": _digest_of_sources(_functions_of_class(type(part)))}
    return {"module": module, "source": source_fingerprint(part)}


def is_instance_of_dataclass(value: Any) -> bool:
    """Return whether a value is an instance of a dataclass, such as a module of Equinox."""
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def _digest_of_sources(functions: Iterable[types.FunctionType]) -> str:
    return _digest(_source_or_code(function).encode() for function in functions)


def _source_or_code(function: types.FunctionType) -> str:
    text = _source(function.__code__)
    has_source = text and function.__code__.co_name != "<lambda>"
    return text if has_source or is_installed(function.__module__) else _code_text(function.__code__)


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
        # Else the parts "ab", "c" and "a", "bc" would have one digest.
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()


def _parts(value: Any, within: tuple[int, ...], path: str | None = None) -> Iterator[_Part]:
    """Yield the parts of a value; `within` are the ids of the enclosing objects, to end cycles.

    With a `path`, which is for messages, fields and keys are in the order in which they were written.
    """
    # The distance to the enclosing object, not its id, which differs between processes.
    if id(value) in within:
        yield f"around {within[::-1].index(id(value))}".encode()
        return
    around = (*within, id(value))
    if path is not None and not isinstance(value, (Mapping, tuple, list)):
        yield path, value
    if isinstance(value, ARRAYS):
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
        # Sorted, as equal dictionaries have equal fingerprints, in whatever order they were filled.
        for key in sorted(value, key=repr) if path is None else value:
            yield from _parts(key, around)
            yield from _parts(value[key], around, path and f"{path}.{key}")
            yield b"end"
    elif isinstance(value, (set, frozenset)):
        # The order of a set differs between processes: hashes of strings are salted.
        yield from _all_parts(sorted(value, key=repr), around)
    elif isinstance(value, (tuple, list)):
        # Named tuples, such as optimizers of optax, by their fields: only for paths in messages.
        names = getattr(value, "_fields", range(len(value)))
        for name, each in zip(names, value, strict=True):
            yield from _parts(each, around, path and f"{path}.{name}")
        yield b"end"
    elif isinstance(value, range):
        yield from _all_parts(value, around)
    else:
        yield from _object_parts(value, around, path)


def _wrapped_function(value: Any) -> Any:
    """Return the function wrapped by `jax.jit` and the like, whose own type differs between versions."""
    plain_kinds = (types.FunctionType, types.MethodType, types.ModuleType, functools.partial)
    is_users = not is_installed(type(value).__module__)  # its attributes count
    if isinstance(value, plain_kinds) or dataclasses.is_dataclass(value) or is_users:
        return None
    return getattr(value, "__wrapped__", None)


def _all_parts(values: Any, within: tuple[int, ...]) -> Iterator[_Part]:
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


def _function_parts(function: types.FunctionType, within: tuple[int, ...]) -> Iterator[_Part]:
    yield _name(function).encode()
    yield function
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
            # `ast` drops comments and layout by itself, but keeps docstrings.
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
    return isinstance(value, (*PLAIN, *ARRAYS, types.FunctionType))


def _cell_parts(cell: types.CellType, within: tuple[int, ...]) -> Iterator[_Part]:
    try:
        enclosed = cell.cell_contents
    except ValueError:  # not filled yet
        return
    yield from _parts(enclosed, within)


def _object_parts(value: Any, within: tuple[int, ...], path: str | None) -> Iterator[_Part]:
    """Yield the functions of a class that is not installed, and the attributes or else the pickled form."""
    yield from _all_parts(_functions_of_class(type(value)), within)
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value) if field.compare]
        yield from _parts({name: getattr(value, name, None) for name in names}, within, path)
    elif getattr(value, "__dict__", None):
        yield from _parts(vars(value), within)
    else:
        attributes = {"copy": _reduction(value), "__name__": getattr(value, "__name__", None)}
        yield from _parts(attributes, within)


def _reduction(value: Any) -> Any:
    try:
        # The reduction depends on the protocol, of which Python's default changes between versions.
        return value.__reduce_ex__(2)
    except TypeError:
        return None


def _functions_of_class(kind: type) -> list[types.FunctionType]:
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


def _public_module(module: str) -> str:
    """Return the module by which something is known: popsim for all of its modules, which may move."""
    package = module.partition(".")[0]
    return package if package == "popsim" else module


def _name(value: Any) -> str:
    module = _public_module(getattr(value, "__module__", None) or "")
    return f"{module}.{getattr(value, '__qualname__', getattr(value, '__name__', ''))}"
