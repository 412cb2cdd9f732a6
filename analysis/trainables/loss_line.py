"""The loss along the straight line through two points in the space of the parameters."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from popsim.analysis.arrays import AnyArray, finite_float64
from popsim.analysis.trainables.ensemble_loss import over_members
from popsim.model import AbstractModel
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
    - `trials`: stacked; None for the task's validation trials.
    - `positions`: x, also below 0 and above 1.
    - `key`: for the noise; that of `popsim.evaluate_ensemble`.

    **Raises:** `ValueError` if the ensembles differ in structure, or the models refuse the trials.
    """
    from_arrays, rest = eqx.partition(start, eqx.is_inexact_array)
    to_arrays = eqx.filter(end, eqx.is_inexact_array)
    shapes = [jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), tree) for tree in (from_arrays, to_arrays)]
    if shapes[0] != shapes[1]:
        raise ValueError("`end` must be an ensemble of the structure and the shapes of `start`.")
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
