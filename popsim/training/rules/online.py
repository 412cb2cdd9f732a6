"""Gradients that are computed while a trial runs, in memory that does not grow with its length."""

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Key, PyTree

from popsim._shared.checks import warn_caller
from popsim.loss import LossValues
from popsim.model import AbstractModel
from popsim.randomness import seed_key
from popsim.training.steps.batch_runs import BatchRun, StepRun, TrialRun
from popsim.training.steps.gradients import AbstractGradient
from popsim.training.steps.model_updates import TrainedBatch

__all__ = ["AbstractOnlineGradient", "RTRL"]

_is_number = eqx.is_inexact_array

MANY_PARAMETERS = 1000
"""The number of parameters above which `RTRL` warns."""


class AbstractOnlineGradient(AbstractGradient):
    """Base class of gradients that are summed over the time steps of a trial while it runs.

    What a trial needs to remember, its traces, is carried from step to step, so that memory does not grow
    with the length of a trial. The weights change once a batch, by the mean over its trials. The loss must be
    a sum over time steps.

    A subclass supplies `begin` and `step`.

    !!! example

        Each weight learns from what it does to the cost of the step at hand; there are no traces:

        ```python
        >>> import jax
        >>> from popsim.training.rules import AbstractOnlineGradient
        >>> class WithinStep(AbstractOnlineGradient):
        ...     def begin(self, start, params):
        ...         return ()
        ...     def step(self, at, params, before, traces):
        ...         def cost(params):
        ...             after = at.advance(params, before)
        ...             return at.costs(params, after).total, after
        ...         gradient, after = jax.grad(cost, has_aux=True)(params)
        ...         return after, traces, gradient

        ```
    """

    @abc.abstractmethod
    def begin(self, start: Callable[[PyTree], PyTree[Array]], params: PyTree) -> PyTree[Array]:
        """Return the traces before the first step of a trial.

        **Arguments:**

        - `start`: from parameters to the state before the first step.
        - `params`: the model with None in place of all that is not trained in this batch.
        """

    @abc.abstractmethod
    def step(
        self, at: StepRun, params: PyTree, before: PyTree[Array], traces: PyTree[Array]
    ) -> tuple[PyTree[Array], PyTree[Array], PyTree]:
        """Return the state after a time step, the next traces, and the gradient of what the step costs.

        **Arguments:**

        - `at`: the time step.
        - `params`: as for `begin`; the gradient has their structure.
        - `before`: the state before the step.
        - `traces`: the traces after the step before.
        """

    def __call__(
        self, run: BatchRun, params: PyTree, carry: PyTree[Array], *, key: Key[Array, ""]
    ) -> tuple[PyTree, TrainedBatch, PyTree[Array]]:
        gradients, batch = run.map_minibatches(lambda part: self._run(part, params))
        return gradients, batch, carry

    def _run(self, run: BatchRun, params: PyTree) -> tuple[PyTree, TrainedBatch]:
        run.check_steps()

        # The loop over time is outside, so that gradients are averaged over trials at each step, and none is
        # held for each trial.
        def begin(trial: Any, key: Key[Array, ""]) -> tuple[PyTree[Array], PyTree[Array]]:
            start = TrialRun(run.model, run.loss, trial, key).start
            return start(params), self.begin(start, params)

        def at_step(carry: Any, number: Array) -> tuple[Any, PyTree[Array]]:
            def of_trial(trial: Any, key: Key[Array, ""], before: Any, traces: Any) -> Any:
                at = TrialRun(run.model, run.loss, trial, key).at(number)
                after, traces, gradient = self.step(at, params, before, traces)
                recorded = run.model.record(after) if run.keeps_states else None
                return after, traces, gradient, at.costs(params, after), recorded

            states, traces, total, costs = carry
            *of_trials, gradient, cost, recorded = jax.vmap(of_trial)(run.trials, run.keys, states, traces)
            total = jax.tree.map(lambda sum, each: sum + jnp.mean(each, axis=0), total, gradient)
            return (*of_trials, total, jax.tree.map(jnp.add, costs, cost)), recorded

        nothing = LossValues({term.name: jnp.zeros(run.keys.shape) for term in run.loss.terms})
        first = (*jax.vmap(begin)(run.trials, run.keys), jax.tree.map(jnp.zeros_like, params), nothing)
        (_, _, total, costs), states = jax.lax.scan(at_step, first, jnp.arange(run.trials.timeline.n_steps))
        states = jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1), states)
        return total, run.batch(eqx.combine(params, run.model), states, costs)


class RTRL(AbstractOnlineGradient):
    """Real-time recurrent learning: the exact gradient, in forward mode.

    The derivative of the whole state by each parameter is carried along, body, delays and synapses included
    (Williams & Zipser 1989, Neural Comput 1:270-280, for any model). It equals back-propagation through
    time, which tests check to rounding, and its time and memory grow with the number of parameters: it is for
    small networks, and for checks.
    """

    def init(self, params: PyTree, model: AbstractModel, *, key: Key[Array, ""]) -> PyTree[Array]:
        n_parameters = sum(leaf.size for leaf in jax.tree.leaves(params))
        if n_parameters > MANY_PARAMETERS:
            warn_caller(
                f"RTRL carries the derivative of the whole state by each of {n_parameters:,} parameters: "
                "time and memory grow with their number. EProp and BackpropThroughTime do without."
            )

    def begin(self, start: Callable[[PyTree], PyTree[Array]], params: PyTree) -> PyTree[Array]:
        weights, unravel = ravel_pytree(params)
        _, push = jax.linearize(lambda weights: eqx.filter(start(unravel(weights)), _is_number), weights)
        return jax.vmap(push)(jnp.eye(weights.size, dtype=weights.dtype))

    def step(
        self, at: StepRun, params: PyTree, before: PyTree[Array], traces: PyTree[Array]
    ) -> tuple[PyTree[Array], PyTree[Array], PyTree]:
        weights, unravel = ravel_pytree(params)
        numbers, rest = eqx.partition(before, _is_number)

        def forward(weights: Array, numbers: PyTree[Array]) -> Any:
            after = at.advance(unravel(weights), eqx.combine(numbers, rest))
            numbers, others = eqx.partition(after, _is_number)
            return (numbers, at.costs(unravel(weights), after).total), others

        (numbers, _), push, others = jax.linearize(forward, weights, numbers, has_aux=True)
        traces, slopes = jax.vmap(push)(jnp.eye(weights.size, dtype=weights.dtype), traces)
        return eqx.combine(numbers, others), traces, unravel(slopes)


def random_arrays(tree: PyTree, *, low: float) -> PyTree:
    """Return a tree with random numbers from `low` to `low` + 1 in place of its numbers, and ones elsewhere.

    Weights are divided by the number of what they read, so that no sum saturates.
    """
    leaves, structure = jax.tree.flatten(tree)

    def draw(number: int, leaf: Any) -> Any:
        if not _is_number(leaf):
            return jnp.ones(leaf.shape, leaf.dtype) if eqx.is_array(leaf) else leaf
        values = jax.random.uniform(seed_key(number), leaf.shape, leaf.dtype, low, low + 1)
        return values / leaf.shape[-1] if leaf.ndim > 1 else values

    return jax.tree.unflatten(structure, [draw(number, leaf) for number, leaf in enumerate(leaves)])
