"""Stimuli to remember over a delay, and to compare with others or answer after it."""

import abc
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from popsim._shared.checks import n_steps_in, short_repr
from popsim.loss import Loss
from popsim.losses import OutputError
from popsim.randomness import key_stream
from popsim.tasks import _fields as fields
from popsim.tasks import trial_parts as parts
from popsim.tasks._fields import Drawn, Number, Scalar
from popsim.tasks.choices.delayed_choices import AbstractDelayedChoice, AbstractRule, Question
from popsim.tasks.trial_parts import NO, YES, Drawable
from popsim.trial import OutputTarget, Trial
from popsim.trial_plan import Epoch, TrialPlan
from popsim.windows import Timeline

__all__ = [
    "DelayedComparison",
    "DelayedMatchToCategory",
    "DelayedMatchToSample",
    "DelayedNonMatchToSample",
    "DelayedPairedAssociation",
    "DelayedResponse",
    "DualDelayedMatchToSample",
]


class DelayedResponse(AbstractDelayedChoice):
    """A direction to remember: after the go cue, respond towards it (pro) or opposite to it (anti).

    The delayed go and anti tasks of Yang et al. 2019, Nat Neurosci 22:297 (`dlygo` and `dlyanti` in
    NeuroGym's `yang19` collection), with one output for each direction.

    - Inputs: "fixation" (1), 1 until the go cue; "rule" (2: pro, anti), one-hot throughout; "stimulus"
        (`n_directions`), the activity of units on a ring plus white noise in the epoch "stimulus".
    - Targets: `n_directions` outputs, zero until the go cue, then 1 for the correct direction.
    - Conditions: "rule" (0 pro, 1 anti), "stimulus" and "choice" (the index of the direction), "catch".
    """

    n_directions: int = fields.setting(fields.EVEN_DIRECTIONS, default=8, check=fields.check_even)
    anti_probability: Scalar = fields.fraction("the fraction of anti trials", default=0.5)
    noise: Scalar = fields.white_noise("each unit", default=0.01)
    stimulus: Drawn = fields.epoch(default=0.2)
    delay: Drawn = fields.epoch(default=(0.2, 0.6))
    duration: float = fields.trial_duration(default=1.2)

    def draws(self) -> dict[str, Drawable]:
        return {"rule": self.anti_probability, "direction": self.n_directions}

    def rule(self, timeline: Timeline, draws: tuple[Array, ...]) -> Question:
        rule, direction, n = draws[0].astype(int), draws[1], self.n_directions
        shown = {"stimulus": parts.ring_activity(direction, n)}
        choice, inputs = (direction + rule * (n // 2)) % n, {"rule": jax.nn.one_hot(rule, 2)}
        return Question(shown, choice, {"rule": rule, "stimulus": direction}, inputs=inputs, n_choices=n)


class AbstractMatchToSample(AbstractDelayedChoice):
    """Sample, delay, test: after the go cue, report whether the test is as the sample, or is not."""

    n_directions: int = fields.count("evenly spaced directions, at least two", default=2, least=2)
    rotation: int = fields.setting(
        "by how many directions a matching test is turned from the sample", default=0
    )
    match_probability: Scalar = fields.fraction(
        "the fraction of trials with a test that matches", default=0.5
    )
    noise: Scalar = fields.white_noise("each unit", default=0.01)
    sample: Drawn = fields.epoch(default=0.2)
    delay: Drawn = fields.epoch(default=(0.1, 0.4))
    test: Drawn = fields.epoch(default=0.2)
    duration: float = fields.trial_duration(default=1.2)
    epochs = {"sample": "sample on", "delay": "sample off", "test": "test on"}

    @property
    @abc.abstractmethod
    def is_yes_to_match(self) -> bool:
        """Whether the answer to a matching test is yes."""

    def __check_init__(self):
        fields.check_index("rotation", self.rotation, self.n_directions)

    def draws(self) -> dict[str, Drawable]:
        return {"sample": self.n_directions, "match": self.match_probability, "other": self.n_directions - 1}

    def nominal(self) -> tuple[Array, ...]:
        sample, is_other = parts.all_combinations(self.n_directions, 2)
        return sample, is_other == 0, jnp.full_like(sample, self.n_directions // 2 - 1)

    def rule(self, timeline: Timeline, draws: tuple[Array, ...]) -> Question:
        sample, match, further = draws
        n = self.n_directions
        test = (sample + jnp.where(match, 0, 1 + further) + self.rotation) % n
        direction = jnp.where(timeline.in_epoch("sample"), sample, test)
        stimulus = parts.ring_activity(direction, n)
        choice = jnp.where(match == self.is_yes_to_match, YES, NO)
        labels = {"sample": sample, "test": test, "match": match}
        return Question({"sample": stimulus, "test": stimulus}, choice, labels)


class DelayedMatchToSample(AbstractMatchToSample):
    """Sample, delay, test: after the go cue, report whether the test equals the sample.

    Epochs and choices are those of NeuroGym's delayed match to sample, with any number of directions.

    - Inputs: "fixation" (1), 1 until the go cue; "stimulus" (`n_directions`), the activity of units on a
        ring plus white noise during sample and test.
    - Targets: two outputs, zero until the go cue, then 1 for the correct one: the first, "yes", if test and
        sample match, the second, "no", if not; the reverse with `yes_to="non-match"`.
    - Conditions: "sample" and "test" (the index of the direction), "match", "choice" (0 or 1), "catch".

    A non-matching test is drawn uniformly from the other directions. There are two validation trials for
    each sample: the matching test, and the opposite one (with an odd number, one of the two nearest to it).
    With `rotation` the task is the delayed match to rotated sample of Masse et al. 2019, Nat Neurosci
    22:1159, where it is a quarter turn (checked in their code, nmasse/Short-term-plasticity-RNN).
    """

    yes_to: Literal["match", "non-match"] = fields.setting(
        'to which tests the answer is yes: "match", or "non-match" for delayed non-match to sample',
        default="match",
    )

    @property
    def is_yes_to_match(self) -> bool:
        return self.yes_to == "match"


class DelayedNonMatchToSample(AbstractMatchToSample):
    """Sample, delay, test: after the go cue, report whether the test differs from the sample.

    Trials are those of a `DelayedMatchToSample` with `yes_to="non-match"`: the first output, "yes", is
    correct if test and sample do not match, the second, "no", if they do.
    """

    @property
    def is_yes_to_match(self) -> bool:
        return False


PAIRS = ((18.0, 10.0), (22.0, 14.0), (26.0, 18.0), (30.0, 22.0), (34.0, 26.0))


class DelayedComparison(AbstractDelayedChoice):
    """Two vibrations f1 and f2 in sequence: after the go cue, report which was faster.

    The task of Romo, Brody, Hernández & Lemus 1999, Nature 399:470 (compared with the abstract only), with
    the pairs of NeuroGym's `DelayComparison`.

    - Inputs: "fixation" (1), 1 until the go cue; "stimulus" (1), the frequency divided by the highest of all
        pairs plus white noise, during f1 and f2.
    - Targets: two outputs, zero until the go cue, then 1 for the correct one: the first if f1 > f2, the
        second if f1 < f2.
    - Conditions: "f1" and "f2" (Hz), "choice" (0 or 1), "catch".

    Pairs come in both orders with equal probability.
    """

    pairs: Float[Number, "pair 2"] = fields.positive(
        "pairs of two different frequencies each, in Hz, an array of shape (pair, 2)", default=PAIRS
    )
    noise: Scalar = fields.white_noise("the stimulus", default=0.005)
    f1: Drawn = fields.epoch(default=0.2)
    delay: Drawn = fields.epoch(default=(0.2, 0.6))
    f2: Drawn = fields.epoch(default=0.2)
    duration: float = fields.trial_duration(default=1.4)
    epochs = {"f1": "f1 on", "delay": "f1 off", "f2": "f2 on"}

    def __check_init__(self):
        pairs = np.asarray(self.pairs)
        if pairs.ndim != 2 or pairs.shape[1] != 2 or not len(pairs) or np.any(pairs[:, 0] == pairs[:, 1]):
            raise ValueError(f"`pairs` must be pairs of two different frequencies, got {short_repr(pairs)}.")

    def draws(self) -> dict[str, Drawable]:
        return {"pair": self.pairs.shape[0], "order": 2}

    def rule(self, timeline: Timeline, draws: tuple[Array, ...]) -> Question:
        pair, order = draws
        f1, f2 = self.pairs[pair, order], self.pairs[pair, 1 - order]
        frequency = jnp.where(timeline.in_epoch("f1"), f1, f2)
        stimulus = (frequency / jnp.max(self.pairs))[:, None]
        return Question({"f1": stimulus, "f2": stimulus}, (f1 < f2).astype(int), {"f1": f1, "f2": f2})


class DelayedMatchToCategory(AbstractDelayedChoice):
    """Two directions with a delay between them: after the go cue, report whether their category is the same.

    The task of Freedman & Assad 2006, Nature 443:85: 12 directions of motion in two categories, 15, 45 and 75
    degrees from the boundary (checked in the legend of figure 1). The times are those of NeuroGym's
    `DelayMatchCategory`. There, and in the paper, the response comes during the test; here it follows.

    - Inputs: "fixation" (1), 1 until the go cue; "stimulus" (2), the cosine and the sine of the direction
        plus white noise during sample and test.
    - Targets: two outputs, zero until the go cue, then 1 for the correct one: the first, "yes", if both
        directions are of one category, the second, "no", if not.
    - Conditions: "sample" and "test" (the index of the direction), "sample category" and "test category" (0
        above the boundary, which is the first axis, 1 below), "match", "choice" (0 or 1), "catch".

    With as many matches as non-matches the accuracy of an ideal observer is p q + (1 - p) (1 - q), where p
    and q, how often it knows the category of sample and test, are the means over the directions θ of one
    category of Phi(sin(θ) s^0.5 / sigma), with s the duration.
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
    epochs = {"sample": "sample on", "delay": "sample off", "test": "test on"}

    def draws(self) -> dict[str, Drawable]:
        n = self.n_directions
        return {"sample": n, "match": self.match_probability, "test": n // 2}

    def nominal(self) -> tuple[Array, ...]:
        n_each = self.n_directions // 2
        sample, test = parts.all_combinations(self.n_directions, self.n_directions)
        return sample, sample // n_each == test // n_each, test % n_each

    def rule(self, timeline: Timeline, draws: tuple[Array, ...]) -> Question:
        sample, match, within = draws
        n_each = self.n_directions // 2
        category = sample // n_each
        of_test = jnp.where(match, category, 1 - category)
        test = of_test * n_each + within
        # The first half of the directions has a positive sine.
        angles = 2 * jnp.pi / self.n_directions * (jnp.arange(float(self.n_directions)) + 0.5)
        vectors = jnp.stack([jnp.cos(angles), jnp.sin(angles)], axis=1)
        labels = {"sample": sample, "test": test, "match": match}
        labels |= {"sample category": category, "test category": of_test}
        shown = {"sample": vectors[sample], "test": vectors[test]}
        return Question(shown, jnp.where(match, YES, NO), labels)


class DelayedPairedAssociation(AbstractDelayedChoice):
    """Two stimuli with a delay between them: respond after the go cue if they are a pair.

    The stimuli, pairs and times of NeuroGym's `DelayPairedAssociation`, which cites Zhang et al. 2019, eLife
    8:e43191 (not compared with the paper).

    - Inputs: "fixation" (1), 1 until the go cue; "stimulus" (4), one-hot plus white noise in the epochs
        "first" and "second".
    - Targets: two outputs, zero until the go cue, then 1 for the correct one: the first to respond ("go"),
        the second to withhold the response.
    - Conditions: "first" (0 or 1) and "second" (2 or 3), the channel of the stimulus, "go", "choice" (0 go, 1
        no-go), "catch".

    The pairs are 0 with 2 and 1 with 3. With as many pairs as others the accuracy of an ideal observer is
    p q + (1 - p) (1 - q), where p and q are Phi((s / 2)^0.5 / sigma) of the stimuli, with s their durations.
    """

    go_probability: Scalar = fields.fraction("the fraction of trials with a pair", default=0.5)
    noise: Scalar = fields.white_noise("each channel", default=0.1)
    fixation: Drawn = fields.epoch(default=0.0)
    first: Drawn = fields.epoch(default=1.0)
    delay: Drawn = fields.epoch(default=1.0)
    second: Drawn = fields.epoch(default=1.0)
    second_delay: Drawn = fields.epoch(default=1.0)
    duration: float = fields.trial_duration(default=4.5)
    epochs = {"first": "first on", "delay": "first off", "second": "second on", "second_delay": "second off"}

    def draws(self) -> dict[str, Drawable]:
        return {"first": 2, "go": self.go_probability}

    def nominal(self) -> tuple[Array, ...]:
        first, second = parts.all_combinations(2, 2)
        return first, first == second

    def rule(self, timeline: Timeline, draws: tuple[Array, ...]) -> Question:
        first, is_go = draws
        second = 2 + jnp.where(is_go, first, 1 - first)
        shown = {"first": jax.nn.one_hot(first, 4), "second": jax.nn.one_hot(second, 4)}
        return Question(shown, jnp.where(is_go, YES, NO), {"first": first, "second": second, "go": is_go})


class DualDelayedMatchToSample(AbstractRule):
    """Two samples at once; a cue says which is tested first, the other is tested then: report each match.

    The stimuli and times of NeuroGym's `DualDelayMatchSample`, after Rose et al. 2016, Science 354:1136
    (compared with the abstract only).

    - Inputs: "stimulus" (4: two channels of each sample), one-hot plus white noise during samples and tests;
        a test has the channels of the sample that it is compared with. "cue" (2), one-hot before each test:
        the sample that is tested.
    - Targets: two outputs, in both tests 1 for the correct one: the first, "yes", if the test is as the
        sample, the second, "no", if not; zero else. `popsim.choice_accuracy` takes those of one test, see
        `targets_in_epoch`.
    - Conditions: "sample 1" and "sample 2" (0 or 1), "cued first" (the sample that is tested first, 0 or 1),
        "match 1" and "match 2" (of the first and the second test), "catch" (no test comes, and the first
        cue lasts to the end).

    With as many matches as non-matches the accuracy of an ideal observer in either test is that in
    `DelayedPairedAssociation`. The validation trials are all combinations of conditions.
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

    def draws(self) -> dict[str, Drawable]:
        matches = self.match_probability
        return {"cue": 2, "sample 1": 2, "sample 2": 2, "match 1": matches, "match 2": matches}

    def draw_conditions(self, *, key: Key[Array, ""]) -> tuple[Array, ...]:
        cued = jax.random.randint(key_stream(key, "cue"), (), 0, 2)
        samples = jax.random.randint(key_stream(key, "samples"), (2,), 0, 2)
        matches = jax.random.bernoulli(key_stream(key, "matches"), self.match_probability, (2,))
        return cued, *samples, *matches

    def rule(self, timeline: Timeline, draws: tuple[Array, ...]) -> Question:
        cued, *both = draws
        samples, matches = jnp.stack(both[:2]), both[2:]
        shown = {"sample": jax.nn.one_hot(samples, 2).ravel()}
        cue = jnp.zeros((timeline.n_steps, 2))
        for turn, item, match in zip((1, 2), (cued, 1 - cued), matches, strict=True):
            kind = jnp.where(match, samples[item], 1 - samples[item])
            shown[f"test {turn}"] = jax.nn.one_hot(2 * item + kind, 4)
            cue = jnp.where(timeline.in_epoch(f"cue {turn}")[:, None], jax.nn.one_hot(item, 2), cue)
        labels = {"sample 1": samples[0], "sample 2": samples[1], "cued first": cued}
        labels |= {"match 1": matches[0], "match 2": matches[1]}
        return Question(shown, None, labels, inputs={"cue": cue})

    def trial_of(self, timeline: Timeline, draws: tuple[Array, ...], *, key: Key[Array, ""]) -> Trial:
        question = self.rule(timeline, draws)
        values = jnp.zeros((timeline.n_steps, 2))
        is_test, counts = jnp.zeros((2, timeline.n_steps), bool)
        for turn in (1, 2):
            during = timeline.in_epoch(f"test {turn}")
            right = jnp.where(question.conditions[f"match {turn}"], YES, NO)
            values = jnp.where(during[:, None], jax.nn.one_hot(right, 2), values)
            is_test = is_test | during
            counts = counts | (during & timeline.since(f"test {turn} on", self.grace))
        weights = jnp.where(counts, 1.0, jnp.where(is_test, 0.0, self.silence_counts))
        inputs = self.inputs_of(timeline, question, key=key)
        targets = OutputTarget(values, weights, is_choice=False)
        labels = question.conditions | {"catch": ~timeline.happens("test 1 on")}
        return Trial((), inputs, targets, timeline, conditions=labels)
