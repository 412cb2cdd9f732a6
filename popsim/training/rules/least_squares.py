"""Recursive least squares while a trial runs: FORCE and full-FORCE."""

import abc
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from popsim._shared.argument_shapes import check_fields
from popsim._shared.checks import as_float_array, check_positive, check_positive_int, short_repr
from popsim.loss import LossValues
from popsim.model import AbstractModel
from popsim.network_input import inputs_by_name, network_input
from popsim.networks import AbstractNetwork, NetworkStep
from popsim.networks.base import Hidden, Units
from popsim.networks.building import check_gain
from popsim.randomness import key_stream
from popsim.training.steps.batch_runs import BatchRun, StepRun, TrialRun
from popsim.training.steps.gradients import AbstractGradient
from popsim.training.steps.model_updates import TrainedBatch
from popsim.trial import OutputTarget
from popsim.windows import AbstractWindow, WholeTrial

__all__ = ["FORCE", "FullFORCE"]


class _LeastSquares(AbstractGradient):
    """Fits weights by recursive least squares while trials run, one after the other.

    All of the weights read the same rates r. A subclass names the projections that learn, and supplies
    `errors`, and `start_other` and `step_other` if another network tells it what they should be.
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
        if getattr(network, "output_fn", None) is not None:
            raise ValueError(
                f"`output_fn` of `model.network` must be None for {name}, whose output is linear."
            )
        fitted = self._fitted(params, model)
        if None in fitted or len(jax.tree.leaves(params)) != len(fitted):
            raise ValueError(
                f"`where_train` must select the weights that {name} learns, those of {list(self.learned)}, "
                "and nothing else, not even a bias."
            )
        return jnp.eye(fitted[0].shape[-1], dtype=fitted[0].dtype) / self.alpha, self.draw_other(model, key)

    def draw_other(self, model: AbstractModel, key: Key[Array, ""]) -> PyTree[Array]:
        """Return what describes the other network; by default there is none."""

    def start_other(self, hidden: Hidden) -> Hidden:
        """Return the hidden state of the other network, from that of the one which learns."""

    @abc.abstractmethod
    def errors(
        self, at: StepRun, network: AbstractNetwork, hidden: Hidden, rates: Units, other: Any
    ) -> tuple[tuple[Array, ...], Hidden]:
        """Return what each of the weights puts out too much before a step, and the other network after it."""

    def _fitted(self, tree: Any, model: Any) -> tuple[Any, ...]:
        projections = model.network.projections()
        return tuple(projections[name].where(tree.network) for name in self.learned)

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
        P, description = carry
        model: Any = run.model
        reader = model.network.projections()["readout"].pre

        def with_weights(weights: tuple[Array, ...]) -> PyTree:
            return eqx.tree_at(lambda tree: self._fitted(tree, run.model), params, weights)

        def of_trial(learner: tuple[tuple[Array, ...], Array], trial: TrialRun) -> Any:
            is_on = self.window(trial.trial.timeline) & (
                jnp.arange(trial.trial.timeline.n_steps) % self.every == 0
            )

            def step(carry: Any, at: StepRun) -> tuple[Any, PyTree[Array]]:
                state, other, weights, P, costs = carry
                network = eqx.combine(with_weights(weights), model).network
                hidden = state.network.hidden
                received = jnp.zeros(network.n_inputs, P.dtype)
                rates = reader(network, NetworkStep(received, hidden, hidden))
                errors, other = self.errors(at, network, hidden, rates, (description, other))
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
                return (after, other, weights, P, costs), recorded

            start = trial.start(with_weights(learner[0]))
            other = self.start_other(start.network.hidden)
            nothing = LossValues({term.name: jnp.zeros(()) for term in run.loss.terms})
            (_, _, weights, P, costs), states = trial.scan(step, (start, other, *learner, nothing))
            return (weights, P), (states, costs)

        before = self._fitted(params, run.model)
        (weights, P), (states, costs) = run.in_turn(of_trial, (before, P))
        change = tuple(new - old for new, old in zip(weights, before, strict=True))
        return with_weights(change), run.batch(params, states, costs), (P, description)


class FORCE(_LeastSquares):
    """The readout follows its target by recursive least squares (Sussillo & Abbott 2009, Neuron 63:544-557).

    With r the rates, W the weights of the readout and e the error before the change, W changes by -e (P r)' /
    (1 + r' P r), and P by -P r r' P / (1 + r' P r). P starts as I / alpha. Errors stay small from the first
    steps on, so that a network whose output comes back to it (`popsim.networks.FeedbackRNN`) is near its
    target while it learns. That says nothing of the frozen network, which has to find its target alone. Checked against a public implementation, and by tests against NumPy.

    Trials are learned one after the other, and P is kept from batch to batch. The trainer takes no optimizer:
    `TaskTrainer(gradient=FORCE())`, with `where_train=lambda model: model.network.readout.weight`. The loss
    of a batch is that of the trials while they learn; where targets count after `window` only, it is that of
    the frozen network.

    **Arguments:**

    - `alpha`: the inverse of a learning rate: large for small changes at first.
    - `every`: W changes at every so many time steps.
    - `window`: the time steps of the trial at which it learns.
    """

    learned = ("readout",)

    def errors(self, at, network, hidden, rates, other):
        return (network.read_out(hidden) - _target(at, at.number - 1),), None


class FullFORCE(_LeastSquares):
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
    gain: float = 1.5

    def __check_init__(self):
        check_gain("gain", self.gain)

    def draw_other(self, model: AbstractModel, key: Key[Array, ""]) -> PyTree[Array]:
        recurrent, readout = self._fitted(model, model)
        weights = jax.random.normal(key_stream(key, "driven network"), recurrent.shape, recurrent.dtype)
        drive = jax.random.uniform(key_stream(key, "drive"), readout.T.shape, readout.dtype, -1.0, 1.0)
        return self.gain * weights / jnp.sqrt(recurrent.shape[0]), drive

    def start_other(self, hidden: Hidden) -> Hidden:
        return hidden

    def errors(self, at, network, hidden, rates, other):
        (weights, drive), driven = other
        pushed = drive @ _target(at, at.number)
        received = jax.tree.map(lambda leaf: leaf[at.number], at.trial.inputs)
        received = network_input(inputs_by_name(received), {}, {})
        recurrent = network.projections()["recurrent"]
        sent = weights @ recurrent.pre(network, NetworkStep(received, driven, driven))
        other_network = eqx.tree_at(recurrent.where, network, weights).with_unit_input(pushed)
        next_driven = other_network.step(received, driven, key=key_stream(at.key, "driven network"))
        too_much = recurrent.where(network) @ rates - (sent + pushed)
        return (too_much, network.read_out(hidden) - _target(at, at.number - 1)), next_driven


def _target(at: StepRun, number: Array) -> Float[Array, " output"]:
    return at.trial.targets.values[number]
