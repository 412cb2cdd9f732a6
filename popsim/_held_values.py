"""What a function holds or names: in closures, defaults and globals, and in the fields of objects."""

import functools
import sys
from collections.abc import Iterator, Sequence
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

from popsim._named_values import ARRAYS
from popsim._user_code import OTHER_STATEMENTS, PLAIN, definitions, is_installed, reachable, users_modules

# Where bound methods, partial functions, properties and functions of JAX hold what they call.
WRAPPED = ("__func__", "__self__", "__wrapped__")
OF_KIND = {functools.partial: ("func", "args", "keywords"), property: ("fget",)}


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
    """Yield what functions and objects hold or name, with its name, and its place if that can be replaced.

    Of functions and classes that are installed, rather than the user's, globals and methods are left out;
    numbers, texts and arrays are left out everywhere. What has no name has that of what holds it.
    """
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


def users_code(*roots: Any) -> dict[str, str]:
    """Return the digests of the user's functions and classes in some values, and of all that they name."""
    held = [value for _, value, _ in held_values(roots) if isinstance(value, type | FunctionType)]
    users = [value for value in held if not is_installed(value.__module__)]
    known = definitions(users_modules({value.__module__ for value in users}))
    return reachable({name for value in users for name in _names_of(value)}, known)


def _names_of(value: Any) -> set[str]:
    """Return the names of the definitions of a user's function or class, see `definitions`."""
    name = value.__qualname__.partition(".<locals>")[0]
    if name != "<lambda>":
        return {name}
    namespace = getattr(sys.modules.get(value.__module__), "__dict__", {})
    return {own for own, other in [*namespace.items()] if other is value} or {OTHER_STATEMENTS}


def _parts(value: Any) -> Iterator[HeldValue]:
    if isinstance(value, FunctionType):
        yield from _parts_of_function(value)
    elif isinstance(value, type):
        users = [base for base in value.__mro__ if not is_installed(base.__module__)]
        for name, member in [item for base in users for item in [*vars(base).items()]]:
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
        yield from _named_in(function.__globals__, _names_in(function.__code__), [])


def _names_in(code: CodeType) -> set[str]:
    """Return the names used by a function and its inner functions."""
    inner = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return {*code.co_names}.union(*map(_names_in, inner))


def _named_in(namespace: dict[str, Any], names: set[str], within: Sequence[str]) -> Iterator[HeldValue]:
    """Yield the named values of a module, and of the user's modules that it names."""
    for name in sorted(names & namespace.keys()):
        value = namespace[name]
        if not isinstance(value, ModuleType):
            yield name, value, Place(namespace, name)
        elif not is_installed(value.__name__) and value.__name__ not in within:
            yield from _named_in(vars(value), names, [*within, value.__name__])
