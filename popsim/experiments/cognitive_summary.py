"""How well an ensemble does a cognitive task, with a control that must do worse."""

from typing import Any

import jax
from jaxtyping import Array, Key

from popsim.batch_schedules import LAST_BATCH
from popsim.experiments.cognitive_scores import Criterion, scores
from popsim.experiments.result_table import Column, ResultTable, Row
from popsim.store import as_json_numbers
from popsim.task import AbstractTask
from popsim.trial import Trial

N_TRIALS = 1000


def summarize_cognitive(experiment: Any, ensemble: Any, criterion: Criterion) -> dict[str, Any]:
    """The score of each member of the ensemble and of the untrained one, the control.

    In the validation trials, one of each condition, and in `N_TRIALS` fresh ones, drawn as in training;
    these must meet the criterion.

    **Arguments:**

    - `experiment`: a `Cognitive` or one with its settings.
    - `ensemble`: the trained ensemble.
    - `criterion`: what is good enough.
    """
    task = experiment.build_task()
    key = experiment.key("evaluation")
    given = {"validation": task.validation_trials(), "fresh": fresh_trials(task, N_TRIALS, key=key)}
    ensembles = {"trained": ensemble, "control: untrained": experiment.build_ensemble()}
    return {
        "task": experiment.task,
        "score": criterion.score,
        "limit": criterion.limit,
        "n_fresh_trials": N_TRIALS,
        "ensembles": {
            name: _rows(members, task, given, criterion, key) for name, members in ensembles.items()
        },
    }


def fresh_trials(task: AbstractTask, n_trials: int, *, key: Key[Array, ""]) -> Trial:
    """Trials as in the last batch of a training."""
    keys = jax.random.split(key, n_trials)
    return jax.jit(jax.vmap(lambda key: task.trial(batch=LAST_BATCH, key=key)))(keys)


def _rows(
    ensemble: Any, task: AbstractTask, given: dict[str, Trial], criterion: Criterion, key: Key[Array, ""]
) -> list[dict[str, Any]]:
    found = {name: scores(ensemble, task, trials, criterion, key=key) for name, trials in given.items()}
    return [
        {
            "member": index,
            **{name: as_json_numbers(values[index]) for name, values in found.items()},
            "does_the_task": bool(criterion.is_met(fresh)),
        }
        for index, fresh in enumerate(found["fresh"].tolist())
    ]


def cognitive_table(summary: dict[str, Any]) -> ResultTable:
    """The score of each member, and whether it does the task."""
    score, limit = summary["score"], summary["limit"]
    relation = "at least" if score == "accuracy" else "at most"
    given = ("validation", "fresh")
    return ResultTable(
        [*(Column(name, digits=4) for name in given), Column("does the task")],
        [
            Row(name, [*(row[which] for which in given), row["does_the_task"]], row["member"])
            for name, rows in summary["ensembles"].items()
            for row in rows
        ],
        f"{summary['task']}: {score} in {summary['n_fresh_trials']} fresh trials, {relation} {limit:g}",
    )
