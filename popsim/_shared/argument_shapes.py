"""Checks of how many numbers an argument holds: one, one for each unit, or one for each member."""

import dataclasses
import types
from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args, get_origin

import equinox as eqx
import numpy as np
from jax.typing import ArrayLike

from popsim._shared.checks import is_number, kind_of, short_repr
from popsim.per_member import PerMember

OneOrEach = ArrayLike | Sequence[float]
"""One number for all units, or one for each."""


def check_one_number(name: str, value: Any) -> None:
    """Raise `ValueError` unless `value` is a scalar, or a `PerMember` of scalars."""
    shape = np.shape(value.values)[1:] if isinstance(value, PerMember) else np.shape(value)
    if shape:
        raise ValueError(
            f"`{name}` must be one number, got shape {shape}: "
            "give popsim.PerMember([...]) where members differ."
        )


def check_of_one_model(name: str, value: Any, part: str = "model", parts: str = "models") -> None:
    """Raise `ValueError` if an argument of a part of a model is a `PerMember`."""
    if isinstance(value, PerMember):
        raise ValueError(
            f"`{name}` must be that of one {part}, got a PerMember: "
            f"where {parts} differ between members, build them with popsim.build_members."
        )


def check_of_one_body(name: str, value: Any) -> None:
    """Raise `ValueError` if a parameter of a body is a `PerMember`."""
    check_of_one_model(name, value, "body", "bodies")


def check_one_or_each(name: str, value: Any, n: int | None = None, each: str = "") -> None:
    """Raise `ValueError` unless an argument of one model is a number, or an array with one for each unit."""
    check_of_one_model(name, value)
    shape = np.shape(value)
    if shape and shape != (n,):
        more = "" if n is None else f", or one for each of {n} {each}"
        raise ValueError(f"`{name}` must be one number{more}, got shape {shape}.")


def check_kinds(module: Any) -> None:
    """Raise `ValueError` unless fields that are declared as text, words, a module or a function are such."""
    if not type(module).__module__.startswith("popsim."):  # others say themselves what they take
        return
    for field in _checked_fields(module):
        check_kind(field, getattr(module, field.name))


def _checked_fields(module: Any) -> list["dataclasses.Field[Any]"]:
    """Return the fields of a module but those that check themselves when they are set, as tasks have."""
    return [field for field in dataclasses.fields(module) if "check" not in field.metadata]


def check_kind(field: "dataclasses.Field[Any]", value: Any) -> None:
    """Raise `ValueError` if the value of a field that is declared as in `check_kinds` is no such."""
    kinds = get_args(field.type) if get_origin(field.type) is types.UnionType else (field.type,)
    if all(map(_is_checked, kinds)) and not any(_is_of(value, kind) for kind in kinds):
        expected = " or ".join(map(_in_words, kinds))
        raise ValueError(f"`{field.name}` must be {expected}, got {short_repr(value)}.")


def _is_checked(kind: Any) -> bool:
    if get_origin(kind) is Literal:
        return all(isinstance(word, str) for word in get_args(kind))
    is_module = isinstance(kind, type) and issubclass(kind, eqx.Module)
    return is_module or kind in (str, types.NoneType) or get_origin(kind) is Callable


def _is_of(value: Any, kind: Any) -> bool:
    if get_origin(kind) is Callable:
        return callable(value)
    if get_origin(kind) is Literal:
        return isinstance(value, str) and value in get_args(kind)
    return isinstance(value, kind)


def _in_words(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return f"one of {', '.join(map(repr, get_args(kind)))}"
    if get_origin(kind) is Callable:
        return "a function"
    if kind in (str, types.NoneType):
        return "text" if kind is str else "None"
    return f"{'an' if kind.__name__[0] in 'AEIOU' else 'a'} {kind.__name__}"


def check_fields(module: Any) -> None:
    """Raise `ValueError` unless fields declared as one number are one, and the others pass `check_kinds`."""
    check_kinds(module)
    for field in _checked_fields(module):
        check_field(field, getattr(module, field.name))


def check_field(field: "dataclasses.Field[Any]", value: Any) -> None:
    """Raise `ValueError` unless the value of a field that is declared as one number is one."""
    kinds = (field.type, *get_args(field.type))
    if any(getattr(kind, "dims", None) == () for kind in kinds):
        if eqx.is_array(value) or isinstance(value, PerMember):
            check_one_number(field.name, value)
    elif float in kinds and field.metadata.get("static") and value is not None:
        check_number(field.name, value)


def check_number(name: str, value: Any) -> None:
    """Raise `ValueError` unless `value` is a number of Python or NumPy, as what programs are compiled for."""
    if not is_number(value):
        raise ValueError(f"`{name}` must be a number of Python, got {kind_of(value)}.")
