"""Any task, with an input that says when to wait."""

import dataclasses

import equinox as eqx
import jax
from jaxtyping import Array, Int, Key

from popsim.loss import Loss
from popsim.task import AbstractTask
from popsim.timeline import Timeline
from popsim.trial import Trial


class WithFixation(AbstractTask):
    """A task whose networks receive a fixation input: 1 until an event, 0 from then on.

    Where the event never comes, as the go cue in a catch trial, it is 1 throughout.

    **Arguments:**

    - `task`: the task, whose inputs have names.
    - `until`: the event that ends fixation.
    - `name`: of the input.

    **Raises:** `ValueError` when trials are drawn, if they have no such event, or such an input already.
    """

    task: AbstractTask
    until: str = eqx.field(static=True)
    name: str = eqx.field(static=True)

    def __init__(self, task: AbstractTask, until: str = "go cue", *, name: str = "fixation"):
        self.task, self.until, self.name = task, until, name

    @property
    def loss(self) -> Loss:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The loss of the task."""
        return self.task.loss

    def trial(self, *, batch: int | Int[Array, ""], key: Key[Array, ""]) -> Trial:
        return self._fixating(self.task.trial(batch=batch, key=key))

    def validation_trials(self) -> Trial:
        return jax.vmap(self._fixating)(self.task.validation_trials())

    def _fixating(self, trial: Trial) -> Trial:
        if not isinstance(trial.inputs, dict) or self.name in trial.inputs:
            raise ValueError(f"`name` must be a new one beside inputs that have names, got {self.name!r}.")
        return dataclasses.replace(trial, inputs=trial.inputs | {self.name: self._input(trial.timeline)})

    def _input(self, timeline: Timeline) -> Array:
        return (~timeline.since(self.until)).astype(float)[:, None]
