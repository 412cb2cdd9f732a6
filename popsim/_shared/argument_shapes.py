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


def check_of_one_model(name: str, value: Any) -> None:
    """Raise `ValueError` if an argument of a model or of its body is a `PerMember`."""
    if isinstance(value, PerMember):
        raise ValueError(
            f"`{name}` must be that of one model, got a PerMember: "
            "where models differ between members, build them with popsim.build_members."
        )


def check_one_or_each(name: str, value: Any, n: int | None = None, units: str = "") -> None:
    """Raise `ValueError` unless an argument of one model is a number, or an array with one for each unit."""
    check_of_one_model(name, value)
    shape = np.shape(value)
    if shape and shape != (n,):
        more = "" if n is None else f", or one for each of {n} {units}"
        raise ValueError(f"`{name}` must be one number{more}, got shape {shape}.")


def check_fields(module: Any) -> None:
    """Raise `ValueError` unless fields are what they are declared to be, see `check_kind`, `check_field`."""
    for field in dataclasses.fields(module):
        if "check" not in field.metadata:  # others, as those of tasks, check themselves when they are set
            value = getattr(module, field.name)
            if type(module).__module__.startswith("popsim."):  # others say themselves what they take
                check_kind(field, value)
            check_field(field, value)


def check_kind(field: "dataclasses.Field[Any]", value: Any) -> None:
    """Raise `ValueError` unless a field declared as text, words, a module or a function is such."""
    kinds = get_args(field.type) if get_origin(field.type) is types.UnionType else (field.type,)
    rules = [rule for rule in map(_known_kind, kinds) if rule is not None]
    if len(rules) == len(kinds) and not any(fits(value) for fits, _ in rules):
        expected = " or ".join(text for _, text in rules)
        raise ValueError(f"`{field.name}` must be {expected}, got {short_repr(value)}.")


def _known_kind(kind: Any) -> tuple[Callable[[Any], bool], str] | None:
    """Return whether a value is of a declared kind, and the kind in words; None for other kinds."""
    words = get_args(kind)
    if get_origin(kind) is Literal and all(isinstance(word, str) for word in words):
        text = f"one of {', '.join(map(repr, words))}"
        return lambda value: isinstance(value, str) and value in words, text
    if get_origin(kind) is Callable:
        return callable, "a function"
    if kind in (str, types.NoneType):
        return lambda value: isinstance(value, kind), "text" if kind is str else "None"
    if isinstance(kind, type) and issubclass(kind, eqx.Module):
        article = "an" if kind.__name__[0] in "AEIOU" else "a"
        return lambda value: isinstance(value, kind), f"{article} {kind.__name__}"
    return None


def check_field(field: "dataclasses.Field[Any]", value: Any) -> None:
    """Raise `ValueError` unless a field that is declared as one number is one."""
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
