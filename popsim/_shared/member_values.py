"""Checks of the values of members, one member at a time: while JAX traces, a check sees no value."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Int, Key, PyTree, Shaped

from popsim._compiled import as_array, ignores_key, is_tracing
from popsim._shared.checks import is_traced, short_repr, warn_caller
from popsim._shared.other_draws import refuse_other_draws
from popsim.per_member import PerMember, per_member_nodes, with_member_values
from popsim.randomness import folded_key

Settings = Mapping[str, Shaped[np.ndarray, "member ..."]]


def check_builds(
    build: Callable[..., Any], key: Key[Array, ""], ids: Int[np.ndarray, " member"], settings: Settings
) -> None:
    """Build the model of each combination of settings separately, so that every check in it sees numbers."""
    if is_tracing() or is_traced(key, dict(settings)):
        return
    for place in _distinct_places(settings.values(), len(ids)):
        values = {name: as_array(column[place], column.dtype) for name, column in settings.items()}
        try:
            with refuse_other_draws("`build`", build):
                build(folded_key(key, np.uint32(ids[place])), **values)
        except ValueError as error:
            if not settings:
                raise
            settings_text = ", ".join(f"{name} = {short_repr(value)}" for name, value in values.items())
            raise ValueError(f"{error} (`build` was called with {settings_text}.)") from error


def warn_if_key_is_ignored(
    build: Callable[..., Any], key: Key[Array, ""], ids: Int[np.ndarray, " member"], settings: Settings
) -> None:
    """Warn if members of different ids and equal settings draw the same numbers in the program of `build`."""
    if is_tracing() or is_traced(key, dict(settings)) or np.unique(ids).size < 2:
        return
    values = {name: as_array(column[0], column.dtype) for name, column in settings.items()}
    if ignores_key(lambda key, values: eqx.filter(build(key, **values), eqx.is_inexact_array), key, values):
        warn_caller(
            "`build` ignores its `key`: it draws the same numbers for members of different ids, which start "
            "equal. Draw from the key that `build` gets, or, if all members should be the same, draw before "
            "`build` is called."
        )


def check_values_of_members(name: str, tree: PyTree) -> None:
    """Check what differs between members as if each had a task, a loss or an optimizer to itself."""
    for path, module in _modules(tree):
        check_module_of_members(f"`{name}{path}`", module)


def check_module_of_members(name: str, module: eqx.Module) -> None:
    """Call `__check_init__` of a module that holds a `PerMember` with each combination of their values."""
    columns = [node.values for node in per_member_nodes(module).values()]
    if is_traced(columns) or len({*map(len, columns)}) != 1:
        return
    columns = [np.asarray(column) for column in columns]
    for place in _distinct_places(columns, len(columns[0])):
        values = [as_array(column[place], column.dtype) for column in columns]
        try:
            _check_again(with_member_values(module, values))
        except ValueError as error:
            raise ValueError(f"{name} of member {place}: {error}") from error


def check_modules(name: str, tree: PyTree) -> None:
    """Check every module in a PyTree again, after values were put into it without its constructors."""
    if is_traced(tree):
        return
    check_values_of_members(name, tree)
    for path, module in _modules(tree):
        if per_member_nodes(module):
            continue
        try:
            _check_again(module)
        except ValueError as error:
            raise ValueError(f"`{name}{path}`: {error}") from error


def _distinct_places(columns: Iterable[Shaped[np.ndarray, "member ..."]], n_members: int) -> list[int]:
    """Return the first place of each combination of values, which are compared by their bits, in order."""
    columns, places = [*columns], {}
    for place in range(n_members):
        places.setdefault(tuple(column[place].tobytes() for column in columns), place)
    return [*places.values()]


def _check_again(module: eqx.Module) -> None:
    """Check the fields that check themselves when they are set, and call every `__check_init__`, as then."""
    for field in dataclasses.fields(module):
        if "check" in field.metadata:
            field.metadata["converter"](getattr(module, field.name))
    for kind in type(module).__mro__:
        if "__check_init__" in vars(kind):
            vars(kind)["__check_init__"](module)


def _modules(tree: PyTree, path: str = "") -> Iterator[tuple[str, eqx.Module]]:
    """Yield the modules in a PyTree, outermost first, with their paths; not what is a `PerMember`."""
    if isinstance(tree, PerMember):
        return
    if isinstance(tree, eqx.Module):
        yield path, tree
    children = jax.tree.leaves_with_path(
        tree, is_leaf=lambda node: node is not tree and isinstance(node, eqx.Module)
    )
    for steps, child in children:
        if isinstance(child, eqx.Module) and child is not tree:
            yield from _modules(child, path + jax.tree_util.keystr(steps))
