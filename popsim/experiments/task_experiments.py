"""What experiments on tasks have in common: a task whose arguments are settings, and a trainer with Adam."""

import dataclasses
import functools
import inspect
import re
import types
import typing
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Literal

import equinox as eqx

from popsim._shared.checks import check_non_negative, check_positive, check_positive_int, is_number
from popsim._shared.plain_values import plain_value
from popsim.distributions import AbstractDistribution, Choice, Constant, Uniform
from popsim.experiments.experiment import AbstractExperiment
from popsim.experiments.settings import alternatives, setting, takes_texts
from popsim.networks.registry import check_network_name
from popsim.randomness import seed_key
from popsim.schedules import LAST_BATCH
from popsim.task import AbstractTask
from popsim.training import TaskTrainer, adam, cosine_decay
from popsim.trial import Trial

__all__ = ["AbstractTaskExperiment", "TaskArgument", "TaskDefinition", "task_arguments"]

UNITS = ("seconds", "s^0.5", "m/s", "m", "Hz", "rad", "N s/m", "N/m", "N")
UNIT = "|".join(map(re.escape, sorted(UNITS, key=len, reverse=True)))
IN_UNIT = re.compile(rf"\bin ({UNIT})(?![\w/^])")
"""Where the documentation of an argument names its unit, as in "in seconds"."""
BULLET = re.compile(r"^- (`\w+`(?:, `\w+`)*): (.*(?:\n +.*)*)", re.MULTILINE)
DRAWN = {
    "range": "two numbers are a uniform distribution",
    "pair": "two numbers are a uniform distribution",
    "choice": "each trial draws one of the numbers",
}
"""What is said of a setting whose numbers are drawn in each trial."""
NOT_SETTINGS = ("workspace", "loss", "key")
DrawnBy = Literal["range", "choice", "pair"] | None


@dataclasses.dataclass(frozen=True)
class TaskArgument:
    """An argument of a task, as a setting: its type, a plain default, and what the docstring says of it.

    Each trial draws it from a "range", for which two numbers become a `Uniform`, or a "choice" of numbers; a
    "pair" is a number, or two of them, which the task itself takes.
    """

    name: str
    kind: Any
    default: Any
    help: str = ""
    unit: str = ""
    drawn_by: DrawnBy = None

    def argument(self, value: Any) -> Any:
        """Return what the task takes for a setting."""
        try:
            if self.drawn_by == "choice":
                return Choice(value)
            drawn = Uniform(*value) if self.drawn_by and isinstance(value, tuple) else value
        except ValueError as error:
            raise ValueError(f"`{self.name}`: {error}") from error
        return drawn if self.drawn_by == "range" else value

    @property
    def field(self) -> tuple[str, Any, Any]:
        """The field of an experiment, for `dataclasses.make_dataclass`."""
        metadata = {"help": self.help, "units": (self.unit,) if self.unit else ()}
        return self.name, self.kind, dataclasses.field(default=self.default, metadata=metadata)


def task_arguments(build: Callable[..., Any]) -> tuple[TaskArgument, ...]:
    """Return the arguments of a task whose defaults are plain, or distributions of numbers.

    Those of a class are in the order of its docstring: its fields begin with the inherited ones.
    """
    documented = _documented(inspect.getdoc(build) or "")
    arguments = []
    for name, hint, default in _parameters(build):
        if name not in NOT_SETTINGS and (plain := _as_setting(name, hint, default)) is not None:
            kind, default, drawn_by = plain
            text, unit = documented.get(name, ("", ""))
            help = "; ".join(filter(None, (text, DRAWN.get(drawn_by or ""))))
            arguments.append(TaskArgument(name, kind, default, help, unit, drawn_by))
    order = {name: place for place, name in enumerate(documented)} if inspect.isclass(build) else {}
    return tuple(sorted(arguments, key=lambda argument: order.get(argument.name, len(order))))


def _documented(doc: str) -> dict[str, tuple[str, str]]:
    """Return the text and the unit of each argument in the section **Arguments** of a docstring."""
    section = doc.partition("**Arguments:**")[2].partition("\n\n**")[0]
    texts = {}
    for names, entry in BULLET.findall(section):
        text = " ".join(entry.split()).rstrip(".")
        unit = found[1].replace("seconds", "s") if (found := IN_UNIT.search(text)) else ""
        texts |= dict.fromkeys(re.findall(r"\w+", names), (text, unit))
    return texts


def _parameters(build: Callable[..., Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yield name, annotation and default of each argument that has a default."""
    hints = typing.get_type_hints(build)  # of a class those of its fields, before they are converted
    kind: Any = build
    fields = {field.name: field for field in dataclasses.fields(kind)} if inspect.isclass(build) else {}
    for name, parameter in inspect.signature(build).parameters.items():
        factory = getattr(fields.get(name), "default_factory", dataclasses.MISSING)
        default = parameter.default if factory is dataclasses.MISSING else factory()
        if default is not parameter.empty:
            yield name, hints.get(name, Any), default


def _as_setting(name: str, hint: Any, default: Any) -> tuple[Any, Any, DrawnBy] | None:
    """Return the type and the plain default of a setting, and how it is drawn; None if it is none."""
    kinds, drawn_by, kind = alternatives(hint), None, hint if takes_texts(hint) else None
    if any(isinstance(own, type) and issubclass(own, AbstractDistribution) for own in kinds):
        drawn_by = "range"
    elif {float, tuple[float, float]} <= {*kinds}:
        drawn_by = "pair"
    match default:
        case Choice():
            default, drawn_by, kind = default.values, "choice", tuple[float, ...]
        case Uniform():
            default, drawn_by = (default.low, default.high), "range"
        case Constant():
            default, drawn_by = default.value, "range"
        case AbstractDistribution():
            return None
    if drawn_by in ("range", "choice"):
        default = plain_value(name, default)
        kind = float | tuple[float, float] if drawn_by == "range" else kind
    if isinstance(default, tuple):
        is_setting = bool(default) and all(map(is_number, default))
    else:
        is_setting = is_number(default) or drawn_by != "range" and isinstance(default, bool | str)
        is_setting |= default is None and drawn_by != "range" and kind is not None
    kind = kind or (tuple[float, ...] if isinstance(default, tuple) else type(default))
    return (kind, default, drawn_by) if is_setting else None


@dataclasses.dataclass(frozen=True)
class TaskDefinition:
    """A registered task: what `TASKS` holds, and its arguments that are settings."""

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

    def trial_shapes(self, settings: Any) -> Trial:
        """Return the shapes of a trial; raise `ValueError` unless the settings are those of a task."""
        return _trial_shapes(self, tuple(getattr(settings, argument.name) for argument in self.arguments))


@functools.lru_cache(maxsize=256)
def _trial_shapes(definition: TaskDefinition, values: tuple[Any, ...]) -> Trial:
    """Return the shapes of a training trial for some arguments, which do not depend on the workspace."""
    names = [argument.name for argument in definition.arguments]
    task = definition.make(types.SimpleNamespace(**dict(zip(names, values, strict=True))))
    return eqx.filter_eval_shape(lambda: task.trial(batch=LAST_BATCH, key=seed_key(0)))


@dataclasses.dataclass(frozen=True)
class AbstractTaskExperiment(AbstractExperiment):
    """Networks that are trained by Adam on a task, by default one of `TASKS` with its default loss."""

    definition: ClassVar[TaskDefinition]

    network: str | None = setting(
        None,
        "the kind of network, one that `popsim list` shows; by default gru or tanh, whichever learns the "
        "task faster",
    )
    n_units: int = setting(64, "units per network")
    learning_rate: float = setting(5e-3, "initial learning rate of Adam")
    learning_rate_course: Literal["cosine", "constant"] = setting(
        "cosine", "whether the learning rate decays to zero by a cosine, or is constant"
    )
    hidden_noise: float | None = setting(
        None,
        "noise on the units of the network, which range from -1 to 1; by default 0, with muscles 0.01",
    )

    def __post_init__(self):
        super().__post_init__()
        check_network_name(self.effective_value("network"))
        check_positive_int("n_units", self.n_units)
        check_positive("learning_rate", self.learning_rate)
        check_non_negative("hidden_noise", self.effective_value("hidden_noise"))

    def effective_value(self, name: str) -> Any:
        value = getattr(self, name)
        return 0.0 if value is None and name == "hidden_noise" else value

    def build_trainer(self, **options: Any) -> TaskTrainer:
        rate = self.per_member("learning_rate")
        if self.learning_rate_course == "cosine":
            rate = cosine_decay(rate, self.n_batches)
        return TaskTrainer(adam(rate, clip_norm=1.0), **options)

    def where_train(self, model: Any) -> Any:
        return model.network
