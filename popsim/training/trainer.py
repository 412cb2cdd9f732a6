"""The trainer of models and ensembles on tasks."""

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
from jax.typing import DTypeLike
from jaxtyping import PRNGKeyArray, PyTree

from popsim._compiled import start_while_compiling, to_numpy
from popsim.ensemble import Members
from popsim.task import AbstractTask
from popsim.training.history.history import TaskTrainerHistory
from popsim.training.history.recording import TRAINABLES, HistoryRecorder, RowsInMemory
from popsim.training.history.training_store import TrainingStore, open_training_store
from popsim.training.loop.host_loop import HostLoop
from popsim.training.loop.training_plan import TrainingPlan, plan_training
from popsim.training.observers import Observer, TensorBoardWriter, TrainingStart, UserFunctions
from popsim.training.options import BatchesOrMask, TrainerOptions, Training
from popsim.training.progress import progress_observer
from popsim.training.steps.train_state import WhereTrain, copy_arrays

__all__ = ["TaskTrainer"]


class TaskTrainer(TrainerOptions):
    """A trainer of a model, or an ensemble of models, on a task.

    The batches run in one compiled loop. The host only shows progress, evaluates on the validation trials,
    calls callbacks and collects the history. The arguments are documented at `TrainerOptions`, those of a
    call at `Training`.

    !!! example

        ```python
        trainer = TaskTrainer(adam(1e-3), chkpt_dir="runs/reach")
        model, history = trainer(task, model, 1000, 64, lambda model: model.network, key=jax.random.key(0))
        ```
    """

    def __call__(
        self,
        task: AbstractTask,
        model: Any,
        n_batches: int,
        batch_size: int,
        where_train: WhereTrain,
        ensembled: bool = False,
        ensemble_random_trials: bool = True,
        log_step: int = 100,
        save_model_trainables: bool | BatchesOrMask = False,
        save_trial_specs: BatchesOrMask | None = None,
        toggle_model_update_funcs: bool | PyTree = True,
        restore_checkpoint: bool = False,
        disable_tqdm: bool = False,
        batch_callbacks: Mapping[int, Sequence[Callable[[], None]]] | None = None,
        *,
        opt_state: PyTree = None,
        start_batch: int = 0,
        reset_opt_state_at: BatchesOrMask = (),
        trainables_dtype: DTypeLike | None = None,
        members: Members | None = None,
        on_begin: Callable[[int], None] | None = None,
        key: PRNGKeyArray,
    ) -> tuple[Any, TaskTrainerHistory]:
        """Train a model or an ensemble. The arguments are those of `Training`, which documents them.

        **Returns:** the trained model or ensemble, and the history: with a `chkpt_dir` from the first batch.

        **Raises:** `NonfiniteError` if a member is not finite and `nonfinite` is "raise"; `MismatchError`
        naming the differences if the checkpoint is of another training; `CorruptDataError` if no checkpoint
        is intact; `SaveError` if a checkpoint cannot be written.
        """
        arguments = dict(locals())
        del arguments["self"]
        return train(plan_training(self, Training(**arguments)))


def train(plan: TrainingPlan) -> tuple[Any, TaskTrainerHistory]:
    """Train as planned; see `TaskTrainer`."""
    trainer, training = plan.trainer, plan.training
    with open_training_store(plan) if trainer.folder is not None else contextlib.nullcontext() as store:
        state = plan.state if store is None else store.begin(plan.state, restore=training.restore_checkpoint)
        if training.on_begin is not None:
            training.on_begin(int(state.step))
        start_time = time.perf_counter() if store is None else store.start_time
        rows = (
            RowsInMemory({TRAINABLES: plan.batches.recorded_batches.size}) if store is None else store.arrays
        )
        recorder = HistoryRecorder(rows, plan)
        # The recorder comes first: the store notes how many rows the history has after the batches it saves.
        observers = [recorder, *_observers(plan, store, int(state.step))]
        # The loop donates its state. The caller's model, and `plan.new_state`, which resets need, must
        # outlive it.
        state = plan.layout.spread_state(jax.tree.map(_donatable_copy, state))
        loops = plan.loops(plan.member_batch_size if store is None else store.member_batch_size)
        start = TrainingStart(int(state.step), training.n_batches, plan.count, plan.n_trained)
        with start_while_compiling(*(() if store is None else store.computation.made_while_compiling)):
            state = HostLoop(plan, loops, observers).run(state, start, start_time)
        model = plan.layout.gather(state.final_model)
        return model, recorder.history(state)


def _observers(plan: TrainingPlan, store: TrainingStore | None, first_batch: int) -> list[Observer]:
    """Return the observers of a training, in the order in which they are called."""
    trainer, events = plan.trainer, plan.trainer.tensorboard_logdir
    observers = [] if store is None else [store]
    observers += [] if plan.training.disable_tqdm else [progress_observer()]
    # After the store: if a function of a user raises, the log point is in the log already, and the batch is
    # among those that are saved.
    observers.append(UserFunctions(trainer.log_fns, plan.batches.callbacks))
    if events is not None:
        observers.append(TensorBoardWriter(events, trainer.validation_figures, first_batch=first_batch))
    return [*observers, *trainer.observers]


def _donatable_copy(leaf: Any) -> Any:
    """Return a copy that may be donated, without JAX's weak type, which would compile again."""
    if not eqx.is_array(leaf):
        return leaf
    return copy_arrays(to_numpy(leaf) if getattr(leaf, "weak_type", False) else leaf)
