"""Rules that learn from the loss of each trial: by perturbation of nodes or weights, and by reward."""

import abc
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, DTypeLike, Float, Int, Key, PyTree

from popsim._shared.argument_shapes import check_fields
from popsim._shared.checks import as_float_array, check_fraction, check_positive
from popsim.model import AbstractModel, simulate
from popsim.randomness import key_stream, trial_keys
from popsim.training.rules.hebbian import RunningAverage
from popsim.training.rules.synapses import AbstractSynapticRule, Synapses
from popsim.training.steps.model_updates import TrainedBatch
from popsim.trial import StepInput, Trial

__all__ = [
    "NodePerturbation",
    "PerturbedNodes",
    "WeightPerturbation",
    "AbstractRewardBaseline",
    "RunningBaseline",
    "BatchBaseline",
    "RewardModulatedHebb",
]


def draw_per_trial(
    batch: TrainedBatch, shape: tuple[int, ...], dtype: DTypeLike, *, key: Key[Array, ""]
) -> Float[Array, "trial ..."]:
    """Draw standard normal numbers of a given shape per trial; those of trial i depend on i and `key`."""
    keys = trial_keys(key, batch.keys.shape[0], member_id=None)
    return jax.vmap(lambda trial_key: jax.random.normal(trial_key, shape, dtype))(keys)


def increase_of_loss(
    perturb: Callable[[Array], tuple[AbstractModel, AbstractModel]],
    perturbations: Float[Array, "trial ..."],
    batch: TrainedBatch,
) -> Float[Array, " trial"]:
    """Return the increase of each trial's total loss due to a perturbation, with all other noise the same."""

    def total(trial, key, perturbation):
        runs, model = perturb(perturbation)
        return jnp.asarray(batch.loss(simulate(runs, trial, key=key), trial, model).total)

    return jax.vmap(total)(batch.trials, batch.keys, perturbations) - jnp.asarray(batch.losses.total)


class AbstractPerturbation(AbstractSynapticRule):
    """Base class of rules that perturb trials, and change weights by what that did to their loss."""

    std: Float[Array, ""] = eqx.field(converter=as_float_array, kw_only=True)

    def __check_init__(self):
        check_positive("std", self.std)

    def update(
        self, model: AbstractModel, increase: Float[Array, " trial"], products: Float[Array, "post pre"]
    ) -> PyTree:
        """Return the update; `products` are increase times perturbation, summed over trials."""
        return self.synapses.update(model, -self.rate / self.std**2 * products / increase.size)


class NodePerturbation(AbstractPerturbation):
    """The rule dW = -(rate / std²) <[E(xi) - E(0)] sum_t xi_t pre_t^T>, where < > is the mean over trials.

    At every time step xi_t ~ N(0, std² I) is added to the input of the units through their bias. E(xi) is the
    total loss of the trial with xi, E(0) without it, with the same noise otherwise. pre is taken from the
    trial without xi. For small std the expectation is -rate times the gradient of the mean loss. Werfel, Xie
    & Seung 2005, Neural Comput 17:2699-2718. The simulation of a training batch is repeated once.

    **Arguments:**

    - `synapses`: the weights, with `pre` and `where_bias`, such as `recurrent_synapses()`.
    - `rate`: the learning rate; an array leaf.
    - `std`: the standard deviation of the perturbation, in the unit of the units' input; an array leaf.
    """

    def __call__(
        self, model: AbstractModel, batch: TrainedBatch, state: PyTree[Array], *, key: Key[Array, ""]
    ) -> tuple[PyTree, PyTree[Array]]:
        weights = self.synapses.weights(batch.model)
        shape = (batch.trials.timeline.n_steps, weights.shape[0])
        normal = draw_per_trial(batch, shape, weights.dtype, key=key_stream(key, "node perturbation"))
        xi = self.std * normal

        def perturb(perturbation):
            return PerturbedNodes(batch.model, self.synapses, perturbation), batch.model

        increase = increase_of_loss(perturb, xi, batch)
        products = jnp.einsum("k,kti,ktj->ij", increase, xi, self.synapses.pre_activity(batch))
        return self.update(model, increase, products), state


class PerturbedNodesState(eqx.Module):
    """The state of the perturbed model and the number of steps done."""

    model: PyTree[Array]
    n_steps: Int[Array, ""]


class PerturbedNodes(AbstractModel):
    """A model whose units, those of `synapses`, receive an additional input: row t of `added` at step t."""

    model: AbstractModel
    synapses: Synapses
    added: Float[Array, "time post"]

    def init(self, trial: Trial, *, key: Key[Array, ""]) -> PerturbedNodesState:
        return PerturbedNodesState(self.model.init(trial, key=key), jnp.asarray(0))

    def step(
        self, step_input: StepInput, state: PerturbedNodesState, *, key: Key[Array, ""]
    ) -> PerturbedNodesState:
        perturbed = self.synapses.with_input(self.model, self.added[state.n_steps])
        return PerturbedNodesState(perturbed.step(step_input, state.model, key=key), state.n_steps + 1)

    def record(self, state: PerturbedNodesState) -> PyTree[Array]:
        return self.model.record(state.model)

    def check(self, trials: Trial) -> None:
        self.model.check(trials)


class WeightPerturbation(AbstractPerturbation):
    """The rule dW = -(rate / std²) <[E(W + psi) - E(W)] psi>, where < > is the mean over trials.

    Each trial draws one psi ~ N(0, std²) per weight. E is the total loss of the trial, with the same noise.
    For small std the expectation is -rate times the gradient of the mean loss. Werfel, Xie & Seung 2005,
    Neural Comput 17:2699-2718. The simulation of a training batch is repeated once.

    **Arguments:**

    - `synapses`, `rate`, `std`: as for `NodePerturbation`, in the unit of the weights; no activity is read.
    """

    def __call__(
        self, model: AbstractModel, batch: TrainedBatch, state: PyTree[Array], *, key: Key[Array, ""]
    ) -> tuple[PyTree, PyTree[Array]]:
        weights = self.synapses.weights(batch.model)
        key = key_stream(key, "weight perturbation")
        psi = self.std * draw_per_trial(batch, weights.shape, weights.dtype, key=key)

        def perturb(perturbation):
            model = eqx.apply_updates(batch.model, self.synapses.update(batch.model, perturbation))
            return model, model

        increase = increase_of_loss(perturb, psi, batch)
        return self.update(model, increase, jnp.einsum("k,kij->ij", increase, psi)), state


class AbstractRewardBaseline(eqx.Module):
    """The expected reward of a trial. A subclass supplies `__call__`, and `init` if it has a state.

    !!! example

        ```python
        >>> import jax.numpy as jnp
        >>> from popsim.training.rules import AbstractRewardBaseline
        >>> class BestOfBatch(AbstractRewardBaseline):
        ...     def __call__(self, rewards, state):
        ...         return jnp.max(rewards), state
        >>> BestOfBatch()(jnp.array([-3.0, -1.0]), None)[0].item()
        -1.0

        ```
    """

    def init(self) -> PyTree[Array]:
        """Return the state before the first batch of one member; None by default."""
        return None

    @abc.abstractmethod
    def __call__(
        self, rewards: Float[Array, " trial"], state: PyTree[Array]
    ) -> tuple[Float[Array, ""], PyTree[Array]]:
        """Return the expected reward of each trial of a batch.

        **Arguments:**

        - `rewards`: the rewards of the batch.
        - `state`: the state.

        **Returns:** the expected reward, and the next state.
        """


class RunningBaseline(AbstractRewardBaseline):
    """The running average of the rewards of earlier batches; in the first batch, its own mean.

    **Arguments:**

    - `time_constant`: the time constant of the average, in batches; an array leaf.
    """

    time_constant: Float[Array, ""] = eqx.field(converter=as_float_array)

    def __check_init__(self):
        check_fields(self)
        check_positive("time_constant", self.time_constant)

    def init(self) -> RunningAverage:
        return RunningAverage.zeros_like(jnp.zeros(()))

    def __call__(
        self, rewards: Float[Array, " trial"], state: RunningAverage
    ) -> tuple[Float[Array, ""], RunningAverage]:
        mean = jnp.mean(rewards)
        expected = jnp.where(state.started, state.value, mean)
        return expected, state.with_batch(mean, self.time_constant)


class BatchBaseline(AbstractRewardBaseline):
    """The mean reward over all trials of the batch itself."""

    def __call__(self, rewards: Float[Array, " trial"], state: None) -> tuple[Float[Array, ""], None]:
        if rewards.size < 2:
            raise ValueError("`batch_size` must be at least 2 for BatchBaseline, got 1.")
        return jnp.mean(rewards), state


class RewardModulatedHebb(AbstractSynapticRule):
    """The three-factor rule dW = rate <(R - baseline) e_T>, where < > is the mean over trials.

    e_t = decay e_{t-1} + (post_t - average_{t-1}) pre_t^T, from e_0 = 0 to the last time step T,
    average_t = average_decay average_{t-1} + (1 - average_decay) post_t.

    The trace e accumulates the inputs that were active when units deviated from their recent average. If the
    reward R = -(total loss of the trial) exceeds the baseline, the weights change so that these inputs repeat
    the deviation, which must come from noise of the units, such as `noise_std` of a `LeakyRNN`. average_0 is
    the mean of post_1 over the trials of the batch: with post_1 of the trial itself, all that follows its
    noise would count as a deviation of the opposite sign. The update follows the sign of the gradient, not
    its size; `NodePerturbation` is exact.

    Legenstein, Chase, Schwartz & Maass 2010, J Neurosci 30:8400-8410; Hoerzer, Legenstein & Maass 2014, Cereb
    Cortex 24:677-690; reward at the end of a trial and a trace until then as in Miconi 2017, eLife 6:e20899,
    without the third power.

    **Arguments:**

    - `synapses`, `rate`: as for `AbstractSynapticRule`.
    - `baseline`: the expected reward, such as `RunningBaseline(10)` or `BatchBaseline()`.
    - `decay`: of the trace per time step, from 0 to 1; 1 sums over the trial. An array leaf.
    - `average_decay`: of the average of post per time step, from 0 to 1; an array leaf.
    """

    baseline: AbstractRewardBaseline = eqx.field(kw_only=True)
    decay: Float[Array, ""] = eqx.field(converter=as_float_array, default=1.0, kw_only=True)
    average_decay: Float[Array, ""] = eqx.field(converter=as_float_array, default=0.9, kw_only=True)

    def __check_init__(self):
        check_fraction("decay", self.decay)
        check_fraction("average_decay", self.average_decay)

    def init(self, model: AbstractModel) -> PyTree[Array]:
        return self.baseline.init()

    def __call__(
        self, model: AbstractModel, batch: TrainedBatch, state: PyTree[Array], *, key: Key[Array, ""]
    ) -> tuple[PyTree, PyTree[Array]]:
        rewards = -jnp.asarray(batch.losses.total)
        expected, state = self.baseline(rewards, state)
        pre, post = self.synapses.pre_activity(batch), self.synapses.post_activity(batch)
        traces = jax.vmap(self.trace, in_axes=(0, 0, None))(pre, post, jnp.mean(post[:, 0], axis=0))
        change = jnp.einsum("k,kij->ij", rewards - expected, traces) / rewards.size
        return self.synapses.update(model, self.rate * change), state

    def trace(
        self, pre: Float[Array, "time pre"], post: Float[Array, "time post"], start: Float[Array, " post"]
    ) -> Float[Array, "post pre"]:
        """Return e_T, the eligibility trace at the end of a trial before which the average is `start`."""

        def step(average, now):
            return average + (1 - self.average_decay) * (now - average), now - average

        _, deviations = jax.lax.scan(step, start, post)
        age = jnp.arange(post.shape[0] - 1, -1, -1, dtype=post.dtype)
        return jnp.einsum("t,ti,tj->ij", self.decay**age, deviations, pre)
