"""Ensembles: models stacked along a leading member axis."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Int, Key, PRNGKeyArray, PyTree, Shaped

from popsim._compiled import as_array, jit_fast_compile
from popsim._shared import checks
from popsim._shared.member_values import check_builds, warn_if_key_is_ignored
from popsim._shared.other_draws import refuse_other_draws
from popsim.per_member import PerMember, per_member_nodes
from popsim.randomness import as_key

__all__ = ["Members", "member_grid", "make_ensemble", "build_members", "n_members", "member"]

Tree = TypeVar("Tree", bound=PyTree)


@dataclasses.dataclass(frozen=True, eq=False)
class Members:
    """The seed and the settings of each member of an ensemble.

    Members form a grid with one axis per setting and a last axis of seeds, made by `member_grid`. In a PyTree
    this is a leaf, or static: instances compare equal if all their values are equal.

    **Arguments:**

    - `ids`: the seed of each member, which determines its random draws. Members with the same id have the
        same initial weights and see the same trials, so that settings are compared on the same seeds.
    - `settings`: for each setting, its value per member.
    - `shape`: the number of values of each setting, in the order of `settings`, then the number of seeds.
    """

    ids: Int[np.ndarray, " member"]
    settings: dict[str, Shaped[np.ndarray, "member ..."]]
    shape: tuple[int, ...]

    def __post_init__(self):
        if "seed" in self.settings:
            raise ValueError('`settings` must not be called "seed": that is the last axis of the grid.')

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Members)
            and (self.shape, self.names) == (other.shape, other.names)
            and np.array_equal(self.ids, other.ids)
            and all(np.array_equal(values, other.settings[name]) for name, values in self.settings.items())
        )

    def __hash__(self) -> int:
        return hash((self.shape, self.names, self.ids.tobytes()))

    @property
    def n_members(self) -> int:
        """The number of members."""
        return self.ids.shape[0]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the grid axes: the settings, then "seed"."""
        return (*self.settings, "seed")

    @property
    def labels(self) -> dict[str, np.ndarray]:
        """The values along each grid axis, by name."""
        by_member = self.settings | {"seed": self.ids}
        first_of_others = (slice(None), *[0] * (len(self.shape) - 1))
        return {
            name: np.moveaxis(self.group(values, axis=0), place, 0)[first_of_others]
            for place, (name, values) in enumerate(by_member.items())
        }

    def per_member(self, name: str) -> PerMember:
        """Return a setting as a `PerMember`, for use in a task, a loss or an optimizer."""
        return PerMember(self._numbers(name))

    def numbers(self, names: Sequence[str]) -> dict[str, Shaped[np.ndarray, "member ..."]]:
        """Return the named settings, each with a number or an array of numbers per member."""
        return {
            name: self._numbers(name) for name in checks.as_parts("settings", names, str, "names of settings")
        }

    def group(self, values: Tree, axis: int) -> Tree:
        """Replace the member axis of arrays by the grid axes: one per setting, then the seed.

        `members.group(history.loss.total, axis=1)` has the axes (batch, *settings, seed).

        **Arguments:**

        - `values`: a NumPy or JAX array, or a PyTree of them.
        - `axis`: the member axis, in all of them.
        """

        def group_leaf(path: tuple, leaf: Any) -> Any:
            if not eqx.is_array(leaf):
                return leaf
            if not -leaf.ndim <= axis < leaf.ndim or leaf.shape[axis] != self.n_members:
                raise ValueError(
                    f"`values{jax.tree_util.keystr(path)}` must have the {self.n_members} members on axis "
                    f"{axis}, got shape {leaf.shape}."
                )
            at = axis % leaf.ndim
            return leaf.reshape(*leaf.shape[:at], *self.shape, *leaf.shape[at + 1 :])

        return jax.tree.map_with_path(group_leaf, values)

    def select(self, index: int) -> "Members":
        """Return one member with its id and settings; trained alone it is the same as in the ensemble."""
        _check_index(index, self.n_members)
        place = slice(index, index + 1)
        settings = {name: values[place] for name, values in self.settings.items()}
        return Members(self.ids[place], settings, (1,) * len(self.shape))

    def _numbers(self, name: str) -> Shaped[np.ndarray, "member ..."]:
        if name not in self.settings:
            raise ValueError(f"`name` must be a setting of the members, {list(self.settings)}, got {name!r}.")
        values = self.settings[name]
        if not checks.is_numeric(values.dtype):
            raise ValueError(f"the setting {name!r} must be of numbers here, got {values.dtype}.")
        return values


def _check_index(index: Any, count: int) -> None:
    if not checks.is_int(index) or not 0 <= index < count:
        raise ValueError(f"`index` must be a member, 0 to {count - 1}, got {checks.short_repr(index)}.")


def member_grid(n_seeds: int, **settings: Any) -> Members:
    """Combine all values of the given settings, each combination with the same seeds.

    ```python
    members = member_grid(5, learning_rate=[1e-3, 3e-3], noise=[0.0, 0.1, 0.2])  # 30 members
    trainer = TaskTrainer(adam(members.per_member("learning_rate")))
    ensemble = build_members(build, members, settings=["noise"], key=key)
    ```

    **Arguments:**

    - `n_seeds`: the number of members per combination; their ids are 0 to `n_seeds - 1`.
    - `settings`: for each setting its values, on the first axis.

    **Returns:** the members in C order: the seed varies fastest, the first setting slowest.
    """
    checks.check_positive_int("n_seeds", n_seeds)
    return grid_of_seeds(range(n_seeds), settings)


def grid_of_seeds(seeds: range, settings: Mapping[str, Any]) -> Members:
    """Return the `member_grid` of given seeds, with the same errors."""
    values = {name: _as_values(name, of_setting) for name, of_setting in settings.items()}
    shape = (*[each.shape[0] for each in values.values()], len(seeds))
    *places, of_seeds = np.indices(shape).reshape(len(shape), -1)
    by_member = {name: each[place] for (name, each), place in zip(values.items(), places, strict=True)}
    return Members(np.asarray(seeds)[of_seeds], by_member, shape)


def _as_values(name: str, values: Any) -> np.ndarray:
    array = np.asarray(values)
    if array.ndim == 0 or array.shape[0] == 0:
        raise ValueError(
            f"`{name}` must be a list of at least one value of the setting, got {checks.short_repr(values)}."
        )
    return array


def as_member_ids(name: str, ids: Any) -> Int[Array, "*member"]:
    """Return the ids of members, on which their draws depend, as an array."""
    if not checks.is_traced(ids):
        numbers = np.asarray(ids)
        if numbers.dtype.kind not in "iu" or np.any(numbers < 0) or np.any(numbers > checks.LARGEST_INT):
            given = checks.short_repr(ids)
            raise ValueError(f"`{name}` must be whole numbers from 0 to 2**31 - 1, got {given}.")
    return as_array(ids, int)


ModelType = TypeVar("ModelType", bound=eqx.Module)


def make_ensemble(
    build: Callable[[Key[Array, ""]], ModelType],
    n_members: int,
    *,
    first_member: int = 0,
    key: PRNGKeyArray,
) -> ModelType:
    """Build an ensemble of models that differ in their random key.

    **Arguments:**

    - `build`: makes one model from a key; called once as it is, so that the checks of what it makes see
        numbers, and traced under `jit` and `vmap`.
    - `n_members`: the number of members.
    - `first_member`: the id of the first one: `make_ensemble(build, 64, first_member=128, key=key)` returns
        members 128 to 191 of a larger population.
    - `key`: the member with id `i` is built from `fold_in(key, i)`, independent of `n_members`.

    **Returns:** a model whose arrays have a leading member axis.

    **Warns:** if `build` draws from another key than its own.
    """
    checks.check_positive_int("n_members", n_members)
    checks.check_non_negative_int("first_member", first_member)
    checks.check_non_negative_int("first_member + n_members", first_member + n_members)
    ids = np.arange(first_member, first_member + n_members, dtype=np.int32)
    return _build_ensemble(build, as_key(key), ids, None)


def build_members(
    build: Callable[..., ModelType],
    members: Members,
    *,
    settings: Sequence[str] | None = None,
    key: PRNGKeyArray,
) -> ModelType:
    """Build an ensemble of models that differ in settings and seeds.

    **Arguments:**

    - `build`: makes one model, `build(key=..., **settings)`; traced under `jit` and `vmap`. A setting is
        passed as a traced number, so it may become any array of the model (a noise level, a mass, a time
        constant), but not a size. For each combination of settings it is also called once as it is, so that
        the checks of what it makes see numbers.
    - `members`: the members, see `member_grid`.
    - `settings`: the settings that `build` takes; by default all. The others are for the task, the loss or
        the optimizer.
    - `key`: a member is built from `fold_in(key, its id)`: members with the same id start with the same
        weights, those of the member with that index in `make_ensemble`.

    **Returns:** a model whose arrays have a leading member axis.

    **Warns:** if `build` draws from another key than its own.
    """
    columns = members.numbers(list(members.settings) if settings is None else settings)
    return _build_ensemble(build, as_key(key), members.ids, columns)


Settings = Mapping[str, Shaped[np.ndarray, "member ..."]]


def _build_ensemble(
    build: Callable[..., ModelType],
    key: Key[Array, ""],
    ids: Int[np.ndarray, " member"],
    settings: Settings | None,
) -> ModelType:
    """Return the models `build(key=..., **settings)`; without settings the models `build(key)`."""

    def build_one(key: Key[Array, ""], **values: Array) -> ModelType:
        return _build_one(build, key, None if settings is None else values)

    few = ids[:2] if settings is None else ids  # without settings all are built alike
    check_builds(build_one, key, few, settings or {})
    ensemble = _build(build, key, ids, settings)
    warn_if_key_is_ignored(build_one, key, few, settings or {})
    return ensemble


def _build_one(build: Callable[..., ModelType], key: Key[Array, ""], settings: Any) -> ModelType:
    """Build a model from a key, or by name from a key and settings."""
    model = build(key) if settings is None else build(key=key, **settings)
    if not isinstance(model, eqx.Module):
        raise ValueError(f"`build` must return a model, got {checks.kind_of(model)}.")
    return model


@jit_fast_compile
def _build(
    build: Callable[..., ModelType],
    key: Key[Array, ""],
    ids: Int[Array | np.ndarray, " member"],
    settings: Mapping[str, Shaped[Array | np.ndarray, "member ..."]] | None,
) -> ModelType:
    keys = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, ids)
    with checks.explain_traced_code("`build`"), refuse_other_draws("`build`", build):
        return eqx.filter_vmap(lambda key, of_member: _build_one(build, key, of_member))(keys, settings)


def n_members(ensemble: eqx.Module) -> int:
    """Return the number of members of an ensemble."""
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
    """Return one model of an ensemble.

    **Arguments:**

    - `ensemble`: models stacked on a leading axis.
    - `index`: the index of the member, from 0.
    """
    _check_index(index, n_members(ensemble))
    return members_at(ensemble, np.asarray(index))


def map_members(
    function: Callable[[PyTree[Array]], Any], members: PyTree[Array], at_a_time: int | None
) -> Any:
    """Map a function over the members, at most `at_a_time` of them at once; None for all at once."""
    count = jax.tree.leaves(members)[0].shape[0]
    if at_a_time is None or at_a_time >= count:
        return jax.vmap(function)(members)
    return jax.lax.map(function, members, batch_size=at_a_time)


def members_at(ensemble: Tree, places: Int[np.ndarray, "*member"]) -> Tree:
    """Return the members at some places, in their order; the one at a single place without an axis."""
    arrays, static = eqx.partition(ensemble, eqx.is_array)
    leaves, structure = jax.tree.flatten(arrays)
    return eqx.combine(jax.tree.unflatten(structure, _rows(leaves, places)), static)


@jit_fast_compile
def _rows(leaves: list[Array], index: Int[Array | np.ndarray, "*member"]) -> list[Array]:
    return [leaf[index] for leaf in leaves]
