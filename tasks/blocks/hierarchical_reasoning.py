"""Hierarchical reasoning: intervals to judge, under a rule that changes without notice."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from popsim._shared.plain_values import step_at
from popsim.distributions import AbstractDistribution, Choice, Constant
from popsim.randomness import key_stream
from popsim.session import separate_trials
from popsim.tasks import _fields as fields
from popsim.tasks._fields import POSITIVE, Drawn, Scalar
from popsim.tasks.blocks.block_decisions import BEFORE, BLOCK_LENGTH, AbstractBlocks, second_kind_before
from popsim.tasks.timing import steps_shown, table_of_steps, widest_interval
from popsim.tasks.trial_parts import GoResponse, pulses_at, sign_or_coin, values_of_choice
from popsim.trial import Trial, check_trials, n_trials
from popsim.trial_plan import Epoch, TrialPlan

__all__ = ["HierarchicalReasoning", "rule_choices"]


class HierarchicalReasoning(AbstractBlocks):
    """Is an interval short or long? Respond toward the flashes or away, by a rule that is not shown.

    The task of Sarafyazd & Jazayeri 2019, Science 364:eaav8911, with the intervals and blocks of NeuroGym's
    `HierarchicalReasoning` (not compared with the paper), in shorter times before and after the interval, and
    without a separate report of the rule. Two flashes on one side mark an interval. Under the first rule one
    responds toward them after a short interval, and away after a long one; under the second rule the
    opposite. The rules alternate in blocks, without notice. Each trial of this task is a session, with
    feedback as in `BlockDecisions`.

    - Inputs: "fixation" (1), 1 until the go cue; "flashes" (2: left, right), 1 on one side for `flash`
        seconds from "first flash" and "second flash" on; "feedback" (2), one-hot in the epoch "feedback", the
        correct side.
    - Targets: two outputs, zero until the go cue, then 1 for the correct side, but in "feedback".
    - Conditions of each trial: "interval" and "shown interval" (s), "is long", "side" of the flashes and
        "choice" (0 left, 1 right), "rule" (0 or 1; -1 before the first block), "trial in block" (from 0),
        "catch".

    The ideal observer is `popsim.tasks.rule_choices`. An interval at `boundary` is long by a coin flip.
    """

    n_trials: int = fields.count("trials in a session", default=30)
    block_length: Drawn = fields.drawn(BLOCK_LENGTH, default=(10.0, 21.0))
    interval: Drawn = fields.drawn(
        "the time from the first flash to the second, in seconds",
        default=lambda: Choice(jnp.arange(530.0, 1171.0, 80.0) / 1000),
        check=POSITIVE,
    )
    boundary: Scalar = fields.positive("the boundary of short and long intervals, in seconds", default=0.85)
    weber_fraction: Scalar = fields.fraction(
        "the standard deviation of the shown interval as a fraction of the interval", default=0.1
    )
    flash: float = fields.fixed("the duration of a flash, in seconds", default=0.08)
    fixation: Drawn = fields.epoch(default=0.16)
    wait: Drawn = fields.epoch(default=0.08)
    decision: Drawn = fields.epoch(default=0.16, check=POSITIVE)
    response: GoResponse = fields.part(fields.RESPONSE, default_factory=lambda: GoResponse(grace=0.08))
    duration: float = fields.trial_duration(default=2.08)
    dt: float = fields.time_step(default=0.08)

    @property
    def plan(self) -> TrialPlan:
        """The plan of one trial of a session, with the longest interval."""
        return self._plan(Constant(widest_interval(self.interval, self.weber_fraction)))

    def _plan(self, interval: AbstractDistribution) -> TrialPlan:
        return self.plan_with_feedback(
            Epoch("fixation", self.fixation),
            Epoch("interval", interval, event="first flash"),
            Epoch("wait", self.wait, event="second flash"),
        )

    def draw_trial(self, kind: Int[Array, ""], position: Int[Array, ""], *, key: Key[Array, ""]) -> Trial:
        interval = self.interval.sample(key=key_stream(key, "interval"))
        n_shown = steps_shown(interval, self.weber_fraction, self.dt, key=key_stream(key, "noise"))
        shown = n_shown.astype(float) * self.dt
        timeline = self._plan(Constant(shown)).draw(key=key_stream(key, "timeline"))
        steps_over = step_at(interval, 1e-4) - step_at(self.boundary, 1e-4)  # equal in spite of rounding
        is_long = sign_or_coin(steps_over.astype(float), key=key_stream(key, "coin"))
        side = jax.random.randint(key_stream(key, "side"), (), 0, 2)
        any_rule = jax.random.randint(key_stream(key, "rule"), (), 0, 2)
        choice = side ^ is_long ^ jnp.where(kind == BEFORE, any_rule, kind)
        flashes = pulses_at(timeline, ("first flash", "second flash"), self.flash)
        conditions = {"interval": interval, "shown interval": shown, "is long": is_long.astype(bool)}
        conditions |= {"side": side, "rule": kind, "trial in block": position}
        inputs = {"flashes": flashes * jax.nn.one_hot(side, 2)}
        return self.trial_with_feedback(timeline, inputs, choice, conditions)


def rule_choices(
    task: HierarchicalReasoning, sessions: Trial, rules: Int[np.ndarray, "session trial"] | None = None
) -> tuple[Int[np.ndarray, "session trial"], Float[np.ndarray, "session trial"]]:
    """Return the choices of an ideal observer of `HierarchicalReasoning`, and how probably each is right.

    It counts the time steps between the flashes, and knows the noise of the interval and the distribution of
    block lengths. The exact filter over the rule and the age of its block is that of `block_prior`.

    **Arguments:**

    - `task`, `sessions`: the task, whose interval is a `Choice`, and stacked trials of it.
    - `rules`: the rule of each trial, for an observer that knows it.
    """
    check_trials("sessions", sessions)
    trials, shape = separate_trials(sessions), (n_trials(sessions), task.n_trials)
    flashes = np.asarray(trials.inputs["flashes"])
    feedback = np.asarray(trials.inputs["feedback"]).sum(axis=1)
    side = flashes.sum(axis=1).argmax(axis=1)
    flashing = np.pad(flashes.any(axis=2).astype(int), ((0, 0), (1, 0)))
    onsets = np.argwhere(np.diff(flashing, axis=1) == 1)[:, 1].reshape(-1, 2)
    long = _probability_of_long(task)[np.diff(onsets, axis=1)[:, 0]]
    # Under the first rule, whether the right side is correct; under the second rule the opposite.
    right = np.where(side == 1, 1 - long, long)
    likely = np.stack([right, 1 - right], axis=-1).reshape(*shape, 2)
    was_right = feedback.argmax(axis=1).reshape(shape)[..., None] == 1
    is_shown = feedback.any(axis=1).reshape(shape)[..., None]
    likelihoods = np.where(is_shown, np.where(was_right, likely, 1 - likely), 1.0)
    second = second_kind_before(task, likelihoods) if rules is None else np.asarray(rules, float)
    probability = second * likely[..., 1] + (1 - second) * likely[..., 0]
    return (probability > 0.5).astype(int), np.maximum(probability, 1 - probability)


def _probability_of_long(task: HierarchicalReasoning) -> Float[np.ndarray, " steps"]:
    """Return the probability that an interval is long, for each number of time steps it may be shown as."""
    values = np.asarray(values_of_choice(task, "interval"), float)
    by_interval = table_of_steps(values, float(task.weber_fraction), task.dt)
    is_long = (np.sign(np.round(values - float(task.boundary), 4)) + 1) / 2
    return by_interval @ is_long / np.maximum(by_interval.sum(axis=1), 1e-300)
