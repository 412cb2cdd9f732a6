"""What the commands `list` and `show-task` print and draw."""

import inspect
from functools import partial
from pathlib import Path
from typing import Any

import jax

import popsim.tasks
from popsim.analysis.figures import draw_task_trials, figure_style, task_trial_rows
from popsim.analysis.figures.style import is_figure, write_figure
from popsim.cli._outputs import drawing
from popsim.experiments import EXPERIMENTS, PLANTS
from popsim.experiments.registry import advice_on_name
from popsim.networks import NETWORKS
from popsim.randomness import check_seed, seed_key
from popsim.schedules import LAST_BATCH
from popsim.store.files import check_replaceable
from popsim.task import AbstractTask
from popsim.task_description import sample_trials
from popsim.tasks.library import TASKS, MotorTask, task_definition
from popsim.trial import Trial

MOST_TRIALS = 12
SUFFIXES = (".png", ".pdf", ".svg")


def show_task(command: Any) -> Path:
    """Print the table of a task, draw some of its trials, and return the path of the figure."""
    for name, low, high in (("trials", 1, MOST_TRIALS), ("batch", 0, LAST_BATCH)):
        if (number := getattr(command, name)) is not None and not low <= number <= high:
            raise ValueError(f"`{name}` must be from {low} to {high}, got {number}.")
    check_seed("seed", command.seed)
    batch = LAST_BATCH if command.batch is None else command.batch
    task = find_task(command.name)
    path = Path("figures", f"{command.name}.png") if command.out is None else command.out
    if path.suffix not in SUFFIXES:
        raise ValueError(f"`out` must end in one of {', '.join(SUFFIXES)}, got {path}.")
    check_replaceable(path, is_figure, kind="a figure", overwrite=command.overwrite, name="out")
    print(task.describe(batch=batch))
    trials = sample_trials(task, command.trials, batch=batch, key=seed_key(command.seed))
    figure = task_figure(trials)
    with drawing(path, figure), figure_style():
        write_figure(figure, path)
    return path


def find_task(name: str) -> AbstractTask:
    """Return the task, or the task of the experiment, with this name and default settings."""
    if name in TASKS:
        return TASKS[name]()
    if name in EXPERIMENTS:
        return EXPERIMENTS[name]().build_task()
    raise ValueError(f"`name` must be known, got {name!r}: {advice_on_name(name)}")


def task_figure(trials: Trial) -> Any:
    """Draw stacked trials side by side."""
    import matplotlib.pyplot as plt

    shape = len(task_trial_rows(trials)), jax.tree.leaves(trials)[0].shape[0]
    size = (0.9 + 1.75 * shape[1], 0.9 + 0.85 * shape[0])
    with figure_style():
        figure = plt.figure(figsize=size, layout="constrained")
        axes = figure.subplots(*shape, sharex=True, sharey="row", squeeze=False)
        draw_task_trials(axes, trials)
        figure.align_ylabels(axes[:, 0])
    return figure


def listed() -> dict[str, dict[str, str]]:
    """Return by title what `popsim list` prints: names with summaries, and modules of what is a user's."""
    definitions = {name: task_definition(name) for name in TASKS}
    kinds = {name: kind for name, kind in vars(popsim.tasks).items() if inspect.isclass(kind)}
    return {
        "experiments (popsim train)": {name: _listed(kind) for name, kind in EXPERIMENTS.data.items()},
        "tasks (popsim train, popsim show-task); [body]: with a body, --plant": {
            name: "[body] " * isinstance(TASKS[name], MotorTask) + _listed(definition, names_class=True)
            for name, definition in definitions.items()
        },
        "further tasks (popsim.tasks)": {
            name: _summary(kind)
            for name, kind in kinds.items()
            if issubclass(kind, AbstractTask) and kind not in definitions.values()
        },
        "plants (--plant)": {name: _plant_summary(choice.build) for name, choice in PLANTS.items()},
        "networks (--network)": {name: _listed(build) for name, build in NETWORKS.items()},
    }


def _listed(definition: Any, *, names_class: bool = False) -> str:
    """Return a summary, after the name of a class of tasks, and with the module of what is a user's."""
    kind = f"{definition.__name__}: " if names_class and inspect.isclass(definition) else ""
    module = definition.__module__
    origin = "" if module.startswith("popsim.") else f" [from {module}]"
    return f"{kind}{_summary(definition)}{origin}"


def _plant_summary(build: Any) -> str:
    """Return the summary of the function that builds a plant, or the muscle model of an arm26 variant."""
    return f"arm26 with {build.args[0].__name__}" if isinstance(build, partial) else _summary(build)


def _summary(definition: object) -> str:
    return (inspect.getdoc(definition) or "").partition("\n")[0]
