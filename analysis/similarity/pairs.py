"""A measure of two members, for all pairs of a population."""

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float

from popsim.analysis.arrays import AnyArray, finite_float64


def pairwise(
    members: Sequence[AnyArray] | AnyArray, measure: Callable[[np.ndarray, np.ndarray], float]
) -> Float[np.ndarray, "member member"]:
    """The measure of all pairs of members, each with itself too.

    The measure is taken to be the same in both directions, and each pair is asked for once.

    **Arguments:**

    - `members`: the activity of each member in the same trials, with axes (sample..., unit): an array with
        the members first, or a list, such as `[*gated, *tanh]`, whose numbers of units may differ.
    - `measure`: of two arrays of numpy in float64, such as `svcca_distance`, or
        `lambda x, y: 1 - linear_cka(x, y)`.

    **Raises:** `ValueError` if there are fewer than two members, or the measure is not finite.
    """
    if len(members) < 2:
        raise ValueError(f"`members` must be two members or more, got {len(members)}.")
    values = [finite_float64("members", member) for member in members]
    found = np.empty((len(values), len(values)))
    for first in range(len(values)):
        for second in range(first, len(values)):
            found[first, second] = found[second, first] = measure(values[first], values[second])
    if not np.isfinite(found).all():
        pair = np.argwhere(~np.isfinite(found))[0].tolist()
        raise ValueError(f"`measure` must be finite, got {found[*pair]} for members {pair}.")
    return found


def check_distances(
    name: str, distances: Float[AnyArray, "member member"]
) -> Float[np.ndarray, "member member"]:
    """Distances in float64, symmetric and with zeros on the diagonal where rounding had left less than 1e-6
    of the largest.

    **Arguments:**

    - `name`: of the argument, for the error.
    - `distances`: of all pairs of members.

    **Raises:** `ValueError` if they are not distances: not symmetric, negative, or not 0 on the diagonal.
    """
    values = finite_float64(name, distances)
    rounding = 1e-6 * float(np.abs(values).max())
    if values.ndim != 2 or len(values) != len(values.T) or np.abs(values - values.T).max() > rounding:
        raise ValueError(f"`{name}` must be a symmetric matrix, got shape {values.shape}: {values}.")
    if values.min() < -rounding or np.abs(np.diagonal(values)).max() > rounding:
        raise ValueError(
            f"`{name}` must be at least 0, and 0 on the diagonal (1 - similarity is such), got {values}."
        )
    values = np.maximum((values + values.T) / 2, 0.0)
    np.fill_diagonal(values, 0.0)
    return values
