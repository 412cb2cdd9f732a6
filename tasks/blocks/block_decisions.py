"""Sessions in blocks of two kinds, and decisions in blocks in which one side is more frequent."""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from popsim import _checks as checks
from popsim._argument_shapes import check_kinds
from popsim._checks import as_float_array, short_repr
from popsim._plain_values import plain_number
from popsim.distributions import AbstractDistribution, Choice, TruncatedExponential, as_distribution
from popsim.loss import Loss
from popsim.losses import OutputError
from popsim.randomness import key_of_seed, key_stream
from popsim.schedules import LAST_BATCH
from popsim.session import join_trials
from popsim.task import AbstractTask
from popsim.tasks import trial_parts as parts
from popsim.tasks.choices.decisions import check_coherence
from popsim.trial import OutputTarget, Trial
from popsim.trial_plan import Epoch, TrialPlan
from popsim.windows import Timeline

__all__ = ["BlockDecisions"]


BEFORE = -1
"""The kind of the trials before the first block."""


class AbstractBlocks(AbstractTask):
    """A task each of whose trials is a session in blocks of two kinds, which alternate without notice."""

    loss: Loss = eqx.field(kw_only=True, default_factory=lambda: 1.0 * OutputError())
    n_validation: int = eqx.field(static=True, converter=plain_number, kw_only=True, default=16)
    n_unbiased: int = eqx.field(static=True, converter=plain_number, kw_only=True, default=0)
    n_trials: eqx.AbstractVar[int]
    block_length: eqx.AbstractVar[AbstractDistribution]
    decision: eqx.AbstractVar[AbstractDistribution]
    response: eqx.AbstractVar[parts.GoResponse]
    duration: eqx.AbstractVar[float]
    dt: eqx.AbstractVar[float]

    def __check_init__(self):
        check_kinds(self)
        parts.check_each(checks.check_positive_int, self, "n_trials", "n_validation")
        checks.check_non_negative_int("n_unbiased", self.n_unbiased)
        parts.check_drawn("decision", self.decision, checks.check_positive)
        parts.check_time_left(self.plan, self.dt, "a time step of feedback")
        _check_block_length(self.block_length)
        _check_grace(self.decision, self.response.grace, self.dt)

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
        first = jax.random.bernoulli(key_stream(key, "first kind")).astype(int)
        return jnp.where(block == 0, BEFORE, (first + block) % 2), trial - starts[block]

    def plan_with_feedback(self, *epochs: Epoch) -> TrialPlan:
        """Return the plan of one trial: `epochs`, then "decision" from the go cue, then "feedback"."""
        last = Epoch("decision", self.decision, event=parts.GO_CUE), Epoch("feedback", event="feedback")
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
        target = self.response.target(timeline, correct)
        return Trial(
            init=(),
            inputs={
                "fixation": self.response.fixation(timeline),
                "feedback": jnp.where(is_over[:, None], correct, 0.0),
                **inputs,
            },
            targets=OutputTarget(
                jnp.where(is_over[:, None], 0.0, target.values), jnp.where(is_over, 0.0, target.counts)
            ),
            timeline=timeline,
            conditions=conditions | {"choice": choice, "catch": self.response.is_catch(timeline)},
        )


def _check_block_length(block_length: AbstractDistribution) -> None:
    parts.check_drawn("block_length", block_length, checks.check_positive)
    if not parts.is_known(block_length):
        return
    low, _ = block_length.bounds()
    if float(low) < 1:
        raise ValueError(f"`block_length` must be at least one trial, got down to {short_repr(low)}.")


def _check_grace(decision: AbstractDistribution, grace: float, dt: float) -> None:
    if not parts.is_known(decision):
        return
    low, _ = decision.bounds()
    if float(low) < grace + dt - 1e-6:
        raise ValueError(
            f"`decision` must be longer than the grace after the go cue, {grace} s, by a time step, "
            f"got {short_repr(low)} s."
        )


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

    n_trials: int = eqx.field(static=True, converter=plain_number, kw_only=True, default=100)
    probability: Float[Array, ""] = eqx.field(kw_only=True, converter=as_float_array, default=0.8)
    block_length: AbstractDistribution = eqx.field(
        kw_only=True, converter=as_distribution, default_factory=lambda: TruncatedExponential(20, 100, 60)
    )
    contrast: AbstractDistribution = eqx.field(
        kw_only=True, converter=as_distribution, default_factory=_visual_contrasts
    )
    noise: Float[Array, ""] = eqx.field(kw_only=True, converter=as_float_array, default=0.08)
    fixation: AbstractDistribution = eqx.field(kw_only=True, converter=as_distribution, default=0.1)
    stimulus: AbstractDistribution = eqx.field(kw_only=True, converter=as_distribution, default=0.3)
    delay: AbstractDistribution = eqx.field(kw_only=True, converter=as_distribution, default=0.0)
    decision: AbstractDistribution = eqx.field(kw_only=True, converter=as_distribution, default=0.2)
    response: parts.GoResponse = eqx.field(kw_only=True, default_factory=parts.GoResponse)
    duration: float = eqx.field(static=True, converter=plain_number, kw_only=True, default=0.8)
    dt: float = eqx.field(static=True, converter=plain_number, kw_only=True, default=0.1)

    def __check_init__(self):
        checks.check_fraction("probability", self.probability)
        checks.check_non_negative("noise", self.noise)
        parts.check_drawn("contrast", self.contrast, check_coherence)
        parts.check_drawn("contrast", self.contrast, checks.check_non_negative)

    @property
    def plan(self) -> TrialPlan:
        """The plan of one trial of a session."""
        shown = parts.stimulus_and_delay(self.stimulus, self.delay)
        return self.plan_with_feedback(Epoch("fixation", self.fixation), *shown)

    def draw_trial(self, kind: Int[Array, ""], position: Int[Array, ""], *, key: Key[Array, ""]) -> Trial:
        timeline = self.plan.draw(key=key_stream(key, "timeline"))
        of_block = jnp.where(kind == 1, self.probability, 1 - self.probability)
        right_probability = jnp.where(kind == BEFORE, 0.5, of_block)
        side = jax.random.bernoulli(key_stream(key, "side"), right_probability).astype(int)
        contrast = self.contrast.sample(key=key_stream(key, "contrast"))
        stimulus = jnp.broadcast_to(contrast * jax.nn.one_hot(side, 2), (timeline.n_steps, 2))
        shown, noise_key = timeline.in_epoch("stimulus"), key_stream(key, "noise")
        inputs = {"stimulus": parts.with_noise(stimulus, self.noise, shown, dt=self.dt, key=noise_key)}
        conditions = {"contrast": contrast, "right probability": right_probability}
        return self.trial_with_feedback(timeline, inputs, side, conditions | {"trial in block": position})
