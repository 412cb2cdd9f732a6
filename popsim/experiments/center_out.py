"""Center-out reaching."""

import dataclasses
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from popsim._checks import check_non_negative, check_positive, check_positive_int, n_steps_in
from popsim._compiled import jit_fast_compile
from popsim.experiments.experiment import AbstractExperiment
from popsim.experiments.reaching import (
    PLANTS,
    compile_plant,
    reach_table,
    summarize_reaches,
)
from popsim.experiments.result_table import ResultTable
from popsim.experiments.run_figure import RunFigure
from popsim.models.sensorimotor_loop import SensorimotorLoop
from popsim.network_input import Scaling
from popsim.networks import build_network
from popsim.networks.registry import check_network_name
from popsim.noise import GaussianNoise, MotorNoise
from popsim.plants import AbstractPlant, MusculoskeletalPlant
from popsim.senses import SensoryChannel, n_network_inputs, proprioception, vision
from popsim.tasks import RandomReaches
from popsim.tasks.trial_parts import reach_loss
from popsim.training import TaskTrainer, adam, cosine_decay

__all__ = ["CenterOut"]

EXCITING = {"output_fn": jax.nn.sigmoid, "output_bias": -3.0}
"""Arguments for the output of a network that drives muscles, which are barely excited before training."""


@dataclasses.dataclass(frozen=True)
class CenterOut(AbstractExperiment):
    """Center-out reaching with recurrent networks, tested on eight targets at 10 cm.

    Trained on random reaches in a 20 cm square. Noise is given as standard deviations of position and of
    velocity.
    """

    name: ClassVar[str] = "center-out"
    member_settings = {
        "learning_rate": "trainer",
        "effort_weight": "task",
        **dict.fromkeys(
            (
                "vision_delay",
                "vision_noise",
                "proprioception_delay",
                "proprioception_noise",
                "motor_noise",
                "hidden_noise",
            ),
            "model",
        ),
    }

    plant: Literal[tuple(PLANTS)] = "two-link-arm"  # pyright: ignore[reportInvalidTypeForm]
    """the body"""
    network: str = "gru"
    """the kind of network, one that `popsim list` shows"""
    n_units: int = 64
    """units per network"""
    learning_rate: float = 5e-3
    """initial learning rate of Adam, with cosine decay to zero"""
    effort_weight: float = 1e-6
    """weight of the squared command in the loss"""
    vision_delay: float = 0.07
    """s"""
    vision_noise: tuple[float, float] = (0.002, 0.02)
    """m and m/s"""
    proprioception_delay: float = 0.02
    """s"""
    proprioception_noise: tuple[float, float] | None = None
    """rad and rad/s (m and m/s for a point mass, optimal lengths and optimal lengths/s for muscles); by
    default 0.02 and 0.1, with muscles 0.005 and 0.03"""
    motor_noise: tuple[float, float] | None = None
    """relative to the command, and constant in N m (N for a point mass, excitation from 0 to 1 for
    muscles); by default 0.05 and 0.01, with muscles 0.05 and 0.002"""
    hidden_noise: float | None = None
    """on the units of the network, which range from -1 to 1; by default 0, with muscles 0.01"""
    duration: float = 1.0
    """duration of a trial, s"""
    dt: float = 0.01
    """time step, s"""

    def __post_init__(self):
        super().__post_init__()
        if self.plant not in PLANTS:
            raise ValueError(f"`plant` must be one of {', '.join(PLANTS)}, got {self.plant!r}.")
        check_network_name(self.network)
        check_positive_int("n_units", self.n_units)
        check_positive("learning_rate", self.learning_rate)
        check_non_negative("effort_weight", self.effort_weight)
        check_positive("dt", self.dt)
        check_positive("duration", self.duration)
        check_non_negative("hidden_noise", self.effective_value("hidden_noise"))
        for name in ("vision_noise", "proprioception_noise", "motor_noise"):
            noise = self.effective_value(name)
            if len(noise) != 2:
                raise ValueError(f"`{name}` must be two numbers, got {noise}.")
            check_non_negative(name, noise)
        for name in ("duration", "vision_delay", "proprioception_delay"):
            n_steps_in(name, getattr(self, name), self.dt)
        for name in ("vision_delay", "proprioception_delay"):
            if getattr(self, name) >= self.duration:
                raise ValueError(
                    f"`{name}` must be shorter than a trial, {self.duration} s, got {getattr(self, name)} s."
                )

    def effective_value(self, name: str) -> Any:
        value = getattr(self, name)
        return getattr(PLANTS[self.plant], name) if value is None else value

    def units(self) -> dict[str, tuple[str, ...]]:
        body = PLANTS[self.plant]
        return {
            "vision_noise": ("m", "m/s"),
            "proprioception_noise": (body.felt_unit, f"{body.felt_unit}/s"),
            "motor_noise": ("of the command", body.command_unit),
            **dict.fromkeys(("vision_delay", "proprioception_delay", "duration", "dt"), ("s",)),
        }

    def build_plant(self) -> AbstractPlant:
        """Build the plant."""
        return compile_plant(PLANTS[self.plant].build)

    def build_task(self) -> RandomReaches:
        loss = reach_loss(self.per_member("effort_weight"))
        return RandomReaches(self.build_plant().workspace, loss=loss, duration=self.duration, dt=self.dt)

    def build_model(self, *, key: Key[Array, ""]) -> SensorimotorLoop:
        plant = self.build_plant()
        posture = _rest_posture(plant)
        channels = {
            "vision": SensoryChannel(vision, self.vision_delay, _noise(self.vision_noise, 2)),
            "proprioception": SensoryChannel(
                proprioception,
                self.proprioception_delay,
                _noise(self.effective_value("proprioception_noise"), posture.size // 2),
            ),
        }
        n_inputs = n_network_inputs(self.build_task().validation_trials(), plant, channels)
        return SensorimotorLoop(
            build_network(
                self.network,
                n_inputs,
                self.n_units,
                plant.n_commands,
                noise_std=self.effective_value("hidden_noise"),
                dt=self.dt,
                key=key,
                **(EXCITING if isinstance(plant, MusculoskeletalPlant) else {}),
            ),
            plant,
            channels,
            MotorNoise(*self.effective_value("motor_noise")),
            scaling=_scaling(plant, posture, PLANTS[self.plant].proprioceptive_scale),
            dt=self.dt,
        )

    def build_trainer(self, **options: Any) -> TaskTrainer:
        schedule = cosine_decay(self.per_member("learning_rate"), self.n_batches)
        return TaskTrainer(adam(schedule, clip_norm=1.0), **options)

    def where_train(self, model: Any) -> Any:
        return model.network

    def summarize(self, ensemble: Any) -> dict[str, Any]:
        return summarize_reaches(self, ensemble)

    def table(self, summary: dict[str, Any]) -> ResultTable:
        return reach_table(summary)

    def draw_figures(self, run: Any) -> dict[str, RunFigure]:
        from popsim.experiments.reach_figures import draw_reach_figures  # which loads matplotlib

        return draw_reach_figures(run)


@jit_fast_compile
def _rest_posture(plant: AbstractPlant) -> Array:
    """Return the proprioception at the centre of the workspace, by one compiled program."""
    return plant.proprioception(plant.rest_state(plant.workspace.center))


def _noise(std: tuple[float, float], n: int) -> GaussianNoise:
    """Return the noise of a sense with `n` position-like and `n` velocity-like features."""
    return GaussianNoise(np.repeat(std, n))


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
