"""Two stimuli with a delay between them, or two pairs of them: whether they belong together."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.special import logit, logsumexp
from jax.scipy.stats import norm
from jaxtyping import Array, Float, Key

from popsim._shared.checks import check_positive, n_steps_in
from popsim.loss import Loss
from popsim.losses import OutputError
from popsim.randomness import key_stream
from popsim.tasks import _fields as fields
from popsim.tasks import trial_parts as parts
from popsim.tasks._fields import Drawn, Scalar
from popsim.tasks.choices.decisions import AbstractGoTask
from popsim.trial import OutputTarget, Trial
from popsim.trial_plan import Epoch, TrialPlan
from popsim.windows import Timeline

__all__ = [
    "DelayedMatchToCategory",
    "DelayedPairedAssociation",
    "DualDelayedMatchToSample",
    "association_log_odds",
    "category_accuracy",
    "category_log_odds",
    "category_match_log_odds",
    "dual_match_log_odds",
    "same_accuracy",
    "same_log_odds",
]


def same_log_odds(first: Float[Array, "*axes"], second: Float[Array, "*axes"]) -> Float[Array, "*axes"]:
    """Return the log odds that two things, each of one of two kinds, are of the same kind.

    **Arguments:**

    - `first`, `second`: the log odds that the thing is of the first kind, which are independent.
    """
    return jnp.logaddexp(first + second, 0.0) - jnp.logaddexp(first, second)


def same_accuracy(
    first: Float[Array, "*axes"] | float, second: Float[Array, "*axes"] | float
) -> Float[Array, "*axes"]:
    """Return p q + (1 - p) (1 - q): how often one is right whether two things are of the same kind.

    An ideal observer to whom both answers are equally probable is right where both kinds, or none, are
    recognised correctly.

    **Arguments:**

    - `first`, `second`: p and q, how often the kind of the thing is recognised.
    """
    p, q = jnp.asarray(first, float), jnp.asarray(second, float)
    return p * q + (1 - p) * (1 - q)


def sums_in_turn(task: Any, inputs: Mapping[str, Array], n: int) -> Float[Array, "turn channels"]:
    """Return the sum times dt of each of the first `n` stimuli of a trial, which zeros separate."""
    stimulus = inputs["stimulus"]
    is_shown = jnp.any(stimulus != 0, axis=1)  # noise is never zero
    begins = is_shown & ~jnp.concatenate([jnp.zeros(1, bool), is_shown[:-1]])
    in_turn = is_shown & (jnp.cumsum(begins) == jnp.arange(1, n + 1)[:, None])
    return task.dt * (in_turn.astype(stimulus.dtype) @ stimulus)


def direction_vectors(n_directions: int) -> Float[Array, "direction 2"]:
    """Return unit vectors of evenly spaced directions, of which the first half has a positive sine."""
    angles = 2 * jnp.pi / n_directions * (jnp.arange(float(n_directions)) + 0.5)
    return jnp.stack([jnp.cos(angles), jnp.sin(angles)], axis=1)


class DelayedMatchToCategory(AbstractGoTask):
    """Two directions with a delay between them: after the go cue, report whether their category is the same.

    The task of Freedman & Assad 2006, Nature 443:85: 12 directions of motion in two categories, 15, 45 and 75
    degrees from the boundary (checked in the legend of figure 1). The times are those of NeuroGym's
    `DelayMatchCategory`. There, and in the paper, the response comes during the test, and in the paper a test
    that does not match is followed by one that does; here the response follows the test. (The two cosines of
    NeuroGym's default stimulus are the same for both categories.)

    - Inputs: "fixation" (1), 1 until the go cue; "stimulus" (2), the cosine and the sine of the direction
        plus white noise during sample and test.
    - Targets: two outputs, zero until the go cue, then 1 for the correct one: the first, "yes", if both
        directions are of one category, the second, "no", if not.
    - Epochs "fixation", "sample", "delay", "test", "decision"; events "sample on", "sample off", "test on",
        "go cue".
    - Conditions: "sample" and "test" (the index of the direction), "sample category" and "test category" (0
        above the boundary, which is the first axis, 1 below), "match", "choice" (0 or 1), "catch".

    With as many matches as non-matches the accuracy of an ideal observer, see `category_match_log_odds`, is
    `same_accuracy(p, q)`, with p and q the `category_accuracy` of sample and test. The validation trials are
    all combinations of directions.
    """

    n_directions: int = fields.setting(fields.EVEN_DIRECTIONS, default=12, check=fields.check_even)
    match_probability: Scalar = fields.fraction(
        "the fraction of trials in which sample and test are of one category", default=0.5
    )
    noise: Scalar = fields.white_noise("each channel", default=0.1)
    fixation: Drawn = fields.epoch(default=0.5)
    sample: Drawn = fields.epoch(default=0.65)
    delay: Drawn = fields.epoch(default=1.0)
    test: Drawn = fields.epoch(default=0.65)
    duration: float = fields.trial_duration(default=3.3)

    def epochs(self) -> tuple[Epoch, ...]:
        return parts.epochs_of(self, sample="sample on", delay="sample off", test="test on")

    def draw_conditions(self, *, key: Key[Array, ""]) -> tuple[Array, ...]:
        n_each = self.n_directions // 2
        sample = jax.random.randint(key_stream(key, "sample"), (), 0, self.n_directions)
        match = jax.random.bernoulli(key_stream(key, "match"), self.match_probability)
        within = jax.random.randint(key_stream(key, "test"), (), 0, n_each)
        category = jnp.where(match, sample // n_each, 1 - sample // n_each)
        return sample, category * n_each + within

    def nominal(self) -> tuple[Array, ...]:
        return parts.all_combinations(self.n_directions, self.n_directions)

    def trial_of(self, timeline: Timeline, draws: tuple[Array, ...], *, key: Key[Array, ""]) -> Trial:
        sample, test = draws
        of_sample, of_test = (index // (self.n_directions // 2) for index in draws)
        is_sample, is_test = timeline.in_epoch("sample"), timeline.in_epoch("test")
        vectors = direction_vectors(self.n_directions)
        stimulus = jnp.where(is_sample[:, None], vectors[sample], vectors[test])
        match = of_sample == of_test
        conditions = {"sample": sample, "test": test, "match": match}
        conditions |= {"sample category": of_sample, "test category": of_test}
        choice = jnp.where(match, parts.YES, parts.NO)
        return self.go_trial(timeline, stimulus, choice, conditions, shown=is_sample | is_test, key=key)


def category_log_odds(task: DelayedMatchToCategory, total: Float[Array, "*axes 2"]) -> Float[Array, "*axes"]:
    """Return the log odds of category 0, given the sum over time of the stimulus of one direction times dt.

    Given a direction with unit vector v, the sum x over s seconds is normal with mean v s and variance σ² s
    of each channel, so that its likelihood is in proportion to exp(v x / σ²). The log odds have the sign of
    the sine.

    **Arguments:**

    - `task`: the task, with noise.
    - `total`: x, cosine and sine, in s.
    """
    check_positive("task.noise", task.noise)
    likelihoods = total @ direction_vectors(task.n_directions).T / task.noise**2
    above, below = jnp.split(likelihoods, 2, axis=-1)
    return logsumexp(above, axis=-1) - logsumexp(below, axis=-1)


def category_accuracy(
    task: DelayedMatchToCategory, seconds: Float[Array, "*axes"] | float
) -> Float[Array, "*axes"]:
    """Return how often an ideal observer knows the category of a direction.

    It is the mean over the directions of one category of Phi(sin(θ) s^0.5 / σ).

    **Arguments:**

    - `task`: the task, with noise.
    - `seconds`: s, how long the direction is shown.
    """
    check_positive("task.noise", task.noise)
    sines = direction_vectors(task.n_directions)[: task.n_directions // 2, 1]
    distances = sines * jnp.sqrt(jnp.asarray(seconds, float))[..., None] / task.noise
    return jnp.mean(norm.cdf(distances), axis=-1)


def category_match_log_odds(task: DelayedMatchToCategory, inputs: Mapping[str, Array]) -> Float[Array, ""]:
    """Return the log odds that sample and test of one trial are of the same category.

    An ideal observer says yes where they are positive.

    **Arguments:**

    - `task`: the task, with noise, and a delay of at least one time step.
    - `inputs`: the inputs of the trial.
    """
    check_positive("task.noise", task.noise)
    totals = sums_in_turn(task, inputs, 2)
    return same_log_odds(*category_log_odds(task, totals)) + logit(task.match_probability)


class DelayedPairedAssociation(AbstractGoTask):
    """Two stimuli with a delay between them: respond after the go cue if they are a pair.

    The stimuli, pairs and times of NeuroGym's `DelayPairedAssociation`, which cites Zhang et al. 2019, eLife
    8:e43191 (not compared with the paper).

    - Inputs: "fixation" (1), 1 until the go cue; "stimulus" (4), one-hot plus white noise in the epochs
        "first" and "second".
    - Targets: two outputs, zero until the go cue, then 1 for the correct one: the first to respond ("go"),
        the second to withhold the response.
    - Epochs "fixation", "first", "delay", "second", "second delay", "decision"; events "first on",
        "first off", "second on", "second off", "go cue".
    - Conditions: "first" (0 or 1) and "second" (2 or 3), the channel of the stimulus, "go", "choice" (0 go, 1
        no-go), "catch".

    The pairs are 0 with 2 and 1 with 3. With as many pairs as others the accuracy of an ideal observer, see
    `association_log_odds`, is `same_accuracy(p, q)`, where p and q are
    `discrimination_accuracy((2 s)**0.5 / sigma)` of the stimuli, with s their durations. There are four
    validation trials, of all combinations.
    """

    go_probability: Scalar = fields.fraction("the fraction of trials with a pair", default=0.5)
    noise: Scalar = fields.white_noise("each channel", default=0.1)
    fixation: Drawn = fields.epoch(default=0.0)
    first: Drawn = fields.epoch(default=1.0)
    delay: Drawn = fields.epoch(default=1.0)
    second: Drawn = fields.epoch(default=1.0)
    second_delay: Drawn = fields.epoch(default=1.0)
    duration: float = fields.trial_duration(default=4.5)

    def epochs(self) -> tuple[Epoch, ...]:
        events = {"first": "first on", "delay": "first off", "second": "second on"}
        return parts.epochs_of(self, **events, second_delay="second off")

    def draw_conditions(self, *, key: Key[Array, ""]) -> tuple[Array, ...]:
        first = jax.random.randint(key_stream(key, "first"), (), 0, 2)
        is_go = jax.random.bernoulli(key_stream(key, "go"), self.go_probability)
        return first, jnp.where(is_go, first, 1 - first)

    def nominal(self) -> tuple[Array, ...]:
        return parts.all_combinations(2, 2)

    def trial_of(self, timeline: Timeline, draws: tuple[Array, ...], *, key: Key[Array, ""]) -> Trial:
        first, second = draws
        is_first, is_second = timeline.in_epoch("first"), timeline.in_epoch("second")
        stimulus = jax.nn.one_hot(jnp.where(is_first, first, 2 + second), 4)
        is_go = first == second
        conditions = {"first": first, "second": 2 + second, "go": is_go}
        choice = jnp.where(is_go, parts.YES, parts.NO)
        return self.go_trial(timeline, stimulus, choice, conditions, shown=is_first | is_second, key=key)


def association_log_odds(task: DelayedPairedAssociation, inputs: Mapping[str, Array]) -> Float[Array, ""]:
    """Return the log odds that the stimuli of one trial of `DelayedPairedAssociation` are a pair.

    An ideal observer responds where they are positive.

    **Arguments:**

    - `task`: the task, with noise, and a delay of at least one time step.
    - `inputs`: the inputs of the trial.
    """
    check_positive("task.noise", task.noise)
    first, second = sums_in_turn(task, inputs, 2)
    evidence = (first[0] - first[1]) / task.noise**2, (second[2] - second[3]) / task.noise**2
    return same_log_odds(*evidence) + logit(task.go_probability)


CUES, TESTS = ("cue 1", "cue 2"), ("test 1", "test 2")


class DualDelayedMatchToSample(parts.AbstractPlannedTask):
    """Two samples at once; a cue says which is tested first, the other is tested then: report each match.

    The stimuli and times of NeuroGym's `DualDelayMatchSample`, after Rose et al. 2016, Science 354:1136
    (compared with the abstract only). The input "fixation" of NeuroGym, which is always 1, is left out.

    - Inputs: "stimulus" (4: two channels of each sample), one-hot plus white noise during samples and tests;
        a test has the channels of the sample that it is compared with. "cue" (2), one-hot before each test:
        the sample that is tested.
    - Targets: two outputs, in both tests 1 for the correct one: the first, "yes", if the test is as the
        sample, the second, "no", if not; zero else. `popsim.choice_accuracy` takes those of one test, see
        `targets_in_epoch`.
    - Epochs "fixation", "sample", "delay 1", "cue 1", "test 1", "delay 2", "cue 2", "test 2"; events
        "sample on", "sample off", "cue 1 on", "test 1 on", "test 1 off", "cue 2 on", "test 2 on".
    - Conditions: "sample 1" and "sample 2" (0 or 1), "cued first" (the sample that is tested first, 0 or 1),
        "match 1" and "match 2" (of the first and the second test), "catch" (no test comes, and the first
        cue lasts to the end).

    With as many matches as non-matches the accuracy of an ideal observer in either test, see
    `dual_match_log_odds`, is `same_accuracy(p, q)`, where p and q are
    `discrimination_accuracy((2 s)**0.5 / sigma)` of sample and test, with s their durations. The validation
    trials are all combinations of conditions.
    """

    loss: Loss = fields.default_loss(default_factory=lambda: 1.0 * OutputError())
    match_probability: Scalar = fields.fraction("the fraction of tests that match", default=0.5)
    noise: Scalar = fields.white_noise("each channel", default=0.1)
    fixation: Drawn = fields.epoch(default=0.5)
    sample: Drawn = fields.epoch(default=0.5)
    delay: Drawn = fields.drawn("the duration of either delay, in seconds", default=0.5)
    cue: Drawn = fields.drawn("the duration of either cue, in seconds", default=0.5)
    test: float = fields.setting("the duration of a test, in seconds", default=0.5)
    grace: float = fields.setting(
        "the time from the start of a test in which errors have no weight, in seconds", default=0.1
    )
    silence_counts: Scalar = fields.non_negative(
        "the weight of a time step outside the tests, as against 1 in them after the grace", default=0.2
    )
    catch_probability: Scalar = fields.fraction("the fraction of catch trials", default=0.0)
    duration: float = fields.trial_duration(default=4.0)
    dt: float = fields.time_step(default=0.05)

    def __check_init__(self):
        n_steps_in("grace", self.grace, self.dt)
        if self.grace + self.dt > self.test + 1e-6:
            raise ValueError(
                f"`grace` must leave a time step of the test, {self.test} s, got {self.grace} s."
            )
        parts.check_time_left(self.plan, self.test, "the second test")

    @property
    def plan(self) -> TrialPlan:
        epochs = (
            Epoch("fixation", self.fixation),
            Epoch("sample", self.sample, event="sample on"),
            Epoch("delay 1", self.delay, event="sample off"),
            Epoch("cue 1", self.cue, event="cue 1 on"),
            Epoch("test 1", self.test, event="test 1 on"),
            Epoch("delay 2", self.delay, event="test 1 off"),
            Epoch("cue 2", self.cue, event="cue 2 on"),
            Epoch("test 2", event="test 2 on"),
        )
        return parts.plan_of(self, epochs, "test 1 on", self.catch_probability)

    def draw_conditions(self, *, key: Key[Array, ""]) -> tuple[Array, ...]:
        cued = jax.random.randint(key_stream(key, "cue"), (), 0, 2)
        samples = jax.random.randint(key_stream(key, "samples"), (2,), 0, 2)
        return cued, samples, jax.random.bernoulli(key_stream(key, "matches"), self.match_probability, (2,))

    def nominal(self) -> tuple[Array, ...]:
        cued, *samples_and_matches = parts.all_combinations(2, 2, 2, 2, 2)
        samples = jnp.stack(samples_and_matches[:2], axis=1)
        return cued, samples, jnp.stack(samples_and_matches[2:], axis=1).astype(bool)

    def trial_of(self, timeline: Timeline, draws: tuple[Array, ...], *, key: Key[Array, ""]) -> Trial:
        cued, samples, matches = draws
        is_sample = timeline.in_epoch("sample")
        stimulus = jnp.where(is_sample[:, None], jax.nn.one_hot(samples, 2).ravel(), 0.0)
        cue, values = jnp.zeros((2, timeline.n_steps, 2))
        is_test, counts = jnp.zeros((2, timeline.n_steps), bool)
        for turn, item in enumerate((cued, 1 - cued)):
            during = timeline.in_epoch(TESTS[turn])
            kind = jnp.where(matches[turn], samples[item], 1 - samples[item])
            shown = jax.nn.one_hot(2 * item + kind, 4)
            stimulus = jnp.where(during[:, None], shown, stimulus)
            cue = jnp.where(timeline.in_epoch(CUES[turn])[:, None], jax.nn.one_hot(item, 2), cue)
            right = jax.nn.one_hot(jnp.where(matches[turn], parts.YES, parts.NO), 2)
            values = jnp.where(during[:, None], right, values)
            is_test = is_test | during
            counts = counts | (during & timeline.since(f"{TESTS[turn]} on", self.grace))
        weights = jnp.where(counts, 1.0, jnp.where(is_test, 0.0, self.silence_counts))
        return Trial(
            init=(),
            inputs={
                "stimulus": parts.with_noise(
                    stimulus, self.noise, is_sample | is_test, dt=self.dt, key=key_stream(key, "noise")
                ),
                "cue": cue,
            },
            targets=OutputTarget(values, weights, is_choice=False),
            timeline=timeline,
            conditions={
                "sample 1": samples[0],
                "sample 2": samples[1],
                "cued first": cued,
                "match 1": matches[0],
                "match 2": matches[1],
                "catch": ~timeline.happens("test 1 on"),
            },
        )


def dual_match_log_odds(task: DualDelayedMatchToSample, inputs: Mapping[str, Array]) -> Float[Array, " test"]:
    """Return the log odds that each test of a trial of `DualDelayedMatchToSample` matches its sample.

    An ideal observer says yes where they are positive.

    **Arguments:**

    - `task`: the task, with noise, and delays and cues of at least one time step together.
    - `inputs`: the inputs of the trial.
    """
    check_positive("task.noise", task.noise)
    totals, cue = sums_in_turn(task, inputs, 3), inputs["cue"]
    evidence = (totals[:, ::2] - totals[:, 1::2]) / task.noise**2  # of each item, in sample and tests
    first = cue[jnp.argmax(jnp.any(cue != 0, axis=1))]
    cued = jnp.stack([first, 1 - first])
    of_samples, of_tests = cued @ evidence[0], jnp.sum(cued * evidence[1:], axis=1)
    return same_log_odds(of_samples, of_tests) + logit(task.match_probability)
