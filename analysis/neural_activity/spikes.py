"""Rates and irregularity of spikes."""

from typing import Any

import numpy as np
from jaxtyping import Array, Float, Shaped

from popsim._shared.checks import check_positive
from popsim.analysis._arrays import Activity, as_activity

__all__ = ["bits_per_spike", "firing_rates", "interval_variation", "fano_factor"]


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


def bits_per_spike(
    rates: Activity, spikes: Shaped[Array | np.ndarray, "trial time unit"], *, dt: float, counts: Any = None
) -> Float[np.ndarray, " member"]:
    """Return how many bits a spike is better predicted by rates than by the mean rate of its unit.

    The log likelihood of Poisson counts, minus that of the mean count of each unit in what is scored, divided
    by the number of spikes and by log 2: the score of the Neural Latents Benchmark (Pei et al. 2021, arXiv
    2109.04463; checked against the formula of their package nlb_tools, which takes counts a bin, not
    spikes/s). 0 is as good as the mean; the score says nothing of what rates have that spikes do not show.

    **Arguments:**

    - `rates`: predicted rates in spikes/s, above zero where there are spikes.
    - `spikes`: the number of spikes in each time step, the same for all members.
    - `dt`: the time step in seconds.
    - `counts`: which of them are scored, of a shape that broadcasts to that of `spikes`; by default all.
    """
    from scipy.special import xlogy

    expected, observed = as_activity("rates", rates) * dt, np.asarray(spikes, float)
    check_positive("dt", dt)
    if observed.shape != expected.shape[1:]:
        raise ValueError(f"`spikes` must be of shape {expected.shape[1:]}, got {observed.shape}.")
    scored = np.broadcast_to(True if counts is None else np.asarray(counts) > 0, observed.shape)
    n_scored = np.maximum(scored.sum(axis=(0, 1)), 1)
    mean = np.where(scored, observed, 0.0).sum(axis=(0, 1)) / n_scored  # of each unit
    n_spikes = observed[scored].sum()
    if n_spikes == 0:
        raise ValueError("`spikes` must have a spike where they are scored, got none.")

    def log_likelihood(expected: Float[np.ndarray, "trial time unit"]) -> float:
        # Without log k!, which is in both. No spike at a rate of zero is certain.
        return np.sum(xlogy(observed[scored], expected[scored]) - expected[scored])

    null = log_likelihood(np.broadcast_to(mean, observed.shape))
    return np.array([log_likelihood(own) - null for own in expected]) / (n_spikes * np.log(2))
