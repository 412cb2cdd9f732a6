"""The settings and the structure of a value by name, and the flags of JAX, as texts that can be compared."""

import dataclasses
import enum
import functools
import inspect
import types
from collections.abc import Iterator, Mapping
from typing import Any

import equinox as eqx
import jax
import numpy as np

from popsim._shared.text_checks import printable
from popsim._shared.user_code import ARRAYS, PLAIN, array_digest, is_installed, text_digest

MOST_VALUES = 5000
MOST_TOLD = 3
LONGEST = 100
DEEPEST = 32


def named_values(name: str, value: Any, *, closures: bool = False) -> dict[str, str]:
    """Return the kind or the value of each part of a value, by path, such as "task.duration": "0.5"."""
    leaves = {id(leaf) for leaf in jax.tree.leaves(value)}
    texts: dict[str, str] = {}
    for path, part in _parts(name, value, closures=closures):
        if len(texts) == MOST_VALUES:
            break
        text = _text(part)
        if isinstance(part, jax.Array | np.ndarray) and id(part) not in leaves:
            text = f"{text} {array_digest(part)[:16]}"
        texts[path] = short_text(text)
    return texts


def short_text(text: str) -> str:
    """Return a text, or the beginning and the digest of one that is long."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 17]} {text_digest(text)}"


def describe_differences(stored: Mapping[str, Any], current: Mapping[str, Any]) -> str:
    """Return a message on the values that differ, with both texts; empty if none does."""
    different = {path for path in (*current, *stored) if stored.get(path) != current.get(path)}
    # What is inside of another part that differs follows from it.
    paths = [path for path in dict.fromkeys((*current, *stored)) if path in different]
    paths = [path for path in paths if path.rpartition(".")[0] not in different]
    texts = [
        f"`{_beginning(path)}`, {_beginning(stored.get(path, 'nothing'))} then and "
        f"{_beginning(current.get(path, 'nothing'))} now"
        for path in paths[:MOST_TOLD]
    ]
    return "; ".join(texts) + (f"; and {len(paths) - len(texts)} more" if len(paths) > len(texts) else "")


def _beginning(text: Any) -> str:
    return printable(str(text)[:LONGEST])


def _text(part: Any) -> str:
    if isinstance(part, np.generic):
        return f"{part.dtype} {part}"
    if isinstance(part, ARRAYS):
        return f"{part.dtype} {part.shape}"
    if isinstance(part, PLAIN):
        return part if isinstance(part, str) else repr(part)
    return getattr(part, "__qualname__", type(part).__qualname__)


def _parts(
    path: str, value: Any, enclosing: tuple[int, ...] = (), *, closures: bool = False
) -> Iterator[tuple[str, Any]]:
    """Yield path and value of each part; `within` are the ids of the enclosing parts, to end cycles."""
    if id(value) in enclosing or len(enclosing) > DEEPEST:
        return
    value = value if isinstance(value, eqx.Module) else getattr(value, "__wrapped__", value)
    yield path, value
    enclosing = (*enclosing, id(value))
    children = _enclosed(value) if closures and isinstance(value, types.FunctionType) else _children(value)
    for name, child in children.items():
        yield from _parts(f"{path}.{name}", child, enclosing, closures=closures)


def _enclosed(function: types.FunctionType) -> dict[Any, Any]:
    """Return the defaults of a user's function and what it encloses, by name."""
    if is_installed(function.__module__):
        return {}
    enclosed = inspect.getclosurevars(function).nonlocals
    defaults = dict(enumerate(function.__defaults__ or ()))
    return {**defaults, **(function.__kwdefaults__ or {}), **enclosed}


def _children(value: Any) -> Mapping[Any, Any]:
    """Return the parts of a value by name."""
    if isinstance(value, (*ARRAYS, *PLAIN, type, types.ModuleType, types.FunctionType)):
        return {}
    if isinstance(value, functools.partial):
        return {"function": value.func, **dict(enumerate(value.args)), **value.keywords}
    if isinstance(value, types.MethodType):
        return {"function": value.__func__, "self": value.__self__}
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value) if field.compare]
        return {name: getattr(value, name, None) for name in names}
    if isinstance(value, Mapping):
        return {key: value[key] for key in sorted(value, key=repr)}
    if isinstance(value, set | frozenset):  # their order differs between processes
        return dict(enumerate(sorted(value, key=repr)))
    if isinstance(value, tuple | list):
        return dict(zip(getattr(value, "_fields", range(len(value))), value, strict=True))
    attributes = getattr(value, "__dict__", {}).items()  # but for what was computed at first use
    kind, cached = type(value), functools.cached_property
    return {name: part for name, part in attributes if not isinstance(getattr(kind, name, None), cached)}


# Not those that only raise errors, or change no more than the last digits; keys are compared themselves.
NUMERIC_FLAGS = (
    "jax_default_matmul_precision",
    "jax_enable_x64",
    "jax_explicit_x64_dtypes",
    "jax_high_dynamic_range_gumbel",
    "jax_random_seed_offset",
    "jax_softmax_custom_jvp",
    "jax_threefry_partitionable",
)


def numeric_flags() -> dict[str, bool | int | str | None]:
    """Return the flags of JAX that determine the numbers of a training here, by name, as JSON values."""
    flags = {name: getattr(jax.config, name) for name in NUMERIC_FLAGS if hasattr(jax.config, name)}
    return {name: flag.name if isinstance(flag, enum.Enum) else flag for name, flag in flags.items()}
