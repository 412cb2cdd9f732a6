"""Experiments with a body: its senses and noise, the model, and center-out reaching."""

import dataclasses
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from popsim import interventions, muscles, plants
from popsim._compiled import jit_fast_compile
from popsim._shared.checks import check_non_negative, check_positive, check_time_step, kind_of, n_steps_in
from popsim.experiments.movement_results import movement_table, summarize_movements, summarize_reaches
from popsim.experiments.results import ResultTable, RunFigure
from popsim.experiments.settings import setting
from popsim.experiments.task_experiments import AbstractTaskExperiment
from popsim.hand import HandState
from popsim.interventions import AbstractIntervention
from popsim.models.sensorimotor_loop import SensorimotorLoop
from popsim.network_input import Scaling
from popsim.networks import build_network
from popsim.noise import GaussianNoise, MotorNoise
from popsim.plants import AbstractPlant, MusculoskeletalPlant
from popsim.senses import SensoryChannel, n_network_inputs, network_input_names, proprioception, vision
from popsim.task import AbstractTask
from popsim.tasks import RandomReaches
from popsim.tasks.trial_parts import reach_loss
from popsim.trial import Trial

__all__ = ["PLANTS", "AbstractMotorExperiment", "CenterOut"]

Pair = tuple[float, float]


@dataclasses.dataclass(frozen=True)
class PlantChoice:
    """What builds a plant, and its default settings."""

    build: Callable[[], AbstractPlant]
    proprioception_noise: Pair = (0.02, 0.1)  # rad, rad/s
    proprioceptive_scale: Pair = (0.3, 1.5)  # the position and the velocity that the network receives as one
    motor_noise: Pair = (0.05, 0.01)  # relative to the command, and constant
    hidden_noise: float = 0.0
    tolerance: float = 1.0  # the factor on the limits of errors and speeds
    felt_unit: str = "rad"  # of proprioceptive position
    command_unit: str = "N m"


@dataclasses.dataclass(frozen=True)
class MusclePlantChoice(PlantChoice):
    """What builds a plant with muscles; noise and scale, in optimal lengths (per s), match the joints."""

    proprioception_noise: Pair = (0.005, 0.03)
    proprioceptive_scale: Pair = (0.2, 1.0)
    motor_noise: Pair = (0.05, 0.002)
    hidden_noise: float = 0.01
    tolerance: float = 2.0
    felt_unit: str = "optimal lengths"
    command_unit: str = "of full excitation"


PLANTS: Mapping[str, PlantChoice] = {
    "two-link-arm": PlantChoice(plants.TwoLinkArm.arm26_skeleton),
    "two-link-arm-motornet": PlantChoice(plants.TwoLinkArm.motornet),
    "two-link-arm-li-todorov": PlantChoice(plants.TwoLinkArm.li_todorov),
    "point-mass": PlantChoice(plants.PointMass, felt_unit="m", command_unit="N"),
    "arm26": MusclePlantChoice(plants.arm26),
    "arm26-relu": MusclePlantChoice(partial(plants.arm26, muscles.ReluMuscle)),
    "arm26-compliant": MusclePlantChoice(partial(plants.arm26, muscles.CompliantTendonHillMuscle)),
    "arm26-thelen": MusclePlantChoice(partial(plants.arm26, muscles.ThelenMuscle)),
    "arm26-mujoco": MusclePlantChoice(partial(plants.arm26, muscles.MujocoMuscle)),
    "muscled-arm-li-todorov": MusclePlantChoice(plants.li_todorov_arm),
    "muscled-point-mass": MusclePlantChoice(plants.muscled_point_mass, (0.001, 0.007), (0.035, 0.2)),
}

EXCITING = {"output_fn": jax.nn.sigmoid, "output_bias": -3.0}
"""Arguments for the output of a network that drives muscles, which are barely excited before training."""
MODEL_SETTINGS = ("vision_delay", "vision_noise", "proprioception_delay", "proprioception_noise")
MODEL_SETTINGS += ("motor_noise", "hidden_noise")
"""Settings of the model in which members of one ensemble may differ."""
INTERVENTIONS: Mapping[str, AbstractIntervention] = {
    kind.name: kind
    for kind in (
        interventions.CurlField(),
        interventions.ConstantForce(),
        interventions.ViscousField(),
        interventions.ForceChannel(),
        interventions.JointTorque(),
        interventions.CursorRotation(),
        interventions.CursorGain(),
        interventions.CursorShift(),
    )
}
"""The interventions that the trials of a motor task may schedule, by name."""


@dataclasses.dataclass(frozen=True)
class AbstractMotorExperiment(AbstractTaskExperiment):
    """Networks that control one of `PLANTS` through vision and proprioception in a motor task."""

    member_settings = {"learning_rate": "trainer", **dict.fromkeys(MODEL_SETTINGS, "model")}

    network: str = setting("gru", "the kind of network, one that `popsim list` shows")
    plant: Literal[tuple(PLANTS)] = setting("two-link-arm", "the body")  # pyright: ignore[reportInvalidTypeForm]
    vision_delay: float = setting(0.07, "delay of vision", "s")
    vision_noise: tuple[float, float] = setting((0.002, 0.02), "standard deviations of vision", "m", "m/s")
    proprioception_delay: float = setting(0.02, "delay of proprioception", "s")
    proprioception_noise: tuple[float, float] | None = setting(
        None,
        "standard deviations, rad and rad/s (m and m/s for a point mass, optimal lengths and optimal "
        "lengths/s for muscles); by default 0.02 and 0.1, with muscles 0.005 and 0.03",
    )
    motor_noise: tuple[float, float] | None = setting(
        None,
        "standard deviations, relative to the command, and constant in N m (N for a point mass, excitation "
        "from 0 to 1 for muscles); by default 0.05 and 0.01, with muscles 0.05 and 0.002",
    )

    def __post_init__(self):
        super().__post_init__()
        duration, dt = self.times
        for name in ("vision_noise", "proprioception_noise", "motor_noise"):
            check_non_negative(name, self.effective_value(name))
        for name in ("vision_delay", "proprioception_delay"):
            n_steps_in(name, delay := getattr(self, name), dt)
            if delay >= duration:
                raise ValueError(f"`{name}` must be shorter than a trial, {duration} s, got {delay} s.")

    @property
    def times(self) -> tuple[float, float]:
        """The duration of a trial and the time step, in seconds."""
        trial = self.trial_shapes
        if not isinstance(trial.targets, HandState):
            raise ValueError(
                f"`targets` of the trials of {self.name} must be a HandState, as it has a workspace, "
                f"got {kind_of(trial.targets)}."
            )
        return trial.timeline.n_steps * trial.timeline.dt, trial.timeline.dt

    @property
    def interventions(self) -> tuple[AbstractIntervention, ...]:
        """The interventions that trials may schedule."""
        names = self.trial_shapes.interventions
        if unknown := sorted(set(names) - set(INTERVENTIONS)):
            raise ValueError(
                f"the interventions of {self.name} must be among {', '.join(INTERVENTIONS)}, got "
                f"{', '.join(unknown)}: an experiment of your own can hold others."
            )
        return tuple(kind for name, kind in INTERVENTIONS.items() if name in names)

    def effective_value(self, name: str) -> Any:
        value = getattr(self, name)
        return getattr(PLANTS[self.plant], name) if value is None and name in MODEL_SETTINGS else value

    def units(self) -> dict[str, tuple[str, ...]]:
        body = PLANTS[self.plant]
        return super().units() | {
            "proprioception_noise": (body.felt_unit, f"{body.felt_unit}/s"),
            "motor_noise": ("of the command", body.command_unit),
        }

    def build_plant(self) -> AbstractPlant:
        """Build the plant."""
        return _compiled_plant(PLANTS[self.plant].build)

    def build_task(self) -> AbstractTask:
        return self.make_task(workspace=self.build_plant().workspace)

    def build_model(self, *, key: Key[Array, ""]) -> SensorimotorLoop:
        plant, trials = self.build_plant(), self.build_task().validation_trials()
        _, dt = self.times
        posture = _rest_posture(plant)
        seen = GaussianNoise(np.repeat(self.vision_noise, 2))
        felt = GaussianNoise(np.repeat(self.effective_value("proprioception_noise"), posture.size // 2))
        channels = {
            "vision": SensoryChannel(vision, self.vision_delay, seen),
            "proprioception": SensoryChannel(proprioception, self.proprioception_delay, felt),
        }
        scaling = _scaling(plant, posture, PLANTS[self.plant].proprioceptive_scale)
        of_target = scaling.pop("target")
        sizes = n_network_inputs(trials, plant, channels), self.n_units, plant.n_commands
        options: Any = EXCITING if isinstance(plant, MusculoskeletalPlant) else {}
        options = {**options, "noise_std": self.effective_value("hidden_noise"), "dt": dt, "key": key}
        return SensorimotorLoop(
            build_network(self.network, *sizes, **options),
            plant,
            channels,
            MotorNoise(*self.effective_value("motor_noise")),
            scaling=dict.fromkeys(_places(trials, plant), of_target) | scaling,
            interventions=self.interventions,
            dt=dt,
        )

    def summarize(self, ensemble: Any) -> dict[str, Any]:
        return summarize_movements(self, ensemble)

    def table(self, summary: dict[str, Any]) -> ResultTable:
        return movement_table(summary)

    def draw_figures(self, run: Any) -> dict[str, RunFigure]:
        from popsim.experiments.run_figures import draw_movement_figures  # which loads matplotlib

        return draw_movement_figures(run)


@dataclasses.dataclass(frozen=True)
class CenterOut(AbstractMotorExperiment):
    """Center-out reaching with recurrent networks, tested on eight targets at 10 cm.

    Trained on random reaches in a 20 cm square. Noise is given as standard deviations of position and of
    velocity.
    """

    name: ClassVar[str] = "center-out"
    member_settings = {**AbstractMotorExperiment.member_settings, "effort_weight": "task"}

    effort_weight: float = setting(1e-6, "weight of the squared command in the loss")
    duration: float = setting(1.0, "duration of a trial", "s")
    dt: float = setting(0.01, "time step", "s")

    def __post_init__(self):
        check_non_negative("effort_weight", self.effort_weight)
        check_time_step(self.dt)
        check_positive("duration", self.duration)
        n_steps_in("duration", self.duration, self.dt)
        super().__post_init__()

    @property
    def times(self) -> tuple[float, float]:
        return self.duration, self.dt

    @property
    def interventions(self) -> tuple[AbstractIntervention, ...]:
        return ()

    def build_task(self) -> RandomReaches:
        loss = reach_loss(self.per_member("effort_weight"))
        return RandomReaches(self.build_plant().workspace, loss=loss, duration=self.duration, dt=self.dt)

    def summarize(self, ensemble: Any) -> dict[str, Any]:
        return summarize_reaches(self, ensemble, tolerance=PLANTS[self.plant].tolerance)


@jit_fast_compile
def _compiled_plant(build: Callable[[], AbstractPlant]) -> AbstractPlant:
    return build()


@jit_fast_compile
def _rest_posture(plant: AbstractPlant) -> Array:
    return plant.proprioception(plant.rest_state(plant.workspace.center))


@jit_fast_compile
def _scaling(plant: AbstractPlant, posture: Array, felt: tuple[float, float]) -> dict[str, Scaling]:
    """Scale the network's inputs to order one: positions in half workspaces around the centre."""
    workspace = plant.workspace
    hand = jnp.concatenate([workspace.center, jnp.zeros(2)])
    return {
        "target": Scaling(workspace.center, workspace.half_widths),
        "vision": Scaling(hand, jnp.concatenate([workspace.half_widths, jnp.full(2, 0.5)])),
        "proprioception": Scaling(posture, jnp.repeat(jnp.asarray(felt), posture.size // 2)),
    }


def _places(trials: Trial, plant: AbstractPlant) -> list[str]:
    """Return the names of what is received as a position: "target", "target 1", …, and "obstacle"."""
    (space,) = plant.workspace.center.shape
    sizes, places = network_input_names(trials), (["target"], ["obstacle"])
    return [name for name, size in sizes.items() if name.split()[:1] in places and size == space]
