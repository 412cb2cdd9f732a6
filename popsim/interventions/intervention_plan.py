"""Plans that schedule interventions in trials."""

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from popsim._shared import checks
from popsim._shared.argument_shapes import check_fields
from popsim._shared.plain_values import step_at
from popsim.distributions import AbstractDistribution, Constant, as_distribution
from popsim.per_member import is_per_member
from popsim.randomness import key_stream
from popsim.schedules import AbstractBatchSchedule, as_batch_schedule, check_fractions
from popsim.trial import InterventionSchedule, Trial, check_trials, label_trial, n_trials
from popsim.windows import AbstractWindow, WholeTrial

__all__ = ["FromTrial", "InterventionPlan", "schedule_intervention"]


class FromTrial(eqx.Module):
    """A parameter that depends on the trial, such as the direction of a force channel.

    **Arguments:**

    - `function`: returns the parameter for a trial.
    """

    function: Callable[[Trial], PyTree[Array]] = eqx.field(static=True)

    def __check_init__(self):
        check_fields(self)


def _is_rule(node: Any) -> bool:
    return isinstance(node, (AbstractDistribution, AbstractBatchSchedule, FromTrial))


def is_parameter_leaf(node: Any) -> bool:
    """Return whether a node of an intervention's parameters is one array, such as a list or a `PerMember`."""
    return _is_rule(node) or is_per_member(node) or isinstance(node, (list, tuple))


def schedule_intervention(trials: Trial, name: str, parameters: Any, active: ArrayLike = True) -> Trial:
    """Schedule an intervention in stacked trials.

    **Arguments:**

    - `trials`: stacked trials, which may already schedule other interventions.
    - `name`: the name of the intervention in the model.
    - `parameters`: the parameters of the intervention, in the structure that it expects. Each leaf is a
        number, an array or a list of numbers, the same in all trials, or a `FromTrial`, which gives each
        trial its own: `FromTrial(lambda trial: trial.conditions["load"])`.
    - `active`: when it acts: one value, one per time step, or an array of shape (trial, time).
    """
    check_trials("trials", trials)
    if trials.session is not None:
        raise ValueError("`trials` must be no sessions, got some: schedule in the trials that are joined.")
    shape = (n_trials(trials), trials.timeline.n_steps)
    acts = jnp.asarray(active)
    if acts.dtype != bool or acts.shape not in ((), shape[1:], shape):
        raise ValueError(
            f"`active` must be True or False, for all, for {shape[1]} time steps, or of shape {shape}, "
            f"got {acts.dtype} of shape {acts.shape}."
        )

    def in_each(leaf: Any) -> PyTree[Array]:
        if is_per_member(leaf) or (_is_rule(leaf) and not isinstance(leaf, FromTrial)):
            raise ValueError(
                f"parameters of {name} must be numbers or a FromTrial, got {leaf!r}: see InterventionPlan."
            )
        values = jax.vmap(leaf.function)(trials) if isinstance(leaf, FromTrial) else leaf
        for value in jax.tree.leaves(values):
            checks.check_finite(f"parameters of {name}", value)
        if isinstance(leaf, FromTrial):
            return jax.tree.map(checks.as_float_array, values)
        return jnp.broadcast_to(checks.as_float_array(leaf), (shape[0], *np.shape(leaf)))

    for_all = jax.tree.map(in_each, parameters, is_leaf=is_parameter_leaf)
    schedule = InterventionSchedule(for_all, jnp.broadcast_to(acts, shape))
    return eqx.tree_at(lambda t: t.interventions, trials, trials.interventions | {name: schedule})


def _as_rules(parameters: PyTree) -> PyTree:
    return jax.tree.map(
        lambda node: node if _is_rule(node) else Constant(node), parameters, is_leaf=is_parameter_leaf
    )


def _as_names(names: Any) -> tuple[str, ...]:
    return checks.as_parts("unless", names, str, "names of interventions")


class InterventionPlan(eqx.Module):
    """The trials, training batches and time steps in which an intervention acts, and its parameters.

    A condition with the name of the intervention is added: whether it acts at any time step.

    **Arguments:**

    - `name`: the name of the intervention in the model.
    - `parameters`: the parameters, in the structure that the intervention expects. Each leaf is a number, an
        array, a list of numbers or a `PerMember` of these, a distribution that each trial draws from, a
        schedule over training batches, or a `FromTrial`.
    - `window`: the time steps of the trial at which it acts.
    - `delay`: a shift of the window in seconds (negative for earlier): a number, which must be a multiple of
        the time step, or a distribution, whose draws are rounded to time steps.
    - `probability`: the fraction of trials in which it acts: a number, or a schedule over training batches.
        It may be a `PerMember`, so that some members never experience the intervention.
    - `unless`: names of interventions, planned before this one, that exclude it from a trial.
    - `cue_input`: the name of an input that signals the intervention, or None. The input holds the parameters
        in one vector while the intervention acts, and zeros otherwise.
    - `label`: the name of a condition that holds the parameters in one vector, or a scalar if there is one
        number; NaN in trials in which it does not act. None for no label.
    """

    name: str = eqx.field(static=True)
    parameters: PyTree = eqx.field(converter=_as_rules)
    window: AbstractWindow = eqx.field(kw_only=True, default=WholeTrial())
    delay: AbstractDistribution = eqx.field(kw_only=True, converter=as_distribution, default=0.0)
    probability: AbstractBatchSchedule = eqx.field(kw_only=True, converter=as_batch_schedule, default=1.0)
    unless: tuple[str, ...] = eqx.field(static=True, kw_only=True, converter=_as_names, default=())
    cue_input: str | None = eqx.field(static=True, kw_only=True, default=None)
    label: str | None = eqx.field(static=True, kw_only=True, default=None)

    def __check_init__(self):
        check_fields(self)
        check_fractions("probability", self.probability)

    def check_dt(self, dt: float) -> None:
        """Check that a fixed delay is a multiple of a time step (s); not where JAX traces the delay."""
        for seconds in self.fixed_delays:
            checks.steps_of_delay(f"delay of the plan of {self.name!r}", seconds, dt)

    @property
    def fixed_delays(self) -> list[Any]:
        """The delay in s, or those of all members, but 0; empty if it is drawn, or JAX traces it."""
        if not isinstance(self.delay, Constant) or checks.is_traced(self.delay):
            return []
        value: Any = self.delay.value
        return [each for each in np.ravel(value.values if is_per_member(value) else value) if each]

    def schedule(self, trial: Trial, *, batch: int | Int[Array, ""], key: Key[Array, ""]) -> Trial:
        """Schedule the intervention in a trial, which decides at random whether it acts.

        **Arguments:**

        - `trial`: one trial.
        - `batch`: the number of the training batch.
        - `key`: for drawing the parameters in the trial.
        """
        acts = jax.random.uniform(key_stream(key, "share"), ()) < self.probability(batch)
        for excluded in self.unless:
            if excluded not in trial.interventions:
                raise ValueError(
                    f"`unless` of the plan of {self.name!r} must name interventions that are planned before "
                    f"it, {sorted(trial.interventions)}, got {excluded!r}."
                )
            acts = acts & ~jnp.any(trial.interventions[excluded].active)
        return self.schedule_if(acts, trial, batch=batch, key=key)

    def schedule_if(
        self, acts: Bool[Array, ""], trial: Trial, *, batch: int | Int[Array, ""], key: Key[Array, ""]
    ) -> Trial:
        """Schedule the intervention in a trial, with `acts` given rather than random."""
        parameters = self._draw_parameters(trial, batch, key_stream(key, "parameters"))
        self.check_dt(trial.timeline.dt)
        for seconds in self.fixed_delays:
            if abs(seconds) > trial.timeline.n_steps * trial.timeline.dt:  # so that it may never act
                checks.warn_of_unit(f"delay of the plan of {self.name!r}", seconds, "delay")
        shift = step_at(self.delay.sample(key=key_stream(key, "delay")), trial.timeline.dt)
        active = acts & _shift(self.window(trial.timeline), shift)
        schedule = InterventionSchedule(parameters, active)
        if self.name in trial.interventions:
            raise ValueError(
                f"`name` must be an intervention that no other plan schedules, got {self.name!r}."
            )
        trial = dataclasses.replace(
            trial,
            inputs=self._with_hint(trial.inputs, schedule),
            interventions=trial.interventions | {self.name: schedule},
        )
        return label_trial(trial, self._labels(schedule))

    def _labels(self, schedule: InterventionSchedule) -> dict[str, Array]:
        acts = jnp.any(schedule.active)
        if self.label is None:
            return {self.name: acts}
        flat = _flat(schedule.parameters)
        number = flat[0] if flat.size == 1 else flat
        return {self.name: acts, self.label: jnp.where(acts, number, jnp.nan)}

    def _draw_parameters(
        self, trial: Trial, batch: int | Int[Array, ""], key: Key[Array, ""]
    ) -> PyTree[Array]:
        rules, structure = jax.tree.flatten(self.parameters, is_leaf=_is_rule)
        keys = jax.vmap(jax.random.fold_in, (None, 0))(key, jnp.arange(len(rules)))
        return jax.tree.unflatten(
            structure, [_value(rule, trial, batch, keys[i]) for i, rule in enumerate(rules)]
        )

    def _with_hint(self, inputs: PyTree[Array], schedule: InterventionSchedule) -> PyTree[Array]:
        if self.cue_input is None:
            return inputs
        if not isinstance(inputs, dict) or self.cue_input in inputs:
            raise ValueError(
                f"`cue_input` must be a new name, and the inputs must have names, got {self.cue_input!r}."
            )
        cue = jnp.where(schedule.active[:, None], _flat(schedule.parameters), 0.0)
        return inputs | {self.cue_input: cue}


def _flat(parameters: PyTree[Array]) -> Float[Array, " parameter"]:
    return jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(parameters)])


def _value(rule: Any, trial: Trial, batch: int | Int[Array, ""], key: Key[Array, ""]) -> PyTree[Array]:
    if isinstance(rule, FromTrial):
        return rule.function(trial)
    return rule(batch) if isinstance(rule, AbstractBatchSchedule) else rule.sample(key=key)


def _shift(window: Bool[Array, " time"], n_steps: Int[Array, ""]) -> Bool[Array, " time"]:
    """Shift a window by `n_steps` steps; steps shifted out of the trial are dropped."""
    source = jnp.arange(window.size) - n_steps
    return (source >= 0) & (source < window.size) & window[jnp.clip(source, 0, window.size - 1)]
