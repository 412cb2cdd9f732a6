"""Error messages of the command line."""

import dataclasses
import re
import traceback
import typing
from collections.abc import Iterator

import tyro

from popsim._text_checks import suggestion

RAW = (
    (r"Missing from .*?: ([A-Z]+) (.*) \(required\)", r"\1 must be given: \2."),
    (r"Missing value for argument '(\w+)'\. Expected .*", r"`\1` must be given."),
    (r"Missing value for argument '(.*)'\. Expected 1 values\.", r"\1 must be followed by a value."),
    (r"Missing value for argument '(.*)'\. Expected (.*) values\.", r"\1 must be followed by \2 values."),
    (r"Error parsing \S+: (`.*)", r"\1"),
    (r"Error parsing (\S+): Could not parse arguments \[(.*)\] into .*", r"\1 must be numbers, got \2."),
    (
        r"Error parsing (\S+): invalid literal for int\(\) with base 10: (.*)",
        r"\1 must be a whole number, got \2.",
    ),
    (
        r"Error parsing (\S+): Could not find valid parse for arguments: \[(.*)\]",
        r"\1 must be as help shows it, got \2.",
    ),
    (r"Error parsing (\S+): could not convert string to float: (.*)", r"\1 must be a number, got \2."),
)
"""Patterns of messages of tyro, and their replacements."""
ALSO_CALLED = {"trainables": ("keep",), "runs": ("paths",), "axes": ("grid",), "path": ("paths", "out")}
"""Argument names in popsim's functions for options that have another name in a command."""
UNION = r"Error parsing (\S+): no type matching (.*) could be instantiated from \[(.*?)\]\."
CHOICE = r"invalid choice '(.*)' for argument '(.*)'\. Expected one of \((.*)\)\."


def summarize_error_box(box: str) -> str:
    """Return the text above the first rule in an error box of tyro, and similar options for misspelt ones."""
    _, _, within = box.partition("\n")
    lines = [line.strip("│╭╮╰╯ ") for line in within.splitlines()]
    parts = re.split(r"^[─-]{4,}$", "\n".join(lines), flags=re.MULTILINE)
    parts = [part.strip() for part in parts if part.strip()]
    text = parts[0].replace("\n", " ")
    for raw, ours in RAW:
        text = re.sub(f"^{raw}$", ours, text)
    if choice := re.match(CHOICE, text):
        value, choices = choice[1], sorted(re.findall(r"'([^']*)'", choice[3]))
        return (
            f"`{choice[2]}` must be one of {', '.join(choices)}, got {value!r}.{suggestion(value, choices)}"
        )
    if union := re.match(UNION, text):
        kinds = re.sub(r"[{}]", "", union[2]).replace("|", " or ")
        return f"{union[1]} must be {kinds}, got {union[3].replace(', ', ' ')}."
    alike = re.findall(r"^(--[\w-]+)", "\n".join(parts[1:-1]), re.MULTILINE)
    if text.startswith("Unrecognized options: ") and alike:
        return f"{text}. Perhaps you meant {' or '.join(dict.fromkeys(alike))}."
    return text if text.endswith(".") else f"{text}."


def use_option_names(message: str, command: object) -> str:
    """Replace argument names in a message, such as `n_members`, by options of a command: --members."""
    options = dict(_options(command)) if isinstance(command, type) else {}
    for name, fields in ALSO_CALLED.items():
        for field in fields:
            if field in options:
                options.setdefault(name, options[field])
    message = re.sub(r"`(\w+)(?:\[\d+\])*`", lambda named: options.get(named[1], named[0]), message)
    return re.sub(r"`(--[\w-]+)`", r"\1", message)


def _options(command: type) -> Iterator[tuple[str, str]]:
    """Yield the fields of a command, or of the experiment that it trains, with their options."""
    hints = typing.get_type_hints(command, include_extras=True)
    for field in dataclasses.fields(command):
        if dataclasses.is_dataclass(hint := hints[field.name]):
            yield from _options(typing.cast(type, hint))
            continue
        settings = getattr(hint, "__metadata__", ())
        if tyro.conf.Positional in settings:
            typed = next(setting.metavar for setting in settings if hasattr(setting, "metavar")).split()[0]
        else:
            names = [setting.name for setting in settings if getattr(setting, "name", None)]
            typed = f"--{(names or [field.name])[0].replace('_', '-')}"
        yield field.name, typed


def modules_of(error: BaseException) -> list[str]:
    """Return the modules through which an error came, the innermost last."""
    return [frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(error.__traceback__)]


def notes_of(error: BaseException) -> list[str]:
    """Return what popsim added to an error: what is saved, and how to continue."""
    jax_says = "For simplicity, JAX has removed its internal frames"
    return [
        note
        for note in getattr(error, "__notes__", ())
        if isinstance(note, str) and jax_says not in note and note.strip("-")
    ]
