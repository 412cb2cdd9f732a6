"""Values of tasks, losses and optimizers that differ between the members of an ensemble."""

from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PyTree, Shaped

__all__ = ["PerMember", "ScaledLearningRate", "select_member"]

Tree = TypeVar("Tree")
MOST_MEMBERS = 1_000_000


class PerMember(eqx.Module):
    """An array leaf of a task, a loss or an optimizer that differs between members.

    The arrays of an ensemble always differ between members; tasks, losses and optimizers are shared, except
    for leaves wrapped in this class: `PositionError() + PerMember([1e-5, 1e-4]) * Effort()`, or
    `equinox.tree_at(lambda task: task.workspace.high, task, PerMember(corners))`. Training and
    `evaluate_ensemble` give each member its value; `select_member` returns the task of one member.

    The product with a number or an array, which is shared, is a floating-point `PerMember`; so is that with
    another `PerMember`, taken per member. The product with a schedule is a `ScaledLearningRate`.

    **Arguments:**

    - `values`: one value per member, on the first axis.
    """

    values: Shaped[Array, "member ..."] = eqx.field(converter=jnp.asarray)

    __array_ufunc__ = None  # so that a NumPy number times this calls `__rmul__`

    def __check_init__(self):
        if self.values.ndim == 0 or self.values.shape[0] == 0:
            description = self.values if self.values.ndim == 0 else "none"
            raise ValueError(f"`values` of PerMember must be one for each member, got {description}.")

    def __mul__(self, factor: Any) -> Any:
        if is_per_member(factor):
            return self._times_member_by_member(factor)
        if eqx.is_array_like(factor):
            numbers = _as_floating(self.values)
            return PerMember(jax.vmap(jnp.multiply, (0, None))(numbers, jnp.asarray(factor, numbers.dtype)))
        if callable(factor) and not hasattr(factor, "__rmul__"):  # loss terms, also callable, have `__rmul__`
            return ScaledLearningRate(factor, self)
        return NotImplemented

    def __rmul__(self, factor: Any) -> Any:
        return self * factor

    def _times_member_by_member(self, factor: "PerMember") -> "PerMember":
        numbers = _as_floating(self.values)
        return PerMember(jax.vmap(jnp.multiply)(numbers, factor.values.astype(numbers.dtype)))


class ScaledLearningRate(eqx.Module):
    """A schedule times a factor per member, such as a learning rate that decays from different values.

    Made by `PerMember([1e-3, 3e-3]) * optax.cosine_decay_schedule(1.0, 1000)`. The optimizers of
    `popsim.training`, and its `inject_hyperparams`, accept it wherever they accept a schedule.

    **Arguments:**

    - `schedule`: a function from the step number to a number.
    - `scale`: the factor; one per member, or that of one member.
    """

    schedule: Callable[[Any], Any]
    scale: PerMember | Float[Array, ""]

    def __call__(self, count: Any) -> Any:
        """Return the value for one member."""
        if isinstance(self.scale, PerMember):
            raise ValueError(
                "a schedule that differs between members must be given to an optimizer of popsim.training, "
                "to popsim.training.inject_hyperparams, or be that of one member: "
                "`popsim.select_member(schedule, index)`."
            )
        return self.schedule(count) * self.scale


def is_per_member(node: Any) -> bool:
    """Return whether a node of a PyTree is a `PerMember`."""
    return isinstance(node, PerMember)


def per_member_nodes(tree: PyTree) -> dict[str, PerMember]:
    """Return every `PerMember` of a PyTree by its path in Python syntax (`.loss.weights['effort']`)."""
    nodes = jax.tree.leaves_with_path(tree, is_leaf=is_per_member)
    return {jax.tree_util.keystr(path): node for path, node in nodes if is_per_member(node)}


def has_per_member(tree: PyTree) -> bool:
    """Return whether a PyTree holds a `PerMember`."""
    return bool(per_member_nodes(tree))


def check_of_one_member(name: str, tree: PyTree) -> None:
    """Raise `ValueError` if the argument called `name` holds a `PerMember`."""
    for path in per_member_nodes(tree):
        raise ValueError(
            f"`{name}` must be that of one member here, but `{name}{path}` differs between members: "
            f"give that of one, `popsim.select_member({name}, index)`."
        )


def check_n_members(tree: PyTree, n_members: int, name: str) -> None:
    """Raise `ValueError` if a `PerMember` in the argument called `name` does not have `n_members` values."""
    for path, node in per_member_nodes(tree).items():
        if node.values.shape[0] != n_members:
            raise ValueError(
                f"`{name}{path}` must hold a value for each of the {n_members} members, "
                f"got {node.values.shape[0]}."
            )


def member_values(tree: PyTree, n_members: int, name: str) -> PyTree[Array]:
    """Return a PyTree with the arrays of its `PerMember` and None elsewhere, for use with `vmap`."""
    check_n_members(tree, n_members, name)
    return jax.tree.map(
        lambda node: node.values if is_per_member(node) else None, tree, is_leaf=is_per_member
    )


def with_member_values(tree: Tree, values: PyTree[Array]) -> Tree:
    """Replace each `PerMember` in a PyTree by one member's slice of `member_values`."""
    slices = iter(jax.tree.leaves(values))
    return jax.tree.map(
        lambda node: next(slices) if is_per_member(node) else node, tree, is_leaf=is_per_member
    )


def without_member_axes(tree: PyTree) -> PyTree:
    """Replace each `PerMember` in a PyTree by its first value, which gives the structure of one member's."""
    return jax.tree.map(
        lambda node: node.values[0] if is_per_member(node) else node, tree, is_leaf=is_per_member
    )


def aligned_mask(mask: Bool[Any, "*member"], values: Shaped[Any, "..."]) -> Bool[Any, "..."]:
    """Return a mask of members with further axes of length 1, to stand beside values of theirs."""
    return mask.reshape(mask.shape + (1,) * (values.ndim - mask.ndim))


def select_member(tree: Tree, index: int) -> Tree:
    """Return the task, loss or other PyTree of one member of an ensemble.

    **Arguments:**

    - `tree`: the PyTree of all members; returned unchanged if it holds no `PerMember`.
    - `index`: the index of the member, from 0.
    """

    def value_of(node: Any) -> Any:
        if not is_per_member(node):
            return node
        count = node.values.shape[0]
        if not isinstance(index, int | np.integer) or not 0 <= index < count:
            raise ValueError(f"`index` must be a member, 0 to {count - 1}, got {index!r}.")
        return node.values[index]

    return jax.tree.map(value_of, tree, is_leaf=is_per_member)


def _as_floating(values: Shaped[Array, "..."]) -> Float[Array, "..."]:
    return values if jnp.issubdtype(values.dtype, jnp.floating) else values.astype(jnp.result_type(float))
