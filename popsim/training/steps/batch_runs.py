"""The trials of a training batch, to be run at once, one after the other, or step by step."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree

from popsim._compiled import map_trials
from popsim._shared.checks import check_positive_int
from popsim.loss import Loss, LossValues
from popsim.model import STEPS, AbstractModel, initial_state, simulate
from popsim.randomness import key_stream
from popsim.training.steps.model_updates import TrainedBatch
from popsim.trial import Trial, TrialAtStep

__all__ = ["BatchRun", "StepRun", "TrialRun"]


class StepRun(eqx.Module):
    """A time step of one trial, to be run with any values of the trained parameters.

    - `model`: the model with the present parameters.
    - `loss`: the loss of the batch.
    - `trial`: the whole trial.
    - `number`: the number of the time step.
    - `key`: the key of its noise, as of `simulate`.
    """

    model: AbstractModel
    loss: Loss
    trial: Trial
    number: Int[Array, ""]
    key: Key[Array, ""]

    def advance(self, params: PyTree, state: PyTree[Array]) -> PyTree[Array]:
        """Return the state after the step.

        **Arguments:**

        - `params`: parameters in the structure of the model. Where it is None the model's own are used.
        - `state`: the state before the step.
        """
        active = {name: schedule.active for name, schedule in self.trial.interventions.items()}
        inputs, active = jax.tree.map(lambda leaf: leaf[self.number], (self.trial.inputs, active))
        model = eqx.combine(params, self.model)
        return model.step(self.trial.at_step(inputs, active), state, key=self.key)

    def costs(self, params: PyTree, state: PyTree[Array]) -> LossValues:
        """Return what the step adds to the weighted terms of the loss; arguments as for `advance`.

        **Arguments:**

        - `state`: the state after the step.

        **Raises:** `ValueError` naming a term that is no sum over time steps.
        """
        model = eqx.combine(params, self.model)
        recorded, at_step, values = model.record(state), TrialAtStep(self.trial, self.number), {}
        for term in self.loss.terms:
            cost = term.step_cost(recorded, at_step, model)
            if cost is None:
                raise ValueError(
                    f"`loss` must be a sum over time steps for a gradient that is computed step by step, got "
                    f"the term {term.name!r}, which has no `step_cost`."
                )
            values[term.name] = self.loss.weights[term.name] * cost
        return LossValues(values)


class TrialRun(eqx.Module):
    """One trial of a training batch, to be run step by step.

    - `model`, `loss`: as of `StepRun`.
    - `trial`: the trial.
    - `key`: the key with which it is simulated.
    """

    model: AbstractModel
    loss: Loss
    trial: Trial
    key: Key[Array, ""]

    def start(self, params: PyTree) -> PyTree[Array]:
        """Return the state before the first step."""
        return initial_state(eqx.combine(params, self.model), self.trial, key=self.key)

    def at(self, number: Int[Array, ""]) -> StepRun:
        """Return a time step by its number."""
        step_key = jax.random.fold_in(key_stream(self.key, STEPS), number)
        return StepRun(self.model, self.loss, self.trial, number, step_key)

    def scan(
        self, function: Callable[[Any, StepRun], tuple[Any, PyTree[Array]]], carry: PyTree[Array]
    ) -> tuple[PyTree[Array], PyTree[Array]]:
        """Run the time steps in order, as `jax.lax.scan` does.

        **Arguments:**

        - `function`: from the carry and a time step to the next carry and to what is stacked.
        - `carry`: the first carry.
        """
        numbers = jnp.arange(self.trial.timeline.n_steps)
        return jax.lax.scan(lambda carry, number: function(carry, self.at(number)), carry, numbers)


class BatchRun(eqx.Module):
    """The trials of a training batch of one member, to be run with any values of the trained parameters.

    `run(params)` simulates all trials, each with its own key, and returns the `TrainedBatch`. It may be
    differentiated, in forward or reverse mode, and mapped over parameters by `jax.vmap`. It holds the whole
    batch in memory; `run.map_minibatches` holds one of the `n_minibatches` at a time.

    - `model`: the model with the present parameters.
    - `trials`: the trials; leaves have a leading axis (trial,).
    - `keys`: the key with which each trial is simulated.
    - `loss`: the loss of this batch.
    - `number`: the number of the training batch.
    - `n_minibatches`: the number of parts into which `map_minibatches` divides the batch.
    - `remat`: whether derivatives recompute each time step.
    - `keeps_states`: whether `run(params).states` are kept, for a model update; else they are None.

    `in_turn` runs trials one after the other and step by step, for gradients that need more than the loss;
    `popsim.training.rules.AbstractOnlineGradient` runs them side by side.
    """

    model: AbstractModel
    trials: Trial
    keys: Key[Array, " trial"]
    loss: Loss
    number: Int[Array, ""]
    n_minibatches: int = eqx.field(static=True, default=1)
    remat: bool = eqx.field(static=True, default=False)
    keeps_states: bool = eqx.field(static=True, default=False)

    def __call__(self, params: PyTree) -> TrainedBatch:
        """Run the trials.

        **Arguments:**

        - `params`: parameters in the structure of the model. Where it is None the model's own are used.
        """
        model = eqx.combine(params, self.model)

        def one_trial(trial: Trial, key: Key[Array, ""]) -> tuple[Any, Any]:
            states = simulate(model, trial, remat=self.remat, key=key)
            return states if self.keeps_states else None, self.loss(states, trial, model)

        return self.batch(model, *map_trials(one_trial, self.trials, self.keys))

    def in_turn(
        self, function: Callable[[Any, TrialRun], tuple[Any, PyTree[Array]]], carry: PyTree[Array]
    ) -> tuple[PyTree[Array], PyTree[Array]]:
        """Run one trial after the other, as `jax.lax.scan` does; see `TrialRun.scan`."""
        self.check_steps()
        run_of = functools.partial(TrialRun, self.model, self.loss)
        return jax.lax.scan(lambda carry, of: function(carry, run_of(*of)), carry, (self.trials, self.keys))

    def batch(self, model: AbstractModel, states: PyTree[Array], losses: LossValues) -> TrainedBatch:
        """Return the batch of trials, after they were run by this or by other means.

        **Arguments:**

        - `model`: the model that ran them.
        - `states`: the recorded states, with axes (trial, time); None unless `keeps_states`.
        - `losses`: the weighted terms of each trial.
        """
        initial_states = None
        if self.keeps_states:
            initial_states = jax.vmap(lambda trial, key: initial_state(model, trial, key=key))(
                self.trials, self.keys
            )
        return TrainedBatch(
            model, self.trials, self.keys, initial_states, states, losses, self.loss, self.number
        )

    def check_steps(self) -> None:
        """Raise `ValueError` unless trials have a fixed number of time steps that follow from a start."""
        for what, part in (("sessions", self.trials.session), ("an environment", self.trials.environment)):
            if part is not None:
                raise ValueError(
                    f"`task` must have single trials without an environment for a gradient that is computed "
                    f"step by step, got {what}."
                )

    def map_minibatches(
        self, function: Callable[["BatchRun"], tuple[PyTree[Array], TrainedBatch]]
    ) -> tuple[PyTree[Array], TrainedBatch]:
        """Apply a function to each of the `n_minibatches` equal parts, with one part in memory at a time.

        **Arguments:**

        - `function`: from the run of a part to arrays that are means over its trials, such as gradients, and
            what the run returned for the present parameters.

        **Returns:** the means of the arrays over the parts, and the whole batch.
        """
        if self.n_minibatches == 1:
            return function(self)

        def of_part(part: tuple[Trial, Key[Array, " trial"]]) -> tuple[PyTree[Array], tuple[Any, Any]]:
            trials, keys = part
            means, batch = function(dataclasses.replace(self, trials=trials, keys=keys, n_minibatches=1))
            return means, (batch.states, batch.losses)

        # `function` differentiates within a turn of the scan, so that what one part stores for its derivative
        # is gone before the next one runs. A derivative of the whole scan would store all of them.
        sums, outcomes = sum_over_parts(of_part, split_batch((self.trials, self.keys), self.n_minibatches))
        states, losses = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), outcomes)
        # Equal parts: the mean over the batch is the mean of their means.
        means = jax.tree.map(lambda leaf: leaf / self.n_minibatches, sums)
        return means, self.batch(self.model, states, losses)

    def mean_loss(self, params: PyTree) -> Float[Array, ""]:
        """Return the mean loss over the batch, with one part in memory at a time even in derivatives."""
        if self.n_minibatches == 1:
            return self(params).mean_loss

        def of_part(part: tuple[Trial, Key[Array, " trial"]]) -> Float[Array, ""]:
            trials, keys = part
            return dataclasses.replace(self, trials=trials, keys=keys)(params).mean_loss

        parts = split_batch((self.trials, self.keys), self.n_minibatches)
        # A line search differentiates this from outside, where the loop would store every part: each is
        # recomputed in the backward pass instead.
        return jnp.mean(jax.lax.map(jax.checkpoint(of_part), parts))


def sum_over_parts(
    function: Callable[[Any], tuple[PyTree[Array], PyTree[Array]]], parts: PyTree[Array]
) -> tuple[PyTree[Array], PyTree[Array]]:
    """Return the sums over parts of what a function returns first, and the stacks of what it returns then."""
    # A scan needs its sums before the first part; only shapes are evaluated here.
    shapes, _ = jax.eval_shape(function, jax.tree.map(lambda leaf: leaf[0], parts))
    zeros = jax.tree.map(lambda shape: jnp.zeros(shape.shape, shape.dtype), shapes)

    def add_part(sums: PyTree[Array], part: Any) -> tuple[PyTree[Array], PyTree[Array]]:
        part_sum, outcome = function(part)
        return jax.tree.map(jnp.add, sums, part_sum), outcome

    return jax.lax.scan(add_part, zeros, parts)


def split_batch(batch: PyTree[Array], num_minibatches: int) -> PyTree[Array]:
    """Return arrays with axes (part, example, ...)."""
    check_positive_int("num_minibatches", num_minibatches)
    sizes = {leaf.shape[0] for leaf in jax.tree.leaves(batch)}
    if len(sizes) != 1 or min(sizes) % num_minibatches:
        raise ValueError(
            f"`batch` must divide into {num_minibatches} equal minibatches, got leading axes {sorted(sizes)}."
        )
    return jax.tree.map(lambda leaf: leaf.reshape(num_minibatches, -1, *leaf.shape[1:]), batch)
