"""The loss of a training batch of a task, as a loss function for a train step."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from popsim.loss import LossValues
from popsim.model import AbstractModel
from popsim.randomness import trial_keys
from popsim.simulate import simulate
from popsim.task import AbstractTask
from popsim.training.training_trials import training_trials


class TaskLoss(eqx.Module):
    """Mean loss of one member over the trials of a training batch, drawn from the key of the step."""

    task: AbstractTask
    batch_size: int = eqx.field(static=True)
    shared_trials: bool = eqx.field(static=True)
    remat: bool = eqx.field(static=True)

    def __call__(
        self,
        model: AbstractModel,
        state: None,
        rng: Key[Array, ""],
        *,
        batch: Int[Array, ""],
        member_id: Int[Array, ""],
    ) -> tuple[Float[Array, ""], None, LossValues]:
        """`loss_fn` of `build_train_step_fn`; its outputs are the mean weighted terms."""
        drawn_for = None if self.shared_trials else member_id
        trials = training_trials(self.task, self.batch_size, batch=batch, member_id=drawn_for, key=rng)

        def one_trial(trial, key):
            states = simulate(model, trial, remat=self.remat, key=key)
            return self.task.loss(states, trial, model)

        keys = trial_keys(rng, self.batch_size, member_id=member_id)
        values = jax.tree.map(jnp.mean, jax.vmap(one_trial)(trials, keys))
        return values.total, state, values
