"""Reaches to targets that move, or are revealed, while the hand moves."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from popsim._checks import as_float_array, check_positive, warn_of_unit
from popsim._plain_values import plain_number
from popsim.distributions import AbstractDistribution, Uniform, as_distribution
from popsim.hand import HandState, Workspace, as_workspace
from popsim.loss import Loss
from popsim.randomness import key_stream
from popsim.tasks.motor.interactive_reaches import (
    MovingTargetEnvironment,
    RevealEnvironment,
    tracking_reach_loss,
)
from popsim.tasks.trial_parts import (
    AbstractFixedTimes,
    all_combinations,
    at_direction,
    check_directions,
    check_drawn,
    even_directions,
    nominal_values,
    random_direction,
    reach_loss,
    wrap_angle,
)
from popsim.trial import Trial
from popsim.windows import Timeline

__all__ = ["GoBeforeYouKnow", "Interception"]


class Interception(AbstractFixedTimes):
    """Interception: catch a target that moves past in front of the hand, which ends the trial.

    The target moves along the first axis, from the left or from the right, at a constant speed, and is
    straight ahead of the hand at the time `passing_time`. The environment is a `MovingTargetEnvironment`,
    whose target the reach losses follow until it is caught.

    - Inputs: none. The environment shows "target" (space), its position in m, and "velocity of target"
        (space), in m/s.
    - Targets: the moving target.
    - Epoch "movement", the whole trial. Conditions: "speed" (m/s); "from left".

    The validation trials are five speeds from each side.

    **Arguments:**

    - `workspace`: the workspace; the hand starts at its centre.
    - `distance`: the distance of the path of the target from the start of the hand, in m.
    - `speed`: the speed of the target, in m/s; a number or a distribution.
    - `passing_time`: when the target is straight ahead, in seconds.
    - `radius`: within what distance the cursor has caught the target, in m.
    - `duration`, `dt`: the duration of a trial and the time step of the model, in seconds.
    - `loss`: the loss to train with.
    """

    workspace: Workspace = eqx.field(converter=as_workspace)
    loss: Loss = eqx.field(kw_only=True, default_factory=tracking_reach_loss)
    distance: float = eqx.field(static=True, converter=plain_number, kw_only=True, default=0.08)
    speed: AbstractDistribution = eqx.field(
        kw_only=True, converter=as_distribution, default_factory=lambda: Uniform(0.05, 0.2)
    )
    passing_time: float = eqx.field(static=True, converter=plain_number, kw_only=True, default=0.5)
    radius: Float[Array, ""] = eqx.field(kw_only=True, converter=as_float_array, default=0.01)
    duration: float = eqx.field(static=True, converter=plain_number, kw_only=True, default=1.0)
    dt: float = eqx.field(static=True, converter=plain_number, kw_only=True, default=0.01)

    def __check_init__(self):
        check_positive("distance", self.distance)
        check_drawn("speed", self.speed, check_positive)
        check_positive("passing_time", self.passing_time)
        check_positive("radius", self.radius)

    def trial(self, *, batch: int | Int[Array, ""], key: Key[Array, ""]) -> Trial:
        from_left = jax.random.bernoulli(key_stream(key, "side"))
        return self._catch(self.speed.sample(key=key_stream(key, "speed")), from_left)

    def validation_trials(self) -> Trial:
        speeds = nominal_values(self.speed)
        from_left, index = all_combinations(2, len(speeds))
        return jax.vmap(self._catch)(speeds[index], from_left.astype(bool))

    def _catch(self, speed: Float[Array, ""], from_left: Bool[Array, ""]) -> Trial:
        center = self.workspace.center
        velocity = jnp.zeros_like(center).at[0].set(jnp.where(from_left, speed, -speed))
        ahead = at_direction(center, jnp.asarray(jnp.pi / 2, center.dtype), self.distance)
        start = ahead - self.passing_time * velocity
        times = self.dt * jnp.arange(1.0, self.n_steps + 1)  # at the end of each step, as states are
        path = start + times[:, None] * velocity
        return Trial(
            init=HandState(center, jnp.zeros_like(center)),
            inputs=(),
            targets=HandState(path, jnp.broadcast_to(velocity, path.shape)),
            timeline=Timeline(self.dt, self.n_steps, epochs={"movement": jnp.array([0, self.n_steps])}),
            conditions={"speed": speed, "from left": from_left},
            environment=MovingTargetEnvironment(
                start, velocity, self.radius, jnp.asarray(self.dt, center.dtype)
            ),
        )


class GoBeforeYouKnow(AbstractFixedTimes):
    """Go before you know: reach while two targets are possible, and learn on the way which one is right.

    Which target is right is shown when the cursor has left the start, as in Chapman et al. 2010, Cognition
    116:168 (compared with the abstract). Until then the best movement is between the two. The environment
    is a `RevealEnvironment`.

    - Inputs: "target 1", "target 2" (space), their positions in m, throughout. The environment shows "right
        target" (2), one-hot once it is revealed.
    - Targets: the hand at rest at the right target.
    - Epoch "movement", the whole trial. Conditions: "direction" of the middle between the targets (rad);
        "right target", 1 or 2.

    The validation trials are each of the two targets in each direction (eight if `n_directions` is None).

    **Arguments:**

    - `workspace`: the workspace; reaches start at its centre.
    - `distance`: the distance of the targets from the centre, in m.
    - `separation`: the angle between the targets, in rad.
    - `n_directions`: the number of directions of the middle between them; None for the whole circle.
    - `reveal_distance`: the distance from the start at which the right target is shown, in m.
    - `radius`: how far from the target the cursor may be to be paid, in m.
    - `duration`, `dt`: the duration of a trial and the time step of the model, in seconds.
    - `loss`: the loss to train with.
    """

    workspace: Workspace = eqx.field(converter=as_workspace)
    loss: Loss = eqx.field(kw_only=True, default_factory=reach_loss)
    distance: float = eqx.field(static=True, converter=plain_number, kw_only=True, default=0.1)
    separation: float = eqx.field(static=True, converter=plain_number, kw_only=True, default=1.0)
    n_directions: int | None = eqx.field(static=True, converter=plain_number, kw_only=True, default=8)
    reveal_distance: Float[Array, ""] = eqx.field(kw_only=True, converter=as_float_array, default=0.02)
    radius: Float[Array, ""] = eqx.field(kw_only=True, converter=as_float_array, default=0.01)
    duration: float = eqx.field(static=True, converter=plain_number, kw_only=True, default=1.2)
    dt: float = eqx.field(static=True, converter=plain_number, kw_only=True, default=0.01)

    def __check_init__(self):
        check_positive("distance", self.distance)
        check_positive("separation", self.separation)
        warn_of_unit("separation", self.separation, "angle")
        check_directions(self.n_directions)
        check_positive("reveal_distance", self.reveal_distance)
        check_positive("radius", self.radius)

    def trial(self, *, batch: int | Int[Array, ""], key: Key[Array, ""]) -> Trial:
        direction = random_direction(self.n_directions, key=key_stream(key, "direction"))
        return self._reach(direction, jax.random.bernoulli(key_stream(key, "right target")))

    def validation_trials(self) -> Trial:
        directions = even_directions(self.n_directions)
        index, second_is_right = all_combinations(len(directions), 2)
        return jax.vmap(self._reach)(directions[index], second_is_right.astype(bool))

    def _reach(self, direction: Float[Array, ""], second_is_right: Bool[Array, ""]) -> Trial:
        center, half = self.workspace.center, self.separation / 2
        places = [at_direction(center, direction + side, self.distance) for side in (half, -half)]
        right = jnp.where(second_is_right, places[1], places[0])
        shape = (self.n_steps, *center.shape)
        goal = jnp.broadcast_to(right, shape)
        environment = RevealEnvironment(
            center, jnp.stack(places), second_is_right, self.reveal_distance, self.radius
        )
        return Trial(
            init=HandState(center, jnp.zeros_like(center)),
            inputs={f"target {i}": jnp.broadcast_to(place, shape) for i, place in enumerate(places, 1)},
            targets=HandState(goal, jnp.zeros_like(goal)),
            timeline=Timeline(self.dt, self.n_steps, epochs={"movement": jnp.array([0, self.n_steps])}),
            conditions={
                "direction": wrap_angle(direction),
                "right target": 1 + second_is_right.astype(int),
            },
            environment=environment,
        )
