"""Several tasks for one network, and one environment for those that have one each."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from popsim._shared.checks import as_parts, check_instance, check_same_dt, kind_of
from popsim.environment import AbstractEnvironment, Box, Discrete, Observation, Outcome
from popsim.loss import Loss
from popsim.network_input import inputs_by_name
from popsim.randomness import key_stream
from popsim.schedules import AbstractBatchSchedule
from popsim.task import AbstractTask, check_draws_trials
from popsim.tasks.mixtures import as_shares, check_shares, common_loss, concatenated
from popsim.trial import OutputTarget, RecordedActivity, Trial, has_counts_by_output
from popsim.windows import NEVER, Timeline

__all__ = ["MultiTask", "SelectedEnvironment"]


class SelectedEnvironment(AbstractEnvironment):
    """The environment of one of several tasks: it steps those of all, and selects.

    It shows what any of them shows, by name, and zeros for what the selected one lacks. It takes as many
    actions as any of them does: an action that the selected one lacks is its last one, and of a vector it
    takes the first numbers. It records by the name of the task what its environment records, zeros where it
    is not selected.
    """

    environments: tuple[AbstractEnvironment, ...]
    selected: Int[Array, "*axes"]  # the index of the one that acts
    n_steps: Int[Array, "*axes"]  # of its trial, which may be shorter than the others
    names: tuple[str, ...] = eqx.field(static=True)

    @property
    def actions(self) -> Discrete | Box:
        return common_actions(self.environments)

    def init(self, *, key: Key[Array, ""]) -> tuple[PyTree[Array], Observation]:
        return self._start(lambda environment, key: environment.init(key=key), key)

    def resume(self, state: PyTree[Array], *, key: Key[Array, ""]) -> tuple[PyTree[Array], Observation]:
        states = iter(state["states"])
        return self._start(lambda environment, key: environment.resume(next(states), key=key), key)

    def step(
        self, state: PyTree[Array], action: Any, *, key: Key[Array, ""]
    ) -> tuple[PyTree[Array], Outcome]:
        stepped = [
            environment.step(of_environment, _own_action(environment, action), key=self._key(name, key))
            for environment, of_environment, name in zip(
                self.environments, state["states"], self.names, strict=True
            )
        ]
        outcomes = [outcome for _, outcome in stepped]
        is_last = state["step"] >= self.n_steps - 1
        # The others stay as they are: actions are meant for the selected one alone.
        states = tuple(
            jax.tree.map(lambda new, old, i=i: jnp.where(self.selected == i, new, old), each, before)
            for i, ((each, _), before) in enumerate(zip(stepped, state["states"], strict=True))
        )
        after = {"states": states, "step": state["step"] + 1}
        return after, Outcome(
            self._shown([outcome.observation for outcome in outcomes]),
            self._of_selected([jnp.asarray(outcome.reward, float) for outcome in outcomes]),
            self._of_selected([outcome.done for outcome in outcomes]) | is_last,
            {
                name: jax.tree.map(lambda leaf, i=i: _where(self.selected == i, leaf), outcome.record)
                for i, (name, outcome) in enumerate(zip(self.names, outcomes, strict=True))
                if jax.tree.leaves(outcome.record)
            },
        )

    def _start(
        self, begin: Callable[[AbstractEnvironment, Any], tuple[PyTree[Array], Observation]], key: Any
    ) -> tuple[PyTree[Array], Observation]:
        started = [
            begin(environment, self._key(name, key))
            for environment, name in zip(self.environments, self.names, strict=True)
        ]
        states, shown = zip(*started, strict=True)
        return {"states": tuple(states), "step": jnp.array(0)}, self._shown(list(shown))

    def _key(self, name: str, key: Key[Array, ""]) -> Key[Array, ""]:
        return key_stream(key, f"task {name}")

    def _shown(self, observations: list[Observation]) -> Observation:
        widths: dict[str, int] = {}
        for observation in observations:
            for name, values in observation.items():
                widths[name] = max(widths.get(name, 0), values.shape[0])
        return {
            name: self._of_selected([_padded(each.get(name), width) for each in observations])
            for name, width in widths.items()
        }

    def _of_selected(self, values: list[Array]) -> Array:
        """Return the value of the selected environment. The others may be anything, even not finite."""
        chosen = _where(self.selected == 0, values[0])
        for index, value in enumerate(values[1:], 1):
            chosen = jnp.where(self.selected == index, value, chosen)
        return chosen


def _where(is_selected: Bool[Array, ""], value: Array) -> Array:
    return jnp.where(is_selected, value, jnp.zeros_like(value))


def _padded(values: Float[Array, " features"] | None, width: int) -> Float[Array, " width"]:
    return jnp.zeros(width) if values is None else jnp.pad(values, (0, width - values.shape[0]))


def _own_action(environment: AbstractEnvironment, action: Any) -> Any:
    """Return what an environment takes for an action of the largest space."""
    space: Any = environment.actions
    if isinstance(space, Discrete):
        return jnp.minimum(action, space.n - 1)
    return jnp.clip(action[: space.n], space.low, space.high)


def common_actions(environments: tuple[AbstractEnvironment, ...]) -> Discrete | Box:
    """Return the actions that hold those of all environments; raise `ValueError` if there are none."""
    spaces = [environment.actions for environment in environments]
    largest = max((getattr(space, "n", 0) for space in spaces), default=0)
    for kind in (Discrete, Box):
        if all(isinstance(space, kind) for space in spaces):
            return kind(largest)
    raise ValueError(
        "`tasks` must have environments that all take discrete actions, or all vectors, "
        f"got {', '.join(map(str, spaces))}."
    )


def check_environments(environments: Mapping[str, AbstractEnvironment | None]) -> None:
    """Raise `ValueError` unless all tasks have an environment, with actions of one kind, or none has."""
    present = {name: each for name, each in environments.items() if each is not None}
    if present and len(present) < len(environments):
        raise ValueError(
            f"`tasks` must all have an environment, or none of them, got only {sorted(present)} with one."
        )
    if present:
        common_actions(tuple(present.values()))


@dataclasses.dataclass(frozen=True)
class TrialLayout:
    """The common layout of all trials of a mixture of tasks, by name; booleans become integers."""

    dt: float
    n_steps: int
    inputs: Mapping[str, int]
    n_outputs: int | None
    is_choice: bool
    has_counts_by_output: bool
    recordings: Mapping[str, int]
    epochs: frozenset[str]
    events: frozenset[str]
    conditions: Mapping[str, tuple[tuple[int, ...], DTypeLike]]
    environments: Mapping[str, AbstractEnvironment]

    @classmethod
    def of(cls, tasks: Mapping[str, Trial]) -> "TrialLayout":
        """Return the layout for one trial of each named task."""
        trials = list(tasks.values())
        dt = trials[0].timeline.dt
        inputs: dict[str, int] = {}
        recordings: dict[str, int] = {}
        conditions: dict[str, tuple[tuple[int, ...], DTypeLike]] = {}
        for trial in trials:
            _check_cognitive(trial)
            check_same_dt(trial.timeline.dt, dt, "first task")
            for name, channels in _flat_inputs(trial).items():
                inputs[name] = max(inputs.get(name, 0), channels.shape[1])
            for name, value in _conditions(trial).items():
                kind = (value.shape, value.dtype)
                if conditions.setdefault(name, kind) != kind:
                    raise ValueError(
                        f"`conditions[{name!r}]` must be alike in all tasks, "
                        f"got {conditions[name]} and {kind}."
                    )
            for name, recorded in trial.recordings.items():
                n_units = recorded.values.shape[-1]
                if recordings.setdefault(name, n_units) != n_units:
                    raise ValueError(f"`recordings[{name!r}]` must be of as many units in all tasks.")
        targets = [trial.targets for trial in trials if isinstance(trial.targets, OutputTarget)]
        if targets:
            _check_choices(tasks)
        environments = {name: trial.environment for name, trial in tasks.items()}
        check_environments(environments)
        return cls(
            dt=dt,
            n_steps=max(trial.timeline.n_steps for trial in trials),
            inputs=inputs,
            n_outputs=max((target.values.shape[-1] for target in targets), default=None),
            is_choice=all(target.is_choice for target in targets),
            has_counts_by_output=any(map(has_counts_by_output, targets)),
            recordings=recordings,
            epochs=frozenset(name for trial in trials for name in trial.timeline.epochs),
            events=frozenset(name for trial in trials for name in trial.timeline.events),
            conditions=conditions,
            environments={name: each for name, each in environments.items() if each is not None},
        )

    def fit(self, trial: Trial, name: str) -> Trial:
        """Return a trial of a task in this layout, with zeros, NaN, -1 or `NEVER` for what it lacks."""
        channels, conditions = _flat_inputs(trial), _conditions(trial)
        return Trial(
            init=(),
            inputs={name: self._pad(channels.get(name), width) for name, width in self.inputs.items()},
            targets=self._targets(trial),
            timeline=self._timeline(trial.timeline),
            conditions={
                name: conditions.get(name, _missing_value(shape, dtype))
                for name, (shape, dtype) in self.conditions.items()
            },
            environment=self._environment(trial, name),
            recordings={name: self._recorded(trial, name) for name in self.recordings},
        )

    def _targets(self, trial: Trial) -> OutputTarget | tuple[()]:
        if self.n_outputs is None:
            return ()
        values = self._pad(trial.targets.values, self.n_outputs)
        counts = trial.targets.counts
        if self.has_counts_by_output and not has_counts_by_output(trial.targets):
            counts = jnp.broadcast_to(counts[:, None], trial.targets.values.shape)
        if self.has_counts_by_output:
            counts = self._pad(counts, self.n_outputs)
        else:
            counts = jnp.pad(counts, (0, self.n_steps - trial.timeline.n_steps))
        return OutputTarget(values, counts, is_choice=self.is_choice)

    def _environment(self, trial: Trial, name: str) -> SelectedEnvironment | None:
        if trial.environment is None:
            return None
        environments = {**self.environments, name: trial.environment}
        names = tuple(environments)
        index, n_steps = jnp.array(names.index(name)), jnp.array(trial.timeline.n_steps)
        return SelectedEnvironment(tuple(environments.values()), index, n_steps, names)

    def _recorded(self, trial: Trial, name: str) -> RecordedActivity:
        shape = (self.n_steps, self.recordings[name])
        if name not in trial.recordings:
            return RecordedActivity(jnp.zeros(shape), jnp.zeros(shape))
        recorded = trial.recordings[name]
        counts = jnp.broadcast_to(recorded.counts, recorded.values.shape)
        return RecordedActivity(self._pad(recorded.values, shape[1]), self._pad(counts, shape[1]))

    def _pad(self, channels: Float[Array, "time channels"] | None, width: int) -> Float[Array, "steps width"]:
        if channels is None:
            return jnp.zeros((self.n_steps, width))
        n_steps, n_channels = channels.shape
        return jnp.pad(channels, ((0, self.n_steps - n_steps), (0, width - n_channels)))

    def _timeline(self, timeline: Timeline) -> Timeline:
        empty = jnp.full(2, self.n_steps)
        return Timeline(
            self.dt,
            self.n_steps,
            epochs={name: timeline.epochs.get(name, empty) for name in self.epochs},
            events={name: timeline.events.get(name, jnp.asarray(NEVER)) for name in self.events},
        )


def _flat_inputs(trial: Trial) -> dict[str, Float[Array, "time channels"]]:
    def flat(tree: Any) -> Array:
        leaves = [leaf.reshape(leaf.shape[0], -1) for leaf in jax.tree.leaves(tree)]
        return jnp.concatenate(leaves, axis=1)

    return {name: flat(tree) for name, tree in inputs_by_name(trial.inputs).items()}


def _conditions(trial: Trial) -> dict[str, Array]:
    """Return the conditions with booleans as integers."""
    arrays = {name: jnp.asarray(value) for name, value in trial.conditions.items()}
    return {name: value.astype(int) if value.dtype == bool else value for name, value in arrays.items()}


def _missing_value(shape: tuple[int, ...], dtype: DTypeLike) -> Array:
    return jnp.full(shape, jnp.nan if jnp.issubdtype(dtype, jnp.floating) else -1, dtype)


def _check_cognitive(trial: Trial) -> None:
    is_paid = trial.environment is not None and not jax.tree.leaves(trial.targets)
    if jax.tree.leaves(trial.init) or not (is_paid or isinstance(trial.targets, OutputTarget)):
        raise ValueError(
            "`tasks` must be for a network without a body, with an OutputTarget, or with an environment and "
            f"no targets, got {kind_of(trial.targets)}."
        )
    if trial.interventions:
        raise ValueError(f"`tasks` must have no interventions, got {sorted(trial.interventions)}.")


def _check_choices(tasks: Mapping[str, Trial]) -> None:
    """Raise `ValueError` if a choice with one output is mixed with tasks that have several, or none."""
    if without := [name for name, trial in tasks.items() if not isinstance(trial.targets, OutputTarget)]:
        raise ValueError(f"`tasks` must all have targets, or none of them, got {without} without.")
    widths = {name: trial.targets.values.shape[-1] for name, trial in tasks.items()}
    alone = [name for name, trial in tasks.items() if trial.targets.is_choice and widths[name] == 1]
    wider = [name for name, width in widths.items() if width > 1]
    if alone and wider:
        raise ValueError(
            "`tasks` must not mix choices with one output and tasks with several: "
            f"{alone} with {wider}. Give each choice an output, as `n_outputs=2` does in ContextIntegration."
        )


TASK = "task"


class MultiTask(AbstractTask):
    """A random mixture of several tasks for networks without a body, with a rule input.

    The rule input tells the network the task, as in Yang, Joglekar, Song, Newsome & Wang 2019, Nat Neurosci
    22:297 (checked in gyyang/multitask).

    - Inputs: "task" (one channel per task), one-hot throughout, in the order of `names`; those of the tasks,
        where inputs of the same name share their channels.
    - Targets: the largest number of outputs of a task; outputs that a task lacks should be zero.
    - Conditions: "task", the index of the task; those of all tasks, -1 or NaN where a task lacks them. An
        epoch that a task lacks is empty, an event never comes.
    - Environment: if the tasks have environments, a `SelectedEnvironment` of all of them.

    Trials are as long as those of the longest task; time steps after the end of a shorter one do not count.
    The validation trials are those of all tasks.

    **Arguments:**

    - `tasks`: the tasks by name.
    - `shares`: the relative frequency of each task: a dict by its name, such as `{"go": 2.0, "anti": 1.0}`,
        or in the order of `tasks` an array or a schedule over training batches, such as
        `PiecewiseSchedule((0, 500), [[1.0, 0.0], [1.0, 1.0]])`; all equal by default.
    - `loss`: the loss to train with; by default the one that all tasks share.
    - `names`: the names of tasks in a tuple, as a `MultiTask` holds them; tasks by name have their own, also
        in `dataclasses.replace`.
    """

    tasks: tuple[AbstractTask, ...]
    shares: AbstractBatchSchedule
    loss: Loss
    names: tuple[str, ...] = eqx.field(static=True)

    def __init__(
        self,
        tasks: Mapping[str, AbstractTask] | tuple[AbstractTask, ...],
        *,
        shares: Any = None,
        loss: Loss | None = None,
        names: tuple[str, ...] | None = None,
    ):
        by_name: Any = tasks
        if isinstance(tasks, tuple):
            if names is None or len(names) != len(tasks):
                raise ValueError(f"`names` must be one for each of {len(tasks)} tasks, got {names!r}.")
            by_name = dict(zip(names, tasks, strict=True))
        check_instance("tasks", by_name, Mapping, 'tasks by name, such as {"go": task}')
        self.names = as_parts("tasks", list(by_name), str, "tasks by name")
        self.tasks = as_parts("tasks", by_name.values(), AbstractTask, "tasks")
        self.shares = as_shares(shares, self.names)
        self.loss = common_loss(self.tasks, loss)

    def __check_init__(self):
        check_shares(self.shares, len(self.tasks))
        check_draws_trials(*self.tasks)

    def trial(self, *, batch: int | Int[Array, ""], key: Key[Array, ""]) -> Trial:
        trials = {
            name: task.trial(batch=batch, key=key_stream(key, f"task {name}"))
            for name, task in zip(self.names, self.tasks, strict=True)
        }
        layout = TrialLayout.of(trials)
        fitted = [
            self._with_task_input(layout.fit(trial, name), index)
            for index, (name, trial) in enumerate(trials.items())
        ]
        log_shares = jnp.log(self.shares(batch))
        index = jax.random.categorical(key_stream(key, "which task"), log_shares)
        return jax.tree.map(lambda *leaves: jnp.stack(leaves)[index], *fitted)

    def validation_trials(self) -> Trial:
        stacked = [task.validation_trials() for task in self.tasks]
        firsts = [jax.tree.map(lambda leaf: leaf[0], trials) for trials in stacked]
        layout = TrialLayout.of(dict(zip(self.names, firsts, strict=True)))
        fitted = [
            jax.vmap(
                lambda trial, index=index: self._with_task_input(layout.fit(trial, self.names[index]), index)
            )(trials)
            for index, trials in enumerate(stacked)
        ]
        return concatenated(fitted)

    def _with_task_input(self, trial: Trial, index: int) -> Trial:
        """Return the trial with the input and the condition "task"."""
        for kind, named in (("an input", trial.inputs), ("a condition", trial.conditions)):
            if TASK in named:
                raise ValueError(f"`tasks` must not have {kind} of the name {TASK!r}, got {sorted(named)}.")
        one_hot = jax.nn.one_hot(index, len(self.tasks))
        task_input = jnp.broadcast_to(one_hot, (trial.timeline.n_steps, len(self.tasks)))
        return dataclasses.replace(
            trial,
            inputs=trial.inputs | {TASK: task_input},
            conditions=trial.conditions | {TASK: jnp.asarray(index)},
        )
