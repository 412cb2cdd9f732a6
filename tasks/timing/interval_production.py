"""Intervals that are produced: after a cue that names them, or after a rhythm."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from popsim._argument_shapes import check_fields
from popsim._checks import (
    as_float_array,
    check_fraction,
    check_non_negative,
    check_positive,
    is_traced,
)
from popsim._plain_values import plain_number
from popsim._time_steps import step_at
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
from popsim.task import AbstractTask
from popsim.tasks._interval_noise import shortest_interval, steps_shown, widest_interval
from popsim.tasks.timing._ramps import production_of
from popsim.tasks.trial_parts import (
    check_drawn,
    check_time_left,
    nominal_values,
    pulses_at,
    trials_of_conditions,
)
from popsim.trial import Trial
from popsim.trial_plan import Epoch, TrialPlan
from popsim.windows import Timeline

__all__ = ["CueSetGo", "OneTwoThreeGo"]


class CueSetGo(AbstractTask):
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
        """The plan of a trial."""
        return TrialPlan(
            (
                Epoch("fixation", self.fixation),
                Epoch("cue", self.cue, event="cue on"),
                Epoch("production", event="set"),
            ),
            duration=self.duration,
            dt=self.dt,
            catch_event="set",
            catch_probability=self.catch_probability,
        )

    def trial(self, *, batch: int | Int[Array, ""], key: Key[Array, ""]) -> Trial:
        interval = self.interval.sample(key=key_stream(key, "interval"))
        return self._trial(self.plan.draw(key=key_stream(key, "timeline")), interval, key=key)

    def validation_trials(self) -> Trial:
        shared = (self.plan.nominal(),)
        return trials_of_conditions(self._trial, nominal_values(self.interval), shared=shared)

    def _trial(self, timeline: Timeline, interval: Float[Array, ""], *, key: Key[Array, ""]) -> Trial:
        cue = jnp.where(timeline.since("cue on"), interval, 0.0)
        inputs = {"cue": cue[:, None], "set": pulses_at(timeline, ("set",), self.pulse)}
        return _production_trial(timeline, "set", interval, self.overshoot, inputs)


class OneTwoThreeGo(AbstractTask):
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
        check_fraction("weber_fraction", self.weber_fraction)
        if has_per_member((self.interval, self.weber_fraction)):
            return
        widest = widest_interval(self.interval, self.weber_fraction)
        if not is_traced(widest):
            shortest = float(shortest_interval(self.interval, self.weber_fraction))
            if shortest < self.pulse + self.dt - 1e-6:
                raise ValueError(
                    "`interval` must be longer than the pulse in all trials, with its noise and a time step, "
                    f"got down to {shortest:.4g} s for a pulse of {self.pulse} s."
                )
            plan = self._plan(Constant(widest), Constant(widest))
            _check_production(self, plan, self.interval)

    def _plan(self, first: AbstractDistribution, second: AbstractDistribution) -> TrialPlan:
        return TrialPlan(
            (
                Epoch("foreperiod", self.foreperiod),
                Epoch("first interval", first, event="one"),
                Epoch("second interval", second, event="two"),
                Epoch("production", event="three"),
            ),
            duration=self.duration,
            dt=self.dt,
            catch_event="three",
            catch_probability=self.catch_probability,
        )

    def trial(self, *, batch: int | Int[Array, ""], key: Key[Array, ""]) -> Trial:
        interval = self.interval.sample(key=key_stream(key, "interval"))
        keys = jax.random.split(key_stream(key, "noise"))
        first, second = (
            self.dt * steps_shown(interval, self.weber_fraction, self.dt, key=key).astype(float)
            for key in keys
        )
        timeline = self._plan(Constant(first), Constant(second)).draw(key=key_stream(key, "timeline"))
        return self._trial(timeline, interval, first, second)

    def validation_trials(self) -> Trial:
        return trials_of_conditions(self._typical_trial, nominal_values(self.interval))

    def _typical_trial(self, interval: Float[Array, ""], *, key: Key[Array, ""]) -> Trial:
        timeline = self._plan(Constant(interval), Constant(interval)).nominal()
        return self._trial(timeline, interval, interval, interval)

    def _trial(
        self,
        timeline: Timeline,
        interval: Float[Array, ""],
        first: Float[Array, ""],
        second: Float[Array, ""],
    ) -> Trial:
        inputs = {"pulses": pulses_at(timeline, ("one", "two", "three"), self.pulse)}
        shown = {"first shown": first, "second shown": second}
        return _production_trial(timeline, "three", interval, self.overshoot, inputs, shown)


def _check_production(task: Any, plan: TrialPlan, interval: AbstractDistribution) -> None:
    """Check the fields of a task in which an interval is produced, and that its longest ramp has time."""
    check_fields(task)
    check_positive("pulse", task.pulse)
    check_non_negative("overshoot", task.overshoot)
    if has_per_member(interval):
        return
    check_drawn("interval", interval, check_positive)
    _, longest = interval.bounds()
    if not is_traced(longest):
        check_time_left(plan, float(longest) * (1 + task.overshoot) + task.dt, "the longest ramp")


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
