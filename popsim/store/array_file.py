"""Arrays and JSON values in one safetensors file, with a checksum of each array and of all else."""

import contextlib
import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Shaped

from popsim.store.files import CorruptDataError, MismatchError, missing_file, write_file

__all__ = [
    "AnyArray",
    "Form",
    "as_keys",
    "as_numpy",
    "check_forms",
    "check_storable",
    "content_digest",
    "describe",
    "is_key",
    "open_array_file",
    "read_array",
    "write_array_file",
]

_METADATA = "popsim"
_SAFETENSORS_NAMES = {
    **{"bool": "BOOL", "complex64": "C64"},
    **{"int8": "I8", "int16": "I16", "int32": "I32", "int64": "I64"},
    **{"uint8": "U8", "uint16": "U16", "uint32": "U32", "uint64": "U64"},
    **{"bfloat16": "BF16", "float16": "F16", "float32": "F32", "float64": "F64"},
}

AnyArray: TypeAlias = Shaped[Array | np.ndarray, "..."]
Form: TypeAlias = dict[str, Any]
"""Dtype and shape of a stored array; `"key"` is the kind of random keys whose data it is, else None."""


def is_key(array: Any) -> bool:
    """Whether an array holds typed random keys."""
    return jnp.issubdtype(array.dtype, jax.dtypes.prng_key)


def describe(array: AnyArray | jax.ShapeDtypeStruct) -> Form:
    """Return the form in which an array is stored."""
    kind = None
    if is_key(array):
        keys = array if isinstance(array, jax.Array) else jnp.empty((), array.dtype)
        kind = str(jax.random.key_impl(keys))
        array = jax.eval_shape(jax.random.key_data, array)
    return {"dtype": jnp.dtype(array.dtype).name, "shape": list(array.shape), "key": kind}


def as_numpy(array: AnyArray) -> np.ndarray:
    """Return an array, or the data of random keys, in C order and native byte order."""
    values = np.asarray(jax.random.key_data(array) if is_key(array) else array)
    return np.asarray(values, values.dtype.newbyteorder("="), order="C")


def check_storable(name: str, form: Form) -> None:
    """**Raises:** `ValueError` if safetensors knows no such name or dtype."""
    if name == "__metadata__" or form["dtype"] not in _SAFETENSORS_NAMES:
        raise ValueError(
            f"array {name!r} must have a name and a dtype that safetensors knows, "
            f"{', '.join(_SAFETENSORS_NAMES)}, got {form['dtype']}."
        )


def check_forms(
    forms: Mapping[str, Any], expected: Mapping[str, Form], *, source: str, subset: bool = False
) -> None:
    """Check that arrays have the expected forms; with `subset`, there may be further ones.

    **Raises:** `MismatchError` naming the array, and `source`.
    """
    missing, unexpected = sorted(set(expected) - set(forms)), sorted(set(forms) - set(expected))
    if missing or (unexpected and not subset):
        raise MismatchError(
            f"{source} must hold the arrays of the model: missing {missing}, unexpected {unexpected}."
        )
    for name, form in expected.items():
        actual = {key: forms[name].get(key) for key in form}
        if actual != form:
            raise MismatchError(
                f"array {name!r} of {source} must be {_in_words(form)}, got {_in_words(actual)}."
            )


def _in_words(form: Form) -> str:
    keys = f", the data of {form['key']} keys" if form["key"] else ""
    return f"{form['dtype']} of shape {form['shape']}{keys}"


def write_array_file(
    path: Path, arrays: Mapping[str, np.ndarray], forms: Mapping[str, Form], content: Mapping[str, Any]
) -> None:
    """Write arrays of `as_numpy`, their forms of `describe`, and JSON values, atomically."""
    from safetensors.numpy import save

    # safetensors has no checksums: a flipped bit would be another number, and no error.
    described = {name: {**forms[name], "sha256": _digest(array)} for name, array in arrays.items()}
    content = {**content, "arrays": described}
    metadata = {_METADATA: json.dumps({**content, "sha256": content_digest(content)})}
    write_file(path, [save(dict(arrays), metadata)])


@contextlib.contextmanager
def open_array_file(path: Path, expected_format: int, kind: str) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Open a file and yield it with its content, without reading any array.

    **Raises:** `CorruptDataError` naming the file if it is missing, not of this `kind` or changed since
    it was written; `MismatchError` if it was written by something else or has another format.
    """
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise missing_file(path)
    try:  # fails, too, if the arrays of the header do not exactly fill the rest of the file
        file = safe_open(path, framework="numpy")
    except FileNotFoundError:  # a newer checkpoint has replaced it
        raise missing_file(path) from None
    except SafetensorError as error:
        raise CorruptDataError(f"{path} must be {kind}; it is none, or damaged: {error}") from None
    with file:
        metadata = file.metadata() or {}
        if _METADATA not in metadata:
            raise MismatchError(f"{path} must be {kind} that popsim wrote; it is of something else.")
        content = _content(path, metadata[_METADATA], expected_format)
        if (written := content.get("kind", kind)) != kind:  # formats of different kinds may have one number
            raise MismatchError(f"{path} must be {kind}; it is {str(written):.100}.")
        yield file, content


def _content(path: Path, metadata: str, expected_format: int) -> dict[str, Any]:
    try:
        content = json.loads(metadata)
        is_sound = content.pop("sha256") == content_digest(content)
    except (AttributeError, LookupError, TypeError, ValueError, RecursionError):
        content, is_sound = {}, False
    if not is_sound:
        raise CorruptDataError(f"{path} must be as popsim wrote it; its metadata is damaged.")
    if (version := content.get("format")) != expected_format:
        raise MismatchError(
            f"{path} must have format {expected_format}, got {version!r}: use another popsim."
        )
    return content


def read_array(path: Path, file: Any, name: str, form: Form) -> np.ndarray:
    """Read an array of an opened file; raises `CorruptDataError` naming it if it is not as it was written."""
    stored = file.get_slice(name) if name in file.keys() else None  # noqa: SIM118
    declared = (_SAFETENSORS_NAMES.get(form["dtype"]), form["shape"])
    is_declared = stored is not None and (stored.get_dtype(), list(stored.get_shape())) == declared
    array = file.get_tensor(name) if is_declared else None
    if array is None or _digest(array) != form["sha256"]:
        raise CorruptDataError(f"{path} must be as popsim wrote it; array {name!r} is damaged.")
    return array


def as_keys(data: np.ndarray, kind: str) -> Array:
    """Return random keys of a kind from their data."""
    return jax.random.wrap_key_data(jnp.asarray(data), impl=kind)


def _digest(array: np.ndarray) -> str:
    return hashlib.sha256(array.reshape(-1).view(np.uint8).data).hexdigest()


def content_digest(content: Mapping[str, Any]) -> str:
    """Return the SHA-256 of the content of a file, which has those of its arrays."""
    text = json.dumps(content, sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
