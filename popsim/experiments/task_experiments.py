"""What experiments on tasks have in common: a task whose arguments are settings, and a trainer with Adam."""

import dataclasses
import functools
import inspect
import re
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

__all__ = ["AbstractTaskExperiment", "task_fields"]

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
"""How each trial draws an argument: from a "range", for which two numbers become a `Uniform`, or a "choice"
of numbers; a "pair" is a number, or two of them, which the task itself takes."""


def task_fields(build: Callable[..., Any]) -> list[tuple[str, Any, Any]]:
    """Return the arguments of a task that are settings, as fields for `dataclasses.make_dataclass`.

    They are those whose defaults are plain, or distributions of numbers; those of a class are in the order of
    its docstring, as its fields begin with the inherited ones. Their metadata has `drawn_by` besides what
    `setting` writes there.
    """
    documented = _documented(inspect.getdoc(build) or "")
    fields = []
    for name, hint, default in _parameters(build):
        if name not in NOT_SETTINGS and (plain := _as_setting(name, hint, default)) is not None:
            kind, default, drawn_by = plain
            text, units = documented.get(name, ("", ()))
            help = "; ".join(filter(None, (text, DRAWN.get(drawn_by or ""))))
            metadata = {"help": help, "units": units, "drawn_by": drawn_by}
            fields.append((name, kind, dataclasses.field(default=default, metadata=metadata)))
    order = {name: place for place, name in enumerate(documented)} if inspect.isclass(build) else {}
    return sorted(fields, key=lambda field: order.get(field[0], len(order)))


def _documented(doc: str) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return the text and the units of each argument in the section **Arguments** of a docstring."""
    section = doc.partition("**Arguments:**")[2].partition("\n\n**")[0]
    texts = {}
    for names, entry in BULLET.findall(section):
        text = " ".join(entry.split()).rstrip(".")
        units = (found[1].replace("seconds", "s"),) if (found := IN_UNIT.search(text)) else ()
        texts |= dict.fromkeys(re.findall(r"\w+", names), (text, units))
    return texts


def _parameters(build: Callable[..., Any]) -> Iterator[tuple[str, Any, Any]]:
    hints = typing.get_type_hints(build)  # of a class those of its fields, before they are converted
    fields: Any = getattr(build, "__dataclass_fields__", {})
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
        is_setting, kind = default != () and all(map(is_number, default)), kind or tuple[float, ...]
    else:
        is_plain = isinstance(default, bool | str) or default is None and kind is not None
        is_setting, kind = is_number(default) or drawn_by != "range" and is_plain, kind or type(default)
    return (kind, default, drawn_by) if is_setting else None


Argument = tuple[str, Any, DrawnBy]
"""An argument of a task that is not its default: the name, the value as a setting, and how it is drawn."""


def _as_argument(name: str, value: Any, drawn_by: DrawnBy) -> Any:
    try:
        drawn = Choice(value) if drawn_by == "choice" else value
        if drawn_by in ("range", "pair") and isinstance(value, tuple):
            uniform = Uniform(*value)  # which checks the bounds of a pair, too
            drawn = uniform if drawn_by == "range" else value
    except ValueError as error:
        raise ValueError(f"`{name}`: {error}") from error
    return drawn


def _make_task(build: Callable[..., AbstractTask], arguments: tuple[Argument, ...], **further: Any) -> Any:
    """Build a task with some arguments that are settings, and further ones as it takes them."""
    return build(**further, **{argument[0]: _as_argument(*argument) for argument in arguments})


@functools.lru_cache(maxsize=256)
def _trial_shapes(build: Callable[..., AbstractTask], arguments: tuple[Argument, ...]) -> Trial:
    """Return the shapes of a training trial for some arguments, which do not depend on the workspace."""
    task = _make_task(build, arguments)
    return eqx.filter_eval_shape(lambda: task.trial(batch=LAST_BATCH, key=seed_key(0)))


@dataclasses.dataclass(frozen=True)
class AbstractTaskExperiment(AbstractExperiment):
    """Networks that are trained by Adam on a task, by default one of `TASKS` with its default loss.

    `definition` builds the task from those fields that are its arguments, see `task_fields`.
    """

    definition: ClassVar[Callable[..., AbstractTask]]

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
        "noise on the units of the network, which range from -1 to 1; by default 0, and 0.01 for a body with "
        "muscles",
    )

    def __post_init__(self):
        super().__post_init__()
        check_network_name(self.effective_value("network"))
        check_positive_int("n_units", self.n_units)
        check_positive("learning_rate", self.learning_rate)
        check_non_negative("hidden_noise", self.effective_value("hidden_noise"))

    @property
    def changed_arguments(self) -> tuple[Argument, ...]:
        """The arguments of the task that do not have their default."""
        return tuple(
            (field.name, value, field.metadata["drawn_by"])
            for field in dataclasses.fields(self)
            if "drawn_by" in field.metadata and (value := getattr(self, field.name)) != field.default
        )

    @property
    def trial_shapes(self) -> Trial:
        """The shapes of a trial; raises `ValueError` unless the settings are those of a task."""
        return _trial_shapes(self.definition, self.changed_arguments)

    def make_task(self, **further: Any) -> AbstractTask:
        """Build the task, which `further` gives what is no setting."""
        return _make_task(self.definition, self.changed_arguments, **further)

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
