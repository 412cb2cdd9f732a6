"""Who the members of an ensemble are: settings times seeds."""

import dataclasses
from collections.abc import Sequence
from typing import Any, TypeVar

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Int, PyTree, Shaped

from popsim.checks import check_positive_int
from popsim.per_member import PerMember

Tree = TypeVar("Tree", bound=PyTree)


@dataclasses.dataclass(frozen=True, eq=False)
class Members:
    """Who the members of an ensemble are: which seed each has, and which settings.

    Members are a grid: one axis for each setting, then the seeds. Made by `member_grid`. In a PyTree this
    is a leaf, or static: two are equal if all of theirs is.

    **Arguments:**

    - `ids`: the seed of each member. From it the member's random draws come: two members with one id have
        the same initial weights and see the same trials, so that settings are compared on the same seeds.
    - `settings`: for each setting the value that each member has of it.
    - `shape`: how many values each setting has, in the order of `settings`, then how many seeds there are.

    **Raises:** `ValueError` if these do not fit together, or a setting is called "seed".
    """

    ids: Int[np.ndarray, " member"]
    settings: dict[str, Shaped[np.ndarray, "member ..."]]
    shape: tuple[int, ...]

    def __post_init__(self):
        if "seed" in self.settings:
            raise ValueError('`settings` must not be called "seed": that is the last axis of the grid.')
        if len(self.shape) != len(self.settings) + 1 or np.prod(self.shape) != self.n_members:
            raise ValueError(
                f"`shape` must have the sizes of {list(self.names)}, whose product is the number of members, "
                f"{self.n_members}, got {self.shape}."
            )
        for name, values in self.settings.items():
            if values.shape[:1] != (self.n_members,):
                raise ValueError(
                    f"`settings[{name!r}]` must hold a value for each of the {self.n_members} members, "
                    f"got shape {values.shape}."
                )

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
        """How many members there are."""
        return self.ids.shape[0]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the axes of the grid: the settings, then "seed"."""
        return (*self.settings, "seed")

    @property
    def labels(self) -> dict[str, np.ndarray]:
        """For each axis of the grid, by name, what its places stand for."""
        by_member = self.settings | {"seed": self.ids}
        first_of_others = (slice(None), *[0] * (len(self.shape) - 1))
        return {
            name: np.moveaxis(self.group(values, axis=0), place, 0)[first_of_others]
            for place, (name, values) in enumerate(by_member.items())
        }

    def per_member(self, name: str) -> PerMember:
        """A setting, to be put into a task, a loss or an optimizer.

        **Raises:** `ValueError` if there is no such setting, or it is not numeric.
        """
        return PerMember(self._numbers(name))

    def numbers(self, names: Sequence[str]) -> dict[str, Shaped[np.ndarray, "member ..."]]:
        """Some of the settings, each a number or an array of numbers for each member.

        **Raises:** `ValueError` if there is no such setting, or it is not numeric.
        """
        return {name: self._numbers(name) for name in names}

    def group(self, values: Tree, axis: int) -> Tree:
        """Arrays with the member axis replaced by the axes of the grid: one for each setting, then the seed.

        `members.group(history.loss.total, axis=1)` has the axes (batch, *settings, seed).

        **Arguments:**

        - `values`: a numpy or JAX array, or a PyTree of them.
        - `axis`: which axis is that of the members, in all of them.

        **Raises:** `ValueError` if that axis of an array has another length.
        """

        def grouped(path: tuple, leaf: Any) -> Any:
            if not eqx.is_array(leaf):
                return leaf
            if not -leaf.ndim <= axis < leaf.ndim or leaf.shape[axis] != self.n_members:
                raise ValueError(
                    f"`values{jax.tree_util.keystr(path)}` must have the {self.n_members} members on axis "
                    f"{axis}, got shape {leaf.shape}."
                )
            at = axis % leaf.ndim
            return leaf.reshape(*leaf.shape[:at], *self.shape, *leaf.shape[at + 1 :])

        return jax.tree.map_with_path(grouped, values)

    def select(self, index: int) -> "Members":
        """One member alone, with its id and its settings: trained alone it is what it is among all.

        **Raises:** `ValueError` if there is no such member.
        """
        if not 0 <= index < self.n_members:
            raise ValueError(f"`index` must be a member, 0 to {self.n_members - 1}, got {index}.")
        own = slice(index, index + 1)
        settings = {name: values[own] for name, values in self.settings.items()}
        return Members(self.ids[own], settings, (1,) * len(self.shape))

    def _numbers(self, name: str) -> Shaped[np.ndarray, "member ..."]:
        if name not in self.settings:
            raise ValueError(f"`name` must be a setting of the members, {list(self.settings)}, got {name!r}.")
        values = self.settings[name]
        if not (np.issubdtype(values.dtype, np.number) or values.dtype == bool):
            raise ValueError(f"the setting {name!r} must be of numbers here, got {values.dtype}.")
        return values


def member_grid(n_seeds: int, **settings: Any) -> Members:
    """All combinations of the values of some settings, each with the same seeds.

    ```python
    members = member_grid(5, learning_rate=[1e-3, 3e-3], noise=[0.0, 0.1, 0.2])  # 30 members
    trainer = TaskTrainer(adam(members.per_member("learning_rate")))
    ensemble = build_members(build, members, settings=["noise"], key=key)
    ```

    **Arguments:**

    - `n_seeds`: how many members have each combination; their ids are 0 to `n_seeds - 1`.
    - `settings`: for each setting its values, on the first axis.

    **Returns:** the members; the last setting changes faster than those before it, the seed fastest.

    **Raises:** `ValueError` if `n_seeds` is not a positive whole number, or a setting has no values.
    """
    check_positive_int("n_seeds", n_seeds)
    values = {name: np.asarray(given) for name, given in settings.items()}
    for name, given in values.items():
        if given.ndim == 0 or given.shape[0] == 0:
            raise ValueError(
                f"`{name}` must be a list of at least one value of the setting, got {settings[name]!r}."
            )
    shape = (*[given.shape[0] for given in values.values()], n_seeds)
    *places, seeds = np.indices(shape).reshape(len(shape), -1)
    by_member = {name: given[place] for (name, given), place in zip(values.items(), places, strict=True)}
    return Members(seeds, by_member, shape)
