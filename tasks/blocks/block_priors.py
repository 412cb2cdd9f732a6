"""Perceptual decisions in blocks, in which one side is more frequent."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from popsim._checks import as_float_array, check_fraction, check_non_negative
from popsim._plain_values import plain_number
from popsim.distributions import AbstractDistribution, Choice, TruncatedExponential, as_distribution
from popsim.loss import Loss
from popsim.losses import OutputError
from popsim.randomness import key_stream
from popsim.tasks.blocks._blocks import BEFORE, AbstractBlocks
from popsim.tasks.choices.decisions import check_coherence
from popsim.tasks.trial_parts import GoResponse, check_drawn, stimulus_and_delay, with_noise
from popsim.trial import Trial
from popsim.trial_plan import Epoch, TrialPlan

__all__ = ["BlockDecisions"]


def _visual_contrasts() -> Choice:
    """Return the contrasts of the International Brain Laboratory; zero is half as frequent as the others."""
    contrasts = jnp.array([0.0625, 0.125, 0.25, 1.0])
    return Choice(jnp.concatenate([jnp.zeros(1), contrasts, contrasts]))


class BlockDecisions(AbstractBlocks):
    """Sessions of perceptual decisions in blocks: one side is more frequent, then, unannounced, the other.

    The task of The International Brain Laboratory 2021, eLife 10:e63711: blocks of 80:20 and 20:80 whose
    lengths follow a truncated exponential distribution from 20 to 100 trials, on average 51, and contrasts
    of which zero is half as frequent as the others (checked in int-brain-lab/iblrig, and the numbers of the
    distribution, whose scale is 60, in fchampalimaud/CDC.SoundLateralizationTask; there 90 trials of 50:50
    come first). The times are not published ones, as mice respond when they want to. Each trial of this task
    is a session, as of `popsim.tasks.Session`: a network keeps its hidden state through it. After each choice
    the correct side is shown, so that what a network can know of the block does not depend on its choices.

    - Inputs: "fixation" (1), 1 until the go cue; "stimulus" (2: left, right), the contrast on its side and 0
        on the other, plus white noise, in the epoch "stimulus"; "feedback" (2), one-hot in the epoch
        "feedback", the correct side.
    - Targets: two outputs, zero until the go cue, then 1 for the correct one (left, right). The epoch
        "feedback" does not count.
    - Epochs of the trials of a session: "fixation", "stimulus", "delay", "decision", "feedback"; events
        "stimulus on", "stimulus off", "go cue", "feedback".
    - Conditions of each trial: "contrast", "choice" (0 left, 1 right), "right probability" of its block,
        "trial in block" (from 0), "catch".

    In a trial without contrast only the block says which side is more probable. An ideal observer infers the
    block from the sides that were shown (`popsim.tasks.block_prior`) and combines it with the stimulus
    (`popsim.tasks.block_choices`). How often it would be right if it knew the block is
    `popsim.tasks.accuracy_with_prior`. A catch trial has no go cue and no feedback.

    **Arguments:**

    - `n_trials`: the number of trials in a session.
    - `probability`: the probability of the more frequent side of a block.
    - `block_length`: the distribution of the number of trials in a block, rounded down.
    - `n_unbiased`: the number of trials before the first block, in which both sides are equally frequent.
    - `contrast`: the distribution of the contrast, from 0 to 1.
    - `noise`: sigma of each side, in s^0.5; the standard deviation in a time step is sigma / dt^0.5.
    - `fixation`, `stimulus`, `delay`, `decision`: durations of these epochs, in seconds; feedback takes the
        rest.
    - `response`: the weights before and after the go cue, and the fraction of catch trials.
    - `n_validation`: the number of sessions that validate, which are drawn as in training.
    - `duration`, `dt`: the duration of one trial and the time step of the model, in seconds.
    - `loss`: the loss to train with.
    """

    loss: Loss = eqx.field(kw_only=True, default_factory=lambda: 1.0 * OutputError())
    n_trials: int = eqx.field(static=True, converter=plain_number, kw_only=True, default=100)
    probability: Float[Array, ""] = eqx.field(kw_only=True, converter=as_float_array, default=0.8)
    block_length: AbstractDistribution = eqx.field(
        kw_only=True, converter=as_distribution, default_factory=lambda: TruncatedExponential(20, 100, 60)
    )
    n_unbiased: int = eqx.field(static=True, converter=plain_number, kw_only=True, default=0)
    contrast: AbstractDistribution = eqx.field(
        kw_only=True, converter=as_distribution, default_factory=_visual_contrasts
    )
    noise: Float[Array, ""] = eqx.field(kw_only=True, converter=as_float_array, default=0.08)
    fixation: AbstractDistribution = eqx.field(kw_only=True, converter=as_distribution, default=0.1)
    stimulus: AbstractDistribution = eqx.field(kw_only=True, converter=as_distribution, default=0.3)
    delay: AbstractDistribution = eqx.field(kw_only=True, converter=as_distribution, default=0.0)
    decision: AbstractDistribution = eqx.field(kw_only=True, converter=as_distribution, default=0.2)
    response: GoResponse = eqx.field(kw_only=True, default_factory=GoResponse)
    n_validation: int = eqx.field(static=True, converter=plain_number, kw_only=True, default=16)
    duration: float = eqx.field(static=True, converter=plain_number, kw_only=True, default=0.8)
    dt: float = eqx.field(static=True, converter=plain_number, kw_only=True, default=0.1)

    def __check_init__(self):
        check_fraction("probability", self.probability)
        check_non_negative("noise", self.noise)
        check_drawn("contrast", self.contrast, check_coherence)
        check_drawn("contrast", self.contrast, check_non_negative)

    @property
    def plan(self) -> TrialPlan:
        """The plan of one trial of a session."""
        shown = stimulus_and_delay(self.stimulus, self.delay)
        return self.plan_with_feedback(Epoch("fixation", self.fixation), *shown)

    def draw_trial(self, kind: Int[Array, ""], position: Int[Array, ""], *, key: Key[Array, ""]) -> Trial:
        timeline = self.plan.draw(key=key_stream(key, "timeline"))
        of_block = jnp.where(kind == 1, self.probability, 1 - self.probability)
        right_probability = jnp.where(kind == BEFORE, 0.5, of_block)
        side = jax.random.bernoulli(key_stream(key, "side"), right_probability).astype(int)
        contrast = self.contrast.sample(key=key_stream(key, "contrast"))
        stimulus = jnp.broadcast_to(contrast * jax.nn.one_hot(side, 2), (timeline.n_steps, 2))
        shown, noise_key = timeline.in_epoch("stimulus"), key_stream(key, "noise")
        inputs = {"stimulus": with_noise(stimulus, self.noise, shown, dt=self.dt, key=noise_key)}
        conditions = {"contrast": contrast, "right probability": right_probability}
        return self.trial_with_feedback(timeline, inputs, side, conditions | {"trial in block": position})
