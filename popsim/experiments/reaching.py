"""Plants and results shared by experiments on reaching."""

import dataclasses
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array

from popsim import muscles, plants
from popsim._compiled import jit_fast_compile
from popsim.analysis.behaviour import end_point_error, hand_speed
from popsim.evaluation import evaluate_ensemble
from popsim.experiments.result_table import LIMITS, Column, ResultTable, Row
from popsim.hand import HandState
from popsim.noise import with_zero_noise
from popsim.plants import AbstractPlant
from popsim.senses import SensoryChannel
from popsim.store import as_json_numbers
from popsim.trial import Trial, repeat_trials

__all__ = ["PLANTS"]

Pair = tuple[float, float]


@dataclasses.dataclass(frozen=True)
class PlantChoice:
    """A plant and its default settings.

    - `build`: builds the plant.
    - `proprioception_noise`: standard deviations for position and velocity.
    - `proprioceptive_scale`: the position and the velocity that the network receives as one.
    - `motor_noise`: relative to the command, and constant.
    - `hidden_noise`: noise on the units of the network.
    - `tolerance`: the factor on the limits of errors and speeds, relative to a torque-driven arm.
    - `felt_unit`, `command_unit`: the units of proprioceptive position and of the commands.
    """

    build: Callable[[], AbstractPlant]
    proprioception_noise: Pair = (0.02, 0.1)  # rad, rad/s
    proprioceptive_scale: Pair = (0.3, 1.5)
    motor_noise: Pair = (0.05, 0.01)
    hidden_noise: float = 0.0
    tolerance: float = 1.0
    felt_unit: str = "rad"
    command_unit: str = "N m"


def _muscle_plant(
    build: Callable[[], AbstractPlant], *, noise: Pair = (0.005, 0.03), scale: Pair = (0.2, 1.0)
) -> PlantChoice:
    """Choose a plant with muscles; noise and scale, in optimal lengths (per s), match those of the joints."""
    return PlantChoice(
        build,
        proprioception_noise=noise,
        proprioceptive_scale=scale,
        motor_noise=(0.05, 0.002),
        hidden_noise=0.01,
        tolerance=2.0,
        felt_unit="optimal lengths",
        command_unit="of full excitation",
    )


def _arm26(law: Callable[..., muscles.AbstractMuscle]) -> PlantChoice:
    return _muscle_plant(partial(plants.arm26, law))


PLANTS: Mapping[str, PlantChoice] = {
    "two-link-arm": PlantChoice(plants.TwoLinkArm.arm26_skeleton),
    "two-link-arm-motornet": PlantChoice(plants.TwoLinkArm.motornet),
    "two-link-arm-li-todorov": PlantChoice(plants.TwoLinkArm.li_todorov),
    "point-mass": PlantChoice(plants.PointMass, felt_unit="m", command_unit="N"),
    "arm26": _muscle_plant(plants.arm26),
    "arm26-relu": _arm26(muscles.ReluMuscle),
    "arm26-compliant": _arm26(muscles.CompliantTendonHillMuscle),
    "arm26-thelen": _arm26(muscles.ThelenMuscle),
    "arm26-mujoco": _arm26(muscles.MujocoMuscle),
    "muscled-arm-li-todorov": _muscle_plant(plants.li_todorov_arm),
    "muscled-point-mass": _muscle_plant(plants.muscled_point_mass, noise=(0.001, 0.007), scale=(0.035, 0.2)),
}


@jit_fast_compile
def compile_plant(build: Callable[[], AbstractPlant]) -> AbstractPlant:
    """Build a plant by one compiled program."""
    return build()


N_REPEATS = 16
CLEAN_LIMITS = {"end_point_error_m": 0.002, "final_speed_m_per_s": 0.01}
NOISY_LIMITS = {"end_point_error_m": 0.005, "final_speed_m_per_s": 0.02}


def summarize_reaches(experiment: Any, ensemble: Any) -> dict[str, Any]:
    """Compute error and speed at the last step, for each member of the ensemble and of two controls.

    Without noise, values are of the worst of the eight targets; with noise, means over targets and
    `N_REPEATS` repeats of each. The controls are the untrained ensemble, and the trained networks with all
    delays doubled (if a trial is longer than these).

    **Arguments:**

    - `experiment`: a `CenterOut`, or an experiment with the same settings.
    - `ensemble`: the trained ensemble.
    """
    members = {
        "trained": _accuracy(experiment, ensemble),
        "control: untrained": _accuracy(experiment, experiment.build_ensemble()),
    }
    slow = {name: _double_delay(channel) for name, channel in ensemble.channels.items()}
    if max(channel.delay for channel in slow.values()) < experiment.duration:
        delayed = eqx.tree_at(lambda model: model.channels, ensemble, slow)
        members["control: delays doubled"] = _accuracy(experiment, delayed)
    clean, noisy = limits(experiment)
    return {
        "n_repeats": N_REPEATS,
        "limits": {"noise_off_worst_target": clean, "noise_on_mean": noisy},
        "ensembles": members,
    }


def _double_delay(channel: SensoryChannel) -> SensoryChannel:
    """Return a channel with twice the delay."""
    own_delay = None if channel.own_delay is None else 2 * channel.own_delay
    return dataclasses.replace(channel, delay=2 * channel.delay, own_delay=own_delay)


def limits(experiment: Any) -> tuple[dict[str, float], dict[str, float]]:
    """Return the limits of good performance for the plant, without and with noise."""
    tolerance = PLANTS[experiment.plant].tolerance
    clean, noisy = (
        {name: tolerance * x for name, x in factors.items()} for factors in (CLEAN_LIMITS, NOISY_LIMITS)
    )
    return clean, noisy


def _accuracy(experiment: Any, ensemble: Any) -> list[dict[str, Any]]:
    task, key = experiment.build_task(), experiment.key("evaluation")
    trials = repeat_trials(task.validation_trials(), N_REPEATS)  # without noise too, by the same program
    options = {"trials": trials, "member_ids": experiment.members.ids, "key": key}
    clean = _final_errors(task, with_zero_noise(ensemble), **options)
    noisy = _final_errors(task, ensemble, **options)
    clean_limits, noisy_limits = limits(experiment)
    rows = []
    for index in range(experiment.n_members):
        off = {name: as_json_numbers(values[index].max()) for name, values in clean.items()}
        on = {name: as_json_numbers(values[index].mean()) for name, values in noisy.items()}
        within = _are_within(off, clean_limits) and _are_within(on, noisy_limits)
        rows.append(
            {"member": index, "noise_off_worst_target": off, "noise_on_mean": on, "within_limits": within}
        )
    return rows


def _are_within(numbers: dict[str, float | None], limits: dict[str, float]) -> bool:
    return all((number := numbers[name]) is not None and number < limits[name] for name in limits)


def _final_errors(task: Any, ensemble: Any, *, trials: Trial, **options: Any) -> dict[str, np.ndarray]:
    states = evaluate_ensemble(ensemble, task, trials=trials, **options).states
    error, speed = jax.device_get(_error_and_speed(states.cursor, states.hand, trials.targets))
    return {"end_point_error_m": error, "final_speed_m_per_s": speed}


@jit_fast_compile
def _error_and_speed(cursor: HandState, hand: HandState, targets: HandState) -> tuple[Array, Array]:
    return end_point_error(cursor, targets), hand_speed(hand)[..., -1]


def reach_table(summary: dict[str, Any]) -> ResultTable:
    """Return a summary as a table in mm and cm/s."""
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
        Row(
            name, [*_cells([row[condition] for condition in conditions]), row["within_limits"]], row["member"]
        )
        for name, rows in summary["ensembles"].items()
        for row in rows
    ]
    limits = Row(LIMITS, [*_cells([summary["limits"][condition] for condition in conditions]), ""])
    return ResultTable([*columns, Column("within limits")], [*rows, limits])


def _cells(numbers: list[dict[str, float | None]]) -> list[float | None]:
    units = {"end_point_error_m": 1000, "final_speed_m_per_s": 100}
    return [
        None if (number := values[name]) is None else factor * number
        for values in numbers
        for name, factor in units.items()
    ]
