"""Players of timed decisions about noisy evidence, and decisions about clicks."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from popsim._shared.checks import as_float_array, check_positive
from popsim.randomness import key_stream
from popsim.tasks import _fields as fields
from popsim.tasks._fields import Drawn, Scalar
from popsim.tasks.choices.pulses import AbstractClicks
from popsim.tasks.rewards import timed_responses as timed
from popsim.tasks.rewards.players import AbstractPlayer, Received
from popsim.tasks.trial_parts import sign_or_coin, values_of_choice
from popsim.trial import Trial
from popsim.windows import Timeline

__all__ = ["ClickBounds", "DecisionBounds", "ReactionTimeClicks", "WagerObserver", "probability_of_right"]


WAIT, LEFT, SURE = 0, 1, 3


def probability_of_right(
    evidence: Float[Array, "*axes"],
    seconds: Float[Array, "*axes"],
    coherences: Float[Array, " value"],
    noise: Float[Array, ""],
) -> Float[Array, "*axes"]:
    """Return the probability that the coherence is positive, given the evidence of a stimulus.

    The accumulated evidence x, the sum of the evidence times dt, is all that one can know. After s seconds it
    is normal with mean c s and variance σ² s, so that the odds of the coherence c are exp((c x - c² s / 2) /
    σ²). A coherence of zero is right by a coin flip.

    **Arguments:**

    - `evidence`: x.
    - `seconds`: s.
    - `coherences`: the values of c, which are equally probable.
    - `noise`: σ, in s^0.5.
    """
    log_odds = coherences * evidence[..., None] - coherences**2 * seconds[..., None] / 2
    weights = jax.nn.softmax(log_odds / noise**2, axis=-1)
    return jnp.sum(weights * (jnp.sign(coherences) + 1) / 2, axis=-1)


class DecisionBounds(AbstractPlayer):
    """Accumulates the evidence of a `ReactionTimeDecision`, and responds when it reaches a bound.

    **Arguments:**

    - `bounds`: the bound of the accumulated evidence, in s, at each time step of the stimulus; infinite for
        no response.
    - `dt`: the time step, in seconds.
    """

    bounds: Float[Array, " step"] = eqx.field(converter=as_float_array)
    dt: Float[Array, ""] = eqx.field(converter=as_float_array, kw_only=True)
    reads = ("evidence",)

    def init(self) -> tuple[Float[Array, ""], Int[Array, ""]]:
        return jnp.zeros(()), jnp.array(0)

    def choose(self, received: Received, state: Any, *, key: Key[Array, ""]) -> tuple[Int[Array, ""], Any]:
        total, n_seen = state
        (evidence,) = received["evidence"]
        total = total + self.dt * evidence
        n_seen = jnp.where(evidence != 0, n_seen + 1, n_seen)  # noise is never zero
        is_now = jnp.arange(self.bounds.shape[0]) == n_seen - 1
        bound = jnp.sum(jnp.where(is_now, self.bounds, 0.0))
        responds = (n_seen > 0) & (jnp.abs(total) >= bound)
        side = LEFT + sign_or_coin(total, key=key)
        return jnp.where(responds, side, WAIT), (total, n_seen)


class WagerObserver(AbstractPlayer):
    """Knows `probability_of_right` in a `PostDecisionWager`, and takes the sure reward if it pays more.

    The task must have noise, and a coherence that is a `Choice`.
    """

    task: timed.PostDecisionWager
    reads = ("evidence", "fixation", "sure offer")

    def __check_init__(self):
        check_positive("task.noise", self.task.noise)
        values_of_choice(self.task, "coherence")

    def init(self) -> tuple[Float[Array, ""], Float[Array, ""]]:
        return jnp.zeros(()), jnp.zeros(())

    def choose(self, received: Received, state: Any, *, key: Key[Array, ""]) -> tuple[Int[Array, ""], Any]:
        task, (evidence,) = self.task, received["evidence"]
        total = state[0] + task.dt * evidence
        seconds = state[1] + jnp.where(evidence != 0, task.dt, 0.0)  # noise is never zero
        right = probability_of_right(total, seconds, values_of_choice(task, "coherence"), task.noise)
        side = LEFT + sign_or_coin(right - 0.5, key=key)
        is_unsure = jnp.maximum(right, 1 - right) < task.sure_payoff
        action = jnp.where(is_unsure & (received["sure offer"][0] > 0), SURE, side)
        return jnp.where(received["fixation"][0] > 0, WAIT, action), (total, seconds)


class ReactionTimeClicks(timed.AbstractReactionTimeDecision, AbstractClicks):
    """Clicks by reaction time: listen for as long as it pays, then report the side with the higher rate.

    The clicks are those of `PoissonClicks`, of Brunton, Botvinick & Brody 2013, Science 340:95, and the
    response is that of `ReactionTimeDecision`: at any time after the clicks have begun it ends the trial, and
    time costs. Here the side with the higher rate is correct, even if it had fewer clicks.

    - Inputs: "fixation" (1), 1 until "stimulus on"; "stimulus" (2: left, right), from then on the number of
        clicks in each time step, which are Poisson processes.
    - Actions: wait, left, right. Targets: none.
    - Conditions: "log ratio", "choice" (0 or 1, the correct one).

    The best player is a `ClickBounds`, if all log ratios are equally probable, `fixation` is one number, and
    `early_payoff` is no more than what it earns; `examples/references/optimal_clicks.py` computes its bounds.
    """

    fixation: Drawn = fields.drawn("the time before the clicks, in seconds", default=0.1)
    waiting_cost: Scalar = fields.non_negative(
        "what a second of the clicks costs, as against 1 for a correct choice", default=0.2
    )
    early_payoff: Scalar = fields.number("what a response before the clicks pays", default=-0.1)

    def trial_of(self, timeline: Timeline, draws: tuple[Array, ...], *, key: Key[Array, ""]) -> Trial:
        (log_ratio,) = draws
        shown = timeline.since(timed.STIMULUS_ON)[:, None]
        clicks = self.clicks(log_ratio, timeline.n_steps, key=key)
        inputs = {"fixation": (~shown).astype(float), "stimulus": jnp.where(shown, clicks, 0.0)}
        choice = sign_or_coin(log_ratio, key=key_stream(key, "coin"))
        labels = {"log ratio": log_ratio, "choice": choice}
        return self.timed(
            timeline, timed.payoffs_of(choice, self.error_payoff), inputs, labels, opens=timed.STIMULUS_ON
        )


class ClickBounds(AbstractPlayer):
    """Counts the clicks of a `ReactionTimeClicks`, and responds when their difference reaches a bound.

    **Arguments:**

    - `bounds`: the bound of the difference between the two sides, at each time step of the clicks, for each
        number of clicks on both sides so far; infinite for no response.
    """

    bounds: Float[Array, "step clicks"] = eqx.field(converter=as_float_array)
    reads = ("fixation", "stimulus")

    def init(self) -> tuple[Float[Array, "2"], Int[Array, ""]]:
        return jnp.zeros(2), jnp.array(0)

    def choose(self, received: Received, state: Any, *, key: Key[Array, ""]) -> tuple[Int[Array, ""], Any]:
        counts, n_heard = state
        counts = counts + received["stimulus"]
        n_heard = jnp.where(received["fixation"][0] == 0, n_heard + 1, n_heard)
        difference = counts[1] - counts[0]
        n_clicks = jnp.minimum(jnp.sum(counts).astype(int), self.bounds.shape[1] - 1)
        responds = (n_heard > 0) & (jnp.abs(difference) >= self.bounds[n_heard - 1, n_clicks])
        return jnp.where(responds, LEFT + sign_or_coin(difference, key=key), WAIT), (counts, n_heard)
