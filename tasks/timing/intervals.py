"""Intervals that are compared, or measured and produced."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from popsim import _checks as checks
from popsim._argument_shapes import check_kinds
from popsim._checks import as_float_array, short_repr
from popsim._plain_values import plain_number, step_at
from popsim.distributions import AbstractDistribution, Constant, Uniform, as_distribution
from popsim.loss import Loss
from popsim.losses import OutputError
from popsim.per_member import has_per_member, is_per_member
from popsim.randomness import key_stream
from popsim.tasks import trial_parts as parts
from popsim.tasks.timing.interval_production import production_of
from popsim.trial import Trial
from popsim.trial_plan import Epoch, TrialPlan
from popsim.windows import Timeline

__all__ = ["IntervalDiscrimination", "accuracy_from_one_interval", "longer_stimulus", "ReadySetGo"]


class IntervalDiscrimination(parts.AbstractShownIntervals):
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
    response: parts.GoResponse = eqx.field(kw_only=True, default_factory=parts.GoResponse)
    duration: float = eqx.field(static=True, converter=plain_number, kw_only=True, default=2.5)
    dt: float = eqx.field(static=True, converter=plain_number, kw_only=True, default=0.05)

    def __check_init__(self):
        check_kinds(self)
        checks.check_non_negative("noise", self.noise)
        checks.check_positive("durations", self.durations)
        if is_per_member(self.durations) or checks.is_traced(self.durations):
            return
        _check_durations(self.durations, self.dt)
        self.response.check(self.plan)

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

    @property
    def plan(self) -> TrialPlan:
        longest = Constant(jnp.max(self.durations))
        return self._plan(longest, longest)

    def plan_for(self, draws: tuple[Array, ...]) -> TrialPlan:
        return self._plan(Constant(draws[0]), Constant(draws[1]))

    def draw_conditions(self, *, key: Key[Array, ""]) -> tuple[Array, ...]:
        n = self.durations.shape[0]
        index = jax.random.randint(key_stream(key, "first"), (), 0, n)
        further = jax.random.randint(key_stream(key, "second"), (), 1, n)
        order = jax.random.randint(key_stream(key, "order"), (), 0, 2)
        return self.durations[index], self.durations[(index + further) % n], order

    def nominal(self) -> tuple[Array, ...]:
        n = self.durations.shape[0]
        index, further, order = parts.all_combinations(n, n - 1, 2)
        return self.durations[index], self.durations[(index + further + 1) % n], order

    def trial_of(self, timeline: Timeline, draws: tuple[Array, ...], *, key: Key[Array, ""]) -> Trial:
        first, second, order = draws
        is_first, is_second = timeline.in_epoch("first"), timeline.in_epoch("second")
        colour = jnp.where(is_first, order, 1 - order)
        noise_key = key_stream(key, "noise")
        shown = is_first | is_second
        stimulus = parts.with_noise(jax.nn.one_hot(colour, 2), self.noise, shown, dt=self.dt, key=noise_key)
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
    if (
        durations.ndim != 1
        or len({checks.n_steps_in("durations", float(each), dt) for each in durations}) < 2
    ):
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
    checks.check_positive_int("n_durations", n_durations)
    if n_durations < 2:
        raise ValueError("`n_durations` must be at least 2, got 1.")
    shorter = np.arange(n_durations)
    return float(np.mean(np.maximum(shorter, n_durations - 1 - shorter)) / (n_durations - 1))


LARGEST_ERROR = 3.5
"""Of a measured interval, in standard deviations; larger ones are not drawn."""


class ReadySetGo(parts.AbstractShownIntervals):
    """Two pulses, ready and set, mark an interval; the output ramps to 1 after `gain` times that interval.

    The task of Remington et al. 2018, Neuron 98:1005, as NeuroGym's `ReadySetGo`, with a linear ramp instead
    of the exponential one of Wang et al. 2018, Nat Neurosci 21:102 (not compared with the papers).

    - Inputs: "pulses" (1), 1 for `pulse` seconds after ready and after set; "gain" (1), constant.
    - Targets: one output, 0 until set, then a linear ramp that reaches 1 at go and continues for the
        fraction `overshoot` of the produced interval. Later time steps do not count.
    - Epochs "fixation", "interval", "production"; events "ready", "set", "go" (when the ramp reaches 1).
    - Conditions: "interval", "measured" and "production" (s, NaN in a catch trial), "gain", "catch".

    A catch trial has no set. The validation trials are all combinations of intervals and gains.

    With a `weber_fraction` w the interval shown is not the interval t itself but a measurement of it,
    t (1 + w x) with normal x, as the observer of Jazayeri & Shadlen 2010, Nat Neurosci 13:1020, makes one.
    The target is that of t, so that it pays to regress to the mean: `bayes_least_squares` is the estimate of
    t with the least squared error. Beyond 3.5 standard deviations x is not drawn. Validation trials show the
    intervals themselves.

    **Arguments:**

    - `interval`: the distribution of the time from ready to set, in seconds, rounded to time steps.
    - `gain`: the distribution of the ratio of produced interval to t.
    - `weber_fraction`: w, below 1 / 3.5; 0 shows t itself.
    - `fixation`: the time until ready, in seconds.
    - `pulse`: the duration of a pulse, in seconds.
    - `overshoot`: the continuation of the ramp, as a fraction of the produced interval.
    - `catch_probability`: the fraction of trials without set.
    - `duration`, `dt`: the duration of a trial and the time step of the model, in seconds.
    - `loss`: the loss to train with.
    """

    loss: Loss = eqx.field(kw_only=True, default_factory=lambda: 1.0 * OutputError())
    interval: AbstractDistribution = eqx.field(
        kw_only=True, converter=as_distribution, default_factory=lambda: Uniform(0.4, 0.8)
    )
    gain: AbstractDistribution = eqx.field(kw_only=True, converter=as_distribution, default=1.0)
    weber_fraction: Float[Array, ""] = eqx.field(kw_only=True, converter=as_float_array, default=0.0)
    fixation: AbstractDistribution = eqx.field(
        kw_only=True, converter=as_distribution, default_factory=lambda: Uniform(0.1, 0.3)
    )
    pulse: float = eqx.field(static=True, converter=plain_number, kw_only=True, default=0.06)
    overshoot: float = eqx.field(static=True, converter=plain_number, kw_only=True, default=0.2)
    catch_probability: Float[Array, ""] = eqx.field(kw_only=True, converter=as_float_array, default=0.0)
    duration: float = eqx.field(static=True, converter=plain_number, kw_only=True, default=2.1)
    dt: float = eqx.field(static=True, converter=plain_number, kw_only=True, default=0.02)

    def __check_init__(self):
        checks.check_positive("pulse", self.pulse)
        checks.check_non_negative("overshoot", self.overshoot)
        checks.check_fraction("catch_probability", self.catch_probability)
        checks.check_non_negative("weber_fraction", self.weber_fraction)
        plan = self.plan
        if has_per_member((self.gain, self.interval, self.weber_fraction)):
            return
        parts.check_drawn("gain", self.gain, checks.check_positive)
        (_, fastest), (_, longest) = self.gain.bounds(), self.interval.bounds()
        if checks.is_traced(fastest) or checks.is_traced(longest) or checks.is_traced(self.weber_fraction):
            return
        if not LARGEST_ERROR * float(self.weber_fraction) < 1:
            raise ValueError(
                f"`weber_fraction` must be below 1 / {LARGEST_ERROR}, so that intervals are positive, "
                f"got {short_repr(self.weber_fraction)}."
            )
        ramp = float(fastest) * float(longest) * (1 + self.overshoot)
        error = LARGEST_ERROR * float(self.weber_fraction) * float(longest)
        parts.check_time_left(plan, error + ramp + self.dt, "the longest ramp")

    @property
    def plan(self) -> TrialPlan:
        """The plan of a trial."""
        return self._plan(self.interval)

    def _plan(self, interval: AbstractDistribution) -> TrialPlan:
        epochs = (
            Epoch("fixation", self.fixation),
            Epoch("interval", interval, event="ready"),
            Epoch("production", event="set"),
        )
        return parts.plan_of(self, epochs, "set", self.catch_probability)

    def plan_for(self, draws: tuple[Array, ...]) -> TrialPlan:
        interval, error, _ = draws
        return self._plan(Constant(interval * (1 + error)))

    def draw_conditions(self, *, key: Key[Array, ""]) -> tuple[Array, ...]:
        timeline_key = key_stream(key, "timeline")
        interval = self.interval.sample(key=key_stream(timeline_key, "epoch interval"))  # as a plan draws it
        within = (-LARGEST_ERROR, LARGEST_ERROR)
        error = self.weber_fraction * jax.random.truncated_normal(key_stream(key, "measurement"), *within)
        return interval, error, self.gain.sample(key=key_stream(key, "gain"))

    def nominal(self) -> tuple[Array, ...]:
        intervals, gains = parts.nominal_values(self.interval), parts.nominal_values(self.gain)
        of_interval, of_gain = parts.all_combinations(len(intervals), len(gains))
        return intervals[of_interval], jnp.zeros_like(intervals[of_interval]), gains[of_gain]

    def trial_of(self, timeline: Timeline, draws: tuple[Array, ...], *, key: Key[Array, ""]) -> Trial:
        shown, relative_error, gain = draws
        error = shown * relative_error
        ready, set_ = timeline.events["ready"], timeline.events["set"]
        is_catch = ~timeline.happens("set")
        measured = self.dt * jnp.where(is_catch, 1, set_ - ready).astype(float)
        interval = jnp.where(is_catch, measured, measured - error)
        n_production = step_at(gain * interval, self.dt)
        timeline, ramp = production_of(timeline, "set", n_production, self.overshoot)
        return Trial(
            init=(),
            inputs={
                "pulses": parts.pulses_at(timeline, ("ready", "set"), self.pulse),
                "gain": jnp.broadcast_to(gain, (timeline.n_steps, 1)),
            },
            targets=ramp,
            timeline=timeline,
            conditions={
                "interval": jnp.where(is_catch, jnp.nan, interval),
                "measured": jnp.where(is_catch, jnp.nan, measured),
                "production": jnp.where(is_catch, jnp.nan, self.dt * n_production.astype(float)),
                "gain": gain,
                "catch": is_catch,
            },
        )
