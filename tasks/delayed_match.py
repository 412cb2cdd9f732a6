"""Tell whether a test is the same as a sample before a delay."""

from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

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

YES, NO = 0, 1


class DelayedMatchToSample(AbstractTask):
    """A sample, a delay, a test: after the go cue, tell whether the test is the sample again.

    As `DelayMatchSample` of NeuroGym (cited from memory), with several directions.

    - Inputs: "fixation" (1), 1 until the go cue; "stimulus" (`n_directions`), during sample and test the
        activity of units on a ring, plus white noise.
    - Targets: two outputs, silent until the go cue, then 1 for the right one: the first, "yes", if test and
        sample match, the second, "no", if they do not; the other way round with `yes_to="non-match"`.
    - Epochs "fixation", "sample", "delay", "test", "decision"; events "sample on", "sample off", "test on",
        "go cue".
    - Conditions: "sample" and "test" (the number of the direction), "match", "choice" (0 or 1), "catch".

    A test that does not match is any other direction, as likely. The validation trials are two for each
    sample: the same test, and the opposite one (of an odd number, one next to it).

    **Arguments:**

    - `n_directions`: how many there are, evenly around the circle, at least two.
    - `yes_to`: "match", or "non-match" for delayed non-match to sample.
    - `match_probability`: the share of trials in which the test matches.
    - `noise`: sigma of each unit, in s^0.5; a step has sigma / dt^0.5.
    - `fixation`, `sample`, `delay`, `test`: how long these epochs last, in seconds; the rest is for the
        decision.
    - `response`: what counts before and after the go cue, and the share of catch trials.
    - `duration`: of a trial, in seconds.
    - `dt`: the time step in seconds, that of the model.
    - `loss`: what counts as doing well.

    **Raises:** `ValueError` if there are not at least two directions, `yes_to` is neither, `noise` is
    negative, a probability not from 0 to 1, `duration` not a multiple of `dt`, or leaves no time to
    respond.
    """

    loss: Loss = eqx.field(kw_only=True, default_factory=lambda: 1.0 * OutputError())
    n_directions: int = eqx.field(static=True, kw_only=True, default=2)
    yes_to: Literal["match", "non-match"] = eqx.field(static=True, kw_only=True, default="match")
    match_probability: Float[Array, ""] = eqx.field(kw_only=True, converter=as_float_array, default=0.5)
    noise: Float[Array, ""] = eqx.field(kw_only=True, converter=as_float_array, default=0.01)
    fixation: AbstractDistribution = eqx.field(kw_only=True, converter=as_distribution, default=0.1)
    sample: AbstractDistribution = eqx.field(kw_only=True, converter=as_distribution, default=0.2)
    delay: AbstractDistribution = eqx.field(
        kw_only=True, converter=as_distribution, default_factory=lambda: Uniform(0.1, 0.4)
    )
    test: AbstractDistribution = eqx.field(kw_only=True, converter=as_distribution, default=0.2)
    response: GoResponse = eqx.field(kw_only=True, default_factory=GoResponse)
    duration: float = eqx.field(static=True, kw_only=True, default=1.2)
    dt: float = eqx.field(static=True, kw_only=True, default=0.05)

    def __check_init__(self):
        check_positive_int("n_directions", self.n_directions)
        if self.n_directions < 2:
            raise ValueError(f"`n_directions` must be at least 2, got {self.n_directions}.")
        if self.yes_to not in ("match", "non-match"):
            raise ValueError(f"`yes_to` must be 'match' or 'non-match', got {self.yes_to!r}.")
        check_fraction("match_probability", self.match_probability)
        check_non_negative("noise", self.noise)
        self.response.check(self.plan)

    @property
    def plan(self) -> TrialPlan:
        """The plan of a trial."""
        return self.response.plan(
            Epoch("fixation", self.fixation),
            Epoch("sample", self.sample, event="sample on"),
            Epoch("delay", self.delay, event="sample off"),
            Epoch("test", self.test, event="test on"),
            duration=self.duration,
            dt=self.dt,
        )

    def trial(self, *, batch: int | Int[Array, ""], key: Key[Array, ""]) -> Trial:
        sample = jax.random.randint(key_stream(key, "sample"), (), 0, self.n_directions)
        match = jax.random.bernoulli(key_stream(key, "match"), self.match_probability)
        further = jax.random.randint(key_stream(key, "other"), (), 1, self.n_directions)
        test = (sample + jnp.where(match, 0, further)) % self.n_directions
        return self._trial(self.plan.draw(key=key_stream(key, "timeline")), sample, test, key=key)

    def validation_trials(self) -> Trial:
        sample, is_other = all_combinations(self.n_directions, 2)
        test = (sample + is_other * (self.n_directions // 2)) % self.n_directions
        return trials_of_conditions(self._trial, sample, test, shared=(self.plan.typical(),))

    def _trial(
        self, timeline: Timeline, sample: Int[Array, ""], test: Int[Array, ""], *, key: Key[Array, ""]
    ) -> Trial:
        is_sample, is_test = timeline.in_epoch("sample"), timeline.in_epoch("test")
        stimulus = with_noise(
            ring_activity(jnp.where(is_sample, sample, test), self.n_directions),
            self.noise,
            is_sample | is_test,
            dt=self.dt,
            key=key_stream(key, "noise"),
        )
        match = sample == test
        choice = self._right_choice(match)
        return Trial(
            init=(),
            inputs={"fixation": self.response.fixation(timeline), "stimulus": stimulus},
            targets=self.response.target(timeline, jax.nn.one_hot(choice, 2)),
            timeline=timeline,
            conditions={
                "sample": sample,
                "test": test,
                "match": match,
                "choice": choice,
                "catch": self.response.is_catch(timeline),
            },
        )

    def _right_choice(self, match: Bool[Array, ""]) -> Int[Array, ""]:
        return jnp.where(match == (self.yes_to == "match"), YES, NO)
