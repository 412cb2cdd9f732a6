"""The trials of a batch once more, with a perturbation."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, DTypeLike, Float, Key

from popsim.model import AbstractModel
from popsim.randomness import trial_keys
from popsim.simulate import simulate
from popsim.training.model_updates import TrainedBatch


def draw_per_trial(
    batch: TrainedBatch, shape: tuple[int, ...], dtype: DTypeLike, *, key: Key[Array, ""]
) -> Float[Array, "trial ..."]:
    """Standard normal numbers of the given shape for each trial; those of trial i depend on i and `key`."""
    keys = trial_keys(key, batch.keys.shape[0], member_id=None)
    return jax.vmap(lambda own: jax.random.normal(own, shape, dtype))(keys)


def increase_of_loss(
    perturbed: Callable[[Array], tuple[AbstractModel, AbstractModel]],
    perturbations: Float[Array, "trial ..."],
    batch: TrainedBatch,
) -> Float[Array, " trial"]:
    """By how much the total loss of each trial is larger if it is perturbed, all other noise being the same.

    **Arguments:**

    - `perturbed`: makes from a trial's perturbation the model that runs the trial, and the model that the
        loss is told of.
    - `perturbations`: one for each trial.
    - `batch`: the trials, as they ran without.
    """

    def total(trial, key, perturbation):
        runs, told = perturbed(perturbation)
        return jnp.asarray(batch.loss(simulate(runs, trial, key=key), trial, told).total)

    return jax.vmap(total)(batch.trials, batch.keys, perturbations) - jnp.asarray(batch.losses.total)
