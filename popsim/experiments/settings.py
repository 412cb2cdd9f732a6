"""Settings of experiments: plain values of the types with which their fields are annotated.

`msgspec` converts them, from Python as they are (`as_setting`) and from the texts of files and commands
(`parse_setting`).
"""

import dataclasses
import functools
import types
import typing
from collections.abc import Callable
from typing import Any, Literal

import msgspec

from popsim._shared.plain_values import check_finite_value, plain_value
from popsim._shared.text_checks import suggestion

__all__ = ["setting"]


def setting(default: Any, help: str, *units: str) -> Any:
    """Return a field of an experiment with what it is for, which help shows, and its units.

    **Arguments:**

    - `default`: a plain value.
    - `help`: what the setting is for, such as "delay of vision"; the units are added to it.
    - `units`: the unit of all its numbers, or one for each.
    """
    text = f"{help}, {' and '.join(units)}" if units else help
    return dataclasses.field(default=default, metadata={"help": text, "units": units})


@functools.cache
def setting_types(kind: type) -> dict[str, Any]:
    """Return the annotation of each field of an experiment."""
    hints = typing.get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


def takes_texts(hint: Any) -> bool:
    """Whether a text has one meaning as a value of an annotation: text or a number, not either of them."""
    origin, parts, kinds = typing.get_origin(hint) or hint, typing.get_args(hint), alternatives(hint)
    if len(kinds) > 1:
        origins = [typing.get_origin(kind) or kind for kind in kinds if kind is not type(None)]
        n_texts = sum(origin in (str, Literal) for origin in origins)
        n_lists = sum(origin in (tuple, list) for origin in origins)
        return all(map(takes_texts, kinds)) and n_lists < 2 and n_texts in (0, len(origins))
    if origin is Literal:
        return all(type(part) in (int, str) for part in parts)
    if origin is dict:
        return parts[:1] == (str,) and takes_texts(parts[1])
    if origin in (tuple, list):
        return bool(parts) and all(takes_texts(part) for part in parts if part is not ...)
    return hint in (int, float, bool, str, type(None))


def check_annotations(kind: type) -> None:
    """Raise `ValueError` naming a setting of an experiment whose annotation does not take texts."""
    for name, hint in setting_types(kind).items():
        if name != "grid" and not takes_texts(hint):
            raise ValueError(
                f"`{name}` of {kind.__name__} must be annotated with int, float, bool, str, None, a Literal, "
                f"a tuple, list or dict of these, or a union that is not of text and others, got {hint}."
            )


def as_setting(name: str, value: Any, kind: Any = Any) -> Any:
    """Return a value from Python as a finite plain value of a type of `setting_types`, see `plain_value`."""
    plain = plain_value(name, value)
    try:
        converted = msgspec.convert(plain, kind)
    except msgspec.ValidationError as error:
        raise _refusal(name, plain, kind, error) from None
    check_finite_value(name, converted)
    return converted


def parse_setting(name: str, value: Any, kind: Any) -> Any:
    """Return the value of a type that a text has, or a list or mapping of texts; None stays.

    Where the type has several values, they may be the words of a text: "0.002 0.02".
    """
    refused: Any = None
    for parts in (value, value.split()) if isinstance(value, str) else (value,):
        try:
            return msgspec.convert(parts, kind, strict=False)
        except msgspec.ValidationError as error:
            refused = refused or error
    raise _refusal(name, value, kind, refused) from None


def _refusal(name: str, value: Any, kind: Any, error: msgspec.ValidationError) -> ValueError:
    literals = (part for part in alternatives(kind) if typing.get_origin(part) is Literal)
    choices = [str(choice) for literal in literals for choice in typing.get_args(literal)]
    expected = f"one of {', '.join(choices)}" if choices else "a value of its type"
    hint = suggestion(value[:100], choices) if isinstance(value, str) else ""
    return ValueError(f"`{name}` must be {expected}, got {value!r:.100}: {error}.{hint}")


def alternatives(hint: Any) -> tuple[Any, ...]:
    """Return the types of a union, or the one that an annotation is."""
    is_union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    return typing.get_args(hint) if is_union else (hint,)


def convert_settings(experiment: Any) -> None:
    """Replace the settings of a frozen experiment that is being made by plain values, see `as_setting`."""
    hints = setting_types(type(experiment))
    for field in dataclasses.fields(experiment):
        value = getattr(experiment, field.name)
        plain = as_setting(field.name, value, Any if value is field.default else hints[field.name])
        if plain is not value:
            object.__setattr__(experiment, field.name, plain)


def converting_first(post_init: Callable[..., None]) -> Callable[..., None]:
    """Return the `__post_init__` of an experiment, which then sees settings that are plain values."""

    @functools.wraps(post_init)
    def convert_and_check(self: Any) -> None:
        if type(self).__post_init__ is convert_and_check:  # else that of a subclass calls it, and converts
            convert_settings(self)
        post_init(self)

    convert_and_check.converts_settings = True  # pyright: ignore[reportAttributeAccessIssue]
    return convert_and_check
