"""The trainer of models and ensembles on tasks."""

import contextlib
import functools
import inspect
import time
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

import equinox as eqx
import jax
import numpy as np

from popsim._checks import check_arguments
from popsim._compiled import on_host
from popsim.training._plan import TrainingPlan
from popsim.training.loop._host_loop import HostLoop
from popsim.training.loop._saving import Saving
from popsim.training.loop._training_store import TrainingStore, open_training_store
from popsim.training.loop.history import TRAINABLES, HistoryRecorder, RowsInMemory, TaskTrainerHistory
from popsim.training.loop.observers import (
    BatchCallbacks,
    LogFunctions,
    Observer,
    ProgressBar,
    TensorBoardWriter,
)
from popsim.training.options import TrainerOptions, Training
from popsim.training.steps.train_state import copied

__all__ = ["TaskTrainer"]

Given = ParamSpec("Given")
Options = TypeVar("Options")
Result = TypeVar("Result")


def _takes_arguments_of(
    options: Callable[Given, Options], called: str
) -> Callable[[Callable[[Any, Options], Result]], Callable[Concatenate[Any, Given], Result]]:
    """Let a method that takes options take their arguments instead; errors name it as `called`."""

    def decorate(method: Callable[[Any, Options], Result]) -> Callable[Concatenate[Any, Given], Result]:
        @functools.wraps(method)
        def call(self: Any, *args: Given.args, **kwargs: Given.kwargs) -> Result:
            check_arguments(called, options, args, kwargs)
            return method(self, options(*args, **kwargs))

        own = inspect.signature(method)
        arguments = [*own.parameters.values()][:1] + [*inspect.signature(options).parameters.values()]
        call.__signature__ = own.replace(parameters=arguments)  # pyright: ignore[reportAttributeAccessIssue]
        return call

    return decorate


class TaskTrainer(TrainerOptions):
    """A trainer of a model, or an ensemble of models, on a task.

    The batches run in one compiled loop. The host only shows progress, evaluates on the validation trials,
    calls callbacks and collects the history. The arguments are documented at `TrainerOptions`, those of a
    call at `Training`.

    **Raises:** as `TrainerOptions`.

    !!! example

        ```python
        trainer = TaskTrainer(adam(1e-3), chkpt_dir="runs/reach")
        model, history = trainer(task, model, 1000, 64, lambda model: model.network, key=jax.random.key(0))
        ```
    """

    @_takes_arguments_of(TrainerOptions, "`TaskTrainer(...)`")
    def __init__(self, options: TrainerOptions):
        vars(self).update(vars(options))  # which checked them

    @_takes_arguments_of(Training, "`trainer(...)` of a TaskTrainer")
    def __call__(self, training: Training) -> tuple[Any, TaskTrainerHistory]:
        """Train a model or an ensemble. The arguments are those of `Training`.

        **Returns:** the trained model, or ensemble, and the history. With a `chkpt_dir` the history of a
        resumed training starts at its first batch.

        **Raises:** `ValueError` naming an argument that is out of range or does not fit the others, before
        the training loop is compiled; `NonfiniteError` if a member is not finite and `nonfinite` is "raise";
        `MismatchError` naming the differences if the checkpoint is of another training; `CorruptDataError` if
        no checkpoint is intact; `SaveError` if a checkpoint cannot be written.
        """
        plan = TrainingPlan(self, training)
        _ = (
            plan.rows_like,
            plan.hyperparameters,
        )  # before anything is written: task, model and updates fit together
        is_saved, restore = self.folder is not None, training.restore_checkpoint
        with open_training_store(plan) if is_saved else contextlib.nullcontext() as store:
            state = plan.state if store is None else store.begin(plan.state, restore=restore)
            if training.on_begin is not None:
                training.on_begin(int(state.step))
            began = time.perf_counter() - (0.0 if store is None else store.seconds_before)
            rows = RowsInMemory({TRAINABLES: plan.kept_batches.size}) if store is None else store.rows
            recorder = HistoryRecorder(rows, plan.spec_batches, plan.trials_of, training.trainables_dtype)
            state = plan.layout.spread_state(jax.tree.map(_own_copy, state))
            observers = self._observers(plan, store, int(state.step), began)
            loops = plan.loops(plan.member_batch_size if store is None else store.member_batch_size)
            state = HostLoop(plan, loops, [recorder, *observers]).run(state, began)
            history = recorder.history(
                trials_like=plan.first_trials,
                frozen_from=np.asarray(plan.layout.gather(state.loss_fn_state.frozen_from)),
                stopped_from=np.asarray(plan.layout.gather(state.loss_fn_state.stops)),
                opt_state=plan.layout.gather(state.opt_state),
                members=training.members,
            )
            return plan.layout.gather(state.model), history

    def _observers(
        self, plan: TrainingPlan, store: TrainingStore | None, first_batch: int, began: float
    ) -> list[Observer]:
        """Return what shows and saves a training, in the order in which it is told."""
        events, figures = self.tensorboard_logdir, self.validation_figures
        written = [] if events is None else [TensorBoardWriter(events, figures, first_batch=first_batch)]
        saved = [] if store is None else [Saving(store, plan.layout, began)]
        of_members = "" if plan.count is None else f" in each of {plan.count} members"
        bar = ProgressBar(
            plan.training.n_batches,
            first_batch,
            f"training {plan.n_trained:,} numbers{of_members}",
            disable=plan.training.disable_tqdm,
        )
        return [BatchCallbacks(plan.callbacks), *saved, bar, LogFunctions(self.log_fns), *written]


def _own_copy(leaf: Any) -> Any:
    """Return a copy that may be donated, without JAX's weak type, which would compile again."""
    if not eqx.is_array(leaf):
        return leaf
    return copied(on_host(leaf) if getattr(leaf, "weak_type", False) else leaf)
