"""What training did to the weights, from the trainables that a run kept."""

import matplotlib.pyplot as plt
import numpy as np

from popsim.analysis.figures import draw_change_spectrum, draw_weight_history, figure_style
from popsim.analysis.figures.style import COLORS
from popsim.analysis.trainables import (
    arrays_by_name,
    change_singular_values,
    distance_from_start,
    gaussian_singular_values,
    participation_ratio_of_singular_values,
    recorded_arrays,
)
from popsim.experiments.run import Run
from popsim.experiments.run_figure import RunFigure

MOST_MATRICES = 4
MATRIX_AXES = 4  # batch, member, row, column


def draw_weights(run: Run) -> dict[str, RunFigure] | None:
    """How far the largest matrices went, and how many dimensions the change of the largest one has.

    None if fewer than two batches of trainables were kept, or no matrix that began with weights is among
    them.
    """
    dataset = run.history.dataset
    if "trainables_batch" not in dataset.coords or dataset.sizes["trainables_batch"] < 2:
        return None
    sizes = {
        name: array[0, 0].size
        for name, array in recorded_arrays(dataset).items()
        if array.ndim == MATRIX_AXES and min(array.shape[2:]) > 1
    }
    initial = {name: np.asarray(array) for name, array in arrays_by_name(run.models(batch=-1)).items()}
    began_somewhere = [name for name in sizes if np.any(initial[name])]
    names = sorted(began_somewhere, key=lambda name: -sizes[name])[:MOST_MATRICES]
    if not names:
        return None
    with figure_style():
        return {
            "weight_distances": _distances(run, names, initial),
            **_change(run, names[0], initial[names[0]]),
        }


def _distances(run: Run, names: list[str], initial: dict[str, np.ndarray]) -> RunFigure:
    figure, ax = plt.subplots(figsize=(3.4, 2.8), layout="constrained")
    groups = {name: [name] for name in names}
    distances = distance_from_start(run.history.dataset, groups=groups, initial=initial)
    batch = run.history.trainables_batch.values
    for (name, distance), color in zip(distances.items(), COLORS, strict=False):
        draw_weight_history(ax, batch, distance.relative, label=name, color=color)
    ax.set_ylabel("distance from start / initial norm")
    ax.legend()
    caption = (
        "Distance of the largest weight matrices from where they began, relative to their initial norm, "
        f"at {len(batch)} recorded batches. Lines: the median of "
        f"{run.experiment.n_members} members; bands hold them all. The unit of replication is the member."
    )
    return RunFigure(figure, "Distance of weights from their start", caption)


def _change(run: Run, name: str, initial: np.ndarray) -> dict[str, RunFigure]:
    """Of the members whose weights changed, if there are any."""
    weights = recorded_arrays(run.history.dataset)[name][-1:]
    values = change_singular_values(weights, initial=initial)[-1]
    values = values[values[:, 0] > 0]
    if not len(values):
        return {}
    null = gaussian_singular_values(*initial.shape[-2:], key=run.experiment.key("report"))
    figure, ax = plt.subplots(figsize=(3.4, 2.8), layout="constrained")
    draw_change_spectrum(ax, values, null)
    ratios = participation_ratio_of_singular_values(values)
    caption = (
        f"Singular modes of what training did to {name}: a line for each of {len(values)} members whose "
        "weights changed. Their participation ratio, the number of modes that hold most of the squared "
        f"change, is {ratios.mean():.1f} on average ({ratios.min():.1f} to {ratios.max():.1f}), of "
        f"{values.shape[-1]} modes; that of matrices of the same shape with independent Gaussian entries "
        f"(grey) is {participation_ratio_of_singular_values(null).mean():.1f}. The unit of replication "
        "is the member."
    )
    return {"weight_change": RunFigure(figure, "Dimensions of the change of weights", caption)}
