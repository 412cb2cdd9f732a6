"""What a training computes up to one of its batches, compared when it is resumed."""

import dataclasses
import functools
import operator
from collections.abc import Iterable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from popsim._compiled import MadeWhileCompiling, program_text
from popsim._named_values import array_digest, named_values, numeric_flags, short_text
from popsim._user_code import code_of_modules, users_code, users_modules
from popsim.store import leaf_names
from popsim.training.history.computation import Computation, constants_of, sums_of, task_computation
from popsim.training.loop.training_plan import TrainingPlan
from popsim.training.steps.optimizers import learning_rate_of
from popsim.training.steps.train_state import named_arrays

__all__ = ["TrainingComputation"]


class TrainingComputation:
    """What a training computes up to one of its batches.

    Excluded are how it is computed (devices, blocks of members, minibatches, rematerialisation), the batches
    that are recorded, and all that begins later: a longer training, another plan for the rest of it.
    """

    def __init__(self, plan: TrainingPlan):
        self.plan = plan
        self._of_task = MadeWhileCompiling(
            lambda: task_computation(plan.training.task, plan.state.model, n_members=plan.count)
        )
        self._of_phases = {
            phase.first_batch: MadeWhileCompiling(functools.partial(_step_text, plan, phase.trained))
            for phase in plan.batches.phases.phases
        }

    @property
    def made_while_compiling(self) -> tuple[MadeWhileCompiling, ...]:
        """What is to be made while the first program is compiled."""
        return (self._of_task, next(iter(self._of_phases.values())))

    @functools.cached_property
    def _unchanged(self) -> Computation:
        """What is the same at all batches."""
        plan, trainer, updates = self.plan, self.plan.trainer, self.plan.trainer.population_updates
        changing, arrays = _changing_names(plan), named_arrays("model", plan.state.model)
        parts = {
            "gradient": trainer.gradient,
            "model_update_funcs": trainer.updates,
            "post_step_fns": tuple(trainer.post_step_fns),
            "population_updates": updates,
        }
        named = parts | {"optimizer": plan.state.opt_state}
        computation = Computation(
            settings=_training_settings(plan) | _merged(named_values(*part) for part in named.items()),
            sums=sums_of(
                {f"initial {name}": array for name, array in arrays.items() if name in changing}
                | named_arrays("initial opt_state", plan.state.opt_state)
            ),
            host_code=users_code(updates, trainer.validation_metrics) if updates else {},
            functions=code_of_modules(users_modules()),
            arrays={name: array for name, array in arrays.items() if name not in changing},
        )
        constants = [constants_of(*part) for part in parts.items()]
        return functools.reduce(operator.or_, [computation, *constants, self._of_task.result()])

    def up_to(self, batch: int) -> Computation:
        """Return what is computed in all batches before `batch`."""
        plan = self.plan
        enabled = None if plan.batches.enabled is None else np.asarray(plan.batches.enabled[:batch])
        phases = [phase for phase in plan.batches.phases.phases if phase.first_batch < max(batch, 1)]
        trained = {
            f"where_train.from batch {phase.first_batch}": _trained_text(plan.state.params, phase.trained)
            for phase in phases
        }
        texts = {
            f"a training step from batch {phase.first_batch} on": self._of_phases[phase.first_batch].result()
            for phase in phases
        }
        toggles = "all" if enabled is None or enabled.all() else array_digest(enabled)
        resets = [reset for reset in plan.batches.resets if reset < batch]
        now = Computation(
            settings={**trained, "toggle_model_update_funcs": toggles, "reset_opt_state_at": repr(resets)},
            texts=texts,
        )
        return self._unchanged | now


def _training_settings(plan: TrainingPlan) -> dict[str, str]:
    """Return the settings of a trainer and a training that are numbers, texts or their names."""
    trainer, training = plan.trainer, plan.training
    kept_as, population, members = training.trainables_dtype, training.population, training.members
    acts_at_log_points = any(update.every is None for update in trainer.population_updates)
    rate = np.unique(np.asarray(learning_rate_of(plan.state.opt_state)))
    settings = {
        "n_members": plan.count,
        "member_ids": np.asarray(plan.member_ids).tolist(),
        "batch_size": training.batch_size,
        "start_batch": training.start_batch,
        "ensemble_random_trials": not plan.shared_trials,
        "greedy_validation": trainer.greedy_validation,
        "population": None if population is None else population.label,
        "trainables_dtype": None if kept_as is None else str(np.dtype(kept_as)),
        "inputs": repr(plan.state.model.trained_inputs),
        "key": array_digest(training.key)[:16],
        "key implementation": str(jax.random.key_impl(training.key)),
        "log_step": training.log_step if acts_at_log_points else None,
        "members": None if members is None else [members.shape, _listed(members.settings)],
        **numeric_flags(),
        "optimizer.learning_rate": ", ".join(map(str, rate)),
    }
    named = {
        "loss_update_func": trainer.loss_update_func,
        "validation_metrics": trainer.validation_metrics,
    }
    return {name: str(value) for name, value in settings.items()} | _merged(
        named_values(*part) for part in named.items()
    )


def _listed(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: np.asarray(values).tolist() for name, values in settings.items()}


def _merged(mappings: Iterable[Mapping[str, str]]) -> dict[str, str]:
    return {name: text for mapping in mappings for name, text in mapping.items()}


def _changing_names(plan: TrainingPlan) -> set[str]:
    """Return the names of the arrays of the model that training may change."""
    changes: list[bool] = []

    def run_post_steps(model: Any) -> Any:
        after = model
        for post_step in plan.trainer.post_step_fns:
            after = post_step(after)
        leaves = zip(jax.tree.leaves(model), jax.tree.leaves(after), strict=True)
        changes[:] = [new is not old for old, new in leaves]

    eqx.filter_eval_shape(run_post_steps, plan.first_member()[1].model)
    names = leaf_names({"model": plan.state.model})
    recorded = named_arrays("model", eqx.filter(plan.state.model, plan.recorded))
    return {name for name, place in names.items() if changes[place]} | recorded.keys()


def _trained_text(params: PyTree, trained: PyTree[bool] | None) -> str:
    """Return the names of the parameters that are trained, or their beginning and a digest."""
    return short_text(
        ", ".join(named_arrays("model", params if trained is None else eqx.filter(params, trained)))
    )


def _step_text(plan: TrainingPlan, trained: PyTree[bool] | None) -> Any:
    """Return the text of the training step of one member, however a training divides its work."""
    step, state = plan.first_member()
    step = dataclasses.replace(step, n_minibatches=1, remat=False, trained=trained)
    # Also where all are, as they may be toggled in later batches.
    are_enabled = jnp.ones(len(step.updates), bool) if step.updates else None
    # When a training is resumed, globals that were changed since it began are to be seen.
    anew = plan.training.restore_checkpoint
    return program_text(_run_step, step, state, jnp.asarray(0), jnp.asarray(0), are_enabled, anew=anew)


def _run_step(step: Any, state: Any, batch: Any, member_id: Any, enabled: Any) -> Any:
    return step(state, batch=batch, member_id=member_id, enabled=enabled)
