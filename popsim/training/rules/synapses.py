"""The synapses on which learning rules act."""

import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from popsim._shared.argument_shapes import check_fields
from popsim._shared.checks import as_float_array, check_non_negative
from popsim.model import AbstractModel
from popsim.networks import AbstractNetwork, NetworkStep, Projection
from popsim.parameters import picked_parameters
from popsim.training.steps.model_updates import AbstractModelUpdate, TrainedBatch
from popsim.trial import Trial

__all__ = [
    "TrialActivity",
    "Synapses",
    "AbstractSynapticRule",
    "network_steps",
    "recurrent_synapses",
    "input_synapses",
    "readout_synapses",
]


class TrialActivity(eqx.Module):
    """One trial of a training batch, from which activity is read; see `TrainedBatch`."""

    model: AbstractModel
    trial: Trial
    initial_state: PyTree[Array]  # before the first time step
    states: PyTree[Array]  # those recorded; the first axis is time


def _all_rows(model: Any) -> slice:
    return slice(None)


class Synapses(eqx.Module):
    """Weights W[post, pre] of a model, and the activity on both sides.

    For the networks of popsim see `recurrent_synapses`, `input_synapses` and `readout_synapses`. For the
    weights of any other model:

    ```python
    Synapses(
        lambda model: model.weights,
        pre=lambda activity: activity.trial.inputs["x"],
        post=lambda activity: activity.states.y,
    )
    ```

    All functions are static; functions of the model may depend on its structure, not on its numbers.

    **Arguments:**

    - `where`: selects one array W[post, pre] of the model.
    - `pre`, `post`: functions from a `TrialActivity` to the activity of the presynaptic units, [time, pre],
        and of the postsynaptic ones, [time, post]. Needed only for rules that read it.
    - `rows`: from the model to the rows of the array that the rule acts on; by default all.
    - `where_bias`: selects the array of the model that shifts the input of the postsynaptic units, for rules
        that perturb it.
    - `bias_rows`: from the model to the rows of the bias that belong to the postsynaptic units.
    - `zero_diagonal`: whether to leave the weights of units on themselves unchanged.
    """

    where: Callable[[Any], Array] = eqx.field(static=True)
    pre: Callable[[TrialActivity], Array] | None = eqx.field(static=True, default=None, kw_only=True)
    post: Callable[[TrialActivity], Array] | None = eqx.field(static=True, default=None, kw_only=True)
    rows: Callable[[Any], slice] = eqx.field(static=True, default=_all_rows, kw_only=True)
    where_bias: Callable[[Any], Array] | None = eqx.field(static=True, default=None, kw_only=True)
    bias_rows: Callable[[Any], slice] = eqx.field(static=True, default=_all_rows, kw_only=True)
    zero_diagonal: bool = eqx.field(static=True, default=False, kw_only=True)

    def weights(self, model: AbstractModel) -> Float[Array, "post pre"]:
        """Return the weights that the rule acts on."""
        array = self.where(model)
        if not eqx.is_inexact_array(array) or array.ndim != 2:
            raise ValueError(f"`where` of Synapses must pick one matrix W[post, pre], got {array!r}.")
        return array[self.rows(model)]

    def pre_activity(self, batch: TrainedBatch) -> Float[Array, "trial time pre"]:
        """Return the activity of the presynaptic units in a batch."""
        return self._activity("pre", self.pre, batch, axis=1)

    def post_activity(self, batch: TrainedBatch) -> Float[Array, "trial time post"]:
        """Return the activity of the postsynaptic units in a batch."""
        return self._activity("post", self.post, batch, axis=0)

    def _activity(
        self, name: str, read: Callable[[TrialActivity], Array] | None, batch: TrainedBatch, *, axis: int
    ) -> Array:
        if read is None:
            raise ValueError(f"`{name}` of Synapses must be given for a rule that reads it, got None.")

        def of_trial(trial, initial_state, states):
            return read(TrialActivity(batch.model, trial, initial_state, states))

        activity = jax.vmap(of_trial)(batch.trials, batch.initial_states, batch.states)
        expected = (batch.trials.timeline.n_steps, self.weights(batch.model).shape[axis])
        if activity.shape[1:] != expected:
            raise ValueError(
                f"`{name}` of Synapses must return activity of shape (time, {name}) = {expected}, "
                f"got {activity.shape[1:]}."
            )
        return activity

    def update(self, model: AbstractModel, change: Float[Array, "post pre"]) -> PyTree:
        """Return `change` as an update of the whole model: None elsewhere, zero in the other rows."""
        if self.zero_diagonal:
            if change.shape[0] != change.shape[1]:
                raise ValueError(f"`zero_diagonal` of Synapses needs square weights, got {change.shape}.")
            change = jnp.where(jnp.eye(change.shape[0], dtype=bool), 0, change)
        full = jnp.zeros_like(self.where(model)).at[self.rows(model)].set(change)
        picked = picked_parameters(model, self.where, argument="`where` of Synapses")
        return jax.tree.map(lambda is_picked: full if is_picked else None, picked)

    def with_input(self, model: AbstractModel, shift: Float[Array, " post"]) -> Any:
        """Return the model with `shift` added to the input of the postsynaptic units."""
        where_bias = self.where_bias
        if where_bias is None:
            raise ValueError("`where_bias` of Synapses must be given for a rule that perturbs units.")
        return eqx.tree_at(where_bias, model, where_bias(model).at[self.bias_rows(model)].add(shift))


class AbstractSynapticRule(AbstractModelUpdate):
    """Base class of rules that change synapses at a learning rate.

    **Arguments:**

    - `synapses`: the weights and the activity on both sides, such as `recurrent_synapses()`.
    - `rate`: the learning rate; an array leaf.
    """

    synapses: Synapses
    rate: Float[Array, ""] = eqx.field(converter=as_float_array)

    def __check_init__(self):
        check_fields(self)
        check_non_negative("rate", self.rate)


def network_steps(activity: TrialActivity) -> NetworkStep:
    """Return the steps of the network of a `NetworkModel` or a `SensorimotorLoop` in a trial.

    In a session that does not carry the hidden state, each trial begins with that of the first.

    **Returns:** its inputs, and its hidden state before and after each step; the first axis is time.
    """
    model: Any = activity.model
    # What is not recorded of the states must not be in the first of them either.
    first = model.record(activity.initial_state).network.hidden
    hidden = activity.states.network.hidden
    before = jax.tree.map(lambda start, row: jnp.concatenate([start[None], row[:-1]]), first, hidden)
    session = activity.trial.session
    if session is not None and "hidden" not in session.carry:
        n_steps = session.trials.timeline.n_steps
        before = jax.tree.map(lambda start, row: row.at[::n_steps].set(start), first, before)
    unit_input = getattr(activity.states, "unit_input", None)
    return NetworkStep(model.network_inputs(activity.states, activity.trial), before, hidden, unit_input)


def recurrent_synapses(*, zero_diagonal: bool = False) -> Synapses:
    """Return the recurrent weights of a network; pre is the activity one step before post.

    For a `LeakyRNN` the activity is the rate f(x). For a `GRUNetwork` the weights are those of the candidate
    activation, which is post; pre is the hidden units before the step. A custom network needs `projections`,
    and a model with `network` and `network_inputs`, like `NetworkModel` or `SensorimotorLoop`.

    **Arguments:**

    - `zero_diagonal`: whether to leave the weights of units on themselves unchanged.
    """
    return _network_synapses("recurrent", zero_diagonal)


def input_synapses() -> Synapses:
    """Return the weights from the scaled inputs of a network to its units; see `recurrent_synapses`."""
    return _network_synapses("input", False)


def readout_synapses() -> Synapses:
    """Return the weights from the units of a network to its noise-free output; see `recurrent_synapses`."""
    return _network_synapses("readout", False)


@functools.cache
def _network_synapses(name: str, zero_diagonal: bool) -> Synapses:
    """Return the synapses. Cached, as JAX compiles again for a new function object."""

    def where(model: Any) -> Any:
        return _projection(model, name).where(model.network)

    def where_bias(model: Any) -> Any:
        bias = _projection(model, name).where_bias
        if bias is None:
            raise ValueError(f"`network` must have a bias for its projection {name!r}, to be perturbed.")
        return bias(model.network)

    def pre(activity: TrialActivity) -> Array:
        model: Any = activity.model
        read = _projection(model, name).pre
        return jax.vmap(lambda step: read(model.network, step))(network_steps(activity))

    def post(activity: TrialActivity) -> Array:
        model: Any = activity.model
        read = _projection(model, name).post

        def at_step(step: NetworkStep) -> Array:
            return read(model.network.with_unit_input(step.unit_input), step)

        return jax.vmap(at_step)(network_steps(activity))

    return Synapses(
        where,
        pre=pre,
        post=post,
        rows=lambda model: _projection(model, name).rows,
        where_bias=where_bias,
        bias_rows=lambda model: _projection(model, name).bias_rows,
        zero_diagonal=zero_diagonal,
    )


def _projection(model: Any, name: str) -> Projection:
    network = getattr(model, "network", None)
    if not isinstance(network, AbstractNetwork) or not hasattr(model, "network_inputs"):
        raise ValueError(
            f"`model` must have `network` and `network_inputs`, as NetworkModel and SensorimotorLoop have, "
            f"got {type(model).__name__}. For other models give the rule `Synapses` of your own."
        )
    projections = network.projections()
    if name not in projections:
        raise ValueError(
            f"`projections` of {type(network).__name__} must hold {name!r}, got {sorted(projections)}."
        )
    return projections[name]
