"""Losses on the hand and the cursor, and on obstacles in their way."""

import abc
from collections.abc import Mapping
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from popsim._shared.checks import as_float_array, check_instance, check_non_negative
from popsim.hand import HandState
from popsim.interaction import active_steps, last_active_step
from popsim.loss import AbstractLossTerm
from popsim.losses.profiles import (
    AbstractDistance,
    AbstractSumOfSquares,
    AbstractTimeProfile,
    EuclideanDistance,
    InWindow,
    PowerProfile,
    Scalar,
    SquaredDistance,
    step_weights,
    weight_of_step,
    with_time_axis,
)
from popsim.model import AbstractModel
from popsim.states import LoopState
from popsim.trial import Trial, TrialAtStep, check_hand_targets
from popsim.windows import AbstractWindow

__all__ = [
    "PositionError",
    "VelocityError",
    "FinalPosition",
    "FinalVelocity",
    "FinalState",
    "Straightness",
    "Hold",
    "ObstacleEntry",
    "Acceleration",
    "Jerk",
]


def hand_acceleration(states: Any, trial: Trial) -> Float[Array, "time space"]:
    """Return (v_t - v_{t-1}) / dt of the hand, in m/s²; before the first step v is that of `trial.init`."""
    check_hand(states, trial)
    velocity = jnp.concatenate([trial.init.velocity[None], states.hand.velocity])
    return jnp.diff(velocity, axis=0) / trial.timeline.dt


def check_hand(states: Any, trial: Trial) -> None:
    """Raise `ValueError` unless `trial.init` is a `HandState` of the shape of the hand of `states`."""
    for name in ("position", "velocity"):
        shape, expected = getattr(trial.init, name).shape, getattr(states.hand, name).shape[1:]
        if shape != expected:
            raise ValueError(f"`init.{name}` of a trial must have the shape {expected}, got {shape}.")


def targets_of(states: Any, targets: Any) -> Any:
    """Return the targets of the hand: those of the environment, if it records "target", else of the trial."""
    interaction = getattr(states, "interaction", None)
    record = None if interaction is None else interaction.record
    return record["target"] if isinstance(record, Mapping) and "target" in record else targets


def offset_from_target(cursor: HandState, targets: Any, part: str) -> Float[Array, "time space"]:
    """Return the "position" or the "velocity" of the cursor minus that of the target."""
    check_hand_targets(targets, cursor)
    return getattr(cursor, part) - getattr(targets, part)


class AbstractSumOfDistances(AbstractLossTerm):
    """Sum over time of w_t |d_t|², w the `profile`, d the difference, and `distance` in place of |·|²."""

    distance: AbstractDistance = eqx.field(default=SquaredDistance(), kw_only=True)

    def time_profile(self) -> AbstractTimeProfile:
        """Return w, by default the field `profile` of a subclass."""
        return self.profile  # pyright: ignore[reportAttributeAccessIssue]

    @abc.abstractmethod
    def difference(self, states: LoopState, targets: Any, trial: Trial) -> Float[Array, "time space"]:
        """Return d at some time steps, whose states and targets these are."""

    def __call__(self, states: LoopState, trial: Trial, model: AbstractModel) -> Scalar:
        distances = self.distance(self.difference(states, targets_of(states, trial.targets), trial))
        weights = step_weights(self.time_profile(), trial.timeline, active_steps(states))
        if jnp.shape(distances) != weights.shape:
            raise ValueError(
                f"`distance` must make one number of the last axis, {weights.shape} in all, "
                f"got shape {jnp.shape(distances)} from {type(self.distance).__name__}."
            )
        return jnp.sum(weights * distances)

    def step_cost(self, state: LoopState, trial_at_step: TrialAtStep, model: AbstractModel) -> Scalar:
        states, targets = with_time_axis((state, targets_of(state, trial_at_step.targets)))
        (distance,) = self.distance(self.difference(states, targets, trial_at_step.trial))
        return weight_of_step(self.time_profile(), trial_at_step, state) * distance


class AbstractFinalTerm(AbstractLossTerm):
    """The cost, which a subclass returns, of cursor and target at the last time step.

    In a trial that its environment ends this is the step at which it does.
    """

    @abc.abstractmethod
    def cost(self, cursor: HandState, target: HandState) -> Scalar:
        """Return the cost."""

    def __call__(self, states: LoopState, trial: Trial, model: AbstractModel) -> Scalar:
        targets, last = targets_of(states, trial.targets), last_active_step(states)
        check_hand_targets(targets, states.cursor)
        return self.cost(*jax.tree.map(lambda leaf: leaf[last], (states.cursor, targets)))

    def step_cost(self, state: LoopState, trial_at_step: TrialAtStep, model: AbstractModel) -> Scalar | None:
        if active_steps(state) is not None:
            return None  # an environment may end the trial at any step
        check_hand_targets(trial_at_step.targets, state.cursor)
        is_last = trial_at_step.step == trial_at_step.trial.timeline.n_steps - 1
        return jnp.where(is_last, self.cost(state.cursor, trial_at_step.targets), 0.0)


class PositionError(AbstractSumOfDistances):
    """Sum over time of w_t |cursor_t - target_t|², in m².

    **Arguments:**

    - `distance`: replaces |·|²: `SquaredDistance`, `EuclideanDistance`, `L1Distance` (both in m), or
        `HuberDistance(delta)`, with delta in m.
    - `profile`: w, the weights of the time steps.
    """

    profile: AbstractTimeProfile = eqx.field(default=PowerProfile(), kw_only=True)
    name: str = eqx.field(static=True, default="position error", kw_only=True)

    def difference(self, states: LoopState, targets: Any, trial: Trial) -> Float[Array, "time space"]:
        return offset_from_target(states.cursor, targets, "position")


class VelocityError(AbstractSumOfDistances):
    """Sum over time of w_t |v_cursor,t - v_target,t|², in m²/s².

    **Arguments:**

    - `distance`: replaces |·|², as for `PositionError`.
    - `profile`: w, the weights of the time steps.
    """

    profile: AbstractTimeProfile = eqx.field(default=PowerProfile(), kw_only=True)
    name: str = eqx.field(static=True, default="velocity error", kw_only=True)

    def difference(self, states: LoopState, targets: Any, trial: Trial) -> Float[Array, "time space"]:
        return offset_from_target(states.cursor, targets, "velocity")


class FinalPosition(AbstractFinalTerm):
    """|cursor - target|² at the last time step, in m².

    **Arguments:**

    - `distance`: replaces |·|², as for `PositionError`.
    """

    distance: AbstractDistance = eqx.field(default=SquaredDistance(), kw_only=True)
    name: str = eqx.field(static=True, default="final position", kw_only=True)

    def cost(self, cursor: HandState, target: HandState) -> Scalar:
        return self.distance(cursor.position - target.position)


class FinalVelocity(AbstractFinalTerm):
    """|v_cursor - v_target|² at the last time step, in m²/s².

    **Arguments:**

    - `distance`: replaces |·|², as for `PositionError`.
    """

    distance: AbstractDistance = eqx.field(default=SquaredDistance(), kw_only=True)
    name: str = eqx.field(static=True, default="final velocity", kw_only=True)

    def cost(self, cursor: HandState, target: HandState) -> Scalar:
        return self.distance(cursor.velocity - target.velocity)


class FinalState(AbstractFinalTerm):
    """|x_cursor - x_target|² + (τ |v_cursor - v_target|)² at the last time step, in m².

    The terminal cost of reaches in optimal feedback control (Todorov 2005, Neural Comput 17:1084-1108, where
    τ is 0.2 s, checked against a public reimplementation). The original has a force term, omitted here.

    **Arguments:**

    - `velocity_time`: τ, in s. A velocity counts like the distance covered in this time.
    """

    velocity_time: Float[Array, ""] = eqx.field(converter=as_float_array, default=0.2, kw_only=True)
    name: str = eqx.field(static=True, default="final state", kw_only=True)

    def __check_init__(self):
        check_non_negative("velocity_time", self.velocity_time)

    def cost(self, cursor: HandState, target: HandState) -> Scalar:
        offset = cursor.position - target.position
        covered = self.velocity_time * (cursor.velocity - target.velocity)
        return jnp.sum(offset**2) + jnp.sum(covered**2)


class Straightness(AbstractSumOfDistances):
    """Sum over time of w_t |d_t|², in m², with d_t from the start-target line to the cursor, at right angles.

    The line is infinite, through the start of the trial and the target at its last time step. If these
    coincide, as in a catch trial whose target is the start, the term is zero.

    **Arguments:**

    - `distance`: replaces |·|², as for `PositionError`.
    - `profile`: w, the weights of the time steps; uniform by default.
    """

    profile: AbstractTimeProfile = eqx.field(default=InWindow(), kw_only=True)
    name: str = eqx.field(static=True, default="straightness", kw_only=True)

    def difference(self, states: LoopState, targets: Any, trial: Trial) -> Float[Array, "time space"]:
        check_hand(states, trial)
        check_hand_targets(targets, states.cursor)
        check_instance("targets", trial.targets, HandState, "a HandState, whose last position ends the line")
        line = trial.targets.position[-1] - trial.init.position
        squared_length = jnp.sum(line**2)
        is_point = squared_length == 0
        direction = line / jnp.sqrt(jnp.where(is_point, 1.0, squared_length))
        moved = states.cursor.position - trial.init.position
        perpendicular = moved - jnp.sum(moved * direction, axis=-1, keepdims=True) * direction
        return jnp.where(is_point, 0.0, perpendicular)


HoldTarget = Literal["start", "target"]


class Hold(AbstractSumOfDistances):
    """Sum over a window of |cursor_t - place|², in m²; zero where the window is empty.

    **Arguments:**

    - `window`: when the cursor should stay, such as `Before("go cue")`.
    - `place`: "start", the start of the trial, or "target", the target at each time step.
    - `distance`: replaces |·|², as for `PositionError`.
    """

    window: AbstractWindow
    place: HoldTarget = eqx.field(static=True, default="start")
    name: str = eqx.field(static=True, default="hold", kw_only=True)

    def time_profile(self) -> InWindow:
        return InWindow(self.window)

    def difference(self, states: LoopState, targets: Any, trial: Trial) -> Float[Array, "time space"]:
        if self.place == "start":
            check_hand(states, trial)
            return states.cursor.position - trial.init.position
        return offset_from_target(states.cursor, targets, "position")


class Acceleration(AbstractSumOfSquares):
    """Sum over time of w_t |a_t|², in m²/s⁴, with a_t = (v_t - v_{t-1}) / dt of the hand.

    Before the first time step v is that of `trial.init`.
    """

    looks_back = True
    name: str = eqx.field(static=True, default="acceleration", kw_only=True)

    def signal(self, states: Any, trial: Trial, model: AbstractModel) -> Float[Array, "time features"]:
        return hand_acceleration(states, trial)


class Jerk(AbstractSumOfSquares):
    """Sum over time of w_t |j_t|², in m²/s⁶, with j_t = (a_t - a_{t-1}) / dt of the hand.

    The acceleration a_t is that of `Acceleration`, and zero before the first step. Times dt / 2 this is the
    cost of minimum-jerk movements, ½ ∫ |j|² dt (Flash & Hogan 1985, J Neurosci 5:1688-1703; also Shadmehr &
    Wise 2005, The Computational Neurobiology of Reaching and Pointing, on minimum jerk).
    """

    looks_back = True
    name: str = eqx.field(static=True, default="jerk", kw_only=True)

    def signal(self, states: Any, trial: Trial, model: AbstractModel) -> Float[Array, "time features"]:
        acceleration = hand_acceleration(states, trial)
        previous = jnp.concatenate([jnp.zeros_like(acceleration[:1]), acceleration[:-1]])
        return (acceleration - previous) / trial.timeline.dt


class ObstacleEntry(AbstractSumOfSquares):
    """Sum over time of w_t max(0, R + m - |x_t - c|)², in m²: how deep the cursor is in a round obstacle.

    x is the cursor, c and R the centre and the radius of the obstacle, m the margin. The trial shows them in
    the inputs "obstacle" and "obstacle radius" (m); an obstacle does not move, and has radius 0 where there
    is none. Between time steps the cursor is not seen.

    **Arguments:**

    - `margin`: m, how far from the obstacle the cursor should stay, in m.
    - `profile`: w, the weights of the time steps; uniform by default.
    """

    margin: Float[Array, ""] = eqx.field(converter=as_float_array, default=0.0, kw_only=True)
    name: str = eqx.field(static=True, default="obstacle entry", kw_only=True)

    def __check_init__(self):
        check_non_negative("margin", self.margin)

    def signal(self, states: Any, trial: Trial, model: AbstractModel) -> Float[Array, "time 1"]:
        check_hand(states, trial)
        clearance = clearance_at(states.cursor.position, trial)
        return jnp.maximum(0.0, self.margin - clearance)[:, None]


def clearance_at(
    position: Float[Array | np.ndarray, "*axes time space"], trial: Trial
) -> Float[Array, "*axes time"]:
    """Return how far each position is from the edge of the obstacle, in m; infinite where there is none."""
    center, radius = (trial.inputs[name][..., :1, :] for name in ("obstacle", "obstacle radius"))
    distance = EuclideanDistance()(position - center)
    return jnp.where(radius[..., 0] > 0, distance - radius[..., 0], jnp.inf)
