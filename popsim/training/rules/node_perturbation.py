"""Node perturbation."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree

from popsim.checks import as_float_array, check_non_negative, check_one_number, check_positive
from popsim.model import AbstractModel
from popsim.randomness import key_stream
from popsim.training.model_updates import AbstractModelUpdate, TrainedBatch
from popsim.training.rules.perturbed_loss import draw_per_trial, increase_of_loss
from popsim.training.rules.synapses import Synapses
from popsim.trial import StepInput, Trial


class NodePerturbation(AbstractModelUpdate):
    """dW = -(rate / std²) <[E(xi) - E(0)] sum_t xi_t pre_t^T>, < > the mean over trials.

    At every time step xi_t ~ N(0, std² I) is added to the input of the units, by way of their bias.
    E(xi) is the total loss of the trial with it, E(0) without: the same trial run with the same key, so
    that all other noise is the same. pre is that of the trial without. For small std the expectation is
    -rate times the gradient of the mean loss. Werfel, Xie & Seung 2005, Neural Comput 17:2699-2718.

    The simulation of a training batch is repeated once.

    **Arguments:**

    - `synapses`: the weights, with `pre` and `where_bias`, such as `recurrent_synapses()`.
    - `rate`: how fast the weights learn; an array leaf.
    - `std`: the standard deviation of the perturbation, in the unit of the units' input; an array leaf.

    **Raises:** `ValueError` if `rate` is negative or `std` is not positive.
    """

    synapses: Synapses
    rate: Float[Array, ""] = eqx.field(converter=as_float_array)
    std: Float[Array, ""] = eqx.field(converter=as_float_array, kw_only=True)

    def __check_init__(self):
        check_one_number("rate", self.rate)
        check_non_negative("rate", self.rate)
        check_positive("std", self.std)

    def __call__(
        self, model: AbstractModel, batch: TrainedBatch, state: PyTree[Array], *, key: Key[Array, ""]
    ) -> tuple[PyTree, PyTree[Array]]:
        weights = self.synapses.weights(batch.model)
        shape = (batch.trials.timeline.n_steps, weights.shape[0])
        normal = draw_per_trial(batch, shape, weights.dtype, key=key_stream(key, "node perturbation"))
        xi = self.std * normal

        def perturbed(own):
            return PerturbedNodes(batch.model, self.synapses, own), batch.model

        increase = increase_of_loss(perturbed, xi, batch)
        products = jnp.einsum("k,kti,ktj->ij", increase, xi, self.synapses.pre_activity(batch))
        change = -self.rate / self.std**2 * products / increase.size
        return self.synapses.update(model, change), state


class PerturbedNodesState(eqx.Module):
    """The state of the perturbed model, and how many steps it has made."""

    model: PyTree[Array]
    n_steps: Int[Array, ""]


class PerturbedNodes(AbstractModel):
    """A model the units of which receive an input besides: row t of `added` at step t.

    It records what the model by itself records.

    **Arguments:**

    - `model`: the model.
    - `synapses`: their `where_bias` says to which units.
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
