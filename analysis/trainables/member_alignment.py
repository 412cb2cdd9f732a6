"""Whether members changed in the same direction."""

import numpy as np
from jaxtyping import Float

from popsim.analysis.arrays import AnyArray, finite_float64


def member_alignment(changes: Float[AnyArray, "member ..."]) -> Float[np.ndarray, "member member"]:
    """The cosine between the changes of each two members, entry by entry.

    The units of one member have nothing to do with those of another that began with its own weights: two
    members that do the same with their units in another order have unrelated entries, and the cosine of
    unrelated changes is about ± 1 / sqrt(number of entries). It says something of members that began
    alike, such as copies of one network in several tasks; of others compare `input_output_change`.

    **Arguments:**

    - `changes`: of all members, such as `weights[-1] - weights[0]` of one array of a history.

    **Returns:** 1 on the diagonal; NaN for a member that did not change.
    """
    values = finite_float64("changes", changes)
    flat = values.reshape(values.shape[0], -1)
    norms = np.linalg.norm(flat, axis=1, keepdims=True)
    directions = flat / np.where(norms > 0, norms, np.nan)
    return directions @ directions.T


def input_output_change(
    changes: Float[AnyArray, "member units units"],
    *,
    readout: Float[AnyArray, "member outputs units"],
    inputs: Float[AnyArray, "member units inputs"],
) -> Float[np.ndarray, "member outputs inputs"]:
    """The change of recurrent weights as seen from outside: W_out dW W_in, the same in any order of units.

    `member_alignment` of it compares members whose units do not correspond. It is what one pass through
    the recurrent weights adds from inputs to outputs in a linear network.

    **Arguments:**

    - `changes`: dW [post, pre]; of a GRU the block of the candidate, the last third of the rows.
    - `readout`: W_out.
    - `inputs`: W_in; of a GRU the same block.
    """
    own = finite_float64("changes", changes)
    return finite_float64("readout", readout) @ own @ finite_float64("inputs", inputs)
