"""JSON files, and logs with one JSON object per line."""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from popsim._shared.plain_values import check_finite_value, plain_value
from popsim.store import files
from popsim.store.files import CorruptDataError, missing_file, raise_save_errors, seal, unseal, write_file

__all__ = [
    "append_json_line",
    "as_json_numbers",
    "keep_json_lines",
    "read_json",
    "read_sealed_json",
    "stream_json_lines",
    "write_json",
    "write_sealed_json",
]


def as_json_numbers(values: ArrayLike) -> Any:
    """Convert a number or an array of numbers for JSON, with None in place of NaN and infinity."""
    numbers = np.asarray(values, float)
    plain = numbers.astype(object)
    plain[~np.isfinite(numbers)] = None
    return plain.tolist()


def plain_json(name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return finite plain values, see `plain_value`, as JSON has them; `name` is the argument, for errors."""
    plain = plain_value(name, values)
    check_finite_value(name, plain)
    return json.loads(json.dumps(plain))


def write_json(path: Path, value: Any) -> None:
    """Write `value` to `path` atomically: a reader sees the old file or the new one.

    **Raises:** `ValueError` if a number in `value` is not finite; `SaveError` if it cannot be written.
    """
    write_file(path, [(json.dumps(value, indent=2, allow_nan=False) + "\n").encode()])


def write_sealed_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write `value` as `write_json` does, with the number of its format, and a checksum of both."""
    plain = json.loads(json.dumps(value, allow_nan=False))  # hash what a reader will parse
    write_json(path, seal(plain))


def read_json(path: Path) -> Any:
    """Read a JSON file; raises `CorruptDataError` naming it if it is missing or not JSON."""
    try:
        return json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        raise missing_file(path) from None
    except (ValueError, RecursionError) as error:
        raise CorruptDataError(f"{path} must hold JSON; it is damaged: {error}") from None


def read_sealed_json(path: Path) -> dict[str, Any]:
    """Read a file of `write_sealed_json`, without the checksum.

    **Raises:** `CorruptDataError` naming the file if it is missing, or was changed since it was written;
    `MismatchError` if it has another format.
    """
    return unseal(path, read_json(path))


def append_json_line(path: Path, value: Any) -> None:
    """Append `value` to a log, as one line, which is on disk afterwards.

    **Raises:** `ValueError` if a number in `value` is not finite; `SaveError` if it cannot be written.
    """
    line = json.dumps(value, allow_nan=False) + "\n"
    with raise_save_errors(path), path.open("ab") as file:
        is_new = file.tell() == 0
        file.write(line.encode())
        file.flush()
        os.fsync(file.fileno())
        if is_new:
            files.sync_folder(path.parent)


def log_lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a log as bytes; only a last line torn by a crash has no "\\n" at its end."""
    try:
        with path.open("rb") as file:
            yield from file
    except FileNotFoundError:
        raise missing_file(path) from None


def stream_json_lines(path: Path) -> Iterator[Any]:
    """Yield the parsed lines of a log, but for a torn last one; raises `CorruptDataError` naming another."""
    damaged = 0
    for number, line in enumerate(log_lines(path), 1):
        if damaged:
            raise CorruptDataError(f"line {damaged} of {path} must hold JSON; it is damaged.")
        try:
            yield json.loads(line)
        except ValueError:
            damaged = number


def keep_json_lines(path: Path, keep: Callable[[Any], bool]) -> None:
    """Remove from a log the lines that `keep` rejects, and a torn last one; a missing log counts as empty.

    **Raises:** `CorruptDataError` if `keep` cannot handle a line; `SaveError` if it cannot be written.
    """
    if not path.exists():
        return
    try:
        lines = [f"{json.dumps(value)}\n".encode() for value in stream_json_lines(path) if keep(value)]
    except (KeyError, TypeError) as error:
        raise CorruptDataError(f"{path} must hold the lines of a log; it is damaged: {error!r}") from None
    write_file(path, lines)
