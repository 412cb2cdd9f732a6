"""Descriptions of tasks: their signals, epochs, events and conditions."""

import dataclasses
import inspect
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree, Shaped

from popsim._compiled import jit
from popsim._shared.checks import check_positive_int
from popsim._shared.other_draws import refuse_other_draws
from popsim._shared.text_checks import align
from popsim.environment import AbstractEnvironment
from popsim.per_member import check_of_one_member
from popsim.randomness import key_stream, seed_key
from popsim.schedules import LAST_BATCH
from popsim.trial import InterventionSchedule, Trial, n_trials

__all__ = ["EnvironmentDescription", "TaskDescription", "describe_task", "sample_trials"]

Row = tuple[str, ...]

N_DRAWN = 200
MOST_VALUES = 12


@dataclasses.dataclass(frozen=True)
class Spread:
    """The lowest, the mean and the highest of the drawn numbers."""

    low: float
    mean: float
    high: float

    def __str__(self) -> str:
        if self.low == self.high:
            return _number(self.low)
        return f"{_number(self.low)} / {_number(self.mean)} / {_number(self.high)}"


@dataclasses.dataclass(frozen=True)
class SignalDescription:
    """An input, a target, a recording or a condition: its shape, and its lowest and highest drawn number.

    `values` are those of a condition, without NaN; None if there are more than twelve.
    """

    name: str
    shape: tuple[int, ...]
    low: float
    high: float
    values: tuple[float | bool, ...] | None = None


@dataclasses.dataclass(frozen=True)
class TimeDescription:
    """An epoch or an event (without length): the fraction of trials with it, its start and length in s."""

    name: str
    fraction: float
    start: Spread | None
    length: Spread | None = None


@dataclasses.dataclass(frozen=True)
class InterventionDescription:
    """An intervention: the fraction of trials in which it acts, for how long (s), ranges of parameters."""

    name: str
    fraction: float
    active: Spread | None
    parameters: dict[str, tuple[float, float]]


@dataclasses.dataclass(frozen=True)
class EnvironmentDescription:
    """The environment of the trials of a task.

    - `name`: its class.
    - `actions`: the actions that it takes, such as "Discrete(n=2)".
    - `shows`: how many numbers it shows at a time step, by name.
    """

    name: str
    actions: str
    shows: dict[str, int]


@dataclasses.dataclass(frozen=True)
class TaskDescription:
    """A description of a task, made by `AbstractTask.describe`. `str` formats it as a table.

    - `name`, `summary`: as returned by `named_task`.
    - `dt`, `n_steps`: the time step in seconds, and the number of time steps of a trial.
    - `n_drawn`, `n_validation_trials`: the number of drawn trials described, and of validation trials.
    - `environment`: the environment of the trials; None without one.
    - `recordings`: the recorded activity that units should have.
    """

    name: str
    summary: str
    dt: float
    n_steps: int
    n_drawn: int
    n_validation_trials: int
    inputs: tuple[SignalDescription, ...]
    targets: tuple[SignalDescription, ...]
    epochs: tuple[TimeDescription, ...]
    events: tuple[TimeDescription, ...]
    conditions: tuple[SignalDescription, ...]
    interventions: tuple[InterventionDescription, ...]
    environment: EnvironmentDescription | None = None
    recordings: tuple[SignalDescription, ...] = ()

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        lines = [f"{self.name}: {self.summary}" if self.summary else self.name]
        lines += [
            f"{self.n_steps} steps of {_number(self.dt)} s make a trial of "
            f"{_number(self.n_steps * self.dt)} s. {self.n_validation_trials} trials validate. "
            f"Below are {self.n_drawn} drawn trials; three numbers are the lowest, the mean and the highest."
        ]
        rows: list[Row] = []
        for title, *others in self.sections():
            if others:
                rows += [("",), title, *((f"  {name}", *cells) for name, *cells in others)]
        return "\n".join([*lines, *align(rows, gap=3)])

    def sections(self) -> Iterator[list[Row]]:
        """Yield the sections of the table; the first row holds its title and the column titles."""
        kinds = {"inputs": self.inputs, "targets": self.targets, "recordings": self.recordings}
        for title, signals in kinds.items():
            rows = [(each.name, _shape(each.shape), _range(each.low, each.high)) for each in signals]
            yield [(title, "at a step", "range"), *rows]
        epochs = [(e.name, _percent(e.fraction), _or_dash(e.start), _or_dash(e.length)) for e in self.epochs]
        yield [("epochs", "in trials", "start (s)", "length (s)"), *epochs]
        events = [(e.name, _percent(e.fraction), _or_dash(e.start)) for e in self.events]
        yield [("events", "in trials", "at (s)"), *events]
        conditions = [(c.name, _shape(c.shape), _values(c)) for c in self.conditions]
        yield [("conditions", "in a trial", "values"), *conditions]
        interventions = [
            (i.name, _percent(i.fraction), _or_dash(i.active), _parameters(i)) for i in self.interventions
        ]
        yield [("interventions", "in trials", "active (s)", "parameters"), *interventions]
        environment: list[Row] = []
        if self.environment is not None:
            shown = [(name, "shown", f"{size}") for name, size in self.environment.shows.items()]
            environment = [(self.environment.name, "takes", self.environment.actions), *sorted(shown)]
        yield [("environment", "", "at a step"), *environment]


def innermost_task(task: Any) -> Any:
    """Return the task inside all wrappers, which hold it as `task`."""
    inner = getattr(task, "task", None)
    return innermost_task(inner) if _is_task(inner) else task


def _is_task(value: Any) -> bool:
    # The base class of tasks imports this module.
    return hasattr(value, "trial") and hasattr(value, "validation_trials")


def named_task(task: Any) -> tuple[str, str]:
    """Return the name of a task, and its summary: the first docstring line of the innermost task.

    A task is named by its class. A wrapper adds the names of its interventions, as in "CenterOutReaches with
    curl field", or its class, as in "HeldOutConditions of CenterOutReaches".
    """
    inner = getattr(task, "task", None)
    if not _is_task(inner):
        summary = (inspect.getdoc(type(task)) or "").partition("\n")[0]
        name = type(task).__name__
        return name, "" if summary.startswith(f"{name}(") else summary  # the docstring that Equinox generates
    name, summary = named_task(inner)
    added = sorted(_intervention_names(task) - _intervention_names(inner))
    return f"{name} with {', '.join(added)}" if added else f"{type(task).__name__} of {name}", summary


def _intervention_names(task: Any) -> set[str]:
    return set(jax.eval_shape(lambda: task.trial(batch=LAST_BATCH, key=seed_key(0))).interventions)


def describe_task(task: Any, *, batch: int = LAST_BATCH) -> TaskDescription:
    """Describe a task from 200 training trials, which are the same at every call.

    **Arguments:**

    - `task`: the task of one member.
    - `batch`: the number of the training batch whose trials are drawn; by default one after the end of all
        schedules.
    """
    check_of_one_member("task", task)
    trials = jax.tree.map(np.asarray, sample_trials(task, N_DRAWN, batch=batch, key=seed_key(0)))
    timeline, dt = trials.timeline, trials.timeline.dt
    name, summary = named_task(task)
    lengths = {name: bounds[:, 1] - bounds[:, 0] for name, bounds in timeline.epochs.items()}
    epochs = [
        _time(name, bounds[:, 0], lengths[name] > 0, dt, lengths[name])
        for name, bounds in timeline.epochs.items()
    ]
    events = [_time(name, at, at < timeline.n_steps, dt) for name, at in timeline.events.items()]
    return TaskDescription(
        name=name,
        summary=summary,
        dt=dt,
        n_steps=timeline.n_steps,
        n_drawn=N_DRAWN,
        n_validation_trials=n_trials(task.validation_trials()),
        inputs=_signals(trials.inputs, "inputs"),
        targets=_signals(trials.targets, "targets"),
        epochs=_in_order(epochs),
        events=_in_order(events),
        conditions=tuple(_condition(name, labels) for name, labels in trials.conditions.items()),
        interventions=tuple(_intervention(name, each, dt) for name, each in trials.interventions.items()),
        environment=_environment(trials.environment),
        recordings=_signals({name: each.values for name, each in trials.recordings.items()}, "recordings"),
    )


@jit
def sample_trials(task: Any, n_trials: int, *, batch: int | Int[Array, ""], key: PRNGKeyArray) -> Trial:
    """Draw stacked training trials of one batch, including catch trials.

    **Arguments:**

    - `task`: the task of one member.
    - `n_trials`: the number of trials.
    - `batch`: the number of the training batch, for tasks that change during training.
    - `key`: the random key; trial i depends only on `key` and i.
    """
    check_positive_int("n_trials", n_trials)
    keys = jax.vmap(jax.random.fold_in, (None, 0))(key_stream(key, "specification"), np.arange(n_trials))
    with refuse_other_draws("`trial` of `task`", task.trial):
        return jax.vmap(lambda trial_key: task.trial(batch=batch, key=trial_key))(keys)


def _signals(tree: PyTree[Shaped[np.ndarray, "..."]], alone: str) -> tuple[SignalDescription, ...]:
    leaves = [(_name(path) or alone, leaf) for path, leaf in jax.tree.leaves_with_path(tree) if leaf.size]
    return tuple(SignalDescription(name, leaf.shape[2:], *_ends(leaf)) for name, leaf in leaves)


def _name(path: Any) -> str:
    return jax.tree_util.keystr(path, simple=True, separator=" ")


def _ends(numbers: Shaped[np.ndarray, "..."]) -> tuple[float, float]:
    return float(numbers.min()), float(numbers.max())


def _time(name: str, starts: Any, occurs: Any, dt: float, lengths: Any = None) -> TimeDescription:
    """Describe an epoch or an event by its steps in each trial, and whether it occurs there."""
    length = None if lengths is None else _spread(dt * lengths[occurs])
    return TimeDescription(name, float(occurs.mean()), _spread(dt * starts[occurs]), length)


def _in_order(times: list[TimeDescription]) -> tuple[TimeDescription, ...]:
    """Sort by mean start; those that never happened are last."""
    return tuple(sorted(times, key=lambda time: np.inf if time.start is None else time.start.mean))


def _condition(name: str, labels: Shaped[np.ndarray, "trial ..."]) -> SignalDescription:
    distinct = np.unique(labels[~np.isnan(labels)])
    values = tuple(distinct.tolist()) if distinct.size <= MOST_VALUES else None
    low, high = _ends(distinct) if distinct.size else (np.nan, np.nan)
    return SignalDescription(name, labels.shape[1:], low, high, values)


def _intervention(name: str, schedule: InterventionSchedule, dt: float) -> InterventionDescription:
    active = np.asarray(schedule.active)
    acts = active.any(axis=1)
    leaves = jax.tree.leaves_with_path(schedule.parameters) if acts.any() else []
    parameters = {_name(path): _ends(leaf[acts]) for path, leaf in leaves if leaf.size}
    return InterventionDescription(
        name, float(acts.mean()), _spread(dt * active[acts].sum(axis=1)), parameters
    )


def _environment(environment: AbstractEnvironment | None) -> EnvironmentDescription | None:
    if environment is None:
        return None
    one = jax.tree.map(lambda leaf: leaf[0], environment)
    first = jax.eval_shape(lambda environment: environment.init(key=seed_key(0))[1], one)
    shows = {name: values.size for name, values in first.items()}
    return EnvironmentDescription(type(environment).__name__, repr(environment.actions), shows)


def _spread(numbers: Float[np.ndarray, " trial"]) -> Spread | None:
    return Spread(float(numbers.min()), float(numbers.mean()), float(numbers.max())) if numbers.size else None


def _number(value: float | bool) -> str:
    return str(value) if isinstance(value, bool) else f"{round(value, 6) + 0.0:.3g}"


def _range(low: float, high: float) -> str:
    return _number(low) if low == high else f"{_number(low)} to {_number(high)}"


def _shape(shape: tuple[int, ...]) -> str:
    return " x ".join(str(size) for size in shape) or "one number"


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.3g}%"


def _or_dash(spread: Spread | None) -> str:
    return "-" if spread is None else str(spread)


def _values(condition: SignalDescription) -> str:
    if condition.values is None:
        return _range(condition.low, condition.high)
    return ", ".join(map(_number, condition.values))


def _parameters(intervention: InterventionDescription) -> str:
    return ", ".join(f"{name} {_range(*ends)}".strip() for name, ends in intervention.parameters.items())
