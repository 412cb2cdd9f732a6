"""How well an ensemble reaches: end-point error and final speed, with controls that must do worse."""

import dataclasses
from typing import Any

import equinox as eqx
import jax.numpy as jnp

from popsim.analysis.behaviour import end_point_error, hand_speed
from popsim.evaluate import evaluate_ensemble
from popsim.experiments.plant_choice import PLANTS
from popsim.experiments.result_table import LIMITS, Column, ResultTable, Row
from popsim.noise import without_noise
from popsim.store import as_json_numbers
from popsim.trial import Trial, repeat_trials

N_REPEATS = 16
CLEAN_LIMITS = {"end_point_error_m": 0.002, "final_speed_m_per_s": 0.01}
NOISY_LIMITS = {"end_point_error_m": 0.005, "final_speed_m_per_s": 0.02}


def summarize_reaches(experiment: Any, ensemble: Any) -> dict[str, Any]:
    """Error and speed at the last step, for each member of the ensemble and of two controls.

    Without noise the worst of the eight targets is given; with noise the mean over targets and
    `N_REPEATS` repeats of each. The controls are the untrained ensemble, and the trained networks with
    all delays doubled (where a trial is longer than these).

    **Arguments:**

    - `experiment`: a `CenterOut` or one with its settings.
    - `ensemble`: the trained ensemble.
    """
    members = {
        "trained": _accuracy(experiment, ensemble),
        "control: untrained": _accuracy(experiment, experiment.build_ensemble()),
    }
    delays = {name: 2 * getattr(experiment, name) for name in ("vision_delay", "proprioception_delay")}
    if max(delays.values()) < experiment.duration:
        slow = dataclasses.replace(experiment, **delays)
        delayed = eqx.tree_at(lambda model: model.network, slow.build_ensemble(), ensemble.network)
        members["control: delays doubled"] = _accuracy(experiment, delayed)
    clean, noisy = limits(experiment)
    return {
        "n_repeats": N_REPEATS,
        "limits": {"noise_off_worst_target": clean, "noise_on_mean": noisy},
        "ensembles": members,
    }


def limits(experiment: Any) -> tuple[dict[str, float], dict[str, float]]:
    """What is good enough for the body, with noise off and on."""
    tolerance = PLANTS[experiment.plant].tolerance
    clean, noisy = ({name: tolerance * x for name, x in own.items()} for own in (CLEAN_LIMITS, NOISY_LIMITS))
    return clean, noisy


def _accuracy(experiment: Any, ensemble: Any) -> list[dict[str, Any]]:
    task, key = experiment.build_task(), experiment.key("evaluation")
    trials = task.validation_trials()
    clean = _at_the_end(task, without_noise(ensemble), trials, key)
    noisy = _at_the_end(task, ensemble, repeat_trials(trials, N_REPEATS), key)
    clean_limits, noisy_limits = limits(experiment)
    rows = []
    for index in range(experiment.n_members):
        off = {name: as_json_numbers(jnp.max(values[index])) for name, values in clean.items()}
        on = {name: as_json_numbers(jnp.mean(values[index])) for name, values in noisy.items()}
        within = _within(off, clean_limits) and _within(on, noisy_limits)
        rows.append(
            {"member": index, "noise_off_worst_target": off, "noise_on_mean": on, "within_limits": within}
        )
    return rows


def _within(numbers: dict[str, float | None], limits: dict[str, float]) -> bool:
    return all((number := numbers[name]) is not None and number < limits[name] for name in limits)


def _at_the_end(task: Any, ensemble: Any, trials: Trial, key: Any) -> dict[str, Any]:
    states = evaluate_ensemble(ensemble, task, trials=trials, key=key).states
    return {
        "end_point_error_m": end_point_error(states.cursor, trials.targets),
        "final_speed_m_per_s": hand_speed(states.hand)[..., -1],
    }


def reach_table(summary: dict[str, Any]) -> ResultTable:
    """The summary in mm and cm/s."""
    conditions = {
        "noise_off_worst_target": "noise off, worst target",
        "noise_on_mean": "noise on, mean",
    }
    columns = [
        Column(name, unit, heading, width=13)
        for heading in conditions.values()
        for name, unit in (("error", "mm"), ("speed", "cm/s"))
    ]
    rows = [
        Row(name, [*_cells([row[which] for which in conditions]), row["within_limits"]], row["member"])
        for name, rows in summary["ensembles"].items()
        for row in rows
    ]
    limits = Row(LIMITS, [*_cells([summary["limits"][which] for which in conditions]), ""])
    return ResultTable([*columns, Column("within limits")], [*rows, limits])


def _cells(numbers: list[dict[str, float | None]]) -> list[float | None]:
    units = {"end_point_error_m": 1000, "final_speed_m_per_s": 100}
    return [
        None if (number := own[name]) is None else factor * number
        for own in numbers
        for name, factor in units.items()
    ]
