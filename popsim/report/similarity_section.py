"""How alike the members are."""

import matplotlib.pyplot as plt
import numpy as np

from popsim.analysis.figures import draw_member_map, draw_similarity_matrix, figure_style
from popsim.analysis.similarity import member_map, pairwise, procrustes_angle
from popsim.experiments.run import Run
from popsim.experiments.run_figure import RunFigure
from popsim.report.hidden_activity import hidden_activity

MOST = 20  # members: their pairs are many more
FEWEST = 3  # networks that can be on a map


def draw_similarity(run: Run) -> dict[str, RunFigure] | None:
    """Distances between members, trained and untrained; None of one member, or of models without units.

    Members whose activity is constant or not finite are left out, and those after the first `MOST`.
    """
    if run.experiment.n_members < 2:
        return None
    activity = {
        "trained": hidden_activity(run, run.ensemble),
        "untrained": hidden_activity(run, run.models(batch=-1)),
    }
    found = [
        (name, member) for name, hidden in activity.items() if hidden is not None for member in hidden[:MOST]
    ]
    found = [(name, member) for name, member in found if np.all(np.isfinite(member)) and np.ptp(member) > 0]
    if len(found) < FEWEST:
        return None
    members, groups = [member for _, member in found], np.array([name for name, _ in found])
    distances = pairwise(members, procrustes_angle)
    said = (
        f"Procrustes angle between the activity of networks in the same {len(members[0])} validation trials, "
        f"noise off, after the best rotation: 0 for the same geometry. {np.sum(groups == 'trained')} trained "
        f"members, and {np.sum(groups == 'untrained')} before training; a member is a unit of replication, a "
        "pair of members is not."
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
