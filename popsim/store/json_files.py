"""JSON files, and logs with one JSON object per line."""

import dataclasses
import json
import math
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
    append_plain,
    digest,
    missing_file,
    read_plain,
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

LARGEST_LOG_BYTES = 2**28
"""Largest size of a log that is read as a whole, in bytes."""


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


def parse_json(content: bytes | str) -> Any:
    """Parse JSON text from an untrusted source.

    **Raises:** `ValueError` if it is not JSON, has a number that is not finite, or is nested too deeply.
    """
    try:
        return json.loads(content, parse_constant=_finite, parse_float=_finite)
    except RecursionError:
        raise ValueError("it is nested too deeply.") from None


def _finite(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError(f"its numbers must be finite, got {text[:20]}.")
    return number


def read_json(path: Path, *, most_bytes: int = LARGEST_BYTES) -> Any:
    """Read a JSON file.

    **Raises:** `CorruptDataError` naming the file if it is missing, not a plain file, larger than
    `most_bytes`, or not JSON.
    """
    try:
        with read_plain(path) as file:
            content = file.read(most_bytes + 1)
        if len(content) > most_bytes:
            n_bytes = path.lstat().st_size
            raise CorruptDataError(f"{path} must have at most {most_bytes} bytes, got {n_bytes}.")
    except (FileNotFoundError, NotADirectoryError):
        raise missing_file(path) from None
    try:
        return parse_json(content)
    except ValueError as error:
        raise CorruptDataError(f"{path} must hold JSON; it is damaged: {error}") from None


def read_sealed_json(path: Path, *, most_bytes: int = LARGEST_BYTES) -> dict[str, Any]:
    """Read a file of `write_sealed_json`, without the checksum.

    **Raises:** `CorruptDataError` naming the file if it is missing, larger than `most_bytes`, or was changed
    since it was written.
    """
    return _without_seal(path, read_json(path, most_bytes=most_bytes))


def _without_seal(path: Path, data: Any) -> dict[str, Any]:
    """Return the content of a sealed file without its checksum, which must be right."""
    value = {key: entry for key, entry in data.items() if key != CHECKSUM} if isinstance(data, dict) else {}
    try:
        is_sound = isinstance(data, dict) and data.get(CHECKSUM) == digest(value)
    except RecursionError:
        is_sound = False
    if not is_sound:
        raise CorruptDataError(f"{path} must match its checksum; it is damaged, or was changed by hand.")
    return value


@dataclasses.dataclass(frozen=True)
class SealedFormat:
    """The format of the sealed JSON files of one kind, such as `run.json`.

    - `version`: the number of the format, which is written into each file.
    - `read_only`: the numbers of earlier formats, whose files are read.
    """

    version: int
    read_only: tuple[int, ...] = ()

    def read(self, path: Path) -> dict[str, Any]:
        """Read a file, without the checksum.

        **Raises:** `MismatchError` if it has another format; `CorruptDataError` if it is missing, not of
        popsim, too large, or was changed since it was written.
        """
        content = read_json(path)
        if not isinstance(content, dict) or "format" not in content:
            raise CorruptDataError(f"{path} must be written by popsim; it is damaged, or something else.")
        if (version := content["format"]) not in (self.version, *self.read_only):
            raise MismatchError(
                f"{path} must have format {self.version}, got {version!r}: use another popsim."
            )
        return _without_seal(path, content)

    def write(self, path: Path, content: Mapping[str, Any]) -> None:
        """Write a file of the present format, or of that which `content` has; raises `SaveError`."""
        write_sealed_json(path, {"format": self.version, **content})


def append_json_line(path: Path, value: Any) -> None:
    """Append `value` to a log, as one line, which is on disk afterwards.

    **Raises:** `ValueError` if a number in `value` is not finite; `SaveError` if it cannot be written;
    `CorruptDataError` if `path` is not a plain file.
    """
    line = json.dumps(value, allow_nan=False) + "\n"
    with saving(path), append_plain(path) as file:
        is_new = file.tell() == 0
        file.write(line.encode())
        file.flush()
        os.fsync(file.fileno())
        if is_new:
            sync_folder(path.parent)


def log_lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a log as bytes; only a last line torn by a crash has no "\\n" at its end.

    **Raises:** `CorruptDataError` naming the file if it is missing, not a plain file, or has a line of more
    than some MB.
    """
    try:
        with read_plain(path) as file:
            number = 0
            while line := file.readline(LARGEST_BYTES + 1):
                number += 1
                if len(line) > LARGEST_BYTES:
                    raise CorruptDataError(
                        f"line {number} of {path} must have at most {LARGEST_BYTES} bytes."
                    )
                yield line
    except FileNotFoundError:
        raise missing_file(path) from None


def stream_json_lines(path: Path) -> Iterator[Any]:
    """Yield the parsed lines of a log, without a last line that was torn by a crash.

    **Raises:** `CorruptDataError` naming the file if it is missing or not a plain file, and the line if
    another one is damaged.
    """
    for value, _ in _parse_lines(path):
        yield value


def read_json_lines(path: Path) -> list[Any]:
    """Return the parsed lines of a log, without a last line that was torn by a crash.

    **Raises:** `CorruptDataError` naming the file if it is missing, not a plain file, or larger than some
    hundred MB, and the line if another one is damaged.
    """
    values, n_bytes = [], 0
    for value, size in _parse_lines(path):
        values.append(value)
        n_bytes += size
        if n_bytes > LARGEST_LOG_BYTES:
            raise CorruptDataError(
                f"{path} must have at most {LARGEST_LOG_BYTES} bytes to be read as a whole."
            )
    return values


def keep_json_lines(path: Path, keep: Callable[[Any], bool]) -> None:
    """Remove from a log the lines that `keep` rejects, and a torn last one; a missing log counts as empty.

    **Raises:** `CorruptDataError` if `keep` cannot handle a line; `SaveError` if it cannot be written.
    """
    if os.path.lexists(path):
        write_file(path, _select_lines(path, keep))


def _select_lines(path: Path, keep: Callable[[Any], bool]) -> Iterator[bytes]:
    try:
        for value in stream_json_lines(path):
            if keep(value):
                yield (json.dumps(value, allow_nan=False) + "\n").encode()
    except (KeyError, TypeError) as error:
        raise CorruptDataError(f"{path} must hold the lines of a log; it is damaged: {error!r}") from None


def _parse_lines(path: Path) -> Iterator[tuple[Any, int]]:
    """Yield the parsed lines of a log, without a torn last one, and the size of each in bytes."""
    damaged = 0
    for number, line in enumerate(log_lines(path), 1):
        if damaged:
            break
        try:
            yield parse_json(line), len(line)
        except ValueError:
            damaged = number
    else:
        return
    raise CorruptDataError(f"line {damaged} of {path} must hold JSON; it is damaged.")
