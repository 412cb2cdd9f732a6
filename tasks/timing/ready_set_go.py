"""Ready, set, go: an interval that is measured and produced."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from popsim._checks import (
    as_float_array,
    check_fraction,
    check_non_negative,
    check_positive,
    is_traced,
    short_repr,
)
from popsim._plain_values import plain_number
from popsim._time_steps import step_at
from popsim.distributions import AbstractDistribution, Constant, Uniform, as_distribution
from popsim.loss import Loss
from popsim.losses import OutputError
from popsim.per_member import has_per_member
from popsim.randomness import key_stream
from popsim.task import AbstractTask
from popsim.tasks.timing._ramps import production_of
from popsim.tasks.trial_parts import (
    all_combinations,
    check_drawn,
    check_time_left,
    nominal_values,
    pulses_at,
    trials_of_conditions,
)
from popsim.trial import Trial
from popsim.trial_plan import Epoch, TrialPlan
from popsim.windows import Timeline

__all__ = ["ReadySetGo"]

LARGEST_ERROR = 3.5
"""Of a measured interval, in standard deviations; larger ones are not drawn."""


class ReadySetGo(AbstractTask):
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
        check_positive("pulse", self.pulse)
        check_non_negative("overshoot", self.overshoot)
        check_fraction("catch_probability", self.catch_probability)
        check_non_negative("weber_fraction", self.weber_fraction)
        plan = self.plan
        if has_per_member((self.gain, self.interval, self.weber_fraction)):
            return
        check_drawn("gain", self.gain, check_positive)
        (_, fastest), (_, longest) = self.gain.bounds(), self.interval.bounds()
        if is_traced(fastest) or is_traced(longest) or is_traced(self.weber_fraction):
            return
        if not LARGEST_ERROR * float(self.weber_fraction) < 1:
            raise ValueError(
                f"`weber_fraction` must be below 1 / {LARGEST_ERROR}, so that intervals are positive, "
                f"got {short_repr(self.weber_fraction)}."
            )
        ramp = float(fastest) * float(longest) * (1 + self.overshoot)
        error = LARGEST_ERROR * float(self.weber_fraction) * float(longest)
        check_time_left(plan, error + ramp + self.dt, "the longest ramp")

    @property
    def plan(self) -> TrialPlan:
        """The plan of a trial."""
        return self._plan(self.interval)

    def _plan(self, interval: AbstractDistribution) -> TrialPlan:
        return TrialPlan(
            (
                Epoch("fixation", self.fixation),
                Epoch("interval", interval, event="ready"),
                Epoch("production", event="set"),
            ),
            duration=self.duration,
            dt=self.dt,
            catch_event="set",
            catch_probability=self.catch_probability,
        )

    def trial(self, *, batch: int | Int[Array, ""], key: Key[Array, ""]) -> Trial:
        gain = self.gain.sample(key=key_stream(key, "gain"))
        timeline_key = key_stream(key, "timeline")
        interval = self.interval.sample(key=key_stream(timeline_key, "epoch interval"))  # as a plan draws it
        within = (-LARGEST_ERROR, LARGEST_ERROR)
        error = self.weber_fraction * jax.random.truncated_normal(key_stream(key, "measurement"), *within)
        plan = self._plan(Constant(interval * (1 + error)))
        return self._trial(plan.draw(key=timeline_key), gain, interval * error)

    def validation_trials(self) -> Trial:
        intervals, gains = nominal_values(self.interval), nominal_values(self.gain)
        of_interval, of_gain = all_combinations(len(intervals), len(gains))
        return trials_of_conditions(self._typical_trial, intervals[of_interval], gains[of_gain])

    def _typical_trial(
        self, interval: Float[Array, ""], gain: Float[Array, ""], *, key: Key[Array, ""]
    ) -> Trial:
        return self._trial(self._plan(Constant(interval)).nominal(), gain, jnp.zeros_like(interval))

    def _trial(self, timeline: Timeline, gain: Float[Array, ""], error: Float[Array, ""]) -> Trial:
        """Return the trial in which the interval is shown too long by `error`, in s."""
        ready, set_ = timeline.events["ready"], timeline.events["set"]
        is_catch = ~timeline.happens("set")
        measured = self.dt * jnp.where(is_catch, 1, set_ - ready).astype(float)
        interval = jnp.where(is_catch, measured, measured - error)
        n_production = step_at(gain * interval, self.dt)
        timeline, ramp = production_of(timeline, "set", n_production, self.overshoot)
        return Trial(
            init=(),
            inputs={
                "pulses": pulses_at(timeline, ("ready", "set"), self.pulse),
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
