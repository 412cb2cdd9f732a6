"""What the hand does against the walls of a force channel, and what would be right in a force field."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PyTree

from popsim.analysis.arrays import AnyArray, finite_float64
from popsim.analysis.behaviour.line_of_movement import beside, movement_directions
from popsim.hand import HandState
from popsim.interventions import AbstractForceField


def channel_force(
    external_force: Float[AnyArray, "*axes trial time 2"],
    starts: Float[AnyArray, "trial 2"],
    targets: Float[AnyArray, "trial 2"],
) -> Float[np.ndarray, "*axes trial time"]:
    """The force of the hand against the walls of a `ForceChannel`, in N; positive to the left.

    **Arguments:**

    - `external_force`: that of the walls, and nothing else, on the hand, in N: `states.external_force` of
        channel trials in which no field is on.
    - `starts`, `targets`: between which the channel lies, in m.

    **Raises:** `ValueError` if a number is not finite, or a target is at its start.
    """
    return -beside(finite_float64("external_force", external_force), movement_directions(starts, targets))


def ideal_channel_force(
    hand: HandState,
    init: HandState,
    targets: Float[AnyArray, "trial 2"],
    field: AbstractForceField,
    parameters: PyTree,
) -> Float[np.ndarray, "*axes trial time"]:
    """The force that would have held against a field, had it been on, in N; positive to the left.

    Minus the lateral force of the field on the hand as it moved in the channel. In a `CurlField` it is b
    times the speed along the channel. As in `states.external_force`, row t is the force at the start of
    step t, when the hand is as row t - 1 of its states says, and first as at the start of the trial.

    **Arguments:**

    - `hand`: `states.hand` of the channel trials, axes (member, trial, time).
    - `init`: `trials.init`, the hand at the start of each trial, axis (trial).
    - `targets`: at the end of the channels, in m.
    - `field`: such as `popsim.CurlField()`.
    - `parameters`: those of the field, the same in all trials, as for `popsim.schedule_intervention`.

    **Raises:** `ValueError` if a number is not finite, or a target is at its start.
    """
    starts = finite_float64("init", init.position)
    positions = _at_start_of_steps(hand.position, init.position, "position")
    velocities = _at_start_of_steps(hand.velocity, init.velocity, "velocity")
    with jax.enable_x64(True):
        own = jax.tree.map(
            lambda leaf: jnp.asarray(leaf, jnp.float64),
            parameters,
            is_leaf=lambda node: isinstance(node, (list, tuple)),
        )
        flat = HandState(jnp.asarray(positions.reshape(-1, 2)), jnp.asarray(velocities.reshape(-1, 2)))
        forces = np.asarray(jax.vmap(lambda one: field.force(own, one))(flat)).reshape(positions.shape)
    return -beside(forces, movement_directions(starts, targets))


def _at_start_of_steps(
    course: Float[AnyArray, "*axes trial time 2"], first: Float[AnyArray, "trial 2"], name: str
) -> Float[np.ndarray, "*axes trial time 2"]:
    """A course that is known at the end of each step, at the start of each."""
    values, before = finite_float64(f"hand.{name}", course), finite_float64(f"init.{name}", first)
    begins = np.broadcast_to(before[:, None], (*values.shape[:-2], 1, 2))
    return np.concatenate([begins, values[..., :-1, :]], axis=-2)
