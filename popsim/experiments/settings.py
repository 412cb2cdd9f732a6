"""Settings of experiments: plain values of the types that the fields are annotated with."""

import contextlib
import dataclasses
import functools
import types
import typing
from collections.abc import Callable
from typing import Any

from popsim._checks import is_number
from popsim._plain_values import check_finite_value, check_text_keys, plain_value

__all__ = ["alternatives", "as_setting", "convert_settings", "setting_types", "types_in_words"]

WORDS: dict[Any, str] = {
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    str: "text",
    type(None): "None",
}


@functools.cache
def setting_types(kind: type) -> dict[str, tuple[Any, ...]]:
    """Return for each field of an experiment the types that its annotation allows, such as (float, NoneType).

    Annotations that cannot be evaluated are left out.
    """
    hints: dict[str, Any] = {}
    with contextlib.suppress(NameError, TypeError, AttributeError):  # names that only a type checker imports
        hints = typing.get_type_hints(kind)
    names = [field.name for field in dataclasses.fields(kind)]
    return {name: alternatives(hints[name]) for name in names if name in hints}


def alternatives(hint: Any) -> tuple[Any, ...]:
    """Return the types of a union, or the one that an annotation is."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return tuple(each for part in typing.get_args(hint) for each in alternatives(part))
    return (hint,)


def types_in_words(allowed: tuple[Any, ...]) -> str:
    """Return in words what a setting may be, such as "a number or None"."""
    words: list[str] = []
    for kind in allowed:
        if typing.get_origin(kind) is typing.Literal:
            words.append(f"one of {', '.join(map(str, typing.get_args(kind)))}")
        else:
            words.append("a list" if _is_list(kind) else WORDS.get(kind, "a value of this setting"))
    return " or ".join(dict.fromkeys(words))


def as_setting(name: str, value: Any, allowed: tuple[Any, ...] = ()) -> Any:
    """Return a setting as a plain value of one of the types that are allowed.

    **Arguments:**

    - `name`: the name of the setting, for the error message.
    - `value`: the value; see `plain_value` for what becomes of scalars and arrays of NumPy and JAX.
    - `allowed`: the types, from `setting_types`; empty for all.
    """
    value = plain_value(name, value)
    check_text_keys(name, value)
    if allowed and not any(_is_of_type(value, kind) for kind in allowed):
        raise ValueError(f"`{name}` must be {types_in_words(allowed)}, got {value!r:.100}.")
    origins = [typing.get_origin(kind) or kind for kind in allowed]
    if isinstance(value, tuple) and list in origins and tuple not in origins:
        return list(value)
    return value


def _is_of_type(value: Any, kind: Any) -> bool:
    """Whether a plain value is of a type. Of lists and tuples what they hold is not checked."""
    if typing.get_origin(kind) is typing.Literal:
        return value in typing.get_args(kind)
    if _is_list(kind):
        return isinstance(value, list | tuple)
    if kind not in WORDS:
        return True
    if kind is float:
        return is_number(value)
    return type(value) is kind


def _is_list(kind: Any) -> bool:
    return (typing.get_origin(kind) or kind) in (list, tuple)


def convert_settings(experiment: Any) -> None:
    """Replace the settings of a frozen experiment that is being made by plain values, see `as_setting`."""
    allowed = setting_types(type(experiment))
    for field in dataclasses.fields(experiment):
        value = getattr(experiment, field.name)
        is_default = value is field.default
        plain = as_setting(field.name, value, () if is_default else allowed.get(field.name, ()))
        if plain is not value:
            object.__setattr__(experiment, field.name, plain)


def converting_first(post_init: Callable[..., None]) -> Callable[..., None]:
    """Return the `__post_init__` of an experiment, which then sees settings that are plain values."""
    if getattr(post_init, "converts_settings", False):
        return post_init

    @functools.wraps(post_init)
    def convert_and_check(self: Any, *args: Any, **kwargs: Any) -> None:
        if (
            type(self).__post_init__ is not convert_and_check
        ):  # called by that of a subclass, which checks all
            post_init(self, *args, **kwargs)
            return
        convert_settings(self)
        post_init(self, *args, **kwargs)  # whose messages say more of a number that is not finite
        for field in dataclasses.fields(self):
            check_finite_value(field.name, getattr(self, field.name))

    convert_and_check.converts_settings = True  # pyright: ignore[reportAttributeAccessIssue]
    return convert_and_check
