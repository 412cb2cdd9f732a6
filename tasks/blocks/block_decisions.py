"""Sessions in blocks, decisions in blocks in which one side is more frequent, and their best observer."""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from popsim._shared import checks
from popsim.distributions import Choice, TruncatedExponential, Uniform
from popsim.loss import Loss
from popsim.losses import OutputError
from popsim.randomness import key_of_seed, key_stream
from popsim.schedules import LAST_BATCH
from popsim.session import join_trials, separate_trials
from popsim.tasks import _fields as fields
from popsim.tasks import trial_parts as parts
from popsim.tasks._fields import NON_NEGATIVE, POSITIVE, Drawn, Scalar
from popsim.trial import OutputTarget, Trial, check_trials, n_trials
from popsim.trial_plan import Epoch, TrialPlan
from popsim.windows import Timeline

__all__ = ["BlockDecisions", "block_choices", "block_prior"]


BEFORE = -1
"""The kind of the trials before the first block."""


BLOCK_LENGTH = "the number of trials in a block, rounded down"
UNBIASED = "the number of trials before the first block, in which both kinds are equally frequent"


def check_contrast(name: str, value: Any) -> None:
    """Raise `ValueError` for finite bounds outside [0, 1]."""
    fields.check_coherence(name, value)
    NON_NEGATIVE(name, value)


class AbstractBlocks(parts.AbstractCheckedTask):
    """A task each of whose trials is a session in blocks of two kinds, which alternate without notice."""

    loss: Loss = fields.default_loss(default_factory=lambda: 1.0 * OutputError())
    n_validation: int = fields.count("sessions that validate, which are drawn as in training", default=16)
    n_unbiased: int = fields.setting(UNBIASED, default=0, check=checks.check_non_negative_int)
    n_trials: eqx.AbstractVar[int]
    block_length: eqx.AbstractVar[Drawn]
    decision: eqx.AbstractVar[Drawn]
    response: eqx.AbstractVar[parts.GoResponse]
    duration: eqx.AbstractVar[float]
    dt: eqx.AbstractVar[float]

    def __check_init__(self):
        parts.check_time_left(self.plan, self.dt, "a time step of feedback")
        for name, least in (("block_length", 1), ("decision", self.response.grace + self.dt - 1e-6)):
            drawn = getattr(self, name)
            if not drawn.bounds()[0] >= least:
                raise ValueError(
                    f"`{name}` must be at least one trial, or a time step longer than the grace after the go "
                    f"cue, got down to {checks.short_repr(drawn.bounds()[0])}."
                )

    @property
    @abc.abstractmethod
    def plan(self) -> TrialPlan:
        """The plan of one trial of a session."""

    @abc.abstractmethod
    def draw_trial(self, kind: Int[Array, ""], position: Int[Array, ""], *, key: Key[Array, ""]) -> Trial:
        """Draw one trial, of a kind of block (0, 1 or `BEFORE`), at a position in it from 0."""

    def trial(self, *, batch: int | Int[Array, ""], key: Key[Array, ""]) -> Trial:
        kinds, positions = self.draw_blocks(key=key_stream(key, "blocks"))
        keys = jax.random.split(key_stream(key, "trials"), self.n_trials)
        trials = jax.vmap(lambda kind, at, key: self.draw_trial(kind, at, key=key))(kinds, positions, keys)
        return join_trials(trials, carry=("hidden",))

    def validation_trials(self) -> Trial:
        keys = jax.random.split(key_of_seed(0, "validation sessions"), self.n_validation)
        return jax.vmap(lambda key: self.trial(batch=LAST_BATCH, key=key))(keys)

    def draw_blocks(self, *, key: Key[Array, ""]) -> tuple[Int[Array, " trial"], Int[Array, " trial"]]:
        """Return the kind of block of each trial of a session, and the position of the trial in it."""
        keys = jax.random.split(key_stream(key, "lengths"), self.n_trials)
        lengths = jnp.floor(jax.vmap(lambda key: self.block_length.sample(key=key))(keys)).astype(int)
        ends = self.n_unbiased + jnp.cumsum(lengths)
        starts = jnp.concatenate([jnp.array([0, self.n_unbiased]), ends])
        trial = jnp.arange(self.n_trials)
        # Block 0 is what comes before the first one, which has no trials if `n_unbiased` is 0.
        block = jnp.searchsorted(starts, trial, side="right") - 1
        first_kind = jax.random.bernoulli(key_stream(key, "first kind")).astype(int)
        return jnp.where(block == 0, BEFORE, (first_kind + block) % 2), trial - starts[block]

    def plan_with_feedback(self, *epochs: Epoch) -> TrialPlan:
        """Return the plan of one trial: `epochs`, then "decision" from the go cue, then "feedback"."""
        last = parts.epochs_of(self, decision=parts.GO_CUE, feedback="feedback")
        return parts.plan_of(self, (*epochs, *last), parts.GO_CUE, self.response.catch_probability)

    def trial_with_feedback(
        self,
        timeline: Timeline,
        inputs: dict[str, Array],
        choice: Int[Array, ""],
        conditions: dict[str, Array],
    ) -> Trial:
        """Return a trial whose correct choice, of two, is shown in "feedback", which does not count."""
        correct, is_over = jax.nn.one_hot(choice, 2), timeline.in_epoch("feedback")
        feedback = jnp.where(is_over[:, None], correct, 0.0)
        shown = {"fixation": self.response.fixation(timeline), "feedback": feedback}
        target = self.response.target(timeline, correct)
        values = jnp.where(is_over[:, None], 0.0, target.values)
        targets = OutputTarget(values, jnp.where(is_over, 0.0, target.counts))
        labels = conditions | {"choice": choice, "catch": self.response.is_catch(timeline)}
        return Trial((), shown | inputs, targets, timeline, conditions=labels)


def _visual_contrasts() -> Choice:
    """Return the contrasts of the International Brain Laboratory; zero is half as frequent as the others."""
    contrasts = jnp.array([0.0625, 0.125, 0.25, 1.0])
    return Choice(jnp.concatenate([jnp.zeros(1), contrasts, contrasts]))


class BlockDecisions(AbstractBlocks):
    """Sessions of perceptual decisions in blocks: one side is more frequent, then, unannounced, the other.

    The task of The International Brain Laboratory 2021, eLife 10:e63711: blocks of 80:20 and 20:80 whose
    lengths follow a truncated exponential distribution from 20 to 100 trials, on average 51, and contrasts of
    which zero is half as frequent as the others (checked in int-brain-lab/iblrig, the scale of 60 trials in
    fchampalimaud/CDC.SoundLateralizationTask; there 90 trials of 50:50 come first). The times are not
    published ones. Each trial of this task is a session, as of
    `popsim.tasks.Session`. After each choice the correct side is shown, so that what a network can know of
    the block does not depend on its choices.

    - Inputs: "fixation" (1), 1 until the go cue; "stimulus" (2: left, right), the contrast on its side and 0
        on the other, plus white noise, in the epoch "stimulus"; "feedback" (2), one-hot in the epoch
        "feedback", the correct side.
    - Targets: two outputs, zero until the go cue, then 1 for the correct one (left, right). The epoch
        "feedback" does not count.
    - Conditions of each trial: "contrast", "choice" (0 left, 1 right), "right probability" of its block,
        "trial in block" (from 0), "catch".

    An ideal observer infers the block from the sides that were shown (`popsim.tasks.block_prior`) and
    combines it with the stimulus (`popsim.tasks.block_choices`). A catch trial has no go cue and no feedback.
    """

    n_trials: int = fields.count("trials in a session", default=100)
    probability: Scalar = fields.fraction("the probability of the more frequent side of a block", default=0.8)
    block_length: Drawn = fields.drawn(BLOCK_LENGTH, default=lambda: TruncatedExponential(20, 100, 60))
    contrast: Drawn = fields.drawn(
        "the contrast, from 0 to 1", default=_visual_contrasts, check=check_contrast
    )
    noise: Scalar = fields.white_noise("each side", default=0.08)
    fixation: Drawn = fields.epoch(default=0.1)
    stimulus: Drawn = fields.epoch(default=0.3)
    delay: Drawn = fields.epoch(default=0.0)
    decision: Drawn = fields.epoch(default=0.2, check=POSITIVE)
    response: parts.GoResponse = fields.part(fields.RESPONSE, default_factory=parts.GoResponse)
    duration: float = fields.trial_duration(default=0.8)
    dt: float = fields.time_step(default=0.1)

    @property
    def plan(self) -> TrialPlan:
        """The plan of one trial of a session."""
        events = {"fixation": None, "stimulus": "stimulus on", "delay": "stimulus off"}
        return self.plan_with_feedback(*parts.epochs_of(self, **events))

    def draw_trial(self, kind: Int[Array, ""], position: Int[Array, ""], *, key: Key[Array, ""]) -> Trial:
        timeline = self.plan.draw(key=key_stream(key, "timeline"))
        of_block = jnp.where(kind == 1, self.probability, 1 - self.probability)
        right_probability = jnp.where(kind == BEFORE, 0.5, of_block)
        side = jax.random.bernoulli(key_stream(key, "side"), right_probability).astype(int)
        contrast = self.contrast.sample(key=key_stream(key, "contrast"))
        stimulus = contrast * jax.nn.one_hot(side, 2)
        shown, noise_key = timeline.in_epoch("stimulus"), key_stream(key, "noise")
        inputs = {"stimulus": parts.with_noise(stimulus, self.noise, shown, dt=self.dt, key=noise_key)}
        conditions = {"contrast": contrast, "right probability": right_probability}
        return self.trial_with_feedback(timeline, inputs, side, conditions | {"trial in block": position})


def block_prior(task: BlockDecisions, sides: Int[np.ndarray, "session trial"]) -> Float[np.ndarray, "..."]:
    """Return the probability that the side is right before each trial, given the sides before.

    An exact filter over the side of the block and its age, of the distribution of lengths of the task: a
    block of age a ends with the probability that its length is a, given that it is at least a.

    **Arguments:**

    - `task`: the task, whose block lengths have a `TruncatedExponential` distribution.
    - `sides`: the correct side of each trial of each session, 1 for right; -1 where it was not shown.
    """
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
            f"known, got {checks.kind_of(lengths)}."
        )
    low, high = float(lengths.low), float(lengths.high)
    ages, width = np.arange(int(np.ceil(high)) + 2), high - low
    below = np.clip((ages - low) / width, 0.0, 1.0) if width > 0 else (ages > low).astype(float)
    if isinstance(lengths, TruncatedExponential) and width > 0:
        rate = width / float(lengths.scale)
        below = np.expm1(-rate * below) / np.expm1(-rate)
    lasts = 1.0 - below  # the length, rounded down, is at least this many trials
    # A block that has lasted for the longest time ends. An age of a has lasted for a + 1 trials.
    ends = (lasts[:-1] - lasts[1:]) / np.where(lasts[:-1] > 0, lasts[:-1], 1.0)
    return np.where(lasts[1:] > 0, ends, 1.0)[1:]


def block_choices(
    task: BlockDecisions, sessions: Trial, prior: Float[np.ndarray, "session trial"] | None = None
) -> tuple[Int[np.ndarray, "session trial"], Float[np.ndarray, "session trial"]]:
    """Return the choices of an ideal observer of `BlockDecisions`, and the probability that each is right.

    With x_L and x_R the sums of the two sides times dt, after s seconds of the stimulus, and the mean over
    the contrasts c, the odds of the right side are

        p / (1 - p) · mean exp((c x_R - c² s / 2) / σ²) / mean exp((c x_L - c² s / 2) / σ²),

    where p is the probability before the trial. (Derived here, from normal sums of variance σ² s.)

    **Arguments:**

    - `task`, `sessions`: the task, whose contrast is a `Choice`, and stacked trials of it.
    - `prior`: the probability of the right side before each trial; by default what the trials before say of
        the block: as `block_prior`, and the stimulus where there was no feedback.
    """
    from scipy.special import expit, logit

    checks.check_positive("task.noise", task.noise)
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
    contrasts = np.asarray(parts.values_of_choice(task, "contrast"), float)
    total, seconds = np.asarray(total)[..., None], np.asarray(seconds)[..., None]
    exponents = (contrasts * total - contrasts**2 * seconds / 2) / float(task.noise) ** 2
    return np.logaddexp.reduce(exponents, axis=-1) - np.log(contrasts.size)
