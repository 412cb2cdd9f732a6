"""The plan of an intervention: in which trials and batches it acts, when, and how strongly."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Key, PyTree

from popsim.batch_schedules import AbstractBatchSchedule, as_batch_schedule
from popsim.distributions import AbstractDistribution, Constant, as_distribution
from popsim.randomness import key_stream
from popsim.trial import InterventionSchedule, Trial
from popsim.windows import AbstractWindow, WholeTrial


class FromTrial(eqx.Module):
    """A parameter that depends on the trial, such as the direction of a force channel.

    **Arguments:**

    - `function`: from the trial to the parameter.
    """

    function: Callable[[Trial], PyTree[Array]] = eqx.field(static=True)


def _is_rule(node: Any) -> bool:
    return isinstance(node, (AbstractDistribution, AbstractBatchSchedule, FromTrial))


def _as_rules(parameters: PyTree) -> PyTree:
    return jax.tree.map(lambda node: node if _is_rule(node) else Constant(node), parameters, is_leaf=_is_rule)


class InterventionPlan(eqx.Module):
    """In which trials and training batches an intervention acts, when in the trial, and how strongly.

    **Arguments:**

    - `name`: the name of the intervention in the model.
    - `parameters`: what the intervention takes, in its structure; each leaf a number or an array, a
        distribution that each trial draws from, a schedule over training batches, or a `FromTrial`.
    - `window`: when in the trial it acts.
    - `delay`: by how many seconds the window comes later; a number or a distribution.
    - `share`: of which share of the trials; a number, or a schedule over training batches. It may be a
        `PerMember`, so that some members never meet the intervention.
    - `unless`: names of interventions that this one does not act together with; they are planned before it.
    - `told_as`: the name of an input by which the network is told, or None. The input holds the parameters
        in one vector while the intervention acts, and zeros else.
    """

    name: str = eqx.field(static=True)
    parameters: PyTree = eqx.field(converter=_as_rules)
    window: AbstractWindow = eqx.field(kw_only=True, default=WholeTrial())
    delay: AbstractDistribution = eqx.field(kw_only=True, converter=as_distribution, default=0.0)
    share: AbstractBatchSchedule = eqx.field(kw_only=True, converter=as_batch_schedule, default=1.0)
    unless: tuple[str, ...] = eqx.field(static=True, kw_only=True, converter=tuple, default=())
    told_as: str | None = eqx.field(static=True, kw_only=True, default=None)

    def __check_init__(self):
        if not isinstance(self.window, AbstractWindow):
            raise ValueError(f"`window` must be a window such as InEpoch('hold'), got {self.window!r}.")

    def scheduled(self, trial: Trial, *, batch: int | Int[Array, ""], key: Key[Array, ""]) -> Trial:
        """The trial with this intervention, where the trial is one of those in which it acts.

        **Arguments:**

        - `trial`: one trial.
        - `batch`: the number of the training batch.
        - `key`: from which the trial's parameters are drawn.

        The condition of the name of the intervention says whether it acts.
        """
        acts = jax.random.uniform(key_stream(key, "share"), ()) < self.share(batch)
        for other in self.unless:
            if other not in trial.interventions:
                raise ValueError(
                    f"`unless` of the plan of {self.name!r} must name interventions that are planned before "
                    f"it, {sorted(trial.interventions)}, got {other!r}."
                )
            acts = acts & ~trial.conditions[other]
        return self.scheduled_if(acts, trial, batch=batch, key=key)

    def scheduled_if(
        self, acts: Bool[Array, ""], trial: Trial, *, batch: int | Int[Array, ""], key: Key[Array, ""]
    ) -> Trial:
        """As `scheduled`, in a trial of which it is known whether the intervention `acts`."""
        parameters = self._drawn(trial, batch, key_stream(key, "parameters"))
        shift = jnp.round(self.delay.sample(key=key_stream(key, "delay")) / trial.timeline.dt).astype(int)
        active = acts & _shifted(self.window(trial.timeline), shift)
        schedule = InterventionSchedule(parameters, active)
        return Trial(
            trial.init,
            self._with_hint(trial.inputs, schedule),
            trial.targets,
            trial.timeline,
            trial.interventions | {self.name: schedule},
            trial.conditions | {self.name: acts},
        )

    def _drawn(self, trial: Trial, batch: int | Int[Array, ""], key: Key[Array, ""]) -> PyTree[Array]:
        rules, structure = jax.tree.flatten(self.parameters, is_leaf=_is_rule)
        keys = jax.vmap(jax.random.fold_in, (None, 0))(key, jnp.arange(len(rules)))
        return jax.tree.unflatten(
            structure, [_value(rule, trial, batch, keys[i]) for i, rule in enumerate(rules)]
        )

    def _with_hint(self, inputs: PyTree[Array], schedule: InterventionSchedule) -> PyTree[Array]:
        if self.told_as is None:
            return inputs
        if not isinstance(inputs, dict) or self.told_as in inputs:
            raise ValueError(
                f"`told_as` must be a new name beside inputs that have names, got {self.told_as!r}."
            )
        flat = jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(schedule.parameters)])
        return inputs | {self.told_as: jnp.where(schedule.active[:, None], flat, 0.0)}


def _value(rule: Any, trial: Trial, batch: int | Int[Array, ""], key: Key[Array, ""]) -> PyTree[Array]:
    if isinstance(rule, FromTrial):
        return rule.function(trial)
    return rule(batch) if isinstance(rule, AbstractBatchSchedule) else rule.sample(key=key)


def _shifted(window: Bool[Array, " time"], n_steps: Int[Array, ""]) -> Bool[Array, " time"]:
    """The window `n_steps` steps later."""
    steps = jnp.arange(window.size)
    return jnp.roll(window, n_steps) & (steps >= n_steps)
