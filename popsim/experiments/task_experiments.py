"""Experiments on any task by name, whose arguments are settings."""

import contextlib
import dataclasses
import functools
import inspect
import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Literal

import equinox as eqx

from popsim import interventions
from popsim._shared.checks import is_number, kind_of
from popsim._shared.plain_values import plain_value
from popsim.distributions import AbstractDistribution, Choice, Constant, Uniform
from popsim.experiments.experiment import AbstractExperiment, build_adam_trainer
from popsim.experiments.motor_experiment import MODEL_SETTINGS, AbstractMotorExperiment
from popsim.experiments.movement_results import movement_table, summarize_movements
from popsim.experiments.network_experiment import AbstractNetworkExperiment, Criterion
from popsim.experiments.results import ResultTable, RunFigure
from popsim.experiments.settings import alternatives, setting, takes_texts
from popsim.hand import HandState
from popsim.interventions import AbstractIntervention
from popsim.randomness import seed_key
from popsim.schedules import LAST_BATCH
from popsim.task import AbstractTask
from popsim.tasks.library import TASKS, MotorTask, task_definition
from popsim.training import TaskTrainer
from popsim.trial import Trial

__all__ = ["TaskArgument", "TaskDefinition", "task_arguments", "task_experiment"]

INTERVENTIONS: Mapping[str, AbstractIntervention] = {
    kind.name: kind
    for kind in (
        interventions.CurlField(),
        interventions.ConstantForce(),
        interventions.ViscousField(),
        interventions.ForceChannel(),
        interventions.JointTorque(),
        interventions.CursorRotation(),
        interventions.CursorGain(),
        interventions.CursorShift(),
    )
}
"""The interventions that the trials of a motor task may schedule, by name."""
DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    name: {"n_batches": 1300, "learning_rate_course": "constant"}  # all phases, each learned at one rate
    for name in ("force-field-adaptation", "visuomotor-rotation")
}
"""Defaults of the settings of experiments that differ from those of other tasks."""

UNITS = ("seconds", "s^0.5", "m/s", "m", "Hz", "rad", "N s/m", "N/m", "N")
"""The units that docstrings of tasks name, as in "in seconds"."""
UNIT = "|".join(map(re.escape, sorted(UNITS, key=len, reverse=True)))
IN_UNITS = re.compile(rf"\bin ({UNIT})(?: and ({UNIT}))?(?![\w/^])")
BULLET = re.compile(r"^- ((?:`\w+`(?:, )?)+): (.*)")
MEANINGS = {
    "range": "two numbers are a uniform distribution",
    "pair": "two numbers are a uniform distribution",
    "choice": "each trial draws one of the numbers",
}
OF_TWO = re.compile(r"(the .+?) and (the .+?)(, in .*)?$")  # what is said of two arguments at once
NOT_SETTINGS = ("workspace", "loss", "key")


@dataclasses.dataclass(frozen=True)
class TaskArgument:
    """An argument of a task, as a setting: its type, a plain default, and what the docstring says of it.

    Each trial draws it from a "range", for which two numbers become a `Uniform`, or a "choice" of numbers; a
    "pair" is a number, or two of them, as they are.
    """

    name: str
    kind: Any
    default: Any
    help: str = ""
    unit: str = ""
    drawn_by: Literal["range", "choice", "pair"] | None = None

    def check(self, value: Any) -> None:
        """Raise `ValueError` unless the numbers of a setting are those of a distribution."""
        numbers = value if isinstance(value, tuple) else (value,)
        if self.drawn_by is None or (numbers if self.drawn_by == "choice" else numbers[0] <= numbers[-1]):
            return
        some = "numbers" if self.drawn_by == "choice" else "a number, or two in order"
        raise ValueError(f"`{self.name}` must be {some}; {MEANINGS[self.drawn_by]}, got {value!r:.100}.")

    def argument(self, value: Any) -> Any:
        """Return what the task takes for a setting."""
        if self.drawn_by == "choice":
            return Choice(value)
        return Uniform(*value) if self.drawn_by == "range" and isinstance(value, tuple) else value


def task_arguments(build: Callable[..., Any]) -> tuple[TaskArgument, ...]:
    """Return the arguments of a task whose defaults are plain, or distributions of numbers.

    Those of a class are in the order of its docstring: its fields begin with the inherited ones.
    """
    texts = dict(_documented(inspect.getdoc(build) or ""))
    arguments = []
    for name, hint, default in _parameters(build):
        text, unit = texts.get(name, ("", ""))
        argument = _argument(name, hint, default)
        if name not in NOT_SETTINGS and argument is not None:
            parts = (text, MEANINGS.get(argument.drawn_by or "", ""))
            arguments.append(dataclasses.replace(argument, help="; ".join(filter(None, parts)), unit=unit))
    order = {name: place for place, name in enumerate(texts)} if inspect.isclass(build) else {}
    return tuple(sorted(arguments, key=lambda argument: order.get(argument.name, len(order))))


def _parameters(build: Callable[..., Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yield name, annotation and default of each argument that has a default."""
    hints = typing.get_type_hints(build)  # of a class those of its fields, before they are converted
    kind: Any = build
    fields = {field.name: field for field in dataclasses.fields(kind)} if inspect.isclass(build) else {}
    for name, parameter in inspect.signature(build).parameters.items():
        default = parameter.default
        factory = getattr(fields.get(name), "default_factory", dataclasses.MISSING)
        if factory is not dataclasses.MISSING:
            default = factory()
        if default is not parameter.empty:
            yield name, hints.get(name, Any), default


def _argument(name: str, hint: Any, default: Any) -> TaskArgument | None:
    """Return an argument without its documentation; None if it is no setting."""
    kinds = alternatives(hint)
    if isinstance(default, AbstractDistribution) or any(
        isinstance(kind, type) and issubclass(kind, AbstractDistribution) for kind in kinds
    ):
        return _drawn_argument(name, default)
    is_plain = takes_texts(hint)
    if isinstance(default, tuple) and default and all(map(is_number, default)):
        kind = hint if is_plain else tuple[float, ...]
    elif isinstance(default, bool | int | float | str) or default is None and is_plain:
        kind = hint if is_plain else type(default)
    else:
        return None
    is_pair = {float, tuple[float, float]} <= {*kinds}
    return TaskArgument(name, kind, default, drawn_by="pair" if is_pair else None)


def _drawn_argument(name: str, default: Any) -> TaskArgument | None:
    """Return an argument that each trial draws, if its default has plain numbers."""
    kind = float | tuple[float, float]
    if isinstance(default, Constant):
        default = default.value
    if isinstance(default, Uniform):
        default = (default.low, default.high)
    drawn_by: Literal["range", "choice"] = "choice" if isinstance(default, Choice) else "range"
    if isinstance(default, Choice):
        kind, default = tuple[float, ...], default.values
    if isinstance(default, AbstractDistribution):
        return None
    value = plain_value(name, default)
    numbers = value if isinstance(value, tuple) else (value,)
    return TaskArgument(name, kind, value, drawn_by=drawn_by) if all(map(is_number, numbers)) else None


def _documented(doc: str) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the name, the text and the unit of each argument in the section **Arguments** of a docstring."""
    section = doc.partition("**Arguments:**")[2].partition("\n\n**")[0]
    entries: list[tuple[list[str], str]] = []
    for line in section.splitlines():
        if bullet := BULLET.match(line):
            entries.append((re.findall(r"`(\w+)`", bullet[1]), bullet[2]))
        elif line.startswith(" ") and entries:
            names, text = entries[-1]
            entries[-1] = names, f"{text} {line.strip()}"
        elif line and entries:
            break
    for names, text in entries:
        named = IN_UNITS.search(text)
        units = [unit.replace("seconds", "s") for unit in named.groups() if unit] if named else [""]
        parts = OF_TWO.fullmatch(text.rstrip(".")) if len(names) == 2 else None
        for place, name in enumerate(names):
            own = f"{parts[1 + place]}{parts[3] or ''}" if parts else text.rstrip(".")
            yield name, (own, units[min(place, len(units) - 1)])


@dataclasses.dataclass(frozen=True)
class TaskDefinition:
    """A registered task: its name, what `TASKS` holds, and its arguments that are settings."""

    name: str
    build: Callable[..., AbstractTask]
    arguments: tuple[TaskArgument, ...]

    def make(self, settings: Any, **further: Any) -> AbstractTask:
        """Build the task with those of its arguments that an experiment sets to other than the default."""
        changed = {
            argument.name: argument.argument(value)
            for argument in self.arguments
            if (value := getattr(settings, argument.name)) != argument.default
        }
        return self.build(**further, **changed)

    def is_default(self, settings: Any) -> bool:
        """Whether all arguments have their default."""
        return all(getattr(settings, argument.name) == argument.default for argument in self.arguments)

    def checked_trial(self, settings: Any) -> Trial:
        """Return the shapes of a trial; raise `ValueError` unless the arguments can be those of the task."""
        for argument in self.arguments:
            argument.check(getattr(settings, argument.name))
        values = tuple(getattr(settings, argument.name) for argument in self.arguments)
        try:
            return _outline(self, values)
        except ValueError as error:
            named = re.match(r"`(\w+)`", str(error))
            if named and hasattr(settings, named[1]) or not (name := self._cause(values)):
                raise
            raise ValueError(f"`{name}` must fit the task: {error}") from error

    def _cause(self, values: tuple[Any, ...]) -> str:
        """Return the argument without whose value the task can be made; empty if there is none."""
        for place, argument in enumerate(self.arguments):
            with contextlib.suppress(ValueError):
                _outline(self, (*values[:place], argument.default, *values[place + 1 :]))
                return argument.name
        return ""


@functools.lru_cache(maxsize=256)
def _outline(definition: TaskDefinition, values: tuple[Any, ...]) -> Trial:
    """Return the shapes of a training trial for some arguments, which do not depend on the workspace."""
    names = [argument.name for argument in definition.arguments]
    task = definition.make(types.SimpleNamespace(**dict(zip(names, values, strict=True))))
    return eqx.filter_eval_shape(lambda: task.trial(batch=LAST_BATCH, key=seed_key(0)))


@dataclasses.dataclass(frozen=True)
class AbstractTaskExperiment(AbstractExperiment):
    """An experiment on a registered task, with its default loss."""

    definition: ClassVar[TaskDefinition]

    learning_rate_course: Literal["cosine", "constant"] = setting(
        "cosine", "whether it decays to zero by a cosine, or is constant"
    )

    def build_trainer(self, **options: Any) -> TaskTrainer:
        return build_adam_trainer(self, decays=self.learning_rate_course == "cosine", **options)


@dataclasses.dataclass(frozen=True)
class AbstractMotorTaskExperiment(AbstractTaskExperiment, AbstractMotorExperiment):
    """Networks that control a body in a motor task."""

    member_settings = {"learning_rate": "trainer", **dict.fromkeys(MODEL_SETTINGS, "model")}

    def __post_init__(self):
        super().__post_init__()
        trial = self.definition.checked_trial(self)
        if not isinstance(trial.targets, HandState):
            raise ValueError(
                f"`targets` of the trials of {self.name} must be a HandState, as it has a workspace, "
                f"got {kind_of(trial.targets)}."
            )
        if unknown := sorted(set(trial.interventions) - set(INTERVENTIONS)):
            raise ValueError(
                f"the interventions of {self.name} must be among {', '.join(INTERVENTIONS)}, got "
                f"{', '.join(unknown)}: an experiment of your own can hold others."
            )
        self.check_body()

    @property
    def times(self) -> tuple[float, float]:
        timeline = self.definition.checked_trial(self).timeline
        return timeline.n_steps * timeline.dt, timeline.dt

    @property
    def interventions(self) -> tuple[AbstractIntervention, ...]:
        names = self.definition.checked_trial(self).interventions
        return tuple(kind for name, kind in INTERVENTIONS.items() if name in names)

    def build_task(self) -> AbstractTask:
        return self.definition.make(self, workspace=self.build_plant().workspace)

    def summarize(self, ensemble: Any) -> dict[str, Any]:
        return summarize_movements(self, ensemble)

    def table(self, summary: dict[str, Any]) -> ResultTable:
        return movement_table(summary)

    def draw_figures(self, run: Any) -> dict[str, RunFigure]:
        from popsim.experiments.run_figures import draw_movement_figures  # which loads matplotlib

        return draw_movement_figures(run)


@dataclasses.dataclass(frozen=True)
class AbstractNetworkTaskExperiment(AbstractTaskExperiment, AbstractNetworkExperiment):
    """Networks without a body in a task."""

    def __post_init__(self):
        super().__post_init__()
        self.definition.checked_trial(self)

    @property
    def preset(self) -> tuple[str, Criterion | None]:
        """Those of `Cognitive` for tasks of popsim; the criterion is for the default arguments."""
        if not self.definition.build.__module__.startswith("popsim."):
            return "gru", None
        network, criterion = super().preset
        return network, criterion if self.definition.is_default(self) else None

    def build_task(self) -> AbstractTask:
        return self.definition.make(self)


def task_experiment(name: str) -> type[AbstractExperiment]:
    """Return the experiment on a task of `TASKS`, always the same class, with the task's arguments."""
    return _task_experiment(name, TASKS[name])


@functools.cache
def _task_experiment(name: str, build: Callable[..., AbstractTask]) -> type[AbstractExperiment]:
    is_motor = isinstance(build, MotorTask)
    base = AbstractMotorTaskExperiment if is_motor else AbstractNetworkTaskExperiment
    written = task_definition(name)
    arguments = task_arguments(written)
    taken = [
        argument.name for argument in arguments if argument.name == "name" or hasattr(base, argument.name)
    ]
    if taken:
        raise ValueError(
            f"the arguments of the task {name!r} must have names of their own, got {', '.join(taken)}, which "
            "every experiment has."
        )
    of_library = written.__module__.startswith("popsim.")
    summary = (written.__doc__ or "").strip().partition("\n")[0]
    kind = dataclasses.make_dataclass(
        "".join(word.capitalize() for word in name.split("-")),
        _fields(name, base, arguments),
        bases=(base,),
        namespace={
            "__doc__": f"{summary}\n\n`popsim show-task {name}` shows its trials.",
            "name": name,
            "definition": TaskDefinition(name, build, arguments),
        },
        frozen=True,
    )
    kind.__module__ = __name__ if of_library else written.__module__  # which `--import` names
    return kind


def _fields(
    name: str, base: type[AbstractExperiment], arguments: tuple[TaskArgument, ...]
) -> list[tuple[str, Any, Any]]:
    """Return the fields that an experiment adds to its base, with what they are for as `help`."""
    of_base = {field.name: field for field in dataclasses.fields(base)}
    others = [
        (each, of_base[each].type, dataclasses.field(default=value, metadata=of_base[each].metadata))
        for each, value in DEFAULTS.get(name, {}).items()
    ]
    return others + [
        (
            argument.name,
            argument.kind,
            dataclasses.field(
                default=argument.default,
                metadata={"help": argument.help, "units": (argument.unit,) if argument.unit else ()},
            ),
        )
        for argument in arguments
    ]
