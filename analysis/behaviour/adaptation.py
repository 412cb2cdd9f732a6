"""Adaptation to force fields and visual perturbations."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PyTree

from popsim.analysis._arrays import AnyArray, Paths, Points, TimeCourses, as_float64, finite_float64
from popsim.analysis.behaviour.paths import leftward_component, movement_directions
from popsim.hand import HandState
from popsim.interventions import AbstractIntervention

__all__ = ["channel_force", "ideal_channel_force", "adaptation_index", "after_effect"]


def channel_force(
    external_force: Paths, starts: Points, targets: Points
) -> Float[np.ndarray, "*axes trial time"]:
    """Return the force of the hand against the walls of a `ForceChannel`, in N; positive to the left.

    **Arguments:**

    - `external_force`: the force of the walls alone, in N: of channel trials without a field.
    - `starts`, `targets`: the ends of the channel, in m.
    """
    return -leftward_component(
        finite_float64("external_force", external_force), movement_directions(starts, targets)
    )


def ideal_channel_force(
    hand: HandState, init: HandState, targets: Points, field: AbstractIntervention, parameters: PyTree
) -> Float[np.ndarray, "*axes trial time"]:
    """Return the force that would have compensated a field exactly, in N; positive to the left.

    It is minus the lateral force of the field on the hand as it moved in the channel. As in
    `states.external_force`, row t is the force at the start of step t, when the hand is in state t - 1, or in
    its initial state for t = 0.

    **Arguments:**

    - `hand`: `states.hand` of the channel trials, axes (member, trial, time).
    - `init`: `trials.init`, the hand at the start of each trial, axis (trial).
    - `targets`: the ends of the channels, in m.
    - `field`: such as `popsim.interventions.CurlField()`.
    - `parameters`: those of the field, the same in all trials, as for
        `popsim.interventions.schedule_intervention`.
    """
    starts = finite_float64("init", init.position)
    positions = _at_start_of_steps(hand.position, init.position, "position")
    velocities = _at_start_of_steps(hand.velocity, init.velocity, "velocity")
    with jax.enable_x64(True):
        params = jax.tree.map(
            lambda leaf: jnp.asarray(leaf, jnp.float64),
            parameters,
            is_leaf=lambda node: isinstance(node, (list, tuple)),
        )
        flat = HandState(jnp.asarray(positions.reshape(-1, 2)), jnp.asarray(velocities.reshape(-1, 2)))
        forces = np.asarray(
            jax.vmap(lambda hand_state: field.load(params).hand_force(hand_state))(flat)
        ).reshape(positions.shape)
    return -leftward_component(forces, movement_directions(starts, targets))


def _at_start_of_steps(course: Paths, first: Points, name: str) -> Float[np.ndarray, "*axes trial time 2"]:
    values, before = finite_float64(f"hand.{name}", course), finite_float64(f"init.{name}", first)
    begins = np.broadcast_to(before[:, None], (*values.shape[:-2], 1, 2))
    return np.concatenate([begins, values[..., :-1, :]], axis=-2)


def adaptation_index(
    channel_force: TimeCourses, ideal_force: TimeCourses
) -> Float[np.ndarray, "*axes trial"]:
    """Return the slope of the regression over time of the channel force on the ideal force.

    The slope cov(ideal, measured) / var(ideal) is 0 without adaptation and 1 with full adaptation; a constant
    push does not count. It is the adaptation coefficient of Smith, Ghazizadeh & Shadmehr 2006, PLoS Biol
    4:e179. NaN where the ideal force does not vary. Steps where either force is NaN, as from
    `mask_outside_window`, are ignored.
    """
    measured = as_float64("channel_force", channel_force)
    ideal = as_float64("ideal_force", ideal_force)
    counts = ~np.isnan(measured) & ~np.isnan(ideal)
    n_steps = np.maximum(counts.sum(axis=-1, keepdims=True), 1)

    def centered(force: np.ndarray) -> np.ndarray:
        force_or_zero = np.where(counts, force, 0.0)
        return np.where(counts, force_or_zero - force_or_zero.sum(axis=-1, keepdims=True) / n_steps, 0.0)

    along, measured_force = centered(ideal), centered(measured)
    varied = np.sum(along**2, axis=-1)
    return np.sum(along * measured_force, axis=-1) / np.where(varied > 0, varied, np.nan)


def after_effect(
    deviation: Float[AnyArray, "*axes trial"], baseline: Float[AnyArray, "*axes trial"]
) -> Float[np.ndarray, "*axes"]:
    """Return the mean change in deviation of trials with the field off, from before to after adaptation.

    In the unit of `deviation`. Its sign is opposite to that of the first deviations in the field
    (Shadmehr & Mussa-Ivaldi 1994, J Neurosci 14:3208-3224).

    **Arguments:**

    - `deviation`: of each trial with the field off, such as `maximum_perpendicular_deviation`.
    - `baseline`: of the same trials before any field; leading axes may be (batch, member).
    """
    after, before = finite_float64("deviation", deviation), finite_float64("baseline", baseline)
    if after.shape != before.shape:
        raise ValueError(f"`baseline` must have the shape of `deviation`, {after.shape}, got {before.shape}.")
    return np.asarray(np.mean(after - before, axis=-1))
