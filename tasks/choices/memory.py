"""Working-memory tasks with a delay."""

from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from popsim._shared.checks import short_repr
from popsim.randomness import key_stream
from popsim.tasks import _fields as fields
from popsim.tasks import trial_parts as parts
from popsim.tasks._fields import Drawn, Number, Scalar
from popsim.tasks.choices.decisions import AbstractGoTask, AbstractStimulusTask
from popsim.trial import Trial
from popsim.trial_plan import Epoch
from popsim.windows import Timeline

__all__ = ["DelayedResponse", "DelayedMatchToSample", "DelayedComparison"]

RULES = ("pro", "anti")


class DelayedResponse(parts.AbstractIndependentDraws, AbstractStimulusTask):
    """A direction to remember: after the go cue, respond towards it (pro) or opposite to it (anti).

    The delayed go and anti tasks of Yang et al. 2019, Nat Neurosci 22:297 (`dlygo` and `dlyanti` in
    NeuroGym's `yang19` collection), with one output for each direction.

    - Inputs: "fixation" (1), 1 until the go cue; "rule" (2: pro, anti), one-hot throughout; "stimulus"
        (`n_directions`), the activity of units on a ring plus white noise in the epoch "stimulus".
    - Targets: `n_directions` outputs, zero until the go cue, then 1 for the correct direction.
    - Epochs "fixation", "stimulus", "delay", "decision"; events "stimulus on", "stimulus off", "go cue".
    - Conditions: "rule" (0 pro, 1 anti), "stimulus" and "choice" (the index of the direction), "catch".

    There is one validation trial for each rule and direction.
    """

    n_directions: int = fields.setting(fields.EVEN_DIRECTIONS, default=8, check=fields.check_even)
    anti_probability: Scalar = fields.fraction("the fraction of anti trials", default=0.5)
    noise: Scalar = fields.white_noise("each unit", default=0.01)
    stimulus: Drawn = fields.epoch(default=0.2)
    delay: Drawn = fields.epoch(default=(0.2, 0.6))
    duration: float = fields.trial_duration(default=1.2)

    def draws(self) -> dict[str, parts.Drawable]:
        return {"rule": self.anti_probability, "direction": self.n_directions}

    def trial_of(self, timeline: Timeline, draws: tuple[Array, ...], *, key: Key[Array, ""]) -> Trial:
        rule, direction, n = draws[0].astype(int), draws[1], self.n_directions
        rule_input = jnp.broadcast_to(jax.nn.one_hot(rule, len(RULES)), (timeline.n_steps, len(RULES)))
        return self.go_trial(
            timeline,
            parts.ring_activity(direction, n),
            (direction + rule * (n // 2)) % n,
            {"rule": rule, "stimulus": direction},
            n_choices=n,
            inputs={"rule": rule_input},
            key=key,
        )


class DelayedMatchToSample(AbstractGoTask):
    """Sample, delay, test: after the go cue, report whether the test equals the sample.

    Epochs and choices are those of NeuroGym's delayed match to sample, with any number of directions.

    - Inputs: "fixation" (1), 1 until the go cue; "stimulus" (`n_directions`), the activity of units on a
        ring plus white noise during sample and test.
    - Targets: two outputs, zero until the go cue, then 1 for the correct one: the first, "yes", if test and
        sample match, the second, "no", if not; the reverse with `yes_to="non-match"`.
    - Epochs "fixation", "sample", "delay", "test", "decision"; events "sample on", "sample off", "test on",
        "go cue".
    - Conditions: "sample" and "test" (the index of the direction), "match", "choice" (0 or 1), "catch".

    A non-matching test is drawn uniformly from the other directions. There are two validation trials for
    each sample: the matching test, and the opposite one (with an odd number, one of the two nearest to it).
    With `rotation` the task is the delayed match to rotated sample of Masse et al. 2019, Nat Neurosci
    22:1159, where it is a quarter turn (checked in their code, nmasse/Short-term-plasticity-RNN).
    """

    n_directions: int = fields.count("evenly spaced directions, at least two", default=2, least=2)
    rotation: int = fields.setting(
        "by how many directions a matching test is turned from the sample", default=0
    )
    yes_to: Literal["match", "non-match"] = fields.setting(
        'to which tests the answer is yes: "match", or "non-match" for delayed non-match to sample',
        default="match",
    )
    match_probability: Scalar = fields.fraction(
        "the fraction of trials with a test that matches", default=0.5
    )
    noise: Scalar = fields.white_noise("each unit", default=0.01)
    sample: Drawn = fields.epoch(default=0.2)
    delay: Drawn = fields.epoch(default=(0.1, 0.4))
    test: Drawn = fields.epoch(default=0.2)
    duration: float = fields.trial_duration(default=1.2)

    def __check_init__(self):
        if self.rotation not in range(self.n_directions):
            raise ValueError(
                f"`rotation` must be from 0 to {self.n_directions - 1} directions, got {self.rotation!r}."
            )

    def epochs(self) -> tuple[Epoch, ...]:
        return parts.epochs_of(self, sample="sample on", delay="sample off", test="test on")

    def draw_conditions(self, *, key: Key[Array, ""]) -> tuple[Array, ...]:
        sample = jax.random.randint(key_stream(key, "sample"), (), 0, self.n_directions)
        match = jax.random.bernoulli(key_stream(key, "match"), self.match_probability)
        further = jax.random.randint(key_stream(key, "other"), (), 1, self.n_directions)
        return sample, self._matching(sample + jnp.where(match, 0, further))

    def nominal(self) -> tuple[Array, ...]:
        sample, is_other = parts.all_combinations(self.n_directions, 2)
        return sample, self._matching(sample + is_other * (self.n_directions // 2))

    def trial_of(self, timeline: Timeline, draws: tuple[Array, ...], *, key: Key[Array, ""]) -> Trial:
        sample, test = draws
        is_sample, is_test = timeline.in_epoch("sample"), timeline.in_epoch("test")
        stimulus = parts.ring_activity(jnp.where(is_sample, sample, test), self.n_directions)
        match = test == self._matching(sample)
        choice = jnp.where(match == (self.yes_to == "match"), parts.YES, parts.NO)
        conditions = {"sample": sample, "test": test, "match": match}
        return self.go_trial(timeline, stimulus, choice, conditions, shown=is_sample | is_test, key=key)

    def _matching(self, sample: Int[Array, "*axes"]) -> Int[Array, "*axes"]:
        """Return the test that matches a sample."""
        return (sample + self.rotation) % self.n_directions


PAIRS = ((18.0, 10.0), (22.0, 14.0), (26.0, 18.0), (30.0, 22.0), (34.0, 26.0))


class DelayedComparison(parts.AbstractIndependentDraws, AbstractGoTask):
    """Two vibrations f1 and f2 in sequence: after the go cue, report which was faster.

    The task of Romo, Brody, Hernández & Lemus 1999, Nature 399:470 (compared with the abstract only), with
    the pairs of NeuroGym's `DelayComparison`.

    - Inputs: "fixation" (1), 1 until the go cue; "stimulus" (1), the frequency divided by the highest of all
        pairs plus white noise, during f1 and f2.
    - Targets: two outputs, zero until the go cue, then 1 for the correct one: the first if f1 > f2, the
        second if f1 < f2.
    - Epochs "fixation", "f1", "delay", "f2", "decision"; events "f1 on", "f1 off", "f2 on", "go cue".
    - Conditions: "f1" and "f2" (Hz), "choice" (0 or 1), "catch".

    Pairs come in both orders with equal probability. A frequency that is the lower, or the higher, of every
    pair it occurs in reveals the answer. There is one validation trial per pair and order.
    """

    pairs: Float[Number, "pair 2"] = fields.positive(
        "pairs of two different frequencies each, in Hz, an array of shape (pair, 2)", default=PAIRS
    )
    noise: Scalar = fields.white_noise("the stimulus", default=0.005)
    f1: Drawn = fields.epoch(default=0.2)
    delay: Drawn = fields.epoch(default=(0.2, 0.6))
    f2: Drawn = fields.epoch(default=0.2)
    duration: float = fields.trial_duration(default=1.4)

    def __check_init__(self):
        if not parts.is_known(self.pairs):
            return
        pairs = np.asarray(self.pairs)
        if pairs.ndim != 2 or pairs.shape[1] != 2 or not len(pairs) or np.any(pairs[:, 0] == pairs[:, 1]):
            raise ValueError(f"`pairs` must be pairs of two different frequencies, got {short_repr(pairs)}.")

    def epochs(self) -> tuple[Epoch, ...]:
        return parts.epochs_of(self, f1="f1 on", delay="f1 off", f2="f2 on")

    def draws(self) -> dict[str, parts.Drawable]:
        return {"pair": self.pairs.shape[0], "order": 2}

    def trial_of(self, timeline: Timeline, draws: tuple[Array, ...], *, key: Key[Array, ""]) -> Trial:
        pair, order = draws
        f1, f2 = self.pairs[pair, order], self.pairs[pair, 1 - order]
        is_first, is_second = timeline.in_epoch("f1"), timeline.in_epoch("f2")
        stimulus = (jnp.where(is_first, f1, f2) / jnp.max(self.pairs))[:, None]
        choice, conditions = (f1 < f2).astype(int), {"f1": f1, "f2": f2}
        return self.go_trial(timeline, stimulus, choice, conditions, shown=is_first | is_second, key=key)
