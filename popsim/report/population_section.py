"""What the units did together."""

import matplotlib.pyplot as plt
import numpy as np

from popsim.analysis.figures import draw_explained_variance, draw_state_space, figure_style
from popsim.analysis.population import PrincipalComponents, participation_ratio, principal_components
from popsim.experiments.run import Run
from popsim.experiments.run_figure import RunFigure
from popsim.report.hidden_activity import hidden_activity

MOST_COMPONENTS = 10


def draw_population(run: Run) -> dict[str, RunFigure] | None:
    """How many dimensions activity has, and its course in two of them; None of models without units."""
    hidden = hidden_activity(run, run.ensemble)
    if hidden is None or not np.all(np.isfinite(hidden)) or hidden.shape[-1] < 2:
        return None
    n_components = min(MOST_COMPONENTS, hidden.shape[-1])
    found = principal_components(hidden, n_components=n_components)
    with figure_style():
        return {
            "explained_variance": _dimensions(hidden, found),
            "state_space": _course(run, found),
        }


def _dimensions(hidden: np.ndarray, found: PrincipalComponents) -> RunFigure:
    figure, ax = plt.subplots(figsize=(3.4, 2.8), layout="constrained")
    draw_explained_variance(ax, found.explained)
    ratios = participation_ratio(hidden)
    caption = (
        f"Variance of the activity of {hidden.shape[-1]} units, over the steps of {hidden.shape[1]} "
        f"validation trials, that the first principal components explain, noise off: {hidden.shape[0]} "
        f"members. The participation ratio is {ratios.mean():.1f} on average ({ratios.min():.1f} to "
        f"{ratios.max():.1f}). The unit of replication is the member."
    )
    return RunFigure(figure, "Dimensions of activity", caption)


def _course(run: Run, found: PrincipalComponents) -> RunFigure:
    figure, ax = plt.subplots(figsize=(3.4, 2.8), layout="constrained")
    direction = run.task.validation_trials().conditions.get("direction")
    draw_state_space(
        ax,
        found.projections[0, :, :, :2],
        direction=None if direction is None else np.asarray(direction),
        explained=found.explained[0, :2],
    )
    colored = "" if direction is None else ", coloured by the direction of the target"
    caption = (
        f"Activity of one network, member 0, in {found.projections.shape[1]} validation trials{colored}, "
        "noise off: its first two principal components, with their shares of the variance. Rings: the first "
        "time step; dots: the last. The other members are not shown."
    )
    return RunFigure(figure, "Course of activity", caption)
