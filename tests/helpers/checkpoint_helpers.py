"""Saving, comparing and forging checkpoints."""

import jax
import jax.numpy as jnp
import numpy as np
from saving_process import expected_arrays, saved_arrays

from popsim.store.array_file import describe, open_array_file, read_array, write_array_file
from popsim.store.checkpoints import FORMAT


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


def reseal(file, forms=None, **changes):
    """Write a checkpoint anew, as one who forges it would; `forms` are said of its arrays."""
    with open_array_file(file, FORMAT, "a checkpoint") as (opened, content):
        arrays = {name: read_array(file, opened, name, form) for name, form in content["arrays"].items()}
    told = {name: describe(array) for name, array in arrays.items()} | (forms or {})
    write_array_file(file, arrays, told, content | changes)
