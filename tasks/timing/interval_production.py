"""Intervals that are produced: after a cue that names them, or after a rhythm."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from popsim import _checks as checks
from popsim._argument_shapes import check_fields
from popsim._checks import as_float_array
from popsim._plain_values import plain_number, step_at
from popsim.distributions import (
    AbstractDistribution,
    Choice,
    Constant,
    TruncatedExponential,
    Uniform,
    as_distribution,
)
from popsim.loss import Loss
from popsim.losses import OutputError
from popsim.per_member import has_per_member
from popsim.randomness import key_stream
from popsim.tasks import trial_parts as parts
from popsim.tasks._interval_noise import shortest_interval, steps_shown, widest_interval
from popsim.trial import OutputTarget, Trial
from popsim.trial_plan import Epoch, TrialPlan
from popsim.windows import NEVER, Timeline

__all__ = ["CueSetGo", "OneTwoThreeGo"]


class CueSetGo(parts.AbstractPlannedTask):
    """A cue names an interval: after the pulse set, the output ramps to 1 over that interval.

    The task of Wang, Narain, Hosseini & Jazayeri 2018, Nat Neurosci 21:102, as NeuroGym's `MotorTiming`,
    from which its intervals and times are (not compared with the paper). Here the cue is one input that grows
    with the interval, and the ramp is linear, as in `ReadySetGo`.

    - Inputs: "cue" (1), the interval in s from "cue on" to the end of the trial; "set" (1), 1 for `pulse`
        seconds after set.
    - Targets: one output, 0 until set, then a linear ramp that reaches 1 at go and continues for the
        fraction `overshoot` of the interval. Later time steps do not count.
    - Epochs "fixation", "cue", "production"; events "cue on", "set", "go" (when the ramp reaches 1).
    - Conditions: "interval" (s), "catch".

    The inputs determine the interval, so that an ideal network makes no error. A catch trial has no set.
    There is one validation trial for each interval.

    **Arguments:**

    - `interval`: the distribution of the interval, in seconds, rounded to time steps.
    - `fixation`, `cue`: the time before the cue and the time from it until set, in seconds.
    - `pulse`: the duration of the pulse set, in seconds.
    - `overshoot`: the continuation of the ramp, as a fraction of the interval.
    - `catch_probability`: the fraction of trials without set.
    - `duration`, `dt`: the duration of a trial and the time step of the model, in seconds.
    - `loss`: the loss to train with.
    """

    loss: Loss = eqx.field(kw_only=True, default_factory=lambda: 1.0 * OutputError())
    interval: AbstractDistribution = eqx.field(
        kw_only=True, converter=as_distribution, default_factory=lambda: Choice([0.8, 1.5])
    )
    fixation: AbstractDistribution = eqx.field(kw_only=True, converter=as_distribution, default=0.5)
    cue: AbstractDistribution = eqx.field(
        kw_only=True, converter=as_distribution, default_factory=lambda: Uniform(1.0, 3.0)
    )
    pulse: float = eqx.field(static=True, converter=plain_number, kw_only=True, default=0.05)
    overshoot: float = eqx.field(static=True, converter=plain_number, kw_only=True, default=0.2)
    catch_probability: Float[Array, ""] = eqx.field(kw_only=True, converter=as_float_array, default=0.0)
    duration: float = eqx.field(static=True, converter=plain_number, kw_only=True, default=5.4)
    dt: float = eqx.field(static=True, converter=plain_number, kw_only=True, default=0.05)

    def __check_init__(self):
        _check_production(self, self.plan, self.interval)

    @property
    def plan(self) -> TrialPlan:
        epochs = (
            Epoch("fixation", self.fixation),
            Epoch("cue", self.cue, event="cue on"),
            Epoch("production", event="set"),
        )
        return parts.plan_of(self, epochs, "set", self.catch_probability)

    def draw_conditions(self, *, key: Key[Array, ""]) -> tuple[Array, ...]:
        return (self.interval.sample(key=key_stream(key, "interval")),)

    def nominal(self) -> tuple[Array, ...]:
        return (parts.nominal_values(self.interval),)

    def trial_of(self, timeline: Timeline, draws: tuple[Array, ...], *, key: Key[Array, ""]) -> Trial:
        (interval,) = draws
        cue = jnp.where(timeline.since("cue on"), interval, 0.0)
        inputs = {"cue": cue[:, None], "set": parts.pulses_at(timeline, ("set",), self.pulse)}
        return _production_trial(timeline, "set", interval, self.overshoot, inputs)


class OneTwoThreeGo(parts.AbstractShownIntervals):
    """Three pulses mark the same interval twice: the output ramps to 1 over that interval once more.

    The task of Egger, Remington, Chang & Jazayeri 2019, Nat Neurosci 22:1871, with the intervals and times of
    NeuroGym's `OneTwoThreeGo` (not compared with the paper), and with the linear ramp of `ReadySetGo`. Each
    shown interval has noise of its own, which grows with the interval: two of them tell more than one, and
    the prior more than both.

    - Inputs: "pulses" (1), 1 for `pulse` seconds after one, two and three.
    - Targets: one output, 0 until three, then a linear ramp that reaches 1 at go, after the interval without
        noise, and continues for the fraction `overshoot` of it. Later time steps do not count.
    - Epochs "foreperiod", "first interval", "second interval", "production"; events "one", "two", "three",
        "go" (when the ramp reaches 1).
    - Conditions: "interval", "first shown" and "second shown" (s), "catch".

    The best estimate of the interval is its mean given both shown ones, `popsim.tasks.estimate_interval`; its
    root mean squared error is `popsim.tasks.interval_error`. A catch trial has no third pulse. There is one
    validation trial for each interval, without noise.

    **Arguments:**

    - `interval`: the distribution of the interval, in seconds, rounded to time steps.
    - `weber_fraction`: the standard deviation of a shown interval as a fraction of the interval. The noise
        is normal, truncated at three standard deviations, and the shown interval is rounded to time steps.
    - `foreperiod`: the time before the first pulse, in seconds.
    - `pulse`: the duration of a pulse, in seconds.
    - `overshoot`: the continuation of the ramp, as a fraction of the interval.
    - `catch_probability`: the fraction of trials without the third pulse.
    - `duration`, `dt`: the duration of a trial and the time step of the model, in seconds.
    - `loss`: the loss to train with.
    """

    loss: Loss = eqx.field(kw_only=True, default_factory=lambda: 1.0 * OutputError())
    interval: AbstractDistribution = eqx.field(
        kw_only=True, converter=as_distribution, default_factory=lambda: Choice([0.6, 0.7, 0.8, 0.9, 1.0])
    )
    weber_fraction: Float[Array, ""] = eqx.field(kw_only=True, converter=as_float_array, default=0.1)
    foreperiod: AbstractDistribution = eqx.field(
        kw_only=True, converter=as_distribution, default_factory=lambda: TruncatedExponential(0.5, 1.5, 1.0)
    )
    pulse: float = eqx.field(static=True, converter=plain_number, kw_only=True, default=0.1)
    overshoot: float = eqx.field(static=True, converter=plain_number, kw_only=True, default=0.2)
    catch_probability: Float[Array, ""] = eqx.field(kw_only=True, converter=as_float_array, default=0.0)
    duration: float = eqx.field(static=True, converter=plain_number, kw_only=True, default=5.4)
    dt: float = eqx.field(static=True, converter=plain_number, kw_only=True, default=0.05)

    def __check_init__(self):
        check_fields(self)
        checks.check_fraction("weber_fraction", self.weber_fraction)
        if has_per_member((self.interval, self.weber_fraction)):
            return
        widest = widest_interval(self.interval, self.weber_fraction)
        if not checks.is_traced(widest):
            shortest = float(shortest_interval(self.interval, self.weber_fraction))
            if shortest < self.pulse + self.dt - 1e-6:
                raise ValueError(
                    "`interval` must be longer than the pulse in all trials, with its noise and a time step, "
                    f"got down to {shortest:.4g} s for a pulse of {self.pulse} s."
                )
            _check_production(self, self.plan, self.interval)

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
        shown = {"first shown": first, "second shown": second}
        return _production_trial(timeline, "three", interval, self.overshoot, inputs, shown)


def _check_production(task: Any, plan: TrialPlan, interval: AbstractDistribution) -> None:
    """Check the fields of a task in which an interval is produced, and that its longest ramp has time."""
    checks.check_positive("pulse", task.pulse)
    checks.check_non_negative("overshoot", task.overshoot)
    if has_per_member(interval):
        return
    parts.check_drawn("interval", interval, checks.check_positive)
    _, longest = interval.bounds()
    if not checks.is_traced(longest):
        parts.check_time_left(plan, float(longest) * (1 + task.overshoot) + task.dt, "the longest ramp")


def _production_trial(
    timeline: Timeline,
    start: str,
    interval: Float[Array, ""],
    overshoot: float,
    inputs: dict[str, Array],
    conditions: dict[str, Array] | None = None,
) -> Trial:
    """Return a trial in which the output ramps to 1 from the event `start` on, over the interval in s."""
    timeline, ramp = production_of(timeline, start, step_at(interval, timeline.dt), overshoot)
    return Trial(
        init=(),
        inputs=inputs,
        targets=ramp,
        timeline=timeline,
        conditions={"interval": interval, **(conditions or {}), "catch": ~timeline.happens(start)},
    )


def production_of(
    timeline: Timeline, start: str, n_production: Int[Array, ""], overshoot: float
) -> tuple[Timeline, OutputTarget]:
    """Return the timeline with the event "go", and the target, which ramps from 0 to 1 until then."""
    go = jnp.where(timeline.happens(start), timeline.events[start] + n_production, NEVER)
    events = timeline.events | {"go": go}
    since = jnp.maximum(jnp.arange(timeline.n_steps) - timeline.events[start], 0).astype(float)
    ramp = since / jnp.maximum(n_production, 1).astype(float)
    counts = (ramp <= 1 + overshoot + 1e-6).astype(float)
    with_go = Timeline(timeline.dt, timeline.n_steps, epochs=timeline.epochs, events=events)
    return with_go, OutputTarget(ramp[:, None], counts, is_choice=False)
