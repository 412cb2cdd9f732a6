"""The report of a run, section by section."""

import dataclasses
import platform
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from popsim._shared.checks import check_instance
from popsim._shared.drawing import FailedDrawing
from popsim.analysis import figures, trainables
from popsim.analysis.figures.style import COLORS
from popsim.analysis.neural_activity import participation_ratio, principal_components
from popsim.analysis.similarity import member_map, pairwise, procrustes_angle
from popsim.experiments.results import RunFigure
from popsim.experiments.run import Run, kept_batches
from popsim.experiments.run_info import duration_text
from popsim.networks.activity import defines_activity, unit_activity
from popsim.noise import without_noise
from popsim.report._explorer import TITLE, explorer_elements
from popsim.report._html import Html, code_box, element, named_values, note, side_by_side, table
from popsim.report.report_folder import Charts, Figures, Page, WrittenReport, experiment_text, small_axes
from popsim.version import __version__

__all__ = ["Section", "SECTIONS", "report_run"]


@dataclasses.dataclass(frozen=True)
class Section:
    """A section of a report: a question about a run, answered by figures.

    - `title`: the heading.
    - `introduction`: a sentence or two on what to look for; may be empty.
    - `draw`: draws figures of a finished `Run`, by file name; None, which omits the section, if the run lacks
        what they need, such as kept weights; or a `FailedDrawing`, which says why there are none.
    """

    title: str
    introduction: str
    draw: Callable[[Run], Mapping[str, RunFigure] | FailedDrawing | None]


def hidden_activity(run: Run, ensemble: Any) -> Float[np.ndarray, "member trial time unit"] | FailedDrawing:
    """Return the activity of all units, without noise, or why it is not defined."""
    quiet = without_noise(ensemble)
    states = run.evaluate(quiet).states
    if not defines_activity(quiet, states):
        network = type(getattr(ensemble, "network", ensemble)).__name__
        return FailedDrawing(
            "the activity of units", f"{network} does not implement AbstractNetwork.activity"
        )
    return np.asarray(unit_activity(quiet, states), np.float64)


MOST_COMPONENTS = 10


def draw_neural_activity(run: Run) -> dict[str, RunFigure] | FailedDrawing | None:
    """Draw the dimensionality of activity and its course in two dimensions; None for one unit."""
    hidden = hidden_activity(run, run.ensemble)
    if isinstance(hidden, FailedDrawing):
        return hidden
    n_members, n_trials, _, n_units = hidden.shape
    if not np.all(np.isfinite(hidden)) or n_units < 2:
        return None
    components = principal_components(hidden, n_components=min(MOST_COMPONENTS, n_units))
    variance, ax = small_axes()
    figures.draw_explained_variance(ax, components.explained)
    caption = (
        f"Variance of the activity of {n_units} units, over the steps of {n_trials} validation trials, that "
        f"the first principal components explain, noise off: {n_members} members. The participation ratio is "
        f"{_mean_and_range(participation_ratio(hidden))}. The unit of replication is the member."
    )
    dimensions = RunFigure(variance, "Dimensions of activity", caption)

    plane, ax = small_axes()
    direction = run.task.validation_trials().conditions.get("direction")
    direction = None if direction is None else np.asarray(direction)
    first_two = components.projections[0, :, :, :2]
    figures.draw_state_space(ax, first_two, direction=direction, explained=components.explained[0, :2])
    colored = "" if direction is None else ", coloured by the direction of the target"
    caption = (
        f"Activity of one network, member 0, in {n_trials} validation trials{colored}, noise off: its first "
        "two principal components, with their shares of the variance. Rings: the first time step; dots: the "
        "last. The other members are not shown."
    )
    course = RunFigure(plane, "Course of activity", caption)
    return {"explained_variance": dimensions, "state_space": course}


def _mean_and_range(ratios: Float[np.ndarray, " member"]) -> str:
    return f"{ratios.mean():.1f} on average ({ratios.min():.1f} to {ratios.max():.1f})"


MOST = 20  # members; the number of pairs grows with the square
FEWEST = 3  # networks needed for a map


def draw_similarity(run: Run) -> dict[str, RunFigure] | FailedDrawing | None:
    """Draw distances between members whose activity varies, trained and untrained; None for one member."""
    if run.experiment.n_members < 2:
        return None
    members, names = [], []
    for name, ensemble in (("trained", run.ensemble), ("untrained", run.models(batch=-1))):
        hidden = hidden_activity(run, ensemble)
        if isinstance(hidden, FailedDrawing):
            return hidden
        varied = [member for member in hidden[:MOST] if np.isfinite(member).all() and np.ptp(member) > 0]
        members, names = members + varied, names + [name] * len(varied)
    if len(members) < FEWEST:
        return None
    groups = np.array(names)
    distances = pairwise(members, procrustes_angle)
    caption = (
        f"Procrustes angle between the activity of networks in the same {len(members[0])} validation trials, "
        f"noise off, after the best rotation: 0 for the same geometry. {np.sum(groups == 'trained')} trained "
        f"members, and {np.sum(groups == 'untrained')} before training; a member is a unit of replication, a "
        "pair of members is not."
    )
    matrix, ax = small_axes()
    figures.draw_similarity_matrix(ax, distances, groups=groups, label="Procrustes angle (rad)")
    chart = member_map(distances)
    plane, ax = small_axes()
    figures.draw_member_map(ax, chart.positions, groups=groups, fraction=chart.fraction)
    return {
        "member_distances": RunFigure(matrix, "Distances between members", caption),
        "member_map": RunFigure(
            plane, "Map of the members", f"{caption} Near one another: alike. A point is a network."
        ),
    }


MOST_MATRICES = 4
MATRIX_AXES = 4  # batch, member, row, column


def draw_weights(run: Run) -> dict[str, RunFigure] | None:
    """Draw the change of the largest matrices, and the dimensionality of that of the largest, if any."""
    if len(kept_batches(run.history.dataset)) < 2:
        return None
    initial = trainables.arrays_by_name(run.models(batch=-1))
    matrices = {
        name: array[0, 0].size
        for name, array in trainables.recorded_arrays(run.history.dataset).items()
        if array.ndim == MATRIX_AXES and min(array.shape[2:]) > 1 and np.any(initial[name])
    }
    names = sorted(matrices, key=lambda name: -matrices[name])[:MOST_MATRICES]
    if not names:
        return None
    distances = _draw_distances(run, names, initial)
    return {"weight_distances": distances, **_draw_change(run, names[0], np.asarray(initial[names[0]]))}


def _draw_distances(run: Run, names: list[str], initial: dict[str, Any]) -> RunFigure:
    figure, ax = small_axes()
    groups = {name: [name] for name in names}
    distances = trainables.distance_from_start(run.history.dataset, groups=groups, initial=initial)
    batch = run.history.trainables_batch.values
    for (name, distance), color in zip(distances.items(), COLORS, strict=False):
        figures.draw_weight_history(ax, batch, distance.relative, label=name, color=color)
    ax.set_ylabel("distance from start / initial norm")
    ax.legend()
    caption = (
        "Distance of the largest weight matrices from where they began, relative to their initial norm, "
        f"at {len(batch)} recorded batches. Lines: the median of "
        f"{run.experiment.n_members} members; bands hold them all. The unit of replication is the member."
    )
    return RunFigure(figure, "Distance of weights from their start", caption)


def _draw_change(run: Run, name: str, initial: np.ndarray) -> dict[str, RunFigure]:
    """Draw the change for the members whose weights changed, if there are any."""
    weights = trainables.recorded_arrays(run.history.dataset)[name][-1:]
    values = trainables.change_singular_values(weights, initial=initial)[-1]
    values = values[values[:, 0] > 0]
    if not len(values):
        return {}
    participation = trainables.participation_ratio_of_singular_values
    null = trainables.gaussian_singular_values(*initial.shape[-2:], key=run.experiment.key("report"))
    figure, ax = small_axes()
    figures.draw_change_spectrum(ax, values, null)
    caption = (
        f"Singular modes of what training did to {name}: a line for each of {len(values)} members whose "
        "weights changed. Their participation ratio, the number of modes that hold most of the squared "
        f"change, is {_mean_and_range(participation(values))}, of {values.shape[-1]} modes; that of matrices "
        "of the same shape with independent Gaussian entries (grey) is "
        f"{participation(null).mean():.1f}. The unit of replication is the member."
    )
    return {"weight_change": RunFigure(figure, "Dimensions of the change of weights", caption)}


SECTIONS = (
    Section(
        "Learning and behaviour",
        "How the networks learned, and what they do at the end.",
        lambda run: run.experiment.draw_figures(run),
    ),
    Section(
        "Weights over training",
        "How far learning moved the weights, and in how many dimensions.",
        draw_weights,
    ),
    Section("Neural activity", "In how many dimensions units are active together.", draw_neural_activity),
    Section("Comparison of members", "Whether members found the same solution.", draw_similarity),
)
"""The sections of a report, in order; add new ones here."""


_CODE = """import popsim

run = popsim.open_run({path})
run.summary  # the metrics, in SI units
run.history.total_loss  # (batch, member); run.history.loss has each term
run.history.trainables  # the weights over training batches, lazy
run.ensemble  # the trained networks, all members stacked
states = run.evaluate().states  # the validation trials: (member, trial, time, ...)
untrained = run.models(batch=-1)  # the networks before training"""


def report_run(run: Run, out: str | Path | None = None) -> WrittenReport:
    """Draw all figures of a finished run as PNG and PDF, and write report.html.

    A warning, and a note in the page, say which figures could not be drawn.

    **Arguments:**

    - `run`: the run, which is only read if `out` is another folder than its own.
    - `out`: the folder for report.html and figures/; None for that of the run.

    **Raises:** `ValueError` if the run is not finished, or `out` holds something else; `SaveError` if
    something cannot be written.
    """
    check_instance("run", run, Run, "a run, such as popsim.open_run(path)")
    home, results = run.folder.path, run.results()
    settings = [element("h3", "Settings"), *_settings(run)]
    page = Page(
        f"{run.experiment.name}: {home.resolve().name}",
        _introduction(run),
        {
            "What was trained, and the results": [
                side_by_side(settings, [element("h3", "Results"), table(results, "Results")])
            ],
            **{section.title: _figures(section, run) for section in SECTIONS},
            TITLE: Charts(lambda: explorer_elements(run)),
            "Open this run in Python": [code_box(_CODE.format(path=repr(str(home))))],
        },
        str(results),
    )
    return page.write("report.html", home if out is None else out, home)


def _figures(section: Section, run: Run) -> Figures:
    return Figures({f"the section {section.title!r}": lambda: section.draw(run)}, section.introduction)


def _introduction(run: Run) -> list[Html]:
    """Describe the model and the training of the run, with its duration."""
    experiment, n_trained, losses = run.experiment, run.info["n_trained_numbers"], run.info["losses"]
    numbers = "" if n_trained is None else f" of {n_trained:,} trained numbers"
    took = f"; the training took {duration_text(losses['seconds'])}" if losses else ""
    training = (
        f"{experiment.n_members} members{numbers}, each trained for {experiment.n_batches} batches of "
        f"{experiment.batch_size} trials, all random numbers from seed {experiment.seed}{took}."
    )
    elements = [experiment_text(experiment), element("p", training)]
    for members, reason in (
        (run.info["frozen_from"], "frozen because their numbers were no longer finite"),
        (run.info["stopped_from"], "stopped by their performance"),
    ):
        if members:
            named = ", ".join(f"{member} (batch {batch})" for member, batch in members.items())
            elements.append(note(f"Members that are {reason}: {named}."))
    return elements


def _settings(run: Run) -> list[Html]:
    """List the settings, with changed ones in bold, and versions."""
    described, changed = run.info, run.info["changed_settings"] or ()
    values: dict[str, str] = {"experiment": str(described["experiment"])}
    for name, text in described["settings_in_effect"].items():
        values[name] = element("strong", text) if name in changed else text
    values["trained by"] = f"popsim {described['popsim']}, run format {described['format']}"
    values["figures by"] = (
        f"popsim {__version__}, JAX {version('jax')}, matplotlib {version('matplotlib')}, "
        f"Python {platform.python_version()}"
    )
    hint = "In bold: what is not the default." if changed else "All settings are the defaults."
    if described["changed_settings"] is None:
        hint = "The experiment is not registered here: its defaults are not known."
    return [element("p", hint), named_values("Settings and versions", values)]
