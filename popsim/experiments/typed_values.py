"""Values of settings from text, as users write them on the command line and in YAML."""

import enum
import typing
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from popsim.experiments.settings import alternatives, types_in_words
from popsim.store.bounded_yaml import QuotedText

__all__ = ["parsed_setting", "typed_value"]

TRUTHS = {"true": True, "false": False, "True": True, "False": False}
WORDS: dict[Any, Mapping[str, Any]] = {bool: TRUTHS, type(None): {"None": None}}
SCALARS: tuple[Any, ...] = (bool, type(None), int, float, str)
"""What a text may be where a setting has no type, in this order."""


def typed_value(value: Any, allowed: tuple[Any, ...]) -> Any:
    """Return the value that a text, or a list or mapping of texts, has for a setting.

    A text in quotes (`QuotedText`) is a text wherever the setting may be one; `None`, `true` and numbers
    without quotes are texts only where the setting can be nothing else. Words are the values of a tuple.

    **Arguments:**

    - `value`: texts as read from YAML or the command line; other plain values are returned as they are.
    - `allowed`: the types of the setting, see `setting_types`; empty if it has none.
    """
    kinds = SCALARS if not allowed or {Any, object} & set(allowed) else allowed
    if value is None:
        return _first_of(kinds, _none)
    if isinstance(value, str):
        if isinstance(value, QuotedText) and str in kinds:
            return str(value)
        return _first_of(sorted(kinds, key=lambda kind: kind is str), lambda kind: _from_text(value, kind))
    if isinstance(value, Mapping):
        return _first_of(allowed or (dict,), lambda kind: _from_mapping(value, kind))
    if isinstance(value, list | tuple):
        return _first_of(allowed or (tuple,), lambda kind: _from_list(value, kind))
    return value


def parsed_setting(name: str, value: Any, allowed: tuple[Any, ...], where: str) -> Any:
    """Return the value of a setting, or raise `ValueError` that says what it may be.

    **Arguments:**

    - `name`: the name of the setting.
    - `value`, `allowed`: see `typed_value`.
    - `where`: what must have the value, such as "`settings` in run.yaml", for the message.
    """
    try:
        return typed_value(value, allowed)
    except ValueError:
        option = name.replace("_", "-")
        given = " ".join(map(str, value)) if isinstance(value, list | tuple) else value
        text = "nothing" if value is None or value == "" else f"{given!r:.100}"
        raise ValueError(f"{where} must have {_kinds_text(allowed)} for {option}, got {text}.") from None


def _kinds_text(allowed: tuple[Any, ...]) -> str:
    """Return in words what values a setting has."""
    words = {int: "whole numbers", float: "numbers", bool: "true or false", str: "text"}
    named = [words[kind] for kind in allowed if kind in words]
    named += [types_in_words((kind,)) for kind in allowed if typing.get_origin(kind) is typing.Literal]
    return " or ".join(named) or "values of this setting"


def _first_of(kinds: Sequence[Any], parse: Callable[[Any], Any]) -> Any:
    """Return what the first type makes of a value that does not raise `ValueError`."""
    for kind in kinds:
        try:
            return parse(kind)
        except ValueError:
            continue
    raise ValueError


def _none(kind: Any) -> None:
    if kind is not type(None):
        raise ValueError


def _from_text(text: str, kind: Any) -> Any:
    """Return the value of one type for a text; raise `ValueError` if it has none."""
    origin = typing.get_origin(kind) or kind
    if kind in (int, float):
        return kind(text)
    if kind is bool or kind is type(None):
        if text not in WORDS[kind]:
            raise ValueError
        return WORDS[kind][text]
    if origin is typing.Literal:
        return _first_of(typing.get_args(kind), lambda choice: _as_literal(text, choice))
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return _first_of(tuple(kind), lambda choice: _as_literal(text, choice.name) and choice.value)
    if kind is str or isinstance(kind, type) and issubclass(kind, PurePath):
        if not text:
            raise ValueError
        return str(text)
    words = text.split()
    if _is_mapping(origin):
        return _from_mapping(dict(zip(words[::2], words[1::2], strict=True)), kind)
    return _from_list(words, kind)


def _as_literal(text: str, choice: Any) -> Any:
    if str(choice) != text:
        raise ValueError
    return choice


def _is_never_a_list(origin: Any) -> bool:
    is_class = isinstance(origin, type) and issubclass(origin, Mapping | enum.Enum | PurePath)
    return is_class or origin in (*SCALARS, typing.Literal)


def _is_mapping(origin: Any) -> bool:
    return isinstance(origin, type) and issubclass(origin, Mapping)


def _from_list(values: Sequence[Any], kind: Any) -> tuple[Any, ...]:
    origin, parts = typing.get_origin(kind) or kind, typing.get_args(kind)
    if _is_never_a_list(origin):
        raise ValueError
    if not (isinstance(origin, type) and issubclass(origin, Sequence)):  # such as an array, or anything
        origin, parts = tuple, ()
    if origin is not tuple or parts[1:] == (...,):
        parts = parts[:1] * len(values)
    if parts and len(parts) != len(values) or parts == ((),):
        raise ValueError
    of_each = [alternatives(part) for part in parts] if parts else [()] * len(values)
    return tuple(typed_value(value, allowed) for value, allowed in zip(values, of_each, strict=True))


def _from_mapping(values: Mapping[Any, Any], kind: Any) -> dict[str, Any]:
    origin, parts = typing.get_origin(kind) or kind, typing.get_args(kind)
    if kind not in (Any, object) and not _is_mapping(origin):
        raise ValueError
    of_values = alternatives(parts[1]) if len(parts) == 2 else ()
    return {str(name): typed_value(value, of_values) for name, value in values.items()}
