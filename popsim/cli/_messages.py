"""What the command line says: JSON; and a line on errors of tyro, of JAX's backend, and of damaged files."""

import contextlib
import dataclasses
import os
import re
import traceback
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import tyro

from popsim._shared.text_checks import one_line, shorten

ALSO_CALLED = {"trainables": ("keep",), "runs": ("paths",), "axes": ("grid",), "path": ("paths", "out")}
"""Argument names in popsim's functions for options that have another name in a command."""
MOST_LETTERS = 400  # of a message of XLA


def print_json(value: Any) -> None:
    """Print a value as JSON, with null for numbers that are not finite."""
    import msgspec

    encoded = msgspec.json.encode(value, enc_hook=_as_plain)
    print(msgspec.json.format(encoded, indent=2).decode())


def _as_plain(value: Any) -> Any:
    """Return what JSON has for an array, a range or a path."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return [*value] if isinstance(value, range) else str(value)


def text_in_box(box: str) -> str:
    """Return what tyro says in a box, without its frame and its advice; for misspelt options similar ones."""
    lines = "\n".join(line.strip("│╭╮╰╯ ") for line in box.splitlines()[1:])
    text, *further = [part for part in re.split(r"^[─-]{4,}$", lines, flags=re.MULTILINE) if part.strip()]
    alike = dict.fromkeys(re.findall(r"^(--[\w-]+)", "\n".join(further[:-1]), re.MULTILINE))
    hint = f" Perhaps you meant {' or '.join(alike)}." if alike and "Unrecognized" in text else ""
    return f"{one_line(text).rstrip('.')}.{hint}"


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
        hint = hints[field.name]
        kind, marks = getattr(hint, "__origin__", hint), getattr(hint, "__metadata__", ())
        if dataclasses.is_dataclass(kind):
            yield from _options(typing.cast(type, kind))
        elif tyro.conf.Positional in marks:
            metavars = [mark.metavar for mark in marks if hasattr(mark, "metavar")]
            yield field.name, metavars[0].split()[0] if metavars else field.name.upper()
        else:
            names = [mark.name for mark in marks if getattr(mark, "name", None)]
            yield field.name, f"--{(names or [field.name])[0].replace('_', '-')}"


def modules_of(error: BaseException) -> list[str]:
    """Return the modules through which an error came, the innermost last."""
    return [frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(error.__traceback__)]


def notes_of(error: BaseException) -> str:
    """Return what popsim added to an error: what is saved, and how to continue."""
    jax_says = "For simplicity, JAX has removed its internal frames"
    notes = [note for note in getattr(error, "__notes__", ()) if isinstance(note, str)]
    return " ".join(note for note in notes if jax_says not in note and note.strip("-"))


def backend_complaint(error: Exception) -> tuple[str, int] | None:
    """Return one line and the exit code for an error of JAX's backend or variables; None for any other.

    The code is 1 if memory or the device fail, and 2 if a variable of the environment is wrong.
    """
    import jax

    text, _, _ = str(error).partition("\n--------------------")  # what JAX says of its traceback
    text, notes = shorten(one_line(text).rstrip("."), MOST_LETTERS), notes_of(error)
    if isinstance(error, jax.errors.JaxRuntimeError):
        if "RESOURCE_EXHAUSTED" in text or "Out of memory" in text:
            advice = "Fewer trials or members at a time (--batch-size, --members) take less."
            return f"there must be enough memory on the device: {text}. {advice} {notes}", 1
        if "Disallowed" in text and "transfer" in text:
            return f"JAX_TRANSFER_GUARD must let popsim copy arrays; unset it: {text}. {notes}", 2
        return f"JAX's backend failed: {text}. {notes}", 1
    # JAX may have removed its own frames, of which the backend's is one
    in_jax = any(module.partition(".")[0] == "jax" for module in modules_of(error)[-1:])
    if not isinstance(error, RuntimeError | AssertionError) or not in_jax:
        return None
    with contextlib.suppress(RuntimeError, AssertionError):
        if jax.devices():
            return None
    platforms = jax.config.values.get("jax_platforms") or os.environ.get("JAX_PLATFORMS")
    which = f"JAX_PLATFORMS must name devices that JAX finds, got {platforms!r}; unset it"
    what = which if platforms else "JAX must find a device"
    return f"{what}: {text}. JAX_PLATFORMS=cpu uses the processor.", 2


def refuse_damaged(path: Path, damage: Mapping[str, str]) -> None:
    """Raise `CorruptDataError` if anything in a folder is damaged."""
    if damage:
        from popsim.store import CorruptDataError

        raise CorruptDataError(f"damaged in {path}: {', '.join(damage)}")
