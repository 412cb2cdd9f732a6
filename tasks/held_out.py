"""A task some of whose conditions are not trained."""

from collections.abc import Callable, Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Key

from popsim.checks import check_positive_int
from popsim.loss import Loss
from popsim.randomness import key_stream
from popsim.task import AbstractTask
from popsim.trial import Trial, label_trial

Conditions = Mapping[str, Array]


class HeldOut(AbstractTask):
    """A task some of whose conditions do not come in training, to see how networks generalise.

    `HeldOut(task, lambda conditions: abs(conditions["direction"]) < 0.5)`. A training trial that is held
    out is drawn anew. The validation trials are all those of the task; their condition "held out" says which
    were never trained.

    **Arguments:**

    - `task`: the task.
    - `is_held_out`: from the conditions of one trial to whether it is held out; traced.
    - `n_attempts`: how often a trial is drawn at most. If all draws are held out the run stops with an error.
    """

    task: AbstractTask
    is_held_out: Callable[[Conditions], Bool[Array, ""]] = eqx.field(static=True)
    n_attempts: int = eqx.field(static=True)

    def __init__(
        self,
        task: AbstractTask,
        is_held_out: Callable[[Conditions], Bool[Array, ""]],
        *,
        n_attempts: int = 1000,
    ):
        self.task, self.is_held_out, self.n_attempts = task, is_held_out, n_attempts

    def __check_init__(self):
        check_positive_int("n_attempts", self.n_attempts)

    @property
    def loss(self) -> Loss:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The loss of the task."""
        return self.task.loss

    def trial(self, *, batch: int | Int[Array, ""], key: Key[Array, ""]) -> Trial:
        def attempt(index: Int[Array, ""]) -> Trial:
            return self.task.trial(batch=batch, key=jax.random.fold_in(key_stream(key, "attempt"), index))

        def is_rejected(index: Int[Array, ""]) -> Bool[Array, ""]:
            return jnp.asarray(self.is_held_out(attempt(index).conditions))

        accepted = jax.lax.while_loop(
            lambda index: (index < self.n_attempts) & is_rejected(index),
            lambda index: index + 1,
            jnp.array(0),
        )
        accepted = eqx.error_if(
            accepted,
            accepted == self.n_attempts,
            f"`is_held_out` must leave trials to train on, but held out {self.n_attempts} draws in a row.",
        )
        return _labelled(attempt(accepted), jnp.asarray(False))

    def validation_trials(self) -> Trial:
        return jax.vmap(lambda trial: _labelled(trial, jnp.asarray(self.is_held_out(trial.conditions))))(
            self.task.validation_trials()
        )


def _labelled(trial: Trial, is_held_out: Bool[Array, ""]) -> Trial:
    return label_trial(trial, {"held out": is_held_out})
