"""The parts of a value as texts by name, and the comparison of these with those in a file."""

import dataclasses
import importlib.metadata
import platform
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from popsim._fingerprint import (
    PLAIN,
    fingerprint,
    is_installed,
    public_module,
    source_fingerprint,
    source_of_class,
)
from popsim._text_checks import printable
from popsim.version import __version__

MOST_PARTS = 500
MOST_TOLD = 3
LONGEST = 100
DEEPEST = 20
PACKAGES = ("diffrax", "equinox", "jax")  # of which models have parts, as of popsim


def named_parts(name: str, value: Any, most: int = MOST_PARTS) -> dict[str, str]:
    """Return a text for each part of a value, by path, such as "task.loss.terms.0.weight".

    Arrays of up to 4 numbers are written out; others give dtype, shape and digest, functions name and digest.

    **Arguments:**

    - `name`: the name of the value, with which paths begin.
    - `value`: a PyTree, an optimizer, a function, or a combination of them.
    - `most`: the largest number of parts.
    """
    parts = {}
    for path, text, _ in _parts(name, value, 0):
        parts[path] = _shorten(text)
        if len(parts) == most:
            break
    return parts


def differing_parts(name: str, then: Any, now: Mapping[str, str]) -> str:
    """Return a message on the parts that differ, with both texts; empty if none does.

    **Arguments:**

    - `name`: the name of the value.
    - `then`: earlier results of `named_parts` by name, as read from a file; anything else counts as empty.
    - `now`: the current result for this value.
    """
    then = then.get(name) if isinstance(then, dict) else None
    if not isinstance(then, dict) or not then:
        return ""
    return _message([path for path in {**now, **then} if then.get(path) != now.get(path)], then, now)


def _message(different: list[str], then: Mapping[str, Any], now: Mapping[str, str]) -> str:
    """Return a message on some paths, without those inside another that differs."""
    paths = [path for path in different if path.rpartition(".")[0] not in different]
    texts = [
        f"`{_beginning(path)}`, {_text(then, path)} then and {_text(now, path)} now"
        for path in paths[:MOST_TOLD]
    ]
    more = len(paths) - len(texts)
    return "; ".join(texts) + (f"; and {more} more" if more else "")


def _text(parts: Mapping[str, Any], path: str) -> str:
    return _beginning(str(parts.get(path, "nothing")))


def _beginning(text: str) -> str:
    """Return the beginning of a text that may be forged, for a message."""
    return printable(text[:LONGEST])


def _shorten(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 9]} {fingerprint(text)[:8]}"


def _parts(path: str, value: Any, depth: int) -> Iterator[tuple[str, str, Any]]:
    """Yield path, text and value of all parts."""
    inner: Mapping[Any, Any] = {}
    if isinstance(value, (jax.Array, np.ndarray, np.generic)):
        yield path, _array_text(value), value
    elif isinstance(value, str):
        yield path, value, value
    elif isinstance(value, PLAIN):
        yield path, repr(value), value
    elif isinstance(value, Mapping):
        inner = value
    elif isinstance(value, (tuple, list)):
        inner = dict(zip(getattr(value, "_fields", range(len(value))), value, strict=True))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield path, type(value).__qualname__, value
        inner = {field.name: getattr(value, field.name, None) for field in dataclasses.fields(value)}
    else:
        yield path, f"{_name(value)} {fingerprint(value)[:8]}", value
    for key, part in inner.items() if depth < DEEPEST else ():
        yield from _parts(f"{path}.{key}", part, depth + 1)


def _name(value: Any) -> str:
    return getattr(value, "__qualname__", type(value).__qualname__)


def _array_text(array: Any) -> str:
    if not jnp.issubdtype(array.dtype, jax.dtypes.prng_key) and array.size <= 4:
        numbers = ", ".join(map(str, np.ravel(np.asarray(array))))
        return f"[{numbers}]" if array.ndim else numbers
    return f"{array.dtype} {array.shape} {fingerprint(array)[:8]}"


def described_parts(name: str, value: Any, most: int) -> dict[str, Any]:
    """Return what `compared_parts` compares of a value, as JSON values for a file.

    **Arguments:** as for `named_parts`.
    """
    code = {path: _code_of(part) for path, _, part in _parts(name, value, 0) if _has_code(part)}
    parts = named_parts(name, value, most)
    return {
        "parts": parts,
        "code": {path: code[path] for path in parts if path in code},
        "versions": {
            "python": ".".join(platform.python_version_tuple()[:2]),
            "popsim": __version__,
            **{package: importlib.metadata.version(package) for package in PACKAGES},
        },
    }


def _has_code(part: Any) -> bool:
    """Return whether a part is, or its class has, code beside what its text tells."""
    if isinstance(part, (jax.Array, np.ndarray, np.generic, Mapping, tuple, list, *PLAIN)):
        return False
    if dataclasses.is_dataclass(part) and not isinstance(part, type):
        return not is_installed(type(part).__module__)
    return True


def _code_of(part: Any) -> dict[str, str]:
    """Return the module of a part, and the digest of its code; that of packages has their versions."""
    module = getattr(part, "__module__", None) or type(part).__module__
    if is_installed(module):
        return {"module": public_module(module), "source": ""}
    of_class = dataclasses.is_dataclass(part) and not isinstance(part, type)
    return {"module": module, "source": source_of_class(type(part)) if of_class else source_fingerprint(part)}


class Compared(NamedTuple):
    """Messages on the parts that differ, and on those of which this is not known; empty if there are none."""

    different: str
    unknown: str


def compared_parts(then: Mapping[str, Any], now: Mapping[str, Any]) -> Compared:
    """Compare results of `described_parts`, the first one as read from a file.

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
    return Compared(_message(different, parts_then, parts_now), _names(unknown))


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
