"""Whether like states of a population are followed by unlike ones."""

import numpy as np
from jaxtyping import Float

from popsim.analysis.arrays import AnyArray
from popsim.analysis.population.activity import population_activity
from popsim.analysis.population.principal_components import principal_components
from popsim.checks import check_positive

_ROWS = 512
"""How many states are compared with all others at once."""


def tangling(
    activity: Float[AnyArray, "member trial time unit"],
    *,
    dt: float,
    n_components: int = 8,
    softening: float = 0.1,
) -> Float[np.ndarray, "member trial time"]:
    """Q(t) = max over t' of |x'(t) - x'(t')|^2 / (|x(t) - x(t')|^2 + e), in 1/s^2; t' in all trials.

    Russo et al. 2018, Neuron 97:953 (settings after the authors' function tangleAnalysis): x are the first
    principal components, and e is `softening` times the variance of x, summed over them. A state that is
    passed in two directions is tangled; activity that follows from its own state alone is not. Give units of
    like range (`soft_normalized`), and compare with the tangling of what the network drives, such as
    muscles. On a circle that is gone round once, with angular velocity w, all Q are 4 w^2 / (4 + softening).

    **Arguments:**

    - `activity`: of the units, or of muscles.
    - `dt`: the time step in s.
    - `n_components`: at most as many principal components as this; fewer where there are fewer units.
    - `softening`: above zero, without unit.

    **Raises:** `ValueError` if the activity has other axes, is not finite, has fewer than three times, never
        changes in a member, or a number is not positive.
    """
    values = population_activity("activity", activity)
    check_positive("dt", dt)
    check_positive("softening", softening)
    n_members, n_trials, n_steps, n_units = values.shape
    if n_steps < 3:
        raise ValueError(f"`activity` must have three times or more, got {n_steps}.")
    n_kept = min(n_components, n_units, n_trials * n_steps)
    found = principal_components(values, n_components=n_kept)
    velocity = np.gradient(found.projections, dt, axis=2, edge_order=2)
    constant = softening * found.variance.sum(axis=1)
    if n_still := int(np.count_nonzero(constant == 0)):
        raise ValueError(f"`activity` must vary in every member, got {n_still} in which it does not.")
    flat = (n_trials * n_steps, n_kept)
    of_members = [
        _largest_ratio(states.reshape(flat), speeds.reshape(flat), float(added))
        for states, speeds, added in zip(found.projections, velocity, constant, strict=True)
    ]
    return np.stack(of_members).reshape(n_members, n_trials, n_steps)


def _largest_ratio(
    states: Float[np.ndarray, "sample component"],
    velocity: Float[np.ndarray, "sample component"],
    added: float,
) -> Float[np.ndarray, " sample"]:
    largest = np.empty(len(states))
    for first in range(0, len(states), _ROWS):
        rows = slice(first, first + _ROWS)
        apart = _squared_distances(states[rows], states)
        largest[rows] = np.max(_squared_distances(velocity[rows], velocity) / (apart + added), axis=1)
    return largest


def _squared_distances(
    some: Float[np.ndarray, "some component"], others: Float[np.ndarray, "other component"]
) -> Float[np.ndarray, "some other"]:
    squares = np.sum(some**2, axis=1)[:, None] + np.sum(others**2, axis=1)
    return np.maximum(squares - 2 * some @ others.T, 0.0)
