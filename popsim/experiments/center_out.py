"""Center-out reaching."""

import dataclasses
from typing import Any, ClassVar, Literal

from popsim._checks import check_non_negative, check_positive, check_time_step, n_steps_in
from popsim.experiments.motor_experiment import MODEL_SETTINGS, AbstractMotorExperiment
from popsim.experiments.reaching import PLANTS, reach_table, summarize_reaches
from popsim.experiments.result_table import ResultTable
from popsim.experiments.run_figure import RunFigure
from popsim.tasks import RandomReaches
from popsim.tasks.trial_parts import reach_loss

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
    """delay of vision, s"""
    vision_noise: tuple[float, float] = (0.002, 0.02)
    """standard deviations of vision, m and m/s"""
    proprioception_delay: float = 0.02
    """delay of proprioception, s"""
    proprioception_noise: tuple[float, float] | None = None
    """standard deviations, rad and rad/s (m and m/s for a point mass, optimal lengths and optimal lengths/s
    for muscles); by default 0.02 and 0.1, with muscles 0.005 and 0.03"""
    motor_noise: tuple[float, float] | None = None
    """standard deviations, relative to the command, and constant in N m (N for a point mass, excitation from
    0 to 1 for muscles); by default 0.05 and 0.01, with muscles 0.05 and 0.002"""
    hidden_noise: float | None = None
    """noise on the units of the network, which range from -1 to 1; by default 0, with muscles 0.01"""
    duration: float = 1.0
    """duration of a trial, s"""
    dt: float = 0.01
    """time step, s"""

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

    def units(self) -> dict[str, tuple[str, ...]]:
        return super().units() | dict.fromkeys(("duration", "dt"), ("s",))

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
