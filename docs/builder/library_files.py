"""The pages of the library: a page for each task, and overviews of bodies, muscles, networks and rules."""

import functools
import inspect
from collections.abc import Collection
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import matplotlib.pyplot as plt
from part_drawings import (
    draw_activations,
    draw_bodies,
    draw_hebbian_rules,
    draw_muscle_laws,
    draw_networks,
    hebbian,
)
from public_names import PublicName, first_paragraph, reference_pages
from reference_files import docstring_text, link_names, name_rows, table

import popsim
from popsim.analysis.figures import figure_style
from popsim.cli._tasks import task_figure
from popsim.experiments import PLANTS
from popsim.experiments.task_experiments import task_fields
from popsim.muscles import AbstractActivation, AbstractMuscle, AbstractRigidTendonMuscle
from popsim.muscles.paths import AbstractMusclePath
from popsim.networks import NETWORKS, AbstractNetwork, build_network
from popsim.networks.registry import options_of_network
from popsim.parameters import is_parameter
from popsim.plants import AbstractPlant
from popsim.schedules import LAST_BATCH
from popsim.task import AbstractTask
from popsim.task_description import TaskDescription, innermost_task, named_task
from popsim.tasks.library import COGNITIVE_TASKS, MOTOR_TASKS, REWARD_TASKS, TASKS, task_definition
from popsim.training import AbstractGradient, AbstractModelUpdate

N_TRIALS = 3
"""The number of trials that are drawn of each task."""

DRAWN_BODIES = ("point-mass", "two-link-arm", "muscled-point-mass", "arm26", "muscled-arm-li-todorov")
"""The bodies that look different."""

Rows = list[tuple[str, ...]]


def write_library(folder: Path, drawn: Collection[str]) -> None:
    """Write the pages into the sources of the site.

    **Arguments:**

    - `folder`: the folder of the sources.
    - `drawn`: the tasks whose trials are drawn and described, which takes about two seconds for each; unless
        these are all, two of each kind of part are drawn.
    """
    shown = slice(None if len(drawn) == len(TASKS) else 2)
    (folder / "library" / "tasks").mkdir(parents=True)
    for name in TASKS:
        if name in drawn:
            print(f"  {name}", flush=True)  # all take minutes
        trials = _draw_and_describe(name, folder / _drawing(name)) if name in drawn else []
        (folder / _task_file(name)).write_text("\n\n".join(_task_parts(name, trials)) + "\n")
    overviews = (_task_overview, _body_overview, _muscle_overview, _network_overview, _rule_overview)
    for file, make in zip(_OVERVIEWS.values(), overviews, strict=True):
        (folder / file).write_text(make())
    laws, activations = (
        _kinds("popsim.muscles", base)[shown] for base in (AbstractRigidTendonMuscle, AbstractActivation)
    )
    draw_muscle_laws(laws, folder / "library/muscle_laws.svg")
    draw_activations(activations, folder / "library/activation.svg")
    draw_networks([*NETWORKS][shown], folder / "library/networks.svg")
    draw_bodies({name: PLANTS[name].build for name in DRAWN_BODIES[shown]}, folder / "library/bodies.svg")
    rules = _kinds("popsim.training.rules", AbstractModelUpdate)
    draw_hebbian_rules(hebbian(rules)[shown], folder / "library/rules.svg")


_OVERVIEWS = {
    "Tasks": "library/tasks/index.md",
    "Bodies": "library/bodies.md",
    "Muscles": "library/muscles.md",
    "Networks": "library/networks.md",
    "Learning rules": "library/rules.md",
}


def library_nav() -> list:
    """Return the entries of the navigation."""
    nav: list = [{title: file} for title, file in _OVERVIEWS.items()]
    nav[0] = {"Tasks": [_OVERVIEWS["Tasks"], *({name: _task_file(name)} for name in TASKS)]}
    return nav


def _task_file(name: str) -> str:
    return f"library/tasks/{name}.md"


def _drawing(name: str) -> str:
    return f"library/tasks/{name}.svg"


@functools.cache
def _task(name: str) -> AbstractTask:
    return TASKS[name]()


def _task_parts(name: str, trials: list[str]) -> list[str]:
    task = _task(name)
    weights = {term: _number(weight) for term, weight in task.loss.weights.items()}
    terms = [(term.name, weights[term.name], _term_form(term)) for term in task.loss.terms]
    return [
        f"# {name}",
        _task_summary(name),
        f'`popsim.tasks.TASKS["{name}"]()` makes a {_task_title(name)}; `popsim show-task {name}` draws more '
        "trials.",
        *trials,
        *_argument_parts(name),
        "## Default loss",
        "The sum of these terms, each times its weight.",
        table(("term", "weight", "made by"), terms),
    ]


def _argument_parts(name: str) -> list[str]:
    """Return the section on the arguments that are plain values."""
    definition = task_definition(name)
    rows = [
        (f"`{name}`", f"`{field.default!r}`", docstring_text(field.metadata["help"]))
        for name, _, field in task_fields(definition)
    ]
    intro = (
        f"Options of `popsim train {name}`, and arguments in Python, where what is drawn in each trial is a "
        "number or a distribution of `popsim.distributions`."
    )
    kind = link_names(f"`{type(innermost_task(_task(name))).__name__}`")
    further = f"{kind} has those that are no plain values, `loss` among them."
    return (
        ["## Arguments", intro, table(("argument", "default", "what it is"), rows), further] if rows else []
    )


def _number(weight: Any) -> str:
    """Return the weight of a loss term in few digits, or how it changes over batches."""
    return f"{float(weight):.3g}" if eqx.is_array_like(weight) else f"`{weight!r}`"


def _term_form(term: Any) -> str:
    """Return the class of a loss term as a link, and its arguments."""
    kind, form = type(term).__name__, " ".join(repr(term).split())
    arguments = form.removeprefix(kind).removeprefix("()")
    return f"[`{kind}`][popsim.losses.{kind}]" + (f" `{arguments}`" if arguments else "")


def _task_title(name: str) -> str:
    """Return the class of a task as a link, with the interventions in its trials."""
    task = _task(name)
    kind = type(innermost_task(task)).__name__
    return named_task(task)[0].replace(kind, link_names(f"`{kind}`"), 1)


def _task_summary(name: str) -> str:
    """Return what the function that builds a task says of it, or else its class."""
    build = task_definition(name)
    written = first_paragraph(build) if inspect.isfunction(build) else ""
    return written or named_task(_task(name))[1]


def _draw_and_describe(name: str, drawing: Path) -> list[str]:
    """Draw trials of a task into a file, and return the parts of the page about these."""
    task = _task(name)
    description = task.describe()
    drawn = popsim.sample_trials(task, description.n_drawn, batch=LAST_BATCH, key=jax.random.key(0))
    figure = task_figure(jax.tree.map(lambda leaf: leaf[:N_TRIALS], drawn))
    with figure_style():
        figure.savefig(drawing)
    plt.close(figure)
    return _trial_parts(name, description)


_OF_ENVIRONMENTS = (
    "What the environment shows is drawn for random actions, or for a hand at rest at its start; a network "
    "receives it with the inputs, all sorted by name."
)


def _trial_parts(name: str, description: TaskDescription) -> list[str]:
    parts = [
        f"![{N_TRIALS} trials of {name}]({Path(_drawing(name)).name}){{ .trials }}",
        f"{description.n_steps} steps of {description.dt:.3g} s make a trial of "
        f"{description.n_steps * description.dt:.3g} s. {description.n_validation_trials} trials validate. "
        f"The tables are of {description.n_drawn} drawn trials; three numbers are the lowest, the mean and "
        "the highest." + ("" if description.environment is None else f" {_OF_ENVIRONMENTS}"),
    ]
    for (title, *columns), *rows in description.sections():
        if title == "inputs" and rows:
            columns, rows = ["columns", *columns], _with_columns(rows, description.inputs)
            parts += [
                "## Inputs",
                "In the order in which a network receives them; the senses of a body follow.",
            ]
        elif rows:
            parts += [f"## {title.capitalize()}"]
        parts += [table(("name", *columns), rows)] if rows else []
    return parts


def _with_columns(rows: Rows, signals: Any) -> Rows:
    """Add which numbers of the network's input each signal is, counted from 0."""
    numbered, first = [], 0
    for (name, *cells), signal in zip(rows, signals, strict=True):
        size = functools.reduce(int.__mul__, signal.shape, 1)
        columns = f"{first}" if size == 1 else f"{first} to {first + size - 1}"
        numbered.append((name, columns, *cells))
        first += size
    return numbered


def _task_overview() -> str:
    def rows(tasks: Collection[str]) -> Rows:
        return [(f"[{name}]({name}.md)", _task_summary(name)) for name in tasks]

    parts = ["# Tasks", "The tasks of the library by the names that the command line takes."]
    families = {
        "Motor tasks": MOTOR_TASKS,
        "Cognitive tasks": COGNITIVE_TASKS,
        "Tasks that pay rewards": REWARD_TASKS,
    }
    for title, tasks in families.items():
        parts += [f"## {title}", table(("task", "what is asked"), rows(tasks))]
    kinds = table(("class", "what is asked"), name_rows(_subclasses("popsim.tasks", AbstractTask)))
    return "\n\n".join([*parts, "## Classes", "Of these, and of tasks made from other tasks:", kinds]) + "\n"


def _subclasses(page: str, base: type) -> list[PublicName]:
    """Return the public concrete subclasses of a class, of the page of a module."""
    kinds = [name for name in _names(page) if inspect.isclass(name.value) and issubclass(name.value, base)]
    return [name for name in kinds if not inspect.isabstract(name.value)]


def _kinds(page: str, base: type) -> list[Any]:
    return [name.value for name in _subclasses(page, base)]


def _functions(page: str) -> list[PublicName]:
    return [name for name in _names(page) if inspect.isroutine(name.value)]


def _names(path: str) -> list[PublicName]:
    (names,) = (page.names for page in reference_pages() if page.path == path)
    return names


def _overview(title: str, intro: str, sections: dict[str, list[PublicName]]) -> str:
    parts = [f"# {title}", intro]
    for heading, names in sections.items():
        parts += [f"## {heading}", table(("name", "what it is"), name_rows(names))]
    return "\n\n".join(parts) + "\n"


def _body_overview() -> str:
    rows = []
    for name, choice in PLANTS.items():
        commands = f"{choice.build().n_commands} ({choice.command_unit})"
        rows.append((f"`{name}`", _body_summary(choice.build), commands))
    named = table(("`--plant`", "what it is", "commands"), rows)
    kinds = {"Classes": _subclasses("popsim.plants", AbstractPlant), "Functions": _functions("popsim.plants")}
    intro = f"""The bodies by the names that the command line takes.

{named}

![Bodies after a constant command](bodies.svg){{ .trials }}

Each after 0.2 s of a constant command from rest: a force, torques, or an excitation of 0.3 of the first
muscle. The line is the path of the hand. Lines of muscles of which only moment arms are known are schematic,
see `popsim.analysis.figures.plant_motion`."""
    return _overview("Bodies", docstring_text(intro), kinds)


def _body_summary(build: Any) -> str:
    """Return what the function that builds a body says of it, or the muscle law of a variant of arm26."""
    if not isinstance(build, functools.partial):
        return first_paragraph(build)
    law = build.args[0].__name__
    return f"arm26 with [`{law}`][popsim.muscles.{law}]"


def _muscle_overview() -> str:
    sections = {
        "Muscle laws": _subclasses("popsim.muscles", AbstractMuscle),
        "Activation": _subclasses("popsim.muscles", AbstractActivation),
        "Paths": _subclasses("popsim.muscles.paths", AbstractMusclePath),
        "Published parameters": _functions("popsim.muscles"),
    }
    intro = """What turns excitation into force, and where it pulls.

![Force against length and velocity, by each law](muscle_laws.svg){ .trials }

The first muscle of arm26, whose law is each of those with a rigid tendon. `CompliantTendonHillMuscle` has the
curves of `RigidTendonHillMuscle`.

![Activation by each kind of dynamics](activation.svg){ .trials }

Activation while a weak and a full excitation are on for 0.3 s, from the default time constants."""
    return _overview("Muscles", docstring_text(intro), sections)


def _network_overview() -> str:
    rows = [
        (f"`{name}`", first_paragraph(build), f"{_n_parameters(name):,}", ", ".join(options_of_network(name)))
        for name, build in NETWORKS.items()
    ]
    named = table(("`--network`", "what it is", "numbers that are trained", "options"), rows)
    named += "\n\nThe numbers are those of 64 units with ten inputs and two outputs."
    kinds = {
        "Classes": _subclasses("popsim.networks", AbstractNetwork),
        "Functions": _functions("popsim.networks"),
    }
    drawing = "![Activity after a pulse of input](networks.svg){ .trials }"
    caption = "Eight of 64 units of each, untrained. Their input is 1 in the grey span, else 0."
    intro = f"The networks by the names that the command line takes.\n\n{named}\n\n{drawing}\n\n{caption}"
    return _overview("Networks", intro, kinds)


def _n_parameters(name: str) -> int:
    build = functools.partial(build_network, name, 10, 64, 2, dt=0.01)
    network = eqx.filter_eval_shape(build, key=jax.random.key(0))
    return sum(leaf.size for leaf in jax.tree.leaves(eqx.filter(network, is_parameter(network))))


def _rule_overview() -> str:
    sections = {
        "Updates of the model": _subclasses("popsim.training.rules", AbstractModelUpdate),
        "Gradients": _subclasses("popsim.training", AbstractGradient),
    }
    intro = """What changes weights: rules that follow from activity, and gradients.

![Weights of a unit with two inputs, by each rule](rules.svg){ .trials }

The two weights of a linear unit over 1,500 batches, from three starts (dots). Its inputs are two patterns in
turn (arrows), with noise. By `Hebb` the weights grow without bound, by `AntiHebb` they decay. `Oja` ends at
length 1 along the common direction. `CovarianceHebb` and `DifferentialHebb` follow the difference of the
patterns. A unit that learns by `BCM` ends with a response to one of them."""
    return _overview("Learning rules", docstring_text(intro), sections)
