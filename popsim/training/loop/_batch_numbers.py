"""The batches of a training at which something is done."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from jaxtyping import Bool, Int

from popsim.training.loop.schedule import (
    TrainablePhases,
    batch_numbers,
    checked_callbacks,
    enabled_updates,
    kept_batches,
    training_phases,
)
from popsim.training.options import TrainerOptions, Training


@dataclasses.dataclass(frozen=True, eq=False)
class BatchNumbers:
    """The batches of a training at which something is done.

    - `n_batches`: the number of batches.
    - `kept`: those after which the trainables are kept.
    - `specs`: those whose trials are kept.
    - `callbacks`: by batch, the functions to call after it.
    - `resets`: those before which the optimizer state is reset.
    - `enabled`: those in which each model update is applied; None for all.
    - `phases`: the phases, each with its trainable part.
    - `logged`: those after which there is a log point, but for the last one, which always has one.
    """

    n_batches: int
    kept: Int[np.ndarray, " kept"]
    specs: Int[np.ndarray, " spec"]
    callbacks: Mapping[int, Sequence[Callable[[], None]]]
    resets: list[int]
    enabled: Bool[np.ndarray, "batch update"] | None
    phases: TrainablePhases
    logged: range

    def is_logged(self, batch: int) -> bool:
        """Whether there is a log point after a batch."""
        return batch in self.logged or batch == self.n_batches - 1


def number_batches(trainer: TrainerOptions, training: Training) -> BatchNumbers:
    """Return the batches of a training at which something is done."""
    n_batches = training.n_batches
    trainable_batches = kept_batches(training.save_model_trainables, n_batches)
    specs = () if training.save_trial_specs is None else training.save_trial_specs
    spec_batches = batch_numbers("save_trial_specs", specs, n_batches)
    phases = training_phases(training.model, training.where_train)
    phases.check_within(n_batches)
    return BatchNumbers(
        n_batches=n_batches,
        kept=trainable_batches[trainable_batches >= training.start_batch],
        specs=spec_batches[spec_batches >= training.start_batch],
        callbacks=checked_callbacks(training.batch_callbacks or {}, n_batches),
        resets=batch_numbers("reset_opt_state_at", training.reset_opt_state_at, n_batches).tolist(),
        enabled=enabled_updates(training.toggle_model_update_funcs, trainer.model_update_funcs, n_batches),
        phases=phases,
        logged=range(training.log_step - 1, n_batches, training.log_step),
    )
