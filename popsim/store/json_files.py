"""JSON files, which a stranger may have written, and logs of one JSON object a line."""

import json
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from popsim.store.digest import digest
from popsim.store.errors import DamagedError
from popsim.store.whole_file import saving, write_file

CHECKSUM = "checksum"
LARGEST_BYTES = 2**23


def as_json_numbers(values: ArrayLike) -> Any:
    """Numbers for JSON, which knows neither NaN nor infinity: these become None.

    **Arguments:**

    - `values`: a number or an array of numbers.

    **Returns:** a number, or nested lists of them in the shape of `values`.
    """
    numbers = np.asarray(values, float)
    plain = numbers.astype(object)
    plain[~np.isfinite(numbers)] = None
    return plain.tolist()


def write_json(path: Path, value: Any) -> None:
    """Write `value` to `path`: a reader sees the old file or the new one, never half of it.

    **Raises:** `ValueError` if a number in `value` is not finite; `SaveError` if it cannot be written.
    """
    write_file(path, [(json.dumps(value, indent=2, allow_nan=False) + "\n").encode()])


def write_sealed_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write `value` as `write_json` does, with a checksum of all that it says beside it.

    **Raises:** `ValueError` if a number in `value` is not finite, or its own key is "checksum"; `SaveError`
    if it cannot be written.
    """
    if CHECKSUM in value:
        raise ValueError(f"`value` must not have the key {CHECKSUM!r}, got {value[CHECKSUM]!r}.")
    plain = json.loads(json.dumps(value, allow_nan=False))  # as it will be read
    write_json(path, {**plain, CHECKSUM: digest(plain)})


def read_json(path: Path) -> Any:
    """What `path` holds.

    **Raises:** `DamagedError` naming the file if it is missing, a link, larger than some MB, or no JSON.
    """
    try:
        found = path.lstat()
        if not stat.S_ISREG(found.st_mode):
            raise DamagedError(f"{path} must be a plain file.")
        if found.st_size > LARGEST_BYTES:
            raise DamagedError(f"{path} must have at most {LARGEST_BYTES} bytes, got {found.st_size}.")
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise DamagedError(f"there must be a file {path}; it is missing.") from None
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise DamagedError(f"{path} must hold JSON; it is damaged: {error}") from None


def read_sealed_json(path: Path) -> dict[str, Any]:
    """What `write_sealed_json` wrote, without the checksum.

    **Raises:** `DamagedError` naming the file if it is missing, or anything in it is not as it was written.
    """
    found = read_json(path)
    value = {key: own for key, own in found.items() if key != CHECKSUM} if isinstance(found, dict) else {}
    if not isinstance(found, dict) or found.get(CHECKSUM) != digest(value):
        raise DamagedError(f"{path} must match its checksum; it is damaged, or was changed by hand.")
    return value


def append_json_line(path: Path, value: Any) -> None:
    """Append `value` as one line to a log.

    **Raises:** `ValueError` if a number in `value` is not finite; `SaveError` if it cannot be written.
    """
    line = json.dumps(value, allow_nan=False) + "\n"
    with saving(path), path.open("a") as file:
        file.write(line)


def read_json_lines(path: Path) -> list[Any]:
    """The lines of a log; a last line that was torn by a crash is left out.

    **Raises:** `DamagedError` naming the file if it is missing, and the line if another one is damaged.
    """
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        raise DamagedError(f"there must be a file {path}; it is missing.") from None
    values = []
    for number, line in enumerate(lines, 1):
        try:
            values.append(json.loads(line))
        except ValueError:
            if number < len(lines):
                raise DamagedError(f"line {number} of {path} must hold JSON; it is damaged.") from None
    return values


def keep_json_lines(path: Path, keep: Callable[[Any], bool]) -> None:
    """Leave out of a log the lines that `keep` refuses, and a torn last one; no log is an empty log.

    **Raises:** `DamagedError` if a line is not one that `keep` knows; `SaveError` if it cannot be written.
    """
    if path.exists():
        try:
            kept = [value for value in read_json_lines(path) if keep(value)]
        except (KeyError, TypeError) as error:
            raise DamagedError(f"{path} must hold the lines of a log; it is damaged: {error!r}") from None
        write_file(path, [(json.dumps(value, allow_nan=False) + "\n").encode() for value in kept])
