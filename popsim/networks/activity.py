"""The activity of units: of all of them, or of a part that a selector picks."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int, PyTree

from popsim._shared.checks import short_repr
from popsim._shared.text_checks import suggestion
from popsim.networks.base import AbstractNetwork, Hidden, Units, one_array

__all__ = ["UnitSelector", "unit_activity"]

UnitSelector = Callable[[Any], Array] | str
"""A part of the units of a network: the name of one of its groups (`AbstractNetwork.unit_groups`), such as an
area, or a function from the hidden state at one time step to the activity of these units, one array."""


def as_numbers_of_units(units: Any, otherwise: str = "") -> tuple[int, ...]:
    """Return an argument `units` as numbers of Python; `otherwise` says in messages what else it may be."""
    numbers = np.asarray(units)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu" or numbers.size == 0 or numbers.min() < 0:
        raise ValueError(f"`units` must be numbers of units from 0 on{otherwise}, got {short_repr(units)}.")
    if np.unique(numbers).size < numbers.size:
        raise ValueError(f"`units` must name each unit once, got {short_repr(units)}.")
    return tuple(numbers.tolist())


def unit_activity(ensemble: Any, states: Any) -> Float[Array | np.ndarray, "member trial time unit"]:
    """Return the activity of the units of each member, as `AbstractNetwork.activity` defines it.

    **Arguments:**

    - `ensemble`: models with a `network`.
    - `states`: their recorded states, such as `evaluate_ensemble(ensemble, task, key=key).states`.
    """
    arrays, static = eqx.partition(ensemble, eqx.is_array)

    def member_activity(arrays: Any, hidden: Hidden) -> Float[Array, "trial time unit"]:
        model = eqx.combine(arrays, static)
        return jax.vmap(jax.vmap(lambda hidden: selected_units("unit_activity", model, hidden)))(hidden)

    return jax.vmap(member_activity)(arrays, states.network.hidden)


def defines_activity(ensemble: Any, states: Any) -> bool:
    """Whether `unit_activity` of an ensemble and its recorded states is defined."""
    if not isinstance(getattr(ensemble, "network", None), AbstractNetwork):
        return False
    try:
        eqx.filter_eval_shape(unit_activity, ensemble, states)
    except ValueError:  # of a hidden state that is not one array, in a network that does not say more
        return False
    return True


def selected_units(
    user: str, model: Any, hidden: Hidden, units: UnitSelector | tuple[int, ...] | None = None
) -> Units:
    """Return the activity of units at one time step; `user` names in messages what asks for it.

    A hidden state that is one array needs no model. The default `units` are all.
    """
    if callable(units):
        selected = units(hidden)
        if not eqx.is_array(selected):
            raise ValueError(
                f"`units` of {user!r} must select one array of the hidden state of the network, such as "
                f"`units=lambda hidden: hidden[:10]`, got {jax.tree.structure(selected)}."
            )
        return selected
    network: Any = getattr(model, "network", None)
    is_network = isinstance(network, AbstractNetwork)
    activity = network.activity(hidden) if is_network else one_array(network, "activity", hidden)
    if isinstance(units, tuple) and max(units) >= activity.size:
        raise ValueError(
            f"`units` of {user!r} must be numbers from 0 to {activity.size - 1}, got {max(units)}."
        )
    if isinstance(units, str):
        return activity[unit_numbers(user, network, units)]
    return activity if units is None else activity[np.array(units)]


def activity_over_time(
    user: str, states: Any, model: Any, units: UnitSelector | tuple[int, ...] | None
) -> Float[Array, "time unit"]:
    """Return what `selected_units` returns at each time step of the states of a trial."""
    return jax.vmap(lambda hidden: selected_units(user, model, hidden, units))(states.network.hidden)


def unit_numbers(user: str, network: Any, group: str) -> Int[np.ndarray, " unit"]:
    """Return the numbers of the units of a group of a network."""
    groups = network.unit_groups() if isinstance(network, AbstractNetwork) else {}
    if group not in groups:
        names = ", ".join(map(repr, groups)) or "none"
        raise ValueError(
            f"`units` of {user!r} must be the name of a group of units of the network, or a function such as "
            f"`lambda hidden: hidden[:10]`, got {group!r}. Its groups: {names}.{suggestion(group, groups)}"
        )
    return groups[group]


def with_selected_units(
    user: str, model: Any, hidden: Hidden, units: UnitSelector | None, rates: Units
) -> PyTree[Array]:
    """Return a hidden state with another activity of the units that `selected_units` returns."""
    if units is None:
        network = getattr(model, "network", None)
        return network.with_activity(hidden, rates) if isinstance(network, AbstractNetwork) else rates
    if isinstance(units, str):
        network: Any = model.network
        activity = network.activity(hidden).at[unit_numbers(user, network, units)].set(rates)
        return network.with_activity(hidden, activity)
    selected = units(hidden)
    if any(selected is leaf for leaf in jax.tree.leaves(hidden)):
        return eqx.tree_at(units, hidden, rates)
    flat, unravel = ravel_pytree(hidden)
    places = _places(hidden, units)
    if places is None:
        raise ValueError(
            f"`units` of {user!r} must select numbers of the hidden state, each once and unchanged, such as "
            "`units=lambda hidden: hidden[:10]`, to put others in their place."
        )
    source = np.full(flat.size, -1)
    source[places] = np.arange(places.size)
    return unravel(jnp.where(source >= 0, rates.ravel()[np.maximum(source, 0)], flat))


def _places(hidden: Hidden, units: Callable[[Any], Array]) -> Int[np.ndarray, " unit"] | None:
    """Return where in the raveled hidden state the selected numbers are; None if they are not of it.

    The selector is called with the place of each number in place of the number. It is called again with
    places counted from the end: a selector that computes with the numbers returns places that do not match.
    """
    leaves, structure = jax.tree.flatten(hidden)
    ends = np.cumsum([leaf.size for leaf in leaves])
    last = ends[-1] - 1

    def select(*, from_end: bool) -> np.ndarray:
        places = []
        for leaf, end in zip(leaves, ends, strict=True):
            counted = np.arange(end - leaf.size, end).reshape(leaf.shape)
            places.append(jnp.asarray(last - counted if from_end else counted))
        return np.ravel(units(jax.tree.unflatten(structure, places)))

    with jax.ensure_compile_time_eval():
        places, reversed_places = select(from_end=False), select(from_end=True)
    is_part = places.dtype.kind == "i" and np.array_equal(last - places, reversed_places)
    return places if is_part and np.unique(places).size == places.size else None
