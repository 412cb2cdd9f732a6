"""Center-out reaching, and how it is measured."""

import dataclasses
from typing import Any, ClassVar

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array

from popsim._compiled import jit_fast_compile
from popsim._shared.checks import check_non_negative, check_positive, check_time_step, n_steps_in
from popsim.analysis.behaviour import end_point_error, hand_speed
from popsim.evaluation import evaluate_ensemble
from popsim.experiments.motor_experiment import MODEL_SETTINGS, PLANTS, AbstractMotorExperiment
from popsim.experiments.results import LIMITS, Column, ResultTable, Row, RunFigure
from popsim.experiments.settings import setting
from popsim.hand import HandState
from popsim.noise import with_zero_noise
from popsim.senses import SensoryChannel
from popsim.store import as_json_numbers
from popsim.tasks import RandomReaches
from popsim.tasks.trial_parts import reach_loss
from popsim.trial import Trial, repeat_trials

__all__ = ["CenterOut"]


@dataclasses.dataclass(frozen=True)
class CenterOut(AbstractMotorExperiment):
    """Center-out reaching with recurrent networks, tested on eight targets at 10 cm.

    Trained on random reaches in a 20 cm square. Noise is given as standard deviations of position and of
    velocity.
    """

    name: ClassVar[str] = "center-out"
    member_settings = {
        "learning_rate": "trainer",
        "effort_weight": "task",
        **dict.fromkeys(MODEL_SETTINGS, "model"),
    }

    learning_rate: float = setting(5e-3, "initial learning rate of Adam, with cosine decay to zero")
    effort_weight: float = setting(1e-6, "weight of the squared command in the loss")
    duration: float = setting(1.0, "duration of a trial", "s")
    dt: float = setting(0.01, "time step", "s")

    def __post_init__(self):
        super().__post_init__()
        self.check_choices()
        check_non_negative("effort_weight", self.effort_weight)
        check_time_step(self.dt)
        check_positive("duration", self.duration)
        n_steps_in("duration", self.duration, self.dt)
        self.check_senses()

    @property
    def times(self) -> tuple[float, float]:
        return self.duration, self.dt

    def build_task(self) -> RandomReaches:
        loss = reach_loss(self.per_member("effort_weight"))
        return RandomReaches(self.build_plant().workspace, loss=loss, duration=self.duration, dt=self.dt)

    def summarize(self, ensemble: Any) -> dict[str, Any]:
        return summarize_reaches(self, ensemble)

    def table(self, summary: dict[str, Any]) -> ResultTable:
        return reach_table(summary)

    def draw_figures(self, run: Any) -> dict[str, RunFigure]:
        from popsim.experiments.reach_figures import draw_reach_figures  # which loads matplotlib

        return draw_reach_figures(run)


N_REPEATS = 16
LIMITS_OF_AN_ARM = {
    "noise_off_worst_target": {"end_point_error_m": 0.002, "final_speed_m_per_s": 0.01},
    "noise_on_mean": {"end_point_error_m": 0.005, "final_speed_m_per_s": 0.02},
}
HEADINGS = {"noise_off_worst_target": "noise off, worst target", "noise_on_mean": "noise on, mean"}


def summarize_reaches(experiment: Any, ensemble: Any) -> dict[str, Any]:
    """Compute error and speed at the last step, for each member of the ensemble and of two controls.

    Without noise, values are of the worst of the eight targets; with noise, means over targets and
    `N_REPEATS` repeats of each. The controls are the untrained ensemble, and the trained networks with all
    delays doubled (if a trial is longer than these).
    """
    members = {
        "trained": _accuracy(experiment, ensemble),
        "control: untrained": _accuracy(experiment, experiment.build_ensemble()),
    }
    slow = {name: _double_delay(channel) for name, channel in ensemble.channels.items()}
    if max(channel.delay for channel in slow.values()) < experiment.duration:
        delayed = eqx.tree_at(lambda model: model.channels, ensemble, slow)
        members["control: delays doubled"] = _accuracy(experiment, delayed)
    return {"n_repeats": N_REPEATS, "limits": _limits(experiment), "ensembles": members}


def _double_delay(channel: SensoryChannel) -> SensoryChannel:
    own_delay = None if channel.own_delay is None else 2 * channel.own_delay
    return dataclasses.replace(channel, delay=2 * channel.delay, own_delay=own_delay)


def _limits(experiment: Any) -> dict[str, dict[str, float]]:
    """Return the limits of good performance for the plant, without and with noise."""
    tolerance = PLANTS[experiment.plant].tolerance
    return {
        condition: {name: tolerance * limit for name, limit in limits.items()}
        for condition, limits in LIMITS_OF_AN_ARM.items()
    }


def _accuracy(experiment: Any, ensemble: Any) -> list[dict[str, Any]]:
    task, key = experiment.build_task(), experiment.key("evaluation")
    trials = repeat_trials(task.validation_trials(), N_REPEATS)  # without noise too, by the same program
    options = {"trials": trials, "member_ids": experiment.members.ids, "key": key}
    noise_off, noise_on = "noise_off_worst_target", "noise_on_mean"
    clean = _final_errors(task, with_zero_noise(ensemble), **options)
    noisy = _final_errors(task, ensemble, **options)
    limits = _limits(experiment)
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
    error, speed = jax.device_get(_error_and_speed(states.cursor, states.hand, trials.targets))
    return {"end_point_error_m": error, "final_speed_m_per_s": speed}


@jit_fast_compile
def _error_and_speed(cursor: HandState, hand: HandState, targets: HandState) -> tuple[Array, Array]:
    return end_point_error(cursor, targets), hand_speed(hand)[..., -1]


def reach_table(summary: dict[str, Any]) -> ResultTable:
    """Return a summary as a table in mm and cm/s."""
    columns = [
        Column(name, unit, heading, width=13)
        for heading in HEADINGS.values()
        for name, unit in (("error", "mm"), ("speed", "cm/s"))
    ]
    rows = [
        Row(name, [*_cells(row), row["within_limits"]], row["member"])
        for name, rows in summary["ensembles"].items()
        for row in rows
    ]
    limits = Row(LIMITS, [*_cells(summary["limits"]), ""])
    return ResultTable([*columns, Column("within limits")], [*rows, limits])


def _cells(numbers: dict[str, Any]) -> list[float | None]:
    units = {"end_point_error_m": 1000, "final_speed_m_per_s": 100}
    return [
        None if (number := numbers[condition][name]) is None else factor * number
        for condition in HEADINGS
        for name, factor in units.items()
    ]
