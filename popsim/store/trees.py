"""The names that the arrays of a PyTree have on disk."""

from typing import Any
from urllib.parse import quote

import equinox as eqx
import jax
import numpy as np
from jaxtyping import PyTree


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
