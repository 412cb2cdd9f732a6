"""Training: from a single train step to an ensemble trained on a task."""

from popsim.training import constraints, observers, options, rules, supervised, train_steps, trainer
from popsim.training.history.history import TaskTrainerHistory
from popsim.training.history.recording import open_history, save_history
from popsim.training.loop import batches
from popsim.training.loop.batches import *
from popsim.training.observers import *
from popsim.training.options import *
from popsim.training.population_updates import base, plateaus, selection
from popsim.training.population_updates.base import *
from popsim.training.population_updates.plateaus import *
from popsim.training.population_updates.selection import *
from popsim.training.steps import (
    batch_runs,
    gradients,
    member_step,
    model_updates,
    optimizers,
    train_state,
)
from popsim.training.steps.batch_runs import *
from popsim.training.steps.gradients import *
from popsim.training.steps.member_step import *
from popsim.training.steps.model_updates import *
from popsim.training.steps.optimizers import *
from popsim.training.steps.train_state import *
from popsim.training.supervised import *
from popsim.training.train_steps import *
from popsim.training.trainer import *

__all__: list[str] = []
__all__ += trainer.__all__  # first, so that the page of the reference begins with it
__all__ += ["TaskTrainerHistory", "constraints", "open_history", "rules", "save_history"]
__all__ += batches.__all__
__all__ += observers.__all__
__all__ += options.__all__
__all__ += base.__all__
__all__ += plateaus.__all__
__all__ += selection.__all__
__all__ += gradients.__all__
__all__ += batch_runs.__all__
__all__ += member_step.__all__
__all__ += model_updates.__all__
__all__ += optimizers.__all__
__all__ += train_state.__all__
__all__ += supervised.__all__
__all__ += train_steps.__all__
