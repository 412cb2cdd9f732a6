"""The results of experiments with a body: losses, and how far the cursor is from its target in the end."""

import dataclasses
from collections.abc import Mapping
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

__all__ = ["is_still_at_end", "movement_table", "summarize_movements", "summarize_reaches", "trial_groups"]

MEASURES = {
    "loss": ("loss", "", 1.0, 5),
    "mean_distance_m": ("distance", "mm", 1000.0, 2),
    "end_point_error_m": ("error", "mm", 1000.0, 2),
    "final_speed_m_per_s": ("speed", "cm/s", 100.0, 2),
}
"""By measure: its name and unit in the table, how many of these units make one in SI, and the decimals."""
AT_END = ("end_point_error_m", "final_speed_m_per_s")
NOISE_OFF, NOISE_ON = "noise_off_worst_target", "noise_on_mean"
HEADINGS = {NOISE_OFF: "noise off, worst target", NOISE_ON: "noise on, mean", "all trials": ""}
LIMITS_OF_AN_ARM = {
    NOISE_OFF: {"end_point_error_m": 0.002, "final_speed_m_per_s": 0.01},
    NOISE_ON: {"end_point_error_m": 0.005, "final_speed_m_per_s": 0.02},
}
N_REPEATS = 16


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
    trials = experiment.build_task().validation_trials()
    groups, at_end = trial_groups(trials), is_still_at_end(trials)
    measures = [name for name in MEASURES if at_end or name not in AT_END]

    def rows(members: Any) -> list[dict[str, Any]]:
        values = _measure(experiment, members, trials)
        return [
            {"member": index}
            | {
                group: {name: as_json_numbers(values[name][index, chosen].mean()) for name in measures}
                for group, chosen in groups.items()
            }
            for index in range(experiment.n_members)
        ]

    return {
        "n_trials": {group: int(chosen.sum()) for group, chosen in groups.items()},
        "ensembles": {"trained": rows(ensemble), "control: untrained": rows(experiment.build_ensemble())},
    }


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
    rows = {name: _reach_rows(experiment, members, limits) for name, members in measured.items()}
    return {"n_repeats": N_REPEATS, "limits": limits, "ensembles": rows}


def _double_delay(channel: SensoryChannel) -> SensoryChannel:
    own_delay = None if channel.own_delay is None else 2 * channel.own_delay
    return dataclasses.replace(channel, delay=2 * channel.delay, own_delay=own_delay)


def _reach_rows(experiment: Any, ensemble: Any, limits: dict[str, dict[str, float]]) -> list[dict[str, Any]]:
    # Without noise the trials are repeated too, for the same program.
    trials = repeat_trials(experiment.build_task().validation_trials(), N_REPEATS)
    clean = _measure(experiment, with_zero_noise(ensemble), trials)
    noisy = _measure(experiment, ensemble, trials)
    rows = []
    for index in range(experiment.n_members):
        found = {
            NOISE_OFF: {name: as_json_numbers(clean[name][index].max()) for name in AT_END},
            NOISE_ON: {name: as_json_numbers(noisy[name][index].mean()) for name in AT_END},
        }
        pairs = [(found[group][name], limits[group][name]) for group in found for name in AT_END]
        within = all(number is not None and number < limit for number, limit in pairs)
        rows.append({"member": index, **found, "within_limits": within})
    return rows


def _measure(experiment: Any, ensemble: Any, trials: Trial) -> dict[str, Float[np.ndarray, "member trial"]]:
    """Return each of `MEASURES` of each member in each trial."""
    task, ids, key = experiment.build_task(), experiment.members.ids, experiment.key("evaluation")
    evaluation = evaluate_ensemble(ensemble, task, trials=trials, member_ids=ids, key=key)
    moved = _movements(evaluation.states.cursor, evaluation.states.hand, trials.targets)
    return dict(zip(MEASURES, (jax.device_get(evaluation.losses).total, *jax.device_get(moved)), strict=True))


@jit_fast_compile
def _movements(
    cursor: HandState, hand: HandState, targets: HandState
) -> tuple[Float[Array, "member trial"], Float[Array, "member trial"], Float[Array, "member trial"]]:
    """Return mean distance (m), distance at the last step (m) and speed of the hand then (m/s)."""
    distance = jnp.linalg.norm(cursor.position - targets.position, axis=-1)
    return jnp.mean(distance, axis=-1), end_point_error(cursor, targets), hand_speed(hand)[..., -1]


def movement_table(summary: Mapping[str, Any]) -> ResultTable:
    """Return a summary as a table, with groups of trials side by side, and limits where there are some."""
    example = summary["ensembles"]["trained"][0]
    places = [(group, name) for group, own in example.items() if isinstance(own, dict) for name in own]

    def scaled(row: Mapping[str, Any]) -> list[float | None]:
        numbers = [(name, row[group][name]) for group, name in places]
        return [None if number is None else MEASURES[name][2] * number for name, number in numbers]

    about = [(*MEASURES[name], str(HEADINGS.get(group, group))) for group, name in places]
    columns = [Column(name, unit, heading, digits, width=13) for name, unit, _, digits, heading in about]
    if limits := summary.get("limits"):
        rows = member_rows(summary, lambda row: [*scaled(row), row["within_limits"]])
        return ResultTable([*columns, Column("within limits")], [*rows, Row(LIMITS, [*scaled(limits), ""])])
    texts = [
        f"{count} trials" if group == "all trials" else f"{group}: {count}"
        for group, count in summary["n_trials"].items()
    ]
    caption = f"validation trials with noise ({', '.join(texts)}), means over trials"
    return ResultTable(columns, member_rows(summary, scaled), caption)
