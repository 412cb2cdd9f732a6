"""Plants, results and figures shared by experiments on reaching."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import equinox as eqx
import jax
import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Array, Float
from matplotlib.axes import Axes

from popsim import muscles, plants
from popsim._compiled import jit_fast_compile
from popsim.analysis.behaviour import end_point_error, hand_speed
from popsim.analysis.figures import (
    draw_hand_paths,
    draw_hidden_activity,
    draw_learning_curves,
    draw_muscle_activations,
    draw_preferred_directions,
    draw_speed_profiles,
    figure_style,
)
from popsim.analysis.population import cosine_tuning
from popsim.evaluation import evaluate_ensemble
from popsim.experiments.experiment import RunFigure
from popsim.experiments.result_table import LIMITS, Column, ResultTable, Row
from popsim.hand import HandState
from popsim.networks.activity import defines_activity, unit_activity
from popsim.noise import with_zero_noise
from popsim.plants import AbstractPlant, MusculoskeletalPlant
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
def built_plant(build: Callable[[], AbstractPlant]) -> AbstractPlant:
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
    slow = {name: _slower(channel) for name, channel in ensemble.channels.items()}
    if max(channel.delay for channel in slow.values()) < experiment.duration:
        delayed = eqx.tree_at(lambda model: model.channels, ensemble, slow)
        members["control: delays doubled"] = _accuracy(experiment, delayed)
    clean, noisy = limits(experiment)
    return {
        "n_repeats": N_REPEATS,
        "limits": {"noise_off_worst_target": clean, "noise_on_mean": noisy},
        "ensembles": members,
    }


def _slower(channel: SensoryChannel) -> SensoryChannel:
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
        within = _within(off, clean_limits) and _within(on, noisy_limits)
        rows.append(
            {"member": index, "noise_off_worst_target": off, "noise_on_mean": on, "within_limits": within}
        )
    return rows


def _within(numbers: dict[str, float | None], limits: dict[str, float]) -> bool:
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


LEARNING_TITLE = "Learning curves"


def draw_learning(run: Any) -> Callable[[Axes], Axes]:
    """Return a function that draws the total training and validation losses on axes.

    **Arguments:**

    - `run`: a `Run`.
    """
    history = run.history

    def draw(ax: Axes) -> Axes:
        draw_learning_curves(ax, history.batch.values, history.total_loss.values)
        validation = history.total_validation_loss
        draw_learning_curves(
            ax, history.validation_batch.values, validation.values, label="validation", color="#D55E00"
        )
        ax.legend()
        ax.set_title("learning")
        return ax

    return draw


def learning_caption(run: Any) -> str:
    """Return the caption of the learning curves of a `Run`."""
    return (
        f"Total loss in training batches of {run.experiment.batch_size} trials, and in the validation trials "
        f"after every {run.experiment.log_step} batches. Thin lines: {run.experiment.n_members} members; "
        "thick: their geometric mean. The unit of replication is the member: a network with a start and with "
        "trials of its own."
    )


MOST_LABELS = 10
EXAMPLE = "An example: one trial of one member, noise off."


@dataclasses.dataclass(frozen=True)
class Drawing:
    """A function that draws on axes, with its title and caption; see `RunFigure`."""

    draw: Callable[[Axes], Axes]
    title: str
    caption: str


def draw_reach_figures(run: Any) -> dict[str, RunFigure]:
    """Draw learning curves, hand paths, speed profiles and hidden activity, each alone and all in one.

    A plant with muscles adds their activations and preferred directions. The states are those of the
    validation trials, with noise for the hand paths and without for the rest.

    **Arguments:**

    - `run`: a `Run` of a reaching task.
    """
    trials = run.task.validation_trials()
    quiet = with_zero_noise(run.ensemble)
    noisy, clean = (
        jax.tree.map(np.asarray, run.evaluate(ensemble).states) for ensemble in (run.ensemble, quiet)
    )
    drawings = {"learning_curves": Drawing(draw_learning(run), LEARNING_TITLE, learning_caption(run))}
    drawings |= _reach_drawings(trials, noisy, clean)
    if defines_activity(quiet, clean):
        units = np.asarray(unit_activity(quiet, clean))[0, 0]
        drawings["hidden_activity"] = _activity_drawing(units, trials.timeline.dt)
    if isinstance(plant := run.ensemble.plant, MusculoskeletalPlant):
        directions = np.asarray(trials.conditions["direction"])
        drawings |= _muscle_drawings(
            clean.plant.activation, directions, trials.timeline.dt, plant.muscle_names
        )
    with figure_style():
        return _each_and_all(drawings)


def _reach_drawings(trials: Trial, noisy: Any, clean: Any) -> dict[str, Drawing]:
    """Return the drawings for any plant, except learning curves."""
    dt = trials.timeline.dt
    n_members, n_trials = clean.hand.position.shape[:2]

    def hand_paths(ax: Axes) -> Axes:
        starts, targets = np.asarray(trials.init.position), np.asarray(trials.targets.position)[:, -1]
        draw_hand_paths(ax, noisy.cursor.position, starts, targets)
        ax.set_title("all members, noise on")
        return ax

    def speed_profiles(ax: Axes) -> Axes:
        speed = np.asarray(hand_speed(clean.hand))
        draw_speed_profiles(ax, speed, dt=dt, label_members=n_members <= MOST_LABELS)
        ax.set_title("mean and SD over targets, noise off")
        return ax

    return {
        "hand_paths": Drawing(
            hand_paths,
            "Paths of the hand",
            f"One reach to each of {n_trials} targets, noise on, one line for each of {n_members} members; "
            "coloured by the direction of the target. The unit of replication is the member.",
        ),
        "speed_profiles": Drawing(
            speed_profiles,
            "Speed profiles",
            f"Speed of the hand, noise off, for {n_members} members: the mean over {n_trials} trials, one to "
            "each target, and a band of one standard deviation over these trials. The unit of replication "
            "is the member: how far lines differ is how far networks differ, the bands are of targets.",
        ),
    }


def _activity_drawing(units: Float[np.ndarray, "time unit"], dt: float) -> Drawing:
    """Return the drawing of the activity of member 0 in its first reach."""

    def hidden_activity(ax: Axes) -> Axes:
        draw_hidden_activity(ax, units, dt=dt).set_title("member 0, reach to the right, noise off")
        return ax

    return Drawing(
        hidden_activity,
        "Hidden activity",
        f"The {units.shape[-1]} units of member 0 in the first validation trial, a reach to the right, "
        f"ordered by when they are furthest from zero. {EXAMPLE}",
    )


def _each_and_all(drawings: dict[str, Drawing]) -> dict[str, RunFigure]:
    """Return a figure for each drawing, and "overview" with all of them."""
    figures = {}
    for name, drawing in drawings.items():
        figure, ax = plt.subplots(figsize=(3.4, 2.8), layout="constrained")
        drawing.draw(ax)
        figures[name] = RunFigure(figure, drawing.title, drawing.caption)
    n_rows = (len(drawings) + 1) // 2
    size = (6.9, 2.7 * n_rows)
    overview, axes = plt.subplots(n_rows, 2, figsize=size, layout="constrained")
    captions = []
    for letter, ax, drawing in zip("abcdef", axes.flat, drawings.values(), strict=False):
        drawing.draw(ax).set_title(letter, loc="left", fontweight="bold")
        captions.append(f"{letter}: {drawing.caption}")
    for ax in axes.flat[len(drawings) :]:
        ax.remove()
    figures["overview"] = RunFigure(overview, "Overview", " ".join(captions), repeats=True)
    return figures


def _muscle_drawings(
    activation: np.ndarray, direction: np.ndarray, dt: float, names: Sequence[str]
) -> dict[str, Drawing]:
    """Return muscle activations of member 0 in its first reach, and preferred directions of all members."""
    tuning = cosine_tuning(activation.mean(axis=2), direction)
    n_members, n_trials = activation.shape[:2]

    def muscle_activations(ax: Axes) -> Axes:
        draw_muscle_activations(ax, activation[0, 0], dt=dt, names=names)
        ax.set_title("member 0, reach to the right, noise off")
        return ax

    def preferred_directions(ax: Axes) -> Axes:
        draw_preferred_directions(ax, tuning.preferred, tuning.depth, names=names)
        ax.set_title("mean activation, noise off")
        return ax

    return {
        "muscle_activations": Drawing(
            muscle_activations,
            "Activation of the muscles",
            f"The {len(names)} muscles of member 0 in the first validation trial, a reach to the right. "
            f"{EXAMPLE}",
        ),
        "preferred_directions": Drawing(
            preferred_directions,
            "Preferred directions of the muscles",
            f"For each muscle of each of {n_members} members the direction and depth of the cosine fitted "
            f"to its mean activation over {n_trials} directions, noise off. The unit of replication is the "
            "member.",
        ),
    }
