"""Figures of a sweep whose members select among one another: who descends from whom, with which settings."""

import matplotlib.pyplot as plt
import numpy as np

from popsim.analysis.figures import draw_discovered_schedules, draw_genealogy
from popsim.experiments import RunFigure
from popsim.sweeps import OpenedSweep
from popsim.sweeps.results import PARENT
from popsim.training.population_updates.base import HYPERPARAMETER

NOTE = (
    "Members have taken the weights of one another: the settings of the trainer are those with which they "
    "began. Compare whole populations, not settings or seeds, which are no independent replicates."
)


def draw_selection(opened: OpenedSweep, best: int) -> dict[str, RunFigure]:
    """Draw the genealogy of a member's population, and discovered schedules; none before any selection."""
    history, sweep = opened.load(f"{PARENT}*", f"{HYPERPARAMETER}*"), opened.sweep
    if PARENT not in history:
        return {}
    cell = int(opened.labels["cell"][best])
    members = sweep.members_at_places(cell)
    population = history.isel(member=members)
    parent = population[PARENT].values
    if not (is_known := np.isfinite(parent).all(axis=1)).any():
        return {}
    population = population.isel(selection_batch=is_known)
    places = np.argsort(members)
    parent = places[parent[is_known].astype(int) - members.min()]
    line, batch = int(places[best - members.min()]), population.selection_batch.values
    settings = "; ".join(f"{name} = {value}" for name, value in sweep.settings_of(cell).items())
    of_population = f" of the population with {settings}" if settings else ""
    about = f"{members.size} members{of_population}, {len(batch)} selections"

    figure, ax = plt.subplots(figsize=(4.2, 3.4), layout="constrained")
    draw_genealogy(ax, batch, parent, best=line)
    caption = (
        f"Who took the weights of whom: {about}. Lines that live on at the end are dark; that of the best "
        "member is in colour. Members are in the order of their settings and seeds."
    )
    figures = {"genealogy": RunFigure(figure, "Genealogy", caption)}
    for name in sorted(str(name) for name in population.data_vars if str(name).startswith(HYPERPARAMETER)):
        values = population[name].values
        if values.ndim != 2:
            continue
        name = name.removeprefix(HYPERPARAMETER)
        label = name.rpartition(".")[2].replace("_", " ")
        figure, ax = plt.subplots(figsize=(4.2, 2.8), layout="constrained")
        draw_discovered_schedules(ax, batch, values, parent, label=label, best=line)
        caption = (
            f"The {label} along the lines that live on at the end: {about}; the best member in colour. "
            "Of a rate with a schedule, its factor."
        )
        drawn = RunFigure(figure, f"Schedules discovered: {label}", caption)
        figures[f"schedule_{name.replace('.', '_')}"] = drawn
    return figures
