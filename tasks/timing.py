"""Intervals that are produced, after a cue that names them or after intervals that are shown."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from popsim._shared.checks import short_repr
from popsim._shared.plain_values import HALF, step_at
from popsim.distributions import AbstractDistribution, Constant, TruncatedExponential
from popsim.loss import Loss
from popsim.losses import OutputError
from popsim.randomness import key_stream
from popsim.tasks import _fields as fields
from popsim.tasks import trial_parts as parts
from popsim.tasks._fields import NON_NEGATIVE, POSITIVE, Drawn, Scalar
from popsim.trial import OutputTarget, Trial
from popsim.trial_plan import Epoch, TrialPlan
from popsim.windows import NEVER, Timeline

__all__ = ["CueSetGo", "OneTwoThreeGo", "ReadySetGo"]


class AbstractProduction(parts.AbstractPlannedTask):
    """A task in which the output ramps to 1, from an event on, over an interval."""

    loss: Loss = fields.default_loss(default_factory=lambda: 1.0 * OutputError())
    interval: eqx.AbstractVar[Drawn]
    dt: eqx.AbstractVar[float]
    overshoot: float = fields.setting(
        "the continuation of the ramp, as a fraction of the produced interval",
        default=0.2,
        check=NON_NEGATIVE,
    )
    catch_probability: Scalar = fields.fraction(
        "the fraction of trials without the start of the ramp", default=0.0
    )

    def __check_init__(self):
        parts.check_time_left(self.plan, self.longest_ramp() + self.dt, "the longest ramp")

    def longest_ramp(self) -> float:
        """Return for how many seconds the output ramps at most."""
        return self.longest_interval() * (1 + self.overshoot)

    def longest_interval(self) -> float:
        """Return the longest interval, in seconds."""
        return float(self.interval.bounds()[1])

    def production_trial(
        self,
        timeline: Timeline,
        start: str,
        interval: Float[Array, ""],
        inputs: dict[str, Array],
        conditions: dict[str, Array],
    ) -> Trial:
        """Return a trial in which the output ramps to 1 from the event `start` on, over the interval in s."""
        n_production = step_at(interval, self.dt)
        go = jnp.where(timeline.happens(start), timeline.events[start] + n_production, NEVER)
        since = jnp.maximum(jnp.arange(timeline.n_steps) - timeline.events[start], 0).astype(float)
        ramp = since / jnp.maximum(n_production, 1).astype(float)
        counts = (ramp <= 1 + self.overshoot + 1e-6).astype(float)
        targets = OutputTarget(ramp[:, None], counts, is_choice=False)
        labels = {**conditions, "catch": ~timeline.happens(start)}
        timeline = dataclasses.replace(timeline, events=timeline.events | {"go": go})
        return Trial((), inputs, targets, timeline, conditions=labels)


LARGEST_ERROR = 3.5
"""Of a measured interval, in standard deviations; larger ones are not drawn."""


class ReadySetGo(AbstractProduction):
    """Two pulses, ready and set, mark an interval; the output ramps to 1 after `gain` times that interval.

    The task of Remington et al. 2018, Neuron 98:1005, as NeuroGym's `ReadySetGo`, with a linear ramp instead
    of the exponential one of Wang et al. 2018, Nat Neurosci 21:102 (not compared with the papers).

    - Inputs: "pulses" (1), 1 for `pulse` seconds after ready and after set; "gain" (1), constant.
    - Targets: one output, 0 until set, then a linear ramp that reaches 1 at go and continues for the
        fraction `overshoot` of the produced interval. Later time steps do not count.
    - Conditions: "interval", "measured" and "production" (s, NaN in a catch trial), "gain", "catch".

    A catch trial has no set. With a `weber_fraction` w the interval shown is a measurement of the interval t,
    t (1 + w x) with normal x within 3.5 standard deviations, as the observer of Jazayeri & Shadlen 2010, Nat
    Neurosci 13:1020, makes one. The target is that of t, so that it pays to regress to the mean. Validation
    trials show the intervals themselves.
    """

    interval: Drawn = fields.drawn(
        "the time t from ready to set, in seconds, rounded to time steps",
        default=(0.4, 0.8),
        check=POSITIVE,
    )
    gain: Drawn = fields.drawn("the ratio of the produced interval to t", default=1.0, check=POSITIVE)
    weber_fraction: Scalar = fields.fraction(
        "w, the noise of the shown interval as a fraction of t, below 1 / 3.5", default=0.0
    )
    fixation: Drawn = fields.drawn("the time until ready, in seconds", default=(0.1, 0.3))
    pulse: float = fields.fixed("the duration of a pulse, in seconds", default=0.06)
    duration: float = fields.trial_duration(default=2.1)
    dt: float = fields.time_step(default=0.02)

    def __check_init__(self):
        if not LARGEST_ERROR * self.weber_fraction < 1:
            raise ValueError(
                f"`weber_fraction` must be below 1 / {LARGEST_ERROR}, so that intervals are positive, "
                f"got {short_repr(self.weber_fraction)}."
            )

    def longest_ramp(self) -> float:
        ramp = float(self.gain.bounds()[1]) * self.longest_interval() * (1 + self.overshoot)
        return ramp + LARGEST_ERROR * float(self.weber_fraction) * self.longest_interval()

    @property
    def plan(self) -> TrialPlan:
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
        no_error = jnp.zeros(1)
        return parts.combinations_of(
            parts.nominal_values(self.interval), no_error, parts.nominal_values(self.gain)
        )

    def trial_of(self, timeline: Timeline, draws: tuple[Array, ...], *, key: Key[Array, ""]) -> Trial:
        shown, relative_error, gain = draws
        error = shown * relative_error
        ready, set_ = timeline.events["ready"], timeline.events["set"]
        is_catch = ~timeline.happens("set")
        measured = self.dt * jnp.where(is_catch, 1, set_ - ready).astype(float)
        interval = jnp.where(is_catch, measured, measured - error)
        production = gain * interval
        inputs = {
            "pulses": parts.pulses_at(timeline, ("ready", "set"), self.pulse),
            "gain": jnp.broadcast_to(gain, (timeline.n_steps, 1)),
        }
        labels = {
            "interval": interval,
            "measured": measured,
            "production": self.dt * step_at(production, self.dt).astype(float),
        }
        labels = {name: jnp.where(is_catch, jnp.nan, seconds) for name, seconds in labels.items()}
        return self.production_trial(timeline, "set", production, inputs, labels | {"gain": gain})


class CueSetGo(AbstractProduction):
    """A cue names an interval: after the pulse set, the output ramps to 1 over that interval.

    The task of Wang, Narain, Hosseini & Jazayeri 2018, Nat Neurosci 21:102, as NeuroGym's `MotorTiming`,
    from which its intervals and times are (not compared with the paper). Here the cue is one input that grows
    with the interval, and the ramp is linear, as in `ReadySetGo`.

    - Inputs: "cue" (1), the interval in s from "cue on" to the end of the trial; "set" (1), 1 for `pulse`
        seconds after set.
    - Targets: one output, 0 until set, then a linear ramp that reaches 1 at go and continues for the
        fraction `overshoot` of the interval. Later time steps do not count.
    - Conditions: "interval" (s), "catch".

    A catch trial has no set.
    """

    interval: Drawn = fields.drawn(
        "the interval that the cue names, from set to go, in seconds, rounded to time steps",
        default=[0.8, 1.5],
        check=POSITIVE,
    )
    fixation: Drawn = fields.drawn("the time before the cue, in seconds", default=0.5)
    cue: Drawn = fields.drawn("the time from the cue until set, in seconds", default=(1.0, 3.0))
    pulse: float = fields.fixed("the duration of the pulse set, in seconds", default=0.05)
    duration: float = fields.trial_duration(default=5.4)
    dt: float = fields.time_step(default=0.05)

    @property
    def plan(self) -> TrialPlan:
        epochs = parts.epochs_of(self, fixation=None, cue="cue on", production="set")
        return parts.plan_of(self, epochs, "set", self.catch_probability)

    def draws(self) -> dict[str, parts.Drawable]:
        return {"interval": self.interval}

    def trial_of(self, timeline: Timeline, draws: tuple[Array, ...], *, key: Key[Array, ""]) -> Trial:
        (interval,) = draws
        cue = jnp.where(timeline.since("cue on"), interval, 0.0)
        inputs = {"cue": cue[:, None], "set": parts.pulses_at(timeline, ("set",), self.pulse)}
        return self.production_trial(timeline, "set", interval, inputs, {"interval": interval})


class OneTwoThreeGo(AbstractProduction):
    """Three pulses mark the same interval twice: the output ramps to 1 over that interval once more.

    The task of Egger, Remington, Chang & Jazayeri 2019, Nat Neurosci 22:1871, with the intervals and times of
    NeuroGym's `OneTwoThreeGo` (not compared with the paper), and with the linear ramp of `ReadySetGo`. Each
    shown interval has noise of its own, which grows with the interval. It is normal, truncated at three
    standard deviations, and shown intervals are rounded to time steps.

    - Inputs: "pulses" (1), 1 for `pulse` seconds after one, two and three.
    - Targets: one output, 0 until three, then a linear ramp that reaches 1 at go, after the interval without
        noise, and continues for the fraction `overshoot` of it. Later time steps do not count.
    - Conditions: "interval", "first shown" and "second shown" (s), "catch".

    The best estimate of the interval is its mean given both shown ones. A catch trial has no third pulse.
    Validation trials are without noise.
    """

    interval: Drawn = fields.drawn(
        "the interval without noise, from three to go, in seconds, rounded to time steps",
        default=[0.6, 0.7, 0.8, 0.9, 1.0],
        check=POSITIVE,
    )
    weber_fraction: Scalar = fields.fraction(
        "the standard deviation of a shown interval as a fraction of the interval", default=0.1
    )
    foreperiod: Drawn = fields.drawn(
        "the time before the first pulse, in seconds",
        default=lambda: TruncatedExponential(0.5, 1.5, 1.0),
        check=POSITIVE,
    )
    pulse: float = fields.fixed("the duration of a pulse, in seconds", default=0.1)
    duration: float = fields.trial_duration(default=5.4)
    dt: float = fields.time_step(default=0.05)

    def __check_init__(self):
        shortest = float((1 - WIDEST * self.weber_fraction) * self.interval.bounds()[0])
        if shortest < self.pulse + self.dt - 1e-6:
            raise ValueError(
                "`interval` must be longer than the pulse in all trials, with its noise and a time step, "
                f"got down to {shortest:.4g} s for a pulse of {self.pulse} s."
            )

    def _plan(self, first: AbstractDistribution, second: AbstractDistribution) -> TrialPlan:
        epochs = (
            Epoch("foreperiod", self.foreperiod),
            Epoch("first interval", first, event="one"),
            Epoch("second interval", second, event="two"),
            Epoch("production", event="three"),
        )
        return parts.plan_of(self, epochs, "three", self.catch_probability)

    @property
    def plan(self) -> TrialPlan:
        widest = Constant(widest_interval(self.interval, self.weber_fraction))
        return self._plan(widest, widest)

    def plan_for(self, draws: tuple[Array, ...]) -> TrialPlan:
        return self._plan(Constant(draws[1]), Constant(draws[2]))

    def draw_conditions(self, *, key: Key[Array, ""]) -> tuple[Array, ...]:
        interval = self.interval.sample(key=key_stream(key, "interval"))
        keys = jax.random.split(key_stream(key, "noise"))
        n_shown = [steps_shown(interval, self.weber_fraction, self.dt, key=key) for key in keys]
        first, second = (self.dt * n_steps.astype(float) for n_steps in n_shown)
        return interval, first, second

    def nominal(self) -> tuple[Array, ...]:
        return (parts.nominal_values(self.interval),) * 3

    def trial_of(self, timeline: Timeline, draws: tuple[Array, ...], *, key: Key[Array, ""]) -> Trial:
        interval, first, second = draws
        inputs = {"pulses": parts.pulses_at(timeline, ("one", "two", "three"), self.pulse)}
        shown = {"interval": interval, "first shown": first, "second shown": second}
        return self.production_trial(timeline, "three", interval, inputs, shown)


WIDEST = 3.0
"""Where the noise of shown intervals is truncated, in standard deviations."""


def steps_shown(
    interval: Float[Array, ""], weber_fraction: Float[Array, ""], dt: float, *, key: Key[Array, ""]
) -> Int[Array, ""]:
    """Draw the number of time steps as which an interval (s) is shown, whenever it begins."""
    noise = jax.random.truncated_normal(key, -WIDEST, WIDEST, (), interval.dtype)
    return step_at(interval * (1 + weber_fraction * noise), dt)


def widest_interval(interval: AbstractDistribution, weber_fraction: Float[Array, ""]) -> Float[Array, ""]:
    """Return the longest interval that may be shown, in seconds."""
    return (1 + WIDEST * weber_fraction) * interval.bounds()[1]


def probability_of_steps(
    n: Int[Array, "*#axes"],
    intervals: Float[Array, " value"],
    weber_fraction: float | Float[Array, ""],
    dt: float,
) -> Float[Array, "*axes"]:
    """Return the probability that each interval (last axis) is shown as `n` time steps."""
    # An interval without noise is shown as it is: the least spread is far below a time step.
    spread = jnp.maximum(weber_fraction, 1e-6) * intervals

    def below(seconds: Float[Array, "*#axes"]) -> Float[Array, "*axes"]:
        deviation = jnp.clip((seconds - intervals) / spread, -WIDEST, WIDEST)
        return jax.scipy.stats.norm.cdf(deviation)

    start = (n.astype(float) - HALF) * dt
    return (below(start + dt) - below(start)) / (1 - 2 * jax.scipy.stats.norm.cdf(-WIDEST))


def table_of_steps(
    intervals: Float[np.ndarray, " value"], weber_fraction: float, dt: float
) -> Float[np.ndarray, "steps value"]:
    """Return the probability of each number of time steps, from 0 to the largest, for each interval."""
    last = int(np.ceil((1 + WIDEST * weber_fraction) * np.max(intervals) / dt)) + 1
    with jax.enable_x64(True):
        steps, values = jnp.arange(last + 1)[:, None], jnp.asarray(intervals)
        return np.asarray(probability_of_steps(steps, values, weber_fraction, dt))
