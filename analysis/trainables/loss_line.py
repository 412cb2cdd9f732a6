"""The loss along the straight line through two points in the space of the parameters."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PyTree

from popsim.analysis.arrays import AnyArray, finite_float64
from popsim.analysis.trainables.ensemble_loss import over_members
from popsim.analysis.trainables.recorded import arrays_by_name
from popsim.model import AbstractModel
from popsim.parameters import picked_parameters
from popsim.task import AbstractTask
from popsim.trial import Trial

POSITIONS = np.linspace(-0.25, 1.25, 31)


class LossLine(NamedTuple):
    """The loss along a line.

    - `positions` [point]: where, 0 at the first model and 1 at the second.
    - `loss` [point, member]: the mean total loss over the trials.
    """

    positions: Float[np.ndarray, " point"]
    loss: Float[np.ndarray, "point member"]


def loss_along_line(
    start: AbstractModel,
    end: AbstractModel,
    task: AbstractTask,
    *,
    where: Callable[[Any], Any] | None = None,
    trials: Trial | None = None,
    positions: Float[AnyArray, " point"] = POSITIONS,
    key: Key[Array, ""],
) -> LossLine:
    """The loss of (1 - x) W_start + x W_end, for all members and points in one compiled call.

    A line without a barrier between two solutions says that they are in one basin (Goodfellow, Vinyals &
    Saxe 2015, arXiv 1412.6544). Trials and noise are the same at all points; the precision is that of the
    models.

    **Arguments:**

    - `start`, `end`: ensembles of the same structure, such as `run.models(batch=99)` and `run.ensemble`.
    - `task`: for its loss.
    - `where`: picks the weights W, as `where_train` of a training does: of parts of the model the parameters
        (`popsim.is_parameter`), single arrays in any case. None for all parameters. All else is the same in
        both ensembles.
    - `trials`: stacked; None for the task's validation trials.
    - `positions`: x, also below 0 and above 1.
    - `key`: for the noise; that of `popsim.evaluate_ensemble`.

    **Raises:** `ValueError` if the ensembles differ in structure, or in what `where` does not pick, if
    `where` picks what is no part of them, or the models refuse the trials.
    """
    both_arrays = [eqx.filter(ensemble, eqx.is_inexact_array) for ensemble in (start, end)]
    shapes = [jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), arrays) for arrays in both_arrays]
    if shapes[0] != shapes[1]:
        raise ValueError("`end` must be an ensemble of the structure and the shapes of `start`.")
    picked = picked_parameters(start, where, argument="`where`")
    from_arrays, rest = eqx.partition(start, picked)
    to_arrays = eqx.filter(end, picked)
    _check_same(*(eqx.filter(arrays, picked, inverse=True) for arrays in both_arrays))
    places = finite_float64("positions", positions)

    def along(loss, both):
        one, other, other_arrays = both

        def at(x):
            def between(a, b):
                return (1 - x.astype(a.dtype)) * a + x.astype(a.dtype) * b

            return loss(eqx.combine(jax.tree.map(between, one, other), other_arrays))

        return jax.lax.map(at, jnp.asarray(places))

    losses = over_members(along, start, task, trials, key)((from_arrays, to_arrays, rest))
    return LossLine(places, np.asarray(losses, np.float64).T)


def _check_same(start: PyTree, end: PyTree) -> None:
    """Raise `ValueError` naming the arrays in which two ensembles differ beside the weights."""
    one, other = arrays_by_name(start), arrays_by_name(end)
    if differing := [name for name in one if not np.array_equal(one[name], other[name], equal_nan=True)]:
        raise ValueError(
            f"`where` must pick all that differs between `start` and `end`, also {', '.join(differing)}: "
            "constants are picked only by their arrays themselves."
        )
