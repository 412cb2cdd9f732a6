"""How the scripts of motor figures train networks, and load their joints in the test."""

import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import popsim
from popsim.ensemble import Members
from popsim.interventions import FromTrial, schedule_intervention
from popsim.training import TaskTrainer
from popsim.trial import label_trial
from popsim.windows import FromEvent


def train_networks(
    task: popsim.AbstractTask,
    ensemble: Any,
    optimizer: optax.GradientTransformation,
    n_batches: int,
    batch_size: int,
    *,
    where_train: Callable[[Any], Any] = lambda model: model.network,
    members: Members | None = None,
    key: jax.Array,
) -> Any:
    """The trained ensemble; a bar shows the progress in a terminal."""
    return TaskTrainer(optimizer)(
        task,
        ensemble,
        n_batches,
        batch_size,
        where_train=where_train,
        ensembled=True,
        members=members,
        log_step=n_batches,
        disable_tqdm=not sys.stderr.isatty(),
        key=key,
    )[0]


def trials_under_torques(task: popsim.tasks.PosturalHold, torques: np.ndarray) -> popsim.Trial:
    """A trial for each row of torques of the joints (N m), which stay on from the event "pulse on"."""
    trials = popsim.repeat_trials(task.validation_trials(), len(torques))
    trials = label_trial(trials, {"load": jnp.asarray(torques, float)})
    load = FromTrial(lambda trial: trial.conditions["load"])
    return schedule_intervention(trials, "joint torque", load, FromEvent("pulse on")(trials.timeline))
