"""Constraints on weights, applied after each step of the optimizer."""

import abc
from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PyTree

from popsim._shared.argument_shapes import check_fields
from popsim._shared.checks import as_float_array, check_numbers, check_positive, check_positive_int, is_traced
from popsim.parameters import picked_parameters
from popsim.per_member import PerMember, check_n_members, check_of_one_member, per_member_nodes, select_member

__all__ = [
    "AbstractConstraint",
    "MaxNorm",
    "UnitNorm",
    "SpectralNorm",
    "Range",
    "NonNegativity",
    "ZeroDiagonal",
    "SparsityMask",
    "dale_signs",
    "DalesLaw",
]

Tree = TypeVar("Tree", bound=PyTree)


class AbstractConstraint(eqx.Module):
    """A condition on weights that holds after each train step: projected gradient descent.

    Pass it in `post_step_fns` of `TaskTrainer` (a function of the model of one member) or `post_lst` of
    `train_step_post` (a function of the parameters). To enforce it before the first step too, call it on the
    model, or map it over the members of an ensemble: `equinox.filter_vmap(constraint)(ensemble)`.

    A subclass supplies `project`. Its numbers are array leaves or `popsim.PerMember`; `project` reads them
    with `of_one_member`.

    **Arguments:**

    - `where`: selects one or several arrays or parts of the model, whose parameters (`popsim.is_parameter`)
        are projected separately.

    !!! example

        ```python
        >>> import equinox as eqx, jax, jax.numpy as jnp
        >>> from popsim.training.constraints import AbstractConstraint
        >>> class ZeroMean(AbstractConstraint):
        ...     "The weights onto each unit add up to zero."
        ...     def project(self, weights):
        ...         return weights - jnp.mean(weights, axis=-1, keepdims=True)
        >>> layer = eqx.nn.Linear(3, 2, key=jax.random.key(0))
        >>> balanced = ZeroMean(lambda model: model.weight)(layer)
        >>> bool(jnp.allclose(jnp.sum(balanced.weight, axis=-1), 0, atol=1e-6))
        True

        ```
    """

    where: Callable[[Any], Any] = eqx.field(static=True)

    def __check_init__(self):
        check_fields(self)

    @abc.abstractmethod
    def project(self, weights: Float[Array, "..."]) -> Float[Array, "..."]:
        """Return the array nearest to `weights`, or one near, that meets the condition, of the same shape.

        An array that already meets it is returned unchanged.
        """

    def __call__(self, model: Tree) -> Tree:
        """Return the model, or its parameters, with the arrays that `where` selects projected.

        **Arguments:**

        - `model`: one model, or its trainable part in the structure of the model, with None elsewhere.
        """
        picked = picked_parameters(model, self.where, argument=f"`where` of {type(self).__name__}")
        return jax.tree.map(lambda is_picked, leaf: self.project(leaf) if is_picked else leaf, picked, model)

    def of_one_member(self, name: str) -> Array:
        """Return the array field called `name`."""
        check_of_one_member("constraint", self)
        return getattr(self, name)

    def check_matrix(self, weights: Float[Array, "..."]) -> None:
        """Raise `ValueError` unless `weights` has two axes, [post, pre]."""
        if weights.ndim != 2:
            raise ValueError(
                f"`where` of {type(self).__name__} must pick matrices [post, pre] of one model, "
                f"got an array of shape {weights.shape}."
            )


def norm_and_direction(
    weights: Float[Array, "..."], axes: int | tuple[int, ...]
) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """Return the norm along `axes`, kept with length one, and the weights divided by it, zeros for zeros."""
    if axes == ():
        raise ValueError("`axis` must be an axis or several, got (): the norm would be that of each weight.")
    # The largest absolute value is divided out before squaring, to avoid overflow and underflow.
    largest = jnp.max(jnp.abs(weights), axis=axes, keepdims=True)
    scale = jnp.where(largest > 0, largest, jnp.ones_like(largest))
    scaled = weights / scale
    norm = jnp.sqrt(jnp.sum(scaled**2, axis=axes, keepdims=True))
    return scale * norm, scaled / jnp.where(norm == 0, jnp.ones_like(norm), norm)


class MaxNorm(AbstractConstraint):
    """The constraint |w| <= max_norm for each vector w along `axis`; a longer one is scaled to `max_norm`.

    Max-norm regularisation (Srivastava et al. 2014, J Mach Learn Res 15:1929), as in the `MaxNorm` of Keras.
    It holds up to rounding; a vector within the limit is unchanged, bit for bit.

    **Arguments:**

    - `where`: selects the arrays, see `AbstractConstraint`.
    - `max_norm`: the limit, which may be a `PerMember`.
    - `axis`: the axis or axes of the norm: of weights [post, pre], -1 for those onto a unit, 0 from it.
    """

    max_norm: Float[Array, ""] | PerMember = eqx.field(converter=as_float_array)
    axis: int | tuple[int, ...] = eqx.field(static=True, default=-1)

    def __check_init__(self):
        check_positive("max_norm", self.max_norm)

    def project(self, weights: Float[Array, "..."]) -> Float[Array, "..."]:
        norm, direction = norm_and_direction(weights, self.axis)
        limit = self.of_one_member("max_norm").astype(weights.dtype)
        return jnp.where(norm > limit, limit * direction, weights)


class UnitNorm(AbstractConstraint):
    """The constraint |w| = 1 for each vector w along `axis`: w / |w|, up to rounding.

    A zero vector stays zero. The arguments `where` and `axis` are those of `MaxNorm`.
    """

    axis: int | tuple[int, ...] = eqx.field(static=True, default=-1)

    def project(self, weights: Float[Array, "..."]) -> Float[Array, "..."]:
        return norm_and_direction(weights, self.axis)[1]


class SpectralNorm(AbstractConstraint):
    """The constraint sigma(W) <= max_norm, the largest singular value; else W becomes W max_norm / sigma.

    The layer then stretches no input by more than `max_norm`, up to rounding. After Miyato et al. 2018, arXiv
    1802.05957, who always divide by an estimate of sigma; here sigma comes from a singular value
    decomposition, in 2 ms at 256 x 256 on one CPU core, and W within the limit is unchanged, bit for bit. A W
    that stacks the gates of a cell in its rows counts as one matrix.

    **Arguments:**

    - `where`: selects the matrices, see `AbstractConstraint`.
    - `max_norm`: the limit, which may be a `PerMember`.
    """

    max_norm: Float[Array, ""] | PerMember = eqx.field(converter=as_float_array)

    def __check_init__(self):
        check_positive("max_norm", self.max_norm)

    def project(self, weights: Float[Array, "..."]) -> Float[Array, "..."]:
        self.check_matrix(weights)
        norm, limit = jnp.linalg.norm(weights, ord=2), self.of_one_member("max_norm").astype(weights.dtype)
        return jnp.where(norm > limit, weights * (limit / norm), weights)


class Range(AbstractConstraint):
    """The constraint low <= w <= high; values outside are clipped to the nearer limit.

    It holds exactly, with the limits rounded to the dtype of the weights. NaN stays NaN.

    **Arguments:**

    - `where`: selects the arrays, see `AbstractConstraint`.
    - `low`, `high`: the limits, numbers (infinite too), arrays that broadcast to the weights or `PerMember`.
    """

    low: Float[Array, "*low"] | PerMember = eqx.field(converter=as_float_array)
    high: Float[Array, "*high"] | PerMember = eqx.field(converter=as_float_array)

    def __check_init__(self):
        check_numbers("low", self.low)
        check_numbers("high", self.high)
        if any(is_traced(leaf) for leaf in jax.tree.leaves(self)):
            return
        n_members = max((node.values.shape[0] for node in per_member_nodes(self).values()), default=1)
        check_n_members(self, n_members, "Range")
        for index in range(n_members):
            low, high = select_member((self.low, self.high), index)
            if not np.all(np.asarray(low) <= np.asarray(high)):
                raise ValueError(f"`low` of Range must not exceed `high`, got {low} and {high}.")

    def project(self, weights: Float[Array, "..."]) -> Float[Array, "..."]:
        # Limits that do not fit the weights are refused; `clip` alone would enlarge the weights.
        low, high = (jnp.broadcast_to(self.of_one_member(name), weights.shape) for name in ("low", "high"))
        return jnp.clip(weights, low.astype(weights.dtype), high.astype(weights.dtype))


class NonNegativity(AbstractConstraint):
    """The constraint w >= 0; negative values become 0. It holds exactly; NaN stays NaN."""

    def project(self, weights: Float[Array, "..."]) -> Float[Array, "..."]:
        return jnp.where(weights < 0, 0, weights)


class ZeroDiagonal(AbstractConstraint):
    """The constraint W_ii = 0, exactly: no unit is connected to itself.

    Weights of shape (k n, n) are k blocks of n x n stacked in the rows, and the diagonal of each becomes 0:
    the recurrent weights of `equinox.nn.GRUCell` are three such blocks (reset, update, candidate).
    """

    def project(self, weights: Float[Array, "..."]) -> Float[Array, "..."]:
        self.check_matrix(weights)
        n_rows, n_columns = weights.shape
        if n_columns == 0 or n_rows % n_columns:
            raise ValueError(
                "`where` of ZeroDiagonal must pick square matrices, or square blocks stacked in the rows, "
                f"got an array of shape {weights.shape}."
            )
        to_itself = jnp.arange(n_rows)[:, None] % n_columns == jnp.arange(n_columns)
        return jnp.where(to_itself, 0, weights)


class SparsityMask(AbstractConstraint):
    """The constraint w = 0 where the mask is False, exactly.

    **Arguments:**

    - `where`: selects the arrays, see `AbstractConstraint`.
    - `mask`: booleans of the shape of the weights, True where there is a connection; may be a `PerMember`.
    """

    mask: Bool[Array, "..."] | PerMember = eqx.field(
        converter=lambda mask: mask if isinstance(mask, PerMember) else jnp.asarray(mask)
    )

    def __check_init__(self):
        values = self.mask.values if isinstance(self.mask, PerMember) else self.mask
        if values.dtype != bool:
            raise ValueError(f"`mask` of SparsityMask must hold booleans, got {values.dtype}.")

    def project(self, weights: Float[Array, "..."]) -> Float[Array, "..."]:
        mask = self.of_one_member("mask")
        if weights.shape != mask.shape:
            raise ValueError(
                f"`mask` of SparsityMask must have the shape of the weights {weights.shape}, "
                f"got {mask.shape}."
            )
        return jnp.where(mask, weights, 0)


def dale_signs(n_units: int, excitatory_fraction: float = 0.8) -> Float[np.ndarray, " units"]:
    """Return +1 for each excitatory unit, then -1 for each inhibitory one.

    The fraction of excitatory units is rounded to whole units.
    """
    check_positive_int("n_units", n_units)
    if not 0 <= excitatory_fraction <= 1:
        raise ValueError(f"`excitatory_fraction` must be from 0 to 1, got {excitatory_fraction}.")
    return np.where(np.arange(n_units) < round(excitatory_fraction * n_units), 1.0, -1.0)


class DalesLaw(AbstractConstraint):
    """The constraint s_j W_ij >= 0 on W[post, pre]: unit j excites (s_j = 1) or inhibits (-1) all targets.

    A weight of the wrong sign becomes 0. Excitatory and inhibitory units as in Song, Yang & Wang 2016, PLoS
    Comput Biol 12:e1004792, who rectify the weights in the forward pass; here they are projected after each
    step. The law holds exactly, in all gates of a GRU; NaN stays NaN. Weights drawn with both signs lose
    their balance: `LeakyRNN(..., signs=signs)` starts with weights that obey the law.

    **Arguments:**

    - `where`: selects the matrices, see `AbstractConstraint`.
    - `signs`: +1 or -1 for each column, which may be a `PerMember`, such as those of `dale_signs`.
    """

    signs: Float[Array, " pre"] | PerMember = eqx.field(converter=as_float_array)

    def __check_init__(self):
        check_numbers("signs", self.signs)
        values = self.signs.values if isinstance(self.signs, PerMember) else self.signs
        if not is_traced(values) and not np.all(np.abs(np.asarray(values)) == 1):
            raise ValueError(f"`signs` of DalesLaw must be +1 or -1, got {self.signs}.")

    def project(self, weights: Float[Array, "..."]) -> Float[Array, "..."]:
        self.check_matrix(weights)
        signs = self.of_one_member("signs")
        if signs.shape != weights.shape[1:]:
            raise ValueError(
                f"`signs` of DalesLaw must be one for each of the {weights.shape[1]} columns of the weights, "
                f"got shape {signs.shape}."
            )
        return jnp.where(weights * signs.astype(weights.dtype) < 0, 0, weights)
