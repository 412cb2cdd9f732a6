"""Choices after a go cue: perceptual decisions, with a context, or by two senses."""

import abc
from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp
from jax.scipy.stats import norm
from jaxtyping import Array, Bool, Float, Int, Key

from popsim._shared.checks import check_instance, check_positive, short_repr
from popsim.distributions import Choice
from popsim.loss import Loss
from popsim.losses import CrossEntropy, OutputError
from popsim.randomness import key_stream
from popsim.tasks import _fields as fields
from popsim.tasks import trial_parts as parts
from popsim.tasks._fields import POSITIVE, Drawn, Number, Scalar
from popsim.trial import OutputTarget, Trial
from popsim.trial_plan import Epoch, TrialPlan
from popsim.windows import Timeline

__all__ = [
    "PerceptualDecision",
    "ContextIntegration",
    "MultisensoryIntegration",
    "multisensory_accuracy",
    "multisensory_log_odds",
    "targets_in_epoch",
]


class AbstractGoTask(parts.AbstractPlannedTask):
    """A noisy stimulus, then a choice: after the go cue, one output of several is correct."""

    loss: Loss = fields.default_loss(default_factory=lambda: 1.0 * OutputError())
    fixation: Drawn = fields.epoch(default=0.1)
    response: parts.GoResponse = fields.part(fields.RESPONSE, default_factory=parts.GoResponse)
    dt: float = fields.time_step(default=0.05)
    noise: eqx.AbstractVar[Scalar]
    duration: eqx.AbstractVar[float]

    def __check_init__(self):
        self.response.check(self.plan)

    @abc.abstractmethod
    def epochs(self) -> tuple[Epoch, ...]:
        """Return the epochs between "fixation" and "decision"."""

    @property
    def plan(self) -> TrialPlan:
        return self.plan_with(*self.epochs())

    def plan_with(self, *epochs: Epoch) -> TrialPlan:
        """Return the plan of a trial with these epochs between "fixation" and "decision"."""
        fixation = Epoch("fixation", self.fixation)
        return self.response.plan(fixation, *epochs, duration=self.duration, dt=self.dt)

    def go_trial(
        self,
        timeline: Timeline,
        stimulus: Float[Array, "*time channels"],
        choice: Int[Array, ""],
        conditions: dict[str, Array],
        *,
        shown: Bool[Array, " time"] | None = None,
        n_choices: int = 2,
        inputs: Mapping[str, Array] = MappingProxyType({}),
        noise: Float[Array, " channels"] | None = None,
        key: Key[Array, ""],
    ) -> Trial:
        """Return a trial with the correct output `choice`, and a noisy stimulus in `shown` or "stimulus"."""
        sigma = self.noise if noise is None else noise
        shown = timeline.in_epoch("stimulus") if shown is None else shown
        noisy = parts.with_noise(stimulus, sigma, shown, dt=self.dt, key=key_stream(key, "noise"))
        return Trial(
            init=(),
            inputs={"fixation": self.response.fixation(timeline), **inputs, "stimulus": noisy},
            targets=self.response.target(timeline, jax.nn.one_hot(choice, n_choices)),
            timeline=timeline,
            conditions=conditions | {"choice": choice, "catch": self.response.is_catch(timeline)},
        )


class AbstractStimulusTask(AbstractGoTask):
    """A choice after a stimulus and a delay."""

    stimulus: eqx.AbstractVar[Drawn]
    delay: eqx.AbstractVar[Drawn]

    def epochs(self) -> tuple[Epoch, ...]:
        return parts.stimulus_and_delay(self.stimulus, self.delay)


def motion_coherences() -> Choice:
    """Return the coherences of Roitman & Shadlen 2002, J Neurosci 22:9475, without zero."""
    percent = jnp.array([3.2, 6.4, 12.8, 25.6, 51.2])
    return Choice(jnp.concatenate([-percent[::-1], percent]) / 100)


class PerceptualDecision(parts.AbstractIndependentDraws, AbstractStimulusTask):
    """Random dots: after the go cue, report which of two directions most of them moved in.

    The coherences are those of Roitman & Shadlen 2002, J Neurosci 22:9475, without zero (checked in their
    published data set). The inputs are those of NeuroGym's `PerceptualDecisionMaking`.

    - Inputs: "fixation" (1), 1 until the go cue; "stimulus" (`n_streams`), shown in the epoch "stimulus"
        with white noise. Two streams hold (1 - coherence) / 2 and (1 + coherence) / 2, one for each
        direction; one stream holds the coherence.
    - Targets: two outputs, zero until the go cue, then 1 for the correct one: the first for a negative
        coherence, the second for a positive one.
    - Epochs "fixation", "stimulus", "delay", "decision"; events "stimulus on", "stimulus off", "go cue".
    - Conditions: "coherence", "choice" (0 or 1), "catch".

    After a stimulus of s seconds the accuracy of an ideal observer is Phi(|coherence| (s / k)^0.5 / sigma),
    with k = `n_streams`, if each coherence is as frequent in both directions. There is one validation trial
    for each coherence.
    """

    n_streams: Literal[1, 2] = fields.setting(
        "the number of stimulus channels, 1 or 2", default=2, check=fields.one_of(1, 2)
    )
    coherence: Drawn = fields.coherence(default=motion_coherences)
    noise: Scalar = fields.white_noise("each stream", default=0.05)
    stimulus: Drawn = fields.epoch(default=0.5)
    delay: Drawn = fields.epoch(default=0.0)
    duration: float = fields.trial_duration(default=0.9)

    def draws(self) -> dict[str, parts.Drawable]:
        return {"coherence": self.coherence}

    def trial_of(self, timeline: Timeline, draws: tuple[Array, ...], *, key: Key[Array, ""]) -> Trial:
        (coherence,) = draws
        choice = parts.sign_or_coin(coherence, key=key_stream(key, "coin"))
        streams = coherence[None] if self.n_streams == 1 else (1 + coherence * jnp.array([-1.0, 1.0])) / 2
        return self.go_trial(timeline, streams, choice, {"coherence": coherence}, key=key)


class ContextIntegration(parts.AbstractPlannedTask):
    """Two noisy streams of evidence with a context that selects the relevant one.

    The task of Mante, Sussillo, Shenoy & Newsome 2013, Nature 503:78, with other times and coherences (as
    compared with NeuroGym's version). There is no fixation or go cue; only the final choice counts.

    - Inputs: "evidence" (2: motion, colour), the coherence of each stream plus white noise in the epoch
        "stimulus"; "context" (2), one-hot throughout.
    - Targets: one output, 1 for a positive coherence of the relevant stream and 0 for a negative one (with
        `CrossEntropy` the output is the log odds); with `n_outputs=2` one output per choice, 1 for the
        correct one. Only the epoch "decision" counts.
    - Epochs "stimulus", "delay", "decision"; events "stimulus on", "stimulus off", "decision".
    - Conditions: "context" (0 motion, 1 colour), "motion coherence", "colour coherence", "choice" (1 for
        positive).

    After a stimulus of s seconds the accuracy of an ideal observer, who sums the relevant evidence, is
    Phi(|coherence| n^0.5) with n = s / sigma², if each coherence is as frequent with either sign. The
    validation trials are all combinations of context and coherences.
    """

    loss: Loss = fields.default_loss(default_factory=lambda: 1.0 * CrossEntropy())
    coherence: Drawn = fields.coherence(
        " of each stream, drawn independently for each; at zero the correct choice is random",
        default=[-0.5, -0.25, -0.12, -0.06, 0.06, 0.12, 0.25, 0.5],
    )
    noise: Scalar = fields.white_noise("the evidence", default=0.02**0.5)
    stimulus: Drawn = fields.epoch(default=0.5)
    delay: Drawn = fields.epoch(default=0.04)
    n_outputs: Literal[1, 2] = fields.setting(
        "the number of outputs, 1 or 2", default=1, check=fields.one_of(1, 2)
    )
    duration: float = fields.trial_duration(default=0.56)
    dt: float = fields.time_step(default=0.02)

    def __check_init__(self):
        parts.check_time_left(self.plan, self.dt, "a time step of decision")

    @property
    def plan(self) -> TrialPlan:
        epochs = (*parts.stimulus_and_delay(self.stimulus, self.delay), Epoch("decision", event="decision"))
        return TrialPlan(epochs, duration=self.duration, dt=self.dt)

    def draw_conditions(self, *, key: Key[Array, ""]) -> tuple[Array, ...]:
        streams = jax.vmap(lambda name: jax.random.fold_in(key_stream(key, "coherence"), name))(jnp.arange(2))
        motion, colour = jax.vmap(lambda key: self.coherence.sample(key=key))(streams)
        return jax.random.randint(key_stream(key, "context"), (), 0, 2), motion, colour

    def nominal(self) -> tuple[Array, ...]:
        coherences = parts.nominal_values(self.coherence)
        context, motion, colour = parts.all_combinations(2, len(coherences), len(coherences))
        return context, coherences[motion], coherences[colour]

    def trial_of(self, timeline: Timeline, draws: tuple[Array, ...], *, key: Key[Array, ""]) -> Trial:
        context, *both = draws
        coherences = jnp.stack(both)
        choice = parts.sign_or_coin(coherences[context], key=key_stream(key, "coin"))
        shown, noise_key = timeline.in_epoch("stimulus"), key_stream(key, "noise")
        evidence = parts.with_noise(coherences, self.noise, shown, dt=self.dt, key=noise_key)
        told = jnp.broadcast_to(jax.nn.one_hot(context, 2), (timeline.n_steps, 2))
        values = choice[None].astype(float) if self.n_outputs == 1 else jax.nn.one_hot(choice, 2)
        decides = timeline.in_epoch("decision")
        return Trial(
            init=(),
            inputs={"evidence": evidence, "context": told},
            targets=OutputTarget(jnp.where(decides[:, None], values, 0.0), decides.astype(float)),
            timeline=timeline,
            conditions={
                "context": context,
                "motion coherence": coherences[0],
                "colour coherence": coherences[1],
                "choice": choice,
            },
        )


IS_SHOWN = ((1, 0), (0, 1), (1, 1))
"""Whether there is visual and auditory evidence: in visual, auditory and multisensory trials."""


class MultisensoryIntegration(parts.AbstractIndependentDraws, AbstractStimulusTask):
    """A rate that is seen, heard, or both: after the go cue, report whether it is low or high.

    The task of Raposo, Kaufman & Churchland 2014, Nat Neurosci, doi:10.1038/nn.3865 (not compared with the
    paper). Rates, boundary, times and the ratio of evidence to noise are those of frsong/pyrl, which trains
    networks until they are right in 80 % of the trials. NeuroGym's `MultiSensoryIntegration` divides one
    coherence between two streams that always agree, so that their plain sum is best.

    - Inputs: "fixation" (1), 1 until the go cue; "stimulus" (2: visual, auditory), shown in the epoch
        "stimulus": rate / boundary - 1 plus white noise, or 0 without noise where the stream is absent.
    - Targets: two outputs, zero until the go cue, then 1 for the correct one: the first for a rate below the
        boundary, the second for one above.
    - Epochs "fixation", "stimulus", "delay", "decision"; events "stimulus on", "stimulus off", "go cue".
    - Conditions: "rate" (Hz), "modality" (0 visual, 1 auditory, 2 both), "choice" (0 low, 1 high), "catch".

    `multisensory_accuracy` is that of an ideal observer, who weights each stream by its reliability, see
    `multisensory_log_odds`. The three modalities are equally probable. The validation trials are all
    combinations of modality and rate.
    """

    rate: Drawn = fields.drawn(
        "the rate, in Hz; at the boundary the correct choice is random",
        default=[9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0, 16.0],
        check=POSITIVE,
    )
    boundary: Scalar = fields.positive("the boundary between low and high rates, in Hz", default=12.5)
    noise: Float[Number, "2"] = fields.white_noise("the visual and the auditory stream", default=(0.17, 0.17))
    fixation: Drawn = fields.epoch(default=0.75)
    stimulus: Drawn = fields.epoch(default=1.0)
    delay: Drawn = fields.epoch(default=0.0)
    duration: float = fields.trial_duration(default=2.25)

    def __check_init__(self):
        if parts.is_known(self.noise) and self.noise.shape != (2,):
            raise ValueError(
                f"`noise` must be that of the visual and that of the auditory stream, two numbers, "
                f"got {short_repr(self.noise)}."
            )

    def draws(self) -> dict[str, parts.Drawable]:
        return {"modality": len(IS_SHOWN), "rate": self.rate}

    def trial_of(self, timeline: Timeline, draws: tuple[Array, ...], *, key: Key[Array, ""]) -> Trial:
        modality, rate = draws
        evidence = rate / self.boundary - 1
        shown = jnp.asarray(IS_SHOWN, float)[modality]
        return self.go_trial(
            timeline,
            shown * evidence,
            parts.sign_or_coin(evidence, key=key_stream(key, "coin")),
            {"rate": rate, "modality": modality},
            noise=shown * self.noise,
            key=key,
        )


def multisensory_log_odds(task: MultisensoryIntegration, inputs: Mapping[str, Array]) -> Float[Array, ""]:
    """Return the log odds that the rate of one trial of `MultisensoryIntegration` is high.

    With x the sum of a stream times dt, shown for s seconds, a rate with the evidence e has a likelihood in
    proportion to exp(e Σ x / σ² - e² Σ s / (2 σ²)), summed over streams: each is weighted by its reliability
    1 / σ² (Ernst & Banks 2002, Nature 415:429; derived here). An ideal observer says high where the log odds
    are positive.

    **Arguments:**

    - `task`: the task, with noise in both streams, whose rate is a `Choice`.
    - `inputs`: the inputs of the trial.
    """
    check_positive("task.noise", task.noise)
    values = parts.values_of_choice(task, "rate") / task.boundary - 1
    stimulus = inputs["stimulus"]
    reliability = 1 / task.noise**2
    total = task.dt * jnp.sum(jnp.sum(stimulus, axis=0) * reliability)
    is_shown = (stimulus != 0).astype(stimulus.dtype)  # noise is never zero
    seconds = task.dt * jnp.sum(jnp.sum(is_shown, axis=0) * reliability)
    likelihoods = values * total - values**2 * seconds / 2
    high = logsumexp(likelihoods, b=(jnp.sign(values) + 1) / 2)
    return high - logsumexp(likelihoods, b=(1 - jnp.sign(values)) / 2)


def multisensory_accuracy(
    task: MultisensoryIntegration,
    rate: Float[Array, "*trial"],
    modality: Int[Array, "*trial"],
    seconds: Float[Array, "*trial"] | float,
) -> Float[Array, "*trial"]:
    """Return the accuracy of the optimal combination of the streams, Phi(|e| (s Σ 1 / σ²)^0.5).

    e = rate / boundary - 1, and the sum is over the streams that are shown, so that the squares of their d'
    add up (Ernst & Banks 2002, Nature 415:429; derived here). It is that of an ideal observer if the rates
    lie symmetrically around the boundary.

    **Arguments:**

    - `task`: the task, with noise in both streams.
    - `rate`, `modality`: as in the conditions of trials.
    - `seconds`: s, how long the stimulus is shown.
    """
    check_positive("task.noise", task.noise)
    reliability = jnp.asarray(IS_SHOWN, float)[modality] @ (1 / task.noise**2)
    return norm.cdf(jnp.abs(rate / task.boundary - 1) * jnp.sqrt(seconds * reliability))


def targets_in_epoch(trials: Trial, epoch: str) -> OutputTarget:
    """Return the targets of trials as those of one choice, of which only the time steps of an epoch count.

    `popsim.choice_accuracy` and `popsim.output_choice` take them, in tasks with several choices in a trial.

    **Arguments:**

    - `trials`: one trial, or stacked trials, with an `OutputTarget`.
    - `epoch`: the epoch of the choice, such as "test 1".
    """
    targets = trials.targets
    check_instance("targets", targets, OutputTarget, "an OutputTarget")
    return OutputTarget(targets.values, jnp.where(trials.timeline.in_epoch(epoch), targets.counts, 0.0))
