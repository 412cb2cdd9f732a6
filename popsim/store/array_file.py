"""Arrays and JSON values in one safetensors file, with a checksum of each array and of all else."""

import contextlib
import dataclasses
import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Shaped

from popsim.store.files import CorruptDataError, MismatchError, missing_file, seal, unseal, write_file

__all__ = ["ArrayFile", "write_array_file"]

_METADATA = "popsim"

AnyArray: TypeAlias = Shaped[Array | np.ndarray, "..."]
Form: TypeAlias = dict[str, Any]
"""Dtype and shape of a stored array; `"key"` is the kind of random keys whose data it is, else None."""


def describe(array: AnyArray | jax.ShapeDtypeStruct) -> Form:
    """Return the form in which an array is stored."""
    kind = None

    def key_data(keys: Array) -> Array:
        nonlocal kind
        kind = str(jax.random.key_impl(keys))
        return jax.random.key_data(keys)

    if jnp.issubdtype(array.dtype, jax.dtypes.prng_key):
        array = jax.eval_shape(key_data, array)
    return {"dtype": jnp.dtype(array.dtype).name, "shape": list(array.shape), "key": kind}


def as_numpy(array: AnyArray) -> np.ndarray:
    """Return an array, or the data of random keys, in C order and native byte order."""
    is_key = jnp.issubdtype(array.dtype, jax.dtypes.prng_key)
    values = np.asarray(jax.random.key_data(array) if is_key else array)
    return np.asarray(values, values.dtype.newbyteorder("="), order="C")


def check_forms(
    forms: Mapping[str, Any], expected: Mapping[str, Form], *, source: str, subset: bool = False
) -> None:
    """Raise `MismatchError` unless arrays have the expected forms; with `subset`, there may be more."""
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
    """Write arrays of `as_numpy`, their forms of `describe`, and JSON values with the `kind`, atomically."""
    from safetensors.numpy import save

    # safetensors has no checksums: a flipped bit would be another number, and no error.
    described = {name: {**forms[name], "sha256": _digest(array)} for name, array in arrays.items()}
    metadata = {_METADATA: json.dumps(seal({**content, "arrays": described}))}
    write_file(path, [save(dict(arrays), metadata)])


@dataclasses.dataclass(frozen=True)
class ArrayFile:
    """A file of arrays that is opened: its path, and its content but for the arrays."""

    path: Path
    content: dict[str, Any]
    _opened: Any

    @classmethod
    @contextlib.contextmanager
    def open(cls, path: Path, kind: str) -> Iterator["ArrayFile"]:
        """Open a file without reading any array.

        **Raises:** `CorruptDataError` naming the file if it is missing, not of this `kind` or changed since
        it was written; `MismatchError` if it was written by something else or has another format.
        """
        from safetensors import SafetensorError, safe_open

        if not path.is_file():
            raise missing_file(path)
        try:  # fails, too, if the arrays of the header do not exactly fill the rest of the file
            opened = safe_open(path, framework="numpy")
        except FileNotFoundError:  # a newer checkpoint has replaced it
            raise missing_file(path) from None
        except SafetensorError as error:
            raise CorruptDataError(f"{path} must be {kind}; it is none, or damaged: {error}") from None
        with opened:
            metadata = opened.metadata() or {}
            if _METADATA not in metadata:
                raise MismatchError(f"{path} must be {kind} that popsim wrote; it is of something else.")
            try:
                sealed = json.loads(metadata[_METADATA])
            except ValueError:
                sealed = None
            content = unseal(path, sealed)
            if (written := content.get("kind")) != kind:
                raise MismatchError(f"{path} must be {kind}; it is {written!s:.100}.")
            yield cls(path, content, opened)

    def restore(
        self, expected: Mapping[str, Any], *, source: str, subset: bool = False
    ) -> dict[str, AnyArray]:
        """Read all arrays, and return the expected ones, keys as keys; errors as `check_forms`, `arrays`."""
        forms = {name: describe(array) for name, array in expected.items()}
        check_forms(self.forms, forms, source=source, subset=subset)
        arrays, kinds = self.arrays(), {name: form["key"] for name, form in forms.items()}
        return {
            name: jax.random.wrap_key_data(jnp.asarray(arrays[name]), impl=kind) if kind else arrays[name]
            for name, kind in kinds.items()
        }

    @property
    def forms(self) -> Mapping[str, Form]:
        """The forms of the arrays, by name."""
        return self.content["arrays"]

    def arrays(self) -> dict[str, np.ndarray]:
        """Read all arrays; raises `CorruptDataError` naming one that is not as it was written."""
        arrays = {}
        for name, form in self.forms.items():
            array = self._opened.get_tensor(name) if name in self._opened.keys() else None  # noqa: SIM118
            if array is None or _digest(array) != form["sha256"]:
                raise CorruptDataError(f"{self.path} must be as popsim wrote it; array {name!r} is damaged.")
            arrays[name] = array
        return arrays


def _digest(array: np.ndarray) -> str:
    """Return the SHA-256 of dtype, shape and bytes: the header that says the former may be damaged, too."""
    sha = hashlib.sha256(f"{array.dtype.name} {array.shape}".encode())
    sha.update(array.reshape(-1).view(np.uint8).data)
    return sha.hexdigest()
