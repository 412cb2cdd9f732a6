"""Motions of bodies in the plane, for figures: segments, muscles, targets, cursor and force."""

import dataclasses
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float, PyTree

from popsim._compiled import jit
from popsim.hand import HandState
from popsim.muscles.paths import moment_arms
from popsim.network_input import inputs_by_name
from popsim.plants import AbstractPlant, MusculoskeletalPlant
from popsim.states import LoopState
from popsim.trial import Trial

__all__ = ["BodyMotion", "body_motion", "plant_motion"]

InPlane = Float[np.ndarray, "time 2"]
APART = 1e-4  # m; a cursor that is nearer to the hand is not drawn


@dataclasses.dataclass(frozen=True)
class BodyMotion:
    """The motion of a body in the plane, such as in one trial. Row t is at time (t + 1) dt.

    - `skeleton`: the points of the body, in m, see `AbstractPlant.skeleton_points`; the last is the hand.
    - `muscles`: the points of each muscle, in m; empty if they are not known.
    - `activation`: of each muscle, from 0 to 1; None for a body without muscles.
    - `target`: where the hand should be, in m; None for tasks without such a place.
    - `shown_targets`: where inputs called "target…" show one, in m, if it is not always `target`.
    - `cursor`: in m; None if it is always at the hand.
    - `force`: the external force on the hand at the start of the step, in N; None if it is always zero.
    - `epochs`: the name of the epoch, empty for none.
    """

    dt: float
    skeleton: Float[np.ndarray, "time point 2"]
    muscles: tuple[Float[np.ndarray, "time _ 2"], ...] = ()
    activation: Float[np.ndarray, "time muscle"] | None = None
    target: InPlane | None = None
    shown_targets: tuple[InPlane, ...] = ()
    cursor: InPlane | None = None
    force: InPlane | None = None
    epochs: tuple[str, ...] = ()

    @property
    def n_steps(self) -> int:
        """The number of time steps."""
        return len(self.skeleton)

    @property
    def hand(self) -> InPlane:
        """The position of the hand, in m."""
        return self.skeleton[:, -1]


def body_motion(states: LoopState, trial: Trial, model: Any) -> BodyMotion:
    """Return the motion of a body in one trial, for `draw_body` and `animate_body`.

    See `plant_motion` for how muscles are drawn.

    **Arguments:**

    - `states`: the recorded states of one trial of one member, with the axes (time, ...).
    - `model`: the model of the member, with a `plant`.
    """
    motion = plant_motion(model.plant, states.plant, dt=trial.timeline.dt)
    cursor, force = _in_plane(states.cursor.position), _in_plane(states.external_force)
    target = _in_plane(trial.targets.position) if isinstance(trial.targets, HandState) else None
    return dataclasses.replace(
        motion,
        target=target,
        shown_targets=_shown_targets(trial, states.hand.position.shape, target),
        cursor=cursor if np.abs(cursor - motion.hand).max() > APART else None,
        force=force if np.any(force) else None,
        epochs=_epoch_names(trial),
    )


def plant_motion(plant: AbstractPlant, states: PyTree[Array], *, dt: float) -> BodyMotion:
    """Return the motion of a body by itself, such as of `simulate_plant`, for `draw_body` and `animate_body`.

    Muscles whose path has points, see `AbstractMusclePath.world_points`, are where these are. Those of which
    only moment arms are known, as of `arm26`, get a schematic line: it passes each joint at the distance of
    its moment arm, and begins and ends at an invented place. Those of other bodies are a row of bars. A body
    in space is projected on the plane of x and y.

    **Arguments:**

    - `states`: its states, with the axes (time, ...), such as the `state` of a `PlantTrajectory`.
    """
    at_rest = jax.eval_shape(lambda: plant.rest_state(plant.workspace.center))
    shapes = [leaf.shape for leaf in jax.tree.leaves(at_rest)]
    given = [np.shape(leaf) for leaf in jax.tree.leaves(states)]
    if [shape[1:] for shape in given] != shapes or len({shape[:1] for shape in given}) != 1:
        raise ValueError(
            f"`states` must be those of one {type(plant).__name__} over time, arrays of shapes "
            f"{[('time', *shape) for shape in shapes]}, got {given}: of an ensemble in several trials, "
            "jax.tree.map(lambda leaf: leaf[member, trial], states)."
        )
    points = jax.tree.map(np.asarray, _points_over_time(plant, states))
    skeleton = _in_plane(points.skeleton)
    muscles, activation = (), None
    if points.moment_arms is not None:
        activation = np.asarray(states.activation, float)
        if points.muscles is not None:
            muscles = tuple(_in_plane(line) for line in points.muscles)
        elif skeleton.shape[1] == points.moment_arms.shape[-1] + 1:
            muscles = schematic_muscles(skeleton, points.moment_arms)
    return BodyMotion(dt, skeleton, muscles, activation)


class _Points(NamedTuple):
    skeleton: Any
    muscles: Any
    moment_arms: Any


@jit
def _points_over_time(plant: AbstractPlant, states: Any) -> _Points:
    def at_one_time(state: Any) -> _Points:
        skeleton = plant.skeleton_points(state)
        if not isinstance(plant, MusculoskeletalPlant):
            return _Points(skeleton, None, None)
        arms = moment_arms(plant.path, plant.coordinates(state)[0])
        return _Points(skeleton, plant.muscle_points(state), arms)

    return jax.vmap(at_one_time)(states)


def _in_plane(positions: Any) -> Float[np.ndarray, "... 2"]:
    values = np.asarray(positions, float)[..., :2]
    return np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, 2 - values.shape[-1])])


def _shown_targets(trial: Trial, shape: tuple[int, ...], target: InPlane | None) -> tuple[InPlane, ...]:
    inputs = inputs_by_name(trial.inputs)
    places = [value for name, value in inputs.items() if name.startswith("target")]
    shown = [_in_plane(value) for value in places if np.shape(value) == shape]
    return tuple(place for place in shown if target is None or not np.array_equal(place, target))


def _epoch_names(trial: Trial) -> tuple[str, ...]:
    names = [""] * trial.timeline.n_steps
    for name, bounds in trial.timeline.epochs.items():
        first, end = np.asarray(bounds).tolist()
        for step in range(max(first, 0), min(end, len(names))):
            names[step] = name
    return tuple(names)


TRUNK = 0.35  # of the first segment: how far from the first joint its muscles begin
ORIGIN, INSERTION = 0.55, 0.35  # of their segment: how far from the joint a muscle begins and ends
AT_ENDS = 0.7  # of its distance from the joint: how far from the bone a muscle begins and ends
OUTSIDE = 1.6  # how much further out a muscle over several joints is drawn
CROSSES = 1e-4  # m


def schematic_muscles(
    skeleton: Float[np.ndarray, "time point 2"], moment_arms: Float[np.ndarray, "time muscle joint"]
) -> tuple[Float[np.ndarray, "time _ 2"], ...]:
    """Return a line for each muscle of a planar chain, in m; see `plant_motion`.

    A muscle over several joints is further out, so that it shows. Where muscles begin and end, and the trunk,
    are invented. Moment arms, in m/rad, are negative if the muscle turns the joint counter-clockwise.
    """
    trunk = skeleton[:, 0] - [TRUNK * np.linalg.norm(skeleton[0, 1] - skeleton[0, 0]), 0.0]
    chain = np.concatenate([trunk[:, None], skeleton], axis=1)
    bones = np.diff(chain, axis=1)  # the bone before joint j is j, the one after it j + 1
    along = bones / np.linalg.norm(bones, axis=-1, keepdims=True)
    left = np.stack([-along[..., 1], along[..., 0]], axis=-1)
    lines = []
    for arms in np.moveaxis(moment_arms, 1, 0):
        joints = np.flatnonzero(np.abs(arms).max(axis=0) > CROSSES)
        distance = -arms * (OUTSIDE if len(joints) > 1 else 1.0)
        points = [skeleton[:, 0]] if len(joints) == 0 else []
        for joint in joints:
            outward = left[:, joint] + left[:, joint + 1]
            outward = outward / np.maximum(np.linalg.norm(outward, axis=-1, keepdims=True), 1e-9)
            off_bone = AT_ENDS * distance[:, joint, None]
            if joint == joints[0]:
                origin = skeleton[:, joint] - ORIGIN * bones[:, joint]
                points.append(origin + off_bone * left[:, joint])
            points.append(skeleton[:, joint] + distance[:, joint, None] * outward)
            if joint == joints[-1]:
                insertion = skeleton[:, joint] + INSERTION * bones[:, joint + 1]
                points.append(insertion + off_bone * left[:, joint + 1])
            else:
                middle = skeleton[:, joint] + 0.5 * bones[:, joint + 1]
                points.append(middle + distance[:, joint, None] * left[:, joint + 1])
        lines.append(np.stack(points, axis=1))
    return tuple(lines)
