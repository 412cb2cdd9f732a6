"""The best observer of decisions in blocks: what it knows of the block, and how often it is right."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from popsim._checks import check_fraction, check_positive, kind_of
from popsim.distributions import TruncatedExponential, Uniform
from popsim.session import separate_trials
from popsim.tasks._known_tasks import check_known_task, values_of_choice
from popsim.tasks.blocks.block_decisions import AbstractBlocks, BlockDecisions
from popsim.trial import Trial, check_trials, n_trials

__all__ = ["accuracy_with_prior", "block_choices", "block_prior"]

NODES = np.linspace(-8.0, 8.0, 801)
"""Of the trapezoid rule over normal noise, in standard deviations."""
FARTHEST = 40.0
"""Beyond which no noise comes, in standard deviations."""


def block_prior(task: BlockDecisions, sides: Int[np.ndarray, "session trial"]) -> Float[np.ndarray, "..."]:
    """Return the probability that the side is right before each trial, given the sides before.

    An exact filter over the side of the block and its age, of the distribution of lengths of the task: a
    block of age a ends with the probability that its length is a, given that it is at least a. Blocks
    alternate. Mice estimate this prior, too (Findling et al. 2025, Nature 645:192, compared with the abstract
    only).

    **Arguments:**

    - `task`: the task, whose block lengths have a `TruncatedExponential` distribution.
    - `sides`: the correct side of each trial of each session, 1 for right; -1 where it was not shown.

    **Returns** probabilities with the axes of `sides`.
    """
    check_known_task(task, BlockDecisions)
    sides = np.asarray(sides)
    return _prior_after(task, np.where(sides < 0, 0.5, sides == 1))


def _prior_after(
    task: BlockDecisions, right: Float[np.ndarray, "session trial"]
) -> Float[np.ndarray, "session trial"]:
    """Return the prior of each trial, given how probably each trial was one of the right side."""
    probability = float(task.probability)
    of_kinds = np.array([1 - probability, probability])  # of blocks with more left, more right
    likelihoods = right[..., None] * of_kinds + (1 - right[..., None]) * (1 - of_kinds)
    of_second = second_kind_before(task, likelihoods)
    prior = of_kinds[1] * of_second + of_kinds[0] * (1 - of_second)
    return np.where(np.arange(right.shape[1]) < task.n_unbiased, 0.5, prior)


def second_kind_before(
    task: AbstractBlocks, likelihoods: Float[np.ndarray, "session trial 2"]
) -> Float[np.ndarray, "session trial"]:
    """Return the probability of the second kind of block before each trial, given likelihoods of both."""
    ends = _probability_of_end(task)
    n_sessions, n_trials_each, _ = likelihoods.shape
    belief = np.zeros((n_sessions, 2, len(ends)))
    belief[:, :, 0] = 0.5
    second = np.full((n_sessions, n_trials_each), 0.5)
    for trial in range(task.n_unbiased, n_trials_each):
        second[:, trial] = belief[:, 1].sum(axis=1)
        belief = belief * likelihoods[:, trial, :, None]
        belief /= belief.sum(axis=(1, 2), keepdims=True)
        ending = np.sum(belief * ends, axis=2)
        belief = np.roll(belief * (1 - ends), 1, axis=2)
        belief[:, :, 0] = ending[:, ::-1]
    return second


def _probability_of_end(task: AbstractBlocks) -> Float[np.ndarray, " age"]:
    """Return the probability that a block ends after its trial of each age, from 0, if it comes to it."""
    lengths = task.block_length
    if not isinstance(lengths, TruncatedExponential | Uniform):
        raise ValueError(
            "`block_length` of `task` must be a TruncatedExponential or a Uniform, whose hazard rate is "
            f"known, got {kind_of(lengths)}."
        )
    low, high = float(lengths.low), float(lengths.high)
    n_most = int(np.ceil(high)) + 1
    within = np.clip((np.arange(n_most + 1) - low) / (high - low), 0.0, 1.0) if high > low else None
    if within is None:
        below = (np.arange(n_most + 1) > low).astype(float)
    elif isinstance(lengths, Uniform):
        below = within
    else:
        rate = (high - low) / float(lengths.scale)
        below = np.expm1(-rate * within) / np.expm1(-rate)
    lasts = 1.0 - below  # the length, rounded down, is at least this many trials
    # A block that has lasted for the longest time ends. An age of a has lasted for a + 1 trials.
    ends = (lasts[:-1] - lasts[1:]) / np.where(lasts[:-1] > 0, lasts[:-1], 1.0)
    return np.where(lasts[1:] > 0, ends, 1.0)[1:]


def block_choices(
    task: BlockDecisions, sessions: Trial, prior: Float[np.ndarray, "session trial"] | None = None
) -> tuple[Int[np.ndarray, "session trial"], Float[np.ndarray, "session trial"]]:
    """Return the choices of an ideal observer of `BlockDecisions`, and the probability that each is right.

    It gets the inputs of a network. With x_L and x_R the sums of the two sides times dt, after s seconds of
    the stimulus, and the mean over the contrasts c, the odds of the right side are

        p / (1 - p) · mean exp((c x_R - c² s / 2) / σ²) / mean exp((c x_L - c² s / 2) / σ²),

    where p is the probability before the trial. Both sums count: unless p is 1/2 their difference is not
    enough. (Derived here, from normal sums of variance σ² s.)

    **Arguments:**

    - `task`: the task, whose contrast is a `Choice`.
    - `sessions`: stacked trials of it.
    - `prior`: the probability of the right side before each trial; by default what the trials before say of
        the block: as `block_prior`, and the stimulus where there was no feedback.
    """
    from scipy.special import expit, logit

    check_known_task(task, BlockDecisions, noise="noise")
    check_trials("sessions", sessions)
    trials, shape = separate_trials(sessions), (n_trials(sessions), task.n_trials)
    totals = np.asarray(jnp.sum(trials.inputs["stimulus"], axis=1) * task.dt, float)
    seconds = np.asarray(jnp.sum(trials.timeline.in_epoch("stimulus"), axis=1), float) * task.dt
    left, right = np.moveaxis(_log_likelihood(task, totals, seconds[:, None]), -1, 0)
    log_odds = (right - left).reshape(shape)
    if prior is None:
        feedback = np.asarray(jnp.sum(trials.inputs["feedback"], axis=1))
        shown = feedback.any(axis=1).reshape(shape)
        prior = _prior_after(task, np.where(shown, feedback[:, 1].reshape(shape) > 0, expit(log_odds)))
    log_odds = log_odds + logit(np.asarray(prior, float))
    return (log_odds > 0).astype(int), expit(np.abs(log_odds))


def _log_likelihood(
    task: BlockDecisions, total: Float[np.ndarray, "*axes"], seconds: float | Float[np.ndarray, "*#axes"]
) -> Float[np.ndarray, "*axes"]:
    """Return the log likelihood that a side has the stimulus, relative to noise alone, given its sum."""
    contrasts = np.asarray(values_of_choice(task, "contrast"), float)
    total, seconds = np.asarray(total)[..., None], np.asarray(seconds)[..., None]
    exponents = (contrasts * total - contrasts**2 * seconds / 2) / float(task.noise) ** 2
    return np.logaddexp.reduce(exponents, axis=-1) - np.log(contrasts.size)


def accuracy_with_prior(
    task: BlockDecisions, prior: float, seconds: float, *, contrast: float | None = None
) -> float:
    """Return how often an ideal observer of `BlockDecisions` is right that knows the prior of the trial.

    It chooses right where the odds of `block_choices` are above 1, for each x_L from some x_R on. That is
    found by bisection, and the probability of a larger x_R is averaged over x_L.

    **Arguments:**

    - `task`: the task, whose contrast is a `Choice`.
    - `prior`: p, the probability of the right side.
    - `seconds`: s, how long the stimulus is shown.
    - `contrast`: of the trials that are counted; by default all. The observer never knows it.
    """
    from scipy.special import logit, ndtr

    check_known_task(task, BlockDecisions, noise="noise")
    check_fraction("prior", prior)
    check_positive("seconds", seconds)
    contrasts = np.asarray(values_of_choice(task, "contrast"), float)
    std = float(task.noise) * seconds**0.5
    weights = np.exp(-(NODES**2) / 2) / np.sum(np.exp(-(NODES**2) / 2))

    def chooses_right(left: float, right: float) -> float:
        """Return how often the right side is chosen, for a contrast on either side."""
        least = _log_likelihood(task, left * seconds + std * NODES, seconds) - logit(prior)
        low = np.full(NODES.shape, -FARTHEST * std)
        high = np.full(NODES.shape, contrasts.max() * seconds + FARTHEST * std)
        for _ in range(64):  # to the last bit
            middle = (low + high) / 2
            is_enough = _log_likelihood(task, middle, seconds) >= least
            low, high = np.where(is_enough, low, middle), np.where(is_enough, middle, high)
        return float(weights @ ndtr((right * seconds - high) / std))

    counted = contrasts if contrast is None else np.array([contrast])
    return float(
        np.mean([prior * chooses_right(0.0, c) + (1 - prior) * (1 - chooses_right(c, 0.0)) for c in counted])
    )
