"""JSON files, written whole or not at all, and logs of one JSON object a line."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from jax.typing import ArrayLike


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

    **Raises:** `ValueError` if a number in `value` is not finite.
    """
    text = json.dumps(value, indent=2, allow_nan=False) + "\n"
    partial = path.with_name(path.name + ".partial")
    with partial.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def read_json(path: Path) -> Any:
    """What `path` holds.

    **Raises:** `ValueError` naming the file if it is missing or damaged.
    """
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        raise ValueError(f"there must be a file {path}; it is missing.") from None
    except ValueError as error:
        raise ValueError(f"{path} must hold JSON; it is damaged: {error}") from None


def append_json_line(path: Path, value: Any) -> None:
    """Append `value` as one line to a log."""
    with path.open("a") as file:
        file.write(json.dumps(value, allow_nan=False) + "\n")


def read_json_lines(path: Path) -> list[Any]:
    """The lines of a log; a last line that was torn by a crash is left out.

    **Raises:** `ValueError` naming the line if another one is damaged.
    """
    lines = path.read_text().splitlines()
    values = []
    for number, line in enumerate(lines, 1):
        try:
            values.append(json.loads(line))
        except ValueError:
            if number < len(lines):
                raise ValueError(f"line {number} of {path} must hold JSON; it is damaged.") from None
    return values
