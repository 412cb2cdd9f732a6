"""The figures of runs on top of each other."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from popsim.analysis.behaviour import hand_speed
from popsim.analysis.figures import draw_loss_bands, draw_mean_speed, draw_member_values, figure_style
from popsim.experiments.run_figure import RunFigure
from popsim.hand import HandState
from popsim.noise import without_noise
from popsim.report.compared_runs import ComparedRun
from popsim.report.comparison_table import merits
from popsim.sensorimotor_loop import SensorimotorLoop

REPLICATION = "The unit of replication is the member."


def draw_comparison(runs: Sequence[ComparedRun]) -> dict[str, RunFigure]:
    """Learning curves, figures of merit and, of reaches, speed profiles: one colour for each run."""
    with figure_style():
        figures = {
            "training_loss": _losses(runs, "loss", "total_loss", "batch", "training"),
            "validation_loss": _losses(
                runs, "validation_loss", "total_validation_loss", "validation_batch", "validation"
            ),
            "figures_of_merit": _merits(runs),
            "speed_profiles": _speeds(runs),
        }
    return {name: drawn for name, drawn in figures.items() if drawn is not None}


def _members(runs: Sequence[ComparedRun]) -> str:
    return ", ".join(f"{each.name}: {each.run.experiment.n_members}" for each in runs)


def _losses(runs: Sequence[ComparedRun], loss: str, total: str, batch: str, kind: str) -> RunFigure | None:
    figure, ax = plt.subplots(figsize=(3.4, 2.8), layout="constrained")
    for each in runs:
        history = each.run.history
        if loss not in history.dataset:
            continue
        values = getattr(history, total).values
        if np.isfinite(values).all(axis=0).any():
            draw_loss_bands(ax, history[batch].values, values, label=each.short_name, color=each.color)
    if not ax.lines:
        plt.close(figure)
        return None
    ax.set(ylabel=f"{kind} loss", xlim=(1, 1.05 * ax.dataLim.x1))
    ax.legend()
    caption = (
        f"Total {kind} loss: lines are the geometric mean over members ({_members(runs)}), bands go from the "
        "lowest to the highest member at each batch; members whose loss was not finite are left out. "
        f"{REPLICATION}"
    )
    return RunFigure(figure, f"Loss in {kind}", caption)


def _merits(runs: Sequence[ComparedRun]) -> RunFigure | None:
    if not (found := merits(runs)):
        return None
    size = (3.4, 0.3 + len(found) * (0.5 + 0.25 * len(runs)))
    figure, axes = plt.subplots(len(found), 1, figsize=size, layout="constrained", squeeze=False)
    for ax, (name, _, values) in zip(axes[:, 0], found, strict=True):
        draw_member_values(ax, values, names=[each.short_name for each in runs], label=name)
    caption = (
        f"A point for each member ({_members(runs)}), a bar at their mean; each number is over the trials "
        f"that the table names. {REPLICATION}"
    )
    return RunFigure(figure, "Figures of merit", caption)


def _speeds(runs: Sequence[ComparedRun]) -> RunFigure | None:
    """Of runs that reach; None unless all do."""
    if not all(_reaches(each) for each in runs):
        return None
    figure, ax = plt.subplots(figsize=(3.4, 2.8), layout="constrained")
    n_trials = [_draw_speed(ax, each) for each in runs]
    ax.legend()
    said = str(n_trials[0]) if len(set(n_trials)) == 1 else " or ".join(map(str, sorted(set(n_trials))))
    caption = (
        f"Speed of the hand in {said} validation trials, noise off: lines are the mean over members "
        f"({_members(runs)}), each with its mean over trials; bands go from the slowest to the fastest "
        f"member at each time. {REPLICATION}"
    )
    return RunFigure(figure, "Speed profiles", caption)


def _reaches(each: ComparedRun) -> bool:
    has_hand = isinstance(each.run.task.validation_trials().targets, HandState)
    return has_hand and isinstance(each.run.ensemble, SensorimotorLoop)


def _draw_speed(ax: Axes, each: ComparedRun) -> int:
    """Draws it; of how many trials."""
    states = each.run.evaluate(without_noise(each.run.ensemble)).states
    speed = np.asarray(hand_speed(states.hand))
    dt = each.run.task.validation_trials().timeline.dt
    draw_mean_speed(ax, speed, dt=float(np.ravel(dt)[0]), label=each.short_name, color=each.color)
    return speed.shape[1]
