"""Choices by evidence and by value, after a go cue, and in a context."""

from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from popsim._shared.checks import n_steps_in, short_repr
from popsim.distributions import Choice
from popsim.loss import Loss
from popsim.losses import CrossEntropy
from popsim.randomness import key_stream
from popsim.tasks import _fields as fields
from popsim.tasks import trial_parts as parts
from popsim.tasks._fields import POSITIVE, Drawn, Number, Scalar
from popsim.tasks.choices.delayed_choices import (
    AbstractDelayedChoice,
    AbstractRule,
    Question,
    choice_of_sign,
)
from popsim.tasks.trial_parts import NO, YES, Drawable
from popsim.trial import OutputTarget, Trial
from popsim.trial_plan import TrialPlan
from popsim.windows import Timeline

__all__ = [
    "ContextIntegration",
    "DelayedGoNoGo",
    "EconomicChoice",
    "MultisensoryIntegration",
    "PerceptualDecision",
    "SignalDetection",
]


def motion_coherences() -> Choice:
    """Return the coherences of Roitman & Shadlen 2002, J Neurosci 22:9475, without zero."""
    percent = jnp.array([3.2, 6.4, 12.8, 25.6, 51.2])
    return Choice(jnp.concatenate([-percent[::-1], percent]) / 100)


class PerceptualDecision(AbstractDelayedChoice):
    """Random dots: after the go cue, report which of two directions most of them moved in.

    The coherences are those of Roitman & Shadlen 2002, J Neurosci 22:9475, without zero (checked in their
    published data set). The inputs are those of NeuroGym's `PerceptualDecisionMaking`.

    - Inputs: "fixation" (1), 1 until the go cue; "stimulus" (`n_streams`), shown in the epoch "stimulus"
        with white noise. Two streams hold (1 - coherence) / 2 and (1 + coherence) / 2, one for each
        direction; one stream holds the coherence.
    - Targets: two outputs, zero until the go cue, then 1 for the correct one: the first for a negative
        coherence, the second for a positive one.
    - Conditions: "coherence", "choice" (0 or 1), "catch".

    After a stimulus of s seconds the accuracy of an ideal observer is Phi(|coherence| (s / k)^0.5 / sigma),
    with k = `n_streams`, if each coherence is as frequent in both directions.
    """

    n_streams: Literal[1, 2] = fields.setting(
        "the number of stimulus channels, 1 or 2", default=2, check=fields.one_of(1, 2)
    )
    coherence: Drawn = fields.coherence(default=motion_coherences)
    noise: Scalar = fields.white_noise("each stream", default=0.05)
    stimulus: Drawn = fields.epoch(default=0.5)
    delay: Drawn = fields.epoch(default=0.0)
    duration: float = fields.trial_duration(default=0.9)

    def draws(self) -> dict[str, Drawable]:
        return {"coherence": self.coherence}

    def rule(self, timeline: Timeline, draws: tuple[Array, ...]) -> Question:
        (coherence,) = draws
        streams = coherence[None] if self.n_streams == 1 else (1 + coherence * jnp.array([-1.0, 1.0])) / 2
        return Question({"stimulus": streams}, choice_of_sign(coherence), {"coherence": coherence})


class ContextIntegration(AbstractRule):
    """Two noisy streams of evidence with a context that selects the relevant one.

    The task of Mante, Sussillo, Shenoy & Newsome 2013, Nature 503:78, with other times and coherences, and no
    fixation or go cue; only the final choice counts.

    - Inputs: "evidence" (2: motion, colour), the coherence of each stream plus white noise in the epoch
        "stimulus"; "context" (2), one-hot throughout.
    - Targets: one output, 1 for a positive coherence of the relevant stream and 0 for a negative one (with
        `CrossEntropy` the output is the log odds); with `n_outputs=2` one output per choice, 1 for the
        correct one. Only the epoch "decision" counts.
    - Conditions: "context" (0 motion, 1 colour), "motion coherence", "colour coherence", "choice" (1 for
        positive).

    After a stimulus of s seconds the accuracy of an ideal observer, who sums the relevant evidence, is
    Phi(|coherence| n^0.5) with n = s / sigma², if each coherence is as frequent with either sign.
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
    stimulus_input = "evidence"

    def __check_init__(self):
        parts.check_time_left(self.plan, self.dt, "a time step of decision")

    @property
    def plan(self) -> TrialPlan:
        shown = {"stimulus": "stimulus on", "delay": "stimulus off"}
        return parts.plan_of(self, parts.epochs_of(self, **shown, decision="decision"))

    def draws(self) -> dict[str, Drawable]:
        return {"context": 2, "motion": self.coherence, "colour": self.coherence}

    def draw_conditions(self, *, key: Key[Array, ""]) -> tuple[Array, ...]:
        streams = jax.vmap(lambda name: jax.random.fold_in(key_stream(key, "coherence"), name))(jnp.arange(2))
        motion, colour = jax.vmap(lambda key: self.coherence.sample(key=key))(streams)
        return jax.random.randint(key_stream(key, "context"), (), 0, 2), motion, colour

    def rule(self, timeline: Timeline, draws: tuple[Array, ...]) -> Question:
        context, *both = draws
        coherences = jnp.stack(both)
        labels = {"context": context, "motion coherence": coherences[0], "colour coherence": coherences[1]}
        inputs = {"context": jax.nn.one_hot(context, 2)}
        choice = choice_of_sign(coherences[context])
        return Question({"stimulus": coherences}, choice, labels, inputs=inputs)

    def trial_of(self, timeline: Timeline, draws: tuple[Array, ...], *, key: Key[Array, ""]) -> Trial:
        question = self.rule(timeline, draws)
        choice = parts.sign_or_coin(jnp.asarray(question.choice) - 0.5, key=key_stream(key, "coin"))
        values = choice[None].astype(float) if self.n_outputs == 1 else jax.nn.one_hot(choice, 2)
        decides = timeline.in_epoch("decision")
        inputs = self.inputs_of(timeline, question, key=key)
        targets = OutputTarget(jnp.where(decides[:, None], values, 0.0), decides.astype(float))
        return Trial((), inputs, targets, timeline, conditions=question.conditions | {"choice": choice})


IS_SHOWN = ((1, 0), (0, 1), (1, 1))
"""Whether there is visual and auditory evidence: in visual, auditory and multisensory trials."""


class MultisensoryIntegration(AbstractDelayedChoice):
    """A rate that is seen, heard, or both: after the go cue, report whether it is low or high.

    The task of Raposo, Kaufman & Churchland 2014, Nat Neurosci, doi:10.1038/nn.3865 (not compared with the
    paper). Rates, boundary, times and the ratio of evidence to noise are those of frsong/pyrl.

    - Inputs: "fixation" (1), 1 until the go cue; "stimulus" (2: visual, auditory), shown in the epoch
        "stimulus": rate / boundary - 1 plus white noise, or 0 without noise where the stream is absent.
    - Targets: two outputs, zero until the go cue, then 1 for the correct one: the first for a rate below the
        boundary, the second for one above.
    - Conditions: "rate" (Hz), "modality" (0 visual, 1 auditory, 2 both), "choice" (0 low, 1 high), "catch".

    An ideal observer, `popsim.tasks.choice_probabilities`, weights each stream by its reliability 1 / sigma²
    (Ernst & Banks 2002, Nature 415:429). The three modalities are equally probable.
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
        if self.noise.shape != (2,):
            raise ValueError(
                f"`noise` must be that of the visual and that of the auditory stream, two numbers, "
                f"got {short_repr(self.noise)}."
            )

    def draws(self) -> dict[str, Drawable]:
        return {"modality": len(IS_SHOWN), "rate": self.rate}

    def rule(self, timeline: Timeline, draws: tuple[Array, ...]) -> Question:
        modality, rate = draws
        evidence = rate / self.boundary - 1
        is_shown = jnp.asarray(IS_SHOWN, float)[modality]
        labels = {"rate": rate, "modality": modality}
        noise = is_shown * self.noise
        return Question({"stimulus": is_shown * evidence}, choice_of_sign(evidence), labels, noise=noise)


class DelayedGoNoGo(AbstractDelayedChoice):
    """A go or a no-go stimulus, a delay, then the go cue, after which to respond or not.

    The stimuli and times of NeuroGym's `GoNogo`, which cites Zhang et al. 2019, eLife 8:e43191 (not compared
    with the paper).

    - Inputs: "fixation" (1), 1 until the go cue; "stimulus" (2: no-go, go), one-hot plus white noise in the
        epoch "stimulus".
    - Targets: two outputs, zero until the go cue, then 1 for the correct one: the first to respond ("go"),
        the second to withhold the response.
    - Conditions: "go", "choice" (0 go, 1 no-go), "catch".

    After a stimulus of s seconds the accuracy of an ideal observer is Phi((s / 2)^0.5 / sigma), if go and
    no-go are equally frequent.
    """

    go_probability: Scalar = fields.fraction("the fraction of trials with the go stimulus", default=0.5)
    noise: Scalar = fields.white_noise("each channel", default=0.1)
    fixation: Drawn = fields.epoch(default=0.0)
    stimulus: Drawn = fields.epoch(default=0.5)
    delay: Drawn = fields.epoch(default=0.5)
    duration: float = fields.trial_duration(default=1.5)

    def draws(self) -> dict[str, Drawable]:
        return {"go": self.go_probability}

    def rule(self, timeline: Timeline, draws: tuple[Array, ...]) -> Question:
        (is_go,) = draws
        shown = {"stimulus": jax.nn.one_hot(is_go.astype(int), 2)}
        return Question(shown, jnp.where(is_go, YES, NO), {"go": is_go})


class SignalDetection(AbstractDelayedChoice):
    """A brief signal at an unknown time in noise, in half of the trials: report whether it was there.

    The signal, the noise and the times of NeuroGym's `Detection`, there with a response at any time and an
    epoch "stimulus" that lasts 0.5 to 1.5 s. Here the response follows the go cue.

    - Inputs: "fixation" (1), 1 until the go cue; "stimulus" (1), white noise in the epoch "stimulus", and in
        trials with a signal `amplitude` for the time `signal`, from one of `n_onsets` onsets on, which follow
        one another without a gap or an overlap.
    - Targets: two outputs, zero until the go cue, then 1 for the correct one: the first, "yes", if there was
        a signal, the second, "no", if not.
    - Conditions: "signal", "onset" (the index of the onset; -1 without a signal), "choice" (0 or 1), "catch".
    """

    amplitude: Scalar = fields.non_negative("the amplitude of the signal", default=0.5)
    signal: float = fields.fixed("the duration of the signal, in seconds", default=0.1)
    n_onsets: int = fields.count('onsets; the epoch "stimulus" lasts `n_onsets` times `signal`', default=10)
    signal_probability: Scalar = fields.fraction("the fraction of trials with a signal", default=0.5)
    noise: Scalar = fields.white_noise("the stimulus", default=0.001**0.5)
    fixation: Drawn = fields.epoch(default=0.5)
    delay: Drawn = fields.epoch(default=0.0)
    duration: float = fields.trial_duration(default=2.0)

    def __check_init__(self):
        _ = self.n_signal_steps

    @property
    def n_signal_steps(self) -> int:
        """The number of time steps of a signal."""
        return n_steps_in("signal", self.signal, self.dt)

    @property
    def stimulus(self) -> float:
        """The duration of the epoch "stimulus", in seconds."""
        return self.n_onsets * self.signal

    def draws(self) -> dict[str, Drawable]:
        return {"signal": self.signal_probability, "onset": self.n_onsets}

    def rule(self, timeline: Timeline, draws: tuple[Array, ...]) -> Question:
        is_there, onset = draws
        since_start = jnp.arange(timeline.n_steps) - timeline.epochs["stimulus"][0]
        has_signal = is_there & (since_start // self.n_signal_steps == onset)
        shown = {"stimulus": jnp.where(has_signal, self.amplitude, 0.0)[:, None]}
        labels = {"signal": is_there, "onset": jnp.where(is_there, onset, -1)}
        return Question(shown, jnp.where(is_there, YES, NO), labels)


OFFERS = (
    *((1.0, 0.0), (3.0, 1.0), (2.0, 1.0), (1.0, 1.0), (1.0, 2.0), (1.0, 3.0), (1.0, 4.0), (1.0, 6.0)),
    (0.0, 2.0),
)


class EconomicChoice(AbstractDelayedChoice):
    """Two juices in different quantities: after the go cue, choose the offer of higher value.

    The task of Padoa-Schioppa & Assad 2006, Nature, doi:10.1038/nature04676 (not compared with the paper).
    Offers, the value of juice A and times are those of NeuroGym's `EconomicDecisionMaking`.

    - Inputs: "fixation" (1), 1 until the go cue; "stimulus" (6), shown in the epoch "offer" with white noise:
        whether the first offer is A, and B, whether the second one is A, and B, and the quantities of the
        first and the second, divided by the largest of all.
    - Targets: two outputs, zero until the go cue, then 1 for the offer of higher value.
    - Conditions: "quantity A" and "quantity B", "A first" (whether A is the first offer), "choice" (0 first,
        1 second), "chooses A" (whether A has the higher value), "catch".

    Which juice comes first is random.
    """

    offers: Float[Number, "offer 2"] = fields.non_negative(
        "quantities of A and B, of different value, an array of shape (offer, 2)", default=OFFERS
    )
    relative_value: Scalar = fields.positive("the value of A, in quantities of B", default=2.2)
    noise: Scalar = fields.white_noise("each channel", default=0.01)
    fixation: Drawn = fields.epoch(default=1.5)
    offer: Drawn = fields.epoch(default=(1.0, 2.0))
    duration: float = fields.trial_duration(default=4.25)
    epochs = {"offer": "offer on"}

    def __check_init__(self):
        offers = np.asarray(self.offers)
        if offers.ndim != 2 or offers.shape[1] != 2 or not len(offers):
            raise ValueError(f"`offers` must be pairs of quantities, got {short_repr(offers)}.")
        even = np.isclose(offers[:, 0] * float(self.relative_value), offers[:, 1])
        if even.any():
            raise ValueError(
                f"`offers` must differ in value, got {offers[even][0].tolist()} of A and B with "
                f"`relative_value` {float(self.relative_value):g}."
            )

    def draws(self) -> dict[str, Drawable]:
        return {"offer": self.offers.shape[0], "order": 2}

    def rule(self, timeline: Timeline, draws: tuple[Array, ...]) -> Question:
        offer, order = draws
        quantities = self.offers[offer] / jnp.max(self.offers)
        juices = jnp.where(order == 0, jnp.array([1.0, 0.0, 0.0, 1.0]), jnp.array([0.0, 1.0, 1.0, 0.0]))
        stimulus = jnp.concatenate([juices, jnp.where(order == 0, quantities, quantities[::-1])])
        quantity_a, quantity_b = self.offers[offer]
        a_is_better = quantity_a * self.relative_value > quantity_b
        labels = {"quantity A": quantity_a, "quantity B": quantity_b}
        labels |= {"A first": order == 0, "chooses A": a_is_better}
        return Question({"offer": stimulus}, jnp.where(a_is_better, order, 1 - order), labels)
