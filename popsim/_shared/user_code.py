"""The user's functions: what they hold and name, and digests of their code by which versions are compared."""

import contextlib
import dis
import functools
import hashlib
import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

import jax
import numpy as np

from popsim._compiled import is_traced

ARRAYS = (jax.Array, np.ndarray, np.generic, jax.ShapeDtypeStruct)
PLAIN = (type(None), bool, int, float, complex, str, bytes)
# Where bound methods, partial functions, properties and functions of JAX hold what they call.
WRAPPED = ("__func__", "__self__", "__wrapped__")
OF_KIND = {
    functools.partial: ("func", "args", "keywords"),
    functools.cached_property: ("func",),
    property: ("fget",),
}
PYTHON = ".".join(platform.python_version_tuple()[:2])  # versions compile the same source to other code


def is_installed(module: str | None) -> bool:
    """Return whether a module belongs to Python, a package or popsim, rather than to the user."""
    module = module or ""
    package = module.partition(".")[0]
    if package == "__main__":
        return False
    if package in {*sys.stdlib_module_names, "popsim"}:
        return True
    # By its top level: a package may have objects of its own, with any `__file__`, in place of modules.
    top = sys.modules.get(package)
    file = getattr(top, "__file__", None) or next(iter(getattr(top, "__path__", None) or ()), None)
    if file is None:  # that of a compiled package, if it is loaded at all
        return top is not None
    return not {"site-packages", "dist-packages"}.isdisjoint(Path(file).parts)


class Place(NamedTuple):
    """Where a value can be replaced: a name in the dictionary of a module, or an attribute."""

    holder: Any
    name: str

    def get(self) -> Any:
        is_dict = isinstance(self.holder, dict)
        return self.holder.get(self.name) if is_dict else getattr(self.holder, self.name)

    def put(self, value: Any) -> None:
        if isinstance(self.holder, dict):
            self.holder[self.name] = value
        else:
            setattr(self.holder, self.name, value)


HeldValue = tuple[str, Any, Place | None]


def held_values(roots: Sequence[Any]) -> Iterator[HeldValue]:
    """Yield what functions and objects hold or name, with its name, and its place if that can be replaced."""
    seen: dict[int, Any] = {}  # with the values, so that no other has the id of one that is gone
    waiting: list[HeldValue] = [(type(root).__name__, root, None) for root in roots]
    while waiting:
        name, value, place = waiting.pop()
        if isinstance(value, (*ARRAYS, *PLAIN, ModuleType)):
            continue
        yield name, value, place
        if id(value) not in seen:
            seen[id(value)] = value
            waiting += [(own or name, part, its_place) for own, part, its_place in _parts(value)]


def _parts(value: Any) -> Iterator[HeldValue]:
    if isinstance(value, FunctionType):
        yield from _parts_of_function(value)
    elif isinstance(value, type):
        yield from [("", base, None) for base in value.__bases__]
        for name, member in [] if is_installed(value.__module__) else [*vars(value).items()]:
            if isinstance(member, FunctionType) or not name.startswith("__"):  # not the types of fields
                yield name, member, None
    elif isinstance(value, dict):
        yield from [(str(key), item, None) for key, item in [*value.items()]]  # threads may add to it
    elif isinstance(value, (tuple, list, set, frozenset)):
        yield from [("", item, None) for item in value]
    else:
        for name in (*WRAPPED, *OF_KIND.get(type(value), ())):
            yield "", getattr(value, name, None), None
        yield from [(name, item, None) for name, item in [*getattr(value, "__dict__", {}).items()]]
        yield "", type(value), None


def _parts_of_function(function: FunctionType) -> Iterator[HeldValue]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        place = Place(cell, "cell_contents")
        try:
            yield name, place.get(), place
        except ValueError:  # not filled yet
            continue
    yield "", (function.__defaults__, function.__kwdefaults__), None
    yield "", getattr(function, "__wrapped__", None), None
    if not is_installed(function.__module__):
        yield from _named_in(function.__globals__, _names_in(function), [])


def _codes_of(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of a function and of its inner functions."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes_of(constant)


def _names_in(function: FunctionType) -> set[str]:
    """Return the names of globals and attributes in a function and its inner functions."""
    return {name for code in _codes_of(function.__code__) for name in code.co_names}


def _named_in(namespace: dict[str, Any], names: set[str], enclosing: Sequence[str]) -> Iterator[HeldValue]:
    """Yield the named values of a module, and of the user's modules that it names."""
    for name in sorted(names & namespace.keys()):
        value = namespace[name]
        if not isinstance(value, ModuleType):
            yield name, value, Place(namespace, name)
        elif not is_installed(value.__name__) and value.__name__ not in enclosing:
            yield from _named_in(vars(value), names, [*enclosing, value.__name__])


def users_code(*roots: Any) -> dict[str, str]:
    """Return digests, by name, of the user's functions and classes in some values, and of what they read."""
    digests: dict[str, set[str]] = {}
    for name, value, _ in held_values(roots):
        if not isinstance(value, type | FunctionType) or is_installed(value.__module__):
            continue
        if isinstance(value, FunctionType):
            if is_installed(value.__globals__.get("__name__")):  # of a decorator, which names itself as ours
                continue
            text = _function_text(value)
            for label, text_of_global in _globals_of(value):
                digests.setdefault(label, set()).add(text_digest(text_of_global))
        else:
            members = [(label, _value_text(part)) for label, part in [*vars(value).items()]]
            text = repr(sorted(item for item in members if item[1] and not item[0].startswith("__")))
        label = name if value.__name__ == "<lambda>" else value.__qualname__
        digests.setdefault(label, set()).add(text_digest(text))
    return {
        name: f"{PYTHON}-{text_digest(''.join(sorted(texts)))}" for name, texts in sorted(digests.items())
    }


def _function_text(function: FunctionType) -> str:
    """Return the instructions of a function, with its default arguments and the values in its closure."""
    values = [function.__defaults__, function.__kwdefaults__]
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):  # not filled yet
            values.append(cell.cell_contents)
    return "\n".join([_code_text(function.__code__), *map(_value_text, values)])


def _globals_of(function: FunctionType) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of the globals that a function reads, also of the user's other modules."""
    namespace = function.__globals__
    read = {
        instruction.argval
        for code in _codes_of(function.__code__)
        for instruction in dis.get_instructions(code)
        if instruction.opname == "LOAD_NAME" or "GLOBAL" in instruction.opname
    }
    for name, value, place in _named_in(namespace, _names_in(function), []):
        # An attribute may have the name of a global.
        is_read = name in read or (place is not None and place.holder is not namespace)
        if is_read and not name.startswith("__") and (text := _value_text(value)):
            yield name, text


def _value_text(value: Any, enclosing: tuple[int, ...] = ()) -> str:
    """Return a text of a plain value, an array, or of those in a container; empty for other objects."""
    if isinstance(value, ARRAYS):
        return _array_text(value)
    if isinstance(value, PLAIN):
        return repr(value)
    if id(value) in enclosing:
        return ""
    enclosing = (*enclosing, id(value))
    if isinstance(value, functools.partial):
        return _value_text([value.args, value.keywords], enclosing)
    if isinstance(value, dict):
        value = [*value.items()]  # threads may add to it
    elif not isinstance(value, tuple | list | set | frozenset):
        return ""
    texts = [text for part in [*value] if (text := _value_text(part, enclosing))]
    # The order of a set differs between processes.
    return f"[{', '.join(sorted(texts) if isinstance(value, set | frozenset) else texts)}]" if texts else ""


def _array_text(array: Any) -> str:
    """Return dtype, shape and digest of an array; without a digest if its numbers are not here."""
    text = f"{array.dtype} {array.shape}"
    is_elsewhere = isinstance(array, jax.Array) and (
        is_traced(array) or array.is_deleted() or not array.is_fully_addressable
    )
    if is_elsewhere or isinstance(array, jax.ShapeDtypeStruct) or getattr(array.dtype, "hasobject", False):
        return text
    return f"{text} {array_digest(array)}"


def array_digest(array: Any) -> str:
    """Return the SHA-256 of the bits of an array, or of the data of random keys."""
    if jax.numpy.issubdtype(array.dtype, jax.dtypes.prng_key):
        array = jax.random.key_data(array)
    array = np.ascontiguousarray(np.asarray(array))
    digest = hashlib.sha256(f"{array.dtype} {array.shape} ".encode())
    digest.update(array.reshape(-1).view(np.uint8))
    return digest.hexdigest()


def _code_text(code: CodeType) -> str:
    """Return the instructions of a function without the names of its variables."""
    lines = []
    for instruction in dis.get_instructions(code):
        is_local = instruction.opcode in dis.haslocal or instruction.opcode in dis.hasfree
        if instruction.opname not in ("EXTENDED_ARG", "RESUME"):
            argument = instruction.arg if is_local else _constant_text(instruction.argval)
            lines.append(f"{instruction.opname} {argument}")
    return "\n".join(lines)


def _constant_text(constant: Any) -> str:
    if isinstance(constant, CodeType):
        return _code_text(constant)
    # The order of a set differs between processes.
    return repr(sorted(map(repr, constant)) if isinstance(constant, frozenset) else constant)


def text_digest(text: str) -> str:
    """Return the beginning of the SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def code_digest(code: Mapping[str, str]) -> str:
    """Return a digest of digests by name, with the version of Python; empty if nothing is the user's."""
    texts = [f"{name} {digest}\n" for name, digest in sorted(code.items())]
    return f"{PYTHON}-{text_digest(''.join(texts))}" if texts else ""


def python_of(digest: str) -> str:
    """Return the version of Python of a digest."""
    return digest.partition("-")[0]


def different_names(stored: Mapping[str, str], current: Mapping[str, str]) -> list[str]:
    """Return the names whose digests differ, or that only one has; none of two versions of Python."""
    versions = [{python_of(digest) for digest in code.values()} for code in (stored, current)]
    if stored and current and versions[0].isdisjoint(versions[1]):
        return []
    return sorted(name for name in {*stored, *current} if stored.get(name) != current.get(name))
