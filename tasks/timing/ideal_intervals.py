"""The best estimate of an interval that was shown with noise, and how good it is."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from popsim.tasks._interval_noise import probability_of_steps, table_of_steps
from popsim.tasks._known_tasks import check_known_task, values_of_choice
from popsim.tasks.timing.interval_production import OneTwoThreeGo

__all__ = ["estimate_interval", "interval_error"]


def estimate_interval(task: OneTwoThreeGo, n_shown: Int[Array, "*axes 2"]) -> Float[Array, "*axes"]:
    """Return the mean of the interval of a `OneTwoThreeGo` given both shown ones, in s.

    The estimate with the least squared error, by Bayes' rule from the prior and the noise of both: that of
    Jazayeri & Shadlen 2010, Nat Neurosci 13:1020, for the two measurements of Egger & Jazayeri 2018, Sci Rep
    8:12597 (compared with the abstracts only).

    **Arguments:**

    - `task`: the task, whose interval is a `Choice`.
    - `n_shown`: the numbers of time steps from the first pulse to the second, and to the third.
    """
    values = _intervals_of(task)
    likelihoods = probability_of_steps(n_shown[..., None], values, task.weber_fraction, task.dt)
    weights = jnp.prod(likelihoods, axis=-2)
    total = jnp.sum(weights, axis=-1)
    return jnp.sum(weights * values, axis=-1) / total


def interval_error(task: OneTwoThreeGo, *, n_intervals: int = 2) -> float:
    """Return the root mean squared error of the best estimate of the interval of a `OneTwoThreeGo`, in s.

    No estimate from the pulses has a smaller one.

    **Arguments:**

    - `task`: the task, whose interval is a `Choice`.
    - `n_intervals`: how many of the shown intervals are used: none, one or two.
    """
    if n_intervals not in (0, 1, 2):
        raise ValueError(f"`n_intervals` must be 0, 1 or 2, got {n_intervals!r}.")
    values = np.asarray(_intervals_of(task), float)
    single = table_of_steps(values, float(task.weber_fraction), task.dt)
    joint = np.ones((1, len(values))) / len(values)
    for _ in range(n_intervals):
        joint = (joint[:, None] * single[None]).reshape(-1, len(values))
    total = joint.sum(axis=1)
    mean = joint @ values / np.where(total > 0, total, 1.0)
    return float(np.sqrt(np.sum(joint * (values - mean[:, None]) ** 2)))


def _intervals_of(task: OneTwoThreeGo) -> Float[Array, " value"]:
    check_known_task(task, OneTwoThreeGo)
    return values_of_choice(task, "interval")
