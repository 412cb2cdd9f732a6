"""Any task, with interventions in its trials."""

from collections import Counter
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Key

from popsim.batch_schedules import LAST_BATCH
from popsim.intervention_plan import InterventionPlan
from popsim.loss import Loss
from popsim.randomness import key_stream
from popsim.task import AbstractTask
from popsim.trial import Trial, n_trials


class WithInterventions(AbstractTask):
    """A task in whose trials interventions act, as their plans say.

    The trials are those of the task itself, to the bit, with interventions scheduled. The validation trials
    are those of the task without any intervention, then all of them again under each plan alone, with the
    parameters that schedules end with and, where they are drawn, the same draws at every call. A condition
    of the name of each intervention says whether it acts in a trial.

    **Arguments:**

    - `task`: the task.
    - `plans`: the plans of the interventions, which the model has to hold; a plan may say that its
        intervention does not act together with those before it.

    **Raises:** `ValueError` if two plans are of one intervention.
    """

    task: AbstractTask
    plans: tuple[InterventionPlan, ...]

    def __init__(self, task: AbstractTask, plans: Sequence[InterventionPlan]):
        self.task, self.plans = task, tuple(plans)

    def __check_init__(self):
        twice = [name for name, count in Counter(plan.name for plan in self.plans).items() if count > 1]
        if twice:
            raise ValueError(f"`plans` must be of different interventions, got {twice} more than once.")

    @property
    def loss(self) -> Loss:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The loss of the task."""
        return self.task.loss

    def trial(self, *, batch: int | Int[Array, ""], key: Key[Array, ""]) -> Trial:
        trial = self.task.trial(batch=batch, key=key)
        for plan in self.plans:
            trial = plan.scheduled(trial, batch=batch, key=key_stream(key, f"plan of {plan.name}"))
        return trial

    def validation_trials(self) -> Trial:
        trials = self.task.validation_trials()
        keys = jax.vmap(jax.random.fold_in, (None, 0))(jax.random.key(0), jnp.arange(n_trials(trials)))
        under = [
            jax.vmap(lambda trial, key, acts=acts: self._planned(trial, acts, key))(trials, keys)
            for acts in jnp.eye(len(self.plans) + 1, len(self.plans), k=-1, dtype=bool)
        ]
        return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *under)

    def _planned(self, trial: Trial, acts: Bool[Array, " plan"], key: Key[Array, ""]) -> Trial:
        for index, plan in enumerate(self.plans):
            own = key_stream(key, f"plan of {plan.name}")
            trial = plan.scheduled_if(acts[index], trial, batch=LAST_BATCH, key=own)
        return trial
