"""The validation trials of a training, run between batches."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import PyTree, Shaped

from popsim.evaluation import Evaluation, evaluate, evaluate_ensemble, validation_trials
from popsim.randomness import key_stream
from popsim.task import differs_between_members
from popsim.training.loop.plan import TrainingPlan
from popsim.training.observers import checked_metrics
from popsim.training.population_updates.hyperparameters import with_present_values
from popsim.trial import Trial


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
