"""Where searches for fixed points start: in the region that the networks visit."""

import jax
import numpy as np
from jaxtyping import Array, Float, Key

from popsim.analysis.arrays import AnyArray, finite_float64, numpy_generator
from popsim.checks import check_non_negative, check_positive, check_positive_int


def mixtures_of_states(
    states: Float[AnyArray, "member *axes state"],
    n_starts: int,
    *,
    n_mixed: int = 3,
    concentration: float = 0.5,
    key: Key[Array, ""],
) -> Float[np.ndarray, "member start state"]:
    """Weighted means of some visited states each, which also lie where unstable points keep states away.

    Weights are drawn from a Dirichlet distribution; those of a member do not depend on how many there are.

    **Arguments:**

    - `states`: visited by each member, such as `states.network.hidden` of an evaluation.
    - `n_starts`: how many to draw for each member.
    - `n_mixed`: how many states are mixed in each.
    - `concentration`: of the distribution: far below 1 near the visited states, far above 1 near their mean.
    - `key`: for the draws.

    **Raises:** `ValueError` if there is no member or state, one is not finite, or a number is not positive.
    """
    check_positive_int("n_starts", n_starts)
    check_positive_int("n_mixed", n_mixed)
    check_positive("concentration", concentration)
    starts = []
    for generator, own in _of_members(states, key):
        chosen = own[generator.integers(len(own), size=(n_starts, n_mixed))]
        weights = generator.dirichlet(np.full(n_mixed, concentration), size=n_starts)
        starts.append(np.einsum("sm,smu->su", weights, chosen))
    return np.stack(starts)


def states_with_noise(
    states: Float[AnyArray, "member *axes state"],
    n_starts: int,
    *,
    noise: float = 0.1,
    key: Key[Array, ""],
) -> Float[np.ndarray, "member start state"]:
    """Visited states, drawn at random, each with Gaussian noise on it.

    **Arguments:**

    - `states`, `n_starts`, `key`: as for `mixtures_of_states`.
    - `noise`: its standard deviation as a share of the root-mean-square distance of the member's visited
        states from their mean, divided by the square root of the number of units.

    **Raises:** `ValueError` as there, or if `noise` is negative.
    """
    check_positive_int("n_starts", n_starts)
    check_non_negative("noise", noise)
    starts = []
    for generator, own in _of_members(states, key):
        chosen = own[generator.integers(len(own), size=n_starts)]
        deviation = noise * float(spread(own)) / own.shape[1] ** 0.5
        starts.append(chosen + deviation * generator.standard_normal(chosen.shape))
    return np.stack(starts)


def spread(states: Float[np.ndarray, "*axes point state"]) -> Float[np.ndarray, "*axes"]:
    """The root-mean-square distance of states from their mean, in the unit of the states."""
    return np.asarray(np.sqrt(np.var(states, axis=-2).sum(axis=-1)))


def _of_members(
    states: AnyArray, key: Key[Array, ""]
) -> list[tuple[np.random.Generator, Float[np.ndarray, "visited state"]]]:
    """For each member a generator of its own and the states it visited."""
    visited = finite_float64("states", states)
    if visited.ndim < 3:
        raise ValueError(f"`states` must have axes (member, ..., state), got shape {visited.shape}.")
    flat = visited.reshape(visited.shape[0], -1, visited.shape[-1])
    return [(numpy_generator(jax.random.fold_in(key, i)), own) for i, own in enumerate(flat)]
