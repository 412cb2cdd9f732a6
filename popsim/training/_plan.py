"""The plan of a training: all that follows from its options and those of the trainer."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Int, PyTree

from popsim._checks import bytes_of, warn_caller
from popsim._compiled import as_array
from popsim._member_values import check_values_of_members
from popsim.ensemble import member, n_members
from popsim.evaluation import validation_trials
from popsim.model import initial_state
from popsim.per_member import (
    check_n_members,
    check_of_one_member,
    member_values,
    of_member,
    with_member_values,
)
from popsim.randomness import seed_key
from popsim.training._controlled import with_initial_control, with_no_stops
from popsim.training._fit import check_changes, check_fit
from popsim.training._hyperparameters import (
    Place,
    check_selected,
    hyperparameter_places,
    with_present_values,
)
from popsim.training.constraints import warn_of_start
from popsim.training.control import hyperparameter_of
from popsim.training.loop._batch_loop import BatchLoop, members_at_a_time
from popsim.training.loop.history import TRAINABLES, TRIALS
from popsim.training.loop.schedule import (
    TrainablePhases,
    batch_numbers,
    checked_callbacks,
    enabled_updates,
    kept_batches,
    most_kept,
    training_phases,
)
from popsim.training.options import TrainerOptions, Training
from popsim.training.steps._sharding import MemberLayout
from popsim.training.steps.member_step import (
    MemberStep,
    checked_opt_state,
    starts_finite,
    trials_differ,
    trials_of_batch,
)
from popsim.training.steps.optimizers import learning_rate_of
from popsim.training.steps.train_state import OWN, TrainState, parts
from popsim.trial import Trial

CAPACITY = 64
MAX_TRAINABLES_BYTES = 256 * 2**20


@dataclasses.dataclass(frozen=True, eq=False)
class TrainingPlan:
    """The plan of a training. What is costly is computed on first access.

    - `trainer`: the options of the trainer.
    - `training`: the options of the training.

    **Raises:** `ValueError` naming what does not fit together, before the training loop is compiled.
    """

    trainer: TrainerOptions
    training: Training

    def __post_init__(self):
        trainer, training = self.trainer, self.training
        if training.restore_checkpoint and trainer.folder is None:
            raise ValueError(
                "`restore_checkpoint` needs `chkpt_dir`, the folder of the training, and `checkpointing`: "
                f"got {trainer.chkpt_dir} and {trainer.checkpointing}."
            )
        if training.members is not None and training.members.n_members != (self.count or 1):
            raise ValueError(
                f"`members` must be the {self.count or 1} of the model, got {training.members.n_members}."
            )
        if self.count is None:
            for name in ("devices", "member_batch_size"):
                if getattr(trainer, name) is not None:
                    raise ValueError(
                        f"`{name}` must be None for a single model, got {getattr(trainer, name)}: it divides "
                        "the members of an ensemble, which is trained with `ensembled=True`."
                    )
            check_of_one_member("task", training.task)
            check_of_one_member("model_update_funcs", trainer.model_update_funcs)
            check_of_one_member("post_step_fns", trainer.post_step_fns)
        else:
            check_n_members(training.task, self.count, "task")
            check_values_of_members("task", training.task)
            check_values_of_members("model_update_funcs", trainer.model_update_funcs)
            check_values_of_members("post_step_fns", trainer.post_step_fns)
        if trainer.selection is not None:
            self._check_selection()
        elif training.population is not None:
            raise ValueError("`population` needs a trainer with a `selection`, got none.")
        if self.controlled_names:
            self._check_control()
        # Evaluated here, so that their errors are raised before anything else is done.
        _ = self.kept_batches, self.spec_batches, self.callbacks, self.resets, self.enabled, self.phases
        if training.batch_size % trainer.n_minibatches:
            raise ValueError(
                f"`batch_size` must divide into n_minibatches = {trainer.n_minibatches} parts, "
                f"got {training.batch_size}."
            )

    def _check_selection(self) -> None:
        """Raise `ValueError` if a selection does not fit the training."""
        population = self.training.population
        if population is not None and population.own_places.size != self.count:
            raise ValueError(
                f"`population` must have places of the {self.count} members, "
                f"got {population.own_places.size}."
            )
        if (self.count or 1) < 2 and population is None:
            raise ValueError(
                "`selection` must be None but for an ensemble of two members or more, "
                f"got {self.count or 'a single model'}."
            )
        if not self.batches_before_selections and self.trainer.selection is not None:
            raise ValueError(
                f"`every` of the selection must be below the {self.training.n_batches} batches, "
                f"got {self.trainer.selection.every}."
            )
        if len(np.atleast_1d(self.training.reset_opt_state_at)):
            raise ValueError(
                "`reset_opt_state_at` must be empty with a `selection`: it would undo what was selected."
            )

    def _check_control(self) -> None:
        """Raise `ValueError` if controls that set hyperparameters do not fit the training."""
        if len(np.atleast_1d(self.training.reset_opt_state_at)):
            raise ValueError(
                "`reset_opt_state_at` must be empty with a `control` of hyperparameters: it would undo what "
                "was set."
            )
        of_loss = [name for name in self.controlled_names if name.startswith("task.loss")]
        if of_loss and self.trainer.loss_update_func is not None:
            raise ValueError(
                f"`control` must not set `{of_loss[0]}` with a `loss_update_func`, which sets the loss of "
                "each batch."
            )

    @property
    def controlled_names(self) -> list[str]:
        """The names of the hyperparameters that controls set."""
        names = map(hyperparameter_of, self.trainer.control)
        return [name for name in names if name is not None]

    @property
    def control_batches(self) -> range:
        """The batches after which the controls act.

        Not after the last one unless it is due, so that a longer training goes on as if it had been longer.
        """
        return self.regular_log_batches if self.trainer.control else range(0)

    @property
    def batches_before_selections(self) -> range:
        """The batches after which there is a selection."""
        rule, training = self.trainer.selection, self.training
        if rule is None:
            return range(0)
        first = (training.start_batch // rule.every + 1) * rule.every
        return range(first - 1, training.n_batches - 1, rule.every)

    @functools.cached_property
    def count(self) -> int | None:
        """The number of members; None for a single model."""
        return n_members(self.training.model) if self.training.ensembled else None

    @functools.cached_property
    def member_ids(self) -> Int[Array, "*member"]:
        """The numbers on which the draws of the members depend."""
        members = self.training.members
        ids = np.arange(self.count or 1) if members is None else members.ids
        return as_array(ids if self.training.ensembled else ids[0], int)

    @functools.cached_property
    def kept_batches(self) -> Int[np.ndarray, " kept"]:
        """The batches after which the trainables are kept."""
        kept = kept_batches(self.training.save_model_trainables, self.training.n_batches)
        return kept[kept >= self.training.start_batch]

    @functools.cached_property
    def spec_batches(self) -> Int[np.ndarray, " spec"]:
        """The batches whose trials are kept."""
        asked = () if self.training.save_trial_specs is None else self.training.save_trial_specs
        numbers = batch_numbers("save_trial_specs", asked, self.training.n_batches)
        return numbers[numbers >= self.training.start_batch]

    @functools.cached_property
    def callbacks(self) -> dict[int, Sequence[Callable[[], None]]]:
        """By batch, the functions to call after it."""
        return checked_callbacks(self.training.batch_callbacks or {}, self.training.n_batches)

    @functools.cached_property
    def resets(self) -> list[int]:
        """The batches before which the optimizer state is reset."""
        training = self.training
        return batch_numbers("reset_opt_state_at", training.reset_opt_state_at, training.n_batches).tolist()

    @functools.cached_property
    def enabled(self) -> Bool[np.ndarray, "batch update"] | None:
        """The batches in which each model update is applied; None for all."""
        training = self.training
        return enabled_updates(
            training.toggle_model_update_funcs, self.trainer.model_update_funcs, training.n_batches
        )

    @functools.cached_property
    def phases(self) -> TrainablePhases:
        """The phases, each with its trainable part."""
        phases = training_phases(self.training.model, self.training.where_train)
        phases.check_within(self.training.n_batches)
        return phases

    @property
    def regular_log_batches(self) -> range:
        """The batches after which there is a logging point, but for the last one, which always has one."""
        return range(self.training.log_step - 1, self.training.n_batches, self.training.log_step)

    def is_logged(self, batch: int) -> bool:
        """Whether there is a logging point after a batch."""
        return batch in self.regular_log_batches or batch == self.training.n_batches - 1

    @property
    def shared_trials(self) -> bool:
        """Whether all members of an ensemble draw the same numbers for the trials."""
        return self.training.ensembled and not self.training.ensemble_random_trials

    @property
    def trials_by_member(self) -> bool:
        """Whether the trials of a batch have a leading member axis."""
        return self.training.ensembled and trials_differ(self.training.task, shared_trials=self.shared_trials)

    def trials_of(self, batch: int, hyperparameters: PyTree = None) -> Trial:
        """Return the trials of a batch, with `hyperparameters` as for `validate`."""
        task = self.training.task
        if hyperparameters is not None:
            task = with_present_values(task, self.layout.gather(hyperparameters), self._unchecked_step)
        return trials_of_batch(
            task,
            self.training.batch_size,
            as_array(batch, int),
            member_ids=self.member_ids,
            shared_trials=self.shared_trials,
            key=self.training.key,
        )

    @functools.cached_property
    def first_trials(self) -> Trial:
        """The trials of the first batch."""
        return self.trials_of(self.training.start_batch)

    @functools.cached_property
    def step(self) -> MemberStep:
        """The step of one member."""
        return dataclasses.replace(self._unchecked_step, checked=starts_finite(self.new_state.opt_state))

    @functools.cached_property
    def _unchecked_step(self) -> MemberStep:
        return MemberStep(
            task=self.training.task,
            batch_size=self.training.batch_size,
            n_minibatches=self.trainer.n_minibatches,
            shared_trials=self.shared_trials,
            remat=self.trainer.remat,
            updates=self.trainer.updates,
            post_step_fns=tuple(self.trainer.post_step_fns),
            loss_update_func=self.trainer.loss_update_func,
        )

    @functools.cached_property
    def new_state(self) -> TrainState:
        """The initial state of a training with a new optimizer state."""
        training = self.training
        initial = TrainState.initial_ensemble if training.ensembled else TrainState.initial_state
        where = self.phases.where_train
        state = initial(training.model, self.trainer.optimizer, training.key, where_train=where)
        has_rate = not isinstance(state.opt_state, optax.EmptyState)  # `optax.set_to_zero` has no rate
        if has_rate and np.all(np.isnan(learning_rate_of(state.opt_state))):
            warn_caller(
                "the optimizer does not tell its learning rate: it is NaN in the history. "
                "Build it with popsim.training.adam, or wrap it in popsim.training.inject_hyperparams."
            )

        def carry_of(model, values):
            return with_member_values(self._unchecked_step, values).initial_carry(model)

        values = member_values(self._unchecked_step, self.count or 1, "trainer")
        carry = (eqx.filter_vmap(carry_of) if training.ensembled else carry_of)(training.model, values)
        changed = values if self.trainer.selection is not None or self.controlled_names else None
        state = dataclasses.replace(
            state,
            step=jnp.asarray(training.start_batch),
            loss_fn_state=carry,
            hyperparameters=jax.tree.map(jnp.asarray, changed),
        )
        return with_no_stops(state) if self.trainer.control else state

    @functools.cached_property
    def n_trained(self) -> int:
        """The number of numbers of one member that the optimizer trains, in some phase."""
        return sum(leaf.size for leaf in jax.tree.leaves(self.new_state.params)) // (self.count or 1)

    @functools.cached_property
    def state(self) -> TrainState:
        """The initial state if no checkpoint is restored."""
        state = self.new_state
        if self.training.opt_state is not None:
            opt_state = checked_opt_state(self.training.opt_state, state.opt_state)
            state = dataclasses.replace(state, opt_state=opt_state)
        if not self.trainer.control:
            return state
        return with_initial_control(state, self.trainer.control, self.hyperparameters, self.count)

    @functools.cached_property
    def recorded(self) -> PyTree[bool]:
        """The leaves of the model recorded as its trainables: those that change in training."""
        training = self.training
        check_fit(
            of_member(training.task, 0),
            training.model,
            self.first_trials,
            ensembled=training.ensembled,
            by_member=self.trials_by_member,
        )
        step, state = _first_member(self.step, self.state, training.ensembled)
        recorded = check_changes(step, state, [phase.trained for phase in self.phases.phases])
        if self.trainer.post_step_fns:
            warn_of_start(self.trainer.post_step_fns, training.model, self.count)
        return recorded

    @property
    def rows_like(self) -> dict[str, PyTree]:
        """A row of the trainables, and the arrays of the trials."""
        return {
            TRAINABLES: eqx.filter(self.state.model, self.recorded),
            TRIALS: eqx.filter(self.first_trials, eqx.is_array),
        }

    @functools.cached_property
    def layout(self) -> MemberLayout:
        """The layout of the members on the devices."""
        devices = self.trainer.devices if self.training.ensembled else None
        return MemberLayout.over(devices, self.count or 1)

    @functools.cached_property
    def member_batch_size(self) -> int | None:
        """How many members are trained at a time on each device; None for all."""
        training, given = self.training, self.trainer.member_batch_size
        if given is not None or self.count is None or self.layout.platform != "cpu":
            return given

        def initial(model: Any, trials: Trial) -> PyTree:
            of_one = np.index_exp[0, 0] if self.trials_by_member else 0
            trial = jax.tree.map(lambda leaf: leaf[of_one], trials)
            return initial_state(member(model, 0), trial, key=seed_key(0))

        state = eqx.filter_eval_shape(initial, training.model, self.first_trials)
        n_trials = training.batch_size // self.trainer.n_minibatches
        return members_at_a_time(
            self.layout.n_on_device,
            bytes_of((training.model, self.state.params)) // self.count,
            n_trials * bytes_of(state),
        )

    def loops(self, member_batch_size: int | None) -> dict[int, BatchLoop]:
        """Return the compiled loop of each phase, by first batch."""
        layout, ensembled = self.layout, self.training.ensembled
        capacity, n_kept = _loop_sizes(eqx.filter(self.state.model, self.recorded), self.kept_batches)
        values = member_values(self.step, layout.n_members, "trainer") if ensembled else None
        loop = BatchLoop(
            self.step,
            layout.spread(self.member_ids) if ensembled else self.member_ids,
            layout.spread(values),
            self.recorded,
            ensembled=ensembled,
            capacity=capacity,
            n_kept=n_kept,
            member_batch_size=member_batch_size,
            skips_held=bool(self.trainer.control),
            mesh=layout.mesh,
        )
        return {
            phase.first_batch: dataclasses.replace(
                loop, member_step=layout.repeat(dataclasses.replace(self.step, trained=phase.trained))
            )
            for phase in self.phases.phases
        }

    @functools.cached_property
    def validation_trials(self) -> Trial:
        """The validation trials as given; with a leading member axis if the members' tasks differ."""
        return validation_trials(self.training.task, self.count or 1)

    @property
    def hyperparameters(self) -> dict[str, Place]:
        """The hyperparameters that the selection or the controls change."""
        return self.hyperparameter_places[0]

    @functools.cached_property
    def hyperparameter_places(self) -> tuple[dict[str, Place], dict[str, Place]]:
        """See `hyperparameter_places`."""
        rule, controlled = self.trainer.selection, self.controlled_names
        if rule is None and not controlled:
            return {}, {}
        state = self.new_state
        first = eqx.filter_eval_shape(
            lambda params: params if self.count is None else jax.tree.map(lambda leaf: leaf[0], params),
            state.params,
        )
        if rule is None:
            return hyperparameter_places(controlled, state, self.step, first, argument="hyperparameter")
        names = rule.hyperparameters
        places = hyperparameter_places(names, state, self.step, first, argument="hyperparameters")
        check_selected(rule, places[0])
        return places


def _first_member(step: MemberStep, state: TrainState, ensembled: bool) -> tuple[MemberStep, TrainState]:
    """Return step and state of one member, the arrays of the latter as their shapes."""
    if not ensembled:
        return step, state

    def first(own: PyTree) -> PyTree:
        return jax.tree.map(lambda leaf: leaf[0] if eqx.is_array(leaf) else leaf, own)

    return of_member(step, 0), dataclasses.replace(state, **eqx.filter_eval_shape(first, parts(state, OWN)))


def _loop_sizes(recorded: PyTree[Array], kept: Int[np.ndarray, " kept"]) -> tuple[int, int]:
    """Return the capacity of a call of the compiled loop, lowered to bound memory, and its `n_kept`."""
    n_bytes = bytes_of(recorded)
    capacity = CAPACITY
    while (n_kept := most_kept(kept, capacity)) * n_bytes > MAX_TRAINABLES_BYTES and capacity > 1:
        capacity //= 2
    return capacity, n_kept
