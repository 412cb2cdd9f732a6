"""Models saved in one safetensors file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from popsim._shared.checks import is_traced, warn_caller
from popsim._shared.named_values import MOST_TOLD, describe_differences, named_values
from popsim._shared.text_checks import as_path
from popsim._shared.user_code import different_names, users_code
from popsim.model import AbstractModel, with_trained_inputs
from popsim.store.array_file import ArrayFile, as_numpy, describe, write_array_file
from popsim.store.files import CorruptDataError, MismatchError, check_replaceable
from popsim.store.json_files import plain_json
from popsim.version import __version__

__all__ = ["leaf_names", "save_model", "load_model", "read_model_details", "check_model_path"]


def _is_array(leaf) -> bool:
    return eqx.is_array(leaf) or isinstance(leaf, (np.ndarray, jax.ShapeDtypeStruct))


def leaf_names(tree: PyTree) -> dict[str, int]:
    """Return the names of the arrays of a tree, such as `network.cell.weight_hh`, with their leaf indices."""
    leaves = jax.tree.leaves_with_path(tree)
    return {_name(path): i for i, (path, leaf) in enumerate(leaves) if _is_array(leaf)}


def _name(path: tuple[Any, ...]) -> str:
    """Join keys by dots, writing dots and characters not allowed in file names as %XX."""
    keys = (jax.tree_util.keystr((key,), simple=True) for key in path)
    return ".".join(quote(key, safe=" ").replace(".", "%2E") for key in keys)


KIND = "a model file"


def save_model(
    path: str | Path, model: PyTree, *, details: Mapping[str, Any] | None = None, overwrite: bool = False
) -> None:
    """Write the arrays of a model, or of an ensemble, to a safetensors file.

    Arrays have the names of `leaf_names`, also for other software such as PyTorch. Random keys are stored as
    their key data. All that is not an array is described, for `load_model` to compare, but not written.

    **Arguments:**

    - `path`: the file; its folder must exist. It is written atomically.
    - `model`: any PyTree.
    - `details`: JSON values to keep with it, such as the settings that it was made from.
    - `overwrite`: whether to replace an existing model file.

    **Raises:** `ValueError` if `path` exists, unless it is a model file of popsim and `overwrite` is True, or
    if `details` are not JSON; `SaveError` if `path` cannot be written.
    """
    path = as_path("path", path)
    check_model_path(path, overwrite=overwrite)
    if is_traced(model):
        raise ValueError(
            "`model` must have numbers, got traced arrays: save it outside of jit, vmap and grad."
        )
    leaves = jax.tree.leaves(model)
    arrays = {name: as_numpy(leaves[index]) for name, index in leaf_names(model).items()}
    content = {
        "kind": KIND,
        "popsim": __version__,
        "details": plain_json("details", details or {}),
        "static": _static_parts(model),
        "inputs": _trained_inputs(model),
    }
    write_array_file(path, arrays, array_forms(model), content)


def _is_model(node: Any) -> bool:
    return isinstance(node, AbstractModel)


def _trained_inputs(model: PyTree) -> dict[str, dict[str, int]]:
    """Return the sizes of the inputs with which each model in a PyTree was trained, by its path."""
    nodes = jax.tree.leaves_with_path(model, is_leaf=_is_model)
    sizes = {_name(path): node.trained_inputs.sizes for path, node in nodes if _is_model(node)}
    return {name: of_model for name, of_model in sizes.items() if of_model is not None}


def _with_trained_inputs(model: PyTree, stored: Mapping[str, Any]) -> PyTree:
    """Return a PyTree in which each model knows the inputs stored for its path, or none."""
    return jax.tree.map_with_path(
        lambda path, node: with_trained_inputs(node, stored.get(_name(path))) if _is_model(node) else node,
        model,
        is_leaf=_is_model,
    )


def _static_parts(model: PyTree) -> dict[str, Any]:
    without_arrays = jax.tree.map(lambda leaf: None if _is_array(leaf) else leaf, model)
    return {
        "settings": named_values("model", without_arrays, closures=True),
        "code": users_code(without_arrays),
        "popsim": __version__,
    }


def load_model(path: str | Path, template: PyTree) -> PyTree:
    """Read a model from a file of `save_model`. Nothing in the file is executed.

    **Arguments:**

    - `path`: the file.
    - `template`: an untrained model of the same structure, or `equinox.filter_eval_shape` of what builds it.
        All that is not an array is taken from it, and must be as in the model that was saved. A warning names
        the user's functions of which the code differs.

    **Returns:** the template with the arrays of the file, and the names of the inputs that the model that was
    saved was trained with.

    **Raises:** `CorruptDataError` naming the file if it is missing or was changed since it was written;
    `MismatchError` if it is no model file of popsim, or naming the arrays and the parts that are others than
    those of the model that was saved, such as `dt`, a nonlinearity or a solver.
    """
    path = as_path("path", path)
    names = leaf_names(template)
    leaves, structure = jax.tree.flatten(template)
    with ArrayFile.open(path, KIND) as file:
        arrays = file.restore({name: leaves[index] for name, index in names.items()}, source=str(path))
        _check_static_parts(file.content["static"], template, path)
    for name, index in names.items():
        array = arrays[name]
        if not isinstance(array, jax.Array) and not isinstance(leaves[index], np.ndarray):
            if jax.dtypes.canonicalize_dtype(array.dtype) != array.dtype:
                raise MismatchError(
                    f"array {name!r} of {path} is {array.dtype}: load it inside `with jax.enable_x64(True)`."
                )
            array = jnp.asarray(array)
        leaves[index] = array
    return _with_trained_inputs(jax.tree.unflatten(structure, leaves), file.content["inputs"])


def _check_static_parts(stored: Mapping[str, Any], template: PyTree, path: Path) -> None:
    expected = _static_parts(template)
    pair, is_same_version = (stored["settings"], expected["settings"]), stored["popsim"] == __version__
    unmatched = sorted(pair[0].keys() ^ pair[1].keys())
    names = [name for name in pair[0].keys() & pair[1].keys() if not _are_equal(pair[0][name], pair[1][name])]
    names += unmatched if is_same_version else []
    if names:
        different = describe_differences(*({k: v for k, v in part.items() if k in names} for part in pair))
        raise MismatchError(f"`template` must be the model saved in {path}, got another: {different}.")
    unknown = [*([] if is_same_version else unmatched), *different_names(stored["code"], expected["code"])]
    if unknown:
        warn_caller(
            f"`template` must be the model saved in {path}, which is not known of "
            f"{', '.join(map('`{}`'.format, unknown[:MOST_TOLD]))}: there, the code or the version of popsim "
            "is another one."
        )


def _are_equal(text: str, other: str) -> bool:
    """Return whether two texts are equal, or those of equal numbers, such as 0 and 0.0."""
    try:
        return text == other or float(text) == float(other)
    except ValueError:
        return False


def read_model_details(path: str | Path) -> dict[str, Any]:
    """Return the `details` of a file of `save_model`, without reading its arrays.

    **Raises:** `CorruptDataError` and `MismatchError` as `load_model`.
    """
    with ArrayFile.open(as_path("path", path), KIND) as file:
        return file.content["details"]


def check_model_path(path: Path, *, overwrite: bool, name: str = "path") -> None:
    """Check that `save_model` may write to a path, as there; errors call it `name`."""
    check_replaceable(path, _is_model_file, kind=KIND, overwrite=overwrite, name=name)


def array_forms(tree: PyTree) -> dict[str, dict[str, Any]]:
    """Return dtype and shape of the stored arrays of a tree, by name; for random keys also their kind."""
    leaves = jax.tree.leaves(tree)
    return {name: describe(leaves[index]) for name, index in leaf_names(tree).items()}


def _is_model_file(path: Path) -> bool:
    try:
        with ArrayFile.open(path, KIND):
            return True
    except (CorruptDataError, MismatchError):
        return False
