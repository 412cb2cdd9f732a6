"""The distinction between learned parameters and constants of a model."""

import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Literal, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PyTree

__all__ = ["is_parameter"]

Constants = Literal["all"] | Collection[str]
"""The type of a module's `constants`: the names of its fields that are not learned, or "all"."""
LearnedByArgument = Mapping[str, str]
"""The type of a module's `learned_by_argument`: the fields that an argument says are learned, and which."""
COLLECTIONS = (tuple, list, set, frozenset)


def is_parameter(model: PyTree) -> PyTree[bool]:
    """Return, for each leaf of a model, whether it is a learned parameter rather than a constant.

    Parameters are all floating-point and complex arrays that no enclosing module declares as constants. A
    module does so with `constants`, an attribute or a property: the names of its fields that are not learned,
    with everything in them, or "all". All such arrays of a module without `constants`, such as those of
    `equinox.nn`, are parameters. Integers, booleans, random keys and non-arrays never are.

    Bodies, muscles, noise, senses, scalings and interventions are constants. Training, weight penalties and
    weight decay apply to parameters; they apply to a constant only where its array is selected explicitly.

    **Arguments:**

    - `model`: a model, an ensemble, or its shapes (`equinox.filter_eval_shape`).

    **Returns:** True or False for each leaf, in the structure of `model`:
    `equinox.filter(model, is_parameter(model))` selects the parameters.

    !!! example

        ```python
        >>> import equinox as eqx, jax, jax.numpy as jnp, popsim
        >>> class Layer(eqx.Module):
        ...     weights: jax.Array
        ...     delay: jax.Array  # s
        ...     noise: popsim.noise.AbstractNoise
        ...     constants = ("delay",)
        >>> layer = Layer(jnp.ones((2, 2)), jnp.array(0.05), popsim.GaussianNoise(0.1))
        >>> learned = popsim.is_parameter(layer)
        >>> learned.weights, learned.delay, learned.noise.std
        (True, False, False)

        ```
    """
    is_constant = declared_leaves(model, "constants")
    return jax.tree.map(lambda leaf, constant: not constant and _can_be_learned(leaf), model, is_constant)


def declared_leaves(tree: PyTree, attribute: Literal["constants", "data_fields"]) -> PyTree[bool]:
    """Return, for each leaf, whether an enclosing module names the field with it in one of its attributes."""
    children, structure = jax.tree.flatten_with_path(tree, is_leaf=lambda node: node is not tree)
    if any(path == () for path, _ in children):
        return False
    declared = _declared_fields(tree, attribute) if isinstance(tree, eqx.Module) else frozenset()

    def of_child(path: Any, child: PyTree) -> PyTree[bool]:
        if getattr(path[0], "name", None) in declared:
            return jax.tree.map(lambda _: True, child)
        return declared_leaves(child, attribute)

    return jax.tree.unflatten(structure, [of_child(*child) for child in children])


def picked_parameters(model: PyTree, where: Callable[[Any], Any] | None, *, argument: str) -> PyTree[bool]:
    """Return, for each leaf of a model, whether the function `where` selects it.

    An array that is returned itself is selected, even if it is a constant; of a part of the model, or of a
    module made from its parts, the parameters are. A tuple, list or dictionary that the function makes is a
    collection of selections: `lambda m: (m.network, m.network.tau)` also selects `tau`. None selects nothing.
    """
    leaves, structure = jax.tree.flatten(model)
    learned = jax.tree.leaves(is_parameter(model))
    picked = learned
    if where is not None:
        try:
            picked = _picked_leaves(leaves, structure, learned, where)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"{argument} must pick parts of the {type(model).__name__}, got: {error}{_has(error)}"
            ) from error
    if not any(picked):
        raise ValueError(
            f"{argument} must pick at least one parameter of the {type(model).__name__}, got none. "
            "Noise, time constants, bodies and other constants are picked only by their arrays themselves, "
            "such as `lambda model: model.network.tau`."
        )
    return jax.tree.unflatten(structure, picked)


def unselected_by_argument(picked: PyTree[bool], path: str = "model") -> Iterator[str]:
    """Yield what `learned_by_argument` of a module says is learned, and is not selected, as text."""
    for field, argument in getattr(picked, "learned_by_argument", {}).items():
        if not any(jax.tree.leaves(getattr(picked, field))):
            yield f"`{path}.{field}`, by `{argument}` of {type(picked).__name__}"
    children, _ = jax.tree.flatten_with_path(picked, is_leaf=lambda node: node is not picked)
    for child_path, child in children:
        if child_path != ():
            yield from unselected_by_argument(child, path + jax.tree_util.keystr(child_path))


def _has(error: Exception) -> str:
    """List the fields of the module that lacks the attribute, for the error message."""
    looked_in = error.obj if isinstance(error, AttributeError) else None
    if not isinstance(looked_in, eqx.Module):
        return ""
    names = ", ".join(field.name for field in dataclasses.fields(looked_in))
    return f". A {type(looked_in).__name__} has {names}."


def _can_be_learned(leaf: Any) -> bool:
    if isinstance(leaf, jax.ShapeDtypeStruct):
        return jnp.issubdtype(leaf.dtype, jnp.inexact)
    return eqx.is_inexact_array(leaf)


def _declared_fields(module: eqx.Module, attribute: str) -> frozenset[str]:
    """Return the names of the fields that a module names in one of its attributes."""
    fields = [field.name for field in dataclasses.fields(module)]
    if not hasattr(type(module), attribute) and attribute not in fields:
        return frozenset()
    names: Any = getattr(module, attribute)
    if isinstance(names, str) and names == "all":
        return frozenset(fields)
    if not isinstance(names, COLLECTIONS) or not all(isinstance(n, str) and n in fields for n in names):
        raise ValueError(
            f"`{attribute}` of {type(module).__name__} must be 'all', or some of the names of its fields, "
            f"{fields}, got {names!r}. If it means something else there, give it another name: popsim reads "
            f"`{attribute}` of all modules of a model or task."
        )
    return frozenset(names)


def _picked_leaves(leaves: list[Any], structure: Any, learned: list[bool], where: Callable) -> list[bool]:
    # Parts are found by their id: tracing gives each array an id of its own, unlike those of computed arrays.
    floating = [_can_be_learned(leaf) for leaf in leaves]
    shapes = {
        place: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype)
        for place, leaf in enumerate(leaves)
        if floating[place] or eqx.is_array(leaf) or isinstance(leaf, jax.ShapeDtypeStruct)
    }

    def pick(traced: dict[int, Any]) -> list[bool]:
        tree = jax.tree.unflatten(structure, [traced.get(place, leaf) for place, leaf in enumerate(leaves)])
        parts: dict[int, tuple[Any, range]] = {}
        _collect_parts(tree, 0, parts)
        picked = [False] * len(leaves)
        for place, by_itself in _picks(where(tree), parts):
            if by_itself and isinstance(leaves[place], float | complex) and not floating[place]:
                path, number = jax.tree.leaves_with_path(tree)[place]
                raise ValueError(
                    f"the Python number {number} at {jax.tree_util.keystr(path)}, of which there is one for "
                    f"all members and which is not trained: store it as jnp.asarray({number})."
                )
            picked[place] |= floating[place] if by_itself else learned[place]
        return picked

    return eqx.filter_eval_shape(pick, shapes)


def _collect_parts(node: Any, first: int, parts: dict[int, tuple[Any, range]]) -> int:
    """Add each part of a model to `parts`, by id, with the indices of its leaves; return the next index."""
    children = jax.tree.leaves(node, is_leaf=lambda inner: inner is not node)
    after = first
    for child in children:
        after = after + 1 if child is node else _collect_parts(child, after, parts)
    parts[id(node)] = node, range(first, after)  # with the node, since ids are unique only among live objects
    return after


def _picks(
    node: Any, parts: dict[int, tuple[Any, range]], *, by_itself: bool = True
) -> Iterator[tuple[int, bool]]:
    """Yield the indices of the selected leaves, each with whether the array itself was returned."""
    children = jax.tree.leaves(node, is_leaf=lambda inner: inner is not node)
    is_leaf = any(child is node for child in children)
    if id(node) in parts:
        _, places = parts[id(node)]
        yield from ((place, is_leaf and by_itself) for place in places)
    elif is_leaf:
        if eqx.is_array(node):
            raise ValueError(f"an array of shape {node.shape}, computed or of another model.")
        raise ValueError(f"{node!r}, which is no part of it.")
    else:
        is_collection = isinstance(node, (tuple, list, dict))
        for child in children:
            yield from _picks(child, parts, by_itself=by_itself and is_collection)


ModuleType = TypeVar("ModuleType", bound=eqx.Module)


def replace_fields(module: ModuleType, **changes: Any) -> ModuleType:
    """Return a module with other values of some fields, static ones too, whatever its `__init__` takes."""
    copy = object.__new__(type(module))
    for field in dataclasses.fields(module):
        object.__setattr__(copy, field.name, changes.get(field.name, getattr(module, field.name)))
    return copy
