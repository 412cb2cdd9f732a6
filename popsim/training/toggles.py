"""In which training batches each model update is made."""

import jax
import numpy as np
from jaxtyping import Bool, PyTree

from popsim.training.schedule import batch_numbers
from popsim.training.update_model import is_model_update


def enabled_updates(
    toggle: bool | PyTree, model_update_funcs: PyTree, n_batches: int
) -> Bool[np.ndarray, "batch update"] | None:
    """For each training batch, which updates are made.

    **Arguments:**

    - `toggle`: True for all updates in all batches, False for none, or a PyTree of the structure of
        `model_update_funcs` that holds a 1D array of batch numbers, or a boolean for each batch, for each.
        Ignored where there are no updates.
    - `model_update_funcs`: the updates.
    - `n_batches`: how many batches there are.

    **Returns:** None if all updates are made in all batches.

    **Raises:** `ValueError` if the structures differ, or an array is not as `batch_numbers` takes it.
    """
    n_updates = len(jax.tree.leaves(model_update_funcs, is_leaf=is_model_update))
    if not n_updates:
        return None
    if isinstance(toggle, (bool, np.bool_)):
        return None if toggle else np.zeros((n_batches, n_updates), bool)
    expected = jax.tree.structure(jax.tree.map(lambda _: 0, model_update_funcs, is_leaf=is_model_update))
    try:
        arrays = expected.flatten_up_to(toggle)
    except ValueError as error:
        raise ValueError(
            "`toggle_model_update_funcs` must be True, False, or of the structure of `model_update_funcs`, "
            f"with an array of batch numbers for each function, such as ([0, 1],) for (function,): {error}"
        ) from error
    enabled = np.zeros((n_batches, n_updates), bool)
    for index, array in enumerate(arrays):
        enabled[batch_numbers("toggle_model_update_funcs", array, n_batches), index] = True
    return enabled
