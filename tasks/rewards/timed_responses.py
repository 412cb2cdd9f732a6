"""Responses that end the trial: go/no-go, pro and anti, decisions by reaction time and with a wager."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from popsim._shared import checks
from popsim._shared.checks import short_repr
from popsim.distributions import TruncatedExponential
from popsim.environment import AbstractEnvironment, Discrete, Observation, Outcome
from popsim.loss import Loss
from popsim.randomness import key_stream
from popsim.tasks import _fields as fields
from popsim.tasks import trial_parts as parts
from popsim.tasks._fields import POSITIVE, Drawn, Scalar
from popsim.tasks.choices.decisions import motion_coherences
from popsim.tasks.rewards.bandits import pick, reward_loss
from popsim.trial import Trial
from popsim.trial_plan import Epoch, TrialPlan
from popsim.windows import Timeline

__all__ = ["AntiResponse", "GoNoGo", "ResponseEnvironment", "PostDecisionWager", "ReactionTimeDecision"]


STIMULUS_ON = "stimulus on"


class ResponseEnvironment(AbstractEnvironment):
    """Waits for a response, which ends the trial.

    Action 0 is to wait; each other action is a response, which is paid and ends the trial. A response before
    `opens` is early. Without a response the trial ends with its last time step. It shows nothing: what the
    network needs is in the inputs of the trial. It records "response", whether this step was one.
    """

    payoffs: Float[Array, "*axes actions"]  # from `opens` on; that of action 0 is for no response at all
    early_payoff: Float[Array, "*axes"]  # of a response before `opens`
    waiting_cost: Float[Array, "*axes"]  # of each time step from `opens` on
    opens: Int[Array, "*axes"]  # the first time step in which a response is not early
    last_step: Int[Array, "*axes"]

    @property
    def actions(self) -> Discrete:
        return Discrete(self.payoffs.shape[-1])

    def init(self, *, key: Key[Array, ""]) -> tuple[Int[Array, ""], Observation]:
        return jnp.array(0), {}

    def step(self, state: Any, action: Int[Array, ""], *, key: Key[Array, ""]) -> tuple[Any, Outcome]:
        responds, is_open = action != 0, state >= self.opens
        is_last = state == self.last_step
        paid = jnp.where(is_open, pick(self.payoffs, action), self.early_payoff)
        waited = jnp.where(is_open, -self.waiting_cost, 0.0)
        waited = waited + jnp.where(is_last, self.payoffs[0], 0.0)
        reward = jnp.where(responds, paid, waited)
        return state + 1, Outcome({}, reward, responds | is_last, {"response": responds})


class AbstractTimedResponse(parts.AbstractPlannedTask):
    """A task in which a response ends the trial, by a `ResponseEnvironment`."""

    loss: Loss = fields.default_loss(  # rewards are hardly discounted
        default_factory=lambda: reward_loss(discount=0.98, value=0.5, entropy=0.1, last_batch=1000)
    )
    dt: float = fields.time_step(default=0.05)
    early_payoff: eqx.AbstractVar[Scalar]
    waiting_cost: eqx.AbstractVar[Scalar]
    duration: eqx.AbstractVar[float]

    def __check_init__(self):
        parts.check_time_left(self.plan, self.dt, "a time step to respond")

    def timed(
        self,
        timeline: Timeline,
        payoffs: Float[Array, " actions"],
        inputs: dict[str, Array],
        conditions: dict[str, Array],
        *,
        opens: str,
        costs_time: Bool[Array, ""] | bool = True,
    ) -> Trial:
        """Return a trial in which a response pays `payoffs` from the event `opens` on."""
        cost, last = jnp.where(costs_time, self.waiting_cost * self.dt, 0.0), jnp.array(timeline.n_steps - 1)
        environment = ResponseEnvironment(payoffs, self.early_payoff, cost, timeline.events[opens], last)
        return Trial((), inputs, (), timeline, conditions=conditions, environment=environment)


ERROR_PAYOFF = "what a wrong response, or a missing one, pays, at most 1, what the correct one pays"
LONGEST = "the longest duration of a trial, in seconds"


def check_error_payoff(name: str, payoff: Any) -> None:
    """Raise `ValueError` if an error pays more than the correct response, which pays 1."""
    checks.check_finite(name, payoff)
    if checks.violates(lambda payoff: payoff <= 1, *jax.tree.leaves(payoff)):
        raise ValueError(f"`{name}` must be at most 1, what the correct one pays, got {short_repr(payoff)}.")


class AbstractCuedResponse(AbstractTimedResponse):
    """A response to a stimulus that comes after a random foreperiod. A subclass supplies conditions."""

    foreperiod: Drawn = fields.drawn(
        "the time before the stimulus, in seconds", default=(0.2, 0.6), check=POSITIVE
    )
    waiting_cost: Scalar = fields.non_negative("what a second of the stimulus costs", default=0.5)
    early_payoff: Scalar = fields.number("what a response before the stimulus pays", default=-0.5)
    error_payoff: Scalar = fields.number(ERROR_PAYOFF, default=-0.5, check=check_error_payoff)
    duration: float = fields.trial_duration(LONGEST, default=1.2)

    @property
    def plan(self) -> TrialPlan:
        return parts.plan_of(self, parts.epochs_of(self, foreperiod=None, response=STIMULUS_ON))

    def shown(self, timeline: Timeline, stimulus: Float[Array, " channels"]) -> Float[Array, "time channels"]:
        """Return a stimulus that is shown from "stimulus on" on."""
        return jnp.where(timeline.since(STIMULUS_ON)[:, None], stimulus, 0.0)


class GoNoGo(AbstractCuedResponse):
    """Go or no-go: respond fast to one stimulus, and not at all to the other.

    A response ends the trial, so that its time is the reaction time. Rewards and penalties are those of
    NeuroGym's `GoNogo` (checked there), where responses wait for a decision epoch.

    - Input: "stimulus" (2), one-hot from "stimulus on" on, first go and then no-go.
    - Actions: wait, respond. Targets: none.
    - Rewards: 1 for a response to go, and for none to no-go; less the cost of the time from the stimulus to a
        response to go; `error_payoff` for a response to no-go, and for none to go.
    - Condition: "is go".

    The best player responds to go at once, and never to no-go: all rewards are 1.
    """

    go_probability: Scalar = fields.fraction("the fraction of trials with the go stimulus", default=0.5)
    waiting_cost: Scalar = fields.non_negative("what a second without a response to go costs", default=0.5)

    def draws(self) -> dict[str, parts.Drawable]:
        return {"go": self.go_probability}

    def nominal(self) -> tuple[Array, ...]:
        return (jnp.array([True, False]),)

    def trial_of(self, timeline: Timeline, draws: tuple[Array, ...], *, key: Key[Array, ""]) -> Trial:
        (is_go,) = draws
        payoffs = jnp.where(is_go, jnp.array([0.0, 1.0]), jnp.array([1.0, 0.0]))
        payoffs = jnp.where(payoffs > 0, payoffs, self.error_payoff)
        inputs = {"stimulus": self.shown(timeline, jnp.stack([is_go, ~is_go]).astype(float))}
        labels = {"is go": is_go}
        return self.timed(timeline, payoffs, inputs, labels, opens=STIMULUS_ON, costs_time=is_go)


class AntiResponse(AbstractCuedResponse):
    """Respond fast toward a stimulus, or away from it, as a rule says: pro and anti.

    A response ends the trial, so that its time is the reaction time.

    - Inputs: "rule" (2), one-hot throughout, pro and anti; "stimulus" (2), one-hot from "stimulus on" on,
        left and right.
    - Actions: wait, left, right. Targets: none.
    - Conditions: "is anti", "side" of the stimulus and "choice", the correct one (0 left, 1 right).

    The best player responds correctly at once: all rewards are 1.
    """

    anti_probability: Scalar = fields.fraction("the fraction of anti trials", default=0.5)

    def draws(self) -> dict[str, parts.Drawable]:
        return {"rule": self.anti_probability, "side": 2}

    def trial_of(self, timeline: Timeline, draws: tuple[Array, ...], *, key: Key[Array, ""]) -> Trial:
        is_anti, side = draws
        choice = jnp.where(is_anti, 1 - side, side)
        rule = jnp.stack([~is_anti, is_anti]).astype(float)
        inputs = {
            "rule": jnp.broadcast_to(rule, (timeline.n_steps, 2)),
            "stimulus": self.shown(timeline, jax.nn.one_hot(side, 2)),
        }
        labels = {"is anti": is_anti, "side": side, "choice": choice}
        return self.timed(timeline, payoffs_of(choice, self.error_payoff), inputs, labels, opens=STIMULUS_ON)


def payoffs_of(
    choice: Int[Array, ""], error_payoff: Float[Array, ""], *further: Float[Array, ""]
) -> Float[Array, " actions"]:
    """Return what waiting to the end, left, right and further actions pay, of which `choice` is correct."""
    sides = jnp.where(jnp.arange(2) == choice, 1.0, error_payoff)
    return jnp.concatenate([error_payoff[None], sides, *(payoff[None] for payoff in further)])


class AbstractReactionTimeDecision(AbstractTimedResponse):
    """A decision between left and right that a response ends, at any time after the stimulus has begun."""

    fixation: Drawn = fields.drawn("the time before the stimulus, in seconds", default=0.1)
    waiting_cost: Scalar = fields.non_negative(
        "what a second of the stimulus costs, as against 1 for a correct choice", default=0.2
    )
    early_payoff: Scalar = fields.number("what a response before the stimulus pays", default=-0.1)
    error_payoff: Scalar = fields.number(ERROR_PAYOFF, default=0.0, check=check_error_payoff)
    duration: float = fields.trial_duration(LONGEST, default=2.0)

    @property
    def plan(self) -> TrialPlan:
        return parts.plan_of(self, parts.epochs_of(self, fixation=None, stimulus=STIMULUS_ON))


class ReactionTimeDecision(AbstractReactionTimeDecision):
    """Random dots by reaction time: watch for as long as it pays, then choose a direction.

    The coherences are those of Roitman & Shadlen 2002, J Neurosci 22:9475, as in `PerceptualDecision`. A
    response at any time after the stimulus has begun ends the trial; time costs, so that one weighs speed
    against accuracy.

    - Input: "evidence" (1), the coherence plus white noise, from "stimulus on" on; 0 before.
    - Actions: wait, left (for a negative coherence), right. Targets: none.
    - Conditions: "coherence", "choice" (0 or 1, the correct one).

    The best player is a `DecisionBounds`, if all coherences are equally probable, `fixation` is one number,
    and `early_payoff` is no more than what it earns; `examples/references/optimal_stopping.py` computes its
    bounds.
    """

    coherence: Drawn = fields.coherence(default=motion_coherences)
    noise: Scalar = fields.white_noise("the evidence", default=0.2)

    def draws(self) -> dict[str, parts.Drawable]:
        return {"coherence": self.coherence}

    def trial_of(self, timeline: Timeline, draws: tuple[Array, ...], *, key: Key[Array, ""]) -> Trial:
        (coherence,) = draws
        shown = timeline.since(STIMULUS_ON)
        noisy = parts.with_noise(coherence[None], self.noise, shown, dt=self.dt, key=key_stream(key, "noise"))
        choice = parts.sign_or_coin(coherence, key=key_stream(key, "coin"))
        payoffs = payoffs_of(choice, self.error_payoff)
        labels = {"coherence": coherence, "choice": choice}
        return self.timed(timeline, payoffs, {"evidence": noisy}, labels, opens=STIMULUS_ON)


class PostDecisionWager(AbstractTimedResponse):
    """Decide, or take a sure but smaller reward, which is offered in half of the trials.

    The task of Kiani & Shadlen 2009, Science 324:759, with the times and rewards of NeuroGym's
    `PostDecisionWager` (checked there), in shorter delays.

    - Inputs: "evidence" (1), the coherence plus white noise, in the epoch "stimulus"; "fixation" (1), 1 until
        the go cue; "sure offer" (1), 1 from "offer" on, if there is one.
    - Actions: wait, left (for a negative coherence), right, sure; a sure response without an offer pays as an
        early one. Targets: none.
    - Conditions: "coherence", "choice" (0 or 1, the correct one), "has offer".

    `popsim.tasks.WagerObserver` is the best player that waits for the go cue.
    """

    coherence: Drawn = fields.coherence(default=motion_coherences)
    noise: Scalar = fields.white_noise("the evidence", default=0.1)
    stimulus: Drawn = fields.epoch(default=lambda: TruncatedExponential(0.1, 0.9, 0.18))
    delay: Drawn = fields.drawn(
        "the time from the end of the stimulus until the offer, in seconds", default=0.2
    )
    offer: Drawn = fields.drawn("the time from the offer until the go cue, in seconds", default=(0.2, 0.4))
    sure_payoff: Scalar = fields.number("what the sure response pays; a correct choice pays 1", default=0.7)
    early_payoff: Scalar = fields.number("what a response before the go cue pays", default=-0.1)
    offer_probability: Scalar = fields.fraction("the fraction of trials with an offer", default=0.5)
    waiting_cost: Scalar = fields.non_negative("what a second after the go cue costs", default=0.2)
    duration: float = fields.trial_duration(LONGEST, default=2.0)

    @property
    def plan(self) -> TrialPlan:
        events = {"stimulus": "stimulus on", "delay": "stimulus off", "offer": "offer"}
        epochs = parts.epochs_of(self, **events, decision=parts.GO_CUE)
        return parts.plan_of(self, (Epoch("fixation", 0.1), *epochs))

    def draws(self) -> dict[str, parts.Drawable]:
        return {"offer": self.offer_probability, "coherence": self.coherence}

    def trial_of(self, timeline: Timeline, draws: tuple[Array, ...], *, key: Key[Array, ""]) -> Trial:
        has_offer, coherence = draws
        shown, noise_key = timeline.in_epoch("stimulus"), key_stream(key, "noise")
        inputs = {
            "evidence": parts.with_noise(coherence[None], self.noise, shown, dt=self.dt, key=noise_key),
            "fixation": (~timeline.since(parts.GO_CUE))[:, None].astype(float),
            "sure offer": (timeline.since("offer") & has_offer)[:, None].astype(float),
        }
        choice = parts.sign_or_coin(coherence, key=key_stream(key, "coin"))
        sure = jnp.where(has_offer, self.sure_payoff, self.early_payoff)
        payoffs = payoffs_of(choice, jnp.zeros(()), sure)
        labels = {"coherence": coherence, "choice": choice, "has offer": has_offer}
        return self.timed(timeline, payoffs, inputs, labels, opens=parts.GO_CUE)
