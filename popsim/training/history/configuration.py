"""The configuration of a training, compared when it is resumed."""

import dataclasses
import functools
import platform
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import PyTree

from popsim._comparison import describe_differences, part_texts
from popsim._compiled import current_engine
from popsim._fingerprint import fingerprint, source_fingerprint
from popsim._numeric_flags import NUMERIC_FLAGS, numeric_flags
from popsim.store import as_json_numbers
from popsim.training.loop.training_plan import TrainingPlan
from popsim.training.steps.gradients import BackpropThroughTime
from popsim.training.steps.optimizers import learning_rate_of
from popsim.version import __version__

__all__ = ["Configuration", "INPUTS", "differences", "model_structure"]

INPUTS = "inputs"  # the sizes of the model's inputs by name


@dataclasses.dataclass(frozen=True)
class Configuration:
    """The configuration of a training up to one of its batches, by name.

    Excluded are how it is computed (devices, blocks of members, minibatches, rematerialisation), the batches
    that are recorded, and all that begins later: a longer training, another plan for the rest of it. Initial
    numbers are compared up to rounding, which differs between kinds of machines.

    - `plan`: the plan of the training.
    """

    plan: TrainingPlan

    @functools.cached_property
    def _compared(self) -> dict[str, Any]:
        """Values that are the same at all batches, compared by fingerprint."""
        trainer, training = self.plan.trainer, self.plan.training
        members = training.members
        return {
            "model": model_structure(self.plan.state.model),
            "task": training.task,
            "members": None if members is None else (members.settings, members.shape),
            "key": training.key,
            "optimizer": trainer.optimizer,
            "model_update_funcs": trainer.updates,
            "loss_update_func": trainer.loss_update_func,
            "post_step_fns": tuple(trainer.post_step_fns),
            "validation_metrics": trainer.validation_metrics,
            **({"greedy_validation": True} if trainer.greedy_validation else {}),
            **({} if trainer.gradient == BackpropThroughTime() else {"gradient": trainer.gradient}),
            **({"population_updates": tuple(updates)} if (updates := trainer.population_updates) else {}),
        }

    @functools.cached_property
    def _constant(self) -> dict[str, Any]:
        """Entries that are the same at all batches; computed once, as functions may keep results in them."""
        plan, training = self.plan, self.plan.training
        kept_as, population = training.trainables_dtype, training.population
        acts_at_log_points = any(update.every is None for update in plan.trainer.population_updates)
        return {
            "n_members": plan.count,
            "member_ids": np.asarray(plan.member_ids).tolist(),
            "batch_size": training.batch_size,
            "start_batch": training.start_batch,
            "ensemble_random_trials": not plan.shared_trials,
            **({} if population is None else {"population": population.label}),
            "trainables_dtype": None if kept_as is None else str(np.dtype(kept_as)),
            INPUTS: plan.state.model.trained_inputs.sizes,
            "key implementation": str(jax.random.key_impl(training.key)),
            **numeric_flags(),
            **{name: fingerprint(value) for name, value in self._compared.items()},
            **({"log_step": training.log_step} if acts_at_log_points else {}),
            "first numbers of model": _sample(plan.state.model),
            "first numbers of opt_state": _sample(plan.state.opt_state),
        }

    @functools.cached_property
    def made_by(self) -> dict[str, str]:
        """Versions and digests of source texts as JSON values; changes in these may alter the numbers."""
        sources = {name: source_fingerprint(value) for name, value in self._compared.items()}
        return {
            "python": ".".join(platform.python_version_tuple()[:2]),
            "jax": jax.__version__,
            "popsim": __version__,
            "engine": current_engine(),
            **{f"source of {name}": digest for name, digest in sources.items()},
        }

    @functools.cached_property
    def parts(self) -> dict[str, dict[str, str]]:
        """By name, the parts of the values compared by fingerprint, as JSON values for messages."""
        rate = np.unique(np.asarray(learning_rate_of(self.plan.state.opt_state)))
        compared = {**self._compared, "optimizer": {"learning_rate": rate.squeeze()}}
        return {name: part_texts(name, value) for name, value in compared.items()}

    def up_to(self, batch: int) -> dict[str, Any]:
        """Return the configuration of all batches before `batch`, as JSON values."""
        plan = self.plan
        enabled = None if plan.batches.enabled is None else np.asarray(plan.batches.enabled[:batch])
        phases = [phase for phase in plan.batches.phases.phases if phase.first_batch < max(batch, 1)]
        planned = {
            "where_train": (_places(plan.state.params), phases),
            "toggle_model_update_funcs": None if enabled is None or enabled.all() else enabled,
        }
        return {
            **self._constant,
            "reset_opt_state_at": [reset for reset in plan.batches.resets if reset < batch],
            **{name: fingerprint(value) for name, value in planned.items()},
        }


def differences(
    recorded: dict[str, Any],
    expected: dict[str, Any],
    parts_found: Any = None,
    parts_expected: Mapping[str, Mapping[str, str]] | None = None,
) -> list[str]:
    """Return the differences between two configurations, one readable entry each, with their parts.

    Flags of JAX come first, as other differences may follow from them. A flag, the engine or the inputs, if
    one of the configurations lacks them, as it was written or is read by another version, are unknown and no
    difference.
    """
    later = (*NUMERIC_FLAGS, "engine", INPUTS)
    unknown = {name for name in later if (name in recorded) != (name in expected)}
    texts = []
    for name in sorted({*recorded, *expected} - unknown, key=lambda name: (name not in NUMERIC_FLAGS, name)):
        before, now = recorded.get(name), expected.get(name)
        if before == now or _about_equal(before, now):
            continue
        is_digest = isinstance(before, str) and isinstance(now, str) and len(now) == len(before) == 64
        is_sample = isinstance(before, list) and name.startswith("first numbers")
        if is_digest or is_sample:
            parts = describe_differences(name, parts_found, (parts_expected or {}).get(name, {}))
            texts.append(parts or f"`{name}`")
        else:
            texts.append(f"`{name}`, {before} then and {now} now")
    return texts


def model_structure(model: PyTree) -> PyTree:
    """Return a model, or one of `jax.ShapeDtypeStruct`, with arrays replaced by dtype and shape."""

    def leaf_shape(leaf: Any) -> Any:
        is_array = eqx.is_array(leaf) or isinstance(leaf, jax.ShapeDtypeStruct)
        return f"{leaf.dtype} {leaf.shape}" if is_array else leaf

    return jax.tree.map(leaf_shape, model)


def _places(params: PyTree) -> list[bool]:
    return [leaf is not None for leaf in jax.tree.leaves(params, is_leaf=lambda leaf: leaf is None)]


def _sample(tree: PyTree) -> list[float | None]:
    """Return the last number of each floating-point array."""
    leaves = [leaf for leaf in jax.tree.leaves(tree) if eqx.is_inexact_array(leaf) and leaf.size]
    return as_json_numbers([float(np.real(np.asarray(leaf).ravel()[-1])) for leaf in leaves])


def _about_equal(before: Any, now: Any) -> bool:
    """Return whether both are lists of numbers that differ only by rounding."""
    if not isinstance(before, list) or not isinstance(now, list) or len(before) != len(now):
        return False
    try:
        numbers_before, numbers_now = np.asarray(before, float), np.asarray(now, float)
    except (TypeError, ValueError):
        return False
    return np.allclose(numbers_before, numbers_now, rtol=1e-3, atol=1e-6, equal_nan=True)
