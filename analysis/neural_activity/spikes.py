"""Rates and irregularity of spikes."""

import numpy as np
from jaxtyping import Float

from popsim._shared.checks import check_positive
from popsim.analysis._arrays import Activity, as_activity

__all__ = ["firing_rates", "interval_variation", "fano_factor"]


def firing_rates(spikes: Activity, *, dt: float) -> Float[np.ndarray, "member trial unit"]:
    """Return the mean rate of each unit in each trial, in spikes/s, from spikes at each time step of dt s."""
    values = as_activity("spikes", spikes)
    check_positive("dt", dt)
    return values.mean(axis=2) / dt


def interval_variation(spikes: Activity) -> Float[np.ndarray, "member unit"]:
    """Return the coefficient of variation of the intervals between spikes, over all trials.

    The standard deviation divided by the mean: 0 for a clock, and 1 for a Poisson process whose intervals are
    long beside the time step (Dayan & Abbott 2001, Theoretical Neuroscience, section 1.4; tests check both).
    NaN for a unit with fewer than two intervals. A rate that changes within a trial adds to it.
    """
    values = as_activity("spikes", spikes)
    variation = np.full((values.shape[0], values.shape[3]), np.nan)
    for member, unit in np.ndindex(variation.shape):
        intervals = [np.diff(np.flatnonzero(trial)) for trial in values[member, :, :, unit]]
        intervals = np.concatenate(intervals)
        if intervals.size > 1:
            variation[member, unit] = intervals.std() / intervals.mean()
    return variation


def fano_factor(spikes: Activity) -> Float[np.ndarray, "member unit"]:
    """Return the variance of the number of spikes over trials divided by its mean.

    1 for a Poisson process (Dayan & Abbott 2001, section 1.4). The trials are repeats of one condition with
    noise, and the count is over all their time steps: select a window before. NaN for a unit without spikes.
    """
    counts = as_activity("spikes", spikes).sum(axis=2)
    if counts.shape[1] < 2:
        raise ValueError(f"`spikes` must have two trials or more, got {counts.shape[1]}.")
    with np.errstate(invalid="ignore"):
        return counts.var(axis=1, ddof=1) / counts.mean(axis=1)
