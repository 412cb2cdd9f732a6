"""What a cell is expected to take: time, memory, space on the disk."""

import dataclasses
import math

import equinox as eqx
import jax

from popsim._checks import bytes_of
from popsim._compiled import count_numbers
from popsim.experiments import AbstractExperiment, Recording
from popsim.model import initial_state, simulate
from popsim.per_member import select_member
from popsim.randomness import seed_key
from popsim.training.loop.batch_loop import STORED_PER_STATE, members_at_a_time
from popsim.training.steps.train_state import select_trainables

__all__ = ["CellCost", "cell_cost"]

SECONDS_PER_NUMBER = 5e-10
SECONDS_PER_WEIGHT = 9e-11
PROCESS_BYTES = 450_000_000
N_CHECKPOINTS, COPIES = 3, 3  # a checkpoint holds the weights and two moments of Adam
MOST_ESTIMATED = 64  # kinds of cells that are estimated each; of further ones as many, evenly spaced
N_SELECTIONS = 4  # whose members are kept for the other cells of a population


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


def is_estimated(place: int, count: int) -> bool:
    """Whether to estimate the cell at index `place` of `count`, or to reuse an earlier estimate."""
    return place < MOST_ESTIMATED or place % -(-count // MOST_ESTIMATED) == 0


def cell_cost(experiment: AbstractExperiment, recording: Recording) -> CellCost:
    """Estimate what the training of an experiment takes, without training it."""
    kind = dataclasses.replace(experiment, n_members=math.prod([len(axis) for _, axis in experiment.grid]))
    ensemble = eqx.filter_eval_shape(kind.build_ensemble)
    model = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), ensemble)
    trials = eqx.filter_eval_shape(lambda: select_member(experiment.build_task(), 0).validation_trials())
    n_steps = trials.timeline.n_steps
    trial = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), trials)
    state = eqx.filter_eval_shape(lambda m, t: initial_state(m, t, key=seed_key(0)), model, trial)
    state_bytes = bytes_of(state)
    params, _ = select_trainables(model, experiment.where_train)
    weight_bytes = bytes_of(params)
    n_numbers = count_numbers(lambda model, trial: simulate(model, trial, key=seed_key(0)), model, trial)
    seconds_per_step = SECONDS_PER_NUMBER * n_numbers + SECONDS_PER_WEIGHT * weight_bytes / 4
    n_trial_steps = experiment.batch_size * n_steps
    per_member = n_trial_steps * STORED_PER_STATE * state_bytes
    n_members = experiment.n_members
    at_a_time = members_at_a_time(n_members, 2 * weight_bytes, experiment.batch_size * state_bytes)
    n_kept = recording.batches(experiment.n_batches, experiment.log_step).size
    n_selections = 0 if (every := experiment.select_every) is None else (experiment.n_batches - 1) // every
    n_copies = COPIES * (N_CHECKPOINTS + min(N_SELECTIONS, n_selections))
    kept_bytes = n_kept * weight_bytes // (2 if recording.float16 else 1)
    return CellCost(
        seconds=n_members * experiment.n_batches * n_trial_steps * seconds_per_step,
        memory_bytes=PROCESS_BYTES + per_member * at_a_time + 4 * n_members * weight_bytes,
        disk_bytes=n_members * (kept_bytes + n_copies * weight_bytes + 24 * experiment.n_batches),
    )
