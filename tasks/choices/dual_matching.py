"""Two memories at once, of which cues say which one is tested."""

from collections.abc import Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import logit
from jaxtyping import Array, Float, Key

from popsim._checks import as_float_array, check_fraction, check_instance, check_non_negative, n_steps_in
from popsim._plain_values import plain_number
from popsim.distributions import AbstractDistribution, as_distribution
from popsim.loss import Loss
from popsim.losses import OutputError
from popsim.randomness import key_stream
from popsim.tasks import trial_parts as parts
from popsim.tasks._known_tasks import check_known_task
from popsim.tasks.choices.matching import same_log_odds, shown_in_turn
from popsim.trial import OutputTarget, Trial
from popsim.trial_plan import Epoch, TrialPlan
from popsim.windows import Timeline

__all__ = ["DualDelayedMatchToSample", "dual_match_log_odds", "targets_in_epoch"]

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

    **Arguments:**

    - `match_probability`: the fraction of tests that match.
    - `noise`: sigma of each channel, in s^0.5; the standard deviation in a time step is sigma / dt^0.5.
    - `fixation`, `sample`, `delay`, `cue`: durations of these epochs, in seconds; both delays, and both cues,
        are drawn alike.
    - `test`: the duration of a test, in seconds.
    - `grace`: the time after the beginning of a test in which errors have no weight, in seconds.
    - `silence_counts`: the weight of a time step outside the tests; it is 1 in them after the grace period.
    - `catch_probability`: the fraction of catch trials.
    - `duration`, `dt`: the duration of a trial and the time step of the model, in seconds.
    - `loss`: the loss to train with.
    """

    loss: Loss = eqx.field(kw_only=True, default_factory=lambda: 1.0 * OutputError())
    match_probability: Float[Array, ""] = eqx.field(kw_only=True, converter=as_float_array, default=0.5)
    noise: Float[Array, ""] = eqx.field(kw_only=True, converter=as_float_array, default=0.1)
    fixation: AbstractDistribution = eqx.field(kw_only=True, converter=as_distribution, default=0.5)
    sample: AbstractDistribution = eqx.field(kw_only=True, converter=as_distribution, default=0.5)
    delay: AbstractDistribution = eqx.field(kw_only=True, converter=as_distribution, default=0.5)
    cue: AbstractDistribution = eqx.field(kw_only=True, converter=as_distribution, default=0.5)
    test: float = eqx.field(static=True, converter=plain_number, kw_only=True, default=0.5)
    grace: float = eqx.field(static=True, converter=plain_number, kw_only=True, default=0.1)
    silence_counts: Float[Array, ""] = eqx.field(kw_only=True, converter=as_float_array, default=0.2)
    catch_probability: Float[Array, ""] = eqx.field(kw_only=True, converter=as_float_array, default=0.0)
    duration: float = eqx.field(static=True, converter=plain_number, kw_only=True, default=4.0)
    dt: float = eqx.field(static=True, converter=plain_number, kw_only=True, default=0.05)

    def __check_init__(self):
        check_fraction("match_probability", self.match_probability)
        parts.check_each(check_non_negative, self, "noise", "silence_counts", "grace")
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
    check_known_task(task, DualDelayedMatchToSample, noise="noise")
    stimulus, cue = inputs["stimulus"], inputs["cue"]
    totals = task.dt * (shown_in_turn(stimulus, 3).astype(stimulus.dtype) @ stimulus)
    evidence = (totals[:, ::2] - totals[:, 1::2]) / task.noise**2  # of each item, in sample and tests
    first = cue[jnp.argmax(jnp.any(cue != 0, axis=1))]
    cued = jnp.stack([first, 1 - first])
    of_samples, of_tests = cued @ evidence[0], jnp.sum(cued * evidence[1:], axis=1)
    return same_log_odds(of_samples, of_tests) + logit(task.match_probability)


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
