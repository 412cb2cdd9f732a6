"""Lines for muscles of which only moment arms are known."""

import numpy as np
from jaxtyping import Float

TRUNK = 0.35  # of the first segment: how far from the first joint its muscles begin
ORIGIN, INSERTION = 0.55, 0.35  # of their segment: how far from the joint a muscle begins and ends
AT_ENDS = 0.7  # of its distance from the joint: how far from the bone a muscle begins and ends
OUTSIDE = 1.6  # how much further out a muscle over several joints is drawn
CROSSES = 1e-4  # m


def schematic_muscles(
    skeleton: Float[np.ndarray, "time point 2"], moment_arms: Float[np.ndarray, "time muscle joint"]
) -> tuple[Float[np.ndarray, "time _ 2"], ...]:
    """Return a line for each muscle of a planar chain, with the axes (time, point, space), in m.

    The line passes each joint that the muscle crosses on the side to which it pulls, at the distance of its
    moment arm; a muscle over several joints further out, so that it shows. The rest is invented: where on its
    segments a muscle begins and ends, and a trunk to the left of the first joint. Moment arms, in m/rad, are
    negative if the muscle turns the joint counter-clockwise.
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
