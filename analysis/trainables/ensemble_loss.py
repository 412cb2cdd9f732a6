"""The loss of all members on the same trials with the same noise, to be differentiated or repeated."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from popsim.ensemble import member, n_members
from popsim.evaluate import validation_trials
from popsim.model import AbstractModel
from popsim.per_member import member_values, with_member_values
from popsim.randomness import trial_keys
from popsim.simulate import simulate
from popsim.task import AbstractTask, differs_between_members
from popsim.trial import Trial, n_trials

LossFn = Callable[[AbstractModel], Float[Array, ""]]


def over_members(
    function: Callable[[LossFn, PyTree[Array]], PyTree[Array]],
    ensemble: AbstractModel,
    task: AbstractTask,
    trials: Trial | None,
    key: Key[Array, ""],
) -> Callable[[PyTree[Array]], PyTree[Array]]:
    """`function` for all members at once, in a program that is compiled at its first call.

    **Arguments:**

    - `function`: from a member's loss, which is that of a model, and the member's arrays.
    - `ensemble`: says how many members there are, and which trials their models accept.
    - `task`: for its loss; what it holds as `PerMember` each member has of its own.
    - `trials`: stacked, the same for all members; None for the validation trials.
    - `key`: for the noise, which is that of `popsim.evaluate_ensemble` with this key: the same at each call.

    **Returns:** a function of arrays that lead with the member axis.
    """
    count = n_members(ensemble)
    each_its_own = trials is None and differs_between_members(task)
    drawn = validation_trials(task, count) if trials is None else trials
    flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), drawn) if each_its_own else drawn
    member(ensemble, 0).check(flat)
    own_values = member_values(task, count, "task")

    def one_member(arrays, values, own_trials, member_id):
        own_task = with_member_values(task, values)
        return function(lambda model: mean_loss(model, own_task, own_trials, key, member_id), arrays)

    in_axes = (eqx.if_array(0), 0, 0 if each_its_own else None, 0)
    compiled = eqx.filter_jit(eqx.filter_vmap(one_member, in_axes=in_axes))
    return lambda arrays: compiled(arrays, own_values, drawn, jnp.arange(count))


def mean_loss(
    model: AbstractModel, task: AbstractTask, trials: Trial, key: Key[Array, ""], member_id: Any
) -> Float[Array, ""]:
    """The mean over trials of the total loss of one model, with the noise of `popsim.evaluate`."""

    def one_trial(trial, trial_key):
        return task.loss(simulate(model, trial, key=trial_key), trial, model).total

    keys = trial_keys(key, n_trials(trials), member_id=member_id)
    return jnp.mean(jax.vmap(one_trial)(trials, keys))
