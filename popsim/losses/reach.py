"""Losses on the hand and the cursor."""

from typing import Any, Literal

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from popsim._argument_shapes import check_fields
from popsim._checks import as_float_array, check_non_negative, kind_of
from popsim.hand import HandState
from popsim.loss import AbstractLossTerm
from popsim.losses.profiles import (
    AbstractDistance,
    AbstractSumOfSquares,
    AbstractTimeProfile,
    InWindow,
    PowerProfile,
    SquaredDistance,
    weighted_sum,
)
from popsim.model import AbstractModel
from popsim.states import LoopState
from popsim.trial import Trial, check_hand_targets
from popsim.windows import AbstractWindow

__all__ = [
    "PositionError",
    "VelocityError",
    "FinalPosition",
    "FinalVelocity",
    "FinalState",
    "Straightness",
    "Hold",
    "Acceleration",
    "Jerk",
]


def hand_acceleration(states: Any, trial: Trial) -> Float[Array, "time space"]:
    """Return (v_t - v_{t-1}) / dt of the hand, in m/s²; before the first step v is that of `trial.init`."""
    check_hand(states, trial)
    velocity = jnp.concatenate([trial.init.velocity[None], states.hand.velocity])
    return jnp.diff(velocity, axis=0) / trial.timeline.dt


def hand_jerk(states: Any, trial: Trial) -> Float[Array, "time space"]:
    """Return (a_t - a_{t-1}) / dt of the hand, in m/s³; before the first step a is zero."""
    acceleration = hand_acceleration(states, trial)
    before = jnp.concatenate([jnp.zeros_like(acceleration[:1]), acceleration[:-1]])
    return (acceleration - before) / trial.timeline.dt


def check_hand(states: Any, trial: Trial) -> None:
    """Raise `ValueError` unless `states` has a hand and `trial.init` is a `HandState` of its shape."""
    if not isinstance(getattr(states, "hand", None), HandState):
        raise ValueError(f"`states` must be those of a body with a hand, got {kind_of(states)}.")
    if not isinstance(trial.init, HandState):
        raise ValueError(f"`init` of a trial must be a HandState, got {kind_of(trial.init)}.")
    for name in ("position", "velocity"):
        shape, expected = getattr(trial.init, name).shape, getattr(states.hand, name).shape[1:]
        if shape != expected:
            raise ValueError(f"`init.{name}` of a trial must have the shape {expected}, got {shape}.")


def away_from_target(states: LoopState, trial: Trial, part: str) -> Float[Array, "time space"]:
    """Return the "position" or the "velocity" of the cursor minus that of the target."""
    check_hand_targets(trial, states.cursor)
    return getattr(states.cursor, part) - getattr(trial.targets, part)


class PositionError(AbstractLossTerm):
    """Sum over time of w_t |cursor_t - target_t|², in m².

    **Arguments:**

    - `distance`: replaces |·|²: `SquaredDistance`, `EuclideanDistance`, `L1Distance` (both in m), or
        `HuberDistance(delta)`, with delta in m.
    - `profile`: w, the weights of the time steps.
    """

    distance: AbstractDistance = eqx.field(default=SquaredDistance(), kw_only=True)
    profile: AbstractTimeProfile = eqx.field(default=PowerProfile(), kw_only=True)
    name: str = eqx.field(static=True, default="position error", kw_only=True)

    def __call__(self, states: LoopState, trial: Trial, model: AbstractModel) -> Float[Array, ""]:
        error = self.distance(away_from_target(states, trial, "position"))
        return weighted_sum(self.profile, trial.timeline, error, self.distance)


class VelocityError(AbstractLossTerm):
    """Sum over time of w_t |v_cursor,t - v_target,t|², in m²/s².

    **Arguments:**

    - `distance`: replaces |·|², as for `PositionError`.
    - `profile`: w, the weights of the time steps.
    """

    distance: AbstractDistance = eqx.field(default=SquaredDistance(), kw_only=True)
    profile: AbstractTimeProfile = eqx.field(default=PowerProfile(), kw_only=True)
    name: str = eqx.field(static=True, default="velocity error", kw_only=True)

    def __call__(self, states: LoopState, trial: Trial, model: AbstractModel) -> Float[Array, ""]:
        error = self.distance(away_from_target(states, trial, "velocity"))
        return weighted_sum(self.profile, trial.timeline, error, self.distance)


class FinalPosition(AbstractLossTerm):
    """|cursor - target|² at the last time step, in m².

    **Arguments:**

    - `distance`: replaces |·|², as for `PositionError`.
    """

    distance: AbstractDistance = eqx.field(default=SquaredDistance(), kw_only=True)
    name: str = eqx.field(static=True, default="final position", kw_only=True)

    def __call__(self, states: LoopState, trial: Trial, model: AbstractModel) -> Float[Array, ""]:
        check_hand_targets(trial, states.cursor)
        return self.distance(states.cursor.position[-1] - trial.targets.position[-1])


class FinalVelocity(AbstractLossTerm):
    """|v_cursor - v_target|² at the last time step, in m²/s².

    **Arguments:**

    - `distance`: replaces |·|², as for `PositionError`.
    """

    distance: AbstractDistance = eqx.field(default=SquaredDistance(), kw_only=True)
    name: str = eqx.field(static=True, default="final velocity", kw_only=True)

    def __call__(self, states: LoopState, trial: Trial, model: AbstractModel) -> Float[Array, ""]:
        check_hand_targets(trial, states.cursor)
        return self.distance(states.cursor.velocity[-1] - trial.targets.velocity[-1])


class FinalState(AbstractLossTerm):
    """|x_cursor - x_target|² + (τ |v_cursor - v_target|)² at the last time step, in m².

    The terminal cost of reaches in optimal feedback control (Todorov 2005, Neural Comput 17:1084-1108, where
    τ is 0.2 s, checked against a public reimplementation). The original has a force term, omitted here.

    **Arguments:**

    - `velocity_time`: τ, in s. A velocity counts like the distance covered in this time.
    """

    velocity_time: Float[Array, ""] = eqx.field(converter=as_float_array, default=0.2, kw_only=True)
    name: str = eqx.field(static=True, default="final state", kw_only=True)

    def __check_init__(self):
        check_fields(self)
        check_non_negative("velocity_time", self.velocity_time)

    def __call__(self, states: LoopState, trial: Trial, model: AbstractModel) -> Float[Array, ""]:
        check_hand_targets(trial, states.cursor)
        away = states.cursor.position[-1] - trial.targets.position[-1]
        covered = self.velocity_time * (states.cursor.velocity[-1] - trial.targets.velocity[-1])
        return jnp.sum(away**2) + jnp.sum(covered**2)


class Straightness(AbstractLossTerm):
    """Sum over time of w_t |d_t|², in m², with d_t from the start-target line to the cursor, at right angles.

    The line is infinite, through the start of the trial and the target at its last time step. If these
    coincide, as in a catch trial whose target is the start, the term is zero.

    **Arguments:**

    - `distance`: replaces |·|², as for `PositionError`.
    - `profile`: w, the weights of the time steps; uniform by default.
    """

    distance: AbstractDistance = eqx.field(default=SquaredDistance(), kw_only=True)
    profile: AbstractTimeProfile = eqx.field(default=InWindow(), kw_only=True)
    name: str = eqx.field(static=True, default="straightness", kw_only=True)

    def __call__(self, states: LoopState, trial: Trial, model: AbstractModel) -> Float[Array, ""]:
        check_hand(states, trial)
        check_hand_targets(trial, states.cursor)
        line = trial.targets.position[-1] - trial.init.position
        squared_length = jnp.sum(line**2)
        is_point = squared_length == 0
        along = line / jnp.sqrt(jnp.where(is_point, 1.0, squared_length))
        moved = states.cursor.position - trial.init.position
        perpendicular = moved - jnp.sum(moved * along, axis=-1, keepdims=True) * along
        away = self.distance(jnp.where(is_point, 0.0, perpendicular))
        return weighted_sum(self.profile, trial.timeline, away, self.distance)


Place = Literal["start", "target"]


class Hold(AbstractLossTerm):
    """Sum over a window of |cursor_t - place|², in m²; zero where the window is empty.

    **Arguments:**

    - `window`: when the cursor should stay, such as `Before("go cue")`.
    - `place`: "start", the start of the trial, or "target", the target at each time step.
    - `distance`: replaces |·|², as for `PositionError`.
    """

    window: AbstractWindow
    place: Place = eqx.field(static=True, default="start")
    distance: AbstractDistance = eqx.field(default=SquaredDistance(), kw_only=True)
    name: str = eqx.field(static=True, default="hold", kw_only=True)

    def __check_init__(self):
        if self.place not in ("start", "target"):
            raise ValueError(f'`place` must be "start" or "target", got {self.place!r}.')

    def __call__(self, states: LoopState, trial: Trial, model: AbstractModel) -> Float[Array, ""]:
        place = self._place(states, trial)
        away = self.distance(states.cursor.position - place)
        return weighted_sum(InWindow(self.window), trial.timeline, away, self.distance)

    def _place(self, states: LoopState, trial: Trial) -> Float[Array, "*time space"]:
        if self.place == "start":
            check_hand(states, trial)
            return trial.init.position
        check_hand_targets(trial, states.cursor)
        return trial.targets.position


class Acceleration(AbstractSumOfSquares):
    """Sum over time of w_t |a_t|², in m²/s⁴, with a_t = (v_t - v_{t-1}) / dt of the hand.

    Before the first time step v is that of `trial.init`.
    """

    name: str = eqx.field(static=True, default="acceleration", kw_only=True)

    def signal(self, states: Any, trial: Trial, model: AbstractModel) -> Float[Array, "time features"]:
        return hand_acceleration(states, trial)


class Jerk(AbstractSumOfSquares):
    """Sum over time of w_t |j_t|², in m²/s⁶, with j_t = (a_t - a_{t-1}) / dt of the hand.

    The acceleration a_t is that of `Acceleration`, and zero before the first step. Times dt / 2 this is the
    cost of minimum-jerk movements, ½ ∫ |j|² dt (Flash & Hogan 1985, J Neurosci 5:1688-1703; also Shadmehr &
    Wise 2005, The Computational Neurobiology of Reaching and Pointing, on minimum jerk).
    """

    name: str = eqx.field(static=True, default="jerk", kw_only=True)

    def signal(self, states: Any, trial: Trial, model: AbstractModel) -> Float[Array, "time features"]:
        return hand_jerk(states, trial)
