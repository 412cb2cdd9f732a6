"""Weights of time steps, distances, and sums of squares over time."""

import abc
import functools
import operator
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from popsim._shared.argument_shapes import check_fields
from popsim._shared.checks import as_float_array, check_non_negative, check_positive, n_steps_in
from popsim._shared.plain_values import plain_number
from popsim.interaction import active_steps
from popsim.loss import AbstractLossTerm
from popsim.model import AbstractModel
from popsim.trial import Trial, TrialAtStep
from popsim.windows import AbstractWindow, InEpoch, Timeline, WholeTrial

__all__ = [
    "AbstractDistance",
    "SquaredDistance",
    "EuclideanDistance",
    "L1Distance",
    "HuberDistance",
    "AbstractTimeProfile",
    "InWindow",
    "PowerProfile",
    "LateInEpochs",
    "FinalStep",
    "FinalSteps",
]

Scalar = Float[Array, ""]
TimeCourse = Float[Array, " time"]


class AbstractDistance(eqx.Module):
    """A distance between two points, as a function of their difference. A subclass supplies `__call__`.

    It must be zero where the points coincide, and have finite gradients everywhere, there too.

    !!! example

        ```python
        >>> import jax.numpy as jnp, popsim
        >>> class LargestCoordinate(popsim.losses.AbstractDistance):
        ...     def __call__(self, difference):
        ...         return jnp.max(jnp.abs(difference), axis=-1)
        >>> term = popsim.losses.PositionError(distance=LargestCoordinate())
        >>> float(term.distance(jnp.array([3.0, -4.0])))
        4.0

        ```
    """

    @abc.abstractmethod
    def __call__(self, difference: Float[Array, "*axes coordinates"]) -> Float[Array, "*axes"]:
        """Return the distance, given the difference of the coordinates on the last axis."""


class SquaredDistance(AbstractDistance):
    """|d|², the sum of the squared coordinates, in the unit of d squared."""

    def __call__(self, difference: Float[Array, "*axes coordinates"]) -> Float[Array, "*axes"]:
        return jnp.sum(difference**2, axis=-1)


class EuclideanDistance(AbstractDistance):
    """|d|, the length of d, in its unit. The gradient at d = 0 is defined as zero."""

    def __call__(self, difference: Float[Array, "*axes coordinates"]) -> Float[Array, "*axes"]:
        return _length(difference)


class L1Distance(AbstractDistance):
    """Σ |d_i|, in the unit of d. The gradient at d_i = 0 is defined as zero."""

    def __call__(self, difference: Float[Array, "*axes coordinates"]) -> Float[Array, "*axes"]:
        return jnp.sum(difference * jnp.sign(difference), axis=-1)  # JAX's gradient of abs at 0 is 1


class HuberDistance(AbstractDistance):
    """|d|² / 2 for |d| up to `delta`, and `delta` (|d| - `delta` / 2) beyond, in the unit of d squared.

    The length of the gradient is at most `delta`. Huber 1964, Ann Math Stat 35:73-101, as in the R package
    extraDistr, but of the length of d, so that all directions are equivalent.

    **Arguments:**

    - `delta`: in the unit of d.
    """

    delta: Float[Array, ""] = eqx.field(converter=as_float_array)

    def __check_init__(self):
        check_fields(self)
        check_positive("delta", self.delta)

    def __call__(self, difference: Float[Array, "*axes coordinates"]) -> Float[Array, "*axes"]:
        length = _length(difference)
        bent = jnp.minimum(length, self.delta)
        return bent * (length - bent / 2)


def _length(difference: Float[Array, "*axes coordinates"]) -> Float[Array, "*axes"]:
    squared = jnp.sum(difference**2, axis=-1)
    is_zero = squared == 0
    return jnp.where(is_zero, 0.0, jnp.sqrt(jnp.where(is_zero, 1.0, squared)))


class AbstractTimeProfile(eqx.Module):
    """A function from a timeline to the weights of its time steps. A subclass supplies `__call__`.

    !!! example

        ```python
        >>> import jax.numpy as jnp, popsim
        >>> class Early(popsim.losses.AbstractTimeProfile):
        ...     def __call__(self, timeline):
        ...         return 0.5 ** jnp.arange(timeline.n_steps)
        >>> Early()(popsim.Timeline(dt=0.01, n_steps=4)).tolist()
        [1.0, 0.5, 0.25, 0.125]

        ```
    """

    def __check_init__(self):
        check_fields(self)

    @abc.abstractmethod
    def __call__(self, timeline: Timeline) -> TimeCourse:
        """Return the weights of the time steps of a trial; they may all be zero."""


class InWindow(AbstractTimeProfile):
    """Weight 1 within a window (by default the whole trial), 0 elsewhere."""

    window: AbstractWindow = WholeTrial()

    def __call__(self, timeline: Timeline) -> TimeCourse:
        return self.window(timeline).astype(float)


class PowerProfile(AbstractTimeProfile):
    """Weights (t / T)^exponent for t = 1 … T: late errors count most, because they cannot be corrected.

    **Arguments:**

    - `exponent`: 0 for uniform weights.
    - `window`: t runs from 1 at its first time step to T at its last one. Steps outside have weight zero, and
        so do all steps if it is empty, as after the go cue of a catch trial.
    """

    exponent: float = eqx.field(static=True, converter=plain_number, default=6.0)
    window: AbstractWindow = eqx.field(default=WholeTrial(), kw_only=True)

    def __check_init__(self):
        check_non_negative("exponent", self.exponent)

    def __call__(self, timeline: Timeline) -> TimeCourse:
        n_steps = timeline.n_steps
        if isinstance(self.window, WholeTrial):  # known when compiled: no division at run time
            return jnp.linspace(1 / n_steps, 1.0, n_steps) ** self.exponent
        inside = self.window(timeline)
        steps = jnp.arange(n_steps)
        first = jnp.argmax(inside)
        last = jnp.max(jnp.where(inside, steps, first))
        fraction = (steps - first + 1).astype(float) / (last - first + 1).astype(float)
        return jnp.where(inside, jnp.where(inside, fraction, 1.0) ** self.exponent, 0.0)


class LateInEpochs(AbstractTimeProfile):
    """Weights (t / T)^exponent for t = 1 … T in each epoch whose name begins with `prefix`; zero elsewhere.

    This is the sum of a `PowerProfile` per epoch, with T the length of that epoch. Epochs that are empty in a
    trial have no weight.

    **Arguments:**

    - `prefix`: the start of the names: "reach" for "reach 1" and "reach 2".
    - `exponent`: 0 for uniform weights.
    """

    prefix: str = eqx.field(static=True)
    exponent: float = eqx.field(static=True, converter=plain_number, default=6.0)

    def __check_init__(self):
        check_non_negative("exponent", self.exponent)

    def __call__(self, timeline: Timeline) -> TimeCourse:
        named = [name for name in timeline.epochs if name.startswith(self.prefix)]
        if not named:
            raise ValueError(
                f"`prefix` must begin the name of one of the epochs {sorted(timeline.epochs)}, "
                f"got {self.prefix!r}."
            )
        profiles = [PowerProfile(self.exponent, window=InEpoch(name)) for name in named]
        return functools.reduce(operator.add, (profile(timeline) for profile in profiles))


class FinalStep(AbstractTimeProfile):
    """Weight 1 at the last time step, 0 before."""

    def __call__(self, timeline: Timeline) -> TimeCourse:
        return jnp.zeros(timeline.n_steps).at[-1].set(1.0)


class FinalSteps(AbstractTimeProfile):
    """Weight 1 in the last `duration` seconds of the trial, 0 before."""

    duration: float = eqx.field(static=True, converter=plain_number)

    def __check_init__(self):
        check_positive("duration", self.duration)

    def __call__(self, timeline: Timeline) -> TimeCourse:
        n_steps = n_steps_in("duration", self.duration, timeline.dt)
        if n_steps > timeline.n_steps:
            raise ValueError(
                f"`duration` of FinalSteps must not exceed that of the trial, "
                f"{timeline.n_steps * timeline.dt:.4g} s, got {self.duration} s."
            )
        return (jnp.arange(timeline.n_steps) >= timeline.n_steps - n_steps).astype(float)


def step_weights(
    profile: AbstractTimeProfile, timeline: Timeline, is_active: Bool[Array, "*time"] | None
) -> TimeCourse:
    """Return the weights of the time steps of a trial, zero where `active_steps` says that it has ended."""
    weights = profile(timeline)
    if jnp.shape(weights) != (timeline.n_steps,):
        raise ValueError(
            f"`profile` must give a weight for each of {timeline.n_steps} time steps, "
            f"got shape {jnp.shape(weights)} from {type(profile).__name__}."
        )
    return weights if is_active is None else jnp.where(is_active, weights, 0.0)


def weight_of_step(profile: AbstractTimeProfile, trial_at_step: TrialAtStep, state: Any) -> Scalar:
    """Return the weight of a time step, after which the model is in `state`."""
    weights = step_weights(profile, trial_at_step.trial.timeline, active_steps(state))
    return weights[trial_at_step.step]


def with_time_axis(at_step: PyTree[Array]) -> PyTree[Array]:
    """Return what belongs to one time step with a leading time axis of length one."""
    return jax.tree.map(lambda leaf: leaf[None], at_step)


class AbstractSumOfSquares(AbstractLossTerm):
    """Sum over time of w_t |x_t|², of the signal x that a subclass returns.

    - `looks_back`: whether x_t depends on earlier steps, so that a step by itself has no cost.

    **Arguments:**

    - `profile`: w, the weights of the time steps; uniform by default.
    """

    looks_back: ClassVar[bool] = False
    profile: AbstractTimeProfile = eqx.field(default=InWindow(), kw_only=True)

    @abc.abstractmethod
    def signal(self, states: Any, trial: Trial, model: AbstractModel) -> Float[Array, "time features"]:
        """Return x; arguments as for a loss term."""

    def __call__(self, states: Any, trial: Trial, model: AbstractModel) -> Scalar:
        squared = self.signal(states, trial, model) ** 2
        weights = step_weights(self.profile, trial.timeline, active_steps(states))
        return jnp.sum(weights[:, None] * squared)

    def step_cost(self, state: Any, trial_at_step: TrialAtStep, model: AbstractModel) -> Scalar | None:
        if self.looks_back:
            return None
        (signal,) = self.signal(with_time_axis(state), trial_at_step.trial, model)
        return weight_of_step(self.profile, trial_at_step, state) * jnp.sum(signal**2)


class AbstractWeightedMean(AbstractLossTerm):
    """Σ c x / Σ c over time steps, of the cost x that a subclass sums; zero if nothing counts.

    c are the weights that belong to a reference, such as a target, times the `profile`.

    **Arguments:**

    - `profile`: weights of the time steps that multiply c; uniform by default.
    - `total`: what divides Σ c x in place of Σ c, such as the mean of Σ c over all trials, with which each
        time step counts as much as any other, in short trials and in long ones. A `tasks.StoredTrials` sets
        it by its `normalise`.
    """

    profile: AbstractTimeProfile = eqx.field(default=InWindow(), kw_only=True)
    total: Float[Array, ""] | None = eqx.field(converter=as_float_array, default=None, kw_only=True)

    @abc.abstractmethod
    def reference(self, trial: Trial) -> Any:
        """Return what costs compare with, and its weights: arrays that lead with time."""

    @abc.abstractmethod
    def weigh(self, reference: Any, step_weights: TimeCourse) -> Float[Array, "time ..."]:
        """Return c, given the weights of the time steps."""

    @abc.abstractmethod
    def sum_of_costs(
        self, states: Any, reference: Any, weights: Float[Array, "time ..."], dt: float, model: AbstractModel
    ) -> Scalar:
        """Return Σ c x over some time steps, of which these are the states, the reference and c."""

    def __call__(self, states: Any, trial: Trial, model: AbstractModel) -> Scalar:
        reference = self.reference(trial)
        weights, total = self._weights(trial, reference, active_steps(states))
        return self.sum_of_costs(states, reference, weights, trial.timeline.dt, model) / total

    def step_cost(self, state: Any, trial_at_step: TrialAtStep, model: AbstractModel) -> Scalar | None:
        if active_steps(state) is not None:
            return None  # an environment may end the trial at any step, on which Σ c depends
        trial, step = trial_at_step.trial, trial_at_step.step
        reference = self.reference(trial)
        weights, total = self._weights(trial, reference, None)
        reference, weights = jax.tree.map(lambda leaf: leaf[step][None], (reference, weights))
        return self.sum_of_costs(with_time_axis(state), reference, weights, trial.timeline.dt, model) / total

    def trial_weights(self, trials: Trial) -> Float[Array, " trial"]:
        return jax.vmap(lambda trial: jnp.sum(self._weights(trial, self.reference(trial), None)[0]))(trials)

    def _weights(
        self, trial: Trial, reference: Any, is_active: Bool[Array, " time"] | None
    ) -> tuple[Float[Array, "time ..."], Scalar]:
        """Return c, and what divides: its sum, unless another total is given, or 1 if nothing counts."""
        weights = self.weigh(reference, step_weights(self.profile, trial.timeline, is_active))
        total = jnp.sum(weights) if self.total is None else self.total
        return weights, jnp.where(total == 0, 1.0, total)
