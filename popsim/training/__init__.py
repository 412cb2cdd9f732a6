"""Training: from a single train step to an ensemble trained on a task."""

from popsim.training import constraints, rules
from popsim.training.history.history import TaskTrainerHistory
from popsim.training.history.history_on_disk import open_history, save_history
from popsim.training.loop.batches import every_nth_batch, log_spaced_batches
from popsim.training.observers import FinishedBatches, LogEntry, Observer, TensorBoardWriter, TrainingStart
from popsim.training.options import TrainerOptions, Training
from popsim.training.population_updates.base import (
    AbstractPopulationUpdate,
    Population,
    ValidationResults,
)
from popsim.training.population_updates.plateaus import Curriculum, EarlyStopping, ReduceOnPlateau
from popsim.training.population_updates.selection import (
    AbstractExploit,
    AbstractExplore,
    BinaryTournament,
    Perturb,
    PopulationBasedTraining,
    Resample,
    Truncation,
    ancestors,
)
from popsim.training.population_updates.shared_population import SharedPopulation
from popsim.training.steps.gradients import (
    AbstractGradient,
    BackpropThroughTime,
    BatchRun,
    EvolutionStrategies,
)
from popsim.training.steps.member_step import NonfiniteError, training_trials
from popsim.training.steps.model_updates import AbstractModelUpdate, TrainedBatch
from popsim.training.steps.optimizers import adam, cosine_decay, inject_hyperparams, sgd
from popsim.training.steps.train_state import TrainState, select_trainables
from popsim.training.supervised import eval_step, supervised_batches, train_step, train_step_post
from popsim.training.train_steps import (
    accumulate_gradients,
    accumulate_gradients_loop,
    accumulate_gradients_scan,
    build_train_step_fn,
)
from popsim.training.trainer import TaskTrainer

__all__ = [
    "AbstractExploit",
    "AbstractExplore",
    "AbstractGradient",
    "AbstractModelUpdate",
    "AbstractPopulationUpdate",
    "BackpropThroughTime",
    "EvolutionStrategies",
    "BatchRun",
    "BinaryTournament",
    "Curriculum",
    "EarlyStopping",
    "FinishedBatches",
    "LogEntry",
    "NonfiniteError",
    "Observer",
    "Perturb",
    "Population",
    "PopulationBasedTraining",
    "ReduceOnPlateau",
    "Resample",
    "SharedPopulation",
    "TaskTrainer",
    "TaskTrainerHistory",
    "TensorBoardWriter",
    "TrainState",
    "TrainedBatch",
    "TrainingStart",
    "TrainerOptions",
    "Training",
    "Truncation",
    "ValidationResults",
    "accumulate_gradients",
    "accumulate_gradients_loop",
    "accumulate_gradients_scan",
    "adam",
    "ancestors",
    "build_train_step_fn",
    "constraints",
    "cosine_decay",
    "eval_step",
    "every_nth_batch",
    "inject_hyperparams",
    "log_spaced_batches",
    "open_history",
    "rules",
    "save_history",
    "select_trainables",
    "sgd",
    "supervised_batches",
    "train_step",
    "train_step_post",
    "training_trials",
]
