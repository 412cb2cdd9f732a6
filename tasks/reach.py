"""What reaching tasks share: the trial of one reach, centre-out trials, and the usual loss."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from popsim.checks import check_positive, check_positive_int, n_steps_in
from popsim.hand import HandState
from popsim.loss import Loss
from popsim.losses import Effort, FinalVelocity, HiddenActivity, PositionError
from popsim.timeline import Timeline
from popsim.trial import Trial


def reach_loss() -> Loss:
    """The usual loss of a reach.

    Position error with a late profile, final velocity, and small costs of effort and of activity, in SI
    units. The proportions are those of Feedbax's simple reaches, with position and velocity weighted up
    because reaches of 10 cm make small numbers.
    """
    return PositionError() + 0.1 * FinalVelocity() + 1e-6 * Effort() + 1e-8 * HiddenActivity()


def check_reach_times(duration: float, dt: float) -> int:
    """The number of steps of a reach; raises `ValueError` unless `duration` is a multiple of `dt` above 0."""
    check_positive("dt", dt)
    check_positive("duration", duration)
    return n_steps_in("duration", duration, dt)


def reach_trial(
    start: Float[Array, " space"],
    target: Float[Array, " space"],
    *,
    n_steps: int,
    dt: float,
    direction: Float[Array, ""] | None = None,
) -> Trial:
    """A reach from `start` to `target` (both m) whose target is shown from the first step on.

    The input "target" is the target's position; the hand is to be there, at rest. The condition
    "direction" is that of the target from the start, in rad, above -pi and up to pi: that from which the
    target was made, if it is given, otherwise that of the way.
    """
    direction = direction_of(target - start) if direction is None else wrapped(direction)
    shown = jnp.broadcast_to(target, (n_steps, *target.shape))
    return Trial(
        init=HandState(start, jnp.zeros_like(start)),
        inputs={"target": shown},
        targets=HandState(shown, jnp.zeros_like(shown)),
        timeline=Timeline(
            dt, n_steps, epochs={"movement": jnp.array([0, n_steps])}, events={"target on": jnp.array(0)}
        ),
        conditions={"direction": direction},
    )


def center_out_trials(
    center: Float[Array, " space"], *, distance: float, n_directions: int, n_steps: int, dt: float
) -> Trial:
    """Reaches from `center` (m) to `n_directions` targets at `distance` (m), evenly around, stacked.

    The first target is to the right. In three dimensions the targets are in the plane of the first two
    axes.

    **Raises:** `ValueError` if `distance` or `n_directions` is not positive.
    """
    check_positive("distance", distance)
    check_positive_int("n_directions", n_directions)

    def reach_toward(angle):
        target = at_direction(center, angle, distance)
        return reach_trial(center, target, n_steps=n_steps, dt=dt, direction=angle)

    return jax.vmap(reach_toward)(even_directions(n_directions))


def even_directions(n_directions: int) -> Float[Array, " direction"]:
    """Directions evenly around the circle, in rad, the first to the right."""
    return jnp.linspace(0.0, 2 * jnp.pi, n_directions, endpoint=False)


def at_direction(
    center: Float[Array, " space"], angle: Float[Array, ""], distance: float | Float[Array, ""]
) -> Float[Array, " space"]:
    """The position `distance` metres from `center` in the direction `angle` (rad) of the first two axes."""
    return center.at[:2].add(distance * jnp.stack([jnp.cos(angle), jnp.sin(angle)]))


def random_direction(n_directions: int | None, *, key: Key[Array, ""]) -> Float[Array, ""]:
    """One of `n_directions` even directions, in rad; from the whole circle if None."""
    if n_directions is None:
        return jax.random.uniform(key, maxval=2 * jnp.pi)
    return jax.random.choice(key, even_directions(n_directions))


def direction_of(toward: Float[Array, " space"]) -> Float[Array, ""]:
    """The direction of a way in the plane of the first two axes, in rad, `wrapped`."""
    return wrapped(jnp.arctan2(toward[1], toward[0]))


def wrapped(angle: Float[Array, "*axes"]) -> Float[Array, "*axes"]:
    """The same direction (rad) above -pi and up to pi, as all tasks label it.

    Within 1e-5 rad of the left it is pi, so that rounding does not give one target two labels.
    """
    turns = jnp.ceil((angle - jnp.pi - 1e-5) / (2 * jnp.pi))
    return jnp.minimum(angle - 2 * jnp.pi * turns, jnp.pi)
