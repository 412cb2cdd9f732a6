"""Losses on the activity of units, against recorded rates or spike counts."""

import abc
import math
from collections.abc import Callable
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from jaxtyping import Array, Float

from popsim._shared import checks
from popsim._shared.plain_values import plain_number
from popsim.losses.profiles import AbstractWeightedMean, Scalar
from popsim.model import AbstractModel
from popsim.networks.activity import UnitSelector, activity_over_time, as_numbers_of_units
from popsim.trial import RecordedActivity, Trial

__all__ = ["RateError", "SpikeCountLikelihood"]

Rates = Float[Array, "time units"]


def _as_units(units: Any) -> Any:
    """Return what selects units; numbers of units as a tuple of Python's."""
    if units is None or isinstance(units, str) or callable(units):
        return units
    return as_numbers_of_units(
        units, ", the name of a group of units, or a function such as `lambda hidden: hidden[:10]`"
    )


class AbstractRateTerm(AbstractWeightedMean):
    """Σ_ti c_ti x_ti / Σ_ti c_ti, of the cost x that a subclass returns; zero if nothing counts.

    t is a time step and i a unit. c are the counts of the `RecordedActivity`, times the profile and the
    weights of the units.

    **Arguments:**

    - `units`: the units to which the recorded ones belong, in their order: numbers of units, such as
        `range(30)`; the name of a group of the network, such as an area; or a function that selects a part of
        the hidden state at one time step. By default all units.
    - `of`: "activity" of the units, or the "output" of the network, where each output is a recorded unit.
    - `rates`: the name of the recording in `Trial.recordings`.
    - `rate_fn`: from the activity of units to rates, elementwise, such as `lambda activity: 20.0 * activity`.
    - `unit_weights`: the weight of each unit, at least 0; uniform by default.
    - `profile`: weights of the time steps; uniform by default.
    """

    units: UnitSelector | tuple[int, ...] | None = eqx.field(
        static=True, converter=_as_units, default=None, kw_only=True
    )
    of: Literal["activity", "output"] = eqx.field(static=True, default="activity", kw_only=True)
    rates: str = eqx.field(static=True, default="rates", kw_only=True)
    rate_fn: Callable[[Array], Array] | None = eqx.field(static=True, default=None, kw_only=True)
    unit_weights: Float[Array, " unit"] | None = eqx.field(
        converter=checks.as_float_array, default=None, kw_only=True
    )

    def __check_init__(self):
        if self.of not in ("activity", "output") or (self.of == "output" and self.units is not None):
            raise ValueError(
                f'`of` must be "activity", or without `units` "output", got {self.of!r} and {self.units!r}.'
            )
        if self.unit_weights is not None:
            checks.check_non_negative("unit_weights", self.unit_weights)

    @abc.abstractmethod
    def cost(self, activity: Rates, recorded: Rates, dt: float) -> Rates:
        """Return x, given the activity of the units, what was recorded, and the time step in seconds."""

    def check(self, trials: Trial, model: AbstractModel | None) -> None:
        recorded = trials.recordings.get(self.rates)
        if recorded is not None and not checks.is_traced(recorded):
            name = f"recordings[{self.rates!r}]"
            checks.check_non_negative(f"{name}.counts", recorded.counts)
            values = np.asarray(recorded.values)
            counted = values[np.broadcast_to(recorded.counts > 0, values.shape)]
            checks.check_finite(f"{name}.values", counted)
            self.check_recording(name, counted)

    def check_recording(self, name: str, counted: Float[np.ndarray, " number"]) -> None:  # noqa: B027
        """Raise `ValueError` if the numbers that count are not for this term; by default all are accepted."""

    def reference(self, trial: Trial) -> RecordedActivity:
        if self.rates not in trial.recordings:
            raise ValueError(
                f"`rates` of {self.name!r} must be one of the recordings of the trial, "
                f"{sorted(trial.recordings)}, got {self.rates!r}."
            )
        recorded = trial.recordings[self.rates]
        # What does not count may be NaN, which times zero is NaN.
        return RecordedActivity(jnp.where(recorded.counts > 0, recorded.values, 0.0), recorded.counts)

    def weigh(self, reference: RecordedActivity, step_weights: Float[Array, " time"]) -> Rates:
        n_units = reference.values.shape[-1]
        unit_weights = jnp.ones(n_units) if self.unit_weights is None else self.unit_weights
        if unit_weights.shape != (n_units,):
            raise ValueError(
                f"`unit_weights` of {self.name!r} must be one for each of {n_units} units, "
                f"got shape {unit_weights.shape}."
            )
        return reference.counts * step_weights[:, None] * unit_weights

    def sum_of_costs(
        self, states: Any, reference: RecordedActivity, weights: Rates, dt: float, model: AbstractModel
    ) -> Scalar:
        activity = self._activity(states, model, reference.values.shape[-1])
        if self.rate_fn is not None:
            # The rate of what does not count may overflow, and infinity times zero is NaN.
            activity = jnp.where(weights == 0, 0.0, activity)
        return jnp.sum(weights * self.cost(activity, reference.values, dt))

    def _activity(self, states: Any, model: AbstractModel, n_recorded: int) -> Rates:
        if self.of == "output":
            activity = states.network.output
        else:
            activity = activity_over_time(self.name, states, model, self.units)
        if activity.ndim != 2 or activity.shape[1] != n_recorded:
            raise ValueError(
                f"`units` of {self.name!r} must be as many as were recorded, {n_recorded}, such as "
                f"units=range({n_recorded}), got {activity.shape[1:]}."
            )
        return activity

    def rates_of(self, activity: Rates) -> Rates:
        """Return the rates of units from their activity, by `rate_fn`."""
        rates = activity if self.rate_fn is None else self.rate_fn(activity)
        if jnp.shape(rates) != activity.shape:
            raise ValueError(
                f"`rate_fn` of {self.name!r} must return what is of the shape of the activity, "
                f"{activity.shape}, got {checks.kind_of(rates)}."
            )
        return rates


class RateError(AbstractRateTerm):
    """Σ_ti c_ti (r_ti - r*_ti)² / Σ_ti c_ti: the mean squared error of the rates of units.

    r is the activity of the units, or what `rate_fn` makes of it, r* the recorded rates in the same unit and
    c their weights. So networks are made to reproduce recorded activity, as in Perich et al. 2020, bioRxiv
    2020.12.18.423348 (compared with the abstract only). Rates of very different sizes deserve `unit_weights`,
    such as one over their variance.
    """

    name: str = eqx.field(static=True, default="rate error", kw_only=True)

    def cost(self, activity, recorded, dt):
        return (self.rates_of(activity) - recorded) ** 2


class SpikeCountLikelihood(AbstractRateTerm):
    """Σ_ti c_ti (λ_ti - k_ti log λ_ti + log k_ti!) / Σ_ti c_ti, in nats: how improbable spike counts are.

    This is minus the log likelihood of a Poisson distribution, λ^k exp(-λ) / k!, for each time step and unit;
    up to log k! PyTorch's `PoissonNLLLoss(log_input=False)` (compared with `scipy.stats.poisson`). k are the
    recorded spike counts, whole numbers, and c their weights; λ = dt (max(r, 0) + baseline) is the expected
    number of spikes in a time step, for r, the activity of the units or what `rate_fn` makes of it, in
    spikes/s. With `rate_fn=jnp.exp` the rate may overflow where λ does not.

    **Arguments:**

    - `baseline`: the rate of a unit without activity, in spikes/s; above zero, as a unit that cannot fire
        makes a spike impossible.
    - `log_rates`: whether r is the logarithm of a rate in spikes/s, so that λ = dt exp(r) without a baseline.
    """

    name: str = eqx.field(static=True, default="spike count likelihood", kw_only=True)
    rates: str = eqx.field(static=True, default="spikes", kw_only=True)
    baseline: float = eqx.field(static=True, converter=plain_number, default=0.1, kw_only=True)
    log_rates: bool = eqx.field(static=True, default=False, kw_only=True)

    def __check_init__(self):
        checks.check_positive("baseline", self.baseline)

    def check_recording(self, name, counted):
        wrong = counted[(counted < 0) | (np.abs(counted - np.round(counted)) > 1e-3)]  # or of float32
        if wrong.size:
            raise ValueError(
                f"`{name}` must be spike counts for the term {self.name!r}, whole numbers from 0 on, "
                f"got {checks.short_repr(wrong[0])}."
            )

    def cost(self, activity, recorded, dt):
        if self.log_rates:
            log_expected = self.rates_of(activity) + math.log(dt)
            return jnp.exp(log_expected) - recorded * log_expected + gammaln(recorded + 1.0)
        if self.rate_fn not in (jnp.exp, jax.lax.exp):
            return self._cost(self.rates_of(activity), recorded, dt)
        # The rate overflows at activities at which λ does not. The baseline is lost in rounding there.
        is_large = activity > math.log(float(jnp.finfo(activity.dtype).max)) - 1
        log_expected = jnp.where(is_large, activity, 0.0) + math.log(dt)
        if_large = jnp.exp(log_expected) - recorded * log_expected + gammaln(recorded + 1.0)
        rates = self.rates_of(jnp.where(is_large, 0.0, activity))
        return jnp.where(is_large, if_large, self._cost(rates, recorded, dt))

    def _cost(self, rates: Rates, recorded: Rates, dt: float) -> Rates:
        expected = dt * (jax.nn.relu(rates) + self.baseline)
        return expected - recorded * jnp.log(expected) + gammaln(recorded + 1.0)
