"""Reaches around an obstacle."""

import dataclasses
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from popsim._checks import as_float_array, check_finite, check_fraction, check_positive, is_traced
from popsim._plain_values import plain_number
from popsim.distributions import AbstractDistribution, Choice, as_distribution
from popsim.hand import Workspace, as_workspace
from popsim.loss import Loss
from popsim.losses import EuclideanDistance, ObstacleEntry
from popsim.losses.obstacles import clearance_at
from popsim.per_member import has_per_member
from popsim.randomness import key_stream
from popsim.tasks.trial_parts import (
    AbstractFixedTimes,
    all_combinations,
    at_direction,
    check_directions,
    check_drawn,
    even_directions,
    middle_of,
    nominal_values,
    random_direction,
    reach_loss,
    reach_trial,
)
from popsim.trial import Trial

__all__ = ["obstacle_reach_loss", "ObstacleAvoidance", "obstacle_clearance", "shortest_path_length"]


def obstacle_reach_loss(margin: float = 0.005) -> Loss:
    """Return the loss of `reach_loss`, and a cost of entering the obstacle or its margin.

    The weight of the entry is one with which small networks learn to keep the cursor out.

    **Arguments:**

    - `margin`: how far from the edge the cursor should stay, in m.
    """
    return reach_loss() + 30.0 * ObstacleEntry(margin=margin)


class ObstacleAvoidance(AbstractFixedTimes):
    """Obstacle avoidance: reach to a target around a round obstacle, which is shown.

    Start and target lie on opposite sides of the centre of the workspace, and are rotated about it, so that
    the place to be avoided stays, as in Sabes & Jordan 1997, J Neurosci 17:7119 (compared with the abstract
    only; there the obstacle is a barrier with a tip). The centre of the obstacle is beside or on the straight
    line to the target, halfway. Only the cursor must stay out of it, and nothing stops it there.

    | input | shape | |
    | --- | --- | --- |
    | "target" | (time, space) | m; the position of the target |
    | "obstacle" | (time, space) | m; the centre of the obstacle, that of the workspace without one |
    | "obstacle radius" | (time, 1) | m; 0 without an obstacle |
    | "obstacle shown" | (time, 1) | 1 with an obstacle, 0 without |

    Targets: the hand at rest at the target. Epoch "movement", the whole trial. Conditions: "direction" of the
    target from the start (rad); "obstacle", whether there is one; "obstacle left", how far its centre is to
    the left of the straight line (m), and "obstacle radius" (m), both zero without one. The shorter way is on
    the side that has less of the obstacle. `shortest_path_length` is the bound of the path, and
    `obstacle_clearance` how far the cursor stays from the edge. The validation trials have, in each direction
    (eight if `n_directions` is None), no obstacle and one at each offset (five of a uniform distribution),
    with distance and radius at their midpoints.

    **Arguments:**

    - `workspace`: start and target lie around its centre.
    - `loss`: the loss to train with.
    - `distance`: the distance from start to target, in m; a number or a distribution.
    - `n_directions`: the number of directions; None for the whole circle.
    - `offset`: how far the centre of the obstacle is to the left of the straight line, in m; as `distance`.
    - `radius`: the radius of the obstacle, in m, which must leave start and target free; as `distance`.
    - `obstacle_probability`: the fraction of trials with an obstacle.
    - `duration`, `dt`: the duration of a trial and the time step of the model, in seconds.
    """

    workspace: Workspace = eqx.field(converter=as_workspace)
    loss: Loss = eqx.field(kw_only=True, default_factory=obstacle_reach_loss)
    distance: AbstractDistribution = eqx.field(kw_only=True, converter=as_distribution, default=0.16)
    n_directions: int | None = eqx.field(static=True, converter=plain_number, kw_only=True, default=8)
    offset: AbstractDistribution = eqx.field(
        kw_only=True, converter=as_distribution, default_factory=lambda: Choice([-0.015, 0.0, 0.015])
    )
    radius: AbstractDistribution = eqx.field(kw_only=True, converter=as_distribution, default=0.03)
    obstacle_probability: Float[Array, ""] = eqx.field(kw_only=True, converter=as_float_array, default=0.8)
    duration: float = eqx.field(static=True, converter=plain_number, kw_only=True, default=1.2)
    dt: float = eqx.field(static=True, converter=plain_number, kw_only=True, default=0.01)

    def __check_init__(self):
        check_drawn("distance", self.distance, check_positive)
        check_directions(self.n_directions)
        check_drawn("offset", self.offset, check_finite)
        check_drawn("radius", self.radius, check_positive)
        check_fraction("obstacle_probability", self.obstacle_probability)
        self._check_ends_are_free()

    def _check_ends_are_free(self) -> None:
        """Raise `ValueError` if the largest obstacle may cover the start or the target of a reach."""
        if has_per_member((self.distance, self.offset, self.radius)):
            return
        bounds = [drawn.bounds() for drawn in (self.distance, self.radius, self.offset)]
        if is_traced(bounds):
            return
        (shortest, _), (_, largest), (low, high) = ((float(end) for end in ends) for ends in bounds)
        nearest = max(low, -high, 0.0)  # the offset nearest to the straight line
        free = math.hypot(nearest, shortest / 2)
        if largest >= free:
            raise ValueError(
                f"`radius` must be below {free:.4g} m, so that start and target are outside of the obstacle, "
                f"got up to {largest:.4g} m."
            )

    def trial(self, *, batch: int | Int[Array, ""], key: Key[Array, ""]) -> Trial:
        return self._reach(
            random_direction(self.n_directions, key=key_stream(key, "direction")),
            self.offset.sample(key=key_stream(key, "offset")),
            jax.random.bernoulli(key_stream(key, "obstacle"), self.obstacle_probability),
            self.distance.sample(key=key_stream(key, "distance")),
            self.radius.sample(key=key_stream(key, "radius")),
        )

    def validation_trials(self) -> Trial:
        directions, offsets = even_directions(self.n_directions), nominal_values(self.offset)
        direction, case = all_combinations(len(directions), 1 + len(offsets))
        distance, radius = middle_of(self.distance), middle_of(self.radius)

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
        start, target = (at_direction(center, direction, side * distance / 2) for side in (-1, 1))
        offset, radius = jnp.where(is_there, offset, 0.0), jnp.where(is_there, radius, 0.0)
        obstacle = at_direction(center, direction + 0.5 * jnp.pi, offset)
        reach = reach_trial(start, target, n_steps=self.n_steps, dt=self.dt, direction=direction)
        shown = {"obstacle": obstacle, "obstacle radius": radius[None], "obstacle shown": is_there[None]}
        return dataclasses.replace(
            reach,
            inputs={
                **reach.inputs,
                **{
                    name: jnp.broadcast_to(value, (self.n_steps, *value.shape)).astype(center.dtype)
                    for name, value in shown.items()
                },
            },
            conditions={
                **reach.conditions,
                "obstacle": is_there,
                "obstacle left": offset,
                "obstacle radius": radius,
            },
        )


def obstacle_clearance(
    position: Float[Array | np.ndarray, "*axes time space"], trials: Trial
) -> Float[Array, "*axes time"]:
    """Return how far the cursor is from the edge of the obstacle, in m.

    It is negative in the obstacle, and infinite in trials without one. Its lowest value over time says
    whether the obstacle was avoided.

    **Arguments:**

    - `position`: `states.cursor.position`, in m; axes (trial, time, space), perhaps with others before them.
    - `trials`: the trials, stacked, of `ObstacleAvoidance`.
    """
    return clearance_at(position, trials)


def shortest_path_length(trials: Trial) -> Float[Array, " trial"]:
    """Return the length of the shortest path from start to target outside of the obstacle, in m.

    This is the lower bound of the path of a hand that ends at the target and avoids the obstacle. Where the
    straight line meets the obstacle, the path consists of the two tangents from start and target, and the arc
    between them on the side that has less of the obstacle,

        L = (a² - R²)^½ + (b² - R²)^½ + R (θ - arccos(R / a) - arccos(R / b))

    with the radius R, the distances a and b of start and target from its centre, and the angle θ between them
    as seen from there. The path is the edge of the convex hull of start, target and disc on that side,
    against which the tests check it.

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
