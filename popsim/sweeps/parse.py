"""Axes and seeds of a sweep, as typed."""

import contextlib
import dataclasses
import io
import re
import typing
from collections.abc import Sequence
from typing import Any

import tyro

from popsim._text_checks import perhaps
from popsim.experiments import AbstractExperiment
from popsim.sweeps.sweep import NOT_AXES

__all__ = ["parse_axes", "parse_seeds", "parse_values"]


def parse_seeds(text: str) -> range:
    """Return the seeds in a text: "0:20" leaves out 20, "7" is one.

    **Raises:** `ValueError` if it is neither.
    """
    if not (match := re.fullmatch(r"(\d{1,9})(?::(\d{1,9}))?", text.strip())):
        raise ValueError(f"`seeds` must be whole numbers such as 0:20, which leaves out 20, got {text!r}.")
    first = int(match[1])
    end = first + 1 if match[2] is None else int(match[2])
    if end <= first:
        raise ValueError(f"`seeds` must end after they begin, got {text!r}.")
    return range(first, end)


def parse_axes(kind: type[AbstractExperiment], texts: Sequence[str]) -> dict[str, tuple[Any, ...]]:
    """Return the axes in texts such as "learning-rate=1e-3,3e-3" or "vision-noise=0.002 0.02,0.004 0.04".

    **Arguments:**

    - `kind`: the experiment, whose settings are the axes, named as the options of its command.
    - `texts`: one for each axis.

    **Raises:** `ValueError` naming an axis that does not exist, is given twice, or has a value that does not
    parse.
    """
    axes: dict[str, tuple[Any, ...]] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        if not equals or not values.strip():
            raise ValueError(f"`grid` must be such as learning-rate=1e-3,3e-3, got {text!r}.")
        name = name.strip().lstrip("-").replace("-", "_")
        if name in axes:
            raise ValueError(f"`grid` must have each axis once, got {name.replace('_', '-')} twice.")
        axes[name] = parse_values(kind, name, [value.strip() for value in values.split(",")])
    return axes


def parse_values(kind: type[AbstractExperiment], name: str, values: Sequence[Any]) -> tuple[Any, ...]:
    """Return values of a setting, each a text as on the command line, or already a value.

    **Raises:** `ValueError` if there is no such setting, or a value does not parse.
    """
    known = [field.name for field in dataclasses.fields(kind) if field.name not in NOT_AXES]
    if name not in (*known, "seed"):
        options = [own.replace("_", "-") for own in known]
        option = name.replace("_", "-")
        why = f": {NOT_AXES[name]}" if name in NOT_AXES else ""
        raise ValueError(
            f"`grid` must be of settings of {kind.name}, got {option!r}{why}.{perhaps(option, options)}"
        )
    return tuple(_parsed(kind, name, value) for value in values)


def _parsed(kind: type[AbstractExperiment], name: str, value: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, list | tuple):
        words = [str(own) for own in value]
    else:
        words = str(value).split() if isinstance(value, str) else [str(value)]
    hint = typing.get_type_hints(kind, include_extras=True)[name]
    holder = dataclasses.make_dataclass("Value", [("value", hint)])  # checked with all settings, later
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            return tyro.cli(holder, args=["--value", *words], config=(tyro.conf.OmitArgPrefixes,)).value
    except SystemExit:
        option, text = name.replace("_", "-"), " ".join(words)
        raise ValueError(f"`grid` must have values of the setting {option}, got {text!r}.") from None
