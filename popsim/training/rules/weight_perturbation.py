"""Weight perturbation."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from popsim.checks import as_float_array, check_non_negative, check_one_number, check_positive
from popsim.model import AbstractModel
from popsim.randomness import key_stream
from popsim.training.model_updates import AbstractModelUpdate, TrainedBatch
from popsim.training.rules.perturbed_loss import draw_per_trial, increase_of_loss
from popsim.training.rules.synapses import Synapses


class WeightPerturbation(AbstractModelUpdate):
    """dW = -(rate / std²) <[E(W + psi) - E(W)] psi>, < > the mean over trials.

    For each trial one psi ~ N(0, std²) is drawn for every weight. E is the total loss of the trial, run
    with the same key, so that all other noise is the same. For small std the expectation is -rate times
    the gradient of the mean loss; its variance is larger than that of `NodePerturbation` where there are
    more weights than units in a trial. Werfel, Xie & Seung 2005, Neural Comput 17:2699-2718.

    The simulation of a training batch is repeated once, each trial with weights of its own.

    **Arguments:**

    - `synapses`: the weights, such as `recurrent_synapses()`; no activity is read.
    - `rate`: how fast the weights learn; an array leaf.
    - `std`: the standard deviation of the perturbation, in the unit of the weights; an array leaf.

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
        key = key_stream(key, "weight perturbation")
        psi = self.std * draw_per_trial(batch, weights.shape, weights.dtype, key=key)

        def perturbed(own):
            model = eqx.apply_updates(batch.model, self.synapses.update(batch.model, own))
            return model, model

        increase = increase_of_loss(perturbed, psi, batch)
        change = -self.rate / self.std**2 * jnp.einsum("k,kij->ij", increase, psi) / increase.size
        return self.synapses.update(model, change), state
