"""The results of experiments on motor tasks: losses, and how far the cursor is from its target."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from popsim._compiled import jit_fast_compile
from popsim.analysis.behaviour import end_point_error, hand_speed
from popsim.evaluation import evaluate_ensemble
from popsim.experiments.results import Column, ResultTable, Row
from popsim.hand import HandState
from popsim.store import as_json_numbers
from popsim.trial import Trial, n_trials

__all__ = ["is_still_at_end", "summarize_movements", "movement_table", "trial_groups"]

MEASURES = {
    "loss": ("loss", "", 1.0, 5),
    "mean_distance_m": ("distance", "mm", 1000.0, 2),
    "end_point_error_m": ("error at end", "mm", 1000.0, 2),
    "final_speed_m_per_s": ("speed at end", "cm/s", 100.0, 2),
}
"""By measure: its name and unit in the table, how many of these units make one in SI, and the decimals."""
AT_END = ("end_point_error_m", "final_speed_m_per_s")


def is_still_at_end(trials: Trial) -> bool:
    """Whether all targets are at rest in the last time step, as in reaches: what happens then is measured."""
    return not np.any(np.asarray(trials.targets.velocity)[:, -1])


def trial_groups(trials: Trial) -> dict[str, Bool[np.ndarray, " trial"]]:
    """Return by name which of stacked trials have no intervention, and which have each of them."""
    if not trials.interventions:
        return {"all trials": np.ones(n_trials(trials), bool)}
    acts = {name: np.asarray(schedule.active).any(axis=1) for name, schedule in trials.interventions.items()}
    without = ~np.any(list(acts.values()), axis=0)
    groups: dict[str, Any] = {"no intervention": without} | {name: acts[name] for name in sorted(acts)}
    return {name: members for name, members in groups.items() if members.any()}


def summarize_movements(experiment: Any, ensemble: Any) -> dict[str, Any]:
    """Measure the validation trials with noise, for each member of the ensemble and of an untrained control.

    Each measure is a mean over the trials of a group, see `trial_groups`. What is measured at the last step,
    is so only if all targets are at rest then.
    """
    task, key = experiment.build_task(), experiment.key("evaluation")
    trials = task.validation_trials()
    groups, measures = trial_groups(trials), [*MEASURES]
    if not is_still_at_end(trials):
        measures = [name for name in measures if name not in AT_END]

    def rows(members: Any) -> list[dict[str, Any]]:
        ids = experiment.members.ids
        evaluation = evaluate_ensemble(members, task, trials=trials, member_ids=ids, key=key)
        states = evaluation.states
        values = jax.device_get(
            (evaluation.losses.total, *_movements(states.cursor, states.hand, trials.targets))
        )
        named = dict(zip(MEASURES, values, strict=True))
        return [
            {
                "member": index,
                "groups": {
                    group: {name: as_json_numbers(named[name][index, chosen].mean()) for name in measures}
                    for group, chosen in groups.items()
                },
            }
            for index in range(experiment.n_members)
        ]

    return {
        "measures": measures,
        "n_trials": {group: int(chosen.sum()) for group, chosen in groups.items()},
        "ensembles": {"trained": rows(ensemble), "control: untrained": rows(experiment.build_ensemble())},
    }


@jit_fast_compile
def _movements(
    cursor: HandState, hand: HandState, targets: HandState
) -> tuple[Float[Array, "member trial"], Float[Array, "member trial"], Float[Array, "member trial"]]:
    """Return mean distance (m), distance at the last step (m) and speed of the hand then (m/s)."""
    distance = jnp.linalg.norm(cursor.position - targets.position, axis=-1)
    return jnp.mean(distance, axis=-1), end_point_error(cursor, targets), hand_speed(hand)[..., -1]


def movement_table(summary: dict[str, Any]) -> ResultTable:
    """Return a summary as a table, with the groups of trials side by side."""
    counts, measures = summary["n_trials"], summary["measures"]
    columns = [
        Column(name, unit, group if len(counts) > 1 else "", digits=digits)
        for group in counts
        for name, unit, _, digits in (MEASURES[measure] for measure in measures)
    ]
    rows = [
        Row(
            name,
            [_scaled(row["groups"][group][each], each) for group in counts for each in measures],
            row["member"],
        )
        for name, rows in summary["ensembles"].items()
        for row in rows
    ]
    texts = [
        f"{count} trials" if group == "all trials" else f"{group}: {count}" for group, count in counts.items()
    ]
    return ResultTable(columns, rows, f"validation trials with noise ({', '.join(texts)}), means over trials")


def _scaled(number: float | None, measure: str) -> float | None:
    return None if number is None else MEASURES[measure][2] * number
