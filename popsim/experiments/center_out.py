"""Center-out reaching."""

import dataclasses
from typing import Any, ClassVar

from popsim._checks import check_non_negative, check_positive, check_time_step, n_steps_in
from popsim.experiments.motor_experiment import MODEL_SETTINGS, AbstractMotorExperiment
from popsim.experiments.reaching import reach_table, summarize_reaches
from popsim.experiments.result_table import ResultTable
from popsim.experiments.run_figure import RunFigure
from popsim.experiments.settings import setting
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
