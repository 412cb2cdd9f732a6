"""Ensembles: models of one structure, stacked on a leading member axis."""

import inspect
from collections.abc import Callable, Sequence
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key, PRNGKeyArray

from popsim.checks import check_positive_int
from popsim.members import Members
from popsim.per_member import per_member_nodes
from popsim.randomness import as_key, check_draws_from_key

ModelType = TypeVar("ModelType", bound=eqx.Module)


def make_ensemble(
    build: Callable[[Key[Array, ""]], ModelType], n_members: int, *, key: PRNGKeyArray
) -> ModelType:
    """Build an ensemble of models that differ in the random key that they are built from.

    **Arguments:**

    - `build`: makes one model from a key; traced under `jit` and `vmap`.
    - `n_members`: how many members the ensemble has.
    - `key`: member `i` is built from `fold_in(key, i)`, whatever `n_members`.

    **Returns:** a model every array of which has a leading member axis.

    **Raises:** `ValueError` if `n_members` is not a positive whole number, or `build` draws elsewhere than
    from its key, as by `numpy.random`: all members would be alike.
    """
    check_positive_int("n_members", n_members)
    key = as_key(key)
    return _build_from_keys(build, _member_keys(key, jnp.arange(n_members)))


def build_members(
    build: Callable[..., ModelType],
    members: Members,
    *,
    settings: Sequence[str] | None = None,
    key: PRNGKeyArray,
) -> ModelType:
    """Build an ensemble of models that differ in settings and seeds.

    **Arguments:**

    - `build`: makes one model, `build(key=..., **settings)`; traced under `jit` and `vmap`. A setting
        arrives as a traced number, so it may become any array of the model (a noise level, a mass, a time
        constant), but no size.
    - `members`: who the members are, see `member_grid`.
    - `settings`: the settings that `build` takes; by default all. The others are for the task, the loss or
        the optimizer.
    - `key`: a member is built from `fold_in(key, its id)`: members of one id start with the same weights,
        those of the member of that number in `make_ensemble`.

    **Returns:** a model every array of which has a leading member axis.

    **Raises:** `ValueError` if `members` lacks one of the `settings`, it is not numeric, or `build` does not
    take them or draws elsewhere than from its key.
    """
    key = as_key(key)
    taken = members.numbers(list(members.settings) if settings is None else settings)
    try:
        inspect.signature(build).bind(key=key, **taken)
    except TypeError as error:
        raise ValueError(
            f"`build` must take `key` and the settings {list(taken)}: {error}. "
            "Say in `settings` which of them it takes."
        ) from error
    own = {name: jnp.asarray(values) for name, values in taken.items()}
    return _build_from_settings(build, _member_keys(key, jnp.asarray(members.ids)), own)


def _member_keys(key: Key[Array, ""], ids: Int[Array, " member"]) -> Key[Array, " member"]:
    return jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, ids)


@eqx.filter_jit
def _build_from_keys(build: Callable[[Key[Array, ""]], ModelType], keys: Key[Array, " member"]) -> ModelType:
    check_draws_from_key("`build`", build, keys[0])
    return eqx.filter_vmap(build)(keys)


@eqx.filter_jit
def _build_from_settings(
    build: Callable[..., ModelType], keys: Key[Array, " member"], settings: dict[str, Array]
) -> ModelType:
    def build_one(key: Key[Array, ""], own: dict[str, Array]) -> ModelType:
        return build(key=key, **own)

    check_draws_from_key(
        "`build`", build_one, keys[0], {name: values[0] for name, values in settings.items()}
    )
    return eqx.filter_vmap(build_one)(keys, settings)


def n_members(ensemble: eqx.Module) -> int:
    """How many members an ensemble has.

    **Raises:** `ValueError` if the arrays of `ensemble` disagree on their leading axis, or it has none.
    """
    for path in per_member_nodes(ensemble):
        raise ValueError(
            f"`ensemble` must hold plain arrays with the member axis first, got a PerMember at {path}. "
            "Build it with `build_members`."
        )
    leaves = [(path, leaf) for path, leaf in jax.tree.leaves_with_path(ensemble) if eqx.is_array(leaf)]
    if not leaves:
        raise ValueError("`ensemble` must hold at least one array, got a model without any.")
    lengths = {jax.tree_util.keystr(path): leaf.shape[0] if leaf.ndim else None for path, leaf in leaves}
    first = next(iter(lengths))
    for name, length in lengths.items():
        if length is None or length != lengths[first]:
            raise ValueError(
                "every array of an `ensemble` must have the member axis first: "
                f"{first} has length {lengths[first]}, {name} has {length}. "
                "Build it with `make_ensemble`."
            )
    return leaves[0][1].shape[0]


def member(ensemble: ModelType, index: int) -> ModelType:
    """One model of an ensemble.

    **Arguments:**

    - `ensemble`: models stacked on a leading axis.
    - `index`: which member, from 0.

    **Raises:** `ValueError` if there is no such member.
    """
    count = n_members(ensemble)
    if not 0 <= index < count:
        raise ValueError(f"`index` must be a member of the ensemble, 0 to {count - 1}, got {index}.")
    return jax.tree.map(lambda leaf: leaf[index] if eqx.is_array(leaf) else leaf, ensemble)
