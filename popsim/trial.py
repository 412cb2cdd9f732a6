"""Trials: the inputs of the network, and its targets."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from popsim._compiled import jit_fast_compile
from popsim._shared.checks import as_float_array, check_instance, check_positive_int, kind_of
from popsim._shared.html import show_or_print
from popsim._trial_html import trial_html
from popsim.environment import AbstractEnvironment
from popsim.hand import HandState
from popsim.windows import Timeline

__all__ = [
    "OutputTarget",
    "output_choice",
    "correct_choice",
    "choice_accuracy",
    "RecordedActivity",
    "InterventionSchedule",
    "StepInput",
    "Trial",
    "label_trial",
    "repeat_trials",
]


class OutputTarget(eqx.Module):
    """The target outputs of a cognitive task, and the weight of each time step.

    - `values`: the target outputs, finite also where they do not count, as losses multiply by the counts
        (`tasks.StoredTrials` takes NaN there). For a choice among several, 1 for the correct one and 0 for
        the others, and 0 for all at time steps without a choice; for a choice between two with one output, 1
        or 0.
    - `counts`: the weight of each time step, or of each output at each time step, at least 0.
    - `is_choice`: whether the outputs represent choices; False where they should follow a time course, such
        as a ramp. Accuracy is defined for choices only.

    Arrays may have leading axes (member, trial).
    """

    values: Float[Array, "*axes time outputs"]
    counts: Float[Array, "*axes time"] | Float[Array, "*axes time outputs"]
    is_choice: bool = eqx.field(static=True, kw_only=True, default=True)


def output_choice(
    outputs: Float[Array | np.ndarray, "... time outputs"], target: OutputTarget
) -> Int[Array, "..."]:
    """Return the index of the choice that the outputs make; -1 in trials without a choice.

    With several outputs, this is the one with the largest weighted mean over the time steps at which the
    target has a choice. A single output is the log odds of choice 1, as in `popsim.losses.CrossEntropy`:
    choice 1 if its weighted mean is above zero, else choice 0.

    **Arguments:**

    - `outputs`: the outputs of a network; they may have more leading axes (member) than the target.
    - `target`: the target of the same trials.
    """
    return _choice(outputs, target, threshold=0.0)


def correct_choice(target: OutputTarget) -> Int[Array, "..."]:
    """Return the index of the correct choice; -1 in trials without a choice, such as catch trials."""
    return _choice(target.values, target, threshold=0.5)


def choice_accuracy(
    outputs: Float[Array | np.ndarray, "... trial time outputs"], target: OutputTarget
) -> Float[Array, "..."]:
    """Return the fraction of correct choices among the trials with a choice; NaN if there are none.

    Arguments as for `output_choice`. **Returns** one fraction per member, if the outputs have a member axis.
    """
    right = correct_choice(target)
    is_asked = right >= 0
    is_right = is_asked & (output_choice(outputs, target) == right)
    n_right, n_asked = (jnp.sum(each, axis=-1).astype(float) for each in (is_right, is_asked))
    return jnp.where(n_asked > 0, n_right / jnp.maximum(n_asked, 1.0), jnp.nan)


def _choice(
    outputs: Float[Array | np.ndarray, "... time outputs"], target: OutputTarget, *, threshold: float
) -> Int[Array, "..."]:
    if not target.is_choice:
        raise ValueError(
            "`target` must ask for choices in all trials, got one with `is_choice=False`. From a mixture, "
            "select the trials that do: OutputTarget(values[selected], counts[selected])."
        )
    if outputs.shape[-target.values.ndim :] != target.values.shape:
        raise ValueError(
            f"`outputs` must be those of the trials of the target, {target.values.shape}, with more leading "
            f"axes or none, got shape {outputs.shape}."
        )
    counts = target.counts if has_counts_by_output(target) else target.counts[..., None]
    if target.values.shape[-1] > 1:
        is_asked = (target.values != 0) & ~jnp.isnan(target.values)
        counts = jnp.where(jnp.any(is_asked, axis=-1, keepdims=True), counts, 0.0)
    total = jnp.sum(counts, axis=-2)
    counted = jnp.where(counts > 0, outputs, 0.0)  # what does not count may be NaN
    mean = jnp.sum(counts * counted, axis=-2) / jnp.where(total > 0, total, 1.0)
    if target.values.shape[-1] > 1:
        choice = jnp.argmax(jnp.where(total > 0, mean, -jnp.inf), axis=-1)
    else:
        choice = (mean[..., 0] > threshold).astype(int)
    return jnp.where(jnp.any(total > 0, axis=-1), choice, -1)


def has_counts_by_output(target: OutputTarget) -> bool:
    """Return whether each output of a target has its own weight at each time step."""
    return target.counts.ndim == target.values.ndim


class RecordedActivity(eqx.Module):
    """The activity that was recorded from some units in a trial, and how much each number of it counts.

    - `values`: rates, or spike counts per time step, in the unit that the loss expects.
    - `counts`: the weight of each time step, with a last axis of one, or of each unit at each time step; at
        least 0. Zero where nothing was recorded, as in `RecordedActivity(rates, ~numpy.isnan(rates))`.

    Arrays may have leading axes (member, trial).
    """

    values: Float[Array, "*axes time units"] = eqx.field(converter=as_float_array)
    counts: Float[Array, "*axes time #units"] = eqx.field(converter=as_float_array)


class InterventionSchedule(eqx.Module):
    """The parameters of an intervention in a trial, and the time steps at which it is active.

    **Arguments:**

    - `parameters`: the parameters of the intervention, constant over the trial.
    - `active`: whether it is active at each time step; in a `StepInput`, at the current one.
    """

    parameters: PyTree[Array]
    active: Bool[Array, "*trial_and_time"]


class StepInput(eqx.Module):
    """A trial at one time step, as passed to `AbstractModel.step`.

    `inputs` are the trial's inputs at this step; `interventions` holds the parameters of each scheduled
    intervention, and whether it is active at this step. `environment` is that of the trial, or None.
    """

    inputs: PyTree[Array]
    interventions: dict[str, InterventionSchedule]
    environment: AbstractEnvironment | None = None


class SessionTrials(eqx.Module):
    """The trials of which a session consists; see `popsim.session.join_trials`.

    - `trials`: the trials, stacked; without inputs and targets, which are those of the session.
    - `carry`: what continues from one trial to the next: some of "environment" and "hidden".
    - `cut_gradient`: whether derivatives end where a trial begins.
    """

    trials: "Trial"
    carry: tuple[str, ...] = eqx.field(static=True)
    cut_gradient: bool = eqx.field(static=True)


class Trial(eqx.Module):
    """One trial of a task. A batch of trials is the same object with a leading axis on each array.

    Construct one trial at a time and stack with `jax.vmap`.

    **Arguments:**

    - `init`: determines the initial state of the model (for a reach: the hand at its start).
    - `inputs`: the inputs of the model, a PyTree of floating-point arrays of shape (time, feature), also for
        one feature.
    - `targets`: a PyTree of arrays with a leading time axis; a single array has shape (time, feature).
    - `timeline`: the time step, the number of steps, epochs and events.
    - `interventions`: the schedule of each intervention, by name.
    - `conditions`: labels of the trial for analysis, such as the direction of its target.
    - `environment`: what answers to the network within the trial; None for most tasks. A trial with an
        environment may have no inputs and no targets, `()`; it then needs an epoch or an event.
    - `session`: the trials of which a session consists, see `popsim.session.join_trials`; None for one trial.
    - `recordings`: by name, the activity that units of the network should have (`losses.RateError`).
    """

    init: PyTree[Array]
    inputs: PyTree[Array]
    targets: PyTree[Array]
    timeline: Timeline
    interventions: dict[str, InterventionSchedule] = eqx.field(default_factory=dict)
    conditions: dict[str, Array] = eqx.field(default_factory=dict)
    environment: AbstractEnvironment | None = None
    session: SessionTrials | None = None
    recordings: dict[str, RecordedActivity] = eqx.field(default_factory=dict)

    def __check_init__(self):
        if self.session is not None and (self.interventions or self.environment is not None):
            raise ValueError(
                "`interventions` and `environment` of a session must be those of its trials: wrap the task "
                f"of the Session, not the Session, got {sorted(self.interventions) or 'an environment'}."
            )
        n_steps = self.timeline.n_steps
        active = {name: schedule.active for name, schedule in self.interventions.items()}
        _check_series("inputs", self.inputs, n_steps, has_features=True, is_floating=True)
        _check_series("targets", self.targets, n_steps, has_features=is_bare(self.targets))
        _check_series("interventions", active, n_steps)
        _check_series("recordings", self.recordings, n_steps)
        if not jax.tree.leaves((self.inputs, self.targets, self.timeline)):
            raise ValueError(
                "`timeline` of a trial without inputs and targets must have an epoch or an event, by which "
                f'stacked trials are recognised, such as epochs={{"trial": (0, {n_steps})}}, got none.'
            )

    def at_step(self, inputs: PyTree[Array], active: Mapping[str, Bool[Array, ""]]) -> StepInput:
        """Return the `StepInput` of one step from the inputs and the active interventions at that step."""
        interventions = {
            name: InterventionSchedule(schedule.parameters, active[name])
            for name, schedule in self.interventions.items()
        }
        return StepInput(inputs, interventions, self.environment)

    def _repr_html_(self) -> str:
        """Return what a notebook shows: inputs and targets, the timeline, and trials by condition."""
        return show_or_print(lambda: trial_html(self), self)


class TrialAtStep(eqx.Module):
    """A trial and one of its time steps, as passed to `AbstractLossTerm.step_cost`.

    - `trial`: the whole trial: its timeline and its targets are known in advance.
    - `step`: the index of the time step.
    """

    trial: Trial
    step: Int[Array, ""]

    @property
    def targets(self) -> PyTree[Array]:
        """The targets at this step."""
        return jax.tree.map(lambda leaf: leaf[self.step], self.trial.targets)


def _check_series(
    name: str, tree: Any, n_steps: int, *, has_features: bool = False, is_floating: bool = False
) -> None:
    """Raise `ValueError` unless the arrays of a PyTree have the time steps of a trial on their first axis."""
    for path, leaf in jax.tree.leaves_with_path(tree):
        series, shape = f"`{name}{jax.tree_util.keystr(path)}` of a trial", np.shape(leaf)
        if shape[:1] != (n_steps,):
            raise ValueError(
                f"{series} must lead with the {n_steps} time steps of its timeline, got {kind_of(leaf)}. "
                "(Stacked trials: see schedule_intervention, or equinox.tree_at.)"
            )
        if has_features and len(shape) < 2:
            raise ValueError(
                f"{series} must have the axes (time, feature), got shape {shape}: for one feature, append "
                "[:, None]."
            )
        if is_floating and not jnp.issubdtype(leaf.dtype, jnp.floating):
            raise ValueError(f"{series} must be floating-point, got {leaf.dtype}.")


def is_bare(targets: Any) -> bool:
    """Return whether the targets of a trial are a single array, the target of the network's output."""
    return isinstance(targets, jax.Array | np.ndarray)


def is_stacked(trials: Trial) -> bool:
    """Return whether a trial has the axes of stacked trials, (trial, time, ...), rather than of one trial."""
    timeline = trials.timeline
    leaves = jax.tree.leaves((trials.inputs, trials.targets))
    if not leaves:
        times = [(steps.ndim, 1) for steps in timeline.epochs.values()]
        times += [(step.ndim, 0) for step in timeline.events.values()]
        return all(n_axes > of_one for n_axes, of_one in times)
    return all(leaf.ndim >= 2 and leaf.shape[1] == timeline.n_steps for leaf in leaves)


def check_trials(name: str, trials: Any) -> None:
    """Raise `ValueError` unless the argument called `name` is stacked trials."""
    given = None
    if not isinstance(trials, Trial):
        given = kind_of(trials)
    elif not is_stacked(trials):
        given = "one trial: jax.tree.map(lambda leaf: leaf[None], trial) is a stack of one"
    elif n_trials(trials) == 0:
        given = "none"
    if given is not None:
        expected = "stacked trials, such as task.validation_trials()"
        raise ValueError(f"`{name}` must be {expected}, got {given}.")


def check_one_trial(name: str, trial: Any) -> None:
    """Raise `ValueError` unless the argument called `name` is a trial that is not stacked."""
    check_instance(name, trial, Trial, "one Trial")
    n_steps = trial.timeline.n_steps
    series = jax.tree.leaves((trial.inputs, trial.targets))
    if is_stacked(trial) and (not series or any(leaf.shape[0] != n_steps for leaf in series)):
        raise ValueError(
            f"`{name}` must be one trial, got {n_trials(trial)} stacked ones: popsim.evaluate runs them all."
        )


def n_trials(trials: Trial) -> int:
    """Return the number of trials in a stacked `Trial`."""
    return jax.tree.leaves(trials)[0].shape[0]


def label_trial(trial: Trial, conditions: Mapping[str, Array]) -> Trial:
    """Add conditions to a trial, or to stacked trials; they must have new names."""
    twice = sorted(set(conditions) & set(trial.conditions))
    if twice:
        raise ValueError(f"`conditions` of a trial must have different names, got {twice} more than once.")
    return eqx.tree_at(lambda tree: tree.conditions, trial, trial.conditions | dict(conditions))


def repeat_trials(trials: Trial, n_repeats: int) -> Trial:
    """Repeat every trial of a stacked `Trial` `n_repeats` times in a row, to run with independent noise."""
    check_positive_int("n_repeats", n_repeats)
    check_trials("trials", trials)
    return _repeat(trials, n_repeats)


@jit_fast_compile
def _repeat(trials: Trial, n_repeats: int) -> Trial:
    return jax.tree.map(lambda leaf: jnp.repeat(leaf, n_repeats, axis=0), trials)


def check_hand_targets(targets: Any, cursor: HandState) -> None:
    """Raise `ValueError` unless the targets of a trial are a `HandState` with the shapes of the cursor."""
    if not isinstance(targets, HandState):
        raise ValueError(f"`targets` of a trial must be a HandState, got {kind_of(targets)}.")
    for name in ("position", "velocity"):
        shape, expected = getattr(targets, name).shape, getattr(cursor, name).shape
        if shape != expected:
            raise ValueError(
                f"`targets.{name}` of a trial must have the shape of the cursor's, {expected}, got {shape}."
            )
