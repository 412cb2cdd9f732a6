"""Descriptions of values by the texts of their parts, and their comparison with those in a file."""

import importlib.metadata
import itertools
import platform
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from popsim._fingerprint import ARRAYS, PLAIN, code_of, fingerprint, is_instance_of_dataclass, named_parts
from popsim._named_values import describe_differences
from popsim._text_checks import printable
from popsim.version import __version__

MOST_TOLD = 3
LONGEST = 100
PACKAGES = ("diffrax", "equinox", "jax")  # of which models have parts, as of popsim


def _part_text(part: Any) -> str:
    if isinstance(part, ARRAYS):
        text = _array_text(part)
    elif isinstance(part, PLAIN):
        text = part if isinstance(part, str) else repr(part)
    elif is_instance_of_dataclass(part):
        text = type(part).__qualname__
    else:
        text = f"{getattr(part, '__qualname__', type(part).__qualname__)} {fingerprint(part)[:8]}"
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 9]} {fingerprint(text)[:8]}"


def _array_text(array: Any) -> str:
    if not jnp.issubdtype(array.dtype, jax.dtypes.prng_key) and array.size <= 4:
        numbers = ", ".join(map(str, np.ravel(np.asarray(array))))
        return f"[{numbers}]" if array.ndim else numbers
    return f"{array.dtype} {array.shape} {fingerprint(array)[:8]}"


def _beginning(text: str) -> str:
    """Return the beginning of a text that may be forged, for a message."""
    return printable(text[:LONGEST])


def describe_parts(name: str, value: Any, most: int) -> dict[str, Any]:
    """Return what `compare_parts` compares of a value, as JSON values for a file.

    **Arguments:** as for `named_parts`, and the largest number of parts.
    """
    parts = dict(itertools.islice(named_parts(name, value), most))
    return {
        "parts": {path: _part_text(part) for path, part in parts.items()},
        "code": {path: code for path, part in parts.items() if (code := code_of(part)) is not None},
        "versions": {
            "python": ".".join(platform.python_version_tuple()[:2]),
            "popsim": __version__,
            **{package: importlib.metadata.version(package) for package in PACKAGES},
        },
    }


class Comparison(NamedTuple):
    """Messages on the parts that differ, and on those of which this is not known; empty if there are none."""

    different: str
    unknown: str


def compare_parts(then: Mapping[str, Any], now: Mapping[str, Any]) -> Comparison:
    """Compare results of `describe_parts`, the first one as read from a file.

    Two functions of one name are not known to be equal if their code differs, as a lambda may be written
    anew, or if they are of different modules. Between versions, neither are packages' functions of one name,
    nor parts that only one of the versions has.
    """
    parts_then, code_then = _parts_and_code(then)
    parts_now, code_now = now["parts"], now["code"]
    is_same_version = then.get("versions") == now["versions"]
    different, unknown = [], []
    for path in {**parts_now, **parts_then}:
        before, after = code_then.get(path, {}), code_now.get(path, {})
        texts = [parts.get(path, "") for parts in (parts_then, parts_now)]
        is_one_place = is_same_version and before.get("module") == after.get("module")
        is_same = _are_same(*texts)
        if is_same:
            is_unknown = before != after
        elif not all(texts):
            is_unknown = not is_same_version
        else:
            names = {text.rpartition(" ")[0] for text in texts}
            is_unknown = bool(before and after) and len(names) == 1 and not is_one_place
        if is_unknown or not is_same:
            (unknown if is_unknown else different).append(path)
    told = ({path: parts[path] for path in different if path in parts} for parts in (parts_then, parts_now))
    return Comparison(describe_differences(*told), _names(unknown))


def _are_same(before: str, after: str) -> bool:
    """Return whether two texts are equal, or those of equal numbers, such as 0 and 0.0."""
    if before == after:
        return True
    try:
        return float(before) == float(after)
    except ValueError:
        return False


def _names(paths: list[str]) -> str:
    more = len(paths) - MOST_TOLD
    names = ", ".join(f"`{_beginning(path)}`" for path in paths[:MOST_TOLD])
    return names + (f" and {more} more" if more > 0 else "")


def _parts_and_code(described: Any) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """Return the parts and the code of a description that may be forged."""
    parts, code = (described.get(name) if isinstance(described, dict) else None for name in ("parts", "code"))
    if (
        not isinstance(parts, dict)
        or not isinstance(code, dict)
        or not all(isinstance(text, str) for text in parts.values())
        or not all(isinstance(part, dict) for part in code.values())
    ):
        raise ValueError(f"its parts must be texts by name, got {described!r:.100}.")
    return parts, code
