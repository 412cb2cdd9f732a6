"""Which of two stimuli lasted longer."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from popsim._argument_shapes import check_kinds
from popsim._checks import (
    as_float_array,
    check_non_negative,
    check_positive,
    check_positive_int,
    is_traced,
    n_steps_in,
    short_repr,
)
from popsim._plain_values import plain_number
from popsim._time_steps import step_at
from popsim.distributions import (
    AbstractDistribution,
    Constant,
    Uniform,
    as_distribution,
)
from popsim.loss import Loss
from popsim.losses import OutputError
from popsim.per_member import is_per_member
from popsim.randomness import key_stream
from popsim.task import AbstractTask
from popsim.tasks.trial_parts import (
    GoResponse,
    all_combinations,
    trials_of_conditions,
    with_noise,
)
from popsim.trial import Trial
from popsim.trial_plan import Epoch, TrialPlan
from popsim.windows import Timeline

__all__ = ["IntervalDiscrimination", "accuracy_from_one_interval", "longer_stimulus"]


class IntervalDiscrimination(AbstractTask):
    """Two stimuli in sequence, one red and one blue: after the go cue, report which lasted longer.

    The task of Genovesio, Tsujimoto & Wise 2009, Neuron 63:254 (compared with the abstract only), with the
    stimuli of NeuroGym's `IntervalDiscrimination` in shorter delays: there `delay=Uniform(0.8, 1.5)` and
    `wait=0.5`, and the first and the second stimulus have the two channels.

    - Inputs: "fixation" (1), 1 until the go cue; "stimulus" (2: red, blue), 1 while the stimulus is shown,
        plus white noise in both channels in the epochs of the stimuli.
    - Targets: two outputs, zero until the go cue, then 1 for the one that lasted longer: red, blue.
    - Epochs "fixation", "first", "delay", "second", "wait", "decision"; events "first on", "first off",
        "second on", "second off", "go cue".
    - Conditions: "first" and "second", their durations (s), "order" (0 red first, 1 blue first), "choice"
        (0 red, 1 blue), "catch".

    The two durations always differ. One who counts the time steps of both is right in all trials
    (`popsim.tasks.longer_stimulus`), and who measures only one of them as often as
    `popsim.tasks.accuracy_from_one_interval` says. The validation trials are all pairs in both orders.

    **Arguments:**

    - `durations`: the durations of stimuli, at least two different ones, in seconds.
    - `noise`: sigma of the stimulus, in s^0.5; the standard deviation in a time step is sigma / dt^0.5.
    - `fixation`: the time before the stimuli, in seconds.
    - `delay`: the time between the stimuli, in seconds.
    - `wait`: the time after the stimuli, in seconds; the decision takes the rest.
    - `response`: the weights before and after the go cue, and the fraction of catch trials.
    - `duration`, `dt`: the duration of a trial and the time step of the model, in seconds.
    - `loss`: the loss to train with.
    """

    loss: Loss = eqx.field(kw_only=True, default_factory=lambda: 1.0 * OutputError())
    durations: Float[Array, " duration"] = eqx.field(
        kw_only=True, converter=as_float_array, default=(0.3, 0.4, 0.5, 0.6)
    )
    noise: Float[Array, ""] = eqx.field(kw_only=True, converter=as_float_array, default=0.01)
    fixation: AbstractDistribution = eqx.field(kw_only=True, converter=as_distribution, default=0.3)
    delay: AbstractDistribution = eqx.field(
        kw_only=True, converter=as_distribution, default_factory=lambda: Uniform(0.2, 0.6)
    )
    wait: AbstractDistribution = eqx.field(kw_only=True, converter=as_distribution, default=0.1)
    response: GoResponse = eqx.field(kw_only=True, default_factory=GoResponse)
    duration: float = eqx.field(static=True, converter=plain_number, kw_only=True, default=2.5)
    dt: float = eqx.field(static=True, converter=plain_number, kw_only=True, default=0.05)

    def __check_init__(self):
        check_kinds(self)
        check_non_negative("noise", self.noise)
        check_positive("durations", self.durations)
        if is_per_member(self.durations) or is_traced(self.durations):
            return
        _check_durations(self.durations, self.dt)
        longest = Constant(jnp.max(self.durations))
        self.response.check(self._plan(longest, longest))

    def _plan(self, first: AbstractDistribution, second: AbstractDistribution) -> TrialPlan:
        return self.response.plan(
            Epoch("fixation", self.fixation),
            Epoch("first", first, event="first on"),
            Epoch("delay", self.delay, event="first off"),
            Epoch("second", second, event="second on"),
            Epoch("wait", self.wait, event="second off"),
            duration=self.duration,
            dt=self.dt,
        )

    def trial(self, *, batch: int | Int[Array, ""], key: Key[Array, ""]) -> Trial:
        n = self.durations.shape[0]
        index = jax.random.randint(key_stream(key, "first"), (), 0, n)
        further = jax.random.randint(key_stream(key, "second"), (), 1, n)
        order = jax.random.randint(key_stream(key, "order"), (), 0, 2)
        first, second = self.durations[index], self.durations[(index + further) % n]
        timeline = self._plan(Constant(first), Constant(second)).draw(key=key_stream(key, "timeline"))
        return self._trial(timeline, first, second, order, key=key)

    def validation_trials(self) -> Trial:
        n = self.durations.shape[0]
        index, further, order = all_combinations(n, n - 1, 2)
        first, second = self.durations[index], self.durations[(index + further + 1) % n]
        return trials_of_conditions(self._typical_trial, first, second, order)

    def _typical_trial(
        self,
        first: Float[Array, ""],
        second: Float[Array, ""],
        order: Int[Array, ""],
        *,
        key: Key[Array, ""],
    ) -> Trial:
        timeline = self._plan(Constant(first), Constant(second)).nominal()
        return self._trial(timeline, first, second, order, key=key)

    def _trial(
        self,
        timeline: Timeline,
        first: Float[Array, ""],
        second: Float[Array, ""],
        order: Int[Array, ""],
        *,
        key: Key[Array, ""],
    ) -> Trial:
        is_first, is_second = timeline.in_epoch("first"), timeline.in_epoch("second")
        colour = jnp.where(is_first, order, 1 - order)
        noise_key = key_stream(key, "noise")
        shown = is_first | is_second
        stimulus = with_noise(jax.nn.one_hot(colour, 2), self.noise, shown, dt=self.dt, key=noise_key)
        choice = jnp.where(first > second, order, 1 - order)
        return Trial(
            init=(),
            inputs={"fixation": self.response.fixation(timeline), "stimulus": stimulus},
            targets=self.response.target(timeline, jax.nn.one_hot(choice, 2)),
            timeline=timeline,
            conditions={
                "first": first,
                "second": second,
                "order": order,
                "choice": choice,
                "catch": self.response.is_catch(timeline),
            },
        )


def _check_durations(durations: Float[Array, " duration"], dt: float) -> None:
    """Raise `ValueError` unless the durations are at least two different whole numbers of time steps."""
    if durations.ndim != 1 or len({n_steps_in("durations", float(each), dt) for each in durations}) < 2:
        raise ValueError(f"`durations` must be at least two different ones, got {short_repr(durations)}.")
    if len(np.unique(step_at(durations, dt))) < durations.size:
        raise ValueError(f"`durations` must differ from each other, got {short_repr(durations)}.")


def longer_stimulus(stimulus: Float[Array, "*axes time 2"]) -> Int[Array, "*axes"]:
    """Return which of two stimuli was shown for longer: 0 or 1.

    It counts the time steps in which each channel is above one half, as an ideal observer of an
    `IntervalDiscrimination` does while its noise is far below one half.
    """
    counts = jnp.sum(stimulus > 0.5, axis=-2)
    return (counts[..., 1] > counts[..., 0]).astype(int)


def accuracy_from_one_interval(n_durations: int) -> float:
    """Return how often one is right who measures one of the two intervals, and guesses about the other.

    Of n equally frequent durations, i are shorter than a duration and n - 1 - i are longer. It is the mean of
    max(i, n - 1 - i) / (n - 1): an `IntervalDiscrimination` is learned only above it.
    """
    check_positive_int("n_durations", n_durations)
    if n_durations < 2:
        raise ValueError("`n_durations` must be at least 2, got 1.")
    shorter = np.arange(n_durations)
    return float(np.mean(np.maximum(shorter, n_durations - 1 - shorter)) / (n_durations - 1))
