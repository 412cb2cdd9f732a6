"""Whether updates go down the gradient of the loss."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from popsim.analysis.trainables.ensemble_loss import over_members
from popsim.analysis.trainables.recorded import grouped, recorded_arrays, with_arrays
from popsim.model import AbstractModel
from popsim.task import AbstractTask
from popsim.trial import Trial


def update_gradient_alignment(
    history: Mapping[Any, Any],
    ensemble: AbstractModel,
    task: AbstractTask,
    *,
    trials: Trial | None = None,
    groups: Mapping[str, Sequence[str]] | None = None,
    key: Key[Array, ""],
) -> dict[str, Float[np.ndarray, "step member"]]:
    """The cosine between W(t+1) - W(t) and minus the gradient of the mean loss at W(t).

    1 where each recorded step is one of plain gradient descent on these trials; less with other trials,
    with more than one batch between rows, with momentum, Adam or a rule that is not the gradient. Gradients
    of all members are computed in one program, compiled once, in the precision of the ensemble.

    **Arguments:**

    - `history`: arrays (batch, member, ...) by name, such as `run.history.dataset`; two rows are read at a
        time.
    - `ensemble`: has the arrays that are not in the history, such as `run.ensemble`.
    - `task`: for its loss.
    - `trials`: on which the loss is computed, stacked, the same for all members and rows; None for the
        task's validation trials.
    - `groups`: as for `distance_travelled`.
    - `key`: for the noise; that of `popsim.evaluate_ensemble`, the same at all rows.

    **Returns:** by group the cosine at each row but the last; NaN where nothing changed.

    **Raises:** `ValueError` if the history has fewer than two rows, or is not of the ensemble.
    """
    arrays, members = recorded_arrays(history), grouped(history, groups)
    n_rows, n_members = next(iter(arrays.values())).shape[:2]
    if n_rows < 2:
        raise ValueError(f"`history` must hold trainables of two batches or more, got {n_rows}.")
    dtypes = {name: jnp.asarray(0, array.dtype).dtype for name, array in arrays.items()}

    def gradients(loss, both):
        own, model = both
        return jax.grad(lambda values: loss(with_arrays(model, values)))(own)

    downhill = over_members(gradients, ensemble, task, trials, key)
    cosines = {group: np.full((n_rows - 1, n_members), np.nan) for group in members}
    now = _row(arrays, 0)
    for step in range(n_rows - 1):
        after = _row(arrays, step + 1)
        own = {name: jnp.asarray(values, dtypes[name]) for name, values in now.items()}
        found = downhill((own, ensemble))
        for group, names in members.items():
            update = _flat({name: after[name] - now[name] for name in names}, n_members)
            cosines[group][step] = _cosine(update, -_flat({name: found[name] for name in names}, n_members))
        now = after
    return cosines


def _row(arrays: Mapping[str, Any], row: int) -> dict[str, np.ndarray]:
    return {name: np.asarray(array[row], np.float64) for name, array in arrays.items()}


def _flat(arrays: Mapping[str, Any], n_members: int) -> np.ndarray:
    """[member, entry], of all arrays."""
    parts = [np.asarray(values, np.float64).reshape(n_members, -1) for values in arrays.values()]
    return np.concatenate(parts, axis=1)


def _cosine(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    return np.sum(a * b, axis=1) / np.where(norms > 0, norms, np.nan)
