"""What trained models do: run a model, or an ensemble, on stacked trials and score it."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key, PyTree

from popsim.ensemble import member, n_members
from popsim.loss import LossValues
from popsim.model import AbstractModel
from popsim.randomness import trial_keys
from popsim.simulate import simulate
from popsim.task import AbstractTask
from popsim.trial import Trial, n_trials


class Evaluation(eqx.Module):
    """States (leaves lead with (member,) trial, time) and losses (with (member,) trial) of trials."""

    states: PyTree[Array]
    losses: LossValues


def evaluate(
    model: AbstractModel,
    task: AbstractTask,
    *,
    trials: Trial | None = None,
    member_id: int = 0,
    key: Key[Array, ""],
) -> Evaluation:
    """Run a model on stacked trials and compute the task's loss of each.

    For a run without noise, give `without_noise(model)`.

    **Arguments:**

    - `model`: one model.
    - `task`: the task, for its loss.
    - `trials`: the trials, stacked; by default the task's validation trials.
    - `member_id`: which member of an ensemble the model is: it gets the noise that it has in
        `evaluate_ensemble`.
    - `key`: for the noise; that of trial i depends on `key`, `member_id` and i alone.

    **Raises:** `ValueError` if the model refuses the trials.
    """
    trials = task.validation_trials() if trials is None else trials
    model.check(trials)
    return _evaluate(model, task, trials, key, jnp.asarray(member_id))


def evaluate_ensemble(
    ensemble: AbstractModel, task: AbstractTask, *, trials: Trial | None = None, key: Key[Array, ""]
) -> Evaluation:
    """`evaluate` for every member of an ensemble, all on the same trials, each with its own noise.

    Leaves of the result lead with the member axis. Arguments as for `evaluate`, without `member_id`.

    **Raises:** `ValueError` if the model refuses the trials, or `ensemble` has no common member axis.
    """
    trials = task.validation_trials() if trials is None else trials
    member_ids = jnp.arange(n_members(ensemble))
    member(ensemble, 0).check(trials)
    return _evaluate_ensemble(ensemble, task, trials, key, member_ids)


@eqx.filter_jit
def _evaluate(
    model: AbstractModel, task: AbstractTask, trials: Trial, key: Key[Array, ""], member_id: Int[Array, ""]
) -> Evaluation:
    def one_trial(trial, trial_key):
        states = simulate(model, trial, key=trial_key)
        return Evaluation(states, task.loss(states, trial, model))

    return jax.vmap(one_trial)(trials, trial_keys(key, n_trials(trials), member_id=member_id))


@eqx.filter_jit
def _evaluate_ensemble(
    ensemble: AbstractModel,
    task: AbstractTask,
    trials: Trial,
    key: Key[Array, ""],
    member_ids: Int[Array, " member"],
) -> Evaluation:
    in_axes = (eqx.if_array(0), None, None, None, 0)
    return eqx.filter_vmap(_evaluate, in_axes=in_axes)(ensemble, task, trials, key, member_ids)
