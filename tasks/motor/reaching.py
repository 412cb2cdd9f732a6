"""Reaches to one target, perhaps after a delay or around an obstacle."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from popsim.loss import Loss
from popsim.losses import EuclideanDistance, Hold, ObstacleEntry, PositionError, PowerProfile
from popsim.losses.reach import clearance_at
from popsim.randomness import key_stream
from popsim.tasks import _fields as fields
from popsim.tasks import trial_parts as parts
from popsim.tasks._fields import FINITE, POSITIVE, Drawn, Scalar
from popsim.trial import Trial
from popsim.trial_plan import TrialPlan
from popsim.windows import Before, InEpoch, Timeline

__all__ = [
    "RandomReaches",
    "CenterOutReaches",
    "delayed_reach_loss",
    "DelayedReaches",
    "obstacle_reach_loss",
    "ObstacleAvoidance",
    "obstacle_clearance",
    "shortest_path_length",
]


class RandomReaches(parts.AbstractFixedReach):
    """Reaches between two points drawn uniformly from a workspace.

    The validation trials are reaches from the centre in eight directions.
    """

    loss: Loss = fields.default_loss(default_factory=parts.reach_loss)
    duration: float = fields.trial_duration(default=1.0)
    validation_distance: float = fields.fixed(parts.VALIDATION_DISTANCE, default=0.1)

    def trial(self, *, batch: int | Int[Array, ""], key: Key[Array, ""]) -> Trial:
        start = self.workspace.sample(key=key_stream(key, "start"))
        target = self.workspace.sample(key=key_stream(key, "target"))
        return parts.reach_trial(start, target, n_steps=self.n_steps, dt=self.dt)

    def validation_trials(self) -> Trial:
        center, options = self.workspace.center, {"n_steps": self.n_steps, "dt": self.dt}
        distance = self.validation_distance
        return parts.center_out_trials(center, distance=distance, n_directions=8, **options)


class CenterOutReaches(parts.AbstractFixedReach):
    """Reaches from the centre of a workspace to targets on a circle around it.

    Training targets are drawn from `n_directions` evenly spaced directions, or from the whole circle if
    None. The validation trials are one reach in each direction (eight if None).
    """

    loss: Loss = fields.default_loss(default_factory=parts.reach_loss)
    distance: float = fields.fixed("the distance from centre to target, in m", default=0.1)
    n_directions: int | None = fields.directions("targets", default=8)
    duration: float = fields.trial_duration(default=1.0)

    def trial(self, *, batch: int | Int[Array, ""], key: Key[Array, ""]) -> Trial:
        center = self.workspace.center
        direction = parts.random_direction(self.n_directions, key=key)
        target = parts.at_direction(center, direction, self.distance)
        return parts.reach_trial(center, target, n_steps=self.n_steps, dt=self.dt, direction=direction)

    def validation_trials(self) -> Trial:
        n, options = self.n_directions or 8, {"n_steps": self.n_steps, "dt": self.dt}
        center = self.workspace.center
        return parts.center_out_trials(center, distance=self.distance, n_directions=n, **options)


def delayed_reach_loss() -> Loss:
    """Return the loss of `reach_loss`, with the position error in the movement only and a hold before it."""
    reach = PositionError(profile=PowerProfile(window=InEpoch("movement")))
    return parts.with_costs(reach + Hold(Before("go cue")))


class DelayedReaches(parts.AbstractPlannedReach):
    """Centre-out reaches with an instructed delay: the target is shown before the go cue.

    The delay follows Tanji & Evarts 1976, J Neurophysiol 39:1062, and the targets Georgopoulos et al. 1982, J
    Neurosci 2:1527 (compared with the abstracts only).

    - Inputs: "target" (space), its position in m from "target on", the centre before; "target shown"
        (1), 1 from "target on" on, 0 before; "go cue" (1), 1 from "go cue" on, 0 before and in catch trials.
    - Targets: the hand at rest at the start until "go cue", then at the target; in catch trials at the start.
    - Conditions: "direction" (rad) and "distance" (m) of the target from the start; "catch".

    The validation trials are one reach in each direction (eight if `n_directions` is None), at midpoints.
    """

    loss: Loss = fields.default_loss(default_factory=delayed_reach_loss)
    distance: Drawn = fields.drawn("the distance from centre to target, in m", default=0.1, check=POSITIVE)
    n_directions: int | None = fields.directions(default=8)
    hold: Drawn = fields.drawn("the time before target onset, in seconds", default=0.1, check=POSITIVE)
    delay: Drawn = fields.drawn("the time from target onset until the go cue, in seconds", default=(0.2, 0.6))
    catch_probability: Scalar = fields.fraction("the fraction of trials without a go cue", default=0.1)
    duration: float = fields.trial_duration(default=1.5)

    @property
    def plan(self) -> TrialPlan:
        epochs = parts.epochs_of(self, hold=None, delay="target on", movement="go cue")
        return parts.plan_of(self, epochs, "go cue", self.catch_probability)

    def draw_conditions(self, *, key: Key[Array, ""]) -> tuple[Array, ...]:
        direction = parts.random_direction(self.n_directions, key=key_stream(key, "direction"))
        return direction, self.distance.sample(key=key_stream(key, "distance"))

    def nominal(self) -> tuple[Array, ...]:
        directions = parts.even_directions(self.n_directions)
        return directions, jnp.broadcast_to(parts.middle_of(self.distance), directions.shape)

    def trial_of(self, timeline: Timeline, draws: tuple[Array, ...], *, key: Key[Array, ""]) -> Trial:
        center, (direction, distance) = self.workspace.center, draws
        target = parts.at_direction(center, direction, distance)
        shown, gone = timeline.since("target on")[:, None], timeline.since("go cue")[:, None]
        goal = parts.at_rest(jnp.where(gone, target, center))
        inputs = {"target": jnp.where(shown, target, center)}
        inputs |= {"target shown": shown.astype(center.dtype), "go cue": gone.astype(center.dtype)}
        labels = {"direction": parts.wrap_angle(direction), "distance": distance}
        labels |= {"catch": ~timeline.happens("go cue")}
        return Trial(parts.at_rest(center), inputs, goal, timeline, conditions=labels)


def obstacle_reach_loss(margin: float = 0.005) -> Loss:
    """Return the loss of `reach_loss`, and a cost of entering the obstacle or its margin.

    **Arguments:**

    - `margin`: how far from the edge the cursor should stay, in m.
    """
    return parts.reach_loss() + 30.0 * ObstacleEntry(margin=margin)


class ObstacleAvoidance(parts.AbstractFixedReach):
    """Obstacle avoidance: reach to a target around a round obstacle, which is shown.

    Start and target lie on opposite sides of the centre of the workspace, and are rotated about it, so that
    the place to be avoided stays, as in Sabes & Jordan 1997, J Neurosci 17:7119 (compared with the abstract
    only; there the obstacle is a barrier with a tip). The centre of the obstacle is beside or on the straight
    line to the target, halfway. Only the cursor must stay out of it, and nothing stops it there.

    - Inputs: "target" (space), at which the hand should be at rest, "obstacle" (space), its centre, or that
        of the workspace without one, and "obstacle radius" (1), in m; "obstacle shown" (1).
    - Conditions: "direction" of the target from the start (rad); "obstacle", whether there is one; "obstacle
        left", how far its centre is to the left of the straight line, and "obstacle radius" (m).

    `shortest_path_length` is the bound of the path, and `obstacle_clearance` how far the cursor stays from
    the edge. The validation trials have, in each direction (eight if `n_directions` is None), no obstacle and
    one at each offset (five of a uniform distribution), with distance and radius at their midpoints.
    """

    loss: Loss = fields.default_loss(default_factory=obstacle_reach_loss)
    distance: Drawn = fields.drawn("the distance from start to target, in m", default=0.16, check=POSITIVE)
    n_directions: int | None = fields.directions(default=8)
    offset: Drawn = fields.drawn(
        "how far the centre of the obstacle is to the left of the straight line from start to target, in m",
        default=[-0.015, 0.0, 0.015],
        check=FINITE,
    )
    radius: Drawn = fields.drawn(
        "the radius of the obstacle, which leaves start and target free, in m", default=0.03, check=POSITIVE
    )
    obstacle_probability: Scalar = fields.fraction("the fraction of trials with an obstacle", default=0.8)
    duration: float = fields.trial_duration(default=1.2)

    def __check_init__(self):
        bounds = [map(float, drawn.bounds()) for drawn in (self.distance, self.radius, self.offset)]
        (shortest, _), (_, largest), (low, high) = bounds
        nearest = max(low, -high, 0.0)  # the offset nearest to the straight line
        free = math.hypot(nearest, shortest / 2)
        if largest >= free:
            raise ValueError(
                f"`radius` must be below {free:.4g} m, so that start and target are outside of the obstacle, "
                f"got up to {largest:.4g} m."
            )

    def trial(self, *, batch: int | Int[Array, ""], key: Key[Array, ""]) -> Trial:
        return self._reach(
            parts.random_direction(self.n_directions, key=key_stream(key, "direction")),
            self.offset.sample(key=key_stream(key, "offset")),
            jax.random.bernoulli(key_stream(key, "obstacle"), self.obstacle_probability),
            self.distance.sample(key=key_stream(key, "distance")),
            self.radius.sample(key=key_stream(key, "radius")),
        )

    def validation_trials(self) -> Trial:
        directions, offsets = parts.even_directions(self.n_directions), parts.nominal_values(self.offset)
        direction, case = parts.all_combinations(len(directions), 1 + len(offsets))
        distance, radius = parts.middle_of(self.distance), parts.middle_of(self.radius)

        def reach(direction: Float[Array, ""], offset: Float[Array, ""], is_there: Bool[Array, ""]) -> Trial:
            return self._reach(direction, offset, is_there, distance, radius)

        return jax.vmap(reach)(directions[direction], offsets[case - 1], case > 0)

    def _reach(
        self,
        direction: Float[Array, ""],
        offset: Float[Array, ""],
        is_there: Bool[Array, ""],
        distance: Float[Array, ""],
        radius: Float[Array, ""],
    ) -> Trial:
        center = self.workspace.center
        start, target = (parts.at_direction(center, direction, side * distance / 2) for side in (-1, 1))
        offset, radius = jnp.where(is_there, offset, 0.0), jnp.where(is_there, radius, 0.0)
        obstacle = parts.at_direction(center, direction + 0.5 * jnp.pi, offset)
        reach = parts.reach_trial(start, target, n_steps=self.n_steps, dt=self.dt, direction=direction)
        shown = {"obstacle": obstacle, "obstacle radius": radius[None], "obstacle shown": is_there[None]}
        inputs = {
            name: jnp.broadcast_to(value, (self.n_steps, *value.shape)).astype(center.dtype)
            for name, value in shown.items()
        }
        labels = {"obstacle": is_there, "obstacle left": offset, "obstacle radius": radius}
        conditions = reach.conditions | labels
        return dataclasses.replace(reach, inputs=reach.inputs | inputs, conditions=conditions)


def obstacle_clearance(
    position: Float[Array | np.ndarray, "*axes time space"], trials: Trial
) -> Float[Array, "*axes time"]:
    """Return how far the cursor is from the edge of the obstacle, in m, negative in it, infinite without one.

    **Arguments:**

    - `position`: `states.cursor.position`, in m; axes (trial, time, space), perhaps with others before them.
    - `trials`: the trials, stacked, of `ObstacleAvoidance`.
    """
    return clearance_at(position, trials)


def shortest_path_length(trials: Trial) -> Float[Array, " trial"]:
    """Return the length of the shortest path from start to target outside of the obstacle, in m.

    Where the straight line meets the obstacle, the path consists of the two tangents from start and target,
    and the arc between them on the side that has less of the obstacle,

        L = (a² - R²)^½ + (b² - R²)^½ + R (θ - arccos(R / a) - arccos(R / b))

    with the radius R, the distances a and b of start and target from its centre, and the angle θ between them
    as seen from there. The path is the edge of the convex hull of start, target and disc on that side.

    **Arguments:**

    - `trials`: the trials, stacked, of `ObstacleAvoidance`.
    """
    start, target = trials.init.position, trials.targets.position[..., -1, :]
    obstacle, radius = trials.inputs["obstacle"][..., 0, :], trials.inputs["obstacle radius"][..., 0, 0]
    length = EuclideanDistance()
    a, b = length(start - obstacle), length(target - obstacle)
    toward_start, toward_target = (start - obstacle) / a[..., None], (target - obstacle) / b[..., None]
    angle = 2 * jnp.arctan2(length(toward_start - toward_target), length(toward_start + toward_target))
    arc = angle - jnp.arccos(radius / a) - jnp.arccos(radius / b)
    around = jnp.sqrt(a**2 - radius**2) + jnp.sqrt(b**2 - radius**2) + radius * arc
    return jnp.where(arc > 0, around, length(target - start))
