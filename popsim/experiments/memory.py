"""Whether a training fits into memory, before anything of it is made."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax

from popsim._checks import bytes_of, memory_of_machine, short_repr
from popsim.ensemble import member
from popsim.experiments.experiment import AbstractExperiment, build_trainer_of
from popsim.model import simulate
from popsim.per_member import select_member
from popsim.randomness import seed_key
from popsim.task import AbstractTask
from popsim.trial import Trial

__all__ = ["check_size"]


def check_size(experiment: AbstractExperiment, trainer: Any = None) -> None:
    """Check that what a training holds at least fits into the memory of the machine, or of the device.

    These are the validation trials, the ensemble, and for one batch of one member at a time its trials and
    what the model records of them. A training that is not refused may take several times as much. `trainer`
    says how many members are trained at a time, and on which devices.
    """
    name = type(experiment).__name__

    def validation_trials() -> Trial:
        task = experiment.build_task()
        if not isinstance(task, AbstractTask):
            raise ValueError(f"`build_task` of {name} must return an AbstractTask, got {short_repr(task)}.")
        return select_member(task, 0).validation_trials()

    trials = eqx.filter_eval_shape(validation_trials)
    trainer = build_trainer_of(experiment) if trainer is None else trainer
    memory = _memory_of(trainer.devices)
    if memory is None:
        return
    _check(experiment, "trials", bytes_of(trials), memory)
    ensemble = eqx.filter_eval_shape(experiment.build_ensemble)
    _check(experiment, "ensemble", bytes_of(ensemble), memory)
    n_trials = experiment.batch_size // trainer.n_minibatches
    n_members = min(trainer.member_batch_size or 1, experiment.n_members)
    part = f"batch of {n_trials} trials" + (f" of {n_members} members" if n_members > 1 else "")
    _check(experiment, part, n_members * n_trials * _bytes_of_trial(experiment), memory)


def _check(experiment: AbstractExperiment, part: str, n_bytes: int, memory: int) -> None:
    if n_bytes > memory:
        raise ValueError(
            f"the settings of {experiment.name} must fit into the {memory / 1e9:.3g} GB of memory: "
            f"its {part} would take {n_bytes / 1e9:.3g} GB."
        )


def _memory_of(devices: Sequence[Any] | None) -> int | None:
    """Return the bytes of memory of the first device; for a processor, that of the machine."""
    device = (devices or jax.local_devices())[0]
    if device.platform == "cpu":
        return memory_of_machine()
    return (device.memory_stats() or {}).get("bytes_limit")


def _bytes_of_trial(experiment: AbstractExperiment) -> int:
    """Return the bytes of a training trial, and of what a model records of it over time."""

    def one_trial() -> tuple[Any, Any]:
        key = seed_key(0)
        trial = select_member(experiment.build_task(), 0).trial(batch=0, key=key)
        return trial, simulate(member(experiment.build_ensemble(), 0), trial, key=key)

    return bytes_of(eqx.filter_eval_shape(one_trial))
