"""What networks received in trials: the inputs that dynamics may be analysed with."""

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float, PyTree

from popsim.ensemble import n_members
from popsim.model import AbstractModel
from popsim.trial import Trial


def received_inputs(
    ensemble: AbstractModel, states: PyTree, trials: Trial
) -> Float[np.ndarray, "member trial time inputs"]:
    """What the network of each member received at each step of trials: inputs, then feedback, scaled.

    In the order and the units that the network has, so that a row of it can be `inputs` of
    `find_fixed_points`: the network with what it receives held, the body left out. Zeros would be every
    scaled input at its center.

    **Arguments:**

    - `ensemble`: a `SensorimotorLoop` or a `NetworkModel`, stacked.
    - `states`: of an evaluation in these trials, `run.evaluate(ensemble, trials=trials).states`.
    - `trials`: the same for all members.

    **Raises:** `ValueError` if the models do not say what their networks received, or `states` are not of
    these members.
    """
    if not hasattr(ensemble, "received"):
        raise ValueError(
            "`ensemble` must be models that say what their networks received, a SensorimotorLoop or a "
            f"NetworkModel, got {type(ensemble).__name__}."
        )
    given, count = {len(leaf) for leaf in jax.tree.leaves(states)}, n_members(ensemble)
    if given != {count}:
        raise ValueError(f"`states` must be of {count} members, got leading axes of {sorted(given)}.")

    def of_member(model, own):
        return jax.vmap(model.received)(own, trials)

    return np.asarray(eqx.filter_jit(eqx.filter_vmap(of_member))(ensemble, states), np.float64)
