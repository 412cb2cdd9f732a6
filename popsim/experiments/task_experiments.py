"""Experiments on any task by name, whose arguments are settings."""

import contextlib
import dataclasses
import functools
import re
import types
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal

import equinox as eqx

from popsim import interventions
from popsim._shared.checks import kind_of
from popsim.experiments.experiment import AbstractExperiment, build_adam_trainer
from popsim.experiments.motor_experiment import MODEL_SETTINGS, AbstractMotorExperiment
from popsim.experiments.movement_results import movement_table, summarize_movements
from popsim.experiments.network_experiment import LEARNED, AbstractNetworkExperiment, Criterion
from popsim.experiments.results import ResultTable, RunFigure
from popsim.experiments.settings import setting
from popsim.experiments.task_arguments import TaskArgument, task_arguments
from popsim.hand import HandState
from popsim.interventions import AbstractIntervention
from popsim.randomness import seed_key
from popsim.schedules import LAST_BATCH
from popsim.task import AbstractTask
from popsim.tasks.library import TASKS, MotorTask, task_definition
from popsim.training import TaskTrainer
from popsim.trial import Trial

__all__ = ["TaskDefinition", "task_experiment"]

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
    """Return a training trial of a task with some values of its arguments, of which only shapes are computed.

    A motor task is built in the workspace of a two-link arm, on which shapes and times do not depend.
    """
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
        self.check_choices()
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
        self.check_senses()

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
        from popsim.experiments.task_figures import draw_movement_figures  # which loads matplotlib

        return draw_movement_figures(run)


@dataclasses.dataclass(frozen=True)
class AbstractNetworkTaskExperiment(AbstractTaskExperiment, AbstractNetworkExperiment):
    """Networks without a body in a task."""

    def __post_init__(self):
        super().__post_init__()
        self.check_network()
        self.definition.checked_trial(self)

    @property
    def default_network(self) -> str:
        return LEARNED[self.name][0] if self._is_cognitive else "gru"

    @property
    def _is_cognitive(self) -> bool:
        """Whether the task is one of `Cognitive`, and not one of a user with the same name."""
        return self.name in LEARNED and self.definition.build.__module__.startswith("popsim.")

    @property
    def task_name(self) -> str:
        return self.name

    @property
    def criterion(self) -> Criterion | None:
        """The criterion of `Cognitive`, which is for the default arguments of the task."""
        has_one = self._is_cognitive and self.definition.is_default(self)
        return LEARNED[self.name][1] if has_one else None

    def build_task(self) -> AbstractTask:
        return self.definition.make(self)


def task_experiment(name: str) -> type[AbstractExperiment]:
    """Return the experiment on a task of `TASKS`: its settings are those of all, and the task's arguments.

    It is made when it is first needed, and is the same class afterwards.
    """
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
    kind = dataclasses.make_dataclass(
        "".join(word.capitalize() for word in name.split("-")),
        _fields(name, base, arguments),
        bases=(base,),
        namespace={
            "__doc__": _summary(name, written),
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


def _summary(name: str, written: Callable[..., AbstractTask]) -> str:
    """Return the docstring of an experiment: what the task says of itself in a line."""
    text = (written.__doc__ or "").strip().partition("\n")[0]
    return f"{text}\n\n`popsim show-task {name}` shows its trials."
