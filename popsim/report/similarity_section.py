"""How alike the members are."""

import matplotlib.pyplot as plt
import numpy as np

from popsim.analysis.figures import draw_member_map, draw_similarity_matrix, figure_style
from popsim.analysis.similarity import member_map, pairwise, procrustes_angle
from popsim.experiments.run import Run
from popsim.experiments.run_figure import RunFigure
from popsim.report.hidden_activity import hidden_activity


def draw_similarity(run: Run) -> dict[str, RunFigure] | None:
    """Distances between members, trained and untrained; None of one member, or of models without units."""
    if run.experiment.n_members < 2:
        return None
    activity = {
        "trained": hidden_activity(run, run.ensemble),
        "untrained": hidden_activity(run, run.models(batch=-1)),
    }
    hidden = [own for own in activity.values() if own is not None and np.all(np.isfinite(own))]
    if len(hidden) < len(activity):
        return None
    members = [member for own in hidden for member in own]
    groups = np.repeat(list(activity), run.experiment.n_members)
    distances = pairwise(members, procrustes_angle)
    said = (
        f"Procrustes angle between the activity of networks in the same {len(members[0])} validation trials, "
        f"noise off, after the best rotation: 0 for the same geometry. {run.experiment.n_members} trained "
        "members and the same before training."
    )
    with figure_style():
        matrix, ax = plt.subplots(figsize=(3.4, 2.8), layout="constrained")
        draw_similarity_matrix(ax, distances, groups=groups, label="Procrustes angle (rad)")
        chart = member_map(distances)
        plane, ax = plt.subplots(figsize=(3.4, 2.8), layout="constrained")
        draw_member_map(ax, chart.positions, groups=groups, share=chart.share)
    return {
        "member_distances": RunFigure(matrix, "Distances between members", said),
        "member_map": RunFigure(
            plane, "Map of the members", f"{said} Near one another: alike. A point is a network."
        ),
    }
