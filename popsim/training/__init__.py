"""Training: from a single train step to an ensemble trained on a task."""

from popsim.training import constraints as constraints
from popsim.training import rules as rules
from popsim.training.build_train_step import build_train_step_fn as build_train_step_fn
from popsim.training.chosen_batches import every_nth_batch as every_nth_batch
from popsim.training.chosen_batches import log_spaced_batches as log_spaced_batches
from popsim.training.finite import NonfiniteError as NonfiniteError
from popsim.training.gradient_accumulation import accumulate_gradients as accumulate_gradients
from popsim.training.gradient_accumulation import (
    accumulate_gradients_loop as accumulate_gradients_loop,
)
from popsim.training.gradient_accumulation import (
    accumulate_gradients_scan as accumulate_gradients_scan,
)
from popsim.training.history import TaskTrainerHistory as TaskTrainerHistory
from popsim.training.hyperparams import inject_hyperparams as inject_hyperparams
from popsim.training.log_entry import LogEntry as LogEntry
from popsim.training.model_updates import AbstractModelUpdate as AbstractModelUpdate
from popsim.training.model_updates import TrainedBatch as TrainedBatch
from popsim.training.optimizers import adam as adam
from popsim.training.optimizers import sgd as sgd
from popsim.training.saved_history import open_history as open_history
from popsim.training.saved_history import save_history as save_history
from popsim.training.supervised_batches import supervised_batches as supervised_batches
from popsim.training.supervised_steps import eval_step as eval_step
from popsim.training.supervised_steps import train_step as train_step
from popsim.training.supervised_steps import train_step_post as train_step_post
from popsim.training.task_trainer import TaskTrainer as TaskTrainer
from popsim.training.tensorboard import TensorBoardWriter as TensorBoardWriter
from popsim.training.train_state import TrainState as TrainState
from popsim.training.trainables import select_trainables as select_trainables
from popsim.training.training_trials import training_trials as training_trials
