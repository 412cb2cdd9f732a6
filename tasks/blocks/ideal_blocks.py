"""The best observer of decisions in blocks: what it knows of the block, and how often it is right."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from popsim._checks import check_fraction, check_positive, kind_of
from popsim.distributions import TruncatedExponential, Uniform
from popsim.session import separate_trials
from popsim.tasks._known_tasks import check_known_task, values_of_choice
from popsim.tasks.blocks._blocks import AbstractBlocks
from popsim.tasks.blocks.block_priors import BlockDecisions
from popsim.tasks.rewards.ideal_decisions import probability_of_right
from popsim.trial import Trial, check_trials, n_trials

__all__ = ["accuracy_with_prior", "block_choices", "block_prior"]

N_GRID = 20_001
"""The number of values of the accumulated evidence by which an accuracy is integrated."""


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
    probability = float(task.probability)
    right = np.array([1 - probability, probability])  # of blocks with more left, more right
    likelihoods = np.where(sides[..., None] == 1, right, 1 - right)
    likelihoods = np.where(sides[..., None] < 0, 1.0, likelihoods)
    of_second = second_kind_before(task, likelihoods)
    prior = right[1] * of_second + right[0] * (1 - of_second)
    return np.where(np.arange(sides.shape[1]) < task.n_unbiased, 0.5, prior)


def second_kind_before(
    task: AbstractBlocks, likelihoods: Float[np.ndarray, "session trial 2"]
) -> Float[np.ndarray, "session trial"]:
    """Return the probability that the block is of the second kind, before each trial.

    **Arguments:**

    - `task`: the task, whose block lengths have a `TruncatedExponential` or a `Uniform` distribution.
    - `likelihoods`: how probable what a trial shows is in blocks of either kind.
    """
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

    It gets the inputs of a network. The odds of the right side are those before the trial times those of the
    stimulus, which are a function of the difference of both sides summed over time.

    **Arguments:**

    - `task`: the task, whose contrast is a `Choice`.
    - `sessions`: stacked trials of it.
    - `prior`: the probability of the right side before each trial; by default what `block_prior` infers from
        the feedback.
    """
    check_known_task(task, BlockDecisions, noise="noise")
    check_trials("sessions", sessions)
    trials, shape = separate_trials(sessions), (n_trials(sessions), task.n_trials)
    if prior is None:
        feedback = np.asarray(jnp.sum(trials.inputs["feedback"], axis=1))
        shown = np.where(feedback.any(axis=1), feedback[:, 1] > 0, -1).astype(int)
        prior = block_prior(task, shown.reshape(shape))
    left, right = jnp.moveaxis(trials.inputs["stimulus"], -1, 0)
    evidence = jnp.sum(right - left, axis=1) * task.dt
    seconds = jnp.sum(trials.timeline.in_epoch("stimulus"), axis=1).astype(float) * task.dt
    likely = _right_by_stimulus(task, evidence, seconds).reshape(shape)
    odds = likely / (1 - likely) * prior / (1 - prior)
    confidence = odds / (1 + odds)
    return (confidence > 0.5).astype(int), np.maximum(confidence, 1 - confidence)


def _right_by_stimulus(
    task: BlockDecisions, evidence: Float[Array, " trial"], seconds: Float[Array, " trial"]
) -> Float[np.ndarray, " trial"]:
    """Return the probability of the right side given the evidence, the difference of both sides."""
    contrasts = values_of_choice(task, "contrast")
    both_sides = jnp.concatenate([-contrasts, contrasts])
    with jax.enable_x64(True):
        known = (jnp.asarray(np.asarray(both_sides, float)), jnp.asarray(2**0.5 * float(task.noise)))
        likely = probability_of_right(
            jnp.asarray(np.asarray(evidence, float)), jnp.asarray(np.asarray(seconds, float)), *known
        )
        return np.clip(np.asarray(likely), 1e-12, 1 - 1e-12)


def accuracy_with_prior(
    task: BlockDecisions, prior: float, seconds: float, *, contrast: float | None = None
) -> float:
    """Return how often an ideal observer of `BlockDecisions` is right that knows the prior of the trial.

    With the densities f_R and f_L of the evidence for either side, it is the integral of max(p f_R, (1 - p)
    f_L), computed on a grid. The evidence has mean ±c s and variance 2 sigma² s for a contrast of c shown for
    s seconds.

    **Arguments:**

    - `task`: the task, whose contrast is a `Choice`.
    - `prior`: p, the probability of the right side.
    - `seconds`: s.
    - `contrast`: of the trials that are counted; by default all. The observer never knows it.
    """
    check_known_task(task, BlockDecisions, noise="noise")
    check_fraction("prior", prior)
    check_positive("seconds", seconds)
    contrasts = np.asarray(values_of_choice(task, "contrast"), float)
    std = float(task.noise) * (2 * seconds) ** 0.5
    widest = contrasts.max() * seconds + 8 * std
    evidence = np.linspace(-widest, widest, N_GRID)
    likely = _right_by_stimulus(task, jnp.asarray(evidence), jnp.full(N_GRID, seconds))
    chooses_right = prior * likely > (1 - prior) * (1 - likely)
    counted = contrasts if contrast is None else np.array([contrast])

    def density(sign: int) -> Float[np.ndarray, " value"]:
        deviation = (evidence - sign * counted[:, None] * seconds) / std
        return np.mean(np.exp(-(deviation**2) / 2), axis=0) / (std * (2 * np.pi) ** 0.5)

    correct = np.where(chooses_right, prior * density(1), (1 - prior) * density(-1))
    return float(np.sum(correct) * (evidence[1] - evidence[0]))
