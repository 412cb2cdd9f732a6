"""The contract of a constraint: what holds after each train step."""

import abc
from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from popsim.parameters import picked_parameters
from popsim.per_member import check_of_one_member

Tree = TypeVar("Tree", bound=PyTree)


class AbstractConstraint(eqx.Module):
    """Makes a condition on weights hold after each train step: projected gradient descent.

    An entry of `post_step_fns` of `TaskTrainer` (a function of the model of one member) or of `post_lst`
    of `train_step_post` (a function of the parameters). To have it hold before the first step too, call it
    on the model, or map it over the members of an ensemble: `equinox.filter_vmap(constraint)(ensemble)`.

    A subclass supplies `where` and `project`. Its numbers are array leaves, or `popsim.PerMember`; `project`
    gets them with `of_one_member`.

    !!! example

        ```python
        >>> import equinox as eqx, jax, jax.numpy as jnp
        >>> from collections.abc import Callable
        >>> from popsim.training.constraints import AbstractConstraint
        >>> class ZeroMean(AbstractConstraint):
        ...     "The weights onto each unit add up to zero."
        ...     where: Callable = eqx.field(static=True)
        ...     def project(self, weights):
        ...         return weights - jnp.mean(weights, axis=-1, keepdims=True)
        >>> layer = eqx.nn.Linear(3, 2, key=jax.random.key(0))
        >>> balanced = ZeroMean(lambda model: model.weight)(layer)
        >>> bool(jnp.allclose(jnp.sum(balanced.weight, axis=-1), 0, atol=1e-6))
        True

        ```
    """

    where: eqx.AbstractVar[Callable[[Any], Any]]

    @abc.abstractmethod
    def project(self, weights: Float[Array, "..."]) -> Float[Array, "..."]:
        """The array nearest to `weights`, or one near, for which the condition holds, of the same shape.

        An array for which it holds already is returned as it is.

        **Raises:** `ValueError` if the shape of `weights` does not fit.
        """

    def __call__(self, model: Tree) -> Tree:
        """The model, or its parameters, with what `where` picks projected.

        **Arguments:**

        - `model`: one model, or what is trained of it in the structure of the model, None elsewhere.
            `where` picks from it one array or several, or parts of it, whose parameters
            (`popsim.is_parameter`) are projected, each by itself. None stays None.

        **Raises:** `ValueError` if `where` picks something that is no part of `model`, no parameter nor other
        floating-point array, or a complex array; or as `project`.
        """
        argument = f"`where` of {type(self).__name__}"
        picked = picked_parameters(model, self.where, argument=argument)

        def projected(is_picked: bool, leaf: Any) -> Any:
            if is_picked and jnp.iscomplexobj(leaf):
                raise ValueError(f"{argument} must pick floating-point arrays, got {leaf.dtype}.")
            return self.project(leaf) if is_picked else leaf

        return jax.tree.map(projected, picked, model)

    def of_one_member(self, name: str) -> Array:
        """The field of that name, an array.

        **Raises:** `ValueError` if a field holds an array for each member of an ensemble.
        """
        check_of_one_member("constraint", self)
        return getattr(self, name)

    def check_matrix(self, weights: Float[Array, "..."]) -> None:
        """Raise `ValueError` unless `weights` has two axes, [post, pre]."""
        if weights.ndim != 2:
            raise ValueError(
                f"`where` of {type(self).__name__} must pick matrices [post, pre] of one model, "
                f"got an array of shape {weights.shape}."
            )
