"""The two-state model of motor adaptation: a process that learns fast and forgets, and one that is slow."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from popsim.analysis.arrays import AnyArray, finite_float64


class TwoStateParameters(NamedTuple):
    """The parameters of the two processes, for each member or for one.

    - `fast_retention`, `slow_retention`: A, the share of a state that is kept from trial to trial.
    - `fast_learning`, `slow_learning`: B, the share of the error that is learned in a trial.
    """

    fast_retention: Float[np.ndarray, "*member"]
    fast_learning: Float[np.ndarray, "*member"]
    slow_retention: Float[np.ndarray, "*member"]
    slow_learning: Float[np.ndarray, "*member"]


class TwoStateCourse(NamedTuple):
    """The states in each trial, before it is learned from, in the unit of the perturbation.

    Row n is the state in trial n, counted from 0; the last row, one more than there are trials, is that
    after all of them.

    - `fast`, `slow`: the states of the two processes.
    - `adaptation`: their sum, which is what is seen.
    """

    fast: Float[np.ndarray, "state ..."]
    slow: Float[np.ndarray, "state ..."]
    adaptation: Float[np.ndarray, "state ..."]


def simulate_two_states(
    parameters: TwoStateParameters,
    perturbation: Float[AnyArray, " trial"],
    is_error_clamp: Bool[AnyArray, " trial"],
) -> TwoStateCourse:
    """How the two processes adapt to a protocol, from zero on.

        e(n) = f(n) - x(n), 0 in an error clamp;  x(n) = x_f(n) + x_s(n)
        x_f(n + 1) = A_f x_f(n) + B_f e(n);       x_s(n + 1) = A_s x_s(n) + B_s e(n)

    Smith, Ghazizadeh & Shadmehr 2006, PLoS Biol 4:e179 (equations cited from memory), whose values were
    A_f = 0.59, B_f = 0.21, A_s = 0.992, B_s = 0.02.

    **Arguments:**

    - `parameters`: of one member or of several; numbers or arrays.
    - `perturbation`: f of each trial, such as 1 in a field, -1 in the reversed one, 0 in none.
    - `is_error_clamp`: in which trials there is no error, as in a force channel.

    **Raises:** `ValueError` if `perturbation` is not finite, or there are not as many clamps.
    """
    world, clamped = finite_float64("perturbation", perturbation), np.asarray(is_error_clamp)
    if clamped.shape != world.shape:
        raise ValueError(f"`is_error_clamp` must be of {world.size} trials, got shape {clamped.shape}.")
    keep_fast, learn_fast, keep_slow, learn_slow = (
        np.asarray(own, np.float64) for own in np.broadcast_arrays(*parameters)
    )
    fast, slow = [np.zeros(keep_fast.shape)], [np.zeros(keep_fast.shape)]
    for force, is_clamp in zip(world.tolist(), clamped.tolist(), strict=True):
        error = 0.0 if is_clamp else force - fast[-1] - slow[-1]
        fast.append(keep_fast * fast[-1] + learn_fast * error)
        slow.append(keep_slow * slow[-1] + learn_slow * error)
    return TwoStateCourse(np.array(fast), np.array(slow), np.array(fast) + np.array(slow))
