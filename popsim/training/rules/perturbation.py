"""Learning by perturbation of nodes or weights."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, DTypeLike, Float, Int, Key, PyTree

from popsim._shared.checks import as_float_array, check_positive
from popsim.model import AbstractModel, simulate
from popsim.randomness import key_stream, trial_keys
from popsim.training.rules.synapses import AbstractSynapticRule, Synapses
from popsim.training.steps.model_updates import TrainedBatch
from popsim.trial import StepInput, Trial

__all__ = ["NodePerturbation", "PerturbedNodes", "WeightPerturbation"]


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
    total loss of the trial with xi, E(0) without it: the same trial, run with the same key, so that all other
    noise is the same. pre is taken from the trial without xi. For small std the expectation is -rate times
    the gradient of the mean loss. Werfel, Xie & Seung 2005, Neural Comput 17:2699-2718.

    The simulation of a training batch is repeated once.

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
    """A model whose units receive an additional input: row t of `added` at step t.

    It records what the model itself records.

    **Arguments:**

    - `model`: the model.
    - `synapses`: their `where_bias` selects the units.
    - `added`: the input.
    """

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

    Each trial draws one psi ~ N(0, std²) per weight. E is the total loss of the trial, run with the same key,
    so that all other noise is the same. For small std the expectation is -rate times the gradient of the mean
    loss; its variance is larger than that of `NodePerturbation` if there are more weights than units in a
    trial. Werfel, Xie & Seung 2005, Neural Comput 17:2699-2718.

    The simulation of a training batch is repeated once, each trial with its own weights.

    **Arguments:**

    - `synapses`: the weights, such as `recurrent_synapses()`; no activity is read.
    - `rate`: the learning rate; an array leaf.
    - `std`: the standard deviation of the perturbation, in the unit of the weights; an array leaf.
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
