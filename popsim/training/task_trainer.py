"""`TaskTrainer`: trains a model, or an ensemble, on a task."""

import contextlib
import dataclasses
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Int, Key, PyTree
from numpy.typing import ArrayLike

from popsim.checks import check_callables, check_positive_int
from popsim.evaluate import Evaluation, evaluate, evaluate_ensemble, validation_trials
from popsim.members import Members
from popsim.per_member import member_values, of_member, with_member_values
from popsim.randomness import key_stream
from popsim.task import AbstractTask, differs_between_members
from popsim.training.batch_loop import BatchLoop
from popsim.training.finite import starts_finite
from popsim.training.fit import check_changes, check_fit
from popsim.training.history import HistoryRecorder, TaskTrainerHistory
from popsim.training.host_loop import HostLoop
from popsim.training.log_entry import LogEntry
from popsim.training.member_layout import MemberLayout, check_devices
from popsim.training.member_step import LossUpdateFn, MemberStep
from popsim.training.optimizer_state import checked_opt_state, with_fresh_optimizer
from popsim.training.optimizers import learning_rate_of
from popsim.training.phases import WhereTrain
from popsim.training.schedule import most_kept
from popsim.training.tensorboard import TensorBoardWriter, ValidationFigures, check_tensorboard
from popsim.training.train_state import TrainState
from popsim.training.training_call import TrainingCall
from popsim.training.update_model import as_model_updates
from popsim.trial import Trial

CAPACITY = 64
MAX_TRAINABLES_BYTES = 256 * 2**20


class TaskTrainer:
    """Trains a model, or an ensemble of models, on a task.

    The batches run in one compiled loop; the host only shows progress, evaluates on the validation
    trials, calls callbacks and gathers the history.

    **Arguments:**

    - `optimizer`: any optax optimizer; the builders of `popsim.training` keep the learning rate where the
        history finds it. `optax.set_to_zero()` for training by model updates alone.
    - `checkpointing`, `chkpt_dir`: checkpoints, written only where a folder is given. Not yet.
    - `enable_tensorboard`, `tensorboard_logdir`: losses, learning rate and figures as TensorBoard events in
        that folder at each logging point, see `TensorBoardWriter`; needs `popsim[tensorboard]`.
    - `model_update_funcs`: a PyTree of model updates, made one after the other after each step of the
        optimizer: learning rules (`AbstractModelUpdate`), or functions `(model, states) -> update` of the
        model and of the states of all trials of the batch, with axes (trial, time, ...). An update is added
        to the model: a PyTree of its structure, with None where nothing changes.
    - `n_minibatches`: into how many parts a batch is split, of which one at a time is in memory. What is
        drawn and learned is the same.
    - `member_batch_size`: of an ensemble, how many members are trained at a time; None for all of them. The
        validation trials are run by all members at once.
    - `devices`: the devices over which the members of an ensemble are divided in training, such as
        `jax.local_devices()`; None for the default device.
    - `nonfinite`: what happens when the loss, the parameters or the optimizer state of a member are not
        finite. "freeze": from that batch on the member stays as it was before it, with a warning; the
        others go on. What is kept is finite, but may have diverged already. "raise": `NonfiniteError`.
    - `remat`: whether gradients recompute each time step rather than keep what it computed: less memory
        for more time.
    - `loss_update_func`: `(loss, loss_values, gradients) -> loss`: the loss of a member's next batch, from
        that of this one, its mean weighted terms and the gradients.
    - `post_step_fns`: functions from the model to the model, applied last in each batch: constraints.
    - `log_fns`: functions that are given a `LogEntry` at each logging point.
    - `validation_figures`: `(states, trials) -> {name: figure}`, of the validation trials, for TensorBoard.

    **Raises:** `ValueError` naming an argument that is out of range; `ImportError` if TensorBoard is asked
    for and its package is missing; `NotImplementedError` naming one
    that is not supported yet.
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
        n_minibatches: int = 1,
        member_batch_size: int | None = None,
        devices: Sequence[jax.Device] | None = None,  # pyright: ignore[reportInvalidTypeForm]
        nonfinite: Literal["freeze", "raise"] = "freeze",
        remat: bool = False,
        loss_update_func: LossUpdateFn | None = None,
        post_step_fns: Sequence[Callable[[Any], Any]] = (),
        log_fns: Sequence[Callable[[LogEntry], None]] = (),
        validation_figures: ValidationFigures | None = None,
    ):
        _not_yet(chkpt_dir=checkpointing and chkpt_dir is not None)
        if enable_tensorboard != (tensorboard_logdir is not None):
            raise ValueError(
                "`enable_tensorboard` and `tensorboard_logdir` must be given together: there is no default "
                f"folder, got {enable_tensorboard} and {tensorboard_logdir}."
            )
        if enable_tensorboard:
            check_tensorboard()
        elif validation_figures is not None:
            raise ValueError("`validation_figures` are drawn for TensorBoard: say `enable_tensorboard=True`.")
        check_positive_int("n_minibatches", n_minibatches)
        if member_batch_size is not None:
            check_positive_int("member_batch_size", member_batch_size)
        if devices is not None:
            check_devices(devices)
        if not hasattr(optimizer, "init") or not hasattr(optimizer, "update"):
            raise ValueError(f"`optimizer` must be an optax optimizer, such as adam(1e-3), got {optimizer}.")
        check_callables("post_step_fns", post_step_fns)
        check_callables("log_fns", log_fns)
        if loss_update_func is not None:
            check_callables("loss_update_func", [loss_update_func])
        if nonfinite not in ("freeze", "raise"):
            raise ValueError(f'`nonfinite` must be "freeze" or "raise", got {nonfinite!r}.')
        self.optimizer = optimizer
        self.model_update_funcs = model_update_funcs
        self.updates = as_model_updates(model_update_funcs)
        self.n_minibatches = n_minibatches
        self.member_batch_size = member_batch_size
        self.devices = devices
        self.nonfinite = nonfinite
        self.remat = remat
        self.loss_update_func = loss_update_func
        self.post_step_fns = tuple(post_step_fns)
        self.log_fns = tuple(log_fns)
        self.tensorboard_logdir = tensorboard_logdir
        self.validation_figures = validation_figures

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
        save_model_trainables: bool | ArrayLike = False,
        save_trial_specs: ArrayLike | None = None,
        toggle_model_update_funcs: bool | PyTree = True,
        restore_checkpoint: bool = False,
        disable_tqdm: bool = False,
        batch_callbacks: Mapping[int, Sequence[Callable[[], None]]] | None = None,
        *,
        opt_state: PyTree = None,
        start_batch: int = 0,
        reset_opt_state_at: ArrayLike = (),
        members: Members | None = None,
        key: Key[Array, ""],
    ) -> tuple[Any, TaskTrainerHistory]:
        """Train.

        **Arguments:**

        - `task`: the task to train on.
        - `model`: a model, or an ensemble (see `make_ensemble`).
        - `n_batches`, `batch_size`: how many training batches, and how many trials in each.
        - `where_train`: picks from the model what is trained, see `select_trainables`. Or a mapping from
            batch number to such a function: what is trained from that batch on. What the optimizer holds of
            a part that pauses is kept; its count of steps, which all parts share, goes on. Adam's first steps
            for a part that joins late are therefore three times as large or more: if that is not wanted, make
            its state anew by `reset_opt_state_at` the batch in which the part joins.
        - `ensembled`: whether `model` is an ensemble.
        - `ensemble_random_trials`: whether each member sees trials of its own; else all see the same.
        - `log_step`: after how many batches the validation trials are run and the log functions called;
            also after the last.
        - `save_model_trainables`: whether to keep the trainable arrays after every batch, or a 1D array
            of the batches after which to keep them.
        - `save_trial_specs`: a 1D array of the batches whose trials to keep.
        - `toggle_model_update_funcs`: whether model updates are made, or a PyTree of the structure of
            `model_update_funcs` with a 1D array of the batches in which each is made.
        - `restore_checkpoint`: whether to continue from the last checkpoint. Not yet.
        - `disable_tqdm`: whether to show no progress bar.
        - `batch_callbacks`: by batch number, functions without parameters, called right after that batch.
        - `opt_state`: the optimizer's state to start from, such as `history.opt_state` of an earlier call.
            It holds the injected hyperparameters, too: a constant learning rate is that of the earlier call.
            What model updates carry and weights that `loss_update_func` changed start anew.
        - `start_batch`: the number of the first batch; the last is `n_batches` - 1 all the same.
        - `reset_opt_state_at`: batch numbers before which the optimizer's state is made anew, and with it
            its count of steps and its schedules.
        - `members`: who the members are (see `member_grid`), to label the history by their settings; two
            with one id draw the same. A single model has one. None for members numbered from 0.
        - `key`: the key of the training. What member i draws in batch b depends on it, b and i alone.

        **Returns:** the trained model, or ensemble, and the history.

        **Raises:** `ValueError` naming an argument that is out of range or does not fit the others, before
        anything is compiled; `NonfiniteError` as the trainer was told; `NotImplementedError` naming an
        argument that is not supported yet.
        """
        _not_yet(restore_checkpoint=restore_checkpoint)
        call = TrainingCall(
            task=task,
            model=model,
            n_batches=n_batches,
            batch_size=batch_size,
            where_train=where_train,
            ensembled=ensembled,
            ensemble_random_trials=ensemble_random_trials,
            log_step=log_step,
            save_model_trainables=save_model_trainables,
            save_trial_specs=save_trial_specs,
            model_update_funcs=self.model_update_funcs,
            post_step_fns=self.post_step_fns,
            toggle_model_update_funcs=toggle_model_update_funcs,
            batch_callbacks=batch_callbacks,
            opt_state=opt_state,
            start_batch=start_batch,
            reset_opt_state_at=reset_opt_state_at,
            members=members,
            key=key,
        )
        if batch_size % self.n_minibatches:
            raise ValueError(
                f"`batch_size` must divide into n_minibatches = {self.n_minibatches} parts, got {batch_size}."
            )
        if self.tensorboard_logdir is None:
            return self._train(call, self.log_fns, disable_tqdm=disable_tqdm)
        writer = TensorBoardWriter(self.tensorboard_logdir, self.validation_figures)
        with contextlib.closing(writer):
            return self._train(call, (*self.log_fns, writer), disable_tqdm=disable_tqdm)

    def _train(
        self, call: TrainingCall, log_fns: Sequence[Callable[[LogEntry], None]], *, disable_tqdm: bool
    ) -> tuple[Any, TaskTrainerHistory]:
        step = self._member_step(call)
        state = self._initial_state(call, step)
        fresh = state.opt_state
        step = dataclasses.replace(step, checked=starts_finite(fresh))
        if call.opt_state is not None:
            state = dataclasses.replace(state, opt_state=checked_opt_state(call.opt_state, fresh))
        first_trials = call.trials_of(call.start_batch)
        check_fit(
            of_member(call.task, 0),
            call.model,
            first_trials,
            ensembled=call.ensembled,
            by_member=call.trials_by_member,
        )
        recorded = check_changes(*_first_member(step, state, call.ensembled))
        layout = MemberLayout.over(self.devices if call.ensembled else None, call.count or 1)
        to_validate = validation_trials(call.task, call.count or 1)
        host = HostLoop(
            loops=self._loops(call, step, state, recorded, layout),
            layout=layout,
            validation_trials=to_validate,
            validate=_validation(call, to_validate),
            log_batches=call.log_batches,
            kept_batches=call.kept_batches,
            enabled=call.enabled,
            callbacks=call.callbacks,
            log_fns=log_fns,
            reset_at=call.resets,
            reset=lambda state: with_fresh_optimizer(state, layout.spread(fresh)),
            raise_nonfinite=self.nonfinite == "raise",
        )
        recorder = HistoryRecorder(call.start_batch, call.count, call.kept_batches.size)
        state = layout.spread_state(jax.tree.map(_own_copy, state))
        state = host.run(state, recorder, call.n_batches, disable_tqdm=disable_tqdm)
        history = recorder.history(
            trial_specs={batch: call.trials_of(batch) for batch in call.spec_batches.tolist()},
            frozen_from=host.frozen_from(state),
            opt_state=layout.gather(state.opt_state),
            members=call.members,
        )
        return layout.gather(state.model), history

    def _member_step(self, call: TrainingCall) -> MemberStep:
        return MemberStep(
            task=call.task,
            batch_size=call.batch_size,
            n_minibatches=self.n_minibatches,
            shared_trials=call.shared_trials,
            remat=self.remat,
            updates=self.updates,
            post_step_fns=self.post_step_fns,
            loss_update_func=self.loss_update_func,
        )

    def _initial_state(self, call: TrainingCall, step: MemberStep) -> TrainState:
        initial = TrainState.initial_ensemble if call.ensembled else TrainState.initial_state
        state = initial(call.model, self.optimizer, call.key, where_train=call.phases.where_train)
        has_rate = not isinstance(state.opt_state, optax.EmptyState)  # `optax.set_to_zero` has none to tell
        if has_rate and bool(jnp.all(jnp.isnan(learning_rate_of(state.opt_state)))):
            warnings.warn(
                "the optimizer does not tell its learning rate: it is NaN in the history. "
                "Build it with popsim.training.adam, or wrap it in popsim.training.inject_hyperparams.",
                stacklevel=4,
            )

        def carry_of(model, values):
            return with_member_values(step, values).initial_carry(model)

        values = member_values(step, call.count or 1, "trainer")
        carry = (eqx.filter_vmap(carry_of) if call.ensembled else carry_of)(call.model, values)
        return dataclasses.replace(state, step=jnp.asarray(call.start_batch), loss_fn_state=carry)

    def _loops(
        self,
        call: TrainingCall,
        step: MemberStep,
        state: TrainState,
        recorded: PyTree[bool],
        layout: MemberLayout,
    ) -> dict[int, BatchLoop]:
        """By first batch, the compiled loop of each phase."""
        capacity, n_kept = _loop_sizes(eqx.filter(state.model, recorded), call.kept_batches)
        values = member_values(step, layout.n_members, "trainer") if call.ensembled else None
        loop = BatchLoop(
            step,
            layout.spread(call.member_ids) if call.ensembled else call.member_ids,
            layout.spread(values),
            recorded,
            ensembled=call.ensembled,
            capacity=capacity,
            n_kept=n_kept,
            member_batch_size=self.member_batch_size,
            mesh=layout.mesh,
        )
        return {
            phase.first_batch: dataclasses.replace(
                loop, member_step=layout.repeat(dataclasses.replace(step, trained=phase.trained))
            )
            for phase in call.phases.phases
        }


def _not_yet(**given: bool) -> None:
    for name, is_given in given.items():
        if is_given:
            raise NotImplementedError(f"`{name}` of TaskTrainer is not supported yet in this form.")


def _own_copy(leaf: Any) -> Any:
    """A copy that may be donated, without JAX's mark of a weak type, which would compile twice."""
    return jax.lax.convert_element_type(leaf, leaf.dtype).copy() if eqx.is_array(leaf) else leaf


def _first_member(step: MemberStep, state: TrainState, ensembled: bool) -> tuple[MemberStep, TrainState]:
    """Step and state of one member, for looking at shapes."""
    if not ensembled:
        return step, state
    own = eqx.filter(state, eqx.is_array)
    own = jax.tree.map(lambda leaf: leaf[0] if leaf.ndim else leaf, own)
    shared = {"step": state.step, "root_rng": state.root_rng}
    first = dataclasses.replace(eqx.combine(own, state), **shared)
    return of_member(step, 0), first


def _loop_sizes(recorded: PyTree[Array], kept: Int[np.ndarray, " kept"]) -> tuple[int, int]:
    """How many batches a call of the compiled loop makes at most, and of how many it keeps trainables.

    The first is lowered where the second would fill the memory.
    """
    n_bytes = sum(leaf.nbytes for leaf in jax.tree.leaves(recorded))
    capacity = CAPACITY
    while (n_kept := most_kept(kept, capacity)) * n_bytes > MAX_TRAINABLES_BYTES and capacity > 1:
        capacity //= 2
    return capacity, n_kept


def _validation(call: TrainingCall, trials: Trial) -> Callable[[Any], Evaluation]:
    """What runs a model on the validation trials; those that differ between members it draws itself."""
    key = key_stream(call.key, "validation")
    if call.ensembled:
        shared = None if differs_between_members(call.task) else trials
        return lambda model: evaluate_ensemble(
            model, call.task, trials=shared, member_ids=call.member_ids, key=key
        )
    return lambda model: evaluate(model, call.task, trials=trials, member_id=call.member_ids, key=key)
