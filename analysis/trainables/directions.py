"""Directions in weight space: losses along lines, and alignment with gradients and between members."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PyTree

from popsim._compiled import jit
from popsim.analysis._arrays import AnyArray, finite_float64
from popsim.analysis.trainables import trainable_arrays
from popsim.ensemble import n_members
from popsim.evaluation import prepare_trials
from popsim.model import AbstractModel, simulate
from popsim.parameters import picked_parameters
from popsim.per_member import member_values, with_member_values
from popsim.randomness import trial_keys
from popsim.task import AbstractTask
from popsim.trial import Trial, n_trials

__all__ = [
    "LossLine",
    "loss_along_line",
    "update_gradient_alignment",
    "member_alignment",
    "input_output_change",
]

LossFn = Callable[[AbstractModel], Float[Array, ""]]


def map_over_members(
    function: Callable[[LossFn, PyTree[Array]], PyTree[Array]],
    ensemble: AbstractModel,
    task: AbstractTask,
    trials: Trial | None,
    key: Key[Array, ""],
) -> Callable[[PyTree[Array]], PyTree[Array]]:
    """Map a function of a member's loss, itself one of a model, and of its arrays over all members."""
    count = n_members(ensemble)
    trial_batch, each_its_own = prepare_trials(ensemble, task, trials)
    own_values = member_values(task, count, "task")

    def one_member(arrays, values, own_trials, member_id):
        own_task = with_member_values(task, values)
        return function(lambda model: mean_loss(model, own_task, own_trials, key, member_id), arrays)

    in_axes = (eqx.if_array(0), 0, 0 if each_its_own else None, 0)
    return lambda arrays: _map_members(
        one_member, in_axes, arrays, own_values, trial_batch, jnp.arange(count)
    )


@jit
def _map_members(function: Callable[..., Any], in_axes: tuple[Any, ...], *arguments: PyTree[Array]) -> Any:
    return eqx.filter_vmap(function, in_axes=in_axes)(*arguments)


def mean_loss(
    model: AbstractModel, task: AbstractTask, trials: Trial, key: Key[Array, ""], member_id: Any
) -> Float[Array, ""]:
    """Return the mean total loss of one model over trials, with the noise of `popsim.evaluate`."""

    def one_trial(trial, trial_key):
        return task.loss(simulate(model, trial, key=trial_key), trial, model).total

    keys = trial_keys(key, n_trials(trials), member_id=member_id)
    return jnp.mean(jax.vmap(one_trial)(trials, keys))


POSITIONS = np.linspace(-0.25, 1.25, 31)


class LossLine(NamedTuple):
    """The loss along a line in weight space.

    - `positions` [point]: 0 at the first model and 1 at the second.
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
    """Return the loss of (1 - x) W_start + x W_end, for all members and points in one compiled call.

    See Goodfellow, Vinyals & Saxe 2015, arXiv 1412.6544. Trials and noise are the same at all points; the
    precision is that of the models.

    **Arguments:**

    - `start`, `end`: ensembles of the same structure, such as `run.models(batch=99)` and `run.ensemble`.
    - `where`: selects the weights W, like `where_train` in training. All else must be equal in both.
    - `trials`: stacked; None for the task's validation trials.
    - `positions`: x; may be below 0 and above 1.
    - `key`: for the noise, as in `popsim.evaluate_ensemble`.
    """
    both_arrays = [eqx.filter(ensemble, eqx.is_inexact_array) for ensemble in (start, end)]
    shapes = [jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), arrays) for arrays in both_arrays]
    if shapes[0] != shapes[1]:
        raise ValueError("`end` must be an ensemble of the structure and the shapes of `start`.")
    picked = picked_parameters(start, where, argument="`where`")
    from_arrays, constants = eqx.partition(start, picked)
    to_arrays = eqx.filter(end, picked)
    prepare_trials(end, task, trials)  # as those of `start` are checked below
    _check_same(*(eqx.filter(arrays, picked, inverse=True) for arrays in both_arrays))
    places = finite_float64("positions", positions)

    def along(loss, both):
        from_values, to_values, other_arrays = both

        def at(x):
            def interpolate(a, b):
                return (1 - x.astype(a.dtype)) * a + x.astype(a.dtype) * b

            return loss(eqx.combine(jax.tree.map(interpolate, from_values, to_values), other_arrays))

        return jax.lax.map(at, jnp.asarray(places))

    losses = map_over_members(along, start, task, trials, key)((from_arrays, to_arrays, constants))
    return LossLine(places, np.asarray(losses, np.float64).T)


def _check_same(start: PyTree, end: PyTree) -> None:
    """Raise `ValueError` naming the arrays outside W in which two ensembles differ."""
    first, last = trainable_arrays.arrays_by_name(start), trainable_arrays.arrays_by_name(end)
    if differing := [name for name in first if not np.array_equal(first[name], last[name], equal_nan=True)]:
        raise ValueError(
            f"`where` must pick all that differs between `start` and `end`, also {', '.join(differing)}: "
            "constants are picked only by their arrays themselves."
        )


def update_gradient_alignment(
    history: Mapping[Any, Any],
    ensemble: AbstractModel,
    task: AbstractTask,
    *,
    trials: Trial | None = None,
    groups: Mapping[str, Sequence[str]] | None = None,
    key: Key[Array, ""],
) -> dict[str, Float[np.ndarray, "step member"]]:
    """Return the cosine between W(t+1) - W(t) and minus the gradient of the mean loss at W(t).

    It is 1 if each recorded step is plain gradient descent on these trials. It is smaller with other trials,
    more than one batch between rows, momentum, Adam or a rule that does not follow the gradient. One compiled
    program computes the gradients of all members, in the precision of the ensemble.

    **Arguments:**

    - `history`: arrays (batch, member, ...) by name, such as `run.history.dataset`, read by two rows.
    - `ensemble`: provides the arrays that are not in the history, such as `run.ensemble`.
    - `trials`: for the loss, stacked, the same for all; None for the task's validation trials.
    - `groups`: as for `distance_travelled`.
    - `key`: for the noise, as in `popsim.evaluate_ensemble`, the same at all rows.

    **Returns:** by group the cosine at each row but the last; NaN where nothing changed.
    """
    arrays = trainable_arrays.recorded_arrays(history)
    members = trainable_arrays.arrays_by_group(history, groups)
    n_rows, n_members = next(iter(arrays.values())).shape[:2]
    dtypes = {name: jnp.asarray(0, array.dtype).dtype for name, array in arrays.items()}

    def gradients(loss, both):
        weights, model = both
        return jax.grad(lambda values: loss(trainable_arrays.with_arrays(model, values)))(weights)

    downhill = map_over_members(gradients, ensemble, task, trials, key)
    cosines = {group: np.full((n_rows - 1, n_members), np.nan) for group in members}
    now = _row(arrays, 0)
    for step in range(n_rows - 1):
        after = _row(arrays, step + 1)
        weights = {name: jnp.asarray(values, dtypes[name]) for name, values in now.items()}
        gradient = downhill((weights, ensemble))
        for group, names in members.items():
            update = _flat({name: after[name] - now[name] for name in names}, n_members)
            cosines[group][step] = _cosine(
                update, -_flat({name: gradient[name] for name in names}, n_members)
            )
        now = after
    return cosines


def _row(arrays: Mapping[str, Any], row: int) -> dict[str, np.ndarray]:
    return {name: np.asarray(array[row], np.float64) for name, array in arrays.items()}


def _flat(arrays: Mapping[str, Any], n_members: int) -> np.ndarray:
    parts = [np.asarray(values, np.float64).reshape(n_members, -1) for values in arrays.values()]
    return np.concatenate(parts, axis=1)


def _cosine(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    return np.sum(a * b, axis=1) / np.where(norms > 0, norms, np.nan)


def member_alignment(changes: Float[AnyArray, "member ..."]) -> Float[np.ndarray, "member member"]:
    """Return the cosine between the changes of each pair of members, entry by entry.

    Use it for members with the same initial weights, such as copies of one network in several tasks. Units of
    others do not correspond: compare `input_output_change`.

    **Arguments:**

    - `changes`: of all members, such as `weights[-1] - initial` of one array of a history.

    **Returns:** 1 on the diagonal; NaN for a member that did not change.
    """
    values = finite_float64("changes", changes)
    flat = values.reshape(values.shape[0], -1)
    norms = np.linalg.norm(flat, axis=1, keepdims=True)
    directions = flat / np.where(norms > 0, norms, np.nan)
    return directions @ directions.T


def input_output_change(
    changes: Float[AnyArray, "member units units"],
    *,
    readout: Float[AnyArray, "member outputs units"],
    inputs: Float[AnyArray, "member units inputs"],
) -> Float[np.ndarray, "member outputs inputs"]:
    """Return the change of recurrent weights between inputs and outputs, W_out dW W_in.

    It does not depend on the order of units, so it can be compared between members whose units do not
    correspond.

    **Arguments:**

    - `changes`: dW [post, pre]; of a GRU the block of the candidate, the last third of the rows.
    - `readout`: W_out.
    - `inputs`: W_in; of a GRU the same block.
    """
    weight_changes = finite_float64("changes", changes)
    return finite_float64("readout", readout) @ weight_changes @ finite_float64("inputs", inputs)
