"""PyTrees on disk: their arrays by name. What is no array comes from the template at reading."""

from pathlib import Path
from typing import Any
from urllib.parse import quote

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from popsim.store.arrays import write_arrays


def _is_array(leaf) -> bool:
    return eqx.is_array(leaf) or isinstance(leaf, (np.ndarray, jax.ShapeDtypeStruct))


def leaf_names(tree: PyTree) -> dict[str, int]:
    """The names of the arrays of a tree, such as `network.cell.weight_hh`, and their places in its leaves."""
    leaves = jax.tree.leaves_with_path(tree)
    return {_name(path): i for i, (path, leaf) in enumerate(leaves) if _is_array(leaf)}


def _name(path: tuple[Any, ...]) -> str:
    """Keys joined by dots. What a key must not hold in a file name, or a dot, is written as %XX."""
    keys = (jax.tree_util.keystr((key,), simple=True) for key in path)
    return ".".join(quote(key, safe=" ").replace(".", "%2E") for key in keys)


def write_tree(path: Path, tree: PyTree) -> None:
    """Write the arrays of a PyTree into a new zarr group at `path`."""
    leaves = jax.tree.leaves(tree)
    arrays = {}
    for name, index in leaf_names(tree).items():
        array = np.asarray(leaves[index])
        arrays[name] = (tuple(f"{name} axis {axis}" for axis in range(array.ndim)), array)
    write_arrays(path, arrays)


def read_tree(path: Path, template: PyTree) -> PyTree:
    """Read a PyTree that `write_tree` wrote.

    **Arguments:**

    - `path`: the zarr group.
    - `template`: a tree of the same structure, such as `equinox.filter_eval_shape` of what built it; its
        arrays may be `jax.ShapeDtypeStruct`s.

    **Raises:** `ValueError` naming the array if one is missing or too many, or has another shape or dtype.
    """
    import zarr

    if not path.is_dir():
        raise ValueError(f"there must be a folder {path}; it is missing.")
    arrays = dict(zarr.open_group(path, mode="r").arrays())
    names = leaf_names(template)
    stored = set(arrays)
    if stored != set(names):
        raise ValueError(
            f"{path} must hold the arrays of the model: "
            f"missing {sorted(set(names) - stored)}, unexpected {sorted(stored - set(names))}."
        )
    leaves, structure = jax.tree.flatten(template)
    for name, index in names.items():
        array, expected = arrays[name], leaves[index]
        if array.shape != expected.shape or array.dtype != expected.dtype:
            raise ValueError(
                f"array {name!r} of {path} must be {expected.dtype} of shape {expected.shape}, "
                f"got {array.dtype} of shape {array.shape}."
            )
        leaves[index] = jnp.asarray(array[...])
    return jax.tree.unflatten(structure, leaves)
