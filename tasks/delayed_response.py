"""Respond towards a remembered direction, or away from it."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from popsim.checks import as_float_array, check_fraction, check_non_negative, check_positive_int
from popsim.distributions import AbstractDistribution, Uniform, as_distribution
from popsim.loss import Loss
from popsim.losses import OutputError
from popsim.randomness import key_stream
from popsim.task import AbstractTask
from popsim.tasks.conditions import all_combinations, trials_of_conditions
from popsim.tasks.go_response import GoResponse
from popsim.tasks.stimuli import ring_activity, with_noise
from popsim.timeline import Timeline
from popsim.trial import Trial
from popsim.trial_plan import Epoch, TrialPlan

RULES = ("pro", "anti")


class DelayedResponse(AbstractTask):
    """A direction is shown and gone: after the go cue, respond to it (pro) or opposite to it (anti).

    The delayed tasks "Dly Go" and "Dly Anti" of Yang et al. 2019, Nat Neurosci 22:297 (cited from
    memory), with one output for each direction.

    - Inputs: "fixation" (1), 1 until the go cue; "rule" (2: pro, anti), one-hot throughout; "stimulus"
        (`n_directions`), during the stimulus the activity of units on a ring, plus white noise.
    - Targets: `n_directions` outputs, silent until the go cue, then 1 for the right direction.
    - Epochs "fixation", "stimulus", "delay", "decision"; events "stimulus on", "stimulus off", "go cue".
    - Conditions: "rule" (0 pro, 1 anti), "stimulus" and "choice" (the number of the direction), "catch".

    The validation trials are one for each rule and direction.

    **Arguments:**

    - `n_directions`: how many there are, evenly around the circle: an even number.
    - `anti_probability`: the share of trials in which the response is opposite.
    - `noise`: sigma of each unit, in s^0.5; a step has sigma / dt^0.5.
    - `fixation`, `stimulus`, `delay`: how long these epochs last, in seconds; the rest is for the decision.
    - `response`: what counts before and after the go cue, and the share of catch trials.
    - `duration`: of a trial, in seconds.
    - `dt`: the time step in seconds, that of the model.
    - `loss`: what counts as doing well.

    **Raises:** `ValueError` if `n_directions` is not even, `noise` is negative, a probability not from 0 to
    1, `duration` not a multiple of `dt`, or leaves no time to respond.
    """

    loss: Loss = eqx.field(kw_only=True, default_factory=lambda: 1.0 * OutputError())
    n_directions: int = eqx.field(static=True, kw_only=True, default=8)
    anti_probability: Float[Array, ""] = eqx.field(kw_only=True, converter=as_float_array, default=0.5)
    noise: Float[Array, ""] = eqx.field(kw_only=True, converter=as_float_array, default=0.01)
    fixation: AbstractDistribution = eqx.field(kw_only=True, converter=as_distribution, default=0.1)
    stimulus: AbstractDistribution = eqx.field(kw_only=True, converter=as_distribution, default=0.2)
    delay: AbstractDistribution = eqx.field(
        kw_only=True, converter=as_distribution, default_factory=lambda: Uniform(0.2, 0.6)
    )
    response: GoResponse = eqx.field(kw_only=True, default_factory=GoResponse)
    duration: float = eqx.field(static=True, kw_only=True, default=1.2)
    dt: float = eqx.field(static=True, kw_only=True, default=0.05)

    def __check_init__(self):
        check_positive_int("n_directions", self.n_directions)
        if self.n_directions % 2:
            raise ValueError(
                f"`n_directions` must be even, so that each has an opposite, got {self.n_directions}."
            )
        check_fraction("anti_probability", self.anti_probability)
        check_non_negative("noise", self.noise)
        self.response.check(self.plan)

    @property
    def plan(self) -> TrialPlan:
        """The plan of a trial."""
        return self.response.plan(
            Epoch("fixation", self.fixation),
            Epoch("stimulus", self.stimulus, event="stimulus on"),
            Epoch("delay", self.delay, event="stimulus off"),
            duration=self.duration,
            dt=self.dt,
        )

    def trial(self, *, batch: int | Int[Array, ""], key: Key[Array, ""]) -> Trial:
        is_anti = jax.random.bernoulli(key_stream(key, "rule"), self.anti_probability)
        direction = jax.random.randint(key_stream(key, "direction"), (), 0, self.n_directions)
        timeline = self.plan.draw(key=key_stream(key, "timeline"))
        return self._trial(timeline, is_anti.astype(int), direction, key=key)

    def validation_trials(self) -> Trial:
        conditions = all_combinations(len(RULES), self.n_directions)
        return trials_of_conditions(self._trial, *conditions, shared=(self.plan.typical(),))

    def _trial(
        self, timeline: Timeline, rule: Int[Array, ""], direction: Int[Array, ""], *, key: Key[Array, ""]
    ) -> Trial:
        n = self.n_directions
        stimulus = with_noise(
            jnp.broadcast_to(ring_activity(direction, n), (timeline.n_steps, n)),
            self.noise,
            timeline.in_epoch("stimulus"),
            dt=self.dt,
            key=key_stream(key, "noise"),
        )
        choice = (direction + rule * (n // 2)) % n
        told = jax.nn.one_hot(rule, len(RULES))
        return Trial(
            init=(),
            inputs={
                "fixation": self.response.fixation(timeline),
                "rule": jnp.broadcast_to(told, (timeline.n_steps, len(RULES))),
                "stimulus": stimulus,
            },
            targets=self.response.target(timeline, jax.nn.one_hot(choice, n)),
            timeline=timeline,
            conditions={
                "rule": rule,
                "stimulus": direction,
                "choice": choice,
                "catch": self.response.is_catch(timeline),
            },
        )
