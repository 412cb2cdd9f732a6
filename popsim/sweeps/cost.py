"""What a cell is expected to take: time, memory, space on the disk."""

import dataclasses
import math

import equinox as eqx
import jax

from popsim._checks import bytes_of
from popsim.experiments import AbstractExperiment, Recording
from popsim.model import initial_state
from popsim.per_member import of_member
from popsim.training.loop._batch_loop import CACHE_BYTES
from popsim.training.steps.train_state import select_trainables

__all__ = ["CellCost", "cell_cost"]

SECONDS_PER_STATE_NUMBER = 1e-8
SECONDS_PER_WEIGHT = 9e-11
PROCESS_BYTES = 450_000_000
STORED_PER_STATE = 6  # numbers that a gradient stores for each number of the state, see docs/performance.md
N_CHECKPOINTS, COPIES = 3, 3  # a checkpoint holds the weights and two moments of Adam


@dataclasses.dataclass(frozen=True)
class CellCost:
    """What a cell is expected to take, within a factor of two or so; see docs/scale.md for how it was fitted.

    - `seconds`: on one core of a CPU, without compilation.
    - `memory_bytes`: of its process, on one core of a CPU.
    - `disk_bytes`: of its run.
    """

    seconds: float
    memory_bytes: int
    disk_bytes: int


def cell_cost(experiment: AbstractExperiment, recording: Recording) -> CellCost:
    """Estimate what the training of an experiment takes, without training it."""
    kind = dataclasses.replace(experiment, n_members=math.prod([len(own) for _, own in experiment.grid]))
    ensemble = eqx.filter_eval_shape(kind.build_ensemble)
    model = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), ensemble)
    trials = eqx.filter_eval_shape(lambda: of_member(experiment.build_task(), 0).validation_trials())
    n_steps = trials.timeline.n_steps
    trial = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), trials)
    state = eqx.filter_eval_shape(lambda m, t: initial_state(m, t, key=jax.random.key(0)), model, trial)
    state_bytes = bytes_of(state)
    params, _ = select_trainables(model, experiment.where_train)
    weight_bytes = bytes_of(params)
    seconds_per_step = SECONDS_PER_STATE_NUMBER * state_bytes / 4 + SECONDS_PER_WEIGHT * weight_bytes / 4
    n_trial_steps = experiment.batch_size * n_steps
    per_member = n_trial_steps * STORED_PER_STATE * state_bytes
    at_a_time = max(
        1, CACHE_BYTES // (2 * weight_bytes + STORED_PER_STATE * experiment.batch_size * state_bytes)
    )
    n_members = experiment.n_members
    n_kept = recording.batches(experiment.n_batches, experiment.log_step).size
    kept_bytes = n_kept * weight_bytes // (2 if recording.float16 else 1)
    return CellCost(
        seconds=n_members * experiment.n_batches * n_trial_steps * seconds_per_step,
        memory_bytes=PROCESS_BYTES + per_member * min(at_a_time, n_members) + 4 * n_members * weight_bytes,
        disk_bytes=n_members
        * (kept_bytes + N_CHECKPOINTS * COPIES * weight_bytes + 24 * experiment.n_batches),
    )
