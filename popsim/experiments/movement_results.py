"""The results of experiments on motor tasks: losses, and how far the cursor is from its target in the end."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from popsim._compiled import jit_fast_compile
from popsim.analysis.behaviour import end_point_error, hand_speed
from popsim.evaluation import evaluate_ensemble
from popsim.experiments.results import LIMITS, Column, ResultTable, Row, member_rows
from popsim.hand import HandState
from popsim.noise import with_zero_noise
from popsim.senses import SensoryChannel
from popsim.store import as_json_numbers
from popsim.trial import Trial, n_trials, repeat_trials

__all__ = [
    "is_still_at_end",
    "movement_table",
    "reach_table",
    "summarize_movements",
    "summarize_reaches",
    "trial_groups",
]

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
    """Measure the validation trials with noise, trained and untrained: means over each of `trial_groups`."""
    task, key = experiment.build_task(), experiment.key("evaluation")
    trials = task.validation_trials()
    groups, at_end = trial_groups(trials), is_still_at_end(trials)
    measures = [name for name in MEASURES if at_end or name not in AT_END]

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

    def scaled(row: dict[str, Any]) -> list[float | None]:
        numbers = [(measure, row["groups"][group][measure]) for group in counts for measure in measures]
        return [None if number is None else MEASURES[each][2] * number for each, number in numbers]

    texts = [
        f"{count} trials" if group == "all trials" else f"{group}: {count}" for group, count in counts.items()
    ]
    caption = f"validation trials with noise ({', '.join(texts)}), means over trials"
    return ResultTable(columns, member_rows(summary, scaled), caption)


N_REPEATS = 16
LIMITS_OF_AN_ARM = {
    "noise_off_worst_target": {"end_point_error_m": 0.002, "final_speed_m_per_s": 0.01},
    "noise_on_mean": {"end_point_error_m": 0.005, "final_speed_m_per_s": 0.02},
}
HEADINGS = {"noise_off_worst_target": "noise off, worst target", "noise_on_mean": "noise on, mean"}


def summarize_reaches(experiment: Any, ensemble: Any, *, tolerance: float) -> dict[str, Any]:
    """Measure error and speed at the last step: trained, untrained, and with doubled delays, if they fit."""
    limits = {
        condition: {name: tolerance * limit for name, limit in of_condition.items()}
        for condition, of_condition in LIMITS_OF_AN_ARM.items()
    }
    measured = {"trained": ensemble, "control: untrained": experiment.build_ensemble()}
    slow = {name: _double_delay(channel) for name, channel in ensemble.channels.items()}
    if max(channel.delay for channel in slow.values()) < experiment.duration:
        measured["control: delays doubled"] = eqx.tree_at(lambda model: model.channels, ensemble, slow)
    rows = {name: _accuracy(experiment, members, limits) for name, members in measured.items()}
    return {"n_repeats": N_REPEATS, "limits": limits, "ensembles": rows}


def _double_delay(channel: SensoryChannel) -> SensoryChannel:
    own_delay = None if channel.own_delay is None else 2 * channel.own_delay
    return dataclasses.replace(channel, delay=2 * channel.delay, own_delay=own_delay)


def _accuracy(experiment: Any, ensemble: Any, limits: dict[str, dict[str, float]]) -> list[dict[str, Any]]:
    task, key = experiment.build_task(), experiment.key("evaluation")
    trials = repeat_trials(task.validation_trials(), N_REPEATS)  # without noise too, by the same program
    options = {"trials": trials, "member_ids": experiment.members.ids, "key": key}
    noise_off, noise_on = "noise_off_worst_target", "noise_on_mean"
    clean = _final_errors(task, with_zero_noise(ensemble), **options)
    noisy = _final_errors(task, ensemble, **options)
    rows = []
    for index in range(experiment.n_members):
        found = {
            noise_off: {name: as_json_numbers(values[index].max()) for name, values in clean.items()},
            noise_on: {name: as_json_numbers(values[index].mean()) for name, values in noisy.items()},
        }
        within = all(
            (number := found[condition][name]) is not None and number < limit
            for condition, of_condition in limits.items()
            for name, limit in of_condition.items()
        )
        rows.append({"member": index, **found, "within_limits": within})
    return rows


def _final_errors(task: Any, ensemble: Any, *, trials: Trial, **options: Any) -> dict[str, np.ndarray]:
    states = evaluate_ensemble(ensemble, task, trials=trials, **options).states
    _, error, speed = jax.device_get(_movements(states.cursor, states.hand, trials.targets))
    return {"end_point_error_m": error, "final_speed_m_per_s": speed}


def reach_table(summary: dict[str, Any]) -> ResultTable:
    """Return a summary as a table in mm and cm/s."""
    columns = [
        Column(name, unit, heading, width=13)
        for heading in HEADINGS.values()
        for name, unit in (("error", "mm"), ("speed", "cm/s"))
    ]
    rows = member_rows(summary, lambda row: [*_cells(row), row["within_limits"]])
    limits = Row(LIMITS, [*_cells(summary["limits"]), ""])
    return ResultTable([*columns, Column("within limits")], [*rows, limits])


def _cells(numbers: dict[str, Any]) -> list[float | None]:
    units = {"end_point_error_m": 1000, "final_speed_m_per_s": 100}
    return [
        None if (number := numbers[condition][name]) is None else factor * number
        for condition in HEADINGS
        for name, factor in units.items()
    ]
