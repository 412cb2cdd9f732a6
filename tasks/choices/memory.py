"""Working-memory tasks with a delay."""

from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from popsim._shared.checks import as_float_array, short_repr
from popsim._shared.plain_values import plain_number
from popsim.distributions import AbstractDistribution, Uniform, as_distribution
from popsim.randomness import key_stream
from popsim.tasks.choices.decisions import AbstractGoTask, AbstractStimulusTask
from popsim.tasks.trial_parts import NO, YES, all_combinations, epochs_of, is_known, ring_activity
from popsim.trial import Trial
from popsim.trial_plan import Epoch
from popsim.windows import Timeline

__all__ = ["DelayedResponse", "DelayedMatchToSample", "DelayedComparison"]

RULES = ("pro", "anti")


class DelayedResponse(AbstractStimulusTask):
    """A direction to remember: after the go cue, respond towards it (pro) or opposite to it (anti).

    The delayed go and anti tasks of Yang et al. 2019, Nat Neurosci 22:297 (`dlygo` and `dlyanti` in
    NeuroGym's `yang19` collection), with one output for each direction.

    - Inputs: "fixation" (1), 1 until the go cue; "rule" (2: pro, anti), one-hot throughout; "stimulus"
        (`n_directions`), the activity of units on a ring plus white noise in the epoch "stimulus".
    - Targets: `n_directions` outputs, zero until the go cue, then 1 for the correct direction.
    - Epochs "fixation", "stimulus", "delay", "decision"; events "stimulus on", "stimulus off", "go cue".
    - Conditions: "rule" (0 pro, 1 anti), "stimulus" and "choice" (the index of the direction), "catch".

    There is one validation trial for each rule and direction.

    **Arguments:**

    - `n_directions`: the number of evenly spaced directions, an even number.
    - `anti_probability`: the fraction of anti trials.
    - `noise`: sigma of each unit, in s^0.5; the standard deviation in a time step is sigma / dt^0.5.
    - `fixation`, `stimulus`, `delay`: durations of these epochs, in seconds; the decision takes the rest.
    - `response`: the weights before and after the go cue, and the fraction of catch trials.
    - `duration`, `dt`: the duration of a trial and the time step of the model, in seconds.
    """

    n_directions: int = eqx.field(static=True, converter=plain_number, kw_only=True, default=8)
    anti_probability: Float[Array, ""] = eqx.field(kw_only=True, converter=as_float_array, default=0.5)
    noise: Float[Array, ""] = eqx.field(kw_only=True, converter=as_float_array, default=0.01)
    stimulus: AbstractDistribution = eqx.field(kw_only=True, converter=as_distribution, default=0.2)
    delay: AbstractDistribution = eqx.field(
        kw_only=True, converter=as_distribution, default_factory=lambda: Uniform(0.2, 0.6)
    )
    duration: float = eqx.field(static=True, converter=plain_number, kw_only=True, default=1.2)

    def __check_init__(self):
        if self.n_directions % 2:
            raise ValueError(
                f"`n_directions` must be even, so that each has an opposite, got {self.n_directions}."
            )

    def draw_conditions(self, *, key: Key[Array, ""]) -> tuple[Array, ...]:
        is_anti = jax.random.bernoulli(key_stream(key, "rule"), self.anti_probability)
        direction = jax.random.randint(key_stream(key, "direction"), (), 0, self.n_directions)
        return is_anti.astype(int), direction

    def nominal(self) -> tuple[Array, ...]:
        return all_combinations(len(RULES), self.n_directions)

    def trial_of(self, timeline: Timeline, draws: tuple[Array, ...], *, key: Key[Array, ""]) -> Trial:
        rule, direction = draws
        n = self.n_directions
        rule_input = jnp.broadcast_to(jax.nn.one_hot(rule, len(RULES)), (timeline.n_steps, len(RULES)))
        return self.go_trial(
            timeline,
            ring_activity(direction, n),
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

    **Arguments:**

    - `n_directions`: the number of evenly spaced directions, at least two.
    - `rotation`: by how many directions a test that matches is turned from the sample.
    - `yes_to`: "match", or "non-match" for delayed non-match to sample.
    - `match_probability`: the fraction of trials in which the test matches.
    - `noise`: sigma of each unit, in s^0.5; the standard deviation in a time step is sigma / dt^0.5.
    - `fixation`, `sample`, `delay`, `test`: durations of these epochs, in seconds; the decision takes the
        rest.
    - `response`: the weights before and after the go cue, and the fraction of catch trials.
    - `duration`, `dt`: the duration of a trial and the time step of the model, in seconds.
    """

    n_directions: int = eqx.field(static=True, converter=plain_number, kw_only=True, default=2)
    rotation: int = eqx.field(static=True, converter=plain_number, kw_only=True, default=0)
    yes_to: Literal["match", "non-match"] = eqx.field(static=True, kw_only=True, default="match")
    match_probability: Float[Array, ""] = eqx.field(kw_only=True, converter=as_float_array, default=0.5)
    noise: Float[Array, ""] = eqx.field(kw_only=True, converter=as_float_array, default=0.01)
    sample: AbstractDistribution = eqx.field(kw_only=True, converter=as_distribution, default=0.2)
    delay: AbstractDistribution = eqx.field(
        kw_only=True, converter=as_distribution, default_factory=lambda: Uniform(0.1, 0.4)
    )
    test: AbstractDistribution = eqx.field(kw_only=True, converter=as_distribution, default=0.2)
    duration: float = eqx.field(static=True, converter=plain_number, kw_only=True, default=1.2)

    def __check_init__(self):
        if self.n_directions < 2:
            raise ValueError(f"`n_directions` must be at least 2, got {self.n_directions}.")
        if self.rotation not in range(self.n_directions):
            raise ValueError(
                f"`rotation` must be from 0 to {self.n_directions - 1} directions, got {self.rotation!r}."
            )

    def epochs(self) -> tuple[Epoch, ...]:
        return epochs_of(self, sample="sample on", delay="sample off", test="test on")

    def draw_conditions(self, *, key: Key[Array, ""]) -> tuple[Array, ...]:
        sample = jax.random.randint(key_stream(key, "sample"), (), 0, self.n_directions)
        match = jax.random.bernoulli(key_stream(key, "match"), self.match_probability)
        further = jax.random.randint(key_stream(key, "other"), (), 1, self.n_directions)
        return sample, self._matching(sample + jnp.where(match, 0, further))

    def nominal(self) -> tuple[Array, ...]:
        sample, is_other = all_combinations(self.n_directions, 2)
        return sample, self._matching(sample + is_other * (self.n_directions // 2))

    def trial_of(self, timeline: Timeline, draws: tuple[Array, ...], *, key: Key[Array, ""]) -> Trial:
        sample, test = draws
        is_sample, is_test = timeline.in_epoch("sample"), timeline.in_epoch("test")
        stimulus = ring_activity(jnp.where(is_sample, sample, test), self.n_directions)
        match = test == self._matching(sample)
        choice = jnp.where(match == (self.yes_to == "match"), YES, NO)
        conditions = {"sample": sample, "test": test, "match": match}
        return self.go_trial(timeline, stimulus, choice, conditions, shown=is_sample | is_test, key=key)

    def _matching(self, sample: Int[Array, "*axes"]) -> Int[Array, "*axes"]:
        """Return the test that matches a sample."""
        return (sample + self.rotation) % self.n_directions


PAIRS = ((18.0, 10.0), (22.0, 14.0), (26.0, 18.0), (30.0, 22.0), (34.0, 26.0))


class DelayedComparison(AbstractGoTask):
    """Two vibrations f1 and f2 in sequence: after the go cue, report which was faster.

    The task of Romo, Brody, Hernández & Lemus 1999, Nature 399:470 (compared with the abstract only), with
    the pairs of NeuroGym's `DelayComparison`.

    - Inputs: "fixation" (1), 1 until the go cue; "stimulus" (1), the frequency divided by the highest of all
        pairs plus white noise, during f1 and f2.
    - Targets: two outputs, zero until the go cue, then 1 for the correct one: the first if f1 > f2, the
        second if f1 < f2.
    - Epochs "fixation", "f1", "delay", "f2", "decision"; events "f1 on", "f1 off", "f2 on", "go cue".
    - Conditions: "f1" and "f2" (Hz), "choice" (0 or 1), "catch".

    Pairs come in both orders with equal probability. There is one validation trial per pair and order.

    **Arguments:**

    - `pairs`: two different frequencies each, in Hz, an array of shape (pair, 2). A frequency that is the
        lower, or the higher, of every pair it occurs in reveals the answer.
    - `noise`: sigma of the stimulus, in s^0.5; the standard deviation in a time step is sigma / dt^0.5.
    - `fixation`, `f1`, `delay`, `f2`: durations of these epochs, in seconds; the decision takes the rest.
    - `response`: the weights before and after the go cue, and the fraction of catch trials.
    - `duration`, `dt`: the duration of a trial and the time step of the model, in seconds.
    """

    pairs: Float[Array, "pair 2"] = eqx.field(kw_only=True, converter=as_float_array, default=PAIRS)
    noise: Float[Array, ""] = eqx.field(kw_only=True, converter=as_float_array, default=0.005)
    f1: AbstractDistribution = eqx.field(kw_only=True, converter=as_distribution, default=0.2)
    delay: AbstractDistribution = eqx.field(
        kw_only=True, converter=as_distribution, default_factory=lambda: Uniform(0.2, 0.6)
    )
    f2: AbstractDistribution = eqx.field(kw_only=True, converter=as_distribution, default=0.2)
    duration: float = eqx.field(static=True, converter=plain_number, kw_only=True, default=1.4)

    def __check_init__(self):
        if not is_known(self.pairs):
            return
        pairs = np.asarray(self.pairs)
        if pairs.ndim != 2 or pairs.shape[1] != 2 or not len(pairs) or np.any(pairs[:, 0] == pairs[:, 1]):
            raise ValueError(f"`pairs` must be pairs of two different frequencies, got {short_repr(pairs)}.")

    def epochs(self) -> tuple[Epoch, ...]:
        return epochs_of(self, f1="f1 on", delay="f1 off", f2="f2 on")

    def draw_conditions(self, *, key: Key[Array, ""]) -> tuple[Array, ...]:
        pair = jax.random.randint(key_stream(key, "pair"), (), 0, self.pairs.shape[0])
        return pair, jax.random.randint(key_stream(key, "order"), (), 0, 2)

    def nominal(self) -> tuple[Array, ...]:
        return all_combinations(self.pairs.shape[0], 2)

    def trial_of(self, timeline: Timeline, draws: tuple[Array, ...], *, key: Key[Array, ""]) -> Trial:
        pair, order = draws
        f1, f2 = self.pairs[pair, order], self.pairs[pair, 1 - order]
        is_first, is_second = timeline.in_epoch("f1"), timeline.in_epoch("f2")
        stimulus = (jnp.where(is_first, f1, f2) / jnp.max(self.pairs))[:, None]
        choice, conditions = (f1 < f2).astype(int), {"f1": f1, "f2": f2}
        return self.go_trial(timeline, stimulus, choice, conditions, shown=is_first | is_second, key=key)
