"""What a training computes up to one of its batches, as checkpoints describe it, and how two are compared."""

import dataclasses
import functools
import importlib.metadata
import operator
import platform
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from popsim._compiled import MadeWhileCompiling, ProgramText, current_engine, program_text, weighted_sums
from popsim._shared.named_values import (
    NUMERIC_FLAGS,
    array_digest,
    describe_differences,
    named_values,
    numeric_flags,
    short_text,
)
from popsim._shared.user_code import different_names, users_code
from popsim.ensemble import member
from popsim.evaluation import validation_trials
from popsim.model import simulate
from popsim.parameters import declared_leaves
from popsim.per_member import without_member_axes
from popsim.randomness import key_stream, seed_key
from popsim.store import as_json_numbers, leaf_names
from popsim.store.array_file import as_numpy
from popsim.task import AbstractTask
from popsim.training.loop.training_plan import TrainingPlan, first_member
from popsim.training.steps.optimizers import learning_rate_of
from popsim.training.steps.train_state import named_arrays
from popsim.version import __version__

__all__ = [
    "Computation",
    "Differences",
    "TrainingComputation",
    "compare_computations",
    "different_settings",
    "task_computation",
]

TOLERANCE = 1e-5  # of the largest number of an array: machines of other kinds differ in the last digits
PACKAGES = ("jax", "equinox", "optax", "diffrax")
TEXTS_DEPEND_ON = (*PACKAGES, "popsim", "engine")
MOST_STORED = 100_000  # numbers of an array that every checkpoint repeats
MOST_NAMED = 5


def _by_name() -> Any:
    return dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Computation:
    """What is computed, as a checkpoint describes it, each part by name."""

    settings: dict[str, str] = _by_name()  # structure and flags, too, and digests of data and large arrays
    texts: dict[str, ProgramText] = _by_name()  # of programs
    sums: dict[str, list[float | str | None]] = _by_name()  # of large arrays, and those that training changes
    host_code: dict[str, str] = _by_name()  # digests of functions that run outside of compiled programs
    made_by: dict[str, str] = _by_name()  # versions of what computes
    functions: dict[str, str] = _by_name()  # digests of all functions of the user, for messages
    arrays: dict[str, Any] = _by_name()  # that training does not change, kept with those of the checkpoint

    def as_json(self) -> dict[str, Any]:
        """Return all but the arrays as JSON values."""
        names = [field.name for field in dataclasses.fields(self) if field.name != "arrays"]
        return {name: getattr(self, name) for name in names}

    def __or__(self, other: "Computation") -> "Computation":
        names = [field.name for field in dataclasses.fields(self)]
        return Computation(**{name: getattr(self, name) | getattr(other, name) for name in names})


@dataclasses.dataclass
class Differences:
    """What differs between two computations, one readable entry each."""

    versions: str  # of what computes, those that differ
    refused: list[str]  # what makes them two
    unknown: list[str] = dataclasses.field(default_factory=list)  # what may be other in another version
    not_compared: list[str] = dataclasses.field(default_factory=list)  # as they call Python, or lack text


def different_settings(stored: Mapping[str, Any], computation: Computation) -> str:
    """Return a message on the settings that differ, those of JAX first; empty if none does."""
    parts = {name.partition(".")[0] for name in computation.settings}
    known = {name: text for name, text in stored["settings"].items() if name.partition(".")[0] in parts}
    # A flag that is not told is unknown, and others follow from those of JAX.
    flags = [name for name in NUMERIC_FLAGS if name in known and name in computation.settings]
    names = [*flags, *(name for name in {**computation.settings, **known} if name not in NUMERIC_FLAGS)]
    return describe_differences(
        *({name: texts[name] for name in names if name in texts} for texts in (known, computation.settings))
    )


def compare_computations(
    stored: Mapping[str, Any], computation: Computation, stored_arrays: Mapping[str, Any]
) -> Differences:
    """Compare what a checkpoint describes with a computation."""
    settings = different_settings(stored, computation)
    differences = Differences(
        describe_differences(stored["made_by"], computation.made_by),
        [settings] if settings else _different_arrays(stored_arrays, computation.arrays),
    )
    differences.refused += _different_sums(stored["sums"], computation.sums)
    if "population_updates" in computation.settings:
        # Versions of Python compile the same source to other code.
        is_known = not is_other_version(stored, computation, ["python"])
        host = computation.host_code
        if names := different_names(stored["host_code"], host) if is_known else [*host]:
            (differences.refused if is_known else differences.unknown).append(f"the code of {_some(names)}")
    _compare_texts(stored, computation, differences)
    return differences


def _compare_texts(stored: Mapping[str, Any], computation: Computation, differences: Differences) -> None:
    for name, text in computation.texts.items():
        old_text = ProgramText(*stored["texts"].get(name, ("", [], False)))
        if text.calls_python or not (text.digest and old_text.digest):
            differences.not_compared.append(f"what {name} computes")
        is_same = text.digest == old_text.digest
        constants = list(zip(old_text.numbers, text.numbers, strict=is_same))
        if is_same and all(_are_same(old, new).all() for old, new in constants):
            continue
        shared = stored["functions"].keys() & computation.functions.keys()
        code = [
            name for name in different_names(stored["functions"], computation.functions) if name in shared
        ]
        reasons = [f"the code of {_some(code)} differs"] if code else []
        if is_same and not code:
            # XLA writes an array whose numbers are all equal as one number.
            alike = [(old, new) for old, new in constants if len(old) == len(new)]
            pairs = chain.from_iterable(zip(old, new, strict=True) for old, new in alike)
            reasons = [f"{a:g} then and {b:g} now" for a, b in pairs if not np.isclose(a, b, rtol=TOLERANCE)]
        unexplained = "no known code differs, but a global, an attribute or an argument that one reads"
        difference = f"what {name} computes ({', '.join(reasons[:MOST_NAMED]) or unexplained})"
        if is_other_version(stored, computation, TEXTS_DEPEND_ON) or text.calls_python:
            # Another version makes other texts anyway.
            differences.unknown += [difference] if code or text.calls_python else []
        else:
            differences.refused.append(difference)


def is_other_version(stored: Mapping[str, Any], computation: Computation, names: Iterable[str]) -> bool:
    """Return whether one of the versions of what computes is another."""
    return any(stored["made_by"].get(name) != computation.made_by.get(name) for name in names)


def _are_same(old: Any, new: Any) -> np.ndarray:
    """Return which numbers are equal, to rounding relative to the largest; one False for another shape."""
    old, new = np.asarray(old), np.asarray(new)
    if old.shape != new.shape:
        return np.zeros((), bool)
    if not jnp.issubdtype(new.dtype, jnp.inexact):
        return np.asarray(old == new)
    old, new = _in_double(old), _in_double(new)
    largest = np.abs(old[np.isfinite(old)]).max(initial=0.0)
    return np.asarray(np.isclose(new, old, rtol=0, atol=TOLERANCE * largest, equal_nan=True))


def _some(names: list[str]) -> str:
    more = len(names) - MOST_NAMED
    return ", ".join(f"`{name}`" for name in names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _different_sums(stored: Mapping[str, Any], sums_by_name: Mapping[str, Any]) -> list[str]:
    """Return a text for the first arrays of which the sums differ, and how many more there are."""
    texts = []
    for name, (*sums, kinds) in sums_by_name.items():
        *old_sums, old_kinds = stored.get(name, [0.0, "nothing"])
        before, after = np.asarray(old_sums, float), np.asarray(sums, float)
        if not _are_same(before, after).all():
            texts.append(f"the numbers of `{name}`, of norm {before[0]:.6g} then and {after[0]:.6g} now")
        elif kinds != old_kinds:
            texts.append(f"the numbers of `{name}`, {old_kinds} then and {kinds} now")
    more = len(texts) - MOST_NAMED
    return texts[:MOST_NAMED] + ([f"{more} more arrays"] if more > 0 else [])


def _different_arrays(stored: Mapping[str, Any], arrays: Mapping[str, Any]) -> list[str]:
    texts = []
    for name, array in arrays.items():
        pair = (as_numpy(stored[name]), as_numpy(array))
        same = _are_same(*pair)
        if not same.all():
            place = np.unravel_index(np.argmin(same), same.shape)
            index = f"[{', '.join(map(str, place))}]" if place else ""
            old_number, new_number = (_number(array[place]) for array in pair)
            texts.append(f"`{name}{index}`, {old_number} then and {new_number} now")
    return texts


def _number(number: np.generic) -> str:
    return f"{number:.6g}" if isinstance(number, np.floating) else str(number)


def task_computation(task: AbstractTask, model: Any, *, n_members: int | None) -> Computation:
    """Return what is known of a computation from the task and the model alone."""
    trials = validation_trials(task, n_members or 1)
    return Computation(
        settings={**named_values("model", model), **named_values("task", task)},
        texts={
            "an evaluation": program_text(
                _run_trial, without_member_axes(task), model, jnp.asarray(0), seed_key(0), n_members is None
            )
        },
        sums=sums_of(named_arrays({"validation trials": trials})),
        functions=users_code(task, model),
        made_by={
            "python": ".".join(platform.python_version_tuple()[:2]),
            **{package: importlib.metadata.version(package) for package in PACKAGES},
            "popsim": __version__,
            "engine": current_engine(),
        },
    ) | constants_of("task", task)


def _run_trial(task: AbstractTask, model: Any, batch: Any, key: Any, is_single: bool) -> Any:
    model = model if is_single else member(model, 0)
    trial = task.trial(batch=batch, key=key_stream(key, "specification"))
    states = simulate(model, trial, key=key)
    return trial, states, task.loss(states, trial, model)


def constants_of(name: str, value: Any) -> Computation:
    """Return the arrays in a value: data by their digests, large ones by digests or sums."""
    named = {name: value}
    arrays, is_data = named_arrays(named), jax.tree.leaves(declared_leaves(named, "data_fields"))
    data = {path for path, place in leaf_names(named).items() if is_data[place]}
    large = {path for path, array in arrays.items() if path not in data and array.size > MOST_STORED}
    summed = {path for path in large if jnp.issubdtype(arrays[path].dtype, jnp.inexact)}
    exact = sorted((data | large) - summed)
    return Computation(
        settings={f"the data in {path}": array_digest(arrays[path])[:16] for path in exact},
        sums=sums_of({path: arrays[path] for path in sorted(summed)}),
        arrays={path: array for path, array in arrays.items() if path not in data | large},
    )


def sums_of(arrays: Mapping[str, Any]) -> dict[str, list[float | str | None]]:
    """Return the norm of each array, its sums with fixed random weights, and what of it is not finite."""
    sums = {}
    for name, array in arrays.items():
        numbers = _in_double(as_numpy(array).ravel())
        is_finite = np.isfinite(numbers)
        kinds = "all finite"
        if not is_finite.all():
            which = np.select([is_finite, np.isnan(numbers), numbers == np.inf], [0, 1, 2], 3)
            kinds = f"{np.count_nonzero(which)} not finite ({array_digest(which)[:8]})"
        sums[name] = [*as_json_numbers(weighted_sums(np.where(is_finite, numbers, 0))), kinds]
    return sums


def _in_double(numbers: np.ndarray) -> np.ndarray:
    return numbers.astype(np.complex128 if np.iscomplexobj(numbers) else np.float64)


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
            first_batch: MadeWhileCompiling(functools.partial(_step_text, plan, trained))
            for first_batch, trained in plan.batches.trained.items()
        }

    @property
    def made_while_compiling(self) -> tuple[MadeWhileCompiling, ...]:
        """What is to be made while the first program is compiled."""
        return (self._of_task, next(iter(self._of_phases.values())))

    @functools.cached_property
    def _unchanged(self) -> Computation:
        plan, trainer, updates = self.plan, self.plan.trainer, self.plan.trainer.population_updates
        changing, arrays = _changing_names(plan), named_arrays({"model": plan.state.model})
        parts = {
            "gradient": trainer.gradient,
            "model_update_funcs": trainer.updates,
            "post_step_fns": tuple(trainer.post_step_fns),
            "population_updates": updates,
        }
        computation = Computation(
            settings=_training_settings(plan) | _named(parts | {"optimizer": plan.state.opt_state}),
            sums=sums_of(
                {f"initial {name}": array for name, array in arrays.items() if name in changing}
                | named_arrays({"initial opt_state": plan.state.opt_state})
            ),
            host_code=users_code(updates, trainer.validation_metrics) if updates else {},
            functions=users_code(parts, trainer.optimizer, trainer.loss_update_func),
            arrays={name: array for name, array in arrays.items() if name not in changing},
        )
        constants = [constants_of(*part) for part in parts.items()]
        return functools.reduce(operator.or_, [computation, *constants, self._of_task.result()])

    def up_to(self, batch: int) -> Computation:
        """Return what is computed in all batches before `batch`."""
        plan = self.plan
        enabled = None if plan.batches.enabled is None else np.asarray(plan.batches.enabled[:batch])
        begun = [first for first in self._of_phases if first < max(batch, 1)]
        trained = {
            f"where_train.from batch {first}": _trained_text(plan.state.params, plan.batches.trained[first])
            for first in begun
        }
        texts = {f"a training step from batch {first} on": self._of_phases[first].result() for first in begun}
        toggles = "all" if enabled is None or enabled.all() else array_digest(enabled)
        resets = [reset for reset in plan.batches.resets if reset < batch]
        now = Computation(
            settings={**trained, "toggle_model_update_funcs": toggles, "reset_opt_state_at": repr(resets)},
            texts=texts,
        )
        return now | self._unchanged  # messages name phases before the slots that they change


def _training_settings(plan: TrainingPlan) -> dict[str, str]:
    trainer, training = plan.trainer, plan.training
    kept_as, population, members = training.trainables_dtype, training.population, training.members
    acts_at_log_points = any(update.every is None for update in trainer.population_updates)
    rate = np.unique(np.asarray(learning_rate_of(plan.state.opt_state)))
    settings_of_members = {
        name: np.asarray(values).tolist() for name, values in (members.settings if members else {}).items()
    }
    settings = {
        "n_members": plan.count,
        "member_ids": np.asarray(plan.member_ids).tolist(),
        "batch_size": training.batch_size,
        "start_batch": training.start_batch,
        "ensemble_random_trials": not plan.step.shared_trials,
        "greedy_validation": trainer.greedy_validation,
        "population": None if population is None else population.label,
        "trainables_dtype": None if kept_as is None else str(np.dtype(kept_as)),
        "inputs": repr(plan.state.model.trained_inputs),
        "key": array_digest(training.key)[:16],
        "key implementation": str(jax.random.key_impl(training.key)),
        "log_step": training.log_step if acts_at_log_points else None,
        "members": None if members is None else [members.shape, settings_of_members],
        **numeric_flags(),
        "optimizer.learning_rate": ", ".join(map(str, rate)),
    }
    functions = {name: getattr(trainer, name) for name in ("loss_update_func", "validation_metrics")}
    return {name: str(value) for name, value in settings.items()} | _named(functions)


def _named(parts: Mapping[str, Any]) -> dict[str, str]:
    return {name: text for part in parts.items() for name, text in named_values(*part).items()}


def _changing_names(plan: TrainingPlan) -> set[str]:
    changes: list[bool] = []

    def run_post_steps(model: Any) -> Any:
        updated = model
        for post_step in plan.trainer.post_step_fns:
            updated = post_step(updated)
        leaves = zip(jax.tree.leaves(model), jax.tree.leaves(updated), strict=True)
        changes[:] = [new is not old for old, new in leaves]

    eqx.filter_eval_shape(run_post_steps, first_member(plan.training, plan.step, plan.state)[1].model)
    names = leaf_names({"model": plan.state.model})
    recorded = named_arrays({"model": eqx.filter(plan.state.model, plan.recorded)})
    return {name for name, place in names.items() if changes[place]} | recorded.keys()


def _trained_text(params: PyTree, trained: PyTree[bool] | None) -> str:
    """Return the names of the parameters that are trained, or their beginning and a digest."""
    return short_text(
        ", ".join(named_arrays({"model": params if trained is None else eqx.filter(params, trained)}))
    )


def _step_text(plan: TrainingPlan, trained: PyTree[bool] | None) -> Any:
    """Return the text of the training step of one member, however a training divides its work."""
    step, state = first_member(plan.training, plan.step, plan.state)
    step = dataclasses.replace(step, n_minibatches=1, remat=False, trained=trained)
    # Also where all are, as they may be toggled in later batches.
    are_enabled = jnp.ones(len(step.updates), bool) if step.updates else None
    # When a training is resumed, globals that were changed since it began are to be seen.
    anew = plan.training.restore_checkpoint
    return program_text(_run_step, step, state, jnp.asarray(0), jnp.asarray(0), are_enabled, anew=anew)


def _run_step(step: Any, state: Any, batch: Any, member_id: Any, enabled: Any) -> Any:
    return step(state, batch=batch, member_id=member_id, enabled=enabled)
