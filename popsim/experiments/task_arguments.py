"""The arguments of tasks that are plain values, as settings of experiments."""

import dataclasses
import inspect
import re
import typing
from collections.abc import Callable, Iterator
from typing import Any, Literal

from popsim._shared.checks import is_number
from popsim._shared.plain_values import plain_value
from popsim.distributions import AbstractDistribution, Choice, Constant, Uniform
from popsim.experiments.settings import alternatives, takes_texts

__all__ = ["TaskArgument", "task_arguments"]

UNITS = ("seconds", "s^0.5", "m/s", "m", "Hz", "rad", "N s/m", "N/m", "N")
"""The units that docstrings of tasks name, as in "in seconds"."""
UNIT = "|".join(map(re.escape, sorted(UNITS, key=len, reverse=True)))
IN_UNITS = re.compile(rf"\bin ({UNIT})(?: and ({UNIT}))?(?![\w/^])")
BULLET = re.compile(r"^- ((?:`\w+`(?:, )?)+): (.*)")
MEANINGS = {
    "range": "two numbers are a uniform distribution",
    "pair": "two numbers are a uniform distribution",
    "choice": "each trial draws one of the numbers",
}
OF_TWO = re.compile(r"(the .+?) and (the .+?)(, in .*)?$")  # what is said of two arguments at once
NOT_SETTINGS = ("workspace", "loss", "key")


@dataclasses.dataclass(frozen=True)
class TaskArgument:
    """An argument of a task, as a setting.

    - `name`: its name.
    - `kind`: the type of the setting.
    - `default`: a plain value.
    - `help`: what the docstring of the task says of it.
    - `unit`: the unit of its numbers; empty for none.
    - `drawn_by`: what the task draws in each trial: from a "range", for which two numbers become a `Uniform`,
        or a "choice" of numbers; "pair" if it takes a number, or two of them, as they are. None if it is
        not drawn.
    """

    name: str
    kind: Any
    default: Any
    help: str = ""
    unit: str = ""
    drawn_by: Literal["range", "choice", "pair"] | None = None

    def check(self, value: Any) -> None:
        """Raise `ValueError` unless the numbers of a setting are those of a distribution."""
        numbers = value if isinstance(value, tuple) else (value,)
        if self.drawn_by is None or (numbers if self.drawn_by == "choice" else numbers[0] <= numbers[-1]):
            return
        some = "numbers" if self.drawn_by == "choice" else "a number, or two in order"
        raise ValueError(f"`{self.name}` must be {some}; {MEANINGS[self.drawn_by]}, got {value!r:.100}.")

    def argument(self, value: Any) -> Any:
        """Return what the task takes for a setting."""
        if self.drawn_by == "choice":
            return Choice(value)
        return Uniform(*value) if self.drawn_by == "range" and isinstance(value, tuple) else value


def task_arguments(build: Callable[..., Any]) -> tuple[TaskArgument, ...]:
    """Return the arguments of a task that have plain values, or distributions of numbers, as defaults.

    Those of a class are in the order of its docstring: its fields begin with the inherited ones.
    """
    texts = dict(_documented(inspect.getdoc(build) or ""))
    arguments = []
    for name, hint, default in _parameters(build):
        text, unit = texts.get(name, ("", ""))
        argument = _argument(name, hint, default)
        if name not in NOT_SETTINGS and argument is not None:
            parts = (text, MEANINGS.get(argument.drawn_by or "", ""))
            arguments.append(dataclasses.replace(argument, help="; ".join(filter(None, parts)), unit=unit))
    order = {name: place for place, name in enumerate(texts)} if inspect.isclass(build) else {}
    return tuple(sorted(arguments, key=lambda argument: order.get(argument.name, len(order))))


def _parameters(build: Callable[..., Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yield name, annotation and default of each argument that has a default."""
    hints = typing.get_type_hints(build)  # of a class those of its fields, before they are converted
    kind: Any = build
    fields = {field.name: field for field in dataclasses.fields(kind)} if inspect.isclass(build) else {}
    for name, parameter in inspect.signature(build).parameters.items():
        default = parameter.default
        factory = getattr(fields.get(name), "default_factory", dataclasses.MISSING)
        if factory is not dataclasses.MISSING:
            default = factory()
        if default is not parameter.empty:
            yield name, hints.get(name, Any), default


def _argument(name: str, hint: Any, default: Any) -> TaskArgument | None:
    """Return an argument without its documentation; None if it is no setting."""
    kinds = alternatives(hint)
    if isinstance(default, AbstractDistribution) or any(
        isinstance(kind, type) and issubclass(kind, AbstractDistribution) for kind in kinds
    ):
        return _drawn_argument(name, default)
    is_plain = takes_texts(hint)
    if isinstance(default, tuple) and default and all(map(is_number, default)):
        kind = hint if is_plain else tuple[float, ...]
    elif isinstance(default, bool | int | float | str) or default is None and is_plain:
        kind = hint if is_plain else type(default)
    else:
        return None
    is_pair = {float, tuple[float, float]} <= {*kinds}
    return TaskArgument(name, kind, default, drawn_by="pair" if is_pair else None)


def _drawn_argument(name: str, default: Any) -> TaskArgument | None:
    """Return an argument that each trial draws, if its default has plain numbers."""
    kind = float | tuple[float, float]
    if isinstance(default, Constant):
        default = default.value
    if isinstance(default, Uniform):
        default = (default.low, default.high)
    drawn_by: Literal["range", "choice"] = "choice" if isinstance(default, Choice) else "range"
    if isinstance(default, Choice):
        kind, default = tuple[float, ...], default.values
    if isinstance(default, AbstractDistribution):
        return None
    value = plain_value(name, default)
    numbers = value if isinstance(value, tuple) else (value,)
    return TaskArgument(name, kind, value, drawn_by=drawn_by) if all(map(is_number, numbers)) else None


def _documented(doc: str) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the name, the text and the unit of each argument in the section **Arguments** of a docstring."""
    section = doc.partition("**Arguments:**")[2].partition("\n\n**")[0]
    entries: list[tuple[list[str], str]] = []
    for line in section.splitlines():
        if bullet := BULLET.match(line):
            entries.append((re.findall(r"`(\w+)`", bullet[1]), bullet[2]))
        elif line.startswith(" ") and entries:
            names, text = entries[-1]
            entries[-1] = names, f"{text} {line.strip()}"
        elif line and entries:
            break
    for names, text in entries:
        named = IN_UNITS.search(text)
        units = [unit.replace("seconds", "s") for unit in named.groups() if unit] if named else [""]
        parts = OF_TWO.fullmatch(text.rstrip(".")) if len(names) == 2 else None
        for place, name in enumerate(names):
            own = f"{parts[1 + place]}{parts[3] or ''}" if parts else text.rstrip(".")
            yield name, (own, units[min(place, len(units) - 1)])
