"""Decisions about noisy evidence that a response ends: by reaction time, and with a wager."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from popsim._checks import as_float_array, check_finite, check_fraction, check_non_negative, check_positive
from popsim._plain_values import plain_number
from popsim.distributions import AbstractDistribution, TruncatedExponential, Uniform, as_distribution
from popsim.loss import Loss
from popsim.randomness import key_stream
from popsim.tasks.choices.decisions import check_coherence, motion_coherences
from popsim.tasks.rewards.timed_responses import (
    STIMULUS_ON,
    AbstractTimedResponse,
    check_error_payoff,
    payoffs_of,
    timed_loss,
)
from popsim.tasks.trial_parts import (
    GO_CUE,
    all_combinations,
    check_drawn,
    nominal_values,
    sign_or_coin,
    with_noise,
)
from popsim.trial import Trial
from popsim.trial_plan import Epoch, TrialPlan
from popsim.windows import Timeline

__all__ = ["PostDecisionWager", "ReactionTimeDecision"]


class AbstractReactionTimeDecision(AbstractTimedResponse):
    """A decision between left and right that a response ends, at any time after the stimulus has begun.

    A subclass supplies the stimulus and the conditions.
    """

    loss: Loss = eqx.field(kw_only=True, default_factory=timed_loss)
    fixation: AbstractDistribution = eqx.field(kw_only=True, converter=as_distribution, default=0.1)
    waiting_cost: Float[Array, ""] = eqx.field(kw_only=True, converter=as_float_array, default=0.2)
    early_payoff: Float[Array, ""] = eqx.field(kw_only=True, converter=as_float_array, default=-0.1)
    error_payoff: Float[Array, ""] = eqx.field(kw_only=True, converter=as_float_array, default=0.0)
    duration: float = eqx.field(static=True, converter=plain_number, kw_only=True, default=2.0)
    dt: float = eqx.field(static=True, converter=plain_number, kw_only=True, default=0.05)

    def __check_init__(self):
        check_error_payoff(self.error_payoff)

    @property
    def plan(self) -> TrialPlan:
        epochs = (Epoch("fixation", self.fixation), Epoch("stimulus", event=STIMULUS_ON))
        return TrialPlan(epochs, duration=self.duration, dt=self.dt)


class ReactionTimeDecision(AbstractReactionTimeDecision):
    """Random dots by reaction time: watch for as long as it pays, then choose a direction.

    The coherences are those of Roitman & Shadlen 2002, J Neurosci 22:9475, as in `PerceptualDecision`. A
    response at any time after the stimulus has begun ends the trial; time costs, so that one weighs speed
    against accuracy. The environment is a `ResponseEnvironment`.

    - Input: "evidence" (1), the coherence plus white noise, from "stimulus on" on; 0 before.
    - Actions: wait, left (for a negative coherence), right. Targets: none.
    - Epochs "fixation", "stimulus"; event "stimulus on".
    - Conditions: "coherence", "choice" (0 or 1, the correct one).

    `popsim.tasks.optimal_decisions` computes the best player and its mean reward.

    **Arguments:**

    - `coherence`: the distribution of the coherence, from -1 to 1. At zero the correct choice is random.
    - `noise`: sigma of the evidence, in s^0.5; the standard deviation in a time step is sigma / dt^0.5.
    - `fixation`: the time before the stimulus, in seconds; a number or a distribution.
    - `waiting_cost`: what a second of the stimulus costs, in units of the reward for a correct choice.
    - `early_payoff`: what a response before the stimulus pays.
    - `error_payoff`: what a wrong choice, or none, pays, at most 1; a correct one pays 1.
    - `duration`, `dt`: the longest duration of a trial and the time step of the model, in seconds.
    - `loss`: the loss to train with.
    """

    coherence: AbstractDistribution = eqx.field(
        kw_only=True, converter=as_distribution, default_factory=motion_coherences
    )
    noise: Float[Array, ""] = eqx.field(kw_only=True, converter=as_float_array, default=0.2)

    def __check_init__(self):
        check_drawn("coherence", self.coherence, check_coherence)
        check_non_negative("noise", self.noise)

    def draw_conditions(self, *, key: Key[Array, ""]) -> tuple[Array, ...]:
        return (self.coherence.sample(key=key_stream(key, "coherence")),)

    def nominal(self) -> tuple[Array, ...]:
        return (nominal_values(self.coherence),)

    def trial_of(self, timeline: Timeline, *conditions: Array, key: Key[Array, ""]) -> Trial:
        (coherence,) = conditions
        shown = timeline.since(STIMULUS_ON)
        evidence = jnp.broadcast_to(coherence[None, None], (timeline.n_steps, 1))
        noisy = with_noise(evidence, self.noise, shown, dt=self.dt, key=key_stream(key, "noise"))
        choice = sign_or_coin(coherence, key=key_stream(key, "coin"))
        payoffs = payoffs_of(choice, self.error_payoff)
        labels = {"coherence": coherence, "choice": choice}
        return self.timed(timeline, payoffs, {"evidence": noisy}, labels, opens=STIMULUS_ON)


class PostDecisionWager(AbstractTimedResponse):
    """Decide, or take a sure but smaller reward, which is offered in half of the trials.

    The task of Kiani & Shadlen 2009, Science 324:759, with the times and rewards of NeuroGym's
    `PostDecisionWager` (checked there), in shorter delays. One who knows how sure he is takes the sure reward
    where the choice would be right less often than it pays. The environment is a `ResponseEnvironment`.

    - Inputs: "evidence" (1), the coherence plus white noise, in the epoch "stimulus"; "fixation" (1), 1 until
        the go cue; "sure offer" (1), 1 from "offer" on, if there is one.
    - Actions: wait, left (for a negative coherence), right, sure; a sure response without an offer pays as an
        early one. Targets: none.
    - Epochs "fixation", "stimulus", "delay", "offer", "decision"; events "stimulus on", "stimulus off",
        "offer", "go cue".
    - Conditions: "coherence", "choice" (0 or 1, the correct one), "has offer".

    `popsim.tasks.WagerObserver` is the best player that waits for the go cue: it takes the sure reward where
    its choice would be right less often than the sure reward pays, given all the evidence
    (`popsim.tasks.probability_of_right`).

    **Arguments:**

    - `coherence`: the distribution of the coherence, from -1 to 1. At zero the correct choice is random.
    - `noise`: sigma of the evidence, in s^0.5; the standard deviation in a time step is sigma / dt^0.5.
    - `stimulus`: the duration of the stimulus, in seconds; a number or a distribution.
    - `delay`: the time from its end until the offer, in seconds; a number or a distribution.
    - `offer`: the time from the offer until the go cue, in seconds; a number or a distribution.
    - `sure_payoff`: what the sure response pays; a correct choice pays 1 and a wrong one nothing.
    - `early_payoff`: what a response before the go cue pays.
    - `offer_probability`: the fraction of trials with an offer.
    - `waiting_cost`: what a second after the go cue costs.
    - `duration`, `dt`: the longest duration of a trial and the time step of the model, in seconds.
    - `loss`: the loss to train with.
    """

    loss: Loss = eqx.field(kw_only=True, default_factory=timed_loss)
    coherence: AbstractDistribution = eqx.field(
        kw_only=True, converter=as_distribution, default_factory=motion_coherences
    )
    noise: Float[Array, ""] = eqx.field(kw_only=True, converter=as_float_array, default=0.1)
    stimulus: AbstractDistribution = eqx.field(
        kw_only=True, converter=as_distribution, default_factory=lambda: TruncatedExponential(0.1, 0.9, 0.18)
    )
    delay: AbstractDistribution = eqx.field(kw_only=True, converter=as_distribution, default=0.2)
    offer: AbstractDistribution = eqx.field(
        kw_only=True, converter=as_distribution, default_factory=lambda: Uniform(0.2, 0.4)
    )
    sure_payoff: Float[Array, ""] = eqx.field(kw_only=True, converter=as_float_array, default=0.7)
    early_payoff: Float[Array, ""] = eqx.field(kw_only=True, converter=as_float_array, default=-0.1)
    offer_probability: Float[Array, ""] = eqx.field(kw_only=True, converter=as_float_array, default=0.5)
    waiting_cost: Float[Array, ""] = eqx.field(kw_only=True, converter=as_float_array, default=0.2)
    duration: float = eqx.field(static=True, converter=plain_number, kw_only=True, default=2.0)
    dt: float = eqx.field(static=True, converter=plain_number, kw_only=True, default=0.05)

    def __check_init__(self):
        check_drawn("coherence", self.coherence, check_coherence)
        for name in ("stimulus", "delay", "offer"):
            check_drawn(name, getattr(self, name), check_positive)
        check_non_negative("noise", self.noise)
        check_finite("sure_payoff", self.sure_payoff)
        check_fraction("offer_probability", self.offer_probability)

    @property
    def plan(self) -> TrialPlan:
        epochs = (
            Epoch("fixation", 0.1),
            Epoch("stimulus", self.stimulus, event=STIMULUS_ON),
            Epoch("delay", self.delay, event="stimulus off"),
            Epoch("offer", self.offer, event="offer"),
            Epoch("decision", event=GO_CUE),
        )
        return TrialPlan(epochs, duration=self.duration, dt=self.dt)

    def draw_conditions(self, *, key: Key[Array, ""]) -> tuple[Array, ...]:
        has_offer = jax.random.bernoulli(key_stream(key, "offer"), self.offer_probability)
        return self.coherence.sample(key=key_stream(key, "coherence")), has_offer

    def nominal(self) -> tuple[Array, ...]:
        coherences = nominal_values(self.coherence)
        has_offer, index = all_combinations(2, len(coherences))
        return coherences[index], has_offer.astype(bool)

    def trial_of(self, timeline: Timeline, *conditions: Array, key: Key[Array, ""]) -> Trial:
        coherence, has_offer = conditions
        evidence = jnp.broadcast_to(coherence[None, None], (timeline.n_steps, 1))
        inputs = {
            "evidence": with_noise(
                evidence,
                self.noise,
                timeline.in_epoch("stimulus"),
                dt=self.dt,
                key=key_stream(key, "noise"),
            ),
            "fixation": (~timeline.since(GO_CUE))[:, None].astype(float),
            "sure offer": (timeline.since("offer") & has_offer)[:, None].astype(float),
        }
        choice = sign_or_coin(coherence, key=key_stream(key, "coin"))
        sure = jnp.where(has_offer, self.sure_payoff, self.early_payoff)
        payoffs = payoffs_of(choice, jnp.zeros(()), sure)
        labels = {"coherence": coherence, "choice": choice, "has offer": has_offer}
        return self.timed(timeline, payoffs, inputs, labels, opens=GO_CUE)
