"""Recursive least squares while a trial runs: FORCE and full-FORCE."""

import abc
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PyTree

from popsim._shared.argument_shapes import check_fields
from popsim._shared.checks import (
    as_float_array,
    check_non_negative,
    check_positive,
    check_positive_int,
    short_repr,
)
from popsim.loss import LossValues
from popsim.model import AbstractModel
from popsim.network_input import inputs_by_name, network_input
from popsim.networks import AbstractNetwork, LeakyRNN, NetworkStep, VanillaRNN
from popsim.networks.base import Hidden, Units
from popsim.randomness import key_stream, seed_key
from popsim.training.rules.online import random_arrays
from popsim.training.steps.batch_runs import BatchRun, StepRun, TrialRun
from popsim.training.steps.gradients import AbstractGradient
from popsim.training.steps.model_updates import TrainedBatch
from popsim.trial import OutputTarget
from popsim.windows import AbstractWindow, WholeTrial

__all__ = ["FORCE", "FullFORCE"]


class AbstractLeastSquares(AbstractGradient):
    """Fits weights by recursive least squares while trials run, one after the other.

    All of the weights read the same rates r. A subclass names the projections that learn, and supplies
    `errors`, and `draw_driven` if another network, which is driven, tells it what they should be.
    """

    returns_change = True
    learned: ClassVar[tuple[str, ...]]
    alpha: Float[Array, ""] = eqx.field(converter=as_float_array, default=1.0, kw_only=True)
    every: int = eqx.field(static=True, default=2, kw_only=True)
    window: AbstractWindow = eqx.field(default=WholeTrial(), kw_only=True)

    def __check_init__(self):
        check_fields(self)
        check_positive("alpha", self.alpha)
        check_positive_int("every", self.every)

    def init(self, params: PyTree, model: AbstractModel, *, key: Key[Array, ""]) -> PyTree[Array]:
        name, network = type(self).__name__, getattr(model, "network", None)
        projections = network.projections() if isinstance(network, AbstractNetwork) else {}
        if hasattr(model, "plant") or not set(self.learned) <= set(projections):
            raise ValueError(
                f"`model` must be a NetworkModel whose network has the projections {list(self.learned)} for "
                f"{name}, got {short_repr(model)}."
            )
        _check_linear(network, name)
        P = jnp.eye(len(self._fitted(params, model)[0].T)) / self.alpha
        return P, self.draw_driven(model, key)

    def draw_driven(self, model: AbstractModel, key: Key[Array, ""]) -> PyTree[Array]:
        """Return what describes the driven network; by default there is none."""

    @abc.abstractmethod
    def errors(
        self, at: StepRun, network: AbstractNetwork, hidden: Hidden, rates: Units, driven: Any
    ) -> tuple[tuple[Array, ...], Hidden]:
        """Return by how much each of the weights is off before a step, and the driven network after it."""

    def _select(self, tree: Any, model: Any) -> tuple[Any, ...]:
        """Return what stands in place of the weights that learn."""
        return tuple(model.network.projections()[name].where(tree.network) for name in self.learned)

    def _fitted(self, params: PyTree, model: AbstractModel) -> tuple[Array, ...]:
        """Return the weights that learn, which are all that is trained."""
        fitted = self._select(params, model)
        if any(each is None for each in fitted) or len(jax.tree.leaves(params)) != len(fitted):
            raise ValueError(
                f"`where_train` must select the weights that {type(self).__name__} learns, those of "
                f"{list(self.learned)}, and nothing else, not even a bias."
            )
        return fitted

    def __call__(
        self, run: BatchRun, params: PyTree, carry: PyTree[Array], *, key: Key[Array, ""]
    ) -> tuple[PyTree, TrainedBatch, PyTree[Array]]:
        if run.n_minibatches != 1:
            raise ValueError(f"`n_minibatches` must be 1 for {type(self).__name__}, got {run.n_minibatches}.")
        if not isinstance(run.trials.targets, OutputTarget):
            raise ValueError(
                f"`targets` of the trials must be an OutputTarget for {type(self).__name__}, got a "
                f"{type(run.trials.targets).__name__}."
            )
        P, drawn = carry
        model: Any = run.model
        reader = model.network.projections()["readout"].pre

        def with_weights(weights: tuple[Array, ...]) -> PyTree:
            return eqx.tree_at(lambda params: self._select(params, model), params, weights)

        def of_trial(learner: tuple[tuple[Array, ...], Array], trial: TrialRun) -> Any:
            timeline, counts = trial.trial.timeline, trial.trial.targets.counts
            has_target = jnp.any(counts.reshape(timeline.n_steps, -1) > 0, axis=1)
            is_on = self.window(timeline) & has_target & (jnp.arange(timeline.n_steps) % self.every == 0)

            def step(carry: Any, at: StepRun) -> tuple[Any, PyTree[Array]]:
                state, driven, weights, P, costs = carry
                network = eqx.combine(with_weights(weights), model).network
                hidden = state.network.hidden
                received = jnp.zeros(network.n_inputs, P.dtype)
                rates = reader(network, NetworkStep(received, hidden, hidden))
                errors, driven = self.errors(at, network, hidden, rates, (drawn, driven))
                # An error is known one step late: before the first step nothing was put out.
                learns = (at.number > 0) & is_on[at.number - 1]
                direction = P @ rates
                gain = jnp.where(learns, 1 / (1 + rates @ direction), 0.0)
                weights = tuple(
                    own - gain * jnp.outer(error, direction)
                    for own, error in zip(weights, errors, strict=True)
                )
                P = P - gain * jnp.outer(direction, direction)
                now = with_weights(weights)
                after = at.advance(now, state)
                costs = jax.tree.map(jnp.add, costs, at.costs(now, after))
                recorded = run.model.record(after) if run.keeps_states else None
                return (after, driven, weights, P, costs), recorded

            start = trial.start(with_weights(learner[0]))
            nothing = LossValues({term.name: jnp.zeros(()) for term in run.loss.terms})
            (_, _, weights, P, costs), states = trial.scan(
                step, (start, start.network.hidden, *learner, nothing)
            )
            return (weights, P), (states, costs)

        before = self._fitted(params, model)
        (weights, P), (states, costs) = run.in_turn(of_trial, (before, P))
        change = tuple(new - old for new, old in zip(weights, before, strict=True))
        return with_weights(change), run.batch(eqx.combine(params, model), states, costs), (P, drawn)


class FORCE(AbstractLeastSquares):
    """The readout follows its target by recursive least squares (Sussillo & Abbott 2009, Neuron 63:544-557).

    With r the rates, W the weights of the readout and e the error before the change, W changes by -e (P r)' /
    (1 + r' P r), and P by -P r r' P / (1 + r' P r). P starts as I / alpha. Errors stay small from the first
    steps on, so that a network whose output comes back to it (`popsim.networks.FeedbackRNN`) is near its
    target while it learns. That says
    nothing of the frozen network, which has to find its target alone. Tests compare it with NumPy.

    Trials are learned one after the other, and P is kept from batch to batch. The trainer takes no optimizer:
    `TaskTrainer(gradient=FORCE())`, with `where_train=lambda model: model.network.readout.weight`. The loss
    of a batch is that of the trials while they learn.

    **Arguments:**

    - `alpha`: the inverse of a learning rate: large for small changes at first.
    - `every`: W changes at every so many time steps.
    - `window`: the time steps of the trial at which it learns, where the target counts.
    """

    learned = ("readout",)

    def errors(self, at, network, hidden, rates, driven):
        return (network.read_out(hidden) - _target(at, at.number - 1),), driven[1]


class FullFORCE(AbstractLeastSquares):
    """All recurrent weights learn what a driven network of random weights sends (DePasquale et al. 2018).

    A second network has random recurrent weights J, and receives the target y beside the inputs. The one that
    learns fits its recurrent weights W to W r = J r_D + u y, with r_D the rates of the driven network, and
    its readout to y, by recursive least squares (PLoS ONE 13:e0191527). Tests compare it with NumPy. See
    `FORCE`.

    `where_train` selects the recurrent weights and those of the readout. Rates that stay at zero teach
    nothing: a network that starts at rest needs inputs, or a start as of a `FeedbackRNN`.

    **Arguments:**

    - `gain`: the standard deviation of J times sqrt(n_units). J and u, which is uniform from -1 to 1, are
        drawn for each member.
    - `alpha`, `every`, `window`: as of `FORCE`.
    """

    learned = ("recurrent", "readout")
    gain: Float[Array, ""] = eqx.field(converter=as_float_array, default=1.5)

    def __check_init__(self):
        check_non_negative("gain", self.gain)

    def draw_driven(self, model: AbstractModel, key: Key[Array, ""]) -> PyTree[Array]:
        network: Any = getattr(model, "network", None)
        if not isinstance(network, LeakyRNN | VanillaRNN) or getattr(network, "plasticity", None) is not None:
            raise ValueError(
                "`model.network` must be a LeakyRNN or a VanillaRNN without plasticity for FullFORCE, got a "
                f"{type(network).__name__}."
            )
        recurrent, readout = network.recurrent_weights, network.readout.weight
        weights = jax.random.normal(key_stream(key, "driven network"), recurrent.shape, recurrent.dtype)
        drive = jax.random.uniform(key_stream(key, "drive"), readout.T.shape, readout.dtype, -1.0, 1.0)
        return self.gain * weights / jnp.sqrt(recurrent.shape[0]), drive

    def errors(self, at, network, hidden, rates, driven):
        (weights, drive), state = driven
        pushed = drive @ _target(at, at.number)
        received = jax.tree.map(lambda leaf: leaf[at.number], at.trial.inputs)
        received = network_input(inputs_by_name(received), {}, {})
        recurrent = network.projections()["recurrent"]
        sent = weights @ recurrent.pre(network, NetworkStep(received, state, state))
        pushed_network = eqx.tree_at(recurrent.where, network, weights).with_unit_input(pushed)
        next_state = pushed_network.step(received, state, key=key_stream(at.key, "driven network"))
        too_much = recurrent.where(network) @ rates - (sent + pushed)
        return (too_much, network.read_out(hidden) - _target(at, at.number - 1)), next_state


def _check_linear(network: Any, name: str) -> None:
    """Raise `ValueError` unless the output is W r + b, with r what the readout's projection says it reads."""
    with jax.ensure_compile_time_eval():
        network = random_arrays(network, low=0.5)
        hidden = random_arrays(network.init(key=seed_key(0)), low=-0.5)
        readout = network.projections()["readout"]
        rates = readout.pre(network, NetworkStep(jnp.zeros(network.n_inputs), hidden, hidden))
        silent = eqx.tree_at(readout.where, network, replace_fn=jnp.zeros_like)
        change = network.read_out(hidden) - silent.read_out(hidden)
        if not np.allclose(change, readout.where(network) @ rates, rtol=1e-4, atol=1e-6):
            raise ValueError(
                f"the output of `model.network` must be linear in its rates for {name}, so without "
                f"`output_fn`, got a {type(network).__name__}."
            )


def _target(at: StepRun, number: Array) -> Float[Array, " output"]:
    return at.trial.targets.values[number]
