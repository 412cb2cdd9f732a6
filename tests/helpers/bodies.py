"""Every plant without muscles, by name."""

import functools

import popsim

ARMS = {
    name: getattr(popsim.plants.TwoLinkArm, name) for name in ("arm26_skeleton", "motornet", "li_todorov")
}
PLANTS = {
    "point mass": popsim.plants.PointMass,
    "damped mass": functools.partial(popsim.plants.PointMass, 1.3, damping=4.0),
    **ARMS,
}
