"""Saving, comparing and forging checkpoints."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from popsim.store import files
from popsim.store.array_file import ArrayFile, write_array_file


def saved_arrays(step: int) -> dict[str, np.ndarray]:
    """What is saved at a step; arrays of zero length, of one number, and of many."""
    rng = np.random.default_rng(step)
    return {
        "weight": rng.standard_normal((64, 50), np.float32),
        "step": np.asarray(step, np.int32),
        "none": np.zeros((0, 3), np.float32),
    }


def expected_arrays(details: dict) -> dict[str, jax.ShapeDtypeStruct]:
    """Shapes and dtypes of `saved_arrays`."""
    return {name: jax.ShapeDtypeStruct(x.shape, x.dtype) for name, x in saved_arrays(0).items()}


def save_steps(checkpoints, *steps: int) -> None:
    """Save `saved_arrays` of each step, one after the other."""
    for step in steps:
        checkpoints.save(step, saved_arrays(step), {"step": step})
    checkpoints.wait()


def structs_of(arrays) -> dict[str, jax.ShapeDtypeStruct]:
    """Shapes and dtypes of arrays."""
    return {name: jax.ShapeDtypeStruct(array.shape, array.dtype) for name, array in arrays.items()}


def bits_of(arrays):
    """Names, dtypes, shapes and bytes, to compare by `==`; of typed keys, implementation and key data."""
    bits = {}
    for name, array in arrays.items():
        if jnp.issubdtype(array.dtype, jax.dtypes.prng_key):
            name, array = (name, str(jax.random.key_impl(array))), jax.random.key_data(array)
        array = np.asarray(array)
        bits[name] = (array.dtype.name, array.shape, array.tobytes())
    return bits


def assert_intact(checkpoints, step):
    """The checkpoint of a step is what was saved, bit for bit."""
    restored = checkpoints.restore(expected_arrays, step=step)
    assert (restored.step, restored.details) == (step, {"step": step})
    assert bits_of(restored.arrays) == bits_of(saved_arrays(step))


def file_name(step) -> str:
    """The name of the file of a step."""
    return f"{step:09d}.safetensors"


def reseal(path, **changes):
    """Write a checkpoint anew that says something else."""
    with ArrayFile.open(path, "a checkpoint") as file, pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "FORMAT", changes.get("format", files.FORMAT))
        write_array_file(path, file.arrays(), file.forms, file.content | changes)
