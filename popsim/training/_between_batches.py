"""What happens to the state of a training between batches: it is validated, selected, controlled."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree, Shaped

from popsim._checks import warn_caller
from popsim.ensemble import members_at
from popsim.evaluation import Evaluation, evaluate, evaluate_ensemble, validation_trials
from popsim.randomness import key_stream
from popsim.task import differs_between_members
from popsim.training._controlled import controlled
from popsim.training._hyperparameters import (
    inherited_parts,
    parents_of_population,
    selected,
    with_inherited,
    with_present_values,
)
from popsim.training._plan import TrainingPlan
from popsim.training.control import ControlRecord
from popsim.training.loop.observers import LogEntry, checked_metrics
from popsim.training.selection import SelectionRecord
from popsim.training.steps.member_step import NOT_FROZEN
from popsim.training.steps.train_state import TrainState
from popsim.trial import Trial


def select(plan: TrainingPlan, state: TrainState, batch: int) -> tuple[TrainState, SelectionRecord]:
    """Return the state after the selection before a batch, its members laid out, and what was done.

    Where the population is shared, all its trainings must have come to the selection.

    **Raises:** `ValueError` if the score of the selection is not one number for each member;
    `CorruptDataError` if what another training wrote is damaged.
    """
    rule, population = plan.trainer.selection, plan.training.population
    assert rule is not None
    state = plan.layout.gather_state(state)
    own = inherited_parts(state, plan.recorded, plan.hyperparameters)
    key = jax.random.fold_in(key_stream(plan.training.key, "selection"), batch)
    scores = _scores(plan, state) if population is None else population.scores(batch)
    if not np.isfinite(np.asarray(scores)).any():
        scored = "the validation loss" if rule.score is None else "`score`"
        warn_caller(
            f"{scored} of the selection must be finite for some member, and was for none: all keep their "
            "weights."
        )
    places = jnp.arange(plan.count) if population is None else jnp.asarray(population.own_places)
    parents = parents_of_population(rule, scores, key)[places]
    if population is None:
        of_parents = members_at(own, np.asarray(parents))
    else:
        of_parents = population.rows_of(batch, np.asarray(parents), own)
    inherited, record = selected(rule, own, of_parents, places, parents, scores[places], key)
    state = with_inherited(state, plan.recorded, *plan.hyperparameter_places, inherited)
    return plan.layout.spread_state(state), jax.device_get(record)


def control(plan: TrainingPlan, state: TrainState, entry: LogEntry) -> tuple[TrainState, ControlRecord]:
    """Return the state after the controls of a logging point, its members laid out, and what was done.

    **Raises:** `ValueError` as `popsim.training._controlled.controlled`.
    """
    state, record = controlled(
        plan.layout.gather_state(state),
        plan.trainer.control,
        plan.hyperparameters,
        np.asarray(entry.validation_loss.total),
        entry.metrics,
        entry.batch,
    )
    return plan.layout.spread_state(state), record


def offer(plan: TrainingPlan, state: TrainState, batch: int) -> None:
    """Write the members for the selection of a shared population, unless that was done before.

    **Raises:** as `select`; `SaveError` if they cannot be written.
    """
    population = plan.training.population
    assert population is not None
    if not population.has_offered(batch):
        own = plan.layout.gather_state(state)
        rows = inherited_parts(own, plan.recorded, plan.hyperparameters)
        population.offer(batch, _scores(plan, own), rows)


def _scores(plan: TrainingPlan, state: TrainState) -> Float[Array, " member"]:
    """Return the scores of the members, on one device, for a selection."""
    rule = plan.trainer.selection
    assert rule is not None
    results, trials, _ = validate(plan, state.model, state.hyperparameters)
    scores = results.losses.total.mean(axis=-1)
    if rule.score is not None:
        scores = jnp.asarray(rule.score(results.states, trials), scores.dtype)
        if scores.shape != (plan.count,):
            raise ValueError(
                f"`score` of the selection must return a number for each of the {plan.count} members, "
                f"got shape {scores.shape}."
            )
    return jnp.where(state.loss_fn_state.frozen_from != NOT_FROZEN, jnp.inf, scores)


def validate(
    plan: TrainingPlan, model: Any, hyperparameters: PyTree = None
) -> tuple[Evaluation, Trial, dict[str, Shaped[np.ndarray, "..."]]]:
    """Return the results of a model on the validation trials, these trials, and the metrics.

    **Arguments:**

    - `model`: the model, or ensemble.
    - `hyperparameters`: those of the members at present, see `TrainState`; None for those given.
    """
    metrics_of = plan.trainer.validation_metrics
    task = with_present_values(plan.training.task, hyperparameters, plan.step)
    changes = hyperparameters is not None and differs_between_members(task)
    trials = validation_trials(task, plan.count or 1) if changes else plan.validation_trials
    key = key_stream(plan.training.key, "validation")
    if plan.training.ensembled:
        shared = None if differs_between_members(task) else trials
        results = evaluate_ensemble(
            model,
            task,
            trials=shared,
            member_ids=plan.member_ids,
            member_batch_size=plan.trainer.member_batch_size,
            key=key,
        )
    else:
        results = evaluate(model, task, trials=trials, member_id=plan.member_ids, key=key)
    metrics: Mapping[str, Any] = {} if metrics_of is None else metrics_of(results.states, trials)
    return results, trials, checked_metrics(metrics, plan.count)
