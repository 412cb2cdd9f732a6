"""The options of a trainer, and of a training."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import jax
import numpy as np
import optax
from jax.typing import DTypeLike
from jaxtyping import Array, PRNGKeyArray, PyTree, Shaped

from popsim._shared import checks
from popsim._shared.member_values import check_values_of_members
from popsim._shared.plain_values import plain_value
from popsim._shared.text_checks import check_path
from popsim.ensemble import Members
from popsim.model import check_model
from popsim.per_member import check_n_members, check_of_one_member
from popsim.randomness import as_key
from popsim.task import AbstractTask, check_task
from popsim.training.observers import (
    LogEntry,
    Observer,
    ValidationFigures,
    ValidationMetrics,
    check_tensorboard,
)
from popsim.training.population_updates.base import (
    AbstractPopulationUpdate,
    as_population_updates,
    hyperparameters_of,
)
from popsim.training.population_updates.divided_population import AbstractDividedPopulation
from popsim.training.steps.gradients import AbstractGradient, BackpropThroughTime
from popsim.training.steps.member_step import LossUpdateFn
from popsim.training.steps.model_updates import AbstractModelUpdate, as_model_updates
from popsim.training.steps.train_state import WhereTrain

__all__ = ["TrainerOptions", "Training"]

CHECKPOINT_SECONDS = 60.0
N_CHECKPOINTS = 3

BatchesOrMask = Sequence[int | np.integer] | Shaped[np.ndarray | Array, " batches"]
"""The numbers of batches, or a boolean for each batch."""


def _convert_scalars(options: Any) -> None:
    """Replace scalars of NumPy, which would be traced, by numbers."""
    for field in dataclasses.fields(options):
        if isinstance(value := getattr(options, field.name), np.generic):
            object.__setattr__(options, field.name, plain_value(field.name, value))


def _check_callables(name: str, values: Any) -> None:
    """Raise `ValueError` unless `values` is a sequence of functions."""
    if not isinstance(values, Sequence) or not all(map(callable, values)):
        raise ValueError(f"`{name}` must be a sequence of functions, such as [function], got {values!r}.")


_AS_IT_IS = optax.identity()
"""Adds to the parameters what a gradient with `returns_change` returns."""


@dataclasses.dataclass(frozen=True, eq=False)
class TrainerOptions:
    """The options of a `TaskTrainer`, which are its arguments.

    **Arguments:**

    - `optimizer`: an optax optimizer, also one that takes the loss as a function, such as `optax.lbfgs`. The
        builders of `popsim.training` store the learning rate where the history finds it. With
        `optax.set_to_zero()` model updates alone train. Leave it out where `gradient`
        returns the change itself, as `rules.FORCE` does.
    - `checkpointing`, `chkpt_dir`: whether to save the training, and the folder for its checkpoints, history
        and log (see `popsim.store.RunFolder`), from which it can be resumed. With None nothing is written.
        With a folder the history is collected there, not in memory.
    - `checkpoint_seconds`, `n_checkpoints`: the interval in seconds between checkpoints, and how many are
        kept. Checkpoints are also written at log points (at most one a second), after the last batch, and
        before an exception or Ctrl-C is re-raised, with a note on how to resume.
    - `without_lock`: whether to use a `chkpt_dir` on a disk that cannot lock files, where nothing notices a
        second process that writes there; by default such a disk is refused.
    - `enable_tensorboard`, `tensorboard_logdir`: whether to write losses, learning rate and figures as
        TensorBoard events to that folder at each log point, see `TensorBoardWriter`; needs
        `popsim[tensorboard]`.
    - `model_update_funcs`: a PyTree of model updates, applied in order after each step of the optimizer:
        learning rules (`AbstractModelUpdate`), or functions `(model, states) -> update` of the model and the
        states of the batch, with axes (trial, time, ...). An update is added to the model: a PyTree of the
        same structure, with None where nothing changes.
    - `gradient`: how the gradient of a batch is computed, see `AbstractGradient`.
    - `n_minibatches`: the number of parts into which a batch is split; one part at a time is in memory.
        Random draws and gradients are the same.
    - `member_batch_size`: how many members of an ensemble are trained, and validated, at a time. None for
        all, but on a CPU training takes as many as fit into about 1 MB, and a resumed one as many as before.
    - `devices`: the devices over which the members of an ensemble are divided in training, such as
        `jax.local_devices()`; None for the default device.
    - `nonfinite`: what to do when the loss, the parameters or the optimizer state of a member are not finite.
        "freeze": warn and keep the member as it was before that batch; the others continue, and training ends
        when none is left. "raise": raise `NonfiniteError`.
    - `population_updates`: what acts on the whole population between batches, in this order: `EarlyStopping`,
        `Curriculum`, `ReduceOnPlateau`, `PopulationBasedTraining`, or your own `AbstractPopulationUpdate`.
        Members that are stopped or frozen cost no more training once they fill a block of
        `member_batch_size`.
    - `observers`: see `Observer`; told after those that the trainer makes itself.
    - `remat`: whether gradients recompute each time step instead of storing it: less memory for one more
        forward step.
    - `loss_update_func`: `(loss, loss_values, gradients) -> loss`, the loss of a member's next batch from the
        current loss, its mean weighted terms and the gradients.
    - `post_step_fns`: functions from model to model, applied last in each batch, such as constraints.
    - `log_fns`: functions called with a `LogEntry` at each log point.
    - `validation_figures`: `(states, trials) -> {name: figure}` of the validation trials, for TensorBoard.
    - `validation_metrics`: `(states, trials) -> {name: numbers}` of the validation trials; for an ensemble
        the first axis is the member. Recorded at each log point as `history.metrics`.
    - `greedy_validation`: whether policies take their best action in the validation trials, see
        `popsim.policies.greedy`; else they draw.
    - `stop`: a function without arguments, called about once a second. When it returns True, training saves a
        checkpoint, ends, and returns the results so far.

    **Raises:** `ImportError` if TensorBoard is enabled and its package is missing.
    """

    optimizer: optax.GradientTransformation = _AS_IT_IS
    checkpointing: bool = True
    chkpt_dir: str | Path | None = None
    enable_tensorboard: bool = False
    tensorboard_logdir: str | Path | None = None
    model_update_funcs: PyTree = ()
    _: dataclasses.KW_ONLY
    gradient: AbstractGradient = BackpropThroughTime()
    n_minibatches: int = 1
    member_batch_size: int | None = None
    devices: Sequence[jax.Device] | None = None  # pyright: ignore[reportInvalidTypeForm]
    nonfinite: Literal["freeze", "raise"] = "freeze"
    population_updates: Sequence[AbstractPopulationUpdate] = ()
    observers: Sequence[Observer] = ()
    remat: bool = False
    loss_update_func: LossUpdateFn | None = None
    post_step_fns: Sequence[Callable[[Any], Any]] = ()
    log_fns: Sequence[Callable[[LogEntry], None]] = ()
    validation_figures: ValidationFigures | None = None
    validation_metrics: ValidationMetrics | None = None
    checkpoint_seconds: float = CHECKPOINT_SECONDS
    n_checkpoints: int = N_CHECKPOINTS
    without_lock: bool = False
    greedy_validation: bool = False
    stop: Callable[[], bool] | None = None

    def __post_init__(self):
        _convert_scalars(self)
        for check, names in _CHECKS_IF_GIVEN.items():
            for name in names:
                if (value := getattr(self, name)) is not None:
                    check(name, value)
        if self.enable_tensorboard != (self.tensorboard_logdir is not None):
            raise ValueError(
                "`enable_tensorboard` and `tensorboard_logdir` must be given together: there is no default "
                f"folder, got {self.enable_tensorboard} and {self.tensorboard_logdir}."
            )
        if self.enable_tensorboard:
            check_tensorboard()
        elif self.validation_figures is not None:
            raise ValueError("`validation_figures` are drawn for TensorBoard: say `enable_tensorboard=True`.")
        checks.check_positive("checkpoint_seconds", self.checkpoint_seconds)
        if self.devices is not None:
            expected = "different JAX devices, such as jax.local_devices()"
            checks.check_instance("devices", self.devices, Sequence, expected)
        checks.check_instance(
            "gradient", self.gradient, AbstractGradient, "an AbstractGradient such as BackpropThroughTime()"
        )
        if self.gradient.returns_change != (self.optimizer is _AS_IT_IS):
            raise ValueError(
                "`optimizer` must be left out where `gradient` returns the change of the weights itself, and "
                f"else be an optax optimizer such as adam(1e-3), got a {type(self.gradient).__name__} and "
                f"{'none' if self.optimizer is _AS_IT_IS else checks.short_repr(self.optimizer)}."
            )
        if not hasattr(self.optimizer, "init") or not hasattr(self.optimizer, "update"):
            raise ValueError(
                f"`optimizer` must be an optax optimizer such as adam(1e-3), "
                f"got {checks.short_repr(self.optimizer)}."
            )
        has_metrics = self.validation_metrics is not None
        updates = as_population_updates(self.population_updates, has_metrics=has_metrics)
        object.__setattr__(self, "population_updates", updates)
        observers = checks.as_parts("observers", self.observers, Observer, "subclasses of Observer")
        object.__setattr__(self, "observers", observers)
        if self.nonfinite not in ("freeze", "raise"):
            raise ValueError(f'`nonfinite` must be "freeze" or "raise", got {self.nonfinite!r}.')
        kept_how = (self.checkpoint_seconds, self.n_checkpoints)
        if self.folder is None and kept_how != (CHECKPOINT_SECONDS, N_CHECKPOINTS):
            raise ValueError(
                "`checkpoint_seconds` and `n_checkpoints` need `checkpointing=True` and a `chkpt_dir`, "
                f"got {kept_how} where nothing is kept."
            )
        as_model_updates(self.model_update_funcs)

    @property
    def updates(self) -> tuple[AbstractModelUpdate, ...]:
        """The model updates, in order."""
        return as_model_updates(self.model_update_funcs)

    @property
    def folder(self) -> str | Path | None:
        """The folder of the training; None for none."""
        return self.chkpt_dir if self.checkpointing else None


def _check_callable(name: str, function: Any) -> None:
    _check_callables(name, [function])


_CHECKS_IF_GIVEN: dict[Callable[[str, Any], None], tuple[str, ...]] = {
    check_path: ("chkpt_dir", "tensorboard_logdir"),
    checks.check_positive_int: ("n_minibatches", "n_checkpoints", "member_batch_size"),
    _check_callables: ("post_step_fns", "log_fns"),
    _check_callable: ("loss_update_func", "validation_metrics", "validation_figures", "stop"),
}

KEPT_TYPES = ("float16", "float32", "float64")


@dataclasses.dataclass(frozen=True, eq=False)
class Training:
    """The options of one training, which are the arguments of a call of a `TaskTrainer`.

    **Arguments:**

    - `task`: the task to train on.
    - `model`: a model, or an ensemble (see `make_ensemble`).
    - `n_batches`, `batch_size`: the number of training batches, and of trials in each.
    - `where_train`: selects the trainable part of the model, see `select_trainables`. Or a mapping from batch
        number to such a function: the trainable part from that batch on. The optimizer state of a part that
        pauses is kept; its step count, shared by all parts, continues, unless `reset_opt_state_at` resets it.
    - `ensembled`: whether `model` is an ensemble.
    - `ensemble_random_trials`: whether each member of an ensemble sees its own trials, not all the same.
    - `log_step`: the number of batches between log points, which run the validation trials, print losses,
        call the log functions and save a checkpoint. The last batch is always one. Where population updates
        act at log points, it must be the same in a training that is resumed.
    - `save_model_trainables`: whether to keep the trainable arrays after every batch, or a 1D array of the
        batches after which to keep them: batch numbers or, here and below, a boolean for each of the
        `n_batches`.
    - `save_trial_specs`: a 1D array of the batches whose trials to keep.
    - `toggle_model_update_funcs`: whether model updates are applied, or a PyTree of the structure of
        `model_update_funcs` with a 1D array of the batches in which each is applied.
    - `restore_checkpoint`: whether to resume the training in `chkpt_dir` from its last checkpoint, if there
        is one. The result is that of an uninterrupted training, bit for bit. All other arguments must be
        those of that training, except for what begins later (more batches, say) and the batches that are
        recorded.
    - `disable_tqdm`: whether to hide the progress bar and the losses.
    - `batch_callbacks`: by batch number, functions without arguments to call after that batch and its logging
        point, if any. The batch counts as done: if one of them raises, a resumed training continues after it.
    - `opt_state`: the initial optimizer state, such as `history.opt_state` of an earlier call, with its
        learning rate. The carry of model updates and weights changed by `loss_update_func` start anew.
    - `start_batch`: the number of the first batch; the last is still `n_batches` - 1.
    - `reset_opt_state_at`: batch numbers before which the optimizer state is reset, including its step count
        and its schedules.
    - `trainables_dtype`: the dtype in which the trainables are kept, such as "float16" for half the space;
        None for their own. Numbers beyond it, 65504 for float16, are infinite in the history, with a warning.
    - `members`: the members (see `member_grid`), which label the history by their settings; two with the same
        id draw the same numbers. A single model has one. None numbers the members from 0.
    - `population`: what is known of the other members where those of this training select among more, as in
        the cells of a sweep; `TaskTrainer` has no such argument.
    - `on_begin`: called once with the number of batches done so far, after the checkpoint, if any, has been
        accepted and before the training loop is compiled.
    - `key`: the key of the training. The draws of member i in batch b depend only on it, b and i.
    """

    task: AbstractTask
    model: Any
    n_batches: int
    batch_size: int
    where_train: WhereTrain
    ensembled: bool = False
    ensemble_random_trials: bool = True
    log_step: int = 100
    save_model_trainables: bool | BatchesOrMask = False
    save_trial_specs: BatchesOrMask | None = None
    toggle_model_update_funcs: bool | PyTree = True
    restore_checkpoint: bool = False
    disable_tqdm: bool = False
    batch_callbacks: Mapping[int, Sequence[Callable[[], None]]] | None = None
    _: dataclasses.KW_ONLY
    opt_state: PyTree = None
    start_batch: int = 0
    reset_opt_state_at: BatchesOrMask = ()
    trainables_dtype: DTypeLike | None = None
    members: Members | None = None
    population: AbstractDividedPopulation | None = None
    on_begin: Callable[[int], None] | None = None
    key: PRNGKeyArray

    def __post_init__(self):
        _convert_scalars(self)
        object.__setattr__(self, "key", as_key(self.key))
        check_task(self.task)
        check_model("model", self.model)
        if checks.is_traced(self.model, self.task, self.key):
            raise ValueError(
                "a trainer must be called outside of jit, vmap and grad, got traced arrays: it compiles its "
                "own loop, and trains an ensemble with `ensembled=True`."
            )
        if self.members is not None:
            checks.check_instance("members", self.members, Members, "the Members of a popsim.member_grid")
        if self.batch_callbacks is not None:
            expected = "functions by batch, such as {99: [function]}"
            checks.check_instance("batch_callbacks", self.batch_callbacks, Mapping, expected)
            for batch, functions in self.batch_callbacks.items():
                _check_callables(f"batch_callbacks[{batch!r}]", functions)
        for name in ("ensembled", "ensemble_random_trials", "restore_checkpoint", "disable_tqdm"):
            checks.check_instance(name, getattr(self, name), (bool, np.bool_), "True or False")
        for name in ("n_batches", "batch_size", "log_step"):
            checks.check_positive_int(name, getattr(self, name))
        checks.check_non_negative_int("start_batch", self.start_batch)
        if self.start_batch >= self.n_batches:
            raise ValueError(f"`start_batch` must be below {self.n_batches}, got {self.start_batch}.")
        where = self.where_train
        if not (where is None or isinstance(where, Mapping) or callable(where)):
            raise ValueError(
                "`where_train` must be a function such as lambda model: model.network, or a mapping of such "
                f"by batch number, got {checks.short_repr(where)}."
            )
        dtype = self.trainables_dtype
        if dtype is not None and getattr(dtype, "__name__", str(dtype)) not in KEPT_TYPES:
            raise ValueError(f"`trainables_dtype` must be one of {', '.join(KEPT_TYPES)}, got {dtype!r}.")


def check_options(trainer: TrainerOptions, training: Training, count: int | None) -> None:
    """Raise `ValueError` if the options of a trainer and of a training do not fit together."""
    members, n_members = training.members, count or 1
    n_given = n_members if members is None else members.n_members
    updates, n_parts = trainer.population_updates, trainer.n_minibatches
    may_be_undone = any(update.replaces or hyperparameters_of(update) != () for update in updates)
    has_resets = np.size(np.asarray(training.reset_opt_state_at)) > 0
    refusals = {
        "`restore_checkpoint` needs `chkpt_dir`, the folder of the training, and `checkpointing`: "
        f"got {trainer.chkpt_dir} and {trainer.checkpointing}.": (
            training.restore_checkpoint and trainer.folder is None
        ),
        f"`members` must be the {n_members} of the model, got {n_given}.": n_given != n_members,
        "`reset_opt_state_at` must be empty with `population_updates` that replace members or set "
        "hyperparameters: it would undo what they did.": has_resets and may_be_undone,
        f"`batch_size` must divide into n_minibatches = {n_parts} parts, got {training.batch_size}.": (
            training.batch_size % n_parts != 0
        ),
        **{
            f"`{name}` must be None for a single model: it divides the members of an ensemble, which is "
            "trained with `ensembled=True`.": count is None and getattr(trainer, name) is not None
            for name in ("devices", "member_batch_size")
        },
    }
    for message, is_refused in refusals.items():
        if is_refused:
            raise ValueError(message)
    if count is not None:
        check_n_members(training.task, count, "task")
    check_part = check_of_one_member if count is None else check_values_of_members
    check_part("task", training.task)
    for name in ("model_update_funcs", "post_step_fns", "gradient"):
        check_part(name, getattr(trainer, name))
