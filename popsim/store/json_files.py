"""JSON files, and logs with one JSON object per line."""

import dataclasses
import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from popsim._plain_values import check_finite_value, plain_value
from popsim.store.files import (
    CorruptDataError,
    MismatchError,
    digest,
    missing_file,
    saving,
    sync_folder,
    write_file,
)

__all__ = [
    "SealedFormat",
    "as_json_numbers",
    "write_json",
    "write_sealed_json",
    "read_json",
    "read_sealed_json",
    "append_json_line",
    "read_json_lines",
    "keep_json_lines",
]

CHECKSUM = "checksum"
LARGEST_BYTES = 2**23
"""Largest size of a JSON file, and of a line of a log, in bytes."""


def as_json_numbers(values: ArrayLike) -> Any:
    """Convert numbers for JSON, with None in place of NaN and infinity.

    **Arguments:**

    - `values`: a number or an array of numbers.

    **Returns:** a number, or nested lists of numbers in the shape of `values`.
    """
    numbers = np.asarray(values, float)
    plain = numbers.astype(object)
    plain[~np.isfinite(numbers)] = None
    return plain.tolist()


def write_json(path: Path, value: Any) -> None:
    """Write `value` to `path` atomically: a reader sees the old file or the new one.

    **Raises:** `ValueError` if a number in `value` is not finite; `SaveError` if it cannot be written.
    """
    write_file(path, [(json.dumps(value, indent=2, allow_nan=False) + "\n").encode()])


def write_sealed_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write `value` as `write_json` does, together with a checksum of its content.

    **Raises:** `ValueError` if a number in `value` is not finite, or it has a key "checksum"; `SaveError` if
    it cannot be written.
    """
    if CHECKSUM in value:
        raise ValueError(f"`value` must not have the key {CHECKSUM!r}, got {value[CHECKSUM]!r}.")
    plain = json.loads(json.dumps(value, allow_nan=False))  # hash what a reader will parse
    write_json(path, {**plain, CHECKSUM: digest(plain)})


def plain_json(name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values as they will be read again from JSON, with lists in place of tuples and arrays.

    **Raises:** `ValueError` naming the argument `name`, and the place in it, unless they are plain values by
    name, see `plain_value`, and finite.
    """
    if not isinstance(values, Mapping):
        raise ValueError(f"`{name}` must be values by name, got {values!r:.100}.")
    plain = plain_value(name, values)
    check_finite_value(name, plain)
    return json.loads(json.dumps(plain))


def read_json(path: Path, *, most_bytes: int = LARGEST_BYTES) -> Any:
    """Read a JSON file.

    **Raises:** `CorruptDataError` naming the file if it is missing, larger than `most_bytes`, or not JSON.
    """
    if path.exists() and not path.is_file():
        raise CorruptDataError(f"{path} must be a file.")
    try:
        with path.open("rb") as file:
            content = file.read(most_bytes + 1)
    except (FileNotFoundError, NotADirectoryError):
        raise missing_file(path) from None
    if len(content) > most_bytes:
        raise CorruptDataError(f"{path} must have at most {most_bytes} bytes.")
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise CorruptDataError(f"{path} must hold JSON; it is damaged: {error}") from None


def read_sealed_json(path: Path, *, most_bytes: int = LARGEST_BYTES) -> dict[str, Any]:
    """Read a file of `write_sealed_json`, without the checksum.

    **Raises:** `CorruptDataError` naming the file if it is missing, larger than `most_bytes`, or was changed
    since it was written.
    """
    return _without_seal(path, read_json(path, most_bytes=most_bytes))


def _without_seal(path: Path, data: Any) -> dict[str, Any]:
    value = {key: entry for key, entry in data.items() if key != CHECKSUM} if isinstance(data, dict) else {}
    try:
        is_sound = bool(value) and data.get(CHECKSUM) == digest(value)
    except ValueError:  # of a number that JSON does not have
        is_sound = False
    if not is_sound:
        raise CorruptDataError(f"{path} must match its checksum; it is damaged, or was changed by hand.")
    return value


@dataclasses.dataclass(frozen=True)
class SealedFormat:
    """The format of the sealed JSON files of one kind, such as `run.json`: a number in each file."""

    version: int

    def read(self, path: Path) -> dict[str, Any]:
        """Read a file, without the checksum.

        **Raises:** `MismatchError` if it has another format; `CorruptDataError` if it is missing, not of
        popsim, too large, or was changed since it was written.
        """
        content = read_json(path)
        if not isinstance(content, dict) or "format" not in content:
            raise CorruptDataError(f"{path} must be written by popsim; it is damaged, or something else.")
        if (version := content["format"]) != self.version:
            raise MismatchError(
                f"{path} must have format {self.version}, got {version!r}: use another popsim."
            )
        return _without_seal(path, content)

    def write(self, path: Path, content: Mapping[str, Any]) -> None:
        """Write a file of this format; raises `SaveError`."""
        write_sealed_json(path, {**content, "format": self.version})


def append_json_line(path: Path, value: Any) -> None:
    """Append `value` to a log, as one line, which is on disk afterwards.

    **Raises:** `ValueError` if a number in `value` is not finite; `SaveError` if it cannot be written.
    """
    line = json.dumps(value, allow_nan=False) + "\n"
    with saving(path), path.open("ab") as file:
        is_new = file.tell() == 0
        file.write(line.encode())
        file.flush()
        os.fsync(file.fileno())
        if is_new:
            sync_folder(path.parent)


def log_lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a log as bytes; only a last line torn by a crash has no "\\n" at its end.

    **Raises:** `CorruptDataError` naming the file if it is missing, or has a line of more than some MB.
    """
    try:
        with path.open("rb") as file:
            while line := file.readline(LARGEST_BYTES + 1):
                if len(line) > LARGEST_BYTES:
                    raise CorruptDataError(f"a line of {path} must have at most {LARGEST_BYTES} bytes.")
                yield line
    except FileNotFoundError:
        raise missing_file(path) from None


def stream_json_lines(path: Path) -> Iterator[Any]:
    """Yield the parsed lines of a log, without a last line that was torn by a crash.

    **Raises:** `CorruptDataError` as `log_lines`, and naming the line if another one is damaged.
    """
    damaged = 0
    for number, line in enumerate(log_lines(path), 1):
        if damaged:
            raise CorruptDataError(f"line {damaged} of {path} must hold JSON; it is damaged.")
        try:
            yield json.loads(line)
        except ValueError:
            damaged = number


def read_json_lines(path: Path) -> list[Any]:
    """Return the parsed lines of a log; as `stream_json_lines`."""
    return [*stream_json_lines(path)]


def keep_json_lines(path: Path, keep: Callable[[Any], bool]) -> None:
    """Remove from a log the lines that `keep` rejects, and a torn last one; a missing log counts as empty.

    **Raises:** `CorruptDataError` if `keep` cannot handle a line; `SaveError` if it cannot be written.
    """
    if not path.exists():
        return
    try:
        kept = [f"{json.dumps(value)}\n".encode() for value in stream_json_lines(path) if keep(value)]
    except (KeyError, TypeError) as error:
        raise CorruptDataError(f"{path} must hold the lines of a log; it is damaged: {error!r}") from None
    write_file(path, kept)
