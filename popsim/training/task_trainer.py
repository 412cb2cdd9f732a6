"""`TaskTrainer`: trains a model, or an ensemble, on a task."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Int, Key, PyTree
from numpy.typing import ArrayLike

from popsim.checks import check_positive_int
from popsim.ensemble import member, n_members
from popsim.evaluate import Evaluation, evaluate, evaluate_ensemble
from popsim.loss import Loss
from popsim.model import AbstractModel
from popsim.randomness import key_stream
from popsim.simulate import simulate
from popsim.task import AbstractTask
from popsim.training.batch_loop import BatchLoop
from popsim.training.build_train_step import TrainStep
from popsim.training.history import HistoryRecorder, TaskTrainerHistory
from popsim.training.host_loop import HostLoop
from popsim.training.log_entry import LogEntry
from popsim.training.optimizers import learning_rate_of
from popsim.training.schedule import batch_numbers, checked_callbacks, kept_batches, most_kept
from popsim.training.task_loss import TaskLoss
from popsim.training.train_state import TrainState
from popsim.training.training_trials import trials_of_batch
from popsim.trial import Trial

CAPACITY = 64
MAX_TRAINABLES_BYTES = 256 * 2**20


class TaskTrainer:
    """Trains a model, or an ensemble of models, on a task.

    The batches run in one compiled loop; the host only shows progress, evaluates on the validation
    trials, calls callbacks and gathers the history.

    **Arguments:**

    - `optimizer`: any optax optimizer; the builders of `popsim.training` keep the learning rate where the
        history finds it.
    - `checkpointing`, `chkpt_dir`: checkpoints, written only where a folder is given. Not yet.
    - `enable_tensorboard`, `tensorboard_logdir`: losses as TensorBoard scalars. Not yet.
    - `model_update_funcs`: updates of the model after each train step. Not yet.
    - `remat`: whether gradients recompute each time step rather than keep what it computed: less memory
        for more time.
    - `log_fns`: functions that are given a `LogEntry` at each logging point.

    **Raises:** `NotImplementedError` naming an argument that is not supported yet.
    """

    def __init__(
        self,
        optimizer: optax.GradientTransformation,
        checkpointing: bool = True,
        chkpt_dir: str | Path | None = None,
        enable_tensorboard: bool = False,
        tensorboard_logdir: str | Path | None = None,
        model_update_funcs: PyTree = (),
        *,
        remat: bool = False,
        log_fns: Sequence[Callable[[LogEntry], None]] = (),
    ):
        _not_yet(
            chkpt_dir=checkpointing and chkpt_dir is not None,
            enable_tensorboard=enable_tensorboard,
            tensorboard_logdir=tensorboard_logdir is not None,
            model_update_funcs=len(jax.tree.leaves(model_update_funcs)) > 0,
        )
        self.optimizer = optimizer
        self.remat = remat
        self.log_fns = tuple(log_fns)

    def __call__(
        self,
        task: AbstractTask,
        model: Any,
        n_batches: int,
        batch_size: int,
        where_train: Callable[[Any], Any] | Mapping[int, Callable[[Any], Any]],
        ensembled: bool = False,
        ensemble_random_trials: bool = True,
        log_step: int = 100,
        save_model_trainables: bool | ArrayLike = False,
        save_trial_specs: ArrayLike | None = None,
        toggle_model_update_funcs: bool | PyTree = True,
        restore_checkpoint: bool = False,
        disable_tqdm: bool = False,
        batch_callbacks: Mapping[int, Sequence[Callable[[], None]]] | None = None,
        *,
        key: Key[Array, ""],
    ) -> tuple[Any, TaskTrainerHistory]:
        """Train.

        **Arguments:**

        - `task`: the task to train on.
        - `model`: a model, or an ensemble (see `make_ensemble`).
        - `n_batches`, `batch_size`: how many training batches, and how many trials in each.
        - `where_train`: picks from the model what is trained, see `select_trainables`. A mapping from batch
            number to such a function: not yet.
        - `ensembled`: whether `model` is an ensemble.
        - `ensemble_random_trials`: whether each member sees trials of its own; else all see the same.
        - `log_step`: after how many batches the validation trials are run and the log functions called;
            also after the last.
        - `save_model_trainables`: whether to keep the trainable arrays after every batch, or a 1D array
            of the batches after which to keep them.
        - `save_trial_specs`: a 1D array of the batches whose trials to keep.
        - `toggle_model_update_funcs`: has no effect without `model_update_funcs`.
        - `restore_checkpoint`: whether to continue from the last checkpoint. Not yet.
        - `disable_tqdm`: whether to show no progress bar.
        - `batch_callbacks`: by batch number, functions without parameters, called right after that batch.
        - `key`: the key of the training. The trials of member i in batch b depend on it, b and i alone.

        **Returns:** the trained model, or ensemble, and the history.

        **Raises:** `ValueError` naming an argument that is out of range or does not fit the others, before
        anything is compiled; `NotImplementedError` naming an argument that is not supported yet.
        """
        if isinstance(where_train, Mapping):
            raise NotImplementedError("`where_train` as a mapping is not supported yet.")
        _not_yet(
            restore_checkpoint=restore_checkpoint,
            toggle_model_update_funcs=not isinstance(toggle_model_update_funcs, bool),
        )
        for name, value in (("n_batches", n_batches), ("batch_size", batch_size), ("log_step", log_step)):
            check_positive_int(name, value)
        kept = kept_batches(save_model_trainables, n_batches)
        asked_specs = () if save_trial_specs is None else save_trial_specs
        spec_batches = batch_numbers("save_trial_specs", asked_specs, n_batches)
        callbacks = checked_callbacks(batch_callbacks or {}, n_batches)
        member_ids = jnp.arange(n_members(model)) if ensembled else None
        shared = not ensemble_random_trials
        state = _initial_state(model, self.optimizer, where_train, key, ensembled)

        def trials_of(batch: int) -> Trial:
            number = jnp.asarray(batch)
            return trials_of_batch(
                task, batch_size, number, member_ids=member_ids, shared_trials=shared, key=key
            )

        _check_fit(task, model, trials_of(0), ensembled, shared)
        recorder = HistoryRecorder(0)
        host = HostLoop(
            BatchLoop(
                TrainStep(TaskLoss(task, batch_size, shared, self.remat)),
                member_ids,
                *_loop_sizes(state.params, kept),
            ),
            _validation(task, ensembled, key_stream(key, "validation")),
            log_batches=[*range(log_step - 1, n_batches, log_step), n_batches - 1],
            kept_batches=kept,
            callbacks=callbacks,
            log_fns=self.log_fns,
        )
        state = host.run(jax.tree.map(_own_copy, state), recorder, n_batches, disable_tqdm=disable_tqdm)
        return state.model, recorder.history({batch: trials_of(batch) for batch in spec_batches.tolist()})


def _not_yet(**given: bool) -> None:
    for name, is_given in given.items():
        if is_given:
            raise NotImplementedError(f"`{name}` of TaskTrainer is not supported yet in this form.")


def _own_copy(leaf: Any) -> Any:
    """A copy that may be donated, without JAX's mark of a weak type, which would compile twice."""
    return jax.lax.convert_element_type(leaf, leaf.dtype).copy() if eqx.is_array(leaf) else leaf


def _initial_state(
    model: Any,
    optimizer: optax.GradientTransformation,
    where_train: Callable[[Any], Any],
    root_rng: Key[Array, ""],
    ensembled: bool,
) -> TrainState:
    initial = TrainState.initial_ensemble if ensembled else TrainState.initial_state
    state = initial(model, optimizer, root_rng, where_train=where_train)
    if bool(jnp.all(jnp.isnan(learning_rate_of(state.opt_state)))):
        warnings.warn(
            "the optimizer does not tell its learning rate: it is NaN in the history. "
            "Build it with popsim.training.adam, or wrap it in optax.inject_hyperparams.",
            stacklevel=3,
        )
    return state


def _check_fit(task: AbstractTask, model: Any, trials: Trial, ensembled: bool, shared: bool) -> None:
    """Refuse a task and a model that do not go together, before anything is compiled."""
    if not isinstance(task.loss, Loss):
        raise ValueError(f"`task.loss` must be a Loss, such as 1.0 * term, got {type(task.loss).__name__}.")
    one_model: AbstractModel = member(model, 0) if ensembled else model
    if ensembled and not shared:
        trials = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), trials)
    one_model.check(task.validation_trials())
    one_model.check(trials)
    trial = jax.tree.map(lambda leaf: leaf[0], trials)

    def one_trial(trial):
        return task.loss(simulate(one_model, trial, key=jax.random.key(0)), trial, one_model)

    try:
        losses = jax.eval_shape(one_trial, trial)
    except (TypeError, ValueError, AttributeError, LookupError) as error:
        hint = "" if ensembled else " (If `model` is an ensemble, say `ensembled=True`.)"
        raise ValueError(f"`model` cannot be run on the trials of `task`: {error}{hint}") from error
    for name, value in losses.terms.items():
        if value.shape != ():
            raise ValueError(f"term {name!r} of `task.loss` must be a scalar, got shape {value.shape}.")


def _loop_sizes(params: PyTree, kept: Int[np.ndarray, " kept"]) -> tuple[int, int]:
    """How many batches a call of the compiled loop makes at most, and of how many it keeps trainables.

    The first is lowered where the second would fill the memory.
    """
    n_bytes = sum(leaf.nbytes for leaf in jax.tree.leaves(params))
    capacity = CAPACITY
    while (n_kept := most_kept(kept, capacity)) * n_bytes > MAX_TRAINABLES_BYTES and capacity > 1:
        capacity //= 2
    return capacity, n_kept


def _validation(task: AbstractTask, ensembled: bool, key: Key[Array, ""]) -> Callable[[Any], Evaluation]:
    trials = task.validation_trials()
    run = evaluate_ensemble if ensembled else evaluate
    return lambda model: run(model, task, trials=trials, key=key)
